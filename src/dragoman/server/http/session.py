"""One session of the handshake era over HTTP: what this process remembers of it, and the streams that belong to it.

`protocol.peer.Peer` keeps the requests of both directions, as it does for a duplex connection. What the Peer of
this process cannot match concerns a request in another process, and is sent there.

Each request has a stream of its own: what is said on its way, what is asked of the client, and its response. A stream
is a bounded log of events with numbers, and at most one exchange that it is written to. When the connection breaks, the
handler goes on and the log is kept; a client that comes back by GET with the last number that it saw gets the rest.
What belongs to no request goes to the one stream that the client opened by GET; the newest wins. A request that is
answered by one body before anything needs its stream is given none.

Its states: `new` until its client sends something in it, `used` from then on, `ended` when nothing is served in it any
more: it was ended, has lapsed, or gave way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw

from dragoman import types
from dragoman.errors import DragomanError, InternalError, InvalidRequest, RpcError, TransportError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.inbound import ACCEPTED, BAD_REQUEST, OK
from dragoman.protocol.peer import Answered, Event, Peer, RequestCancelled, Unmatched
from dragoman.protocol.sse import EventId
from dragoman.protocol.states import Transitions
from dragoman.protocol.subscriptions import RESOURCE_UPDATED, Subscription
from dragoman.server.audience import change_params, is_told, is_wanted, log_params
from dragoman.server.http.replies import HttpRefusal
from dragoman.server.http.retention import Retention, SessionStreams
from dragoman.server.http.streams import EventStream, part
from dragoman.server.http.workers import Changed, Said, Sent, StandaloneStreamOpened, Workers
from dragoman.server.request.call import ELICITATION_COMPLETE, Call, Session, Silence
from dragoman.server.request.waiting import ask, settle
from dragoman.transports.http.exchange import JSON_HEADERS, Exchange

if TYPE_CHECKING:
    from dragoman.server.http.holders import Holder
    from dragoman.server.server import Server

FORBIDDEN = 403
OVER = "The session has ended"
_ENDED = InternalError("The session was ended before the request was done; it may have run in part")
NAME_ENDS = "-"
SessionLife = Literal["new", "used", "ended"]
SESSION_LIFE: Transitions[SessionLife, Literal["use", "end"]] = Transitions(
    {"new": {"use": "used", "end": "ended"}, "used": {"use": "used", "end": "ended"}}
)


class SessionRefused(HttpRefusal):
    """A message that names no session which can be served."""


class SharedSession(Session):
    """What a session remembers, and what of it the other processes have not been told."""

    __slots__ = ("origin", "unshared")

    def __init__(self, caller: eras.Caller | None = None, id: str | None = None, principal: str | None = None) -> None:
        super().__init__(caller, id, principal)
        self.origin = b""
        """The fingerprint of the page's origin that it began with; empty if there was none."""
        self.unshared: list[Changed] = []

    def set_level(self, level: types.LoggingLevel) -> None:
        """Note from which level on the client wants log messages."""
        super().set_level(level)
        self._share(Changed("", log_level=level))

    def subscribe(self, uri: str) -> None:
        """Note that the client wants to be told when a resource changes."""
        super().subscribe(uri)
        self._share(Changed("", subscribed=uri))

    def unsubscribe(self, uri: str) -> None:
        """Note that it wants so no longer."""
        super().unsubscribe(uri)
        self._share(Changed("", unsubscribed=uri))

    def _share(self, change: Changed) -> None:
        if self.id is not None:
            change.session = self.id
            self.unshared.append(change)

    def take(self, changed: Changed) -> None:
        """Note what another process was told."""
        self.log_level = changed.log_level or self.log_level
        if changed.subscribed is not None:
            self.subscribed.add(changed.subscribed)
        if changed.unsubscribed is not None:
            self.subscribed.discard(changed.unsubscribed)


class HttpSession:
    """What this process remembers of one session."""

    holder: Holder
    expires_at = 0
    """The last second in which it takes requests, since the epoch."""

    def __init__(self, server: Server, data: SharedSession, *, workers: Workers, retention: Retention) -> None:
        self.state: SessionLife = "new"
        self.data = data
        self.peer = Peer(server.limits, id_prefix=f"{workers.name}{NAME_ENDS}")
        """Whose ids, of requests and of streams, begin with the name of this process."""
        self.running: dict[types.RequestId, Call] = {}
        self.last_used = 0.0
        if data.caller is not None:
            self.peer.version = data.caller.version
        self._server = server
        self._workers = workers
        self._streams = SessionStreams(self.peer.next_id, retention)
        self._standalone: EventStream | None = None
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        server.audience.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether something is served, or a client reads a stream."""
        return bool(self.running) or any(stream.reader is not None for stream in self._open())

    def require_origin(self, origin: bytes) -> None:
        """See that a page does not use the session of another page; what is no page names no origin.

        Raises:
            SessionRefused: it is a page of another origin than the one that began the session.
        """
        if origin and self.data.origin and origin != self.data.origin:
            raise SessionRefused(FORBIDDEN, InvalidRequest("The session belongs to a page of another origin"))

    def open_stream(self) -> EventStream:
        """Return a new stream, which is kept from when it has a name."""
        return EventStream(self._workers.store, self._streams, primes=self.peer.version.primes_streams)

    def forget(self, stream: EventStream) -> None:
        """Keep a stream no longer: nobody can come back to it."""
        self._streams.forget(stream)

    def resumed(self, last_event_id: str) -> tuple[EventStream, int]:
        """Return the stream of an event, and its number there.

        Raises:
            SessionRefused: the stream is not kept.
        """
        cursor = EventId.decode(last_event_id)
        stream = None if cursor is None else self._streams.get(cursor.stream)
        if cursor is None or stream is None:
            # Not 404, by which a client would take its session for ended.
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The stream of this Last-Event-ID is not kept here"))
        return stream, cursor.sequence

    def standalone(self) -> EventStream:
        """Return the stream of what belongs to no request; who reads it in another process is let go."""
        if self._standalone is None:
            self._standalone = self.open_stream()
        assert self.data.id is not None
        self._workers.send(StandaloneStreamOpened(self.data.id))
        return self._standalone

    async def ask(self, stream: EventStream, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on a stream, and return what it answers in a POST of its own."""
        if self.state == "ended":
            raise TransportError(OVER)
        return await ask(self.peer, stream.add, method, params, timeout)

    def take(self, event: Event | None) -> None:
        """Take what a message of the client brings; what concerns no request here is sent on to the other processes."""
        match event:
            case Answered(waiter, outcome):
                settle(waiter, outcome)
            case RequestCancelled(id, reason) if id in self.running:
                self.running[id].give_up(reason)
            case Unmatched(message):
                self._send_on(message)
            case jsonrpc.Notification(method):
                self._server.notified(method)

    def take_here(self, data: bytes) -> None:
        """Take a message that came to another process, if it concerns this one."""
        event = self.peer.accept(jsonrpc.decode(data, self._server.limits))
        if not isinstance(event, Unmatched):
            self.take(event)

    def _send_on(self, message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse | jsonrpc.Notification) -> None:
        """Send a cancellation to every process, and an answer to the one whose name its id begins with."""
        id: types.RequestId | None = None
        match message:
            case jsonrpc.Notification(method, params):
                data = jsonrpc.encode_notification(method, params)
            case jsonrpc.ResultResponse(id, result):
                data = jsonrpc.encode_result(id, result)
            case jsonrpc.ErrorResponse(id, error):
                data = jsonrpc.encode_error(id, error)
        worker = None if id is None else str(id).partition(NAME_ENDS)[0]
        assert self.data.id is not None
        if worker != self._workers.name:
            self._workers.send(Sent(self.data.id, data), worker)

    def let_go(self) -> None:
        """Let go of whoever reads what belongs to no request."""
        if self._standalone is not None:
            self._standalone.detach()

    def end(self) -> None:
        """End the session: what runs is given up, who waits is told, who reads is let go."""
        self.state = SESSION_LIFE[self.state, "end"]
        self._server.audience.discard(self)
        for call in list(self.running.values()):
            call.stop(_ENDED)
        for waiter in self.peer.waiters:  # who takes the question back on the stream of the request that asked
            settle(waiter, TransportError(OVER))
        for stream in self._open():
            stream.detach()
        self._streams.close()

    def _open(self) -> set[EventStream]:
        """Return the streams that are kept, but for those of requests that are served: these end with their answer."""
        open = set(self._streams) if self._standalone is None else {*self._streams, self._standalone}
        channels = [call.channel for call in self.running.values()]
        return open.difference(channel._stream for channel in channels if isinstance(channel, SessionChannel))

    async def close(self) -> None:
        """End the session, and wait until nothing of it is left."""
        streams = self._open()
        self.end()
        for stream in streams:
            await stream.close()

    # Encoded by whoever tells, so that what cannot be JSON fails there, and what changes later is told as it was.

    def tell(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Tell the client of a change, from any thread, if it wants to know and reads what belongs to no request."""
        if is_told(self._server, self.data, method, subject):
            self.say(method, change_params(subject, params))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread, if this client set a level that wants it."""
        if is_wanted(self._server, level, self.data.log_level):
            self.say("notifications/message", log_params(level, data, logger))

    def complete_elicitation(self, id: str) -> None:
        """Tell the client, from any thread, that a visit came to its end, if its user was sent there."""
        params = self.data.completed(id)
        if params is not None:
            self.say_anywhere(ELICITATION_COMPLETE, params)

    def say(self, method: str, params: Any) -> None:
        """Send a notification that belongs to no request, from any thread, if anybody here ever read those."""
        self.say_here(jsonrpc.encode_notification(method, params))

    def say_anywhere(self, method: str, params: Any) -> None:
        """Send a notification that belongs to no request, from any thread, wherever the client reads those."""
        message = jsonrpc.encode_notification(method, params)
        self.say_here(message)
        if self.data.id is not None:
            self.in_loop(self._workers.send, Said(self.data.id, message))

    def say_here(self, message: bytes) -> None:
        """Add a message to what belongs to no request, from any thread, if anybody here ever read that."""
        if self._standalone is not None:
            self.in_loop(self._standalone.add, message)

    def read_elsewhere(self) -> None:
        """Let go of who reads what belongs to no request: the newest wins, and it is in another process.

        Nothing is kept of it here, for whoever came back would be told again what it was told there.
        """
        stream, self._standalone = self._standalone, None
        if stream is not None:
            stream.detach()
            self.forget(stream)

    def in_loop(self, function: Callable[..., None], *given: Any) -> None:
        """Call a function in the session's loop, from any thread."""
        if self._loop.is_closed():
            return
        if get_ident() == self._loop_thread:
            function(*given)
        else:
            self._loop.call_soon_threadsafe(function, *given)


class SessionAside(Silence):
    """The way back to the client of a notification in a session: what belongs to no request."""

    def __init__(self, session: HttpSession) -> None:
        self._session = session

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, from any thread, wherever the client reads those that belong to no request."""
        self._session.say_anywhere(method, params)

    say = notify

    def updated(self, uri: str) -> None:
        """Tell this client, from any thread, that a resource changed."""
        self._session.say_anywhere(RESOURCE_UPDATED, types.ResourceUpdatedNotificationParams(uri))


class SessionChannel:
    """The way back to the client of one request in a session: the request's own stream, once anything needs it."""

    is_mute = False
    takes_parts = False
    __slots__ = ("_exchange", "_is_over", "_session", "_stream", "_streams")

    def __init__(self, session: HttpSession, exchange: Exchange, *, streams: bool) -> None:
        self._session = session
        self._exchange: Exchange | None = exchange
        self._streams = streams
        self._stream: EventStream | None = None
        self._is_over = False
        if session.peer.version.primes_streams:
            exchange.opening = lambda: self.stream.opening()

    @property
    def stream(self) -> EventStream:
        """The request's stream, from when it is first asked for."""
        return self.open() if self._stream is None else self._stream

    def open(self, let_go: asyncio.Future[None] | None = None) -> EventStream:
        """Begin the stream; `let_go` is done as soon as the exchange is not needed for it any more."""
        stream = self._stream = self._session.open_stream()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            stream.attach(exchange, let_go=let_go)
        return stream

    @property
    def reader(self) -> Exchange | None:
        """Whoever waits for the response."""
        return self._exchange if self._stream is None else self._stream.reader

    def answer(self, status: int, data: bytes, *, json: bool) -> Coroutine[Any, Any, None]:
        """Send the response, or nothing: as one body, if the client takes that and nothing was streamed before."""
        self._is_over = True
        stream = self._stream
        reader = self._exchange if stream is None else None if stream.sequence else stream.reader
        if reader is not None and not reader.streaming and (json or not data):
            return reader.reply(status, data, JSON_HEADERS) if data else reader.reply(ACCEPTED)
        return self._finish(data)

    async def _finish(self, data: bytes) -> None:
        stream = self.stream
        await stream.flush()
        reader = stream.reader
        if data and (reader is not None or stream.kept_as):
            stream.add(data, last=True)
            await stream.flush()
        else:  # cancelled, or nobody can come back for it
            self._session.forget(stream)
            if reader is not None:
                await part(reader)

    async def stop(self, data: bytes) -> None:
        """Send a response in place of a handler that does not end."""
        await self.answer(OK, data, json=True)
        self.close()

    def close(self) -> None:
        """Let go of whoever waits for the response."""
        self._is_over = True
        if self._stream is not None:
            self._stream.detach()
        elif self._exchange is not None:
            self._exchange.opening = None
            self._exchange = None

    def notify(self, method: str, params: Any) -> None:
        """Send a notification on the request's stream, from any thread."""
        if self._streams:
            self._session.in_loop(self._say, jsonrpc.encode_notification(method, params))

    def say(self, method: str, params: Any) -> None:
        """Send a notification, from any thread: on the request's stream, or on what belongs to no request after it."""
        if self._streams and self._is_open():
            self.notify(method, params)
        else:
            self._session.say_anywhere(method, params)

    def _is_open(self) -> bool:
        """Tell whether the response is still to come."""
        if self._is_over:
            return False
        if self._stream is not None:
            return not self._stream.is_finished
        return self._exchange is not None and not self._exchange.ended

    def _say(self, message: bytes) -> None:
        if self._is_open():
            self.stream.add(message)

    async def room(self) -> None:
        """Let what was said be written."""
        if self._stream is not None:
            await self._stream.flush()

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask the client, on the request's stream."""
        if not self._streams:
            raise DragomanError(f"{method} cannot be asked here: the response is JSON alone")
        return await self._session.ask(self.stream, method, params, timeout)

    async def listen(self, subscription: Subscription) -> None:  # noqa: ARG002
        """Refuse: sessions have no subscriptions of that kind."""
        raise RpcError(-32601, "subscriptions/listen is not part of this protocol version")

    def updated(self, uri: str) -> None:
        """Tell this client, from any thread, that a resource changed."""
        self._session.say_anywhere(RESOURCE_UPDATED, types.ResourceUpdatedNotificationParams(uri))

    async def close_stream(self) -> None:
        """Let the connection go; the client comes back for the rest (2025-11-25)."""
        if self._streams:
            await self.stream.let_go()
