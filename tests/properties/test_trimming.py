"""Whatever a server or client has to say, each version is told it in words that its official schema defines."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import types
from dragoman.protocol.fields import trim
from dragoman.protocol.versions import V2025_06_18, V2025_11_25, V2026_07_28, VERSIONS, Version
from schemas.documents import SchemaDocument, document
from schemas.folder import schema_folder
from schemas.generator import OPEN_MEMBERS

FOLDER = schema_folder()

KINDS: tuple[type[Struct], ...] = (
    types.CallToolRequestParams,
    types.CallToolResult,
    types.ClientCapabilities,
    types.CompleteRequestParams,
    types.CompleteResult,
    types.CreateMessageRequestParams,
    types.CreateMessageResult,
    types.DiscoverResult,
    types.ElicitRequestParams,
    types.ElicitResult,
    types.GetPromptRequestParams,
    types.GetPromptResult,
    types.Implementation,
    types.InitializeRequestParams,
    types.InitializeResult,
    types.InputRequiredResult,
    types.ListPromptsResult,
    types.ListResourceTemplatesResult,
    types.ListResourcesResult,
    types.ListRootsResult,
    types.ListToolsResult,
    types.LoggingMessageNotificationParams,
    types.ProgressNotificationParams,
    types.Prompt,
    types.PromptMessage,
    types.ReadResourceRequestParams,
    types.ReadResourceResult,
    types.Resource,
    types.ResourceTemplate,
    types.Root,
    types.ServerCapabilities,
    types.Tool,
)

SENT_ALTHOUGH_UNDEFINED = {(V2025_06_18, "extensions"), (V2025_11_25, "extensions")}
"""Capabilities are open sets, and extensions announce themselves in the handshake too."""

texts = st.text(max_size=6)
# The `JSONValue` of 2026-07-28 knows neither null nor fractions.
scalars = st.booleans() | st.integers() | texts
objects = st.dictionaries(texts, scalars, max_size=2)
json_values = st.none() | scalars | objects | st.lists(st.none() | scalars | objects, max_size=2)
uris = st.builds("{}://host/{}".format, st.sampled_from(["file", "https", "note"]), st.text("abc019-._~/", max_size=6))
base64_texts = st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())
fractions = st.integers(0, 1) | st.floats(0, 1)

subschemas = st.sampled_from([{}, {"type": "string"}, {"$ref": "#/$defs/leaf"}, {"enum": [1, {"$ref": "#/nowhere"}]}])
schema_members = st.fixed_dictionaries(
    {}, optional={"$schema": st.just("https://json-schema.org/draft/2020-12/schema"), "$defs": st.just({"leaf": {}})}
)
object_schemas = st.builds(
    lambda members, properties: {**members, "type": "object", "properties": properties},
    schema_members,
    st.dictionaries(texts, subschemas, max_size=2),
)
other_schemas = st.builds(
    lambda members, root: {**members, **root},
    schema_members,
    st.sampled_from([{}, {"type": "array", "items": {"$ref": "#/$defs/leaf"}}, {"type": ["object", "null"]}]),
)

words = {"title": texts, "description": texts}
choices = st.lists(texts, min_size=1, max_size=3)
titled_choices = st.lists(st.fixed_dictionaries({"const": texts, "title": texts}), min_size=1, max_size=3)


def form_field(
    kind: str, always: dict[str, Any] | None = None, **sometimes: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(kind), **(always or {})}, optional={**words, **sometimes})


form_fields = st.one_of(
    form_field("string", minLength=st.just(1), format=st.sampled_from(["email", "date"]), default=texts),
    form_field("integer", minimum=st.integers(), maximum=st.integers(), default=st.integers()),
    form_field("boolean", default=st.booleans()),
    form_field("string", {"enum": choices}, default=texts),
    form_field("string", {"enum": choices, "enumNames": choices}),
    form_field("string", {"oneOf": titled_choices}, default=texts),
    form_field("array", {"items": st.fixed_dictionaries({"type": st.just("string"), "enum": choices})}),
    form_field("array", {"items": st.fixed_dictionaries({"anyOf": titled_choices})}, maxItems=st.just(2)),
)
forms = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(texts, form_fields, max_size=3)},
    optional={"$schema": texts, "required": st.lists(texts, max_size=2)},
)
envelope = Raw(json.dumps({types.PROTOCOL_VERSION: V2026_07_28.name, types.CLIENT_CAPABILITIES: {}}).encode())

BY_FIELD: dict[str, SearchStrategy[Any]] = {
    "blob": base64_texts,
    "cache_scope": st.sampled_from(["public", "private"]),
    "cost_priority": fractions,
    "data": base64_texts,
    "input_responses": st.none() | st.just({"ask": Raw(b'{"action": "cancel"}')}),
    "input_schema": object_schemas,
    "intelligence_priority": fractions,
    "output_schema": st.none() | object_schemas | other_schemas,
    "priority": fractions,
    "result_type": st.just("complete"),
    "speed_priority": fractions,
    "src": uris,
    "structured_content": st.just(UNSET) | json_values,
    "tasks": st.sampled_from([None, {}, {"list": {}, "cancel": {}}]),
    "ttl_ms": st.integers(0, 1000),
    "uri": uris,
    "uri_template": st.just("note://{name}"),
    "website_url": uris,
}
"""What a field holds, wherever its type says less than its schema."""

BY_TYPE: dict[Any, SearchStrategy[Any]] = {
    str: texts,
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    NoneType: st.none(),
    UnsetType: st.just(UNSET),
    Raw: st.sampled_from([Raw(b"{}"), Raw(b'{"city": "Cairo"}')]),
    Any: json_values,
    types.Json: objects,
    types.CompletionContext: st.builds(types.CompletionContext, st.dictionaries(texts, texts, max_size=2)),
    types.ElicitResult: st.builds(
        types.ElicitResult,
        st.sampled_from(["accept", "decline", "cancel"]),
        st.none() | st.dictionaries(texts, st.booleans() | st.integers() | texts, max_size=2),
    ),
    types.ListRootsRequest: st.just(types.ListRootsRequest()),
    types.ResourceContents: st.builds(types.ResourceContents, uris, st.none() | texts, texts, meta=objects)
    | st.builds(types.ResourceContents, uris, blob=base64_texts, meta=st.none() | objects),
}


@cache
def wire_values(kind: Any) -> SearchStrategy[Any]:
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    if kind is types.ElicitRequestParams:
        return elicitations(V2026_07_28)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return st.builds(kind, **{field.name: field_values(field) for field in msgspec.structs.fields(kind)})
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([wire_values(argument) for argument in arguments])
    if origin is list:
        return st.lists(wire_values(arguments[0]), max_size=2)
    assert origin is dict, kind
    return st.dictionaries(texts, wire_values(arguments[1]), max_size=2)


def field_values(field: msgspec.structs.FieldInfo) -> SearchStrategy[Any]:
    if field.encode_name == "_meta":
        return st.just(envelope) if Raw in get_args(field.type) else st.none() | objects
    if field.name == "task":
        return st.sampled_from([UNSET, Raw(b"{}"), Raw(b'{"ttl": 5}')])
    return BY_FIELD[field.name] if field.name in BY_FIELD else wire_values(field.type)


def elicitations(version: Version) -> SearchStrategy[types.ElicitRequestParams]:
    form = st.builds(
        types.ElicitRequestParams,
        texts,
        mode=st.sampled_from([None, "form"]),
        requested_schema=forms,
        meta=st.just(UNSET),
    )
    url = st.builds(types.ElicitRequestParams, texts, mode=st.just("url"), url=uris, elicitation_id=texts)
    # Before 2025-11-25 no client can say that it opens URLs, so that none is sent one.
    return form | url if version.stateless or version is V2025_11_25 else form


def instances(kind: type[Struct], version: Version) -> SearchStrategy[Any]:
    return elicitations(version) if kind is types.ElicitRequestParams else wire_values(kind)


def definition(kind: type[Struct], version: Version) -> str | None:
    """Return where the schema of a version describes a type; parameters are part of their request in older ones."""
    definitions = document(FOLDER, version.name).definitions
    message = kind.__name__.removesuffix("Params")
    if kind.__name__ in definitions:
        return kind.__name__
    return f"{message}/properties/params" if message in definitions else None


DESCRIBED = [
    (kind, version, where) for kind in KINDS for version in VERSIONS if (where := definition(kind, version)) is not None
]


def undefined(schema: SchemaDocument, where: str, value: Any) -> Iterator[str]:
    """Yield the properties of a value for which its definition has no place."""
    described = look_up(schema, where)
    if "$ref" in described:
        yield from undefined(schema, described["$ref"].split("/", 2)[2], value)
    elif "anyOf" in described:
        arms = [f"{where}/anyOf/{index}" for index in range(len(described["anyOf"]))]
        valid = [list(undefined(schema, arm, value)) for arm in arms if schema.validator(arm).is_valid(value)]
        yield from min(valid, key=len)
    elif isinstance(value, list) and "items" in described:
        for item in value:
            yield from undefined(schema, f"{where}/items", item)
    elif isinstance(value, dict):
        yield from undefined_members(schema, where, value)


def undefined_members(schema: SchemaDocument, where: str, value: dict[str, Any]) -> Iterator[str]:
    described = look_up(schema, where)
    for key, item in value.items():
        if key in described.get("properties", {}):
            if key not in OPEN_MEMBERS:
                yield from undefined(schema, f"{where}/properties/{key}", item)
        elif described.get("additionalProperties"):
            yield from undefined(schema, f"{where}/additionalProperties", item)
        # That parameters may have `_meta` is said once, of every request, before 2025-11-25.
        elif (
            "additionalProperties" not in described
            and "properties" in described
            and not (key == "_meta" and where.endswith("/params"))
        ):
            yield key


def look_up(schema: SchemaDocument, where: str) -> Any:
    found: Any = schema.definitions
    for step in where.split("/"):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found if isinstance(found, dict) else {}


@pytest.mark.parametrize(
    ("kind", "version", "where"),
    DESCRIBED,
    ids=[f"{kind.__name__}-{version.name}" for kind, version, _ in DESCRIBED],
)
@settings(
    max_examples=int(os.environ.get("DRAGOMAN_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_a_trimmed_value_is_what_the_schema_of_its_version_defines(
    kind: type[Struct], version: Version, where: str, data: st.DataObject
) -> None:
    value = data.draw(instances(kind, version))
    before = msgspec.json.encode(value)
    trimmed = trim(value, version)
    encoded = json.loads(msgspec.json.encode(trimmed))
    schema = document(FOLDER, version.name)
    schema.validator(where).validate(encoded)
    assert [key for key in undefined(schema, where, encoded) if (version, key) not in SENT_ALTHOUGH_UNDEFINED] == []
    assert trim(trimmed, version) is trimmed
    assert msgspec.json.encode(value) == before


def test_every_version_is_told_something_of_every_kind_that_it_knows() -> None:
    assert {version for _, version, _ in DESCRIBED} == set(VERSIONS)
    assert {kind for kind, _, _ in DESCRIBED} == set(KINDS)
    assert (types.ElicitRequestParams, V2025_06_18, "ElicitRequest/properties/params") in DESCRIBED
