"""What a call gives back: types of results, structured content and its schema, errors of tools."""

from dataclasses import dataclass
from datetime import date
from typing import TypedDict

import msgspec
import pytest
from msgspec import Raw
from pydantic import BaseModel

from dragoman import AsyncClient, Client, Clients, DefinitionError, Server, ToolError, ValidationError, types
from dragoman.client import CallResult
from dragoman.client.results import FurtherResult, read
from scenarios.http_peer import scenario
from scenarios.scripted_server import EVERYTHING, HOLD, RpcError, ScriptedServer

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
THREE = {"content": [], "structuredContent": {"n": "three"}}


def raw(value):
    return Raw(msgspec.json.encode(value))


def tool(name="t", **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def answering(result, *tools, **options):
    return ScriptedServer({"tools/call": result, "tools/list": {"tools": list(tools)}}, **options)


@pytest.mark.parametrize("more", [{}, {"resultType": "complete"}])
def test_a_result_without_a_type_is_complete(more):
    result = read(raw({"content": [{"type": "text", "text": "x"}], **more}), types.CallToolResult, "tools/call")
    assert result.content[0].text == "x"


@pytest.mark.parametrize("kind", [types.CallToolResult, types.ReadResourceResult])
def test_a_result_of_a_further_type_is_told_apart(kind):
    came = raw({"content": [], "resultType": "later"})
    assert read(came, kind, "x/y") == FurtherResult("later", came)


def test_a_result_that_needs_input_is_told_apart_even_where_it_would_fit_nothing_else():
    needed = read(raw({"resultType": "input_required", "requestState": "s"}), types.CallToolResult, "tools/call")
    assert isinstance(needed, types.InputRequiredResult)
    assert needed.request_state == "s"


@pytest.mark.parametrize("result", [3, [], "x", None])
def test_a_result_that_is_no_object_cannot_be_read(result):
    with pytest.raises(ValidationError, match="The result of tools/list cannot be read"):
        read(raw(result), types.ListToolsResult, "tools/list")


@scenario
async def test_content_of_an_unknown_kind_and_a_malformed_block_lose_nothing():
    blocks = [{"type": "hologram", "beam": 3}, {"type": "text", "text": "good"}, {"type": "text", "text": 3}]
    async with AsyncClient(answering({"content": blocks})) as client:
        result = await client.call_tool("t")
    assert len(result.content) == 3
    assert msgspec.to_builtins(result.content[0])["beam"] == 3
    assert result.text == "good"


@pytest.mark.covers("LRS-03", "CLI-04")
def test_a_call_result_has_text_structured_content_errors_and_meta():
    blocks = [types.TextContent("a"), types.ImageContent("AAAA", "image/png"), types.TextContent("b")]
    result = CallResult.of(types.CallToolResult(blocks, structured_content=None, meta={"x": 1}))
    assert (result.text, str(result), result.structured, result.has_structured) == ("a\nb", "a\nb", None, True)
    assert (result.is_error, result.meta) == (False, {"x": 1})
    assert not CallResult.of(types.CallToolResult([])).has_structured


@pytest.mark.covers("LRS-04", "LER-04")
@ERAS
@scenario
async def test_a_tool_that_fails_raises_with_its_whole_result_unless_told_not_to(era):
    server = Server("x")

    @server.tool
    def fail() -> str:
        raise ToolError("no luck")

    async with AsyncClient(server, mode=era) as client:
        with pytest.raises(ToolError, match=r"^no luck$") as caught:
            await client.call_tool("fail")
        result = await client.call_tool("fail", raise_on_error=False)
    assert caught.value.result == result
    assert result.is_error
    with pytest.raises(ToolError, match="no luck"):
        result.raise_for_error()


def test_a_tool_that_fails_without_a_word_has_failed_all_the_same():
    with pytest.raises(ToolError, match="did not say why"):
        CallResult([], is_error=True).raise_for_error()
    assert CallResult([]).raise_for_error() is None


@pytest.mark.covers("BEY-13")
@ERAS
@scenario
async def test_structured_content_that_does_not_fit_warns_and_raises_where_the_client_is_strict(era, caplog):
    server = answering(THREE, tool(outputSchema=NUMBER), stateless=era == "stateless")
    async with AsyncClient(server) as client:
        assert (await client.call_tool("t")).structured == {"n": "three"}
    assert "The structured content of 't' does not fit its output schema at $['n']" in caplog.text
    async with AsyncClient(server, strict=True) as client:
        with pytest.raises(ValidationError, match="does not fit its output schema") as caught:
            await client.call_tool("t")
    assert caught.value.path == "$['n']"


@scenario
async def test_an_error_is_not_compared_with_the_schema():
    result = {"content": [{"type": "text", "text": "no"}], "isError": True, "structuredContent": {"n": "three"}}
    server = answering(result, tool(outputSchema=NUMBER))
    async with AsyncClient(server, strict=True) as client:
        await client.tools()
        assert (await client.call_tool("t", raise_on_error=False)).structured == {"n": "three"}


@scenario
async def test_structured_content_that_was_promised_and_is_missing_is_noticed(caplog):
    server = answering({"content": []}, tool(outputSchema=NUMBER))
    async with AsyncClient(server) as client:
        await client.tools()
        assert (await client.call_tool("t")).structured is None
    assert "'t' has an output schema, but gave no structured content" in caplog.text


@scenario
async def test_a_schema_that_is_none_is_a_warning_and_no_failure(caplog):
    result = {"content": [], "structuredContent": {"n": 3}}
    async with AsyncClient(answering(result, tool(outputSchema={"type": "nonsense"}))) as client:
        assert (await client.call_tool("t")).structured == {"n": 3}
    assert "The output schema of 't' is not a valid schema" in caplog.text


@scenario
async def test_a_schema_of_an_older_draft_is_read_as_such():
    older = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": NUMBER},
        "$ref": "#/definitions/n",
    }
    async with AsyncClient(answering(THREE, tool(outputSchema=older)), strict=True) as client:
        with pytest.raises(ValidationError, match="does not fit"):
            await client.call_tool("t")


@ERAS
@pytest.mark.parametrize("listed", [True, False])
@scenario
async def test_the_tools_are_listed_at_most_once_to_look_for_a_schema(era, listed):
    result = {"content": [], "structuredContent": {"n": 3}}
    tools = [tool(outputSchema=NUMBER)] if listed else [tool("other")]
    server = answering(result, *tools, stateless=era == "stateless", capabilities={"tools": {}})
    async with AsyncClient(server) as client:
        for _ in range(5):
            assert (await client.call_tool("t")).structured == {"n": 3}
    assert len(server.sent("tools/list")) == 1


@scenario
async def test_without_structured_content_no_tools_are_listed():
    server = answering({"content": []}, tool(outputSchema=NUMBER))
    async with AsyncClient(server) as client:
        await client.call_tool("t")
    assert not server.sent("tools/list")


@pytest.mark.parametrize("failure", [RpcError(-32603, "no"), {"tools": 3}, HOLD])
@scenario
async def test_a_list_that_fails_does_not_lose_the_result_of_a_call(failure, caplog):
    result = {"content": [], "structuredContent": {"n": 3}}
    server = ScriptedServer({"tools/call": result, "tools/list": failure})
    async with AsyncClient(server, timeout=0.3) as client:
        assert (await client.call_tool("t")).structured == {"n": 3}
    assert "The tools cannot be listed" in caplog.text


@scenario
async def test_a_schema_that_is_out_of_date_is_fetched_anew_before_anything_is_said(caplog):
    server = answering(THREE, tool(outputSchema=NUMBER), stateless=True)
    server.capabilities = {"tools": {}}
    async with AsyncClient(server, strict=True) as client:
        await client.tools()
        server.answers["tools/list"] = {"tools": [tool(outputSchema={"type": "object"})]}
        assert (await client.call_tool("t")).structured == {"n": "three"}
    assert not caplog.records


@scenario
async def test_a_result_that_never_fits_makes_the_client_look_once_and_not_each_time():
    server = answering(THREE, tool(outputSchema=NUMBER), stateless=True, capabilities={"tools": {}})
    async with AsyncClient(server) as client:
        for _ in range(5):
            await client.call_tool("t")
    assert len(server.sent("tools/list")) == 2


@ERAS
@scenario
async def test_what_was_wrapped_for_an_old_version_is_unwrapped(era):
    server = Server("x")

    @server.tool
    def numbers() -> list[int]:
        return [1, 2]

    @server.tool
    def number() -> int:
        return 3

    @server.tool
    def maybe() -> int | None:
        return None

    @server.tool
    def mapping() -> dict[str, int]:
        return {"result": 4}

    async with AsyncClient(server, mode=era, strict=True) as client:
        assert (await client.call_tool("numbers")).structured == [1, 2]
        assert (await client.call_tool("number")).structured == 3
        nothing = await client.call_tool("maybe")
        assert nothing.structured is None
        assert nothing.has_structured
        assert (await client.call_tool("mapping")).structured == {"result": 4}


@scenario
async def test_what_another_server_calls_result_is_left_as_it_is():
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}}
    server = answering({"content": [], "structuredContent": {"result": 3}}, tool(outputSchema=schema))
    async with AsyncClient(server) as client:
        assert (await client.call_tool("t")).structured == {"result": 3}


@pytest.mark.covers("CLI-05")
@scenario
async def test_what_is_given_to_a_call_reaches_the_server():
    server = answering({"content": []}, capabilities=EVERYTHING)
    async with AsyncClient(server, meta={"everywhere": 1, "both": 1}) as client:
        await client.call_tool("t", {"a": 1}, meta={"here": 2, "both": 2, "progressToken": "mine"}, progress_token="p")
        await client.call_tool(types.Tool(name="u", input_schema={"type": "object"}))
    first, second = server.sent("tools/call")
    assert first["arguments"] == {"a": 1}
    assert first["_meta"] == {"everywhere": 1, "here": 2, "both": 2, "progressToken": "p"}
    assert (second["name"], second["arguments"]) == ("u", {})


@dataclass
class Number:
    n: int


class NumberModel(BaseModel):
    n: int


class NumberDict(TypedDict):
    n: int


@dataclass
class Booked:
    number: NumberModel
    on: date


@pytest.mark.parametrize(
    ("kind", "value"), [(Number, Number(3)), (NumberModel, NumberModel(n=3)), (NumberDict, {"n": 3}), (dict, {"n": 3})]
)
@scenario
async def test_structured_content_is_read_as_the_type_that_was_said(kind, value):
    async with AsyncClient(answering({"content": [], "structuredContent": {"n": 3}}, tool())) as client:
        assert (await client.call_tool("t", result_type=kind)).structured == value
        assert (await (await client.tool("t")).call(result_type=kind)).structured == value


def test_blocking_calls_and_groups_take_the_type_too():
    server = Server("numbers")

    @server.tool
    def count(n: int) -> Number:
        return Number(n)

    with Clients({"one": Client(server)}) as clients:
        assert clients.call_tool("count", {"n": 3}, result_type=Number).structured == Number(3)
        client = clients["one"]
        assert client.call_tool("count", {"n": 3}, result_type=Number).structured == Number(3)
        assert client.tool("count").call({"n": 3}, result_type=Number).structured == Number(3)
        assert client.start_call("count", {"n": 3}, result_type=Number).result(10).structured == Number(3)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"content": [], "structuredContent": {"n": "x"}}, "The structured content does not fit Number"),
        ({"content": []}, "The result has no structured content that could become a Number"),
    ],
)
@pytest.mark.parametrize("kind", [Number, NumberModel])
def test_content_that_is_not_of_the_type_is_an_error(result, message, kind):
    found = CallResult.of(types.decode(raw(result), types.CallToolResult))
    with pytest.raises(ValidationError, match=message):
        found.of_type(kind)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (int, 3),
        (bool, True),
        (list[int], [1, 2]),
        (list[Number], [Number(1)]),
        (Booked, Booked(NumberModel(n=1), date(2026, 7, 28))),
    ],
)
async def test_values_of_every_kind_are_read_as_their_type(kind, expected):
    server = Server("values")

    @server.tool
    def get() -> kind:  # type: ignore[valid-type]
        return expected

    async with AsyncClient(server) as client:
        assert (await client.call_tool("get", result_type=kind)).structured == expected


@pytest.mark.parametrize(
    ("kind", "value", "path", "reason"),
    [
        (dict[str, list[int]], {"a": [1, "x"]}, "['a'][1]", "Expected `int`, got `str`"),
        (list[NumberModel], [{"n": 1}, {"n": "x"}], "[1].n", "valid integer"),
        (Booked, {"number": {"n": 1}}, "on", "Missing required field"),
        (int, "5", "$", "Expected `int`, got `str`"),
    ],
)
def test_the_place_that_is_not_of_the_type_is_named(kind, value, path, reason):
    found = CallResult.of(types.decode(raw({"content": [], "structuredContent": value}), types.CallToolResult))
    with pytest.raises(ValidationError, match=reason) as caught:
        found.of_type(kind)
    assert caught.value.path == path


def test_a_type_that_json_cannot_have_is_refused():
    found = CallResult.of(types.decode(raw({"content": [], "structuredContent": {}}), types.CallToolResult))
    with pytest.raises(DefinitionError, match=r"result_type: .* has no JSON form"):
        found.of_type(type(lambda: None))


def test_a_failure_is_of_no_type():
    failed = CallResult.of(types.decode(raw({"content": [], "isError": True}), types.CallToolResult))
    assert failed.of_type(Number) is failed
