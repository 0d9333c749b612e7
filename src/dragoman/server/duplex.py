"""`DuplexConnection`: the server's side of one duplex connection (stdio, or memory).

`Peer` turns received bytes into events, which the connection handles in order. If `run` returns the response of a
request at once, the connection writes it. Otherwise `run` returns a coroutine, which gets a task. While a task serves
`initialize`, later events wait, because the session decides how they are read. When the client cancels a request, the
connection cancels the task, and `Peer` drops the response.

The connection sends the notification of a change to the session if the client sent `initialize`, and to each
subscription of a stateless client.

Notifications that belong to no request are queued while the client does not read. A change replaces an equal change
that is still queued. If the queue is full, the oldest message is dropped.

A connection has three states:

    open     the connection serves requests and sends requests to the client
    ending   the input has ended: running requests continue, and the server sends no more requests to the client
    closed   running requests are cancelled, and nothing is sent

A transport may report the end of the input twice, and may close the connection twice.

Rejected: a task for each request. Most responses are known at once, and a task costs more than such a response.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw

from dragoman import types
from dragoman.errors import TransportError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.peer import INITIALIZE, Answered, Event, Peer, PeerReply, RequestCancelled
from dragoman.protocol.states import Transitions
from dragoman.protocol.subscriptions import MAX_WAITING, RESOURCE_UPDATED, Subscription
from dragoman.runtime.tasks import call_in_loop, start_task
from dragoman.server.dispatch.opening import open_call, open_notification
from dragoman.server.dispatch.runner import run, run_notification
from dragoman.server.notifier import change_params, wants_change
from dragoman.server.request.call import (
    ELICITATION_COMPLETE,
    MAX_STATE_KEYS,
    Call,
    ConnectedClient,
    Sender,
    ServingPart,
    Session,
    SessionValues,
    request_client,
    set_outcome,
    wants_log,
)
from dragoman.server.request.recording import record_session
from dragoman.transports.contract import FunctionSink, Sink

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher


Life = Literal["open", "ending", "closed"]
LIFE: Transitions[Life, Literal["end", "close"]] = Transitions(
    {
        "open": {"end": "ending", "close": "closed"},
        "ending": {"end": "ending", "close": "closed"},
        "closed": {"end": "closed", "close": "closed"},
    }
)
_NO_MORE = object()
GONE = "The client is gone, and will not answer"


class DuplexConnection:
    """The server's side of one duplex connection.

    `sender` is the verified identity of the client, if another server of this process connects on its behalf. Without
    one, every tool is open to the client.
    """

    lacks_standalone_stream = False
    end_error = None

    def __init__(self, server: Dispatcher, sink: Sink, sender: Sender | None = None) -> None:
        self.carrier: Literal["stdio", "memory"] | None = "stdio" if getattr(sink, "is_stdio", False) else "memory"
        self._began_at = time.monotonic()
        self._server = server
        self._sink = sink
        self._send = sink.send
        self._sender = sender
        self._peer = Peer(server.limits)
        self._session = _DuplexSession(peer=self._peer, principal=None if sender is None else sender.principal)
        self._running: dict[Any, Call] = {}
        self._subscriptions: dict[Subscription, asyncio.Future[None]] = {}
        self._queued: dict[Any, bytes] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._state: Life = "open"
        self._loop = asyncio.get_running_loop()
        self._unhandled: deque[Iterator[Event | None]] = deque()
        self._is_handling = self._is_initializing = False
        server.notifier.add(self)

    @property
    def standalone(self) -> ConnectedClient:
        """This connection, which outlives its requests."""
        return self

    def receive(self, chunk: bytes) -> None:
        """Receive bytes of the input, which may hold any number of messages and parts of messages."""
        self._receive(self._peer.events(chunk))

    def receive_message(self, data: bytes) -> None:
        """Receive one whole message."""
        self._receive(iter(self._peer.receive_message(data)))

    def receive_end(self) -> None:
        """Receive the end of the input; a last line without a newline counts as a message."""
        self._receive(self._last_events())

    def _last_events(self) -> Iterator[Event | None]:
        yield from self._peer.events(None)
        yield None

    def _end(self) -> None:
        """Fail the requests to the client, and end the subscriptions; all messages before the end are received."""
        self._state = LIFE[self._state, "end"]
        self._fail_requests()
        for ended in self._subscriptions.values():
            set_outcome(ended, None)

    async def drain(self) -> None:
        """Wait until no request is running."""
        while tasks := [call.task for call in self._running.values() if call.task is not None and not call.task.done()]:
            await asyncio.wait(tasks)

    def close(self) -> None:
        """Cancel the running requests; the connection sends nothing after this call."""
        if self._state != "closed":
            record_session(self._session, self.carrier, time.monotonic() - self._began_at)
        self._state = LIFE[self._state, "close"]
        self._unhandled.clear()
        self._sink = FunctionSink(_discard)
        self._send = _discard
        self._server.notifier.discard(self)
        self._fail_requests()
        self._peer.close()
        if self._flushing is not None:
            self._flushing.cancel()
        for call in list(self._running.values()):
            call.cancel()
        self._session.end()

    def _fail_requests(self) -> None:
        for waiter in self._peer.abandon():
            set_outcome(waiter, TransportError(GONE))

    @property
    def has_room(self) -> bool:
        """Whether the client has read most of the sent messages."""
        return self._sink.has_room

    async def wait_for_room(self) -> None:
        """Wait until the client has read enough of the sent messages."""
        await self._sink.wait_for_room()

    # The calling thread encodes a notification: the caller gets the error, and may change the params afterwards.

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client, from any thread."""
        call_in_loop(self._loop, self._write, jsonrpc.encode_notification(method, params))

    def notify_session(self, method: str, params: Any) -> bool:
        """Send a notification to the client, from any thread; return whether the connection is open."""
        self.notify(method, params)
        return self._state != "closed"

    def complete_elicitation(self, id: str) -> bool:
        """Notify the client, from any thread, that a url elicitation is complete, if the client received it."""
        params = self._session.end_elicitation(id)
        return params is not None and self.notify_session(ELICITATION_COMPLETE, params)

    def notify_updated(self, uri: str) -> bool:
        """Notify this client, from any thread, that a resource was updated."""
        return self._notify_change(RESOURCE_UPDATED, uri, None, is_announced=True)

    async def close_stream(self) -> None:
        """Do nothing: a duplex connection has no stream that the client could resume."""

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Send the notification of a change, from any thread, to the session and the subscriptions that want it."""
        is_announced = wants_change(self._server.offering, self._session, method, subject)
        return self._notify_change(method, subject, params, is_announced=is_announced)

    def _notify_change(
        self, method: str, subject: str | None, params: types.Json | None, *, is_announced: bool
    ) -> bool:
        message = jsonrpc.encode_notification(method, change_params(subject, params))
        call_in_loop(self._loop, self._change, method, subject, params, message if is_announced else None)
        is_wanted = is_announced and self._session.caller is not None
        return is_wanted or any(subscription.wants(method, subject) for subscription in list(self._subscriptions))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> bool:
        """Send a log message, from any thread, if this client's log level includes it."""
        if self._session.caller is None or not wants_log(self._server.capabilities, level, self._session.log_level):
            return False
        params = types.LoggingMessageNotificationParams(level, data, logger)
        message = jsonrpc.encode_notification("notifications/message", params)
        call_in_loop(self._loop, self._queue, object(), message)
        return True

    def _change(self, method: str, subject: str | None, params: types.Json | None, message: bytes | None) -> None:
        for subscription in self._subscriptions:
            subscription.enqueue(method, subject, params)
        if message is not None and self._session.caller is not None:
            self._queue((method, subject), message)
        else:
            self._flush()

    def _queue(self, key: Any, message: bytes) -> None:
        """Send a message once the sink has room; the message replaces a queued message with the same key."""
        self._queued[key] = message
        if len(self._queued) > MAX_WAITING:
            del self._queued[next(iter(self._queued))]
        self._flush()

    def _flush(self) -> None:
        if self._flushing is not None:
            return
        if self._sink.has_room:
            self._send_waiting()
        else:
            self._flushing = self._loop.create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await self.wait_for_room()
        self._flushing = None
        self._send_waiting()

    def _send_waiting(self) -> None:
        messages, self._queued = self._queued, {}
        for message in messages.values():
            self._send(message)
        for subscription in list(self._subscriptions):
            self._send_changes(subscription)

    def _send_changes(self, subscription: Subscription) -> None:
        for message in subscription.drain():
            self._send(message)

    async def listen(self, subscription: Subscription) -> None:
        """Serve a subscription until the input ends."""
        ended: asyncio.Future[None] = self._loop.create_future()
        # MUST NOT send messages for a cancelled request. The client may cancel this request before its task begins.
        if not self._running[subscription.id].cancelled:
            self._subscriptions[subscription] = ended
            self._send(subscription.acknowledgement())
        if self._state != "open":
            set_outcome(ended, None)
        try:
            await ended
            self._send_changes(subscription)
        finally:
            self._subscriptions.pop(subscription, None)

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client and return its result.

        Raises:
            RpcError: the client answered with an error.
            Timeout: the client did not answer in time.
            TransportError: the connection has ended.
        """
        if self._state != "open":
            raise TransportError(GONE)
        return await request_client(self._peer, self._write, method, params, timeout)

    def _receive(self, events: Iterator[Event | None]) -> None:
        """Handle events after those that were received before; None is the end of the input."""
        self._unhandled.append(events)
        if not self._is_handling:
            self._handle_events()

    def _handle_events(self) -> None:
        self._is_handling = True
        try:
            while self._unhandled and not self._is_initializing:
                event = next(self._unhandled[0], _NO_MORE)
                if event is _NO_MORE:
                    self._unhandled.popleft()
                else:
                    self._handle(event)
        finally:
            self._is_handling = False

    def _handle(self, event: Any) -> None:
        match event:
            case jsonrpc.Request():
                self._serve(event)
            case jsonrpc.Notification():
                self._receive_notification(event)
            case PeerReply(data):
                self._send(data)
            case RequestCancelled(id, reason):
                self._cancel(id, reason)
            case Answered(waiter, outcome):
                set_outcome(waiter, outcome)
            case None:
                self._end()
            case _:  # progress of requests to the client, and responses that match no request
                pass

    def _serve(self, message: jsonrpc.Request) -> None:
        """Answer a request, or start the task that answers it."""
        server = self._server
        call = open_call(message, self._session, self, server, server.server_context, self._loop)
        self._identify(call)
        answer: Any = run(call)
        if type(answer) is not CoroutineType:
            self._reply(message.id, answer)
            return
        self._running[message.id] = call
        self._is_initializing = message.method == INITIALIZE
        call.task = start_task(self._finish(call, answer), self._loop)

    def _identify(self, call: Call) -> None:
        if self._sender is not None:
            _, call.scopes, call.claims = self._sender

    def _receive_notification(self, message: jsonrpc.Notification) -> None:
        server = self._server
        call = open_notification(message, self._session, self, server, server.server_context, self._loop)
        if call is not None:
            self._identify(call)
            self._running[call] = call
            call.task = start_task(self._run_notification(call), self._loop)

    async def _run_notification(self, call: Call) -> None:
        call.task = asyncio.current_task()
        try:
            await run_notification(call)
        finally:
            try:
                if call.dependencies is not None:
                    await call.clean_up()
            finally:
                self._running.pop(call, None)

    def _cancel(self, id: Any, reason: str | None) -> None:
        for subscription in [one for one in self._subscriptions if one.id == id]:
            del self._subscriptions[subscription]
        if id in self._running:
            self._running[id].cancel(reason)

    async def _finish(self, call: Call, pending: Coroutine[Any, Any, bytes]) -> None:
        """Wait for the response of a request, and send it."""
        id = call.request.id
        call.task = asyncio.current_task()
        try:
            self._reply(id, await pending)
        except (asyncio.CancelledError, GeneratorExit):  # other code ended the task: there is no response
            self._reply(id, b"")
        finally:
            try:
                if call.dependencies is not None:
                    await call.clean_up()
            finally:
                later = self._running.pop(id, None)
                if later is not call and later is not None:  # the client used the id again after the response
                    self._running[id] = later
                if call.request.method.name == INITIALIZE:
                    self._is_initializing = False
                    self._handle_events()

    def _reply(self, id: types.RequestId, answer: bytes) -> None:
        self._write(self._peer.finish(id, answer))

    def _write(self, data: bytes | None) -> None:
        if data is not None:
            self._send(data)


class ServerForSender:
    """A server of this process as a target that takes connections on behalf of a verified client.

    Example:
        endpoint = endpoint_of(ServerForSender(server, call.sender), options)
    """

    def __init__(self, server: Dispatcher, sender: Sender) -> None:
        self._server = server
        self._sender = sender
        self.serving = server.serving
        self.handle_json = server.owner.handle_json

    def connect(self, send: Callable[[bytes], None] | Sink) -> DuplexConnection:
        """Return the server's side of a connection whose requests have the identity of the client."""
        self._server.check()
        return DuplexConnection(self._server, FunctionSink(send) if callable(send) else send, self._sender)


class _DuplexSession(Session, kw_only=True):
    """The session of a connection; `begin` also sets the version of the connection's `Peer`."""

    peer: Peer
    values: SessionValues | None = None

    def kept_values(self, server: ServingPart, account: str) -> SessionValues:  # noqa: ARG002
        """Return the values of this session, which end with the connection."""
        if self.values is None:
            from dragoman.stores.memory import Memory

            self.values = SessionValues(Memory().state("session", max_values=MAX_STATE_KEYS))
        return self.values

    def begin(self, caller: eras.Caller) -> None:
        super().begin(caller)
        self.peer.version = caller.version


def _discard(_: bytes) -> None:
    """Drop a message: the connection is closed."""
