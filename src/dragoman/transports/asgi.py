"""HTTP by ASGI, with no meaning of its own: exchanges come in, and a service serves them.

The response head is held back: an exchange ends as one body, unless something is streamed before, or it takes long;
then it becomes an event stream with keep-alive comments. ASGI tells of a disconnect only to whoever waits for it, so
one timer for all exchanges starts a watcher for each that lives longer than a moment; most never need one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Struct

from dragoman.errors import TransportError
from dragoman.protocol import sse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

CLIENT_CLOSED = 499
UNTIMED_BYTES = 16_384
_STREAM_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


_DOCUMENT_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"application/json"),
    (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"max-age=3600"),
)
_PREFLIGHT_HEADERS: tuple[Header, ...] = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
)


class Pace(Struct, frozen=True):
    """How long things take, in seconds."""

    tick: float = 0.1
    """Between two looks at the exchanges that are open."""
    stream_after: float = 2.0
    """Until an exchange without an outcome becomes an event stream."""
    keep_alive: float = 15.0
    """Between two comments on a stream where nothing else is sent."""
    send: float = 30.0
    """Until a client that does not read is given up."""
    read: float = 30.0
    """Until a client that does not send its body is given up."""


DEFAULT_PACE = Pace()


class TooLarge(TransportError):
    """The body has more bytes than are accepted."""


class TooSlow(TransportError):
    """The body did not come in time."""


class Gone(TransportError):
    """The client closed the connection before it had sent its body."""


class Exchange:
    """One HTTP request and its response."""

    principal: str | None = None
    """Who the client proved to be, once that is known."""
    identity: Any = None
    """What else is known of the client: what it may do, where that is verified."""
    gone = False
    may_stream = False
    """Whether the response may become an event stream by itself when it takes long."""
    opening: Callable[[], bytes] | None = None
    """Gives what an event stream begins with."""
    extra_headers: tuple[Header, ...] = ()
    streaming = False
    ended = False
    on_gone: Callable[[], None] | None = None
    task: asyncio.Task[Any] | None = None
    """Who reads the body."""

    _writing: asyncio.Lock | None = None
    _watcher: asyncio.Task[None] | None = None
    _reading: asyncio.Task[Any] | None = None
    _read_until: float | None = None
    _is_late = False

    def __init__(self, scope: Scope, receive: Receive, send: Send, pace: Pace = DEFAULT_PACE) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.headers: Iterable[Header] = scope["headers"]
        self.bound_to: str | None = (scope.get("server") or (None,))[0]
        """The address that the server listens on."""
        self.loop = asyncio.get_running_loop()
        self.started = self._last_sent = self.loop.time()
        self._pace = pace
        self._receive = receive
        self._send = send
        self._is_read = self.method != "POST"
        """Whether nothing of a body is left that a watcher could take for itself."""

    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: it has more than `limit` bytes.
            TooSlow: it did not come in time.
            Gone: the client went away.
        """
        task = self.task = self._reading = asyncio.current_task(self.loop)
        try:
            message = await self._receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                body: bytes = message.get("body", b"")
                if len(body) <= limit:
                    return body
            return await self._read(message, limit)
        except asyncio.CancelledError:
            if not self._is_late or task is None or task.uncancel():
                raise
            raise TooSlow(f"The body did not come within {self._pace.read:g} seconds") from None
        finally:
            self._reading = None
            self._is_read = True

    async def _read(self, message: Message, limit: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                self.gone = True
                raise Gone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise TooLarge
            chunks.append(chunk)
            if not message.get("more_body"):
                return b"".join(chunks)
            message = await self._receive()

    async def reply(self, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
        """Answer with one body, unless something was answered before."""
        # No lock: what is written in parts has set `streaming` before it waits, and finds `ended` set after this.
        if self.ended or self.streaming or self.gone:
            return
        self.ended = True
        head = [*headers, *self.extra_headers, (b"content-length", b"%d" % len(body))]
        start: Message = {"type": "http.response.start", "status": status, "headers": head}
        if len(body) > UNTIMED_BYTES:
            await self._put(start)
            await self._put({"type": "http.response.body", "body": body})
            return
        try:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})
        except (OSError, RuntimeError):
            self.lose()

    async def stream(self, data: bytes, *, last: bool = False) -> None:
        """Send a part of an event stream, which begins with the first; nothing follows the last."""
        if self._writing is None:
            self._writing = asyncio.Lock()
        async with self._writing:
            if self.ended:
                return
            if not self.streaming:
                self.streaming = True
                data = data if self.opening is None else self.opening() + data
                head = [*_STREAM_HEADERS, *self.extra_headers]
                await self._put({"type": "http.response.start", "status": 200, "headers": head})
            self.ended = last
            await self._put({"type": "http.response.body", "body": data, "more_body": not last})

    async def _put(self, message: Message) -> None:
        if self.gone:
            return
        try:
            await self._send_in_time(message)
            self._last_sent = self.loop.time()
        except (OSError, RuntimeError, TimeoutError):
            self.lose()

    async def _send_in_time(self, message: Message) -> None:
        # A response that is small and whole goes into the buffer of the connection, and needs no clock.
        if not self.streaming and len(message.get("body", b"")) <= UNTIMED_BYTES:
            await self._send(message)
        else:
            async with asyncio.timeout(self._pace.send):
                await self._send(message)

    def lose(self) -> None:
        """Note that the client is gone."""
        if not self.gone:
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()

    def look_after(self, now: float) -> Coroutine[Any, Any, None] | None:
        """Watch for the client's leaving, and return what must be sent to keep it waiting."""
        if self._reading is not None:
            self._hurry(self._reading, now)
            return None
        if self._watcher is None and (self._is_read or self.streaming):
            self._watcher = asyncio.ensure_future(self._watch())
        if self.ended or self.gone or (self._writing is not None and self._writing.locked()):
            return None
        if self.streaming:
            return self.stream(sse.KEEP_ALIVE) if now - self._last_sent >= self._pace.keep_alive else None
        return self.stream(b"") if self.may_stream and now - self.started >= self._pace.stream_after else None

    def _hurry(self, reading: asyncio.Task[Any], now: float) -> None:
        """Give up a body that does not come; its time begins when it is read, which a check may precede."""
        if self._read_until is None:
            self._read_until = now + self._pace.read
        if now >= self._read_until and not self._is_late:
            self._is_late = True
            reading.cancel()

    async def _watch(self) -> None:
        while not self.ended:
            if (await self._receive())["type"] == "http.disconnect":
                if not self.ended:
                    self.lose()
                return

    @property
    def needs_closing(self) -> bool:
        """Whether `close` has anything to do."""
        return self._watcher is not None or self.gone

    async def close(self) -> None:
        """Stop watching, and end into the void what a client that is gone does not take any more.

        A framework around us takes an exchange without a response for a failure.
        """
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        if self.gone and not self.streaming and not self.ended:
            self.ended = True
            with suppress(OSError, RuntimeError):
                await self._send({"type": "http.response.start", "status": CLIENT_CLOSED, "headers": []})
                await self._send({"type": "http.response.body", "body": b""})


class Janitor:
    """Looks after the exchanges that live longer than a moment, by one timer for all."""

    def __init__(self, pace: Pace = DEFAULT_PACE) -> None:
        self._pace = pace
        self._exchanges: set[Exchange] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, exchange: Exchange) -> None:
        """Begin to look after an exchange."""
        self._exchanges.add(exchange)
        loop = exchange.loop
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(self._pace.tick, self._tick, loop)

    def discard(self, exchange: Exchange) -> None:
        """Look after it no more."""
        self._exchanges.discard(exchange)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for exchange in list(self._exchanges):
            due = exchange.look_after(now) if now - exchange.started >= self._pace.tick else None
            if due is not None:
                sending = loop.create_task(due)
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)
        if self._exchanges:
            loop.call_later(self._pace.tick, self._tick, loop)
        else:
            self._loop = None


class Service(Protocol):
    """What serves exchanges."""

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to its end."""

    async def close(self) -> None:
        """End what is still open, in good order."""


class AsgiApp:
    """An ASGI 3 application that serves one path, alone or mounted; a lifespan is welcome but not needed."""

    def __init__(
        self,
        service: Service,
        *,
        path: str = "/mcp",
        pace: Pace = DEFAULT_PACE,
        documents: Mapping[str, bytes] | None = None,
    ) -> None:
        self._service = service
        self._documents = documents or {}
        self._path = "/" + path.strip("/")
        self._pace = pace
        self._janitor = Janitor(pace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self._pace)
        if not self._is_ours(scope):
            await self._serve_document(exchange, scope)
            return
        self._janitor.add(exchange)
        try:
            await self._service.serve(exchange)
        except Gone:
            pass
        finally:
            self._janitor.discard(exchange)
            if exchange.needs_closing:
                await exchange.close()

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _serve_document(self, exchange: Exchange, scope: Scope) -> None:
        """Answer with a JSON document that is the same for everybody, or with 404."""
        path: str = scope["path"]
        document = self._documents.get(path.removeprefix(scope.get("root_path", "").rstrip("/")).rstrip("/"))
        if document is None:
            await exchange.reply(404)
        elif exchange.method == "OPTIONS":
            await exchange.reply(204, headers=_PREFLIGHT_HEADERS)
        elif exchange.method not in ("GET", "HEAD"):
            await exchange.reply(405, headers=((b"allow", b"GET, HEAD, OPTIONS"),))
        else:
            await exchange.reply(200, document, _DOCUMENT_HEADERS)

    def _is_ours(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path == self._path:
            return True
        root = scope.get("root_path", "").rstrip("/")
        relative = path.removeprefix(root) if root else path
        mounted_here = bool(root) and relative in ("", "/")
        return mounted_here or relative.rstrip("/") == self._path.rstrip("/")

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self) -> None:
        """End what is still open, in good order; for whoever serves the application without a lifespan."""
        await self._service.close()
