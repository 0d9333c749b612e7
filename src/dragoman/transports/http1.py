"""HTTP/1.1 by a connection of uvicorn's, without ASGI between: what `server.run("http")` serves with.

Uvicorn listens, watches for signals and ends connections; httptools parses; this file holds what lies between a socket
and an exchange. Requests that come while one is served wait in line, and reading pauses until it is their turn, which
comes when the response before theirs is written and taken. A request is begun when its chunk has been read to the end,
so that the body of most is there before it is asked for; a body that nobody reads is held up after 64 kB, and what is
left of it after the response is dropped. One timer, wound up only when it goes off, ends connections on which nothing
is asked for, or nothing taken.

ASGI makes a mapping of every request, awaits two messages for every response, and sets a timer after each: a third of
what a call costs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools

from dragoman.transports.exchange import UNTIMED_BYTES, Exchange, Gone, Header, Site, TooLarge

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

HIGH_WATER_BYTES = 65_536
MOST_HEAD_BYTES = 131_072
"""More than is accepted, so that what is only a little too large is refused with its reason."""
MOST_FRAMING = 16
"""Bytes of framing for each byte of a body, beyond so many."""
_BAD_REQUEST, _HEAD_TOO_LARGE, _FAILED = 400, 431, 500
_NO_CONTENT = 204
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_METHODS = {b"POST": "POST", b"GET": "GET", b"DELETE": "DELETE"}
_FRAMING = (b"content-length", b"transfer-encoding")
_LINE_ENDS = b"\r\n\0"
_logger = logging.getLogger("dragoman.transports")


class Http1Exchange(Exchange):
    """An exchange on a connection."""

    lasts = True
    is_whole = False
    """Whether all of its body came."""
    is_late = False
    """Whether its body did not come in time."""
    keeps_alive = False
    http_version = "1.1"
    size = 0
    """How many bytes of its body came."""
    framing = 0
    """How many bytes came that were none of its body, after the first chunk."""

    _arrived: asyncio.Future[None] | None = None

    def __init__(self, connection: Http1Connection, method: str, url: bytes, headers: list[Header]) -> None:
        self.loop = connection.loop
        self.started = self._last_sent = connection.loop.time()
        self._pace = connection.site.pace
        self.method = method
        self.path = connection.site.path
        self.given_headers = headers
        self.bound_to = connection.bound_to
        self._connection = connection
        self._url = url
        self._chunks: list[bytes] = []

    @cached_property
    def headers(self) -> list[Header]:  # type: ignore[override]
        """By lower-case names."""
        return [(name.lower(), value) for name, value in self.given_headers]

    @cached_property
    def scope(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What is known of the request, as ASGI names it."""
        path, query = _split(self._url)
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self.http_version,
            "method": self.method,
            "scheme": self._connection.scheme,
            "path": self.path,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "server": self._connection.address("sockname"),
            "client": self._connection.address("peername"),
            "state": {},
        }

    @property
    def is_ending(self) -> bool:  # type: ignore[override]
        """Whether the server ends."""
        return self._connection.is_ending

    def take(self, chunk: bytes) -> None:
        """Take a part of the body; what comes after the response is dropped."""
        self.size += len(chunk)
        if self.ended:
            return
        self._chunks.append(chunk)
        if self._arrived is not None:
            self._wake()
        elif self.size > HIGH_WATER_BYTES:
            self._connection.pause_reading()

    def complete(self) -> None:
        """Note that the body has ended."""
        self.is_whole = True
        if self._arrived is not None:
            self._wake()

    def _wake(self, error: Exception | None = None) -> None:
        arrived, self._arrived = self._arrived, None
        if arrived is None or arrived.done():
            return
        if error is None:
            arrived.set_result(None)
        else:
            arrived.set_exception(error)

    def at_hand(self, limit: int) -> bytes | None:
        """Return the body if it came whole, as most do, with the head."""
        chunks = self._chunks
        if not self.is_whole or len(chunks) != 1 or self.size > limit or self.size > HIGH_WATER_BYTES or self.gone:
            return None
        return chunks.pop()

    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: it has more than `limit` bytes.
            TooSlow: it did not come in time.
            Gone: the client went away.
        """
        if not self.is_whole and not self.size and self._expects_continue():
            self._connection.write(_CONTINUE)
        while not self.is_whole and self.size <= limit and not self.gone:
            self._connection.resume_reading()
            self._arrived = self.loop.create_future()
            await self._arrived
        chunks, self._chunks = self._chunks, []
        if self.gone:
            raise Gone
        if self.size > limit:
            raise TooLarge
        if self.size > HIGH_WATER_BYTES:
            self._connection.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _expects_continue(self) -> bool:
        return any(name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers)

    async def reply(self, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
        """Answer with one body, unless something was answered before."""
        if self.ended or self.streaming or self.gone:
            return
        self.ended = True
        extra = self.extra_headers
        self._connection.respond(self, status, (*headers, *extra) if extra else headers, body)
        if len(body) > UNTIMED_BYTES:
            try:
                await self._connection.drained()
            except TimeoutError:
                self.lose()

    async def _put(self, head: Sequence[Header] | None, data: bytes, *, last: bool) -> None:
        await self._connection.drained()
        if not self.gone:
            self._connection.stream(self, head, data, last=last)

    def lose(self) -> None:
        """Note that the client is gone."""
        self.give_up()
        self._connection.abort()

    def give_up(self) -> None:
        """Let who serves it know that nobody waits for it."""
        super().lose()
        self._wake(Gone())

    def is_reading(self) -> bool:
        """Tell whether the body is waited for."""
        return self._arrived is not None

    def _watch(self) -> None:
        """Do nothing: a connection tells when it is lost."""

    def _hurry(self) -> None:
        self.is_late = True
        self._wake(self._late())


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Return the path and the query of an address; of one that is none, a path that leads nowhere."""
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return b"*", b""
    return parsed.path or b"/", parsed.query or b""


class Http1Connection(asyncio.Protocol):
    """A connection, as uvicorn makes it for each client; `config.app` is an `AsgiApp`."""

    is_ending = False
    """Whether the next response is the last one, because the server ends."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.site: Site = config.app.site  # type: ignore[union-attr]
        self.loop = _loop or asyncio.get_running_loop()
        self.bound_to: str | None = None
        self._state = server_state
        self._keep_alive_seconds: float = config.timeout_keep_alive
        self._served_url = self.site.path.encode()
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._url = b""
        self._headers: list[Header] = []
        self._body_bytes = 0
        """Of the chunk that is being parsed."""
        self._incoming: Http1Exchange | None = None
        self._current: Http1Exchange | None = None
        self._answered: Http1Exchange | None = None
        """Whose response was written last, while nothing else is served."""
        self._in_line: deque[Http1Exchange] = deque()
        self._head_bytes = 0
        self._is_closing = False
        self._is_reading_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._idle_until = self._goes_off = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._default_headers: list[Header] = []
        self._default_lines = b""

    # What the transport and uvicorn call.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport
        # What one request sets in its context is not to be seen by the next one, which may be begun in its task.
        self._context = copy_context()
        self._state.connections.add(self)  # type: ignore[arg-type]
        self.bound_to = (self.address("sockname") or (None,))[0]
        self._rest(self.site.pace.read)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Let everybody know who waits for anything."""
        self._is_closing = True
        self._parser = None  # which has a way back to us
        self._state.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        current, self._current = self._current, None
        self._answered = None
        self._in_line.clear()
        if current is not None and not current.ended:
            current.give_up()

    def data_received(self, data: bytes) -> None:
        """Parse, and begin what has come."""
        if self._parser is None or self._is_closing:
            return
        incoming, self._body_bytes = self._incoming, 0
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError) as problem:
            self._overcome(problem, data)
        if self._url:
            self._wait_for_head(len(data))
        if incoming is not None and incoming is self._incoming:
            self._check_framing(incoming, len(data) - self._body_bytes)
        if self._current is None and self._answered is None and self._in_line and not self._is_closing:
            self._begin(self._in_line.popleft())

    def _overcome(self, problem: Exception, data: bytes) -> None:
        while isinstance(problem, httptools.HttpParserUpgrade):
            data = data[problem.args[0] :]
            try:
                self._decline(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as another:
                problem = another
            else:
                return
        self._hear_no_more(_BAD_REQUEST)

    def _decline(self, rest: bytes) -> None:
        """Go on after an offer to speak another protocol, which need not be taken.

        The parser takes what follows the head for the other protocol, but it is the body, as clients of HTTP/2 send it
        with their first request.
        """
        assert self._incoming is not None
        framing = b"".join(b"%b: %b\r\n" % header for header in self._incoming.headers if header[0] in _FRAMING)
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n")
        self._parser.feed_data(rest)

    def pause_writing(self) -> None:
        """Let who streams wait."""
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        """Let who streams go on."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        if self._answered is not None:
            self._go_on(self._answered)

    # What the parser calls.

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        # Fields that follow a chunked body are no headers, neither of its request nor of the next one.
        if self._incoming is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Put the request in line."""
        parser = self._parser
        assert parser is not None
        if self._incoming is not None:
            self._url = b""
            return
        method = parser.get_method()
        exchange = Http1Exchange(self, _METHODS.get(method) or method.decode("ascii"), self._url, self._headers)
        if self._url != self._served_url:
            exchange.path = unquote(_split(self._url)[0].decode("latin-1"))
        self._url, self._headers, self._head_bytes = b"", [], 0
        version = parser.get_http_version()
        if version == "1.1":
            exchange.keeps_alive = parser.should_keep_alive()
        else:
            exchange.http_version = version
        self._incoming = exchange
        self._in_line.append(exchange)
        if self._current is not None or len(self._in_line) > 1:
            self.pause_reading()

    def on_body(self, chunk: bytes) -> None:
        """Take a part of a body."""
        assert self._incoming is not None
        self._body_bytes += len(chunk)
        self._incoming.take(chunk)

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        assert self._parser is not None
        assert self._incoming is not None
        if self._parser.should_upgrade():
            return
        exchange, self._incoming = self._incoming, None
        exchange.complete()
        if exchange is self._answered:
            self._go_on(exchange)

    # One request after the other.

    def _begin(self, exchange: Http1Exchange) -> None:
        self._current, self._answered = exchange, None
        exchange.task = task = self.loop.create_task(self._serve(exchange), context=self._context.copy())
        if not task.done():  # at once (Python 3.12: eager tasks)
            self._state.tasks.add(task)

    async def _serve(self, exchange: Http1Exchange) -> None:
        task = exchange.task = exchange.task or asyncio.current_task(self.loop)
        assert task is not None
        try:
            await self.site.serve(exchange, exchange.path)
        except Exception:
            _logger.exception("A request could not be served")
        finally:
            self._state.tasks.discard(task)
            if not exchange.ended and not exchange.gone:
                self._break_off(exchange)

    def _break_off(self, exchange: Http1Exchange) -> None:
        """End what was left without a response, or within one."""
        exchange.ended = True
        exchange.keeps_alive = False
        if exchange.streaming:
            self.abort()
        else:
            self.respond(exchange, _FAILED, (), b"")

    def _go_on(self, exchange: Http1Exchange) -> None:
        """Turn to what follows a response that is written; it must be taken first, and so must the rest of its request.

        A connection that is closed with something unread loses what was written last.
        """
        if self._is_closing or self._transport.is_closing():
            return
        self._current, self._answered = None, exchange
        if self._drained is not None:
            self.pause_reading()
            self._rest(self.site.pace.send)
            return
        if not exchange.is_whole and not exchange.is_late:
            self._rest(self.site.pace.read)
        elif not exchange.keeps_alive:
            self._close()
        elif self._in_line:
            self._begin(self._in_line.popleft())
        else:
            self._answered = None
            self._rest(self._keep_alive_seconds)
        if self._is_reading_paused:
            self.resume_reading()

    def _hear_no_more(self, status: int) -> None:
        """Take no further request; one whose body is cut off by what cannot be read is given up."""
        self._parser, self._url = None, b""
        broken, self._incoming = self._incoming, None
        if broken is None:
            pass
        elif broken.ended:
            self._close()
        elif broken.streaming:
            broken.lose()
        elif broken is self._current:
            self._current = None
            broken.give_up()
        else:
            self._in_line.pop()
        latest = self._in_line[-1] if self._in_line else self._current or self._answered
        if latest is not None:
            latest.keeps_alive = False
        elif not self._is_closing:
            self._refuse(status)

    def _check_framing(self, exchange: Http1Exchange, count: int) -> None:
        """Count what came that is no part of a body: sizes of chunks, and what may stand beside and after them."""
        exchange.framing += count
        if exchange.framing > MOST_HEAD_BYTES + MOST_FRAMING * exchange.size:
            self._hear_no_more(_BAD_REQUEST)

    # Waiting.

    def _rest(self, seconds: float) -> None:
        """Wait so long for something to be asked."""
        self._idle_until = self.loop.time() + seconds
        if self._timer is None or self._goes_off > self._idle_until:
            self._wind_up()

    def _wind_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._goes_off = self._idle_until
        self._timer = self.loop.call_at(self._goes_off, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._current is not None:
            return
        if self.loop.time() < self._idle_until:
            self._wind_up()
        elif self._drained is not None:
            self.abort()
        else:
            self._close()

    def _wait_for_head(self, count: int) -> None:
        """Wait for the rest of a head, so long, and for so many bytes."""
        if self._head_bytes == 0:
            self._rest(self.site.pace.read)
            count = len(self._url)  # what came before it in the same chunk is no part of it
        self._head_bytes += count
        if self._head_bytes > MOST_HEAD_BYTES:
            self._hear_no_more(_HEAD_TOO_LARGE)

    def pause_reading(self) -> None:
        """Let the client wait."""
        if not self._is_reading_paused and not self._is_closing:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Let the client go on, unless more of its requests than one are here."""
        if self._is_reading_paused and not self._in_line and not self._is_closing:
            self._is_reading_paused = False
            self._transport.resume_reading()

    # Writing.

    async def drained(self) -> None:
        """Wait until what was written is not too much any more.

        Raises:
            TimeoutError: the client does not read.
        """
        if self._drained is not None:
            async with asyncio.timeout(self.site.pace.send):
                await asyncio.shield(self._drained)

    def write(self, data: bytes) -> None:
        """Write."""
        if not self._is_closing:
            self._transport.write(data)

    def respond(self, exchange: Http1Exchange, status: int, headers: Iterable[Header], body: bytes) -> None:
        """Write a response, and turn to the next request."""
        parts = self._head(exchange, status, headers)
        parts.append(b"\r\n" if status == _NO_CONTENT else b"content-length: %d\r\n\r\n" % len(body))
        if len(body) > UNTIMED_BYTES:
            self.write(b"".join(parts))
            parts.clear()
        if exchange.method != "HEAD":
            parts.append(body)
        self.write(b"".join(parts))
        self._go_on(exchange)

    def stream(self, exchange: Http1Exchange, head: Sequence[Header] | None, data: bytes, *, last: bool) -> None:
        """Write a part of a response; one of HTTP/1.0 ends with its connection."""
        is_chunked = exchange.http_version == "1.1"
        parts = []
        if head is not None:
            parts = self._head(exchange, 200, head)
            parts.append(b"transfer-encoding: chunked\r\n\r\n" if is_chunked else b"\r\n")
        if data:
            parts += (b"%x\r\n" % len(data), data, b"\r\n") if is_chunked else (data,)
        if last and is_chunked:
            parts.append(b"0\r\n\r\n")
        self.write(b"".join(parts))
        if last:
            self._go_on(exchange)

    def _head(self, exchange: Http1Exchange, status: int, headers: Iterable[Header]) -> list[bytes]:
        if self._state.default_headers is not self._default_headers:
            self._default_headers = self._state.default_headers
            self._default_lines = b"".join(b"%b: %b\r\n" % header for header in self._default_headers)
        parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, self._default_lines]
        for name, value in headers:
            if name == b"connection":
                exchange.keeps_alive = False
            else:
                parts += (name, b": ", value.translate(None, _LINE_ENDS), b"\r\n")
        if self.is_ending and not self._in_line:
            exchange.keeps_alive = False
        if not exchange.keeps_alive:
            parts.append(_CLOSE)
        return parts

    def _refuse(self, status: int) -> None:
        """Answer what is no request."""
        self.write(_STATUS_LINES[status] + b"content-length: 0\r\n" + _CLOSE + b"\r\n")
        self._close()

    def _close(self) -> None:
        """End when all is written, or is not taken in time."""
        if not self._is_closing:
            self._is_closing = True
            self._transport.close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(self.site.pace.send, self._transport.abort)

    def abort(self) -> None:
        """End at once, though something may be unwritten."""
        self._is_closing = True
        self._transport.abort()

    def address(self, of: str) -> tuple[str, int] | None:
        """Return one of the two ends, if it has an address and not only a path."""
        found = self._transport.get_extra_info(of)
        return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) else None

    @property
    def scheme(self) -> str:
        """Whether it is encrypted."""
        return "https" if self._transport.get_extra_info("sslcontext") else "http"
