"""The tables of fields by version, and `trim`, which gives a value the form that a version defines.

`SINCE` and `UNTIL` list the first and the last version of a field. `CONVERSIONS` lists how a value is written for a
version that does not define its type, for example a resource link as text. `trim` applies these tables by a plan, which
is compiled once for each type and version. If the plan is empty, `trim` returns the value itself. `trim` never changes
a value in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import is_
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman import types
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28, Version
from dragoman.schema.walk import REFERENCES, with_subschemas
from dragoman.types.content import Block
from dragoman.types.decoding import fields_of
from dragoman.types.memo import Memo
from dragoman.types.wire import Named

_META = {"meta": V2025_06_18}
_RETRY = {"input_responses": V2026_07_28, "request_state": V2026_07_28}

SINCE: dict[type[Struct], dict[str, Version]] = {
    types.Annotations: {"last_modified": V2025_06_18},
    types.Implementation: {
        "title": V2025_06_18,
        "description": V2025_11_25,
        "website_url": V2025_11_25,
        "icons": V2025_11_25,
    },
    Named: _META | {"title": V2025_06_18, "icons": V2025_11_25},
    types.Tool: {"annotations": V2025_03_26, "output_schema": V2025_06_18, "execution": V2025_11_25},
    types.PromptArgument: {"title": V2025_06_18},
    types.ResourceContents: _META,
    Block: _META,
    types.ResourceLink: {"icons": V2025_11_25},
    types.Root: _META,
    types.PromptReference: {"title": V2025_06_18},
    types.CompleteRequestParams: {"context": V2025_06_18},
    types.ProgressNotificationParams: {"message": V2025_03_26},
    types.ServerCapabilities: {"completions": V2025_03_26, "tasks": V2025_11_25, "extensions": V2025_06_18},
    types.ClientCapabilities: {"elicitation": V2025_06_18, "tasks": V2025_11_25, "extensions": V2025_06_18},
    types.SamplingCapability: {"context": V2025_11_25, "tools": V2025_11_25},
    types.ElicitationCapability: {"form": V2025_11_25, "url": V2025_11_25},
    types.SamplingMessage: {"meta": V2025_11_25},
    types.CreateMessageRequestParams: {"tools": V2025_11_25, "tool_choice": V2025_11_25, "task": V2025_11_25},
    types.ElicitRequestParams: {
        "mode": V2025_11_25,
        "url": V2025_11_25,
        "elicitation_id": V2025_11_25,
        "task": V2025_11_25,
    },
    types.CallToolRequestParams: _RETRY | {"task": V2025_11_25},
    types.GetPromptRequestParams: _RETRY,
    types.ReadResourceRequestParams: _RETRY,
    types.Result: {"result_type": V2026_07_28},
    types.CacheableResult: {"ttl_ms": V2026_07_28, "cache_scope": V2026_07_28},
    types.CallToolResult: {"structured_content": V2025_06_18},
}
"""The first version of a field, for a type and its subclasses. A field that is not listed exists in every version."""

UNTIL: dict[type[Struct], dict[str, Version]] = {
    types.Tool: {"execution": V2025_11_25},
    types.ServerCapabilities: {"tasks": V2025_11_25},
    types.ClientCapabilities: {"tasks": V2025_11_25},
    types.RootsCapability: {"list_changed": V2025_11_25},
    types.CallToolRequestParams: {"task": V2025_11_25},
    # Since 2026-07-28 these objects are parts of other messages, and lack `_meta` or `resultType` of their own.
    types.CreateMessageRequestParams: {"task": V2025_11_25, "meta": V2025_11_25},
    types.CreateMessageResult: {"result_type": V2025_11_25},
    types.ElicitRequestParams: {"task": V2025_11_25, "elicitation_id": V2025_11_25, "meta": V2025_11_25},
    types.ElicitResult: {"result_type": V2025_11_25, "meta": V2025_11_25},
    types.ListRootsResult: {"result_type": V2025_11_25, "meta": V2025_11_25},
}
"""The last version of a field, for a type and its subclasses."""


T = TypeVar("T")
Structured = TypeVar("Structured", types.CallToolResult, types.ToolResultContent)

WRAP_MARKS = ("x-dragoman-wrapped", "x-fastmcp-wrap-result")
WRAP_META: types.Json = {"fastmcp": {"wrap_result": True}}
"""The mark of a wrapped result, which clients of FastMCP read too."""
"""Keywords of an output schema whose values are sent as `{"result": value}`; FastMCP reads the second."""


def trim(value: T, version: Version) -> T:
    """Return a value in the form that a version defines; the same object if nothing changes."""
    plan = _plans[version][type(value)]
    return value if plan is None else plan(value)


class _Plan(Struct, frozen=True):
    version: Version
    dropped: tuple[tuple[str, Any], ...]
    nested: tuple[str, ...]
    conversions: tuple[Callable[[Any], Any], ...]

    def apply(self, value: Any) -> Any:
        for name, default in self.dropped:
            if getattr(value, name) is not default:
                value = msgspec.structs.replace(value, **dict(self.dropped))
                break
        if self.nested:
            before = {name: getattr(value, name) for name in self.nested}
            after = _trim_members(before, self.version)
            value = value if after is before else msgspec.structs.replace(value, **after)
        for convert in self.conversions:
            value = convert(value)
        return value


def _trim_items(items: list[Any], version: Version) -> list[Any]:
    trimmed = [trim(item, version) for item in items]
    return items if all(map(is_, items, trimmed)) else trimmed


def _trim_members(members: dict[str, Any], version: Version) -> dict[str, Any]:
    trimmed = {key: trim(member, version) for key, member in members.items()}
    return members if all(map(is_, members.values(), trimmed.values())) else trimmed


def _plan(kind: type, version: Version) -> Callable[[Any], Any] | None:
    """Return the function that trims values of a type, None if they never change."""
    if issubclass(kind, list):
        return partial(_trim_items, version=version)
    if kind is dict:
        return partial(_trim_members, version=version)
    return _struct_plan(kind, version) if issubclass(kind, Struct) else None


def _struct_plan(kind: type[Struct], version: Version) -> Callable[[Any], Any] | None:
    fields = fields_of[kind]
    dropped = {field.name: field.default for field in fields if not _carries(kind, field.name, version)}
    nested = tuple(
        field.name
        for field in fields
        if field.name not in dropped and any(_changes(inner, version) for inner in _reachable(field.type))
    )
    conversions = _conversions(kind, version)
    is_needed = dropped or nested or conversions
    return _Plan(version, tuple(dropped.items()), nested, conversions).apply if is_needed else None


_plans: Memo[Version, Memo[type, Callable[[Any], Any] | None]] = Memo(
    lambda version: Memo(lambda kind: _plan(kind, version))
)


def _changes(kind: type[Struct], version: Version) -> bool:
    fields = fields_of[kind]
    return bool(_conversions(kind, version)) or not all(_carries(kind, field.name, version) for field in fields)


def _conversions(kind: type[Struct], version: Version) -> tuple[Callable[[Any], Any], ...]:
    return tuple(convert for base in kind.__mro__ for since, convert in CONVERSIONS.get(base, ()) if version < since)


def _carries(kind: type[Struct], name: str, version: Version) -> bool:
    since, until = _find(SINCE, kind, name), _find(UNTIL, kind, name)
    return (since is None or since <= version) and (until is None or version <= until)


def _find(table: Mapping[type[Struct], Mapping[str, Version]], kind: type[Struct], name: str) -> Version | None:
    return next((table[base][name] for base in kind.__mro__ if name in table.get(base, ())), None)


def _reachable(annotation: Any) -> set[type[Struct]]:
    """Return the Structs that a value of this annotation may contain, at any depth."""
    found: set[type[Struct]] = set()
    unvisited = _structs_in(annotation)
    while unvisited:
        kind = unvisited.pop()
        if kind not in found:
            found.add(kind)
            unvisited += [inner for field in fields_of[kind] for inner in _structs_in(field.type)]
    return found


def _structs_in(annotation: Any) -> list[type[Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return [annotation]
    return [struct for argument in get_args(annotation) for struct in _structs_in(argument)]


def _audio_as_text(block: types.AudioContent) -> types.TextContent:
    return types.TextContent(
        f"[{block.mime_type} audio, left out: this protocol version has none]", annotations=block.annotations
    )


def _link_as_text(block: types.ResourceLink) -> types.TextContent:
    return types.TextContent(f"[{block.title or block.name}]({block.uri})", annotations=block.annotations)


def _tool_use_as_text(block: types.ToolUseContent) -> types.TextContent:
    return types.TextContent(f"[called {block.name} with {encode(block.input).decode()}]")


def _tool_result_as_text(block: types.ToolResultContent) -> types.TextContent:
    return types.TextContent(_as_text(block.content))


def _as_text(blocks: Iterable[types.ContentBlock | types.SamplingMessageContentBlock]) -> str:
    return "\n".join(block.text if isinstance(block, types.TextContent) else f"[{block.type}]" for block in blocks)


def _structured_object(result: Structured) -> Structured:
    structured = result.structured_content
    if structured is UNSET or isinstance(structured, dict) or _is_encoded_object(structured):
        return result
    wrapped = _wrapped(result)
    if isinstance(wrapped, types.CallToolResult):
        wrapped.meta = marked_as_wrapped(wrapped.meta)
    return wrapped


def _is_encoded_object(value: Any) -> bool:
    return isinstance(value, Raw) and bytes(memoryview(value)[:1]) == b"{"


def wrap_structured_content(result: types.Result) -> types.Result:
    """Return the result of a tool with its structured content, if it has any, as `{"result": ...}`."""
    if isinstance(result, types.CallToolResult) and result.structured_content is not UNSET:
        return _wrapped(result)
    return result


def _wrapped(result: Structured) -> Structured:
    wrapped: Any = result.__copy__()  # type: ignore[attr-defined]
    wrapped.structured_content = {"result": result.structured_content}
    return wrapped  # type: ignore[no-any-return]


def marked_as_wrapped(meta: types.Json | None) -> types.Json:
    """Return the `_meta` of a result whose structured content is wrapped, for tools whose schema does not say so."""
    return {**(meta or {}), **WRAP_META}


def is_marked_as_wrapped(meta: types.Json | None) -> bool:
    """Tell whether the `_meta` of a result says that its structured content is wrapped."""
    return meta is not None and all(meta.get(key) == mark for key, mark in WRAP_META.items())


def needs_wrapping(output_schema: types.Json) -> bool:
    """Tell whether versions before 2026-07-28 need the values of a schema wrapped: its root is not an object."""
    return output_schema.get("type") != "object"


def is_wrapped(output_schema: types.Json) -> bool:
    """Tell whether an output schema has a keyword that marks wrapped values."""
    return any(output_schema.get(mark) is True for mark in WRAP_MARKS)


def _object_schema(tool: types.Tool) -> types.Tool:
    if tool.output_schema is None or not needs_wrapping(tool.output_schema):
        return tool
    return msgspec.structs.replace(tool, output_schema=wrap_output_schema(tool.output_schema))


def wrap_output_schema(schema: types.Json) -> types.Json:
    """Return the schema of an object whose property `result` has the given schema."""
    marks = dict.fromkeys(WRAP_MARKS, True)
    dialect = {key: value for key, value in schema.items() if key == "$schema"}
    inner = _rebase({key: value for key, value in schema.items() if key != "$schema"})
    return {**dialect, "type": "object", "properties": {"result": inner}, "required": ["result"], **marks}


def _rebase(schema: types.Json, *_: Any) -> types.Json:
    """Prefix references within the document, because the schema moves to `#/properties/result`."""
    # A schema with an $id is a separate document, so its references do not depend on its place.
    if not str(schema.get("$id", "#")).startswith("#"):
        return schema
    rebased = with_subschemas(schema, _rebase)
    for keyword in REFERENCES:
        target = schema.get(keyword)
        if isinstance(target, str) and (target == "#" or target.startswith("#/")):
            rebased[keyword] = "#/properties/result" + target[1:]
    return rebased


def _one_block_a_message(params: types.CreateMessageRequestParams) -> types.CreateMessageRequestParams:
    if not any(isinstance(message.content, list) for message in params.messages):
        return params
    messages = [
        types.SamplingMessage(message.role, block, meta=message.meta)
        for message in params.messages
        for block in (message.content if isinstance(message.content, list) else [message.content])
    ]
    return msgspec.structs.replace(params, messages=messages)


def _one_block(result: types.CreateMessageResult) -> types.CreateMessageResult:
    if not isinstance(result.content, list):
        return result
    block = result.content[0] if len(result.content) == 1 else types.TextContent(_as_text(result.content))
    return msgspec.structs.replace(result, content=block)


def _plain_form(params: types.ElicitRequestParams) -> types.ElicitRequestParams:
    schema = params.requested_schema or {}
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    if isinstance(schema.get("properties"), dict):
        plain["properties"] = {name: _plain_field(field) for name, field in schema["properties"].items()}
    return params if plain == schema else msgspec.structs.replace(params, requested_schema=plain)


def _plain_field(field: Any) -> Any:
    """Return a form field for 2025-06-18: defaults on booleans only, single choices only, titles in `enumNames`."""
    if not isinstance(field, dict):
        return field
    single = _single_choice(field)
    plain = {key: value for key, value in single.items() if key != "default" or isinstance(value, bool)}
    for keyword in ("oneOf", "anyOf"):
        if _are_choices(plain.get(keyword)):
            options = plain.pop(keyword)
            plain["enum"] = [option["const"] for option in options]
            plain["enumNames"] = [option.get("title", option["const"]) for option in options]
    return plain


def _single_choice(field: types.Json) -> types.Json:
    if field.get("type") != "array" or not isinstance(field.get("items"), dict):
        return field
    words = {key: value for key, value in field.items() if key in ("title", "description")}
    return {**field["items"], **words, "type": "string"}


def _are_choices(options: Any) -> bool:
    return isinstance(options, list) and all(isinstance(option, dict) and "const" in option for option in options)


CONVERSIONS: dict[type[Struct], tuple[tuple[Version, Callable[[Any], Any]], ...]] = {
    types.AudioContent: ((V2025_03_26, _audio_as_text),),
    types.ResourceLink: ((V2025_06_18, _link_as_text),),
    types.ToolUseContent: ((V2025_11_25, _tool_use_as_text),),
    types.ToolResultContent: ((V2026_07_28, _structured_object), (V2025_11_25, _tool_result_as_text)),
    types.CallToolResult: ((V2026_07_28, _structured_object),),
    types.Tool: ((V2026_07_28, _object_schema),),
    types.CreateMessageRequestParams: ((V2025_11_25, _one_block_a_message),),
    types.CreateMessageResult: ((V2025_11_25, _one_block),),
    types.ElicitRequestParams: ((V2025_11_25, _plain_form),),
}
"""For each type, the version from which on its values need no conversion, and the conversion; newest first."""
