"""What a server records beside the requests that it serves: questions to the client, and sessions."""

import asyncio
import json

from dragoman import AsyncClient, BlockingContext, Context, Server
from telemetry_kit import is_child


async def test_a_question_of_a_blocking_tool_is_within_its_call(telemetry):
    server = Server()

    @server.tool
    def book(ctx: BlockingContext) -> str:
        return ctx.elicit("Which city?", str).content

    async with AsyncClient(server, mode="handshake", on_elicitation=lambda request: {"value": "Oslo"}) as mcp:
        assert (await mcp.call_tool("book")).text == "Oslo"
    assert is_child(telemetry.span("elicitation/create", "CLIENT"), telemetry.span("tools/call book", "SERVER"))


async def test_questions_that_are_asked_together_are_siblings(telemetry):
    server = Server()

    @server.tool
    async def look(ctx: Context) -> str:
        from dragoman.server import Elicit, ListRoots

        answers = await ctx.ask(city=Elicit("Which city?", str), roots=ListRoots())
        return answers["city"].content

    async with AsyncClient(
        server, mode="handshake", roots=["/tmp"], on_elicitation=lambda request: {"value": "Oslo"}
    ) as mcp:
        assert (await mcp.call_tool("look")).text == "Oslo"
    call = telemetry.span("tools/call look", "SERVER")
    assert is_child(telemetry.span("elicitation/create", "CLIENT"), call)
    assert is_child(telemetry.span("roots/list", "CLIENT"), call)


async def test_a_client_that_does_not_answer_in_time_is_a_time_out(telemetry):
    server, sent = Server(), []

    @server.tool
    async def book(ctx: Context) -> str:
        return (await ctx.elicit("Which city?", str, timeout=0.05)).content

    connection = server.connect(lambda data: sent.append(json.loads(data)))
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    for id, method, fields in ((1, "initialize", params), (2, "tools/call", {"name": "book"})):
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": fields}
        connection.receive_message(json.dumps(message).encode())
    await connection.drain()
    connection.close()
    (question,) = [message for message in sent if message.get("method") == "elicitation/create"]
    span = telemetry.span("elicitation/create", "CLIENT")
    assert span.attributes["error.type"] == "timeout"
    assert question["params"]["_meta"]["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"
    (point,) = telemetry.points("mcp.server.session.duration")
    assert dict(point.attributes) == {"mcp.protocol.version": "2025-06-18"}


async def test_a_connection_whose_client_began_no_session_is_no_session(telemetry):
    connection = Server().connect(print)
    await asyncio.sleep(0)
    connection.close()
    connection.close()
    assert telemetry.points("mcp.server.session.duration") == []
