"""`server.run("http")` answers like the same application on uvicorn."""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from http.client import HTTPResponse
from io import BytesIO
from itertools import product
from typing import Any

import pytest
import uvicorn

from dragoman import Context, Server, ToolError
from dragoman.stores import Memory
from dragoman.transports.http.http1 import Http1Connection

DEADLINE = 60
ACCEPT = "Accept: application/json, text/event-stream"
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}


def served() -> Server:
    server = Server("sums", secret="a secret of sixteen", store=Memory())

    @server.tool(inline=True)
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def large() -> str:
        return "é" * 200_000

    @server.tool(inline=True)
    def text(size: int) -> str:
        return "a" * size

    @server.tool
    async def tell(ctx: Context) -> str:
        for number in range(3):
            await ctx.report_progress(number)
            await asyncio.sleep(0)
        return "told"

    @server.tool
    def fail() -> None:
        raise ToolError("It fails")

    return server


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


MESSAGES: list[tuple[str, dict[str, Any] | None]] = [
    ("tools/call", call("add", a=1, b=2)),
    ("tools/call", call("add", a="x")),
    ("tools/call", call("large")),
    ("tools/call", {**call("tell"), "_meta": {"progressToken": 1}}),
    ("tools/call", call("fail")),
    ("tools/call", call("unknown")),
    ("tools/list", {}),
    ("server/discover", {}),
    ("ping", {}),
    ("initialize", CLIENT),
    ("nothing/known", None),
]
HEADERS = (
    (ACCEPT,),
    ("Accept: application/json",),
    ("Accept: text/event-stream",),
    ("Accept: text/html",),
    (ACCEPT, "Origin: https://evil.example"),
    (ACCEPT, "Content-Type: text/plain"),
    (ACCEPT, "Mcp-Session-Id: unknown"),
    (ACCEPT, "MCP-Protocol-Version: 1999-01-01"),
    (ACCEPT, "X-Empty:", "X-Padded:   a b  "),
)
CALLING = (ACCEPT, "Content-Type: application/json", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call")
FRAMINGS = ("length", "chunked")


def http(method: str, headers: tuple[str, ...], body: bytes, framing: str = "length", path: str = "/mcp") -> bytes:
    """Return a request, after which the connection is to be closed."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers]
    if framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
        cut = len(body) // 2
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part) + b"0\r\n\r\n"
    elif body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode() + body


def requests() -> Iterator[bytes]:
    """Return many requests: of both eras, well formed and not."""
    for (method, params), headers, framing, era in product(MESSAGES, HEADERS, FRAMINGS, ("stateless", "handshake")):
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params or {})}
        typed = (
            headers
            if any(line.startswith("Content-Type") for line in headers)
            else (
                *headers,
                "Content-Type: application/json",
            )
        )
        if era == "stateless":
            message["params"]["_meta"] = {**STATELESS, **message["params"].get("_meta", {})}
            if not any(line.startswith("MCP-") for line in headers):
                typed = (*typed, "MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {method}")
            if "name" in message["params"]:
                typed = (*typed, f"Mcp-Name: {message['params']['name']}")
        yield http("POST", typed, json.dumps(message).encode(), framing)
    json_only = (ACCEPT, "Content-Type: application/json")
    for body in (b"", b"{", b"[]", b"null", b"\xff", b'{"jsonrpc":"2.0","id":1,"result":{}}'):
        yield http("POST", json_only, body)
    notice = {"jsonrpc": "2.0", "method": "notifications/acme", "params": {"_meta": STATELESS}}
    stateless = (*json_only, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: notifications/acme")
    yield http("POST", stateless, json.dumps(notice).encode())
    for method, path in product(("GET", "DELETE", "PUT", "OPTIONS", "HEAD"), ("/mcp", "/mcp/", "/mcp?a=%20b", "/no")):
        yield http(method, (ACCEPT,), b"", path=path)
    yield http("POST", json_only, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', path="/%6dcp")


@contextlib.asynccontextmanager
async def listening(protocol: Any) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        options: Any = {"log_level": "critical", "lifespan": "off", "proxy_headers": False, "ws": "none"}
        config = uvicorn.Config(served().asgi(), http=protocol, **options)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([bound]))
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, DEADLINE)


class _Bytes:
    """What a response is read from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: Any) -> BytesIO:
        return BytesIO(self._data)


async def received(port: int, sent: bytes) -> bytes:
    """Return what a connection brings until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    async with asyncio.timeout(DEADLINE):
        data = await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return data


async def answer(port: int, request: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return the status, the headers and the body that come back; what differs each time is left out."""
    data = await received(port, request)
    response = HTTPResponse(_Bytes(data), method=request.split()[0].decode())  # type: ignore[arg-type]
    response.begin()
    headers = sorted((name.lower(), value) for name, value in response.getheaders() if name.lower() != "date")
    body = re.sub(rb"(?m)^id: .*$", b"id:", response.read())
    return response.status, [pair if pair[0] != "mcp-session-id" else (pair[0], "") for pair in headers], body


async def compare_answers() -> list[int]:
    statuses = []
    async with (
        listening(Http1Connection) as ours,
        listening("httptools") as asgi,
    ):
        for request in requests():
            expected = await answer(asgi, request)
            assert await answer(ours, request) == expected, request
            statuses.append(expected[0])
    return statuses


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_every_carrier_of_http_answers_alike(loop):
    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        statuses = runner.run(compare_answers())
        assert len(statuses) > 400
        assert {200, 202, 400, 403, 404, 405, 406, 415} <= set(statuses)
