from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec import UNSET, Raw, Struct

from dragoman import types
from dragoman.protocol import fields
from dragoman.protocol.fields import (
    SINCE,
    UNTIL,
    WRAP_MARKS,
    WRAP_META,
    is_marked_as_wrapped,
    is_wrapped,
    needs_wrapping,
    trim,
    wrap_structured_content,
)
from dragoman.protocol.versions import (
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    VERSIONS,
    Version,
)

ICONS = [types.Icon("https://example.org/icon.png", theme="dark")]
META = {"com.example/colour": "red"}
TASK = types.TaskMetadata(60)
NOTE = types.TextContent("note")
SOUND = types.AudioContent("UklGRg==", "audio/wav")
LINK = types.ResourceLink("note://1", "one")


def tool(**fields: Any) -> types.Tool:
    return types.Tool(name="add", input_schema={"type": "object"}, **fields)


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


FIELDS: list[tuple[Callable[..., Any], dict[str, Any], Version | None, Version | None]] = [
    (types.Annotations, {"priority": 0.5, "audience": ["user"]}, None, None),
    (types.Annotations, {"last_modified": "2025-01-12T15:00:58Z"}, V2025_06_18, None),
    (partial(types.Implementation, name="a", version="1"), {"title": "A"}, V2025_06_18, None),
    (partial(types.Implementation, name="a", version="1"), {"description": "about"}, V2025_11_25, None),
    (partial(types.Implementation, name="a", version="1"), {"website_url": "https://a.org"}, V2025_11_25, None),
    (partial(types.Implementation, name="a", version="1"), {"icons": ICONS}, V2025_11_25, None),
    (tool, {"description": "adds"}, None, None),
    (tool, {"title": "Add"}, V2025_06_18, None),
    (tool, {"meta": META}, V2025_06_18, None),
    (tool, {"icons": ICONS}, V2025_11_25, None),
    (tool, {"annotations": types.ToolAnnotations(title="Add", read_only_hint=True)}, V2025_03_26, None),
    (tool, {"output_schema": {"type": "object"}}, V2025_06_18, None),
    (tool, {"execution": types.ToolExecution("optional")}, V2025_11_25, V2025_11_25),
    (partial(types.Prompt, name="p"), {"title": "P"}, V2025_06_18, None),
    (partial(types.Prompt, name="p"), {"meta": META}, V2025_06_18, None),
    (partial(types.Prompt, name="p"), {"icons": ICONS}, V2025_11_25, None),
    (partial(types.PromptArgument, name="a"), {"title": "A"}, V2025_06_18, None),
    (partial(types.Resource, name="r", uri="note://r"), {"size": 3}, None, None),
    (partial(types.Resource, name="r", uri="note://r"), {"title": "R"}, V2025_06_18, None),
    (partial(types.Resource, name="r", uri="note://r"), {"meta": META}, V2025_06_18, None),
    (partial(types.Resource, name="r", uri="note://r"), {"icons": ICONS}, V2025_11_25, None),
    (partial(types.ResourceTemplate, name="t", uri_template="note://{t}"), {"title": "T"}, V2025_06_18, None),
    (partial(types.ResourceTemplate, name="t", uri_template="note://{t}"), {"meta": META}, V2025_06_18, None),
    (partial(types.ResourceTemplate, name="t", uri_template="note://{t}"), {"icons": ICONS}, V2025_11_25, None),
    (partial(types.ResourceContents, uri="note://r", text="r"), {"meta": META}, V2025_06_18, None),
    (partial(types.TextContent, text="t"), {"meta": META}, V2025_06_18, None),
    (partial(types.ImageContent, data="", mime_type="image/png"), {"meta": META}, V2025_06_18, None),
    (partial(types.EmbeddedResource, resource=types.ResourceContents("a:b")), {"meta": META}, V2025_06_18, None),
    (partial(types.Root, uri="file:///"), {"meta": META}, V2025_06_18, None),
    (partial(types.PromptReference, name="p"), {"title": "P"}, V2025_06_18, None),
    (
        partial(
            types.CompleteRequestParams, ref=types.PromptReference("p"), argument=types.CompletionArgument("a", "b")
        ),
        {"context": types.CompletionContext({"a": "b"})},
        V2025_06_18,
        None,
    ),
    (partial(types.ProgressNotificationParams, progress_token=1, progress=1), {"message": "m"}, V2025_03_26, None),
    (types.ServerCapabilities, {"logging": {}, "experimental": {"a": {}}}, None, None),
    (types.ServerCapabilities, {"completions": {}}, V2025_03_26, None),
    (types.ServerCapabilities, {"tasks": {}}, V2025_11_25, V2025_11_25),
    (types.ServerCapabilities, {"extensions": {"com.example/a": {}}}, V2025_06_18, None),
    (types.ClientCapabilities, {"sampling": types.SamplingCapability()}, None, None),
    (types.ClientCapabilities, {"elicitation": types.ElicitationCapability()}, V2025_06_18, None),
    (types.ClientCapabilities, {"tasks": {}}, V2025_11_25, V2025_11_25),
    (types.ClientCapabilities, {"extensions": {"com.example/a": {}}}, V2025_06_18, None),
    (types.SamplingCapability, {"tools": {}}, V2025_11_25, None),
    (types.SamplingCapability, {"context": {}}, V2025_11_25, None),
    (types.ElicitationCapability, {"form": {}}, V2025_11_25, None),
    (types.ElicitationCapability, {"url": {}}, V2025_11_25, None),
    (types.RootsCapability, {"list_changed": True}, None, V2025_11_25),
    (partial(types.SamplingMessage, role="user", content=NOTE), {"meta": META}, V2025_11_25, None),
    (partial(types.CreateMessageRequestParams, messages=[], max_tokens=1), {"tools": []}, V2025_11_25, None),
    (
        partial(types.CreateMessageRequestParams, messages=[], max_tokens=1),
        {"tool_choice": types.ToolChoice("auto")},
        V2025_11_25,
        None,
    ),
    (partial(types.CreateMessageRequestParams, messages=[], max_tokens=1), {"task": TASK}, V2025_11_25, V2025_11_25),
    (partial(types.CreateMessageRequestParams, messages=[], max_tokens=1), {"meta": Raw(b"{}")}, None, V2025_11_25),
    (partial(types.ElicitRequestParams, message="?"), {"mode": "form"}, V2025_11_25, None),
    (partial(types.ElicitRequestParams, message="?"), {"url": "https://a.org"}, V2025_11_25, None),
    (partial(types.ElicitRequestParams, message="?"), {"elicitation_id": "1"}, V2025_11_25, V2025_11_25),
    (partial(types.ElicitRequestParams, message="?"), {"task": TASK}, V2025_11_25, V2025_11_25),
    (partial(types.ElicitRequestParams, message="?"), {"meta": Raw(b"{}")}, None, V2025_11_25),
    (partial(types.CallToolRequestParams, name="a"), {"task": TASK}, V2025_11_25, V2025_11_25),
    (partial(types.CallToolRequestParams, name="a"), {"input_responses": {}}, V2026_07_28, None),
    (partial(types.CallToolRequestParams, name="a"), {"request_state": "s"}, V2026_07_28, None),
    (partial(types.GetPromptRequestParams, name="a"), {"input_responses": {}}, V2026_07_28, None),
    (partial(types.GetPromptRequestParams, name="a"), {"request_state": "s"}, V2026_07_28, None),
    (partial(types.ReadResourceRequestParams, uri="a:b"), {"input_responses": {}}, V2026_07_28, None),
    (partial(types.ReadResourceRequestParams, uri="a:b"), {"request_state": "s"}, V2026_07_28, None),
    (types.Result, {"result_type": "complete"}, V2026_07_28, None),
    (types.Result, {"meta": META}, None, None),
    (partial(types.CallToolResult, content=[]), {"structured_content": {"sum": 3}}, V2025_06_18, None),
    (partial(types.CallToolResult, content=[]), {"result_type": "complete"}, V2026_07_28, None),
    (partial(types.CallToolResult, content=[]), {"is_error": False}, None, None),
    (partial(types.GetPromptResult, messages=[]), {"result_type": "complete"}, V2026_07_28, None),
    (partial(types.CompleteResult, completion=types.Completion([])), {"result_type": "complete"}, V2026_07_28, None),
    (partial(types.ElicitResult, action="cancel"), {"meta": META}, None, V2025_11_25),
    (partial(types.ListRootsResult, roots=[]), {"meta": META}, None, V2025_11_25),
] + [
    (result, field, V2026_07_28, None)
    for result in (
        partial(types.ListToolsResult, tools=[]),
        partial(types.ListPromptsResult, prompts=[]),
        partial(types.ListResourcesResult, resources=[]),
        partial(types.ListResourceTemplatesResult, resource_templates=[]),
        partial(types.ReadResourceResult, contents=[]),
    )
    for field in ({"ttl_ms": 5}, {"cache_scope": "public"}, {"result_type": "complete"})
]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize(("build", "fields", "since", "until"), FIELDS, ids=[" ".join(row[1]) for row in FIELDS])
def test_a_field_is_sent_to_the_versions_that_have_it_and_to_no_other(
    build: Callable[..., Any],
    fields: dict[str, Any],
    since: Version | None,
    until: Version | None,
    version: Version,
) -> None:
    whole, bare = build(**fields), build()
    present = (since is None or since <= version) and (until is None or version <= until)
    assert trim(whole, version) == (whole if present else bare)
    assert (trim(whole, version) is whole) == present
    assert trim(bare, version) is bare


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize(
    "answer",
    [
        types.ElicitResult("decline"),
        types.ListRootsResult([]),
        types.CreateMessageResult("assistant", NOTE, "a-model"),
    ],
)
def test_what_a_client_answers_has_a_result_type_in_no_version(answer: types.Result, version: Version) -> None:
    typed = msgspec.structs.replace(answer, result_type="complete")
    assert trim(typed, version) == answer


def test_what_was_always_there_goes_through_untouched() -> None:
    for version in VERSIONS:
        for value in (
            types.PaginatedRequestParams(cursor="next"),
            types.LoggingMessageNotificationParams("info", {"a": 1}),
            types.CancelledNotificationParams(1),
            types.ResourceTemplateReference("note://{t}"),
            {"plain": [1, {"object": None}]},
            ["list"],
            "text",
            None,
        ):
            assert trim(value, version) is value


class Coloured(types.TextContent, tag="text"):
    colour: str = "red"


class Gallery(types.Result):
    pictures: list[types.ImageContent]
    captions: dict[str, Coloured | types.AudioContent]


def test_types_that_extend_those_of_the_protocol_follow_the_same_rows() -> None:
    picture = types.ImageContent("", "image/png", meta=META)
    gallery = Gallery([picture], {"a": Coloured("a", meta=META), "b": SOUND}, result_type="complete")
    trimmed = trim(gallery, V2024_11_05)
    assert trimmed.result_type is None
    assert trimmed.pictures == [types.ImageContent("", "image/png")]
    assert trimmed.captions["a"] == Coloured("a")
    assert isinstance(trimmed.captions["b"], types.TextContent)
    assert trim(gallery, V2026_07_28) is gallery


class Branch(types.Result):
    leaf: types.TextContent | None = None
    branches: list[Branch] = msgspec.field(default_factory=list)


def test_a_type_may_hold_itself() -> None:
    leaf = types.TextContent("leaf", meta=META)
    tree = Branch(branches=[Branch(), Branch(branches=[Branch(leaf)])])
    trimmed = trim(tree, V2024_11_05)
    assert trimmed == Branch(branches=[Branch(), Branch(branches=[Branch(types.TextContent("leaf"))])])
    assert trimmed.branches[0] is tree.branches[0]
    assert trim(tree, V2025_06_18) is tree


NESTED = types.ListToolsResult(
    tools=[tool(), tool(title="Add", icons=ICONS), tool(description="adds")],
    ttl_ms=5,
)


def test_what_lies_deeper_is_trimmed_and_what_needs_no_change_is_shared() -> None:
    trimmed = trim(NESTED, V2025_06_18)
    assert trimmed.ttl_ms is None
    assert trimmed.tools[0] is NESTED.tools[0]
    assert trimmed.tools[1] == tool(title="Add")
    assert trimmed.tools[2] is NESTED.tools[2]


def test_a_list_or_object_in_which_nothing_changes_stays_the_same_object() -> None:
    listed = types.ListToolsResult([tool()])
    assert trim(listed, V2024_11_05) is listed
    asked = types.InputRequiredResult(
        {
            "form": types.ElicitRequest(types.ElicitRequestParams("?", requested_schema={})),
            "roots": types.ListRootsRequest(),
        },
        result_type="input_required",
    )
    assert trim(asked, V2026_07_28) is asked


def test_what_a_server_asks_for_is_trimmed_inside_the_result() -> None:
    asked = types.InputRequiredResult(
        {
            "url": types.ElicitRequest(types.ElicitRequestParams("?", mode="url", url="a:b", elicitation_id="1")),
            "roots": types.ListRootsRequest(),
        }
    )
    trimmed = trim(asked, V2026_07_28)
    assert wire(trimmed) == {
        "inputRequests": {
            "url": {"method": "elicitation/create", "params": {"message": "?", "mode": "url", "url": "a:b"}},
            "roots": {"method": "roots/list"},
        }
    }
    assert asked.input_requests is not None
    assert trimmed.input_requests is not None
    assert trimmed.input_requests["roots"] is asked.input_requests["roots"]


RICH: list[Any] = [
    NESTED,
    types.CallToolResult([NOTE, SOUND, LINK], structured_content=[1, {"a": 2}], result_type="complete"),
    types.GetPromptResult([types.PromptMessage("user", SOUND), types.PromptMessage("user", LINK)]),
    types.ReadResourceResult([types.ResourceContents("a:b", text="t", meta=META)], ttl_ms=1, cache_scope="public"),
    types.InitializeResult(
        "2025-06-18",
        types.ServerCapabilities(completions={}, tasks={}, extensions={"a/b": {}}),
        types.Implementation("a", "1", "A", icons=ICONS),
    ),
    types.CreateMessageRequestParams(
        [types.SamplingMessage("user", [NOTE, SOUND, types.ToolResultContent("1", [NOTE], structured_content=5)])], 5
    ),
    types.CreateMessageResult("assistant", [NOTE, types.ToolUseContent("1", "add", {"a": 1})], "a-model"),
    types.ElicitRequestParams(
        "?",
        requested_schema={
            "$schema": "x",
            "type": "object",
            "properties": {
                "one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
                "many": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
            },
        },
    ),
    tool(output_schema={"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "integer"}}}),
]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("value", RICH, ids=lambda value: type(value).__name__)
def test_nothing_is_changed_in_place_and_what_is_trimmed_stays_as_it_is(value: Any, version: Version) -> None:
    before = copy.deepcopy(value)
    trimmed = trim(value, version)
    assert value == before
    assert trim(trimmed, version) is trimmed


def test_sound_is_said_in_words_where_there_is_none() -> None:
    annotated = types.AudioContent(
        "UklGRg==", "audio/wav", annotations=types.Annotations(priority=1, last_modified="x"), meta=META
    )
    assert trim(annotated, V2024_11_05) == types.TextContent(
        "[audio/wav audio, left out: this protocol version has none]", annotations=types.Annotations(priority=1)
    )
    assert trim(annotated, V2025_03_26) == types.AudioContent(
        "UklGRg==", "audio/wav", annotations=types.Annotations(priority=1)
    )
    assert trim(annotated, V2025_06_18) is annotated


@pytest.mark.parametrize(
    ("link", "text"),
    [(LINK, "[one](note://1)"), (types.ResourceLink("note://1", "one", "The first"), "[The first](note://1)")],
)
@pytest.mark.parametrize("version", [V2024_11_05, V2025_03_26], ids=lambda version: version.name)
def test_a_resource_link_is_a_link_in_text_where_there_is_none(
    link: types.ResourceLink, text: str, version: Version
) -> None:
    assert trim(link, version) == types.TextContent(text)


@pytest.mark.parametrize("version", [V2025_06_18, V2025_11_25, V2026_07_28], ids=lambda version: version.name)
def test_a_resource_link_keeps_all_but_its_icons(version: Version) -> None:
    link = types.ResourceLink("note://1", "one", "One", "first", "text/plain", 3, ICONS, meta=META)
    plain = types.ResourceLink("note://1", "one", "One", "first", "text/plain", 3, meta=META)
    assert trim(link, version) == (plain if version is V2025_06_18 else link)


def test_blocks_are_converted_wherever_they_stand() -> None:
    words = types.TextContent("[audio/wav audio, left out: this protocol version has none]")
    assert trim(types.CallToolResult([NOTE, SOUND]), V2024_11_05).content == [NOTE, words]
    assert trim(types.GetPromptResult([types.PromptMessage("user", SOUND)]), V2024_11_05).messages == [
        types.PromptMessage("user", words)
    ]
    assert trim(types.CreateMessageResult("assistant", SOUND, "a-model"), V2024_11_05).content == words


def test_a_block_of_an_unknown_type_is_not_touched() -> None:
    unknown = types.UnknownContent({"type": "hologram", "_meta": META, "icons": [NOTE], "title": "H"})
    result = types.CallToolResult([unknown, SOUND])
    for version in VERSIONS:
        assert trim(unknown, version) is unknown
        assert trim(result, version).content[0] is unknown
    assert unknown == {"type": "hologram", "_meta": META, "icons": [NOTE], "title": "H"}


VALUES = [None, False, 0, 1.5, "text", [], [1, 2], {}, {"a": 1}, {"result": 1}]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("value", VALUES)
def test_structured_content_is_any_value_or_an_object_or_nothing(value: Any, version: Version) -> None:
    structured = trim(types.CallToolResult([], structured_content=value), version).structured_content
    if version in (V2024_11_05, V2025_03_26):
        assert structured is UNSET
    elif version.any_structured_content or isinstance(value, dict):
        assert structured == value
    else:
        assert structured == {"result": value}


@pytest.mark.parametrize(
    ("encoded", "sent"),
    [(b'{"a":1}', {"a": 1}), (b"[1]", {"result": [1]}), (b"null", {"result": None}), (b'"{"', {"result": "{"})],
)
def test_structured_content_that_is_already_encoded_is_told_apart_too(encoded: bytes, sent: Any) -> None:
    result = types.CallToolResult([], structured_content=Raw(encoded))
    meta = {"_meta": WRAP_META} if "result" in sent else {}
    assert wire(trim(result, V2025_06_18)) == {"content": [], "structuredContent": sent, **meta}
    assert trim(result, V2026_07_28) is result


def test_mark_of_a_wrapped_result_keeps_the_other_fields_of_meta() -> None:
    result = trim(types.CallToolResult([], structured_content=[1], meta={"a": 1}), V2025_06_18)
    assert result.meta == {"a": 1, **WRAP_META}
    assert is_marked_as_wrapped(result.meta)
    assert not any(map(is_marked_as_wrapped, [None, {}, {"fastmcp": True}, {"fastmcp": {"wrap_result": False}}]))


def test_a_result_without_structured_content_gets_none() -> None:
    result = types.CallToolResult([NOTE])
    assert trim(result, V2025_06_18) is result


def test_wrapping_puts_even_an_object_into_an_object() -> None:
    result = types.CallToolResult([], structured_content={"a": 1})
    assert wrap_structured_content(result).structured_content == {"result": {"a": 1}}  # type: ignore[attr-defined]
    assert result.structured_content == {"a": 1}
    for empty in (types.CallToolResult([]), types.GetPromptResult([])):
        assert wrap_structured_content(empty) is empty


@pytest.mark.parametrize(
    ("schema", "wrapped"),
    [
        ({"type": "object"}, False),
        ({"type": "object", "anyOf": [{}]}, False),
        ({"type": ["object", "null"]}, True),
        ({"type": ["object"]}, True),
        ({"type": "array"}, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, True),
        ({"anyOf": [{"type": "object"}]}, True),
        ({}, True),
    ],
)
def test_only_a_schema_whose_root_is_an_object_is_not_wrapped(schema: types.Json, wrapped: bool) -> None:
    assert needs_wrapping(schema) is wrapped
    for version in (V2025_06_18, V2025_11_25):
        trimmed = trim(tool(output_schema=schema), version).output_schema
        assert trimmed is not None
        assert trimmed["type"] == "object"
        assert (trimmed != schema) == wrapped
        assert is_wrapped(trimmed) is wrapped
        assert all(trimmed.get(mark, False) is wrapped for mark in WRAP_MARKS)
    assert trim(tool(output_schema=schema), V2026_07_28).output_schema is schema
    assert trim(tool(output_schema=schema), V2025_03_26).output_schema is None


TREE = {
    "type": "array",
    "items": {"$ref": "#"},
}
IN_DEFINITIONS = {
    "type": "array",
    "items": {"$ref": "#/$defs/pair"},
    "$defs": {
        "pair": {"type": "array", "prefixItems": [{"$ref": "#/$defs/number"}, {"$ref": "#/$defs/number"}]},
        "number": {"type": "integer"},
    },
}
NAMED_LIKE_KEYWORDS = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "default": {"$ref": "#/$defs/enum"},
                "$ref": {"$ref": "#/$defs/enum"},
                "$id": {"$ref": "#/$defs/enum"},
                "const": {"type": "object", "properties": {"enum": {"$ref": "#/$defs/enum"}}},
            },
        }
    ],
    "$defs": {"enum": {"type": "integer"}},
}
VALUES_LIKE_REFERENCES = {
    "enum": [{"$ref": "#/$defs/a"}, {"properties": {"$ref": "#"}}, [{"$ref": "#"}]],
    "default": {"$ref": "#"},
    "examples": [{"$ref": "#"}],
}
CONSTANT_LIKE_A_REFERENCE = {"const": {"$ref": "#/$defs/a"}}
DOCUMENT_OF_ITS_OWN = {
    "$id": "https://example.org/numbers",
    "type": "array",
    "items": {"$ref": "#/$defs/number"},
    "$defs": {"number": {"type": "integer"}},
}
DOCUMENT_WITHIN = {
    "type": "array",
    "items": {"$ref": "https://example.org/inner"},
    "$defs": {
        "inner": {
            "$id": "https://example.org/inner",
            "$ref": "#/$defs/number",
            "$defs": {"number": {"type": "integer"}},
        }
    },
}
ANCHORED = {
    "type": "array",
    "items": {"$ref": "#number"},
    "$defs": {"number": {"$anchor": "number", "type": "integer"}},
}
DYNAMIC = {"type": "array", "items": {"$dynamicRef": "#/$defs/number"}, "$defs": {"number": {"type": "integer"}}}
DRAFT_SEVEN = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "array",
    "items": {"$ref": "#/definitions/number"},
    "definitions": {"number": {"type": "integer"}},
}
DRAFT_SEVEN_NAMED = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "#root",
    "items": {"$ref": "#/definitions/number"},
    "definitions": {"number": {"type": "integer"}},
}
DEPENDENT = {
    "dependentSchemas": {"default": {"properties": {"size": {"$ref": "#/$defs/number"}}}},
    "patternProperties": {"^const$": {"$ref": "#/$defs/number"}},
    "$defs": {"number": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (TREE, [[], [[], [[]]]], [[1], [[[None]]]]),
        (IN_DEFINITIONS, [[[1, 2]], []], [[["a", 2]], [1]]),
        (
            NAMED_LIKE_KEYWORDS,
            [{"default": 1, "$ref": 2, "$id": 3, "const": {"enum": 4}}],
            [{"default": "a"}, {"$ref": "a"}, {"$id": "a"}, {"const": {"enum": "a"}}],
        ),
        (VALUES_LIKE_REFERENCES, VALUES_LIKE_REFERENCES["enum"], [{"$ref": "#/properties/result/$defs/a"}]),
        (CONSTANT_LIKE_A_REFERENCE, [{"$ref": "#/$defs/a"}], [{"$ref": "#/properties/result/$defs/a"}]),
        (DOCUMENT_OF_ITS_OWN, [[1]], [["a"]]),
        (DOCUMENT_WITHIN, [[1]], [["a"]]),
        (ANCHORED, [[1]], [["a"]]),
        (DYNAMIC, [[1]], [["a"]]),
        (DRAFT_SEVEN, [[1]], [["a"]]),
        (DRAFT_SEVEN_NAMED, [[1]], [["a"]]),
        (DEPENDENT, [{"const": 1}, {"default": 0, "size": 1}, 5], [{"const": "a"}, {"default": 0, "size": "a"}]),
        ({"type": "integer"}, [1], ["a"]),
        ({"type": ["object", "null"]}, [{}, None], [1]),
        ({}, [1, None], []),
    ],
)
def test_a_wrapped_schema_judges_the_wrapped_value_as_the_schema_judged_the_value(
    schema: types.Json, valid: list[Any], invalid: list[Any]
) -> None:
    wrapped = trim(tool(output_schema=schema), V2025_11_25).output_schema
    original = jsonschema_rs.validator_for(schema, offline=True)
    validator = jsonschema_rs.validator_for(wrapped, offline=True)
    for value in valid:
        assert original.is_valid(value)
        assert validator.is_valid({"result": value})
    for value in invalid:
        assert not original.is_valid(value)
        assert not validator.is_valid({"result": value})
    assert not validator.is_valid({})


def test_a_wrapped_schema_keeps_its_dialect_at_the_root() -> None:
    wrapped = trim(tool(output_schema=DRAFT_SEVEN), V2025_11_25).output_schema
    assert wrapped is not None
    assert wrapped["$schema"] == DRAFT_SEVEN["$schema"]
    assert "$schema" not in wrapped["properties"]["result"]


@pytest.mark.parametrize(
    ("schema", "rebased"),
    [
        ({"$ref": 5}, {"$ref": 5}),
        ({"properties": [{"$ref": "#"}]}, {"properties": [{"$ref": "#/properties/result"}]}),
        ({"title": "#/a", "description": "#", "pattern": "#"}, {"title": "#/a", "description": "#", "pattern": "#"}),
        ({"items": True, "not": False}, {"items": True, "not": False}),
    ],
)
def test_nothing_but_references_is_changed_in_a_wrapped_schema(schema: types.Json, rebased: types.Json) -> None:
    wrapped = trim(tool(output_schema=schema), V2025_11_25).output_schema
    assert wrapped is not None
    assert wrapped["properties"]["result"] == rebased


@pytest.mark.parametrize(
    ("field", "plain"),
    [
        ({"type": "boolean", "default": True}, {"type": "boolean", "default": True}),
        ({"type": "boolean", "default": False}, {"type": "boolean", "default": False}),
        ({"type": "string", "default": "a", "minLength": 1}, {"type": "string", "minLength": 1}),
        ({"type": "number", "default": 0, "title": "N"}, {"type": "number", "title": "N"}),
        ({"type": "integer", "default": 1}, {"type": "integer"}),
        ({"type": "string", "enum": ["a"], "default": "a"}, {"type": "string", "enum": ["a"]}),
        (
            {"type": "string", "enum": ["a"], "enumNames": ["A"]},
            {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        ),
        (
            {"type": "string", "title": "T", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}], "default": "a"},
            {"type": "string", "title": "T", "enum": ["a", "b"], "enumNames": ["A", "b"]},
        ),
        (
            {
                "type": "array",
                "title": "T",
                "description": "D",
                "minItems": 1,
                "maxItems": 2,
                "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
                "default": ["a"],
            },
            {"type": "string", "title": "T", "description": "D", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            {"type": "string", "enum": ["a", "b"]},
        ),
        ({"type": "array", "items": True}, {"type": "array", "items": True}),
        ({"type": "string", "items": {"enum": ["a"]}}, {"type": "string", "items": {"enum": ["a"]}}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": "malformed"}, {"oneOf": "malformed"}),
        ({"oneOf": ["malformed"]}, {"oneOf": ["malformed"]}),
        (True, True),
    ],
)
def test_a_form_of_2025_06_18_has_plain_fields(field: Any, plain: Any) -> None:
    schema = {"type": "object", "properties": {"it": field}, "required": ["it"]}
    asked = types.ElicitRequestParams("?", requested_schema=schema)
    trimmed = trim(asked, V2025_06_18)
    assert trimmed.requested_schema == {"type": "object", "properties": {"it": plain}, "required": ["it"]}
    assert (trimmed is asked) == (field == plain)
    assert trim(asked, V2025_11_25) is asked
    assert trim(asked, V2026_07_28) is asked


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"properties": 5}])
def test_a_form_without_fields_is_left_as_it_is(schema: types.Json | None) -> None:
    asked = types.ElicitRequestParams("?", requested_schema=schema)
    assert trim(asked, V2025_06_18) is asked


def test_a_form_of_2025_06_18_names_no_dialect() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {}}
    asked = types.ElicitRequestParams("?", mode="form", requested_schema=schema)
    assert wire(trim(asked, V2025_06_18)) == {
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {}},
    }


BEFORE_TOOLS_IN_SAMPLING = [V2024_11_05, V2025_03_26, V2025_06_18]


@pytest.mark.parametrize("version", BEFORE_TOOLS_IN_SAMPLING, ids=lambda version: version.name)
def test_a_sampling_message_of_several_blocks_becomes_several_messages(version: Version) -> None:
    picture = types.ImageContent("", "image/png")
    asked = types.CreateMessageRequestParams(
        [
            types.SamplingMessage("user", [NOTE, picture], meta=META),
            types.SamplingMessage("assistant", NOTE),
            types.SamplingMessage("user", []),
            types.SamplingMessage("user", [NOTE]),
        ],
        100,
        system_prompt="Be brief",
        tools=[tool()],
        tool_choice=types.ToolChoice("required"),
    )
    assert trim(asked, version) == types.CreateMessageRequestParams(
        [
            types.SamplingMessage("user", NOTE),
            types.SamplingMessage("user", picture),
            types.SamplingMessage("assistant", NOTE),
            types.SamplingMessage("user", NOTE),
        ],
        100,
        system_prompt="Be brief",
    )


@pytest.mark.parametrize("version", [V2025_11_25, V2026_07_28], ids=lambda version: version.name)
def test_a_sampling_message_keeps_its_blocks_where_lists_exist(version: Version) -> None:
    asked = types.CreateMessageRequestParams([types.SamplingMessage("user", [NOTE, NOTE])], 5)
    assert trim(asked, version) is asked


@pytest.mark.parametrize("version", BEFORE_TOOLS_IN_SAMPLING, ids=lambda version: version.name)
@pytest.mark.parametrize(
    ("block", "text"),
    [
        (types.ToolUseContent("1", "add", {"a": 1}), '[called add with {"a":1}]'),
        (types.ToolResultContent("1", [NOTE, types.TextContent("two")]), "note\ntwo"),
        (types.ToolResultContent("1", [types.ImageContent("", "image/png")], structured_content=[1]), "[image]"),
        (types.ToolResultContent("1", [types.UnknownContent({"type": "hologram"})]), "[hologram]"),
        (types.ToolResultContent("1", []), ""),
    ],
)
def test_tools_in_a_conversation_are_said_in_words_where_sampling_has_none(
    block: types.SamplingMessageContentBlock, text: str, version: Version
) -> None:
    asked = types.CreateMessageRequestParams([types.SamplingMessage("user", block)], 5)
    assert trim(asked, version).messages == [types.SamplingMessage("user", types.TextContent(text))]


def test_the_structured_content_of_a_tool_result_is_an_object_before_2026_07_28() -> None:
    result = types.ToolResultContent("1", [], structured_content=5)
    assert trim(result, V2025_11_25) == types.ToolResultContent("1", [], structured_content={"result": 5})
    assert trim(result, V2026_07_28) is result


@pytest.mark.parametrize("version", BEFORE_TOOLS_IN_SAMPLING, ids=lambda version: version.name)
@pytest.mark.parametrize(
    ("content", "block"),
    [
        (NOTE, NOTE),
        ([NOTE], NOTE),
        ([NOTE, types.TextContent("two")], types.TextContent("note\ntwo")),
        ([NOTE, types.ToolUseContent("1", "add", {})], types.TextContent("note\n[called add with {}]")),
        ([types.ImageContent("", "image/png")], types.ImageContent("", "image/png")),
        ([types.ImageContent("", "image/png"), NOTE], types.TextContent("[image]\nnote")),
        ([], types.TextContent("")),
    ],
)
def test_a_sampled_message_has_one_block_before_2025_11_25(content: Any, block: Any, version: Version) -> None:
    sampled = types.CreateMessageResult("assistant", content, "a-model", "endTurn")
    assert trim(sampled, version) == types.CreateMessageResult("assistant", block, "a-model", "endTurn")
    assert (trim(sampled, version) is sampled) == (content is NOTE)
    assert trim(sampled, V2025_11_25) is sampled


def test_every_row_names_a_field_that_its_type_has() -> None:
    for table in (SINCE, UNTIL):
        for kind, row in table.items():
            assert issubclass(kind, Struct)
            assert set(row) <= {field.name for field in msgspec.structs.fields(kind)}


def test_objects_and_lists_are_trimmed_by_their_members_and_stay_the_same_where_nothing_changes() -> None:
    fields._plans.clear()  # so that they are made anew
    audio = types.AudioContent("AAAA", "audio/wav")
    for whole in ({"a": NOTE, "b": [NOTE]}, [NOTE, {"a": NOTE}], {}, [], "text", 3, None):
        assert trim(whole, V2024_11_05) is whole
    for holding in ({"a": audio, "b": NOTE}, [audio, NOTE]):
        trimmed = trim(holding, V2024_11_05)
        assert type(trimmed) is type(holding)
        assert trimmed != holding
        assert trim(holding, V2025_03_26) is holding
