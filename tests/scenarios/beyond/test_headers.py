"""Headers and batches where the official conformance suite is silent: both roles over HTTP."""

import asyncio
import base64

import pytest

from dragoman import AsyncClient, ValidationError
from scenarios.beyond_server import ODD_URI, make
from scenarios.http_peer import BATCHING, STATELESS, HttpPeer, serve
from scenarios.raw_http import Sent, answering, called, classic, event, introduction, modern, reply, result, stream

SAFE = 2**53 - 1
MIRRORED = {"type": "string", "x-mcp-header": "Mirrored"}


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


async def fine(request: Sent, writer: asyncio.StreamWriter) -> bytes:
    return reply(200, result(request, called()))


@pytest.mark.covers("BEY-02")
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "prompts/list", "subscriptions/listen"])
async def test_every_stateless_method_needs_the_header_that_names_its_version(method):
    peer = HttpPeer(serve(make()), STATELESS)
    params = {"notifications": {"toolsListChanged": True}} if method == "subscriptions/listen" else {}
    exchange = await peer.request(method, params, {"mcp-protocol-version": None}, id=7)
    assert (exchange.status, exchange.json["error"]["code"], exchange.json["id"]) == (400, -32020, 7)
    assert "MCP-Protocol-Version" in exchange.json["error"]["message"]


@pytest.mark.covers("BEY-03", "BEY-04")
@pytest.mark.parametrize(
    ("method", "parameter", "name"),
    [
        ("prompts/get", "name", "zoë"),
        ("prompts/get", "name", "=?base64?eA==?="),
        ("resources/read", "uri", ODD_URI),
        ("resources/read", "uri", "note://1"),
        ("tools/call", "name", "link"),
    ],
)
async def test_a_name_is_served_in_base64_whether_it_needs_it_or_not(method, parameter, name):
    peer = HttpPeer(serve(make()), STATELESS)
    exchange = await peer.request(method, {parameter: name}, {"mcp-name": wrapped(name)})
    assert (exchange.status, exchange.json["result"]["resultType"]) == (200, "complete")


@pytest.mark.covers("BEY-04")
async def test_a_name_that_looks_wrapped_and_was_sent_plain_names_something_else():
    peer = HttpPeer(serve(make()), STATELESS)
    name = "=?base64?eA==?="
    exchange = await peer.request("prompts/get", {"name": name}, {"mcp-name": name})
    assert (exchange.status, exchange.json["error"]["code"]) == (400, -32020)
    assert (await peer.request("prompts/get", {"name": "x"}, {"mcp-name": name})).json["error"]["code"] == -32602


@pytest.mark.covers("BEY-05")
async def test_a_client_mirrors_nested_arguments_and_leaves_out_tools_whose_annotations_it_cannot_reach(caplog):
    def tool(name, properties, **more):
        return {"name": name, "inputSchema": {"type": "object", "properties": properties, **more}}

    nested = {"type": "object", "properties": {"deep": {"type": "object", "properties": {"leaf": MIRRORED}}}}
    tools = [
        tool("nested", {"outer": nested}),
        tool("referred", {"a": {"$ref": "#/$defs/a"}}, **{"$defs": {"a": MIRRORED}}),
        tool("listed", {"a": {"type": "array", "items": MIRRORED}}),
        tool("chosen", {"a": {"anyOf": [MIRRORED, {"type": "null"}]}}),
        tool("twice", {"a": MIRRORED, "b": {"type": "string", "x-mcp-header": "MIRRORED"}}),
        tool("untouched", {"a": {"type": "string"}}),
    ]
    async with answering(modern(fine, tools=tools)) as server:
        async with AsyncClient(server.url, mode="stateless") as client:
            assert [one.name for one in await client.tools()] == ["nested", "untouched"]
            await client.call_tool("nested", {"outer": {"deep": {"leaf": " padded"}}})
            await client.call_tool("nested", {"outer": {"deep": {"leaf": "=?base64?eA==?="}}})
            await client.call_tool("nested", {"outer": {"deep": None}})
        sent = [one.headers.get("mcp-param-mirrored") for one in server.sent("tools/call")]
    assert sent == [wrapped(" padded"), wrapped("=?base64?eA==?="), None]
    for name in ("referred", "listed", "chosen", "twice"):
        assert f"'{name}' was left out" in caplog.text


@pytest.mark.covers("BEY-06")
async def test_an_integer_is_mirrored_up_to_what_every_peer_reads_exactly_and_is_not_sent_beyond():
    count = {"type": "integer", "x-mcp-header": "Count"}
    tools = [{"name": "count", "inputSchema": {"type": "object", "properties": {"n": count}}}]
    async with answering(modern(fine, tools=tools)) as server:
        async with AsyncClient(server.url, mode="stateless") as client:
            await client.tools()
            for n in (SAFE, -SAFE):
                await client.call_tool("count", {"n": n})
            for n in (SAFE + 1, -SAFE - 1):
                with pytest.raises(ValidationError, match="9007199254740991"):
                    await client.call_tool("count", {"n": n})
        assert [one.headers["mcp-param-count"] for one in server.sent("tools/call")] == [str(SAFE), str(-SAFE)]


@pytest.mark.covers("BEY-09")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_of_2025_03_26_takes_batches_over_http(streamed):
    seen = []

    async def script(request, writer):
        if request.method == "initialize":
            return reply(200, result(request, introduction(BATCHING)), mcp_session_id="s1")
        token = request.json["params"]["_meta"]["progressToken"]
        progress = {"jsonrpc": "2.0", "method": "notifications/progress"}
        batch = [progress | {"params": {"progressToken": token, "progress": 1}}, result(request, called("batched"))]
        return stream(event(batch)) if streamed else reply(200, batch)

    async def classic_or_batches(request, writer):
        scripted = request.method in ("initialize", "tools/call")
        return await (script if scripted else classic(fine))(request, writer)

    async with (
        answering(classic_or_batches) as server,
        AsyncClient(server.url, protocol_version=BATCHING) as client,
    ):
        got = await client.call_tool("any", on_progress=lambda progress, total, message: seen.append(progress))
        assert (got.text, seen) == ("batched", [1])
