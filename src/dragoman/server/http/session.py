"""`LiveSession`: one session of the handshake era over HTTP, with its data and its streams in this process.

`protocol.peer.Peer` keeps the requests of both directions, as for a duplex connection. If the Peer cannot match a
response or a cancellation, it belongs to a request in another process, and the session forwards it.

A request that sends messages before its response has an event stream of its own (`channels.ResumableChannel`). The
client opens the standalone stream with a GET; it carries the messages that belong to no request. If the client opens it
again, the new reader replaces the earlier one, also in another process. A client may resume a stream of another process
here (`resumption`).

A session has three states:

    new     no HTTP request of the client has used the session in this process
    used    an HTTP request has used the session
    ended   the client ended the session, it expired, it was evicted, or the server was closed

Rejected: a task for each session. A session is data, so an idle session costs only memory, and any process can adopt
it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw, field

from dragoman import types
from dragoman.errors import InternalError, TransportError
from dragoman.protocol import jsonrpc, sse, statuses
from dragoman.protocol.peer import Answered, Event, Peer, RequestCancelled, Unmatched
from dragoman.protocol.states import Transitions
from dragoman.runtime.tasks import call_in_loop
from dragoman.server.http.channels import ResumableChannel
from dragoman.server.http.refusal import HttpRefusal
from dragoman.server.http.resumption import RemoteStream, SharedLogs, StreamName
from dragoman.server.http.streams import RETRY_MILLISECONDS, ResumableStream, Retention, StreamReader, StreamTable
from dragoman.server.http.workers import (
    ClientMessageReceived,
    SessionStateChanged,
    StandaloneMessageSent,
    StandaloneStreamOpened,
    StreamFollowed,
    StreamState,
    Workers,
)
from dragoman.server.notifier import change_params, wants_change
from dragoman.server.request.call import (
    ELICITATION_COMPLETE,
    MAX_STATE_KEYS,
    Call,
    ServingPart,
    Session,
    SessionValues,
    request_client,
    set_outcome,
    wants_log,
)
from dragoman.server.request.recording import record_session
from dragoman.stores.limits import Share
from dragoman.transports.http.exchange import Exchange

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher
    from dragoman.server.http.sessions import Holder

SESSION_ENDED = "The session has ended"
_STOPPED = InternalError("The session was ended before the request was done; it may have run in part")
WORKER_NAME_END = "-"
ID_BYTES = 8
"""The random bytes in the id of a request to the client, and in the name of a stream."""
SessionLife = Literal["new", "used", "ended"]
SESSION_LIFE: Transitions[SessionLife, Literal["use", "end"]] = Transitions(
    {"new": {"use": "used", "end": "ended"}, "used": {"use": "used", "end": "ended"}}
)


class SessionData(Session):
    """The data of a session, and the changes that the other processes have not received yet."""

    origin: bytes = b""
    """The digest of the origin of the page that began the session; empty if the client is not a web page."""
    unshared: list[SessionStateChanged] = field(default_factory=list)
    expires_at: int = 0
    """The time at which the session expires even if it is in use, in seconds since the epoch."""

    def kept_values(self, server: ServingPart, account: str) -> SessionValues | None:
        """Return the values of this session in the store, which expire with the session."""
        if self.id is None:
            return None
        share = Share(f"session state\0{server.name}", account)
        values = server.storage.store.state(f"session state\0{self.id}", max_values=MAX_STATE_KEYS, share=share)
        return SessionValues(values, max(1.0, self.expires_at - time.time()))

    def set_level(self, level: types.LoggingLevel) -> None:
        """Record the lowest level of the log messages that the client receives, and note the change."""
        super().set_level(level)
        self._share(log_level=level)

    def subscribe(self, uri: str) -> None:
        """Record that the client subscribed to a resource, and note the change."""
        super().subscribe(uri)
        self._share(subscribed=uri)

    def unsubscribe(self, uri: str) -> None:
        """Record that the client unsubscribed from a resource, and note the change."""
        super().unsubscribe(uri)
        self._share(unsubscribed=uri)

    def _share(self, **change: Any) -> None:
        if self.id is not None:
            self.unshared.append(SessionStateChanged(self.id, **change))

    def apply(self, change: SessionStateChanged) -> None:
        """Apply a change that another process sent."""
        self.log_level = change.log_level or self.log_level
        if change.subscribed is not None:
            super().subscribe(change.subscribed)
        if change.unsubscribed is not None:
            super().unsubscribe(change.unsubscribed)


class LiveSession:
    """A session in this process."""

    holder: Holder

    def __init__(self, server: Dispatcher, data: SessionData, *, workers: Workers, retention: Retention) -> None:
        self.state: SessionLife = "new"
        self.data = data
        self.peer = Peer(server.limits, make_id=partial(_unguessable_id, workers.name))
        self.running: dict[types.RequestId, Call] = {}
        self.last_used = 0.0
        self._began_at = time.monotonic()
        if data.caller is not None:
            self.peer.version = data.caller.version
        self.loop = asyncio.get_running_loop()
        self._server = server
        self._workers = workers
        self._logs = SharedLogs(workers, data.id)
        self._streams = StreamTable(self.peer.next_id, retention, self._logs if workers.shares_streams else None)
        self._standalone: ResumableStream | None = None
        self._followed: dict[str, RemoteStream] = {}
        """The streams of other processes that the client reads here, by name."""
        self._readers = count(1)
        server.notifier.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether a request runs, or the client reads a stream."""
        is_read = any(stream.reader is not None for stream in self._open_streams())
        return bool(self.running or self._followed) or is_read

    def require_origin(self, origin: bytes) -> None:
        """Refuse a web page whose origin differs from that of the page that began the session.

        Clients that are not web pages have no origin and are not refused.

        Raises:
            HttpRefusal: the origins differ.
        """
        if origin and self.data.origin and origin != self.data.origin:
            raise HttpRefusal(statuses.ORIGIN_REFUSED, "The session belongs to a page of another origin")

    def new_stream(self, request_id: types.RequestId | None = None) -> ResumableStream:
        """Return a new stream of a request, or a standalone stream; the session keeps it as soon as it has a name."""
        primes = self.peer.version.primes_streams
        return ResumableStream(self._streams, sends_priming_event=primes, request_id=request_id)

    async def serve_stream(self, exchange: Exchange, last_event_id: str | None) -> None:
        """Serve the standalone stream, or the stream that a client resumes after an event.

        Raises:
            HttpRefusal: the event is not one of a stream.
        """
        if last_event_id is None:
            await self._serve_own(exchange, self.open_standalone(), None)
            return
        event = sse.EventId.decode(last_event_id)
        stream = None if event is None else self._streams.get(event.stream)
        name = None if event is None else StreamName.decode(event.stream)
        if event is not None and stream is not None:
            await self._serve_own(exchange, stream, event.sequence)
        elif event is None or name is None or not (name.is_standalone or name.request_id is not None):
            raise HttpRefusal(statuses.STREAM_UNKNOWN, "The stream of this Last-Event-ID is not kept here")
        else:
            await self._serve_followed(exchange, name, event)

    async def _serve_own(
        self, exchange: Exchange, stream: ResumableStream, after: int | None, opening: bytes = b""
    ) -> None:
        reader = stream.attach(exchange, after)
        await reader.send(opening)
        await stream.flush()
        await reader.wait_released()
        await reader.end()

    async def _serve_followed(self, exchange: Exchange, name: StreamName, event: sse.EventId) -> None:
        primes, stream = self.peer.version.primes_streams, event.stream
        opening = partial(sse.priming_event, event.encode(), RETRY_MILLISECONDS) if primes else None
        reader = StreamReader(exchange, opening=opening)
        if stream in self._followed:
            self._followed[stream].reader.release()
        followed = RemoteStream(self._server, self._logs, name, event, reader, next(self._readers))
        self._followed[stream] = followed
        try:
            if not name.is_standalone:
                await followed.serve()
                return
            # This process keeps messages from now on, so that none is lost when the other process stops to keep them.
            own = self._own_standalone()
            await followed.replay()
        finally:
            if self._followed.get(stream) is followed:
                del self._followed[stream]
        if reader.is_released:
            await reader.end()
            return
        self.open_standalone()
        await self._serve_own(exchange, own, own.delivered, own.priming_event() if own.sends_priming_event else b"")

    def hand_over(self, message: StreamFollowed) -> StreamState:
        """Let a client read a stream of this process in another process.

        A standalone stream goes on in the other process, so this process keeps no more messages for it.
        """
        stream = self._streams.get(message.stream)
        if stream is None:
            return StreamState(is_known=False)
        state = stream.hand_over(message)
        if stream is self._standalone:
            self.forget_standalone()
        return state

    def stream_grew(self, name: str) -> None:
        """Send the client the new events of a stream of another process, if the client reads it here."""
        if name in self._followed:
            self._followed[name].grow()

    def _own_standalone(self) -> ResumableStream:
        if self._standalone is None:
            self._standalone = self.new_stream()
        return self._standalone

    def open_standalone(self) -> ResumableStream:
        """Return the standalone stream; the other processes detach their readers of it."""
        assert self.data.id is not None
        self._workers.send(StandaloneStreamOpened(self.data.id))
        return self._own_standalone()

    async def ask(self, stream: ResumableStream, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on a stream, and return the result; the client sends it in another POST.

        Raises:
            RpcError: the client answered with an error.
            Timeout: the client did not answer in time.
            TransportError: the session has ended.
        """
        if self.state == "ended":
            raise TransportError(SESSION_ENDED)
        return await request_client(self.peer, stream.add, method, params, timeout)

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on the standalone stream, and return its result.

        Raises:
            RpcError: the client answered with an error.
            Timeout: the client did not answer in time.
            TransportError: the session has ended.
        """
        # The client may open the stream later.
        return await self.ask(self._own_standalone(), method, params, timeout)

    def receive(self, event: Event | None) -> None:
        """Handle an event of the Peer; forward a message that matches no request of this process."""
        match event:
            case Answered(waiter, outcome):
                set_outcome(waiter, outcome)
            case RequestCancelled(id, reason) if id in self.running:
                self.running[id].cancel(reason)
            case Unmatched(message):
                self._forward(message)

    def receive_forwarded(self, data: bytes) -> None:
        """Receive a message that another process forwarded; ignore it if it matches no request of this process."""
        event = self.peer.accept(jsonrpc.decode(data, self._server.limits))
        if not isinstance(event, Unmatched):
            self.receive(event)

    def _forward(self, message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse | jsonrpc.Notification) -> None:
        """Forward a cancellation to every process, and a response to the process whose name is the prefix of its id."""
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
        """Detach the reader of the standalone stream, and the readers of streams of other processes."""
        if self._standalone is not None:
            self._standalone.detach()
        for followed in self._followed.values():
            followed.reader.release()

    def forget_standalone(self) -> None:
        """Forget the standalone stream, because the client opened it in another process.

        If the client could resume the stream here, it would receive the messages of the other process twice.
        """
        stream, self._standalone = self._standalone, None
        if stream is not None:
            stream.detach()
            self._streams.forget(stream)

    def end(self) -> None:
        """End the session: stop running requests, fail requests to the client, and detach readers."""
        self.state = SESSION_LIFE[self.state, "end"]
        self._server.notifier.discard(self)
        record_session(self.data, "http", time.monotonic() - self._began_at)
        for call in list(self.running.values()):
            call.stop(_STOPPED)
        for waiter in self.peer.waiters:  # each waiter then sends a cancellation to the client on its stream
            set_outcome(waiter, TransportError(SESSION_ENDED))
        for stream in self._open_streams():
            stream.detach()
        for followed in self._followed.values():
            followed.reader.release()
        self._streams.close()

    def _open_streams(self) -> set[ResumableStream]:
        """Return all streams except those of running requests, which end with their responses."""
        open = set(self._streams) if self._standalone is None else {*self._streams, self._standalone}
        channels = [call.channel for call in self.running.values()]
        return open.difference(channel.opened for channel in channels if isinstance(channel, ResumableChannel))

    async def share_changes(self) -> None:
        """Send the changes of the session to every process; the caller awaits this before it sends the response."""
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

    # The calling thread encodes a notification: the caller gets the error, and may change the params afterwards.

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Notify the client of a change, from any thread, if it wants that and opened the standalone stream here.

        `Workers` passes the change to the other processes.
        """
        is_wanted = wants_change(self._server.offering, self.data, method, subject)
        return is_wanted and self.add_standalone(jsonrpc.encode_notification(method, change_params(subject, params)))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> bool:
        """Send a log message, from any thread, if the client's log level includes it."""
        if not wants_log(self._server.capabilities, level, self.data.log_level):
            return False
        params = types.LoggingMessageNotificationParams(level, data, logger)
        return self.add_standalone(jsonrpc.encode_notification("notifications/message", params))

    def complete_elicitation(self, id: str) -> bool:
        """Notify the client, from any thread, that a url elicitation is complete, if the client received it."""
        params = self.data.end_elicitation(id)
        return params is not None and self.notify(ELICITATION_COMPLETE, params)

    def notify(self, method: str, params: Any) -> bool:
        """Send a notification on the standalone stream, from any thread, in this process and in the others.

        Returns whether the client opened the stream in this process.
        """
        message = jsonrpc.encode_notification(method, params)
        is_open_here = self.add_standalone(message)
        if self.data.id is not None:
            call_in_loop(self.loop, self._workers.send, StandaloneMessageSent(self.data.id, message))
        return is_open_here

    def add_standalone(self, message: bytes) -> bool:
        """Add a message to the standalone stream, from any thread, if the client opened it in this process."""
        if self._standalone is None:
            return False
        call_in_loop(self.loop, self._standalone.add, message)
        return True


def _unguessable_id(worker: str, number: int) -> str:
    """Return the id of a request to the client, or the name of a stream, that begins with the name of the process.

    Any token of the principal may answer the requests of a session and resume its streams. Only the stream of a request
    tells these ids, so a token that lacks the scopes for the request does not know them.
    """
    return f"{worker}{WORKER_NAME_END}{number}{secrets.token_hex(ID_BYTES)}"
