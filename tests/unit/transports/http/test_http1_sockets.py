"""HTTP/1.1 connections over sockets, beside the ASGI connections of uvicorn."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.exchange import Exchange
from dragoman.transports.http.http1 import Http1Connection
from scenarios.http_peer import DEADLINE, scenario
from unit.transports.http.http1_peer import (
    PATIENT,
    Serve,
    Service,
    post,
)


@contextlib.asynccontextmanager
async def listening(serve: Serve, http: Any) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        app = AsgiApp(Service(serve), pace=PATIENT)
        config = uvicorn.Config(app, http=http, ws="none", log_level="critical", lifespan="off", proxy_headers=False)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([bound]))
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, DEADLINE)


async def said_to(port: int, data: bytes) -> bytes:
    """Send some bytes, and return all that comes back until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    async with asyncio.timeout(DEADLINE):
        said = await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return b"\r\n".join(line for line in said.split(b"\r\n") if not line.lower().startswith(b"date: "))


@scenario
async def test_what_is_known_of_a_request_is_what_asgi_says():
    scopes: list[dict[str, Any]] = []

    async def serve(exchange: Exchange) -> None:
        scopes.append(dict(exchange.scope))
        await exchange.reply(200)

    request = post(b"", path="/%6dcp?a=%20b", headers="X-Name: value\r\nConnection: close\r\n")
    for http in (Http1Connection, "httptools"):
        async with listening(serve, http) as port:
            await said_to(port, request.replace(b"Host: a", b"Host: 127.0.0.1"))
        scopes[-1].update(
            client=scopes[-1]["client"][0], server=(scopes[-1]["server"][0], scopes[-1]["server"][1] == port)
        )
        scopes[-1]["headers"] = list(scopes[-1]["headers"])
    assert scopes[0] == scopes[1]


@scenario
async def test_a_large_body_goes_out_whole_to_a_slow_reader():
    size = 5_000_000

    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"x" * size)

    async with listening(serve, Http1Connection) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(post(headers="Connection: close\r\n"))
        total = 0
        async with asyncio.timeout(DEADLINE):
            while part := await reader.read(10_000):
                total += len(part)
                await asyncio.sleep(0)
        writer.close()
    assert total > size
