"""Sessions of the handshake era over HTTP: data that a sealed id stands for, and the streams that belong to it.

A session is what its id says (who the client is, which version was agreed on) and what this process remembers of it.
Each request has a stream of its own: what is said on its way, what is asked of the client, and its response. A stream
is a bounded log of events with numbers, and at most one exchange that it is written to. When the connection breaks, the
handler goes on and the log is kept; a client that comes back by GET with the last number that it saw gets the rest.
What belongs to no request goes to the one stream that the client opened by GET; the newest wins.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import DragomanError, InvalidRequest, RpcError, Timeout, TransportError
from dragoman.protocol import jsonrpc, sse
from dragoman.protocol.listen import RESOURCE_UPDATED, Subscription
from dragoman.protocol.sse import EventId
from dragoman.protocol.tokens import SessionTokens
from dragoman.server.call import Call, Session
from dragoman.server.telling import announces, is_wanted, log_params
from dragoman.transports.asgi import Exchange

if TYPE_CHECKING:
    from dragoman.server.server import Server

MOST_EVENTS = 1000
MOST_STREAMS = 100
MOST_ENDED = 100_000
RETRY_MILLISECONDS = 1000
BAD_REQUEST, NOT_FOUND, UNAVAILABLE = 400, 404, 503
_cancelled = msgspec.json.Decoder(types.CancelledNotificationParams)


class SessionRefused(DragomanError):
    """A message that names no session which can be served: an HTTP status and the reason."""

    def __init__(self, status: int, error: RpcError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.id: types.RequestId | None = None
        """The request that is refused, if it is one."""


class Sessions:
    """The sessions of one application, found by their sealed ids.

    Any process that has the key can take a session up; what it then knows of it is what the id says.
    """

    def __init__(
        self,
        server: Server,
        *,
        path: str = "/mcp",
        idle_timeout: float | None = 1800,
        most: int | None = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._path = path
        self._idle_timeout = idle_timeout
        self._most = most
        self._clock = clock
        self._worker = f"{os.urandom(4).hex()}-"
        self._known: OrderedDict[str, HttpSession] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._tokens: SessionTokens | None = None

    @property
    def _sealed(self) -> SessionTokens:
        if self._tokens is None:
            self._tokens = SessionTokens(self._server.key_ring, server=self._server.name, path=self._path)
        return self._tokens

    def refuse_second(self, id: str | None) -> None:
        """Refuse an `initialize` inside a session.

        Raises:
            SessionRefused: it names a session, one that lives or one that does not.
        """
        if id is not None:
            self.find(id)
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The session is initialized already"))

    def begin(self, data: Session) -> str:
        """Begin a session, and return its id.

        Raises:
            SessionRefused: there are too many.
        """
        assert data.caller is not None
        id = self._sealed.seal(data.caller, principal=None, now=time.time(), nonce=os.urandom(12))
        self._keep(id, data)
        return id

    def find(self, id: str | None) -> HttpSession:
        """Return a session.

        Raises:
            SessionRefused: no id was sent, or it is foreign, forged, outdated or ended; or there are too many.
        """
        if id is None:
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The header Mcp-Session-Id is missing; initialize first"))
        self._expire()
        session = self._known.get(id)
        if session is None:
            caller = None if id in self._ended else self._sealed.open(id, principal=None, now=time.time())
            if caller is None:
                raise SessionRefused(NOT_FOUND, InvalidRequest("The session is not known here, or has ended"))
            session = self._keep(id, Session(caller))
        self.touch(session)
        return session

    def touch(self, session: HttpSession) -> None:
        """Note that a session was used just now."""
        session.last_used = self._clock()
        id = session.data.id
        if id is not None and id in self._known:
            self._known.move_to_end(id)

    def _keep(self, id: str, data: Session) -> HttpSession:
        self._expire()
        if self._most is not None and len(self._known) >= self._most:
            raise SessionRefused(UNAVAILABLE, RpcError(-32603, "There are too many sessions; try again later"))
        data.id = id
        session = self._known[id] = HttpSession(self._server, data, worker=self._worker)
        session.last_used = self._clock()
        return session

    def _expire(self) -> None:
        """End those that were idle too long; the least recently used come first."""
        if self._idle_timeout is None:
            return
        long_ago = self._clock() - self._idle_timeout
        stale: list[str] = []
        for id, session in self._known.items():
            if session.last_used > long_ago:
                break
            if not session.is_busy:
                stale.append(id)
        for id in stale:
            self._end(id)

    def end(self, id: str | None) -> None:
        """End a session because its client says so.

        Raises:
            SessionRefused: there is no such session.
        """
        self.find(id)
        assert id is not None
        self._end(id)

    def _end(self, id: str) -> None:
        self._known.pop(id).end()
        self._ended[id] = None
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)

    async def close(self) -> None:
        """Let go of every session; another process may take them up."""
        sessions = list(self._known.values())
        self._known.clear()
        for session in sessions:
            await session.close()


class EventStream:
    """The events of one request, or of none, in order; written to whoever reads them now.

    What is added is kept and numbered; `flush` writes what the reader has not got yet. So it makes no difference
    whether a reader is there, is slow, or comes back: it gets the events after the last number that it has.
    """

    def __init__(self, name: str, *, primes: bool) -> None:
        self.name = name
        self.finished = False
        self.reader: Exchange | None = None
        self._primes = primes
        self._sequence = 0
        self._written = 0
        self._log: deque[tuple[int, bytes]] = deque(maxlen=MOST_EVENTS)
        self._let_go = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None

    def attach(self, exchange: Exchange, after: int | None = None) -> asyncio.Event:
        """Let an exchange read what comes after a number, or from now on; whoever read before is done.

        Returns:
            What is set as soon as this reader is let go.
        """
        self.detach()
        self._written = self._sequence if after is None else min(after, self._sequence)
        if self._primes and after is None:
            exchange.opening = sse.prime(EventId(self.name, self._written).encode(), RETRY_MILLISECONDS)
        exchange.on_gone = lambda: self.detach(exchange)
        self.reader = exchange
        self._let_go = asyncio.Event()
        return self._let_go

    def detach(self, exchange: Exchange | None = None) -> None:
        """Let go of whoever reads the stream, or of this exchange if it does."""
        if exchange is None or exchange is self.reader:
            self.reader = None
            self._let_go.set()

    def add(self, message: bytes, *, last: bool = False) -> None:
        """Add a message to the stream, to be written soon."""
        self._sequence += 1
        self._log.append((self._sequence, sse.encode(message, id=EventId(self.name, self._sequence).encode())))
        self.finished = last
        if self.reader is not None and (self._flushing is None or self._flushing.done()):
            self._flushing = self._loop.create_task(self.flush())

    async def flush(self) -> None:
        """Write to the reader what it has not got yet; the last message lets it go."""
        async with self._writing:
            while self.reader is not None and (self._written < self._sequence or self.finished):
                reader, last = self.reader, self.finished
                missed = b"".join(event for sequence, event in self._log if sequence > self._written)
                self._written = self._sequence
                await reader.stream(missed, last=last)
                if last:
                    self.detach(reader)

    async def close(self) -> None:
        """Write no more."""
        self.detach()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.wait([self._flushing])


class HttpSession:
    """What this process remembers of one session."""

    def __init__(self, server: Server, data: Session, *, worker: str) -> None:
        self.data = data
        self.running: dict[types.RequestId, Call] = {}
        self.last_used = 0.0
        self._server = server
        self._worker = worker
        self._streams: dict[str, EventStream] = {}
        self._standalone: EventStream | None = None
        self._asked: dict[types.RequestId, asyncio.Future[Raw]] = {}
        self._minted = 0
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        server.audience.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether something is served, or somebody reads what belongs to no request."""
        return bool(self.running) or (self._standalone is not None and self._standalone.reader is not None)

    @property
    def _primes(self) -> bool:
        # SHOULD (2025-11-25): "immediately send an SSE event consisting of an event ID and an empty data field".
        return self.data.caller is not None and self.data.caller.version.omits_unknown_id

    def open_stream(self) -> EventStream:
        """Return a new stream; the oldest finished one is forgotten when there are too many."""
        stream = EventStream(self._mint(), primes=self._primes)
        self._streams[stream.name] = stream
        if len(self._streams) > MOST_STREAMS:
            oldest = next((kept for kept in self._streams.values() if kept.finished), None)
            if oldest is not None:
                self.forget(oldest)
        return stream

    def forget(self, stream: EventStream) -> None:
        """Keep a stream no longer: nobody can come back to it."""
        self._streams.pop(stream.name, None)

    def _mint(self) -> str:
        self._minted += 1
        return f"{self._worker}{self._minted}"

    def find_stream(self, name: str) -> EventStream | None:
        """Return a stream that is still kept."""
        return self._streams.get(name)

    def standalone(self) -> EventStream:
        """Return the stream of what belongs to no request."""
        if self._standalone is None:
            self._standalone = self.open_stream()
        return self._standalone

    async def ask(self, stream: EventStream, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on a stream, and return what it answers in a POST of its own."""
        id = self._mint()
        request = jsonrpc.encode_request(id, method, params)
        answered: asyncio.Future[Raw] = self._loop.create_future()
        self._asked[id] = answered
        try:
            async with asyncio.timeout(timeout):
                stream.add(request)
                return await answered
        except TimeoutError:
            self._withdraw(stream, id)
            raise Timeout(f"The client did not answer {method} within {timeout:g} seconds", id) from None
        except asyncio.CancelledError:
            self._withdraw(stream, id)
            raise
        finally:
            del self._asked[id]

    def _withdraw(self, stream: EventStream, id: str) -> None:
        params = types.CancelledNotificationParams(id, "The server does not wait for it any more")
        stream.add(jsonrpc.encode_notification("notifications/cancelled", params))

    def take(self, message: jsonrpc.Message) -> None:
        """Take a notification, or an answer to a request of ours."""
        match message:
            case jsonrpc.ResultResponse() | jsonrpc.ErrorResponse():
                self._take_answer(message)
            case jsonrpc.Notification("notifications/cancelled", params):
                with suppress(msgspec.DecodeError):
                    self._cancel(_cancelled.decode(params).request_id)
            case jsonrpc.Notification(method):
                self._server.notified(method)

    def _take_answer(self, message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse) -> None:
        waiting = self._asked.get(message.id) if message.id is not None else None
        if waiting is None or waiting.done():
            return
        if isinstance(message, jsonrpc.ErrorResponse):
            waiting.set_exception(message.error)
        else:
            waiting.set_result(message.result)

    def _cancel(self, id: types.RequestId | None) -> None:
        call = None if id is None else self.running.get(id)
        if call is not None:
            call.give_up()

    def end(self) -> None:
        """End the session: what runs is given up, who waits is told, who reads is let go."""
        self._server.audience.discard(self)
        for call in list(self.running.values()):
            call.give_up()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(TransportError("The session has ended"))
        for stream in self._streams.values():
            stream.detach()

    async def close(self) -> None:
        """End the session, and wait until nothing of it is left."""
        self.end()
        for stream in list(self._streams.values()):
            await stream.close()

    # Encoded by whoever tells, so that what cannot be JSON fails there, and what changes later is told as it was.

    def tell(self, method: str, uri: str | None = None) -> None:
        """Tell the client of a change, from any thread, if it wants to know and reads what belongs to no request."""
        if (uri is None or uri in self.data.followed) and announces(self._server.capabilities, method):
            self.say(method, types.Params() if uri is None else types.ResourceUpdatedNotificationParams(uri))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread, if this client set a level that wants it."""
        if is_wanted(self._server, level, self.data.log_level):
            self.say("notifications/message", log_params(level, data, logger))

    def say(self, method: str, params: Any) -> None:
        """Send a notification that belongs to no request, from any thread, if anybody ever read those."""
        if self._standalone is not None:
            self.later(self._standalone, jsonrpc.encode_notification(method, params))

    def later(self, stream: EventStream, message: bytes) -> None:
        """Add a message to a stream, from any thread."""
        if self._loop.is_closed():
            return
        if get_ident() == self._loop_thread:
            stream.add(message)
        else:
            self._loop.call_soon_threadsafe(stream.add, message)


class SessionChannel:
    """The way back to the client of one request in a session: the request's own stream."""

    def __init__(self, session: HttpSession, stream: EventStream, *, streams: bool) -> None:
        self._session = session
        self._stream = stream
        self._streams = streams

    def notify(self, method: str, params: Any) -> None:
        """Send a notification on the request's stream, from any thread."""
        if self._streams:
            self._session.later(self._stream, jsonrpc.encode_notification(method, params))

    async def room(self) -> None:
        """Let what was said be written."""
        await self._stream.flush()

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask the client, on the request's stream."""
        if not self._streams:
            raise DragomanError(f"{method} cannot be asked here: the response is JSON alone")
        return await self._session.ask(self._stream, method, params, timeout)

    async def listen(self, subscription: Subscription) -> None:  # noqa: ARG002
        """Refuse: sessions have no subscriptions of that kind."""
        raise RpcError(-32601, "subscriptions/listen is not part of this protocol version")

    def updated(self, uri: str) -> None:
        """Tell this client, from any thread, that a resource changed."""
        self._session.say(RESOURCE_UPDATED, types.ResourceUpdatedNotificationParams(uri))
