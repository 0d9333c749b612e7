"""HTTP through uvicorn, over sockets."""

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
import uvicorn

from dragoman import Context, Server
from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.exchange import Pace
from dragoman.transports.http.http1 import Http1Connection
from scenarios.http_peer import DEADLINE, SECRET, STATELESS, serve

PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": STATELESS, f"{PREFIX}clientCapabilities": {}}


@contextlib.asynccontextmanager
async def running(app: AsgiApp, *, port: int = 0, **options) -> AsyncIterator[int]:
    """Serve an application on a port of this machine."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        port = listening.getsockname()[1]
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, **options)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([listening]))
        try:
            yield port
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, DEADLINE)


def stateless(method: str, params: dict | None = None) -> tuple[bytes, dict[str, str]]:
    params = (params or {}) | {"_meta": META | (params or {}).get("_meta", {})}
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": method, "content-type": "application/json"}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode(), headers


async def raw(port: int, body: bytes, headers: dict[str, str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = {"host": f"localhost:{port}", "content-length": str(len(body))} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
    return reader, writer


@pytest.fixture
def waiting() -> Server:
    server = Server("waiting", secret=SECRET)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


@pytest.mark.covers("SHM-10", "SHM-14")
@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_a_client_that_hangs_up_cancels_its_request_and_nothing_is_logged(waiting, http, caplog):
    began, cancelled = asyncio.Event(), asyncio.Event()

    @waiting.tool
    async def wait(ctx: Context) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with running(serve(waiting), http=http) as port:
        body, headers = stateless("tools/call", {"name": "wait", "arguments": {}})
        _, writer = await raw(port, body, headers)
        await asyncio.wait_for(began.wait(), DEADLINE)
        with caplog.at_level(logging.WARNING):
            writer.close()
            await asyncio.wait_for(cancelled.wait(), DEADLINE)
            await writer.wait_closed()
            body, headers = stateless("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            reader, writer = await raw(port, body, headers | {"connection": "close"})
            answer = await asyncio.wait_for(reader.read(), DEADLINE)
            assert answer.startswith(b"HTTP/1.1 200 OK")
            writer.close()
            await writer.wait_closed()
    assert not [record for record in caplog.records if record.name != "asyncio"]


@pytest.mark.covers("SHT-11", "SHT-13")
async def test_a_stream_arrives_piece_by_piece(waiting):
    go_on = asyncio.Event()

    @waiting.tool
    async def steps(ctx: Context) -> str:
        await ctx.report_progress(1)
        await go_on.wait()
        return "there"

    app = serve(waiting, pace=Pace(tick=0.001, keep_alive=0))
    async with running(app) as port, aiohttp.ClientSession() as client:
        params = {"name": "steps", "arguments": {}, "_meta": {"progressToken": "t"}}
        body, headers = stateless("tools/call", params)
        async with client.post(f"http://127.0.0.1:{port}/mcp", data=body, headers=headers) as response:
            assert response.headers["x-accel-buffering"] == "no"
            got = b""
            while b":\r\n\r\n" not in got:
                got += await response.content.readany()
            assert b"notifications/progress" in got
            go_on.set()
            got += await response.content.read()
            assert b"there" in got


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize("http", ["h11", "httptools", Http1Connection])
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Host: localhost\r\nHost: localhost\r\n", 400),
        ("Host: localhost\r\nhost: evil.example\r\n", 400),
        ("", 400),
        ("Host: [::1].evil.example\r\n", 400),
        ("Host: localhost:evil\r\n", 400),
        ("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: http://evil.example\r\nOrigin: http://localhost\r\n", 403),
    ],
)
async def test_a_host_or_an_origin_that_can_be_read_in_two_ways_is_refused_by_every_server(
    waiting, http, lines, status
):
    body, mirrored = stateless("tools/list")
    named = lines + "".join(f"{name}: {value}\r\n" for name, value in mirrored.items())
    async with running(serve(waiting), http=http) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST /mcp HTTP/1.1\r\n{named}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await asyncio.wait_for(reader.readline(), DEADLINE)).startswith(b"HTTP/1.1 %d " % status)
        writer.transport.abort()
