"""What each version lacks, and what stands for it there.

Two tables: which fields came (or went) with which version, and how a value that an older version cannot carry is said
in words that it knows. `trim` applies both, by a plan that is compiled once per type and version; where the plan is
empty the value goes through untouched, and no value is ever changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Struct

from dragoman import types
from dragoman.protocol.versions import V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28, Version

_NAMED = {"title": V2025_06_18, "meta": V2025_06_18, "icons": V2025_11_25}
_BLOCK = {"meta": V2025_06_18}
_RESULT = {"result_type": V2026_07_28}
_CACHEABLE = _RESULT | {"ttl_ms": V2026_07_28, "cache_scope": V2026_07_28}
_RETRY = {"input_responses": V2026_07_28, "request_state": V2026_07_28}

SINCE: dict[type[Struct], dict[str, Version]] = {
    types.Annotations: {"last_modified": V2025_06_18},
    types.Implementation: {
        "title": V2025_06_18,
        "description": V2025_11_25,
        "website_url": V2025_11_25,
        "icons": V2025_11_25,
    },
    types.Tool: _NAMED | {"annotations": V2025_03_26, "output_schema": V2025_06_18, "execution": V2025_11_25},
    types.Prompt: _NAMED,
    types.PromptArgument: {"title": V2025_06_18},
    types.Resource: _NAMED,
    types.ResourceTemplate: _NAMED,
    types.ResourceContents: _BLOCK,
    types.TextContent: _BLOCK,
    types.ImageContent: _BLOCK,
    types.AudioContent: _BLOCK,
    types.EmbeddedResource: _BLOCK,
    types.ResourceLink: {"icons": V2025_11_25},
    types.Root: _BLOCK,
    types.PromptReference: {"title": V2025_06_18},
    types.CompleteRequestParams: {"context": V2025_06_18},
    types.ProgressNotificationParams: {"message": V2025_03_26},
    types.ServerCapabilities: {"completions": V2025_03_26, "tasks": V2025_11_25, "extensions": V2025_11_25},
    types.ClientCapabilities: {"elicitation": V2025_06_18, "tasks": V2025_11_25, "extensions": V2025_11_25},
    types.SamplingCapability: {"context": V2025_11_25, "tools": V2025_11_25},
    types.ElicitationCapability: {"form": V2025_11_25, "url": V2025_11_25},
    types.SamplingMessage: {"meta": V2025_11_25},
    types.CreateMessageRequestParams: {"tools": V2025_11_25, "tool_choice": V2025_11_25, "task": V2025_11_25},
    types.ElicitRequestParams: {"mode": V2025_11_25, "task": V2025_11_25},
    types.CallToolRequestParams: _RETRY | {"task": V2025_11_25},
    types.GetPromptRequestParams: _RETRY,
    types.ReadResourceRequestParams: _RETRY,
    types.Result: _RESULT,
    types.InitializeResult: _RESULT,
    types.CallToolResult: _RESULT | {"structured_content": V2025_06_18},
    types.GetPromptResult: _RESULT,
    types.CompleteResult: _RESULT,
    types.CreateMessageResult: _RESULT,
    types.ListRootsResult: _RESULT,
    types.ElicitResult: _RESULT,
    types.ReadResourceResult: _CACHEABLE,
    types.ListToolsResult: _CACHEABLE,
    types.ListPromptsResult: _CACHEABLE,
    types.ListResourcesResult: _CACHEABLE,
    types.ListResourceTemplatesResult: _CACHEABLE,
}
"""The version that a field came with; a field that is not here has always been."""

UNTIL: dict[type[Struct], dict[str, Version]] = {
    types.Tool: {"execution": V2025_11_25},
    types.ServerCapabilities: {"tasks": V2025_11_25},
    types.ClientCapabilities: {"tasks": V2025_11_25},
    types.RootsCapability: {"list_changed": V2025_11_25},
    types.CallToolRequestParams: {"task": V2025_11_25},
    types.CreateMessageRequestParams: {"task": V2025_11_25},
    types.ElicitRequestParams: {"task": V2025_11_25, "elicitation_id": V2025_11_25},
}
"""The last version that has a field."""


T = TypeVar("T")

WRAPPED = "x-dragoman-wrapped"
"""Marks an output schema whose values travel as `{"result": value}`."""


def trim(value: T, version: Version) -> T:
    """Return the value as a version can carry it; the same object where nothing has to change."""
    return cast("T", _trim(value, version))


def _trim(value: Any, version: Version) -> Any:
    if isinstance(value, Struct):
        plan = _plan(type(value), version)
        return value if plan is None else plan.apply(value)
    if isinstance(value, list):
        return _unless_same(value, [_trim(item, version) for item in value])
    if type(value) is dict:
        return {key: _trim(item, version) for key, item in value.items()}
    return value


def _unless_same(before: list[Any], after: list[Any]) -> list[Any]:
    return before if all(old is new for old, new in zip(before, after, strict=True)) else after


class _Plan(Struct, frozen=True):
    version: Version
    dropped: dict[str, Any]
    nested: tuple[str, ...]
    convert: Callable[[Any], Any] | None

    def apply(self, value: Struct) -> Any:
        changes = {name: default for name, default in self.dropped.items() if getattr(value, name) is not default}
        for name in self.nested:
            before = getattr(value, name)
            after = _trim(before, self.version)
            if after is not before:
                changes[name] = after
        trimmed = msgspec.structs.replace(value, **changes) if changes else value
        return trimmed if self.convert is None else self.convert(trimmed)


@cache
def _plan(kind: type[Struct], version: Version) -> _Plan | None:
    fields = msgspec.structs.fields(kind)
    dropped = {field.name: field.default for field in fields if not _carries(kind, field.name, version)}
    nested = tuple(
        field.name
        for field in fields
        if field.name not in dropped and any(_plan(inner, version) for inner in _structs_in(field.type))
    )
    since, convert = CONVERSIONS.get(kind, (version, None))
    if version >= since:
        convert = None
    return _Plan(version, dropped, nested, convert) if dropped or nested or convert else None


def _carries(kind: type[Struct], name: str, version: Version) -> bool:
    since = SINCE.get(kind, {}).get(name, version)
    until = UNTIL.get(kind, {}).get(name, version)
    return since <= version <= until


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


def _structured_object(result: types.CallToolResult) -> types.CallToolResult:
    if result.structured_content is UNSET or isinstance(result.structured_content, dict):
        return result
    return wrap_result(result)


def wrap_result(result: types.CallToolResult) -> types.CallToolResult:
    """Return the result with its structured content inside an object, as versions before 2026-07-28 demand."""
    return msgspec.structs.replace(result, structured_content={"result": result.structured_content})


def wraps(output_schema: types.Json) -> bool:
    """Tell whether values of a schema are wrapped for versions before 2026-07-28: its root is not an object."""
    return output_schema.get("type") != "object"


def _object_schema(tool: types.Tool) -> types.Tool:
    if tool.output_schema is None or not wraps(tool.output_schema):
        return tool
    return msgspec.structs.replace(tool, output_schema=_wrap_schema(tool.output_schema))


def _wrap_schema(schema: types.Json) -> types.Json:
    dialect = {key: value for key, value in schema.items() if key == "$schema"}
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    # A schema with an $id is a document of its own, so its references keep their meaning wherever it stands.
    if "$id" not in inner:
        inner = _rebase(inner)
    return {**dialect, "type": "object", "properties": {"result": inner}, "required": ["result"], WRAPPED: True}


_VALUES = frozenset({"const", "enum", "default", "examples"})


def _rebase(schema: Any) -> Any:
    """Let references into the document point to where the schema now stands."""
    if isinstance(schema, list):
        return [_rebase(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value if key in _VALUES else _rebase_keyword(key, value) for key, value in schema.items()}


def _rebase_keyword(key: str, value: Any) -> Any:
    if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
        return "#/properties/result" + value[1:] if value == "#" or value.startswith("#/") else value
    return _rebase(value)


def _one_block_a_message(params: types.CreateMessageRequestParams) -> types.CreateMessageRequestParams:
    messages = [
        types.SamplingMessage(message.role, block, meta=message.meta)
        for message in params.messages
        for block in (message.content if isinstance(message.content, list) else [message.content])
    ]
    return msgspec.structs.replace(params, messages=messages)


def _plain_form(params: types.ElicitRequestParams) -> types.ElicitRequestParams:
    properties = (params.requested_schema or {}).get("properties")
    if not isinstance(properties, dict):
        return params
    schema = {**(params.requested_schema or {}), "properties": {k: _plain_field(v) for k, v in properties.items()}}
    return msgspec.structs.replace(params, requested_schema=schema)


def _plain_field(field: Any) -> Any:
    """2025-06-18 has defaults on booleans only, and titles of choices in `enumNames`."""
    if not isinstance(field, dict):
        return field
    plain = {
        key: value for key, value in field.items() if key != "oneOf" and (key != "default" or isinstance(value, bool))
    }
    if "oneOf" in field:
        plain["enum"] = [option["const"] for option in field["oneOf"]]
        plain["enumNames"] = [option["title"] for option in field["oneOf"]]
    return plain


CONVERSIONS: dict[type[Struct], tuple[Version, Callable[[Any], Any]]] = {
    types.AudioContent: (V2025_03_26, _audio_as_text),
    types.ResourceLink: (V2025_06_18, _link_as_text),
    types.CallToolResult: (V2026_07_28, _structured_object),
    types.Tool: (V2026_07_28, _object_schema),
    types.CreateMessageRequestParams: (V2025_11_25, _one_block_a_message),
    types.ElicitRequestParams: (V2025_11_25, _plain_form),
}
"""The version from which on a value may stay as it is, and what stands for it before."""
