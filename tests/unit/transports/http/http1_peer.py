"""A client of an HTTP/1.1 connection, by its bytes: over a transport that records, without a network."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from uvicorn.server import ServerState

from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.exchange import Exchange, Pace
from dragoman.transports.http.http1 import Http1Connection
from scenarios.http_peer import DEADLINE

BRISK = Pace(tick=0.001, send=0.05, read=0.05, keep_alive=3600, stream_after=3600)

PATIENT = Pace(tick=0.001, stream_after=3600)

KEEP_ALIVE = 5.0

Serve = Callable[[Exchange], Coroutine[Any, Any, None]]


class Service:
    """Serves exchanges by a function."""

    begin = None

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    async def start(self) -> None:
        pass

    async def serve(self, exchange: Exchange) -> None:
        await self._serve(exchange)

    async def close(self, seconds: float | None = None) -> None:
        pass


async def echo(exchange: Exchange) -> None:
    await exchange.reply(200, await exchange.read(2**20))


class Recorder(asyncio.Transport):
    """The other end of a connection: what was written to it, and what became of it."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 50000)})
        self.written = b""
        self.paused = False
        self.closed = self.aborted = False
        self.ended = False
        """Whether nothing follows what was written; closed or not."""

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = self.ended = True

    def abort(self) -> None:
        self.closed = self.aborted = self.ended = True


class Peer:
    """A client of one connection that has no socket."""

    connection_class: type[Http1Connection] = Http1Connection

    def __init__(self, serve: Serve, *, pace: Pace = PATIENT, keep_alive: float = KEEP_ALIVE) -> None:
        self.state = ServerState()
        config: Any = SimpleNamespace(app=AsgiApp(Service(serve), pace=pace), timeout_keep_alive=keep_alive)
        self.transport = Recorder()
        self.connection = self.connection_class(config, self.state, {})
        self.connection.connection_made(self.transport)

    def send(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self.connection.data_received(chunk)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def heard(self, ending: bytes = b"\r\n\r\n") -> bytes:
        """Wait for what ends so, and take it."""
        await self.until(lambda: self.transport.written.endswith(ending))
        said, self.transport.written = self.transport.written, b""
        return said

    def leave(self) -> None:
        self.connection.connection_lost(None)

    async def end(self) -> None:
        self.leave()
        await self.until(lambda: not self.state.tasks)


def post(body: bytes = b"", *, headers: str = "", path: str = "/mcp", version: str = "1.1") -> bytes:
    return f"POST {path} HTTP/{version}\r\nHost: a\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answer(body: bytes, *, closes: bool = False) -> bytes:
    ending = b"connection: close\r\n" if closes else b""
    return b"HTTP/1.1 200 OK\r\n" + ending + b"content-length: %d\r\n\r\n" % len(body) + body


NO_REQUEST_LINE = b"The request line must be a method, a target and HTTP/1.1 or HTTP/1.0, with one space between them"


def refusal(reason: bytes = b"") -> bytes:
    kind = b"content-type: text/plain\r\n" if reason else b""
    length = b"content-length: %d\r\n" % len(reason)
    return b"HTTP/1.1 400 Bad Request\r\n" + kind + length + b"connection: close\r\n\r\n" + reason


CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
