"""What carries the exchanges of a peer in this process: ASGI itself, or a connection, seen as if it were ASGI."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import httptools
from uvicorn.server import ServerState

from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.http1 import Http1Connection

CARRIERS = ("asgi", "connection")
carrier: ContextVar[str] = ContextVar("carrier", default="asgi")
LEAVING_SECONDS = 0.05
NEWS = frozenset({b"date", b"server", b"transfer-encoding"})


async def carry(
    app: AsgiApp,
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[Any], Awaitable[None]],
    *,
    reads: bool,
) -> None:
    """Serve one exchange by what the test is run with; a mounted application is ASGI's alone."""
    if carrier.get() == "asgi" or scope.get("root_path") or not isinstance(app, AsgiApp):
        await app(scope, receive, send)
    else:
        await _Client(app, scope, receive, send, reads=reads).run()


class _Client(asyncio.Transport):
    """The other end of a connection: writes what ASGI would tell of a request, and tells what is written back."""

    def __init__(self, app: AsgiApp, scope: Any, receive: Any, send: Any, *, reads: bool) -> None:
        peer = scope.get("server")
        super().__init__({"sockname": peer, "peername": ("127.0.0.1", 50000)})
        self._scope, self._receive, self._send = scope, receive, send
        self._state = ServerState()
        config: Any = SimpleNamespace(app=app, timeout_keep_alive=5)
        self._connection = Http1Connection(config, self._state, {})
        self._connection.connection_made(self)
        if not reads:
            self._connection.pause_writing()
        self._parser = httptools.HttpResponseParser(self)
        self._told: asyncio.Queue[Any] = asyncio.Queue()
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_lost = False

    async def run(self) -> None:
        sending = asyncio.ensure_future(self._ask())
        try:
            while (message := await self._told.get()) is not None:
                await self._send(message)
                if message["type"] == "http.response.body" and not message["more_body"]:
                    break
            if self._state.tasks:
                await asyncio.wait(self._state.tasks, timeout=LEAVING_SECONDS)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            self._lose()

    async def _ask(self) -> None:
        first = await self._receive()
        headers = [b"%b: %b\r\n" % header for header in self._scope["headers"]]
        framing = b"Transfer-Encoding: chunked\r\n"
        if not first.get("more_body"):
            framing = b"Content-Length: %d\r\n" % len(first.get("body", b""))
        head = f"{self._scope['method']} {self._scope['path']} HTTP/1.1\r\n".encode() + b"".join(headers) + framing
        message = first
        self._connection.data_received(head + b"\r\n")
        while message["type"] == "http.request":
            body = message.get("body", b"")
            if b"chunked" in framing:
                body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (
                    b"" if message.get("more_body") else b"0\r\n\r\n"
                )
            self._connection.data_received(body)
            message = await self._receive()
        self._lose()
        self._told.put_nowait(None)

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._connection.connection_lost(None)

    def write(self, data: Any) -> None:
        self._parser.feed_data(bytes(data))

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self._told.put_nowait, None)

    abort = close

    def is_closing(self) -> bool:
        return self._is_lost

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def on_header(self, name: bytes, value: bytes) -> None:
        if name not in NEWS:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._told.put_nowait({"type": "http.response.start", "status": status, "headers": self._headers})

    def on_body(self, body: bytes) -> None:
        self._told.put_nowait({"type": "http.response.body", "body": body, "more_body": True})

    def on_message_complete(self) -> None:
        self._told.put_nowait({"type": "http.response.body", "body": b"", "more_body": False})
