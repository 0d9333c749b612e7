"""HTTP/1.1 connections of uvicorn without ASGI: `server.run("http")` serves with these.

Uvicorn listens, handles signals and ends connections. `Http1Parser` parses. This file connects a socket to exchanges.

- Requests that arrive during another request wait in a queue, and the connection stops reading. The next request
  begins when the previous response is written and the client has read it.
- A request begins after its whole chunk is parsed, so that most bodies are complete before the service reads them.
- If the service does not read a body, the connection stops reading after 64 kB.
- A response that begins before the whole request has arrived is the last one (`Connection: close`). The rest of the
  request is not parsed, because parsing what nobody reads would cost more than the client pays for sending it.
- One timer ends connections on which no request arrives, or whose client does not read. To save work, a later deadline
  does not move the timer: the timer is set again when it goes off.
- After its last response the connection does not close at once, because a client that is still sending would lose the
  response.
- When the server shuts down, an idle connection stays open for LINGER_SECONDS. A client may send a request at the
  moment in which the server would close the connection, and could not tell whether the request was served. The response
  to a request that arrives in this time is the last one (`Connection: close`).

A connection refers to its requests by these attributes. `_incoming` may be the same request as one of the others.

    _incoming   the head is parsed, the body is not complete
    _queue      these requests wait for an earlier request
    _current    the request is served
    _answered   the response is written; the client has not read it

Rejected: ASGI. It makes a mapping for every request, awaits two messages for every response, and sets a timer after
each response. That is a third of the cost of a call.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from dragoman.protocol.statuses import FAILED, NO_CONTENT, NOT_MODIFIED, OK, UNAVAILABLE
from dragoman.runtime.tasks import SelfCancelTask
from dragoman.transports.http.exchange import UNTIMED_BYTES, Header, ServedPath, reason_phrase
from dragoman.transports.http.http1_exchange import Http1Exchange
from dragoman.transports.http.http1_head import MalformedRequest
from dragoman.transports.http.http1_parser import Http1Parser, RequestPart

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

MAX_QUEUED = 16
"""How many requests are parsed ahead. Later requests wait as bytes, which takes less memory and time."""
MAX_DROPPED_BYTES = 64 * 1024 * 1024
"""How many bytes are read and dropped, so that a client that is still sending receives its response."""
LINGER_SECONDS = 0.5
"""How long an idle connection stays open when the server shuts down."""
UNREAD_SECONDS = 0.01
_CLOSE = b"connection: close\r\n"
_LINE_ENDS = b"\r\n\0"
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
        self._parser = Http1Parser()
        self._transport: asyncio.Transport
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
        if self._is_closing or self._parser.is_stopped:
            self._count_dropped(len(data))
            return
        had_unparsed = self._parser.has_unparsed
        self._parser.receive(data)
        self._parse()
        if self._incoming is None and self._parser.has_unparsed and not had_unparsed:
            self._set_idle_deadline(self.served.pace.read)
        if self._current is None and self._answered is None and self._queue and not self._is_closing:
            self._begin(self._queue.popleft())

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

    def shutdown(self) -> None:
        """Answer requests that arrived, or arrive within LINGER_SECONDS, and then end."""
        if not self.is_ending:
            self.is_ending = True
            self._keep_alive_seconds = LINGER_SECONDS
            if self._is_idle():
                self._set_idle_deadline(LINGER_SECONDS)

    def end(self) -> None:
        """Accept no further request; refuse an incomplete one, and finish the current one."""
        self.is_ending = True
        if self._is_idle():
            self._close()
            return
        self._stop_parsing(UNAVAILABLE)
        self._queue.clear()
        if self._current is not None:
            self._current.keeps_alive = False

    # One request after the other.

    def _parse(self) -> None:
        """Parse all requests that arrived; requests beyond MAX_QUEUED stay unparsed."""
        while not self._is_closing:
            if self._incoming is None and len(self._queue) >= MAX_QUEUED:
                self.pause_reading()
                return
            try:
                part = self._parser.next_part()
            except MalformedRequest as error:
                self._stop_parsing(error.status, str(error))
                return
            if part is None:
                return
            self._receive(part)

    def _receive(self, part: RequestPart) -> None:
        exchange = self._incoming
        if part.head is not None:
            exchange = Http1Exchange(self, part.head)
            self._queue.append(exchange)
            if self._current is not None or len(self._queue) > 1:
                self.pause_reading()
        assert exchange is not None
        self._incoming = None if part.is_last else exchange
        exchange.receive(part.data, is_last=part.is_last)

    def _begin(self, exchange: Http1Exchange) -> None:
        self._current, self._answered = exchange, None
        if not self._queue and self._parser.has_unparsed:
            self._parse()
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
            self.respond(exchange, FAILED, (), b"")

    def _turn_to_next(self, exchange: Http1Exchange) -> None:
        """Begin the next request after a response, once the client has read the response."""
        if self._is_closing or self._transport.is_closing():
            return
        self._current, self._answered = None, exchange
        if not exchange.is_whole:
            self._incoming = None
            self._parser.stop()
        if self._drained is not None:
            self.pause_reading()
            self._set_idle_deadline(self.served.pace.send)
            return
        if not exchange.keeps_alive:
            self._linger()
        elif self._queue:
            self._begin(self._queue.popleft())
        else:
            self._answered = None
            has_unparsed = self._parser.has_unparsed
            self._set_idle_deadline(self.served.pace.read if has_unparsed else self._keep_alive_seconds)
        if self._is_reading_paused:
            self.resume_reading()

    def _stop_parsing(self, status: int, reason: str = "") -> None:
        """Stop parsing; give up a request whose body is incomplete."""
        self._parser.stop()
        broken, self._incoming = self._incoming, None
        if broken is None:
            pass
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

    def _is_idle(self) -> bool:
        has_input = self._parser.has_unparsed or self._queue or self._incoming is not None
        return not has_input and self._current is None and self._answered is None

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
        elif self._is_idle() and not self._is_closing and self._has_unread():
            self._set_idle_deadline(UNREAD_SECONDS)
        else:
            self._close()

    def _has_unread(self) -> bool:
        """Tell whether the socket has unread bytes. They may be a request, which a close would lose."""
        connection = self._transport.get_extra_info("socket")
        if connection is None or not hasattr(select, "poll"):
            return False
        waiting = select.poll()
        with suppress(OSError, ValueError):
            waiting.register(connection.fileno(), select.POLLIN)
            return bool(waiting.poll(0))
        return False

    def _count_dropped(self, count: int) -> None:
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
        parts.append(b"content-length: %d\r\n\r\n" % len(body) if _may_have_body(status) else b"\r\n")
        if len(body) > UNTIMED_BYTES:
            self.write(b"".join(parts))
            parts.clear()
        if exchange.method != "HEAD" and _may_have_body(status):
            parts.append(body)
        self.write(b"".join(parts))
        self._turn_to_next(exchange)

    def stream(
        self, exchange: Http1Exchange, head: Sequence[Header] | None, data: bytes, *, last: bool, status: int = OK
    ) -> None:
        """Write a part of a streamed response; a response of HTTP/1.0 ends with its connection."""
        has_body = exchange.method != "HEAD" and _may_have_body(status)
        is_chunked = has_body and exchange.http_version == "1.1"
        parts = []
        if head is not None:
            parts = self._head(exchange, status, head)
            parts.append(b"transfer-encoding: chunked\r\n\r\n" if is_chunked else b"\r\n")
        if data and has_body:
            parts += (b"%x\r\n" % len(data), data, b"\r\n") if is_chunked else (data,)
        if last and is_chunked:
            parts.append(b"0\r\n\r\n")
        self.write(b"".join(parts))
        if last:
            self._turn_to_next(exchange)

    def _head(self, exchange: Http1Exchange, status: int, headers: Iterable[Header]) -> list[bytes]:
        lines = [_status_line(status)]
        for name, value in (*self._state.default_headers, *headers):
            if name == b"connection":
                exchange.keeps_alive = False
            else:
                lines.append(b"%b: %b\r\n" % (name, value.translate(None, _LINE_ENDS)))
        if not exchange.is_whole or (self.is_ending and not self._queue):
            exchange.keeps_alive = False
        if not exchange.keeps_alive:
            lines.append(_CLOSE)
        return lines

    def _refuse(self, status: int, reason: str) -> None:
        """Respond to bytes that are not a request, and end the connection."""
        kind = b"content-type: text/plain\r\n" if reason else b""
        head = _status_line(status) + kind + b"content-length: %d\r\n" % len(reason) + _CLOSE
        self.write(head + b"\r\n" + reason.encode("ascii"))
        self._linger()

    def _linger(self) -> None:
        """Write no more, but read and drop input until the client closes the connection or time runs out.

        Closing at once would reset the connection of a client that is still sending, and could lose the response.
        """
        self._is_closing = True
        self._incoming = self._answered = None
        self._queue.clear()
        self._dropped_bytes = 0
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._set_idle_deadline(LINGER_SECONDS if self.is_ending else self.served.pace.read)
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


def _may_have_body(status: int) -> bool:
    return status >= OK and status not in (NO_CONTENT, NOT_MODIFIED)


def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b\r\n" % (status, reason_phrase(status).encode())
