"""HTTP/1.1 by a connection of uvicorn's, without ASGI between: what `server.run("http")` serves with.

Uvicorn listens, watches for signals and ends connections; httptools parses; this file holds what lies between a socket
and an exchange. Requests that come while one is served wait in line, and reading pauses until it is their turn, which
comes when the response before theirs is written and taken. A request is begun when its chunk has been read to the end,
so that the body of most is there before it is asked for; a body that nobody reads is held up after 64 kB, and what is
left of it after the response is dropped. One timer, wound up only when it goes off, ends connections on which nothing
is asked for, or nothing taken.

The parser accepts more than HTTP allows, so each head is checked before the parser gets it (`http1_head`). For that,
what comes is cut into whole heads and parts of bodies, unless it is one whole POST to the served path, as it mostly is.

After its last response a connection is not closed at once: a client that is still sending would lose the response.

ASGI makes a mapping of every request, awaits two messages for every response, and sets a timer after each: a third of
what a call costs.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Iterable, Sequence
from contextvars import copy_context
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools

from dragoman.runtime.tasks import SelfCancelTask
from dragoman.transports.http.exchange import UNTIMED_BYTES, Header, Site
from dragoman.transports.http.http1_chunks import ChunkedBody
from dragoman.transports.http.http1_exchange import Http1Exchange
from dragoman.transports.http.http1_head import HEAD_END, path_and_query, problem_of

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

MOST_HEAD_BYTES = 131_072
"""More than is accepted, so that what is only a little too large is refused with its reason."""
MOST_FRAMING = 16
"""Bytes of framing for each byte of a body, beyond so many."""
MOST_IN_LINE = 16
"""So many requests wait in line; what comes behind them waits as it came, which takes less memory and time."""
MOST_DROPPED_BYTES = 64 * 1024 * 1024
"""How much is read that nobody wants, so that a client which is still sending gets to its response."""
_BAD_REQUEST, _HEAD_TOO_LARGE, _FAILED = 400, 431, 500
_NO_CONTENT = 204
_CLOSE = b"connection: close\r\n"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_METHODS = {b"POST": "POST", b"GET": "GET", b"DELETE": "DELETE"}
_FRAMING = (b"content-length", b"transfer-encoding")
_LINE_ENDS = b"\r\n\0"
_BLANK_LINES = re.compile(rb"[\r\n]*")
_logger = logging.getLogger("dragoman.transports")


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
        self._usual_line = b"POST %b HTTP/1.1\r\n" % self._served_url
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._url = b""
        self._headers: list[Header] = []
        self._begun = b""
        """What came of a head that is not whole, or behind requests that wait in line."""
        self._is_old = False
        """Whether the head that is being parsed is one of HTTP/1.0."""
        self._body_left = 0
        """How much of the incoming body is to come, if it has a length."""
        self._chunked: ChunkedBody | None = None
        """The incoming body, if it has none."""
        self._dropped_bytes = 0
        self._incoming: Http1Exchange | None = None
        self._current: Http1Exchange | None = None
        self._answered: Http1Exchange | None = None
        """Whose response was written last, while nothing else is served."""
        self._in_line: deque[Http1Exchange] = deque()
        self._is_closing = False
        """Whether nothing more is begun or written."""
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
        self._incoming = self._answered = None  # which have a way back to us
        self._in_line.clear()
        if current is not None and not current.ended:
            current.give_up()

    def data_received(self, data: bytes) -> None:
        """Parse, and begin what has come."""
        if self._parser is None or self._is_closing:
            self.drop(len(data))
            return
        if (
            data.startswith(self._usual_line)
            and data.endswith(b"}")
            and self._incoming is None
            and not self._begun
            and not self._in_line
        ):
            # One whole request, as it mostly is; its request line is known, and the guard checks its Host.
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as problem:
                self._overcome(problem, data)
            if self._url or len(self._in_line) != 1 or not self._in_line[0].is_whole:
                self._look_back(data)
        else:
            self._take_apart(self._begun + data)
        if self._current is None and self._answered is None and self._in_line and not self._is_closing:
            self._begin(self._in_line.popleft())

    def _look_back(self, data: bytes) -> None:
        """See to what was taken for one whole request and is none; nothing of it has begun."""
        if self._url or len(self._in_line) > 1:
            self._parser = httptools.HttpRequestParser(self)
            self._url, self._headers, self._incoming = b"", [], None
            self._in_line.clear()
            self._take_apart(data)
        elif self._incoming is not None:
            self._expect_body(self._incoming)
            if self._chunked is not None:
                self._chunked.end(data, data.index(HEAD_END) + len(HEAD_END))

    def _take_apart(self, data: bytes) -> None:
        """Give the parser one head, or a part of one body, at a time, so that each head is looked at before."""
        at = 0
        while at < len(data) and self._parser is not None:
            at = self._take_head(data, at) if self._incoming is None else self._take_body(self._incoming, data, at)

    def _take_head(self, data: bytes, at: int) -> int:
        """Take a head, and return where it ends."""
        if len(self._in_line) >= MOST_IN_LINE:
            self._begun = data[at:]
            self.pause_reading()
            return len(data)
        blank = _BLANK_LINES.match(data, at)
        at = at if blank is None else blank.end()
        end = data.find(HEAD_END, at) + len(HEAD_END)
        if end < len(HEAD_END):
            self._wait_for_head(data[at:])
            return len(data)
        head, self._begun = data[at:end], b""
        problem = problem_of(head)
        if problem is not None:
            self._hear_no_more(_BAD_REQUEST, problem)
            return len(data)
        self._is_old = head[: head.index(b"\r")].endswith(b"1.0")
        self._feed(head)
        if self._incoming is not None:
            self._expect_body(self._incoming)
        return end

    def _expect_body(self, exchange: Http1Exchange) -> None:
        """Note how the body of a request is framed, of which something may have been taken."""
        length = next((value for name, value in exchange.given_headers if name.lower() == b"content-length"), None)
        if length is None:
            self._chunked = ChunkedBody()
        else:
            self._chunked, self._body_left = None, int(length) - exchange.size

    def _take_body(self, exchange: Http1Exchange, data: bytes, at: int) -> int:
        """Take what belongs to a body, or some of it, and return where that ends."""
        if self._chunked is None:
            part = data[at : at + self._body_left]
            self._body_left -= len(part)
            self._feed(part)
            is_lost = self._body_left == 0 and self._incoming is exchange
        else:
            part = data[at : self._chunked.end(data, at)]
            self._feed(part)
            exchange.framed_size += len(part)
            is_lost = self._is_lost(exchange, self._chunked)
        if is_lost:
            self._hear_no_more(_BAD_REQUEST)
        return at + len(part)

    def _is_lost(self, exchange: Http1Exchange, body: ChunkedBody) -> bool:
        """Tell whether there is too much framing, or the parser sees the end of a chunked body elsewhere."""
        if self._parser is None:
            return False
        is_too_much = exchange.framed_size > MOST_HEAD_BYTES + (MOST_FRAMING + 1) * exchange.size
        if self._incoming is exchange:
            return is_too_much or body.has_ended
        return not body.has_ended or self._incoming is not None or bool(self._url)

    def _feed(self, data: bytes) -> None:
        if self._parser is not None:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as problem:
                self._overcome(problem, data)

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
            exchange.path = unquote(path_and_query(self._url)[0].decode("latin-1"))
        self._url, self._headers = b"", []
        if self._is_old:
            self._is_old = False
            exchange.http_version = "1.0"
        else:
            exchange.keeps_alive = parser.should_keep_alive()
        self._incoming = exchange
        self._in_line.append(exchange)
        if self._current is not None or len(self._in_line) > 1:
            self.pause_reading()

    def on_body(self, chunk: bytes) -> None:
        """Take a part of a body."""
        assert self._incoming is not None
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
        if self._begun and not self._in_line:
            self._take_apart(self._begun)
        # Not by the loop's factory: it makes tasks that do not know whether a handler cancelled itself.
        exchange.task = task = SelfCancelTask(self._serve(exchange), loop=self.loop, context=self._context.copy())
        self._state.tasks.add(task)

    async def _serve(self, exchange: Http1Exchange) -> None:
        assert exchange.task is not None
        try:
            await self.site.serve(exchange, exchange.path)
        except Exception:
            _logger.exception("A request could not be served")
        finally:
            self._state.tasks.discard(exchange.task)
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
            self._dropped_bytes = 0
            self._rest(self.site.pace.read)
        elif not exchange.keeps_alive:
            self._linger()
        elif self._in_line:
            self._begin(self._in_line.popleft())
        else:
            self._answered = None
            self._rest(self.site.pace.read if self._begun else self._keep_alive_seconds)
        if self._is_reading_paused:
            self.resume_reading()

    def _hear_no_more(self, status: int, reason: str = "") -> None:
        """Take no further request; one whose body is cut off by what cannot be read is given up."""
        self._parser, self._url, self._begun = None, b"", b""
        broken, self._incoming = self._incoming, None
        if broken is None:
            pass
        elif broken.ended:
            self._linger()
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
            self._refuse(status, reason)

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

    def _wait_for_head(self, begun: bytes) -> None:
        """Wait for the rest of a head, so long, and for so many bytes."""
        if begun and not self._begun:
            self._rest(self.site.pace.read)
        self._begun = begun
        if len(begun) > MOST_HEAD_BYTES:
            self._hear_no_more(_HEAD_TOO_LARGE)
        elif begun and not begun[:1].isupper():
            self._hear_no_more(_BAD_REQUEST)

    def drop(self, count: int) -> None:
        """Count what was read that nobody wants; when it is too much, the connection is closed."""
        self._dropped_bytes += count
        if self._dropped_bytes > MOST_DROPPED_BYTES:
            self._close()

    def pause_reading(self) -> None:
        """Let the client wait."""
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Let the client go on, unless more of its requests than one are here."""
        if self._is_reading_paused and not self._in_line and not self._transport.is_closing():
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

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what is no request."""
        kind = b"content-type: text/plain\r\n" if reason else b""
        head = _STATUS_LINES[status] + kind + b"content-length: %d\r\n" % len(reason) + _CLOSE
        self.write(head + b"\r\n" + reason.encode("ascii"))
        self._linger()

    def _linger(self) -> None:
        """Write no more, but read on for a while, until the client closes the connection.

        Closed at once, it would be reset if the client is still sending, and the client could lose the response.
        """
        self._is_closing = True
        self._parser = self._incoming = self._answered = None
        self._in_line.clear()
        self._dropped_bytes = 0
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._rest(self.site.pace.read)
        self.resume_reading()

    def _close(self) -> None:
        """End when all is written, or is not taken in time."""
        self._is_closing = True
        if not self._transport.is_closing():
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
