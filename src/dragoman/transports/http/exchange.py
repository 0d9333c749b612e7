"""HTTP exchanges: one request and its response, over ASGI or over a connection of `http1`.

An exchange sends its response head as late as possible, because the head says which of two forms the response has:

    one body          `reply` is called before anything else is sent
    an event stream   a message is sent before the outcome, or there is no outcome after `Pace.stream_after` seconds

A stream carries keep-alive comments. One timer checks all exchanges that last longer than `Pace.tick`. Most exchanges
end before their first check.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from http import HTTPStatus
from time import perf_counter
from typing import Any, Protocol

from msgspec import Struct, field

from dragoman.errors import TransportError
from dragoman.protocol import sse
from dragoman.protocol.statuses import METHOD_NOT_SERVED, NO_CONTENT, NOT_FOUND, OK
from dragoman.runtime.tasks import keep_until_done

Header = tuple[bytes, bytes]

UNTIMED_BYTES = 16_384
"""A body of at most this size fits into the buffer of a connection, so writing it needs no time limit."""
JSON_HEADERS: tuple[Header, ...] = ((b"content-type", b"application/json"),)
_STREAM_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_DOCUMENT_HEADERS: tuple[Header, ...] = (
    *JSON_HEADERS,
    (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"max-age=3600"),
)
_REASON_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_PREFLIGHT_HEADERS: tuple[Header, ...] = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
)


class Pace(Struct, frozen=True):
    """Time limits and intervals of exchanges, in seconds."""

    tick: float = 0.1
    """Between two checks of the open exchanges."""
    stream_after: float = 2.0
    """Until an exchange without an outcome becomes an event stream."""
    keep_alive: float = 15.0
    """Between two keep-alive comments on a silent stream."""
    send: float = 30.0
    """Until the server gives up a client that does not read."""
    read: float = 30.0
    """Until the server gives up a client that does not send its body, with status 408."""


DEFAULT_PACE = Pace()


def reason_phrase(status: int) -> str:
    """Return the text that follows a status in a status line; empty for an unknown status."""
    return _REASON_PHRASES.get(status, "")


class TooSlow(TransportError):
    """The body did not arrive in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The body did not come within {seconds:g} seconds")


class Gone(TransportError):
    """The client closed the connection before it had sent the body."""


class ExchangeRecord(Struct):
    """What an access log says of an exchange."""

    status: int | None = None
    """The status of the response, once it has begun."""
    sent_bytes: int = 0
    """How many bytes of the body were sent."""
    requests: list[Any] = field(default_factory=list)
    """The messages of the body, as the service understood them."""

    began: float = field(default_factory=perf_counter)
    """The clock of the loop may be too coarse for a log."""

    def add(self, status: int, size: int) -> None:
        """Record the status of the response, and a part of its body."""
        self.status = self.status or status
        self.sent_bytes += size


class Exchange(ABC):
    """One HTTP request and its response.

    What every request reads are slots. An attribute with a default in the class takes longer to read, but no time to
    set and no memory: most exchanges do not set it, and a server may have many thousand open streams.
    """

    __slots__ = (
        "__dict__",
        "_pace",
        "bound_to",
        "ended",
        "extra_headers",
        "gone",
        "headers",
        "http_version",
        "identity",
        "loop",
        "may_stream",
        "method",
        "on_gone",
        "principal",
        "record",
        "server_context",
        "started",
        "streaming",
        "task",
    )

    is_raw = False
    """Whether the response comes in parts that are no event stream, so that no keep-alive may be sent."""
    opening: Callable[[], bytes] | None = None
    """Returns the first bytes of an event stream."""
    is_ending = False
    """Whether the server shuts down, so that endless streams must be ended."""
    on_ending: Callable[[], None] | None = None
    """Ends an endless stream gracefully."""
    lasts = False
    """Whether the serving task continues when the client is gone."""

    scope: Mapping[str, Any]
    """The request as an ASGI scope."""

    _last_sent = 0.0
    _writing: asyncio.Lock | None = None

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pace: Pace,
        method: str,
        headers: tuple[Header, ...],
        bound_to: str | None,
        http_version: str | None,
    ) -> None:
        self.loop = loop
        self.started = loop.time()
        self._pace = pace
        self.method = method
        self.headers = headers
        """The headers, with lower-case names."""
        self.bound_to = bound_to
        """The address that the server listens on."""
        self.http_version = http_version
        """The HTTP version as in an ASGI scope; None without a connection."""
        self.gone = self.streaming = self.ended = False
        self.may_stream = False
        """Whether the response becomes an event stream when the outcome takes long."""
        self.extra_headers: tuple[Header, ...] = ()
        self.record: ExchangeRecord | None = None
        """What the access log says of this exchange; None without an access log."""
        self.principal: str | None = None
        """The authenticated user, once known."""
        self.identity: Any = None
        """The verified identity with its scopes and claims, None without authorization."""
        self.server_context: Any = None
        """The author's object that a view gives to the handler of this request."""
        self.task: asyncio.Task[Any] | None = None
        """The serving task; set at the latest when the body is read."""
        self.on_gone: Callable[[], None] | None = None

    @property
    def address(self) -> str | None:
        """The address of the client, if known."""
        client = self.scope.get("client")
        return client[0] if client else None

    @abstractmethod
    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: the body has more than `limit` bytes.
            TooSlow: the body did not arrive in time.
            Gone: the client closed the connection.
        """

    async def reply(self, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
        """Answer with one body, unless a response has begun."""
        # No lock is needed: `stream` sets `streaming`, and this method sets `ended`, before the first await of a send.
        if self.ended or self.streaming or self.gone:
            return
        self.ended = True
        if self.record is not None:
            self.record.add(status, len(body))
        try:
            await self._send_whole(status, body, (*headers, *self.extra_headers))
        except (OSError, RuntimeError):  # a TimeoutError is an OSError
            self.lose()

    @abstractmethod
    async def _send_whole(self, status: int, body: bytes, headers: Sequence[Header]) -> None:
        """Send a response with one body, within the time limit."""

    def answer(self, status: int, data: bytes, *, json: bool, after: bytes = b"") -> Coroutine[Any, Any, None]:
        """Send a message as one body, or as the last event if a stream has begun or the client accepts no `json`.

        `after` holds encoded events that are sent before the message.
        """
        if self.streaming or after or not json:
            return self.stream(after + sse.encode(data), last=True)
        return self.reply(status, data, JSON_HEADERS)

    @abstractmethod
    async def _send_part(self, head: Sequence[Header] | None, data: bytes, *, last: bool, status: int) -> None:
        """Send the head of a stream, if given, and a part of its body, within the time limit."""

    @abstractmethod
    def _watch_disconnect(self) -> None:
        """Begin to watch for a disconnect of the client."""

    async def stream(self, data: bytes, *, last: bool = False) -> None:
        """Send a part of an event stream, and its head before the first part; nothing follows the last part."""
        if self._writing is None:
            self._writing = asyncio.Lock()
        async with self._writing:
            if self.ended:
                return
            head = None
            if not self.streaming:
                self.streaming = True
                data = data if self.opening is None else self.opening() + data
                head = (*_STREAM_HEADERS, *self.extra_headers)
            if last:
                self.ended = True
            await self._send_within_time(OK, head, data, last=last)

    async def send_part(
        self, data: bytes, *, status: int = OK, head: Sequence[Header] | None = None, last: bool = False
    ) -> None:
        """Send a part of a response that is no event stream; the first part needs a head."""
        if not self.ended:
            self.is_raw = self.streaming = True
            self.ended = last
            headers = None if head is None else (*head, *self.extra_headers)
            await self._send_within_time(status, headers, data, last=last)

    async def _send_within_time(self, status: int, head: Sequence[Header] | None, data: bytes, *, last: bool) -> None:
        if self.gone:
            return
        if self.record is not None:
            self.record.add(status, len(data))
        try:
            await self._send_part(head, data, last=last, status=status)
            self._last_sent = self.loop.time()
        except (OSError, RuntimeError):  # a TimeoutError is an OSError
            self.lose()

    def lose(self) -> None:
        """Record that the client is gone, and call `on_gone` once."""
        if not self.gone:
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()

    def check(self, now: float) -> Coroutine[Any, Any, None] | None:
        """Return the coroutine that sends a stream head or a keep-alive, if one is due."""
        self._watch_disconnect()
        if self.on_ending is not None and self.is_ending:
            self.on_ending()
        if self.ended or self.gone or self.is_raw or (self._writing is not None and self._writing.locked()):
            return None
        if self.streaming:
            return self.stream(sse.KEEP_ALIVE) if now - self._last_sent >= self._pace.keep_alive else None
        return self.stream(b"") if self.may_stream and now - self.started >= self._pace.stream_after else None


class ExchangeService(Protocol):
    """Serves exchanges."""

    async def start(self) -> None:
        """Get ready before the first exchange; if nobody calls this, the first exchange does it."""

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to its end."""

    async def close(self, seconds: float | None = None) -> None:
        """End open exchanges gracefully: streams at once, requests after `seconds`."""


class PathsBeside(Protocol):
    """Serves the paths beside that of the service."""

    async def serve(self, exchange: Exchange, path: str) -> bool:
        """Serve an exchange to its end; return False, without an answer, if nothing is served at its path."""


class ServedPath:
    """A service at one path, alone or mounted; public JSON documents and whatever `beside` serves at other paths.

    One timer checks all exchanges that last longer than `Pace.tick`.
    """

    beside: PathsBeside | None = None
    is_draining = False
    """Whether the application ends: it answers the requests that it has, and should get no others."""
    listens_while_draining = False
    """Whether new connections are accepted while the application ends, because probes ask for its health."""

    def __init__(
        self,
        service: ExchangeService,
        *,
        path: str = "/mcp",
        pace: Pace = DEFAULT_PACE,
        documents: Mapping[str, bytes] | None = None,
    ) -> None:
        self.path = "/" + path.strip("/")
        self.pace = pace
        self.log: Callable[[Exchange, ExchangeRecord, str], None] | None = None
        """Called with each exchange that has ended, its record and its path."""
        self.on_unserved: Callable[[Exchange], None] | None = None
        """Called with each exchange at a path that nothing serves."""
        self._service = service
        self._documents = documents or {}
        self._open: set[Exchange] = set()
        self._sending: set[asyncio.Task[Any]] = set()
        self._ticking_in: asyncio.AbstractEventLoop | None = None

    def _tick_in(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticking_in = loop
        loop.call_later(self.pace.tick, self._tick, loop)

    async def serve(self, exchange: Exchange, path: str, root: str = "") -> None:
        """Serve one exchange to its end; `root` is the path prefix at which the application is mounted."""
        self._open.add(exchange)
        if self._ticking_in is not exchange.loop:
            self._tick_in(exchange.loop)
        if self.log is not None and exchange.record is None:
            exchange.record = ExchangeRecord()
        try:
            if path == self.path or self._is_served(path, root):
                await self._service.serve(exchange)
            else:
                await self._serve_beside(exchange, path.removeprefix(root))
        except Gone:
            pass
        finally:
            self._open.discard(exchange)
            if self.log is not None and exchange.record is not None:
                self.log(exchange, exchange.record, path)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for exchange in list(self._open):
            due = exchange.check(now) if now - exchange.started >= self.pace.tick else None
            if due is not None:
                keep_until_done(loop.create_task(due), self._sending)
        if self._open:
            loop.call_later(self.pace.tick, self._tick, loop)
        else:
            self._ticking_in = None

    def _is_served(self, path: str, root: str) -> bool:
        relative = path.removeprefix(root) if root else path
        mounted_here = bool(root) and relative in ("", "/")
        return mounted_here or relative.rstrip("/") == self.path.rstrip("/")

    async def _serve_beside(self, exchange: Exchange, path: str) -> None:
        """Answer with a public JSON document, with what is served beside, or with 404."""
        document = self._documents.get(path.rstrip("/"))
        if document is None:
            if self.beside is None or not await self.beside.serve(exchange, path):
                if self.on_unserved is not None:
                    self.on_unserved(exchange)
                await exchange.reply(NOT_FOUND)
        elif exchange.method == "OPTIONS":
            await exchange.reply(NO_CONTENT, headers=_PREFLIGHT_HEADERS)
        elif exchange.method not in ("GET", "HEAD"):
            await exchange.reply(METHOD_NOT_SERVED, headers=((b"allow", b"GET, HEAD, OPTIONS"),))
        else:
            await exchange.reply(OK, document, _DOCUMENT_HEADERS)

    async def start(self) -> None:
        """Get the service ready before its first exchange."""
        await self._service.start()

    async def close(self, seconds: float | None = None) -> None:
        """End open exchanges gracefully: streams at once, requests after `seconds`."""
        self.is_draining = True
        await self._service.close(seconds)
