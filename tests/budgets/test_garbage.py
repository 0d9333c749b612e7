"""A call leaves no cycles behind: what the garbage collector has to find costs more the more a server holds."""

import asyncio
import gc
import json

import pytest

from dragoman import AsyncClient, Depends, Server
from dragoman.stores import Memory

CALLS = 50
ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "budget", "version": "1"}}
HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
]


def sums():
    server = Server("sums", secret="a secret of sixteen", store=Memory())

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


def message(id, method, params):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


async def left_by(call):
    """Return how many objects a call leaves in cycles, after some that warmed up.

    Other threads of the process may leave garbage in one round, so the round with the least counts.
    """
    for _ in range(3):
        await call()
    return min([await _left_by_round(call) for _ in range(3)])


async def _left_by_round(call):
    gc.collect()
    gc.disable()
    try:
        for _ in range(CALLS):
            await call()
        return gc.collect() / CALLS
    finally:
        gc.enable()


async def post(app, headers, body):
    """Return the head of the answer to a POST."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(part):
        sent.append(part)

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [*HEADERS, *headers]}
    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    assert b"error" not in sent[1]["body"]
    return dict(sent[0]["headers"])


async def opened():
    yield "opened"


def depending():
    server = Server("sums", secret="a secret of sixteen", store=Memory())

    @server.tool
    async def add(a: int, b: int, text: str = Depends(opened)) -> int:
        return a + b

    return server


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("made", [sums, depending])
def test_a_call_over_a_stream_leaves_nothing(era, made):
    async def measure():
        sent = []
        connection = made().connect(sent.append)
        params = ADD | ({"_meta": ENVELOPE} if era == "stateless" else {})

        async def call():
            sent.clear()
            connection.receive(message(1, "tools/call", params) + b"\n")
            await connection.drain()
            assert b'"text":"3"' in sent[0]

        left = await left_by(call)
        connection.close()
        return left

    assert asyncio.run(measure()) < 1


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_a_call_over_http_leaves_nothing(era):
    async def measure():
        app = sums().asgi()
        if era == "stateless":
            headers = [
                (b"mcp-protocol-version", b"2026-07-28"),
                (b"mcp-method", b"tools/call"),
                (b"mcp-name", b"add"),
            ]
            body = message(1, "tools/call", ADD | {"_meta": ENVELOPE})
        else:
            head = await post(app, [], message(0, "initialize", INITIALIZE))
            headers = [(b"mcp-protocol-version", b"2025-11-25"), (b"mcp-session-id", head[b"mcp-session-id"])]
            body = message(1, "tools/call", ADD)
        left = await left_by(lambda: post(app, headers, body))
        await app.close()
        return left

    assert asyncio.run(measure()) < 1


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
def test_a_call_of_a_client_leaves_nothing(mode):
    async def measure():
        async with AsyncClient(sums(), mode=mode) as client:
            return await left_by(lambda: client.call_tool("add", {"a": 1, "b": 2}))

    assert asyncio.run(measure()) < 1
