"""What a client records: each request once, with all of its rounds, and what the server asks."""

import asyncio

import pytest

from dragoman import AsyncClient, Client, Context, Server, ToolError
from dragoman.errors import ResourceNotFound, Timeout
from telemetry_kit import is_child


def made():
    server = Server("shop", secret="a secret of sixteen")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def fail() -> str:
        raise ToolError("no luck")

    @server.tool
    async def book(ctx: Context) -> str:
        first = await ctx.elicit("Which city?", str)
        return f"{first.content} {(await ctx.elicit('Which day?', str)).content}"

    @server.tool
    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    return server


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_a_call_is_one_span_and_one_duration_on_each_side(mode, telemetry):
    async with AsyncClient(made(), mode=mode) as mcp:
        with telemetry.tracer.start_as_current_span("agent"):
            await mcp.call_tool("add", {"a": 1, "b": 2})
        version = mcp.protocol_version
    sent, served = telemetry.span("tools/call add", "CLIENT"), telemetry.span("tools/call add", "SERVER")
    assert is_child(sent, telemetry.span("agent"))
    assert is_child(served, sent)
    for span in (sent, served):
        assert span.attributes["mcp.protocol.version"] == version
        assert "network.transport" not in span.attributes  # in memory
    assert sent.attributes["jsonrpc.request.id"] == served.attributes["jsonrpc.request.id"]
    for side in ("client", "server"):
        points = telemetry.points(f"mcp.{side}.operation.duration")
        assert [point.count for point in points if point.attributes.get("gen_ai.tool.name") == "add"] == [1]
        sessions = telemetry.points(f"mcp.{side}.session.duration")
        assert [dict(point.attributes) for point in sessions] == [{"mcp.protocol.version": version}] * (
            mode == "handshake"
        )


@pytest.mark.parametrize(("mode", "opening"), [("handshake", "initialize"), ("stateless", "server/discover")])
async def test_the_opening_of_a_connection_is_recorded_too(mode, opening, telemetry):
    async with AsyncClient(made(), mode=mode) as mcp:
        await mcp.start()
    assert is_child(telemetry.span(opening, "SERVER"), telemetry.span(opening, "CLIENT"))
    assert telemetry.span(opening, "SERVER").attributes["mcp.protocol.version"] == (
        "2025-11-25" if mode == "handshake" else "2026-07-28"
    )


async def test_all_rounds_of_a_call_have_one_parent(telemetry):
    async with AsyncClient(made(), mode="stateless", on_elicitation=lambda request: {"value": "Oslo"}) as mcp:
        assert (await mcp.call_tool("book")).text == "Oslo Oslo"
    sent, served = telemetry.span("tools/call book", "CLIENT"), telemetry.spans("tools/call book", "SERVER")
    assert len(served) == 3
    assert all(is_child(span, sent) for span in served)
    assert not [span for span in served if "error.type" in span.attributes]


async def test_a_question_of_the_server_is_within_its_call_on_both_sides(telemetry):
    async with AsyncClient(made(), mode="handshake", on_elicitation=lambda request: {"value": "Oslo"}) as mcp:
        await mcp.call_tool("book")
    call = telemetry.span("tools/call book", "SERVER")
    asked, answered = telemetry.spans("elicitation/create", "CLIENT"), telemetry.spans("elicitation/create", "SERVER")
    assert len(asked) == len(answered) == 2
    for question, answer in zip(asked, answered, strict=True):
        assert is_child(question, call)
        assert is_child(answer, question)
        assert question.attributes["jsonrpc.request.id"] == answer.attributes["jsonrpc.request.id"]


async def test_a_question_whose_handler_fails_is_an_error_on_both_sides(telemetry):
    def crash(request):
        raise LookupError("a secret")

    server = made()

    @server.tool
    async def think(ctx: Context) -> str:
        return (await ctx.sample("Think")).text

    async with AsyncClient(server, mode="handshake", on_sampling=crash) as mcp:
        with pytest.raises(ToolError):
            await mcp.call_tool("think")
    for kind in ("CLIENT", "SERVER"):
        span = telemetry.span("sampling/createMessage", kind)
        assert span.attributes["error.type"]
        assert "a secret" not in str(span.status.description)


async def test_the_failure_of_a_tool_is_a_tool_error_on_both_sides(telemetry):
    async with AsyncClient(made()) as mcp:
        with pytest.raises(ToolError):
            await mcp.call_tool("fail")
    for kind in ("CLIENT", "SERVER"):
        span = telemetry.span("tools/call fail", kind)
        assert span.attributes["error.type"] == "tool_error"
        assert span.status.status_code.name == "ERROR"


async def test_an_error_of_the_server_is_told_by_its_code(telemetry):
    async with AsyncClient(made(), mode="handshake") as mcp:
        with pytest.raises(ResourceNotFound):
            await mcp.read_resource("a://b")
    for kind in ("CLIENT", "SERVER"):
        span = telemetry.span("resources/read", kind)
        assert span.attributes["error.type"] == span.attributes["rpc.response.status_code"] == "-32002"
        assert span.attributes.get("mcp.resource.uri") == ("a://b" if kind == "CLIENT" else None)
        assert span.status.description == "Resource not found: a://b"


@pytest.mark.parametrize("options", [{"timeout": 0.05}, {"total_timeout": 0.05}])
async def test_a_time_out_of_the_client_is_a_cancellation_for_the_server(options, telemetry):
    async with AsyncClient(made(), mode="handshake") as mcp:
        with pytest.raises(Timeout):
            await mcp.call_tool("wait", **options)
        await mcp.ping()
    sent, served = telemetry.span("tools/call wait", "CLIENT"), telemetry.span("tools/call wait", "SERVER")
    assert sent.attributes["error.type"] == "timeout"
    assert "jsonrpc.request.id" in sent.attributes
    assert served.attributes["error.type"] == "cancelled"
    assert served.status.status_code.name == "UNSET"


async def test_meta_of_the_caller_is_kept_beside_the_trace(telemetry):
    server = Server("meta")

    @server.tool
    async def meta(ctx: Context) -> str:
        return f"{ctx.meta['example.com/x']} {ctx.meta['tracestate']} {ctx.trace['traceparent'][:2]}"

    async with AsyncClient(server) as mcp:
        result = await mcp.call_tool("meta", meta={"example.com/x": 1, "tracestate": "mine=1"})
    assert result.text == "1 mine=1 00"


def test_the_blocking_client_records_within_the_span_of_its_caller(telemetry):
    with Client(made()) as mcp, telemetry.tracer.start_as_current_span("agent"):
        mcp.call_tool("add", {"a": 1, "b": 2})
    assert is_child(telemetry.span("tools/call add", "CLIENT"), telemetry.span("agent"))
