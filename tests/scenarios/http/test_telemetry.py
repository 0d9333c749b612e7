"""Spans, durations and audit records of requests over HTTP, by everything that carries it."""

import asyncio
import logging

import pytest

from dragoman import Context, Server
from dragoman.telemetry import session_digest
from scenarios.http_peer import DEADLINE, NEWEST, SECRET, STATELESS, HttpPeer, serve
from telemetry_kit import is_child


def made(telemetry, **options):
    server = Server("shop", secret=SECRET, **options)
    server.began = asyncio.Event()

    @server.tool
    async def add(a: int, b: int, ctx: Context) -> int:
        with telemetry.tracer.start_as_current_span("adding"):
            await ctx.report_progress(1, 2)
            await asyncio.sleep(0)
            return a + b

    @server.tool
    async def wait() -> str:
        server.began.set()
        await asyncio.Event().wait()
        return ""

    return server


@pytest.mark.parametrize("version", [NEWEST, STATELESS])
async def test_a_call_is_recorded_with_its_session_and_its_connection(version, telemetry, caplog):
    records = []
    peer = HttpPeer(serve(made(telemetry, audit=records.append)), version)
    if version == NEWEST:
        await peer.initialize()
    for _ in range(2):
        assert (await peer.call("add", {"a": 1, "b": 2}).end()).status == 200
    first, second = telemetry.spans("tools/call add", "SERVER")
    assert first.context.trace_id != second.context.trace_id
    assert is_child(telemetry.spans("adding")[0], first)
    assert first.attributes["network.transport"] == "tcp"
    assert first.attributes["network.protocol.name"] == "http"
    assert first.attributes["mcp.protocol.version"] == version
    named = session_digest(peer.session) if version == NEWEST else None
    assert first.attributes.get("mcp.session.id") == named
    assert [record.get("session") for record in records if record["method"] == "tools/call"] == [named, named]
    if version == NEWEST:
        assert (await peer.send("DELETE").end()).status < 300
        assert [point.count for point in telemetry.points("mcp.server.session.duration")] == [1]
        assert str(peer.session) not in str(records)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_client_that_leaves_has_cancelled_its_request(telemetry, caplog):
    records = []
    server = made(telemetry, audit=records.append)
    exchange = HttpPeer(serve(server), STATELESS).call("wait")
    await asyncio.wait_for(server.began.wait(), DEADLINE)
    exchange.leave()
    await exchange.end()
    span = telemetry.span("tools/call wait")
    assert (span.attributes["error.type"], span.status.status_code.name) == ("cancelled", "UNSET")
    assert [record["outcome"] for record in records] == ["cancelled"]
    assert not caplog.records


async def test_a_refused_request_is_recorded(telemetry):
    records = []
    peer = HttpPeer(serve(made(telemetry, audit=records.append)), STATELESS)
    exchange = await peer.request("acme/none")
    assert exchange.json["error"]["code"] == -32601
    assert telemetry.span("_OTHER").attributes["rpc.response.status_code"] == "-32601"
    assert [(record["outcome"], record["code"]) for record in records] == [("refused", -32601)]


@pytest.mark.by_asgi
async def test_the_span_of_the_http_server_is_linked(telemetry):
    peer = HttpPeer(serve(made(telemetry)), STATELESS)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with telemetry.tracer.start_as_current_span("POST"):
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {"traceparent": parent}}
        exchange = peer.start("tools/call", params)
        await exchange.end()
    span, post = telemetry.span("tools/call add"), telemetry.span("POST")
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert [link.context.span_id for link in span.links] == [post.context.span_id]
