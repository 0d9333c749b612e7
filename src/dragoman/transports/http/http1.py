"""HTTP/1.1 connections of uvicorn without ASGI: `server.run("http")` serves with these.

Uvicorn listens, handles signals and ends connections. httptools parses. This file connects a socket to exchanges.

- Requests that arrive during another request wait in a queue, and the connection stops reading. The next request
  begins when the previous response is written and the client has read it.
- A request begins after its whole chunk is parsed, so that most bodies are complete before the service reads them.
- If the service does not read a body, the connection stops reading after 64 kB. After the response, the rest of the
  body is dropped.
- One timer ends connections on which no request arrives, or whose client does not read. To save work, a later deadline
  does not move the timer: the timer is set again when it goes off.
- The parser accepts more than HTTP allows, so `http1_head` checks each head before the parser gets it. For this check
  the bytes are cut into whole heads and parts of bodies. The usual chunk, one whole POST to the served path, is not
  cut.
- After its last response the connection does not close at once, because a client that is still sending would lose the
  response.

A connection refers to its requests by these attributes. `_incoming` may be the same request as one of the others.

    _incoming   the head is parsed, the body is not complete
    _queue      these requests wait for an earlier request
    _current    the request is served
    _answered   the response is written; the client has not read it, or has not sent the whole request

Rejected: ASGI. It makes a mapping for every request, awaits two messages for every response, and sets a timer after
each response. That is a third of the cost of a call.
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
from dragoman.transports.http.exchange import HTTP_OK, UNTIMED_BYTES, Header, ServedPath
from dragoman.transports.http.http1_chunks import ChunkedBody
from dragoman.transports.http.http1_exchange import Http1Exchange
from dragoman.transports.http.http1_head import HEAD_END, path_and_query, problem_of

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

MAX_HEAD_BYTES = 131_072
"""More than the parser accepts, so that the parser refuses a head that is slightly too large, with its reason."""
MAX_FRAMING = 16
"""How many bytes of chunk framing a client may send for each byte of a body, beyond MAX_HEAD_BYTES."""
MAX_QUEUED = 16
"""How many requests are parsed ahead. Later requests wait as bytes, which takes less memory and time."""
MAX_DROPPED_BYTES = 64 * 1024 * 1024
"""How many bytes are read and dropped, so that a client that is still sending receives its response."""
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
    """A connection to one client. Uvicorn makes it; `config.app` is an `AsgiApp`."""

    is_ending = False
    """Whether the next response is the last one, because the server ends."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.served: ServedPath = config.app.served  # type: ignore[union-attr]
        self.loop = _loop or asyncio.get_running_loop()
        self.bound_to: str | None = None
        self._state = server_state
        self._keep_alive_seconds: float = config.timeout_keep_alive
        self.served_url = self.served.path.encode()
        self._usual_line = b"POST %b HTTP/1.1\r\n" % self.served_url
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._url = b""
        self._headers: list[Header] = []
        self._unparsed = b""
        """Bytes of an incomplete head, or bytes behind a full queue."""
        self._is_http10 = False
        """Whether the head that is being parsed is of HTTP/1.0."""
        self._body_left = 0
        """How many bytes of the incoming body are missing, if it has a length."""
        self._chunked: ChunkedBody | None = None
        """The incoming body, if it is chunked."""
        self._dropped_bytes = 0
        self._incoming: Http1Exchange | None = None
        self._current: Http1Exchange | None = None
        self._answered: Http1Exchange | None = None
        """The exchange whose response was written last, while no other one is served."""
        self._queue: deque[Http1Exchange] = deque()
        self._is_closing = False
        """Whether no request begins and nothing is written any more."""
        self._is_reading_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._idle_until = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._default_headers: list[Header] = []
        self._default_lines = b""

    # Called by the transport and by uvicorn.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        self._transport = transport
        # Each request gets a copy of this context. A request may begin in the task of the previous one, and must not
        # see the context variables that the previous one set.
        self._context = copy_context()
        self._state.connections.add(self)  # type: ignore[arg-type]
        self.bound_to = (self.address("sockname") or (None,))[0]
        self._set_idle_deadline(self.served.pace.read)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Give up the current request."""
        self._is_closing = True
        self._parser = None  # breaks a reference cycle
        self._state.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        current, self._current = self._current, None
        self._incoming = self._answered = None  # breaks reference cycles
        self._queue.clear()
        if current is not None and not current.ended:
            current.give_up()

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and begin the first request of the queue if none is served."""
        if self._parser is None or self._is_closing:
            self.count_dropped(len(data))
            return
        is_next = self._incoming is None and not self._unparsed and not self._queue
        if is_next and data.startswith(self._usual_line) and data.endswith(b"}"):
            # Usually one whole request. Its request line is known, and the service checks its Host.
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as problem:
                self._on_parser_error(problem, data)
            if self._url or len(self._queue) != 1 or not self._queue[0].is_whole:
                self._reparse(data)
        else:
            self._parse_pieces(self._unparsed + data)
        if self._current is None and self._answered is None and self._queue and not self._is_closing:
            self._begin(self._queue.popleft())

    def _reparse(self, data: bytes) -> None:
        """Handle a chunk that looked like one whole request and is not; none of its requests has begun."""
        if self._url or len(self._queue) > 1:
            self._parser = httptools.HttpRequestParser(self)
            self._url, self._headers, self._incoming = b"", [], None
            self._queue.clear()
            self._parse_pieces(data)
        elif self._incoming is not None:
            self._expect_body(self._incoming)
            if self._chunked is not None:
                self._chunked.end(data, data.index(HEAD_END) + len(HEAD_END))

    def _parse_pieces(self, data: bytes) -> None:
        """Pass one head or one part of a body at a time to the parser, after the check of each head."""
        at = 0
        while at < len(data) and self._parser is not None:
            at = self._parse_head(data, at) if self._incoming is None else self._parse_body(self._incoming, data, at)

    def _parse_head(self, data: bytes, at: int) -> int:
        """Parse a head, and return where it ends."""
        if len(self._queue) >= MAX_QUEUED:
            self._unparsed = data[at:]
            self.pause_reading()
            return len(data)
        blank = _BLANK_LINES.match(data, at)
        at = at if blank is None else blank.end()
        end = data.find(HEAD_END, at) + len(HEAD_END)
        if end < len(HEAD_END):
            self._wait_for_head(data[at:])
            return len(data)
        head, self._unparsed = data[at:end], b""
        problem = problem_of(head)
        if problem is not None:
            self._stop_parsing(_BAD_REQUEST, problem)
            return len(data)
        self._is_http10 = head[: head.index(b"\r")].endswith(b"1.0")
        self._feed(head)
        if self._incoming is not None:
            self._expect_body(self._incoming)
        return end

    def _expect_body(self, exchange: Http1Exchange) -> None:
        """Record how the body of a request is framed; a part of the body may be parsed already."""
        length = next((value for name, value in exchange.given_headers if name.lower() == b"content-length"), None)
        if length is None:
            self._chunked = ChunkedBody()
        else:
            self._chunked, self._body_left = None, int(length) - exchange.size

    def _parse_body(self, exchange: Http1Exchange, data: bytes, at: int) -> int:
        """Parse a part of a body, and return where it ends."""
        if self._chunked is None:
            part = data[at : at + self._body_left]
            self._body_left -= len(part)
            self._feed(part)
            is_out_of_step = self._body_left == 0 and self._incoming is exchange
        else:
            part = data[at : self._chunked.end(data, at)]
            self._feed(part)
            exchange.framed_size += len(part)
            is_out_of_step = self._is_out_of_step(exchange, self._chunked)
        if is_out_of_step:
            self._stop_parsing(_BAD_REQUEST)
        return at + len(part)

    def _is_out_of_step(self, exchange: Http1Exchange, body: ChunkedBody) -> bool:
        """Tell whether a chunked body has too much framing, or the parser and `ChunkedBody` disagree on its end."""
        if self._parser is None:
            return False
        is_too_much = exchange.framed_size > MAX_HEAD_BYTES + (MAX_FRAMING + 1) * exchange.size
        if self._incoming is exchange:
            return is_too_much or body.has_ended
        return not body.has_ended or self._incoming is not None or bool(self._url)

    def _feed(self, data: bytes) -> None:
        if self._parser is not None:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as problem:
                self._on_parser_error(problem, data)

    def _on_parser_error(self, problem: Exception, data: bytes) -> None:
        while isinstance(problem, httptools.HttpParserUpgrade):
            data = data[problem.args[0] :]
            try:
                self._ignore_upgrade(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as another:
                problem = another
            else:
                return
        self._stop_parsing(_BAD_REQUEST)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Continue after a request to upgrade to another protocol, which a server may ignore.

        The parser treats the bytes after the head as the other protocol, but they are the body: clients of HTTP/2 send
        a body with such a first request. So a new parser, with a head of the same framing, parses them.
        """
        assert self._incoming is not None
        framing = b"".join(b"%b: %b\r\n" % header for header in self._incoming.headers if header[0] in _FRAMING)
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n")
        self._parser.feed_data(rest)

    def pause_writing(self) -> None:
        """Make writers wait in `drained`; called by the transport."""
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        """Let writers continue; called by the transport."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        if self._answered is not None:
            self._turn_to_next(self._answered)

    # Called by the parser.

    def on_url(self, url: bytes) -> None:
        """Receive a part of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header."""
        # Trailer fields of a chunked body belong neither to the headers of its request nor to those of the next one.
        if self._incoming is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Put the request into the queue."""
        parser = self._parser
        assert parser is not None
        if self._incoming is not None:
            self._url = b""
            return
        method = parser.get_method()
        exchange = Http1Exchange(self, _METHODS.get(method) or method.decode("ascii"), self._url, self._headers)
        if self._url != self.served_url:
            exchange.path = unquote(path_and_query(self._url)[0].decode("latin-1"))
        self._url, self._headers = b"", []
        if self._is_http10:
            self._is_http10 = False
            exchange.http_version = "1.0"
        else:
            exchange.keeps_alive = parser.should_keep_alive()
        self._incoming = exchange
        self._queue.append(exchange)
        if self._current is not None or len(self._queue) > 1:
            self.pause_reading()

    def on_body(self, chunk: bytes) -> None:
        """Receive a part of a body."""
        assert self._incoming is not None
        self._incoming.receive(chunk)

    def on_message_complete(self) -> None:
        """Receive the end of a request."""
        assert self._parser is not None
        assert self._incoming is not None
        if self._parser.should_upgrade():
            return
        exchange, self._incoming = self._incoming, None
        exchange.complete()
        if exchange is self._answered:
            self._turn_to_next(exchange)

    # One request after the other.

    def _begin(self, exchange: Http1Exchange) -> None:
        self._current, self._answered = exchange, None
        if self._unparsed and not self._queue:
            self._parse_pieces(self._unparsed)
        # A task of the loop's factory would not know whether a handler cancelled itself.
        exchange.task = task = SelfCancelTask(self._serve(exchange), loop=self.loop, context=self._context.copy())
        self._state.tasks.add(task)

    async def _serve(self, exchange: Http1Exchange) -> None:
        assert exchange.task is not None
        try:
            await self.served.serve(exchange, exchange.path)
        except Exception:
            _logger.exception("A request could not be served")
        finally:
            self._state.tasks.discard(exchange.task)
            if not exchange.ended and not exchange.gone:
                self._end_unanswered(exchange)

    def _end_unanswered(self, exchange: Http1Exchange) -> None:
        """Answer an exchange that has no response with 500, or abort an incomplete stream."""
        exchange.ended = True
        exchange.keeps_alive = False
        if exchange.streaming:
            self.abort()
        else:
            self.respond(exchange, _FAILED, (), b"")

    def _turn_to_next(self, exchange: Http1Exchange) -> None:
        """Begin the next request after a response, once the client has read the response and sent its whole request.

        A socket that is closed with unread input loses the output that was written last.
        """
        if self._is_closing or self._transport.is_closing():
            return
        self._current, self._answered = None, exchange
        if self._drained is not None:
            self.pause_reading()
            self._set_idle_deadline(self.served.pace.send)
            return
        if not exchange.is_whole and not exchange.is_late:
            self._dropped_bytes = 0
            self._set_idle_deadline(self.served.pace.read)
        elif not exchange.keeps_alive:
            self._linger()
        elif self._queue:
            self._begin(self._queue.popleft())
        else:
            self._answered = None
            self._set_idle_deadline(self.served.pace.read if self._unparsed else self._keep_alive_seconds)
        if self._is_reading_paused:
            self.resume_reading()

    def _stop_parsing(self, status: int, reason: str = "") -> None:
        """Stop parsing; give up a request whose body is incomplete."""
        self._parser, self._url, self._unparsed = None, b"", b""
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
            self._queue.pop()
        latest = self._queue[-1] if self._queue else self._current or self._answered
        if latest is not None:
            latest.keeps_alive = False
        elif not self._is_closing:
            self._refuse(status, reason)

    # Waiting.

    def _set_idle_deadline(self, seconds: float) -> None:
        """Wait `seconds` for the next request, or for progress."""
        self._idle_until = self.loop.time() + seconds
        if self._timer is None or self._timer_at > self._idle_until:
            self._arm_timer()

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._idle_until
        self._timer = self.loop.call_at(self._timer_at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._current is not None:
            return
        if self.loop.time() < self._idle_until:
            self._arm_timer()
        elif self._drained is not None:
            self.abort()
        else:
            self._close()

    def _wait_for_head(self, unparsed: bytes) -> None:
        """Wait for the rest of a head, within limits of time and size."""
        if unparsed and not self._unparsed:
            self._set_idle_deadline(self.served.pace.read)
        self._unparsed = unparsed
        if len(unparsed) > MAX_HEAD_BYTES:
            self._stop_parsing(_HEAD_TOO_LARGE)
        elif unparsed and not unparsed[:1].isupper():
            self._stop_parsing(_BAD_REQUEST)

    def count_dropped(self, count: int) -> None:
        """Count dropped bytes, and close the connection when they are too many."""
        self._dropped_bytes += count
        if self._dropped_bytes > MAX_DROPPED_BYTES:
            self._close()

    def pause_reading(self) -> None:
        """Read nothing from the client."""
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again, unless requests are queued."""
        if self._is_reading_paused and not self._queue and not self._transport.is_closing():
            self._is_reading_paused = False
            self._transport.resume_reading()

    # Writing.

    async def drained(self) -> None:
        """Wait until the client has read most of the output.

        Raises:
            TimeoutError: the client does not read.
        """
        if self._drained is not None:
            async with asyncio.timeout(self.served.pace.send):
                await asyncio.shield(self._drained)

    def write(self, data: bytes) -> None:
        """Write, unless the connection is closing."""
        if not self._is_closing:
            self._transport.write(data)

    def respond(self, exchange: Http1Exchange, status: int, headers: Iterable[Header], body: bytes) -> None:
        """Write a response, and begin the next request when the client is ready."""
        parts = self._head(exchange, status, headers)
        parts.append(b"\r\n" if status == _NO_CONTENT else b"content-length: %d\r\n\r\n" % len(body))
        if len(body) > UNTIMED_BYTES:
            self.write(b"".join(parts))
            parts.clear()
        if exchange.method != "HEAD":
            parts.append(body)
        self.write(b"".join(parts))
        self._turn_to_next(exchange)

    def stream(
        self,
        exchange: Http1Exchange,
        head: Sequence[Header] | None,
        data: bytes,
        *,
        last: bool,
        status: int = HTTP_OK,
    ) -> None:
        """Write a part of a streamed response; a response of HTTP/1.0 ends with its connection."""
        is_chunked = exchange.http_version == "1.1"
        parts = []
        if head is not None:
            parts = self._head(exchange, status, head)
            parts.append(b"transfer-encoding: chunked\r\n\r\n" if is_chunked else b"\r\n")
        if data:
            parts += (b"%x\r\n" % len(data), data, b"\r\n") if is_chunked else (data,)
        if last and is_chunked:
            parts.append(b"0\r\n\r\n")
        self.write(b"".join(parts))
        if last:
            self._turn_to_next(exchange)

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
        if self.is_ending and not self._queue:
            exchange.keeps_alive = False
        if not exchange.keeps_alive:
            parts.append(_CLOSE)
        return parts

    def _refuse(self, status: int, reason: str) -> None:
        """Respond to bytes that are not a request, and end the connection."""
        kind = b"content-type: text/plain\r\n" if reason else b""
        head = _STATUS_LINES[status] + kind + b"content-length: %d\r\n" % len(reason) + _CLOSE
        self.write(head + b"\r\n" + reason.encode("ascii"))
        self._linger()

    def _linger(self) -> None:
        """Write no more, but read and drop input until the client closes the connection or time runs out.

        Closing at once would reset the connection of a client that is still sending, and could lose the response.
        """
        self._is_closing = True
        self._parser = self._incoming = self._answered = None
        self._queue.clear()
        self._dropped_bytes = 0
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._set_idle_deadline(self.served.pace.read)
        self.resume_reading()

    def _close(self) -> None:
        """Close when all output is written, or abort when the client does not read it in time."""
        self._is_closing = True
        if not self._transport.is_closing():
            self._transport.close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(self.served.pace.send, self._transport.abort)

    def abort(self) -> None:
        """Close at once, and drop unwritten output."""
        self._is_closing = True
        self._transport.abort()

    def address(self, of: str) -> tuple[str, int] | None:
        """Return the address of one end (`sockname` or `peername`), if it is not a path."""
        found = self._transport.get_extra_info(of)
        return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) else None

    @property
    def scheme(self) -> str:
        """https for an encrypted connection, else http."""
        return "https" if self._transport.get_extra_info("sslcontext") else "http"
