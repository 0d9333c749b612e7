"""Every carrier of HTTP answers like the plain one: ASGI over `receive` and `send`.

The others are what `server.run("http")` serves with, with httptools and without, and the request object of uvicorn with
httptools, which an application finds behind `receive` and `send`. Functions around these hide it.
"""

import asyncio
import contextlib
import json
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial, wraps
from http.client import HTTPResponse
from io import BytesIO
from itertools import product
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from dragoman import Context, Server, ToolError
from dragoman.stores import Memory
from dragoman.transports.http.graceful_h11 import GracefulH11Connection
from dragoman.transports.http.graceful_http1 import GracefulHttp1Connection

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


def kept(request: bytes) -> bytes:
    """Return a request after which the connection stays open."""
    return request.replace(b"Connection: close\r\n", b"", 1)


def adding(*headers: str, a: int = 1, padding: int = 0) -> bytes:
    message = {
        "jsonrpc": "2.0",
        "id": a,
        "method": "tools/call",
        "params": {"_meta": STATELESS, **call("add", a=a, b=2)},
    }
    return http("POST", (*CALLING, "Mcp-Name: add", *headers), json.dumps(message).encode() + b" " * padding)


def conversations() -> Iterator[bytes]:
    """Return what is sent on one connection: many requests before a last one, and requests that are served apart."""
    last = http("GET", (ACCEPT,), b"", path="/no")
    for request in requests():
        yield kept(request) + last
    yield b"".join(kept(adding(a=number)) for number in range(10)) + last
    yield b"".join(map(kept, requests())) + last
    for size in (100, 8_000, 8_050, 8_100, 8_150, 16_000, 17_000):  # the text is in the answer once or twice
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": STATELESS}}
        message["params"] |= call("text", size=size)  # type: ignore[operator]
        yield kept(http("POST", (*CALLING, "Mcp-Name: text"), json.dumps(message).encode())) + last
    for padding in (60_000, 70_000, 300_000):
        yield kept(adding(padding=padding)) + last
    yield kept(adding("Expect: 100-continue")) + last
    yield kept(adding("Expect: 100-continue", "Origin: https://evil.example")) + last
    yield adding()
    yield adding().replace(b"HTTP/1.1", b"HTTP/1.0")
    yield kept(adding("Connection: keep-alive")).replace(b"HTTP/1.1", b"HTTP/1.0")
    yield kept(adding("Connection: Upgrade", "Upgrade: h2c")) + last


Carried = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


def behind_functions(app: Any) -> Carried:
    """Return an application whose `receive` and `send` are not those of uvicorn."""

    async def serve(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        await app(scope, partial(receive), partial(send))

    return serve


@contextlib.asynccontextmanager
async def listening(protocol: Any, around: Callable[[Any], Any] | None = None, **options: Any) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        app: Any = served().asgi()
        options = {"log_level": "critical", "lifespan": "off", "proxy_headers": False} | options
        config = uvicorn.Config(around(app) if around else app, http=protocol, ws="none", **options)
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


async def conversation(port: int, sent: bytes) -> bytes:
    """Return what a connection brings until the server closes it; what differs each time is left out."""
    data = await received(port, sent)
    if b"transfer-encoding: chunked" in data:  # how many events share a chunk depends on the time between them
        data = re.sub(rb"(\r\n)+", b"\r\n", re.sub(rb"(?m)^[0-9a-f]+\r\n", b"", data))
    return re.sub(rb"(?m)^(date|mcp-session-id|id): .*$", rb"\1:", data)


async def compare_answers() -> list[int]:
    statuses = []
    async with (
        listening(GracefulHttp1Connection) as ours,
        listening("httptools", behind_functions) as asgi,
        listening(GracefulH11Connection) as plain,
    ):
        for request in requests():
            expected = await answer(asgi, request)
            assert await answer(ours, request) == expected, request
            assert await answer(plain, request) == expected, request
            statuses.append(expected[0])
    return statuses


async def compare_bytes(**options: Any) -> int:
    count = 0
    async with (
        listening("httptools", behind_functions, **options) as asgi,
        listening("httptools", **options) as mounted,
    ):
        for sent in conversations():
            assert await conversation(mounted, sent) == await conversation(asgi, sent), sent
            count += 1
    return count


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_every_carrier_of_http_answers_alike(loop):
    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        statuses = runner.run(compare_answers())
        assert len(statuses) > 400
        assert {200, 202, 400, 403, 404, 405, 406, 415} <= set(statuses)
        assert runner.run(compare_bytes()) > 400


class Transport(asyncio.Transport):
    """Keeps each write by itself."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 50000)})
        self.writes: list[bytes] = []
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Ending:
    """The server of uvicorn once it was told to end, as its signal handler shows it."""

    should_exit = True

    def handle_exit(self, number: int, frame: Any) -> None: ...


class Served:
    """One request on a connection of uvicorn that a test changes before the application begins."""

    def __init__(self, app: Any, request: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        config = uvicorn.Config(app, ws="none", lifespan="off", proxy_headers=False, log_config=None)
        self.state, self.transport = ServerState(), Transport()
        self.state.default_headers = list(headers)
        self.connection = HttpToolsProtocol(config, self.state, {})
        self.connection.access_log = False
        self.connection.connection_made(self.transport)
        self.connection.data_received(request)
        self.request = self.connection.cycle

    async def outcome(self) -> dict[str, Any]:
        """Return what the client and uvicorn see in the end."""
        async with asyncio.timeout(DEADLINE):
            while self.state.tasks:  # noqa: ASYNC110 - uvicorn drops a task when it is done
                await asyncio.sleep(0)
        if self.connection.timeout_keep_alive_task is not None:
            self.connection.timeout_keep_alive_task.cancel()
        plain = (bool, int, bytearray, type(None))
        request = {name: value for name, value in vars(self.request).items() if isinstance(value, plain)}
        return {
            **request,
            "written": b"".join(self.transport.writes),
            "is closed": self.transport.is_closed,
            "is told": self.request.message_event.is_set(),
            "is timed": self.connection.timeout_keep_alive_task is not None,
            "served": self.state.total_requests,
        }


def lose(served: Served) -> None:
    served.connection.connection_lost(None)


def pause(served: Served) -> None:
    served.connection.pause_writing()
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(served.connection.resume_writing))


def log(served: Served) -> None:
    served.request.access_log = True


def end(_: Served) -> None:
    signal.signal(signal.SIGTERM, Ending().handle_exit)


def pipeline(served: Served) -> None:
    served.connection.data_received(kept(adding(a=2)))


OURS = ((b"server", b"uvicorn"), (b"X-Own", b"yes"))
CHANGES: dict[str, tuple[Callable[[Served], None], bytes, tuple[tuple[bytes, bytes], ...], int]] = {
    "nothing": (lambda _: None, kept(adding()), OURS, 1),
    "no default headers": (lambda _: None, kept(adding()), (), 1),
    "another request behind it": (pipeline, kept(adding()), OURS, 2),
    "a client that is gone": (lose, kept(adding()), OURS, 0),
    "a client that does not read": (pause, kept(adding()), OURS, 2),
    "a connection that is shut down": (lambda served: served.connection.shutdown(), kept(adding()), OURS, 2),
    "a server that is told to end": (end, kept(adding()), OURS, 2),
    "an access log": (log, kept(adding()), OURS, 2),
    "a client that waits to continue": (lambda _: None, kept(adding("Expect: 100-continue")), OURS, 2),
    "a refused head": (lambda _: None, kept(adding("Expect: 100-continue", "Origin: https://evil.example")), OURS, 1),
    "HEAD": (lambda _: None, kept(http("HEAD", (ACCEPT,), b"")), OURS, 1),
    "a header that closes": (lambda _: None, kept(adding()), ((b"Connection", b"close"),), 2),
    "a header that frames": (lambda _: None, kept(adding()), ((b"Transfer-Encoding", b"chunked"),), 2),
    "a header that is refused": (lambda _: None, kept(adding()), ((b"X-Own", b"a\r\nb"),), 0),
}
CLOSING = ("a connection that is shut down", "a server that is told to end", "a header that closes")


@pytest.mark.parametrize("case", CHANGES)
def test_a_request_of_uvicorn_is_left_as_receive_and_send_leave_it(case, caplog):
    change, request, headers, writes = CHANGES[case]
    before = signal.getsignal(signal.SIGTERM)

    async def outcome(around: Callable[[Any], Any]) -> tuple[dict[str, Any], list[str], int]:
        server = served()
        caplog.clear()
        with caplog.at_level("INFO", "uvicorn.access"):
            one = Served(around(server.asgi()), request, headers)
            change(one)
            return await one.outcome(), caplog.messages.copy(), len(one.transport.writes)

    try:
        short, lines, count = asyncio.run(outcome(lambda app: app))
        plain, plain_lines, _ = asyncio.run(outcome(behind_functions))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (short, lines) == (plain, plain_lines)
    assert count == writes
    assert sum("POST /mcp" in line for line in lines) == (case == "an access log")
    assert (b"connection: close" in short["written"]) == (case in CLOSING)


@pytest.mark.parametrize("name", ["receive", "send"])
def test_a_method_of_uvicorn_that_was_replaced_is_called(name, monkeypatch):
    original, calls = getattr(RequestResponseCycle, name), []

    @wraps(original)
    async def replaced(*given: Any) -> Any:
        calls.append(name)
        return await original(*given)

    async def outcome() -> dict[str, Any]:
        return await Served(served().asgi(), kept(adding()), OURS).outcome()

    monkeypatch.setattr(RequestResponseCycle, name, replaced)
    assert b'"text":"3"' in asyncio.run(outcome())["written"]
    assert calls == (["receive"] if name == "receive" else ["send", "send"])
