"""What the results of tools become, in every version: content, structured content, errors."""

import asyncio
import datetime as dt
import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NewType

import pytest
from pydantic import BaseModel

from dragoman import Audio, Image, InvalidParams, RpcError, Server, Tool, ToolError, ToolResult, tool, types
from dragoman.config import Configuration
from dragoman.protocol.fields import WRAP_META
from dragoman.server import OutputSchema
from dragoman.testing.wire import WirePeer
from scenarios.wire import VERSIONS, ask, call_result, text


@dataclass
class Forecast:
    city: str
    days: int


class Place(BaseModel):
    city: str


class Shout(str):
    __slots__ = ()


class Mood(StrEnum):
    GOOD = "good"


Html = NewType("Html", str)
FORECAST = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
HELLO = {"type": "text", "text": "hello"}
PIXEL = {"type": "image", "data": "eA==", "mimeType": "image/png"}
TONE = {"type": "audio", "data": "eA==", "mimeType": "audio/wav"}
FILE = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "a"}}


def returning(value: Any, annotation: Any = ..., **options: Any) -> Server:
    """A server whose tool `get` returns a value, annotated or not."""

    def get():
        return value

    if annotation is not ...:
        get.__annotations__["return"] = annotation
    return Server("values", tools=[tool(inline=True, **options)(get)])


def output_schema(server: Server, era: str) -> Any:
    return ask(server, "tools/list", era=era)["result"]["tools"][0].get("outputSchema")


# Content.


@pytest.mark.covers("RSP-03", "RSP-06", "RSP-08")
@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("hello", [HELLO]),
        (Shout("hello"), [HELLO]),
        (Mood.GOOD, [{"type": "text", "text": "good"}]),
        (None, []),
        (Image(b"x"), [PIXEL]),
        (Audio(b"x"), [TONE]),
        (types.TextContent("hello"), [HELLO]),
        (types.ImageContent("eA==", "image/png"), [PIXEL]),
        (types.ResourceContents("file:///a", "text/plain", text="a"), [FILE]),
        (types.EmbeddedResource(types.ResourceContents("file:///a", "text/plain", text="a")), [FILE]),
        (["hello", Image(b"x"), types.TextContent("hello"), PIXEL], [HELLO, PIXEL, HELLO, PIXEL]),
        (("hello", Audio(b"x")), [HELLO, TONE]),
        (HELLO, [HELLO]),
        ([HELLO, PIXEL], [HELLO, PIXEL]),
        ([types.UnknownContent(type="video", url="u")], [{"type": "video", "url": "u"}]),
        (ToolResult([{"type": "video", "url": "u"}]), [{"type": "video", "url": "u"}]),
        (types.CallToolResult([types.TextContent("hello")]), [HELLO]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_content_without_an_annotation_stays_content(value, content):
    assert call_result(returning(value), "get", era="2025-11-25") == {"content": content}


@pytest.mark.covers("RSP-03", "RSP-08", "SCH-04")
@pytest.mark.parametrize(
    ("value", "annotation", "content"),
    [
        ("hello", str, [HELLO]),
        ("hello", str | None, [HELLO]),
        (None, str | None, []),
        (None, None, []),
        ("hello", Html, [HELLO]),
        (Image(b"x"), Image | str, [PIXEL]),
        ([Image(b"x"), "hello"], list[Image | str], [PIXEL, HELLO]),
        (["hello"], list[Image | str], [HELLO]),
        ([], list[types.TextContent], []),
        ((), tuple[Image, ...], []),
        ([PIXEL], list[Any], [PIXEL]),
        (Image(b"x"), Image | Forecast, [PIXEL]),
        (ToolResult("hello"), ToolResult, [HELLO]),
    ],
    ids=str,
)
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_an_annotation_of_content_has_no_schema(value, annotation, content, era):
    server = returning(value, annotation)
    assert output_schema(server, era) is None
    result = call_result(server, "get", era=era)
    assert result["content"] == content
    assert "structuredContent" not in result


@pytest.mark.covers("RSP-06", "RSP-07", "BEY-14")
@pytest.mark.parametrize("era", VERSIONS)
def test_blocks_have_what_their_version_knows(era):
    notes = types.Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01")
    blocks = [
        types.TextContent("hello", annotations=notes, meta={"x": 1}),
        Image(b"x", annotations=notes),
        Audio(b"x"),
        types.ResourceLink("file:///a", "a"),
    ]
    annotations = {"audience": ["user"], "priority": 0.5}
    meta = {}
    if era >= "2025-06-18":
        annotations["lastModified"] = "2026-01-01"
        meta = {"_meta": {"x": 1}}
    audio = TONE if era >= "2025-03-26" else {"type": "text", "text": audio_in_words()}
    linked = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    link = linked if era >= "2025-06-18" else {"type": "text", "text": "[a](file:///a)"}
    assert call_result(returning(blocks), "get", era=era)["content"] == [
        {**HELLO, "annotations": annotations, **meta},
        {**PIXEL, "annotations": annotations},
        audio,
        link,
    ]


def audio_in_words() -> str:
    return "[audio/wav audio, left out: this protocol version has none]"


# Structured content.


@pytest.mark.covers("SCH-02", "SCH-04", "SCH-05", "SCH-15", "RSP-04", "BEY-13")
@pytest.mark.parametrize("era", VERSIONS)
@pytest.mark.parametrize(
    ("value", "annotation", "schema", "json"),
    [
        (Forecast("Oslo", 3), Forecast, FORECAST, {"city": "Oslo", "days": 3}),
        (
            Place(city="Oslo"),
            Place,
            {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            {"city": "Oslo"},
        ),
        ({"a": 1}, dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"a": 1}, dict, {"type": "object"}, {"a": 1}),
        (["a", "b"], list[str], {"type": "array", "items": {"type": "string"}}, ["a", "b"]),
        ([], list[int], {"type": "array", "items": {"type": "integer"}}, []),
        (7, int, {"type": "integer"}, 7),
        (False, bool, {"type": "boolean"}, False),
        (None, int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("x", int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x"),
        (dt.date(2026, 1, 2), dt.date, {"type": "string", "format": "date"}, "2026-01-02"),
        (Forecast("Oslo", 3), Forecast | ToolResult, FORECAST, {"city": "Oslo", "days": 3}),
    ],
    ids=str,
)
def test_data_is_structured_content_with_its_json_as_text(value, annotation, schema, json, era):
    server = returning(value, annotation)
    listed, result = output_schema(server, era), call_result(server, "get", era=era)
    is_object = schema.get("type") == "object"
    if era < "2025-06-18":
        assert listed is None
        assert "structuredContent" not in result
    elif not is_object:
        assert listed["properties"]["result"] == without_title(schema)
        assert (listed["type"], listed["required"]) == ("object", ["result"])
        assert listed["x-dragoman-wrapped"] is listed["x-fastmcp-wrap-result"] is True
        assert result["structuredContent"] == {"result": json}
    else:
        assert without_title(listed) == schema
        assert result["structuredContent"] == json
    [block] = result["content"]
    assert block["type"] == "text"
    assert types.decode(block["text"].encode(), Any) == json
    assert "isError" not in result


def without_title(schema: types.Json) -> types.Json:
    return {key: value for key, value in schema.items() if key != "title"}


@pytest.mark.covers("RSP-04", "SCH-15")
@pytest.mark.parametrize(
    "value",
    [{"a": 1}, [1, 2], 7, [], ["x"], ["x", 1], [None], [{"type": "sale"}], {"type": "text"}, Forecast("Oslo", 3)],
    ids=repr,
)
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_data_without_an_annotation_is_structured_and_has_no_schema(value, era):
    servers = [returning(value), returning(value, list), returning(value, list[Any])]
    for server in servers if isinstance(value, list) else servers[:1]:
        assert output_schema(server, era) is None
        plain = value.__dict__ if isinstance(value, Forecast) else value
        wrapped = plain if isinstance(plain, dict) else {"result": plain}
        result = call_result(server, "get", era=era)
        assert result["structuredContent"] == wrapped
        assert types.decode(text(result).encode(), Any) == plain


@pytest.mark.covers("SCH-02", "SCH-05", "SCH-06")
@pytest.mark.parametrize("as_object", [False, True], ids=["dict", "object"])
@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "string"}, "x-any": 1}, {"enum": ["a", "b"]}])
def test_an_output_schema_that_is_given_is_listed_verbatim_and_decides(schema, as_object):
    given = OutputSchema(schema) if as_object else schema
    value = ["a"] if "items" in schema else "a"
    server = returning(value, output_schema=given)
    for era in ("2025-11-25", "2026-07-28"):
        assert output_schema(server, era)["properties"] == {"result": schema}
        assert call_result(server, "get", era=era)["structuredContent"] == {"result": value}


@pytest.mark.covers("SCH-05", "BEY-13")
@pytest.mark.parametrize(("value", "annotation"), [(7, int), (["a"], list[str]), (None, int | None), (7, dict | int)])
def test_a_tool_may_send_bare_values_where_the_version_has_them(value, annotation):
    server = returning(value, annotation, wrap_result=False)
    assert "x-dragoman-wrapped" not in output_schema(server, "2026-07-28")
    assert call_result(server, "get", era="2026-07-28")["structuredContent"] == value
    assert output_schema(server, "2025-11-25")["x-fastmcp-wrap-result"] is True
    assert call_result(server, "get", era="2025-11-25")["structuredContent"] == {"result": value}


@pytest.mark.covers("SCH-03")
def test_an_output_schema_of_properties_alone_is_that_of_an_object():
    server = returning({"a": 1}, output_schema={"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    for era in ("2025-11-25", "2026-07-28"):
        assert output_schema(server, era) == {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
        }
        assert call_result(server, "get", era=era)["structuredContent"] == {"a": 1}


@pytest.mark.covers("RSP-08")
def test_an_image_stays_content_whatever_the_schema_says():
    result = call_result(returning(Image(b"x"), output_schema={"type": "object"}), "get")
    assert result == {"content": [PIXEL]}


# Full results.


@pytest.mark.covers("RSP-01", "RSP-05")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ToolResult("hello"), {"content": [HELLO]}),
        (ToolResult(), {"content": []}),
        (
            ToolResult(structured={"a": 1}),
            {"content": [{"type": "text", "text": '{"a":1}'}], "structuredContent": {"a": 1}},
        ),
        (ToolResult([], structured={"a": 1}), {"content": [], "structuredContent": {"a": 1}}),
        (ToolResult(None, structured={"a": 1}), {"content": [], "structuredContent": {"a": 1}}),
        (
            ToolResult(["hello", Image(b"x")], structured=Place(city="O")),
            {"content": [HELLO, PIXEL], "structuredContent": {"city": "O"}},
        ),
        (ToolResult("hello", is_error=True, meta={"x": 1}), {"content": [HELLO], "isError": True, "_meta": {"x": 1}}),
        (
            ToolResult(structured=None),
            {"content": [{"type": "text", "text": "null"}], "structuredContent": {"result": None}, "_meta": WRAP_META},
        ),
        (
            types.CallToolResult([], structured_content=Forecast("O", 1)),
            {"content": [], "structuredContent": {"city": "O", "days": 1}},
        ),
        (
            types.CallToolResult([], structured_content=[1]),
            {"content": [], "structuredContent": {"result": [1]}, "_meta": WRAP_META},
        ),
    ],
)
def test_a_full_result_is_sent_as_it_was_given(value, expected):
    server = returning(value)
    assert call_result(server, "get", era="2025-11-25") == expected
    assert call_result(server, "get", era="2025-11-25") == expected


# Results that are validated.


async def _response(server: Server, era: str) -> types.Json:
    async with WirePeer(server, era) as peer:
        return await peer.request("tools/call", {"name": "get"})


@pytest.mark.covers("SCH-14", "BEY-13")
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("value", [{"city": "Oslo"}, "x", ToolResult("no data"), Image(b"x")])
def test_a_result_that_does_not_fit_is_an_unexpected_error_only_where_results_are_validated(value, era, caplog):
    server = returning(value, output_schema=FORECAST)
    assert "isError" not in call_result(server, "get", era=era)
    server.configuration = Configuration(validate_tool_call_results=True)
    with caplog.at_level(logging.ERROR, "dragoman.server"):
        response = asyncio.run(_response(server, era))
    assert response["error"] == {"code": -32603, "message": "The result of 'get' does not fit its output schema"}
    assert len(caplog.records) == 1
    assert "Invalid result" in caplog.text


@pytest.mark.covers("SCH-14")
@pytest.mark.parametrize(
    "value", [{"city": "Oslo", "days": 3}, Forecast("Oslo", 3), ToolResult("broken", is_error=True)]
)
def test_a_result_that_fits_and_a_failure_pass_validation(value):
    server = returning(value, output_schema=FORECAST)
    server.configuration = Configuration(validate_tool_call_results=True)
    assert call_result(server, "get")["content"]


@pytest.mark.covers("SCH-13", "TOOL-15")
@pytest.mark.parametrize("inline", [False, True])
def test_a_tool_that_finds_its_own_result_wrong_does_not_blame_the_arguments(inline, caplog):
    schema = OutputSchema(FORECAST)

    @tool(output_schema=schema, inline=inline)
    def get() -> dict:
        schema.validate_result({"city": 5})

    assert call_result(Server("values", tools=[get]), "get") == {
        "content": [{"type": "text", "text": "Internal error occurred"}],
        "isError": True,
    }
    assert "Invalid result" in caplog.text


@pytest.mark.covers("SCH-13")
def test_class_with_a_plain_dict_as_schema_can_validate_its_result(caplog):
    class Get(Tool):
        output_schema = FORECAST

        def call(self, days: Any) -> dict:
            self.output_schema.validate_result({"city": "Oslo", "days": days})
            return {"city": "Oslo", "days": days}

    server = Server("values", tools=[Get])
    assert call_result(server, "get", days=1)["structuredContent"] == {"city": "Oslo", "days": 1}
    assert call_result(server, "get", days="x")["isError"]
    assert "Invalid result: days: " in caplog.text


# Errors.


def failing(error: BaseException, kind: str) -> Server:
    async def get() -> None:
        raise error

    def get_blocking() -> None:
        raise error

    made = {"async": Tool.define(get), "thread": tool(name="get")(get_blocking)}
    return Server("failures", tools=[made.get(kind) or tool(name="get", inline=True)(get_blocking)])


KINDS = pytest.mark.parametrize("kind", ["async", "thread", "inline"])


@pytest.mark.covers("TOOL-15")
@KINDS
@pytest.mark.parametrize("era", ["none", "2024-11-05", "2026-07-28"])
def test_an_unexpected_exception_says_nothing_and_is_logged_once(kind, era, caplog):
    with caplog.at_level(logging.DEBUG, "dragoman"):
        response = ask(failing(KeyError("password=hunter2"), kind), "tools/call", {"name": "get"}, era=era)
    assert response["result"]["content"] == [{"type": "text", "text": "Internal error occurred"}]
    assert response["result"]["isError"] is True
    assert "hunter2" not in str(response)
    [record] = [record for record in caplog.records if record.name == "dragoman.server"]
    assert record.levelno == logging.ERROR
    assert "tools/call" in record.getMessage()
    assert "hunter2" in str(record.exc_info[1])


@pytest.mark.covers("TOOL-16")
@KINDS
def test_a_tool_error_is_for_the_model_to_read(kind, caplog):
    with caplog.at_level(logging.DEBUG, "dragoman"):
        result = call_result(failing(ToolError("There is no such city"), kind), "get")
    assert result == {"content": [{"type": "text", "text": "There is no such city"}], "isError": True}
    assert caplog.records == []


@pytest.mark.covers("TOOL-16")
@KINDS
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RpcError(-31999, "On fire", {"floor": 3}), {"code": -31999, "message": "On fire", "data": {"floor": 3}}),
        (InvalidParams("No"), {"code": -32602, "message": "No"}),
    ],
)
def test_a_protocol_error_that_a_tool_raises_is_the_answer(error, expected, kind, caplog):
    with caplog.at_level(logging.DEBUG, "dragoman"):
        response = ask(failing(error, kind), "tools/call", {"name": "get"})
    assert response["error"] == expected
    assert caplog.records == []


UNSAYABLE = {"object": object(), "in a dict": {"a": object()}, "tuple key": {(1, 2): 3}, "mixed": [Image(b"x"), 5]}


@pytest.mark.covers("TOOL-15")
@pytest.mark.parametrize("value", UNSAYABLE.values(), ids=UNSAYABLE)
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_a_value_without_a_json_form_is_an_unexpected_error(value, era, caplog):
    result = call_result(returning(value), "get", era=era)
    assert (text(result), result["isError"]) == ("Internal error occurred", True)
    assert len(caplog.records) == 1
