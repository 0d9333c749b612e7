"""One session of the handshake era over HTTP: its state and its streams in this process.

`protocol.peer.Peer` keeps the requests of both directions, as it does for a duplex connection. An answer or a
cancellation that the Peer cannot match concerns a request in another process, and is forwarded.

Each request has an event stream of its own, for its notifications, its questions to the client and its response
(`channels.SessionChannel`). The standalone stream, which the client opens by GET, carries the messages that belong to
no request; if a client opens several, the newest wins.

The states of a session: `new` until its client sends a message in it, then `used`, and `ended` when it was ended by its
client, has expired, or was evicted.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw

from dragoman import types
from dragoman.errors import InternalError, TransportError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.peer import Answered, Event, Peer, RequestCancelled, Unmatched
from dragoman.protocol.sse import EventId
from dragoman.protocol.states import Transitions
from dragoman.runtime.tasks import call_in_loop
from dragoman.server.audience import change_params, wants_change
from dragoman.server.http.channels import SessionChannel
from dragoman.server.http.refusal import HttpRefusal
from dragoman.server.http.streams import EventStream, Retention, SessionStreams
from dragoman.server.http.workers import (
    ClientMessageReceived,
    SessionStateChanged,
    StandaloneMessageSent,
    StandaloneStreamOpened,
    Workers,
)
from dragoman.server.request.asking import request_client, set_outcome
from dragoman.server.request.call import ELICITATION_COMPLETE, Call, Session, wants_log

if TYPE_CHECKING:
    from dragoman.server.http.sessions import Holder
    from dragoman.server.server import Server

SESSION_ENDED = "The session has ended"
_STOPPED = InternalError("The session was ended before the request was done; it may have run in part")
WORKER_NAME_END = "-"
SessionLife = Literal["new", "used", "ended"]
SESSION_LIFE: Transitions[SessionLife, Literal["use", "end"]] = Transitions(
    {"new": {"use": "used", "end": "ended"}, "used": {"use": "used", "end": "ended"}}
)


class SharedSession(Session):
    """The data of a session, and the changes of it that the other processes do not know yet."""

    __slots__ = ("origin", "unshared")

    def __init__(self, caller: eras.Caller | None = None, id: str | None = None, principal: str | None = None) -> None:
        super().__init__(caller, id, principal)
        self.origin = b""
        """The digest of the origin of the page that began the session; empty if the client is no web page."""
        self.unshared: list[SessionStateChanged] = []

    def set_level(self, level: types.LoggingLevel) -> None:
        """Set the level from which on the client wants log messages."""
        super().set_level(level)
        self._share(log_level=level)

    def subscribe(self, uri: str) -> None:
        """Add a resource that the client subscribes to."""
        super().subscribe(uri)
        self._share(subscribed=uri)

    def unsubscribe(self, uri: str) -> None:
        """Remove a resource that the client unsubscribes from."""
        super().unsubscribe(uri)
        self._share(unsubscribed=uri)

    def _share(self, **change: Any) -> None:
        if self.id is not None:
            self.unshared.append(SessionStateChanged(self.id, **change))

    def apply(self, change: SessionStateChanged) -> None:
        """Apply a change that another process received."""
        self.log_level = change.log_level or self.log_level
        if change.subscribed is not None:
            self.subscribed.add(change.subscribed)
        if change.unsubscribed is not None:
            self.subscribed.discard(change.unsubscribed)


class HttpSession:
    """A session in this process."""

    holder: Holder
    expires_at = 0
    """The last second in which requests are served, since the epoch."""

    def __init__(self, server: Server, data: SharedSession, *, workers: Workers, retention: Retention) -> None:
        self.state: SessionLife = "new"
        self.data = data
        # The ids of requests and of streams begin with the name of the process.
        self.peer = Peer(server.limits, id_prefix=f"{workers.name}{WORKER_NAME_END}")
        self.running: dict[types.RequestId, Call] = {}
        self.last_used = 0.0
        if data.caller is not None:
            self.peer.version = data.caller.version
        self.loop = asyncio.get_running_loop()
        self._server = server
        self._workers = workers
        self._streams = SessionStreams(self.peer.next_id, retention)
        self._standalone: EventStream | None = None
        server.audience.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether a request is served, or a client reads a stream."""
        return bool(self.running) or any(stream.reader is not None for stream in self._open_streams())

    def require_origin(self, origin: bytes) -> None:
        """See that no page uses the session of a page of another origin; a client that is no page has no origin.

        Raises:
            HttpRefusal: the origin is not that of the page which began the session.
        """
        if origin and self.data.origin and origin != self.data.origin:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "The session belongs to a page of another origin")

    def new_stream(self) -> EventStream:
        """Return a new stream, which is kept from when it has a name."""
        primes = self.peer.version.primes_streams
        return EventStream(self._workers.store, self._streams, sends_priming_event=primes)

    def find_stream(self, last_event_id: str) -> tuple[EventStream, int]:
        """Return the stream of an event, and the number of the event.

        Raises:
            HttpRefusal: the stream is not kept.
        """
        event = EventId.decode(last_event_id)
        stream = None if event is None else self._streams.get(event.stream)
        if event is None or stream is None:
            # A client that got 404 would conclude that its session has ended.
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "The stream of this Last-Event-ID is not kept here")
        return stream, event.sequence

    def open_standalone(self) -> EventStream:
        """Return the standalone stream; a reader in another process is let go."""
        if self._standalone is None:
            self._standalone = self.new_stream()
        assert self.data.id is not None
        self._workers.send(StandaloneStreamOpened(self.data.id))
        return self._standalone

    async def ask(self, stream: EventStream, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on a stream, and return the result, which comes in another POST."""
        if self.state == "ended":
            raise TransportError(SESSION_ENDED)
        return await request_client(self.peer, stream.add, method, params, timeout)

    def receive(self, event: Event | None) -> None:
        """Receive what the Peer made of a client's message; what concerns no request here is forwarded."""
        match event:
            case Answered(waiter, outcome):
                set_outcome(waiter, outcome)
            case RequestCancelled(id, reason) if id in self.running:
                self.running[id].cancel(reason)
            case Unmatched(message):
                self._forward(message)
            case jsonrpc.Notification(method):
                self._server.notified(method)

    def receive_forwarded(self, data: bytes) -> None:
        """Receive a message that came to another process, if it concerns a request here."""
        event = self.peer.accept(jsonrpc.decode(data, self._server.limits))
        if not isinstance(event, Unmatched):
            self.receive(event)

    def _forward(self, message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse | jsonrpc.Notification) -> None:
        """Forward a cancellation to every process, and an answer to the one whose name begins its id."""
        id: types.RequestId | None = None
        match message:
            case jsonrpc.Notification(method, params):
                data = jsonrpc.encode_notification(method, params)
            case jsonrpc.ResultResponse(id, result):
                data = jsonrpc.encode_result(id, result)
            case jsonrpc.ErrorResponse(id, error):
                data = jsonrpc.encode_error(id, error)
        worker = None if id is None else str(id).partition(WORKER_NAME_END)[0]
        assert self.data.id is not None
        if worker != self._workers.name:
            self._workers.send(ClientMessageReceived(self.data.id, data), worker)

    def detach_standalone(self) -> None:
        """Let go of the reader of the standalone stream."""
        if self._standalone is not None:
            self._standalone.detach()

    def forget_standalone(self) -> None:
        """Forget the standalone stream, because the client opened it in another process.

        A client that came back to it here would be sent again what it is sent there.
        """
        stream, self._standalone = self._standalone, None
        if stream is not None:
            stream.detach()
            self._streams.forget(stream)

    def end(self) -> None:
        """End the session: running requests are stopped, questions fail, and readers are let go."""
        self.state = SESSION_LIFE[self.state, "end"]
        self._server.audience.discard(self)
        for call in list(self.running.values()):
            call.stop(_STOPPED)
        for waiter in self.peer.waiters:  # each takes its question back on the stream of the request that asked
            set_outcome(waiter, TransportError(SESSION_ENDED))
        for stream in self._open_streams():
            stream.detach()
        self._streams.close()

    def _open_streams(self) -> set[EventStream]:
        """Return the streams but those of running requests, which end with their responses."""
        open = set(self._streams) if self._standalone is None else {*self._streams, self._standalone}
        channels = [call.channel for call in self.running.values()]
        return open.difference(channel.opened for channel in channels if isinstance(channel, SessionChannel))

    async def share_changes(self) -> None:
        """Let every process know the changes of the session, before its client gets the response."""
        while self.data.unshared:
            change = self.data.unshared.pop(0)
            try:
                await self._workers.share(change)
            except Exception as error:
                self._server.report(error, None, {"place": "telling other workers"})

    async def close(self) -> None:
        """End the session, and wait until its streams are closed."""
        streams = self._open_streams()
        self.end()
        for stream in streams:
            await stream.close()

    # Messages are encoded by the thread that sends them: what cannot be JSON fails there, and later changes of a value
    # do not reach the client.

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Notify the client of a change, from any thread, if it wants that and opened the standalone stream here."""
        if wants_change(self._server, self.data, method, subject):
            self.add_standalone(jsonrpc.encode_notification(method, change_params(subject, params)))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread, if the client's level admits it."""
        if wants_log(self._server, level, self.data.log_level):
            params = types.LoggingMessageNotificationParams(level, data, logger)
            self.add_standalone(jsonrpc.encode_notification("notifications/message", params))

    def complete_elicitation(self, id: str) -> None:
        """Notify the client, from any thread, that an elicitation by URL was completed, if it was its own."""
        params = self.data.end_elicitation(id)
        if params is not None:
            self.send_standalone(ELICITATION_COMPLETE, params)

    def send_standalone(self, method: str, params: Any) -> None:
        """Send a notification on the standalone stream, from any thread, whichever process the client reads it from."""
        message = jsonrpc.encode_notification(method, params)
        self.add_standalone(message)
        if self.data.id is not None:
            call_in_loop(self.loop, self._workers.send, StandaloneMessageSent(self.data.id, message))

    def add_standalone(self, message: bytes) -> None:
        """Add a message to the standalone stream, from any thread, if the client ever opened it here."""
        if self._standalone is not None:
            call_in_loop(self.loop, self._standalone.add, message)
