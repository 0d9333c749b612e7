"""`DuplexConnection`: the server's side of one duplex connection (stdio, or memory).

`Peer` turns received bytes into events. If `run` returns the response of a request at once, the connection writes it
without a task. Otherwise `run` returns a coroutine, and `EagerRunner` gives it a task of its own when it first waits.
When the client cancels a request, the connection cancels the task, and `Peer` drops the response. A `def` that runs in
a thread needs no task meanwhile: its outcome comes back as an event (`CallEnded`). Neither does a request that a proxy
passes on: `keep_open` keeps it, and `answer` ends it, or `go_on` gives it a task.

The connection sends the notification of a change to the session if the client sent `initialize`, and to each
subscription of a stateless client. It passes a large encoded list to the sink in parts, which saves a copy.

Notifications that belong to no request are queued while the client does not read. A change replaces an equal change
that is still queued. If the queue is full, the oldest message is dropped.

A connection has three states:

    open     the connection serves requests and sends requests to the client
    ending   the input has ended: running requests continue, and the server sends no more requests to the client
    closed   running requests are cancelled, and nothing is sent

A transport may report the end of the input twice, and may close the connection twice.

A task for each request was rejected: most responses are known at once, and a task costs more than such a response.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import TransportError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.peer import Answered, Event, Peer, PeerReply, RequestCancelled
from dragoman.protocol.states import Transitions
from dragoman.protocol.subscriptions import MAX_WAITING, RESOURCE_UPDATED, Subscription
from dragoman.runtime.callables import ThreadCall
from dragoman.runtime.eager import EagerRunner
from dragoman.runtime.tasks import call_in_loop
from dragoman.server.audience import change_params, wants_change
from dragoman.server.dispatch.opening import open_call, open_notification
from dragoman.server.dispatch.runner import Answer, pass_result, resume, run, run_notification
from dragoman.server.request.call import (
    ELICITATION_COMPLETE,
    MAX_STATE_KEYS,
    Call,
    ConnectedClient,
    Sender,
    Session,
    SessionValues,
    request_client,
    set_outcome,
    wants_log,
)
from dragoman.server.request.recording import record_session
from dragoman.transports.contract import FunctionSink, Sink

if TYPE_CHECKING:
    from dragoman.server.server import Server


Life = Literal["open", "ending", "closed"]
LIFE: Transitions[Life, Literal["end", "close"]] = Transitions(
    {
        "open": {"end": "ending", "close": "closed"},
        "ending": {"end": "ending", "close": "closed"},
        "closed": {"end": "closed", "close": "closed"},
    }
)
_RESUMED_HANDLERS: frozenset[type] = frozenset({CoroutineType, ThreadCall})
GONE = "The client is gone, and will not answer"


class CallEnded(Struct):
    """What served a request that has no task has ended: a function in its thread, or another server."""

    call: Call
    value: Any
    error: BaseException | None
    work: Callable[[], Coroutine[Any, Any, Any]] | None = None
    """Begins what returns the value, if that takes a task."""


class Keeper(Protocol):
    """Keeps a request open that has no task: a duplex connection, or the exchange of a POST."""

    def keep_open(self, call: Call, drop: Callable[[], None]) -> None:
        """Keep a request; `drop` is called if it is cancelled before `answer` or `go_on`."""

    def answer(self, call: Call, result: Raw, *, at_once: bool) -> None:
        """Answer a request with a result of its version; `at_once` if no other answer comes now."""

    def go_on(self, call: Call, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Serve a request in a task, unless it has ended; `work` begins what returns its result."""


class PassesRequests(Protocol):
    """What passes the requests of one client to another server without tasks."""

    def pass_on(self, call: Call, keeper: Keeper) -> bool:
        """Pass a request, if that needs no task; return whether it was passed. It ends with `answer` or `go_on`."""


class DuplexConnection:
    """The server's side of one duplex connection.

    `sender` is the verified identity of the client, if another server of this process connects on its behalf. Without
    one, every tool is open to the client.
    """

    lacks_standalone_stream = False
    takes_parts = True
    end_error = None

    def __init__(self, server: Server, sink: Sink, sender: Sender | None = None) -> None:
        self.carrier: Literal["stdio", "memory"] | None = "stdio" if getattr(sink, "is_stdio", False) else "memory"
        self.resumed_handlers: frozenset[type] = _RESUMED_HANDLERS
        self._began_at = time.monotonic()
        self._server = server
        self._sink = sink
        self._send = sink.send
        # Sinks of authors write when they like.
        self._send_at_once: Callable[[bytes], None] = getattr(sink, "send_at_once", sink.send)
        self._sender = sender
        # Requests that are passed without a task have no identity.
        self._pass_on = None if server.passing is None or sender is not None else server.passing().pass_on
        self._peer = Peer(server.limits)
        self._session = _DuplexSession(peer=self._peer, principal=None if sender is None else sender.principal)
        self._running: dict[Any, Call] = {}
        self._subscriptions: dict[Subscription, asyncio.Future[None]] = {}
        self._queued: dict[Any, bytes] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._state: Life = "open"
        self._loop = asyncio.get_running_loop()
        self._resumed: asyncio.Future[None] | None = None
        """Is done when a request that has no task has ended; None while no code waits for that."""
        self._runner: EagerRunner[Event | Call | CallEnded | None] = EagerRunner(self._loop, self._begin)
        server.audience.add(self)

    @property
    def standalone(self) -> ConnectedClient:
        """This connection, which outlives its requests."""
        return self

    def receive(self, chunk: bytes) -> None:
        """Receive bytes of the input, which may hold any number of messages and parts of messages."""
        if self._pass_on is None or not self._receive_request(chunk):
            self._runner.run(self._peer.events(chunk))

    def _receive_request(self, chunk: bytes) -> bool:
        """Receive a chunk that is one request, if this connection may pass requests; return whether it was."""
        message = self._peer.sole_request(chunk) if self._runner.is_idle else None
        if message is None:
            return False
        call = self._pass_or_open(message)
        if call is not None:
            self._runner.run((call,))
        return True

    def _pass_or_open(self, message: jsonrpc.Request) -> Call | None:
        """Pass a request on, or return its call, which is to be run."""
        server, session, pass_on = self._server, self._session, self._pass_on
        assert pass_on is not None
        request = None if session.caller is None else eras.open_in_session(message, server.offer, session.caller)
        if request is None:
            call = self._open(message)
            return None if pass_on(call, self) else call
        passed = Call(request, session, self, server, server.server_context, self._loop)
        return None if pass_on(passed, self) else self._open(message)

    def _open(self, message: jsonrpc.Request) -> Call:
        server = self._server
        return open_call(message, self._session, self, server, server.server_context, self._loop)

    def receive_message(self, data: bytes) -> None:
        """Receive one whole message."""
        self._runner.run(self._peer.receive_message(data))

    def receive_end(self) -> None:
        """Receive the end of the input; a last line without a newline counts as a message."""
        self._runner.run(self._last_events())

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
        while self._running or self._runner.is_pending:
            tasks: list[asyncio.Future[Any]] = [one.task for one in self._running.values() if one.task is not None]
            if not tasks and self._running:  # all of them run in threads
                self._resumed = self._loop.create_future()
                tasks.append(self._resumed)
            await (asyncio.wait(tasks) if tasks else asyncio.sleep(0))

    def close(self) -> None:
        """Cancel the running requests; the connection sends nothing after this call."""
        if self._state != "closed":
            record_session(self._session, self.carrier, time.monotonic() - self._began_at)
        self._state = LIFE[self._state, "close"]
        self._runner.close()  # the runner holds a reference to this connection
        self._pass_on = None  # so does what passes its requests
        self._sink = FunctionSink(_discard)
        self._send = self._send_at_once = _discard
        self._server.audience.discard(self)
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
        is_announced = wants_change(self._server, self._session, method, subject)
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
        if self._session.caller is None or not wants_log(self._server, level, self._session.log_level):
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

    def _begin(self, event: Event | Call | CallEnded | None) -> Coroutine[Any, Any, None] | None:
        """Receive an event, or None for the end of the input; return a coroutine if the event needs to wait."""
        if type(event) is jsonrpc.Request:
            server = self._server
            if self._pass_on is None:
                call = open_call(event, self._session, self, server, server.server_context, self._loop)
                if self._sender is not None:
                    _, call.scopes, call.claims = self._sender
            elif (unpassed := self._pass_or_open(event)) is not None:
                call = unpassed
            else:
                return None
        elif type(event) is Call:
            call = event
        else:
            return self._receive(event)
        answer: Any = run(call)
        if type(answer) is CoroutineType:
            self._running[call.request.id] = call
            return self._finish(call, answer)
        if type(answer) is ThreadCall:
            self._submit(call, answer)
        else:
            self._reply(call.request.id, answer)
        return None

    def _submit(self, call: Call, function: ThreadCall) -> None:
        """Run a `def` in a thread, without a task for the request; `_resume` goes on with the request."""
        context = copy_context()

        def end(value: Any, error: BaseException | None) -> None:
            context.run(self._runner.run, (CallEnded(call, value, error),))

        def end_in_batch(value: Any, error: BaseException | None) -> None:
            self._sink.hold()
            end(value, error)

        self._running[call.request.id] = call
        try:
            job = function.submit(end_in_batch, self._sink.write_now)
        except RuntimeError as error:  # the system has no further thread
            end(None, error)
        else:
            call.drop = partial(self._drop, call, job.drop)

    def _drop(self, call: Call, drop: Callable[[], None]) -> None:
        """End a request without a task, because it was cancelled."""
        drop()
        call.ended = True
        self._end_without_task(call)
        self._reply(call.request.id, b"")

    def keep_open(self, call: Call, drop: Callable[[], None]) -> None:
        """Keep a request that has no task; `drop` is called if it is cancelled before `answer` or `go_on`."""
        self._running[call.request.id] = call
        call.drop = partial(self._drop, call, drop)

    def answer(self, call: Call, result: Raw, *, at_once: bool) -> None:
        """Answer a request that was kept open with a result of its version; `at_once` if no other answer comes now."""
        self._end_without_task(call)
        data = self._peer.finish(call.request.id, pass_result(call, result))
        if type(data) is bytes:
            (self._send_at_once if at_once else self._send)(data)
        elif data is not None:
            self._sink.send_parts(*data)

    def go_on(self, call: Call, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Serve a request that was kept open in a task, unless it has ended; `work` begins what returns its result."""
        if not call.ended:
            self._runner.run((CallEnded(call, None, None, work),))

    def _resume(self, ended: CallEnded) -> Coroutine[Any, Any, None] | None:
        call = ended.call
        if call.ended:  # cancelled while this event waited for its turn
            return None
        self._end_without_task(call)
        answer: Any = resume(call, ended.value if ended.work is None else ended.work(), ended.error)
        if type(answer) is CoroutineType:
            self._running[call.request.id] = call
            return self._finish(call, answer)
        self._reply(call.request.id, answer)
        return None

    def _end_without_task(self, call: Call) -> None:
        call.drop = None
        del self._running[call.request.id]
        if self._resumed is not None:
            self._resumed.set_result(None)
            self._resumed = None

    def _receive(self, event: Event | Call | CallEnded | None) -> Coroutine[Any, Any, None] | None:
        match event:
            case jsonrpc.Notification():
                return self._receive_notification(event)
            case CallEnded():
                return self._resume(event)
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
        return None

    def _receive_notification(self, message: jsonrpc.Notification) -> Coroutine[Any, Any, None] | None:
        server = self._server
        call = open_notification(message, self._session, self, server, server.server_context, self._loop)
        if call is None:
            return None
        if self._sender is not None:
            _, call.scopes, call.claims = self._sender
        self._running[call] = call
        return self._run_notification(call)

    async def _run_notification(self, call: Call) -> None:
        call.task = self._runner.task
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

    async def _finish(self, call: Call, pending: Coroutine[Any, Any, Any]) -> None:
        """Wait for the handler or the response of a request, and send the response."""
        id = call.request.id
        call.task = self._runner.task
        if call.cancelled:
            call.cancel()  # again: the earlier call of `cancel` had no task to cancel
        try:
            try:
                answer = await pending
                if not call.ended:
                    answer = resume(call, answer, None)
            except BaseException as error:
                if call.ended:
                    raise
                answer = resume(call, None, error)
            if type(answer) is CoroutineType:
                answer = await answer
            self._reply(id, answer)
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

    def _reply(self, id: types.RequestId, answer: Answer) -> None:
        data = self._peer.finish(id, answer)
        if type(data) is bytes:
            self._send(data)
        elif data is not None:
            self._sink.send_parts(*data)

    def _write(self, data: bytes | None) -> None:
        if data is not None:
            self._send(data)


class ServerForSender:
    """A server of this process as a target that takes connections on behalf of a verified client.

    Example:
        endpoint = endpoint_of(ServerForSender(server, call.sender), options)
    """

    def __init__(self, server: Server, sender: Sender) -> None:
        self._server = server
        self._sender = sender
        self.serving = server.serving
        self.handle_json = server.handle_json

    def connect(self, send: Callable[[bytes], None] | Sink) -> DuplexConnection:
        """Return the server's side of a connection whose requests have the identity of the client."""
        self._server.check()
        return DuplexConnection(self._server, FunctionSink(send) if callable(send) else send, self._sender)


class _DuplexSession(Session, kw_only=True):
    """The session of a connection; `begin` also sets the version of the connection's `Peer`."""

    peer: Peer
    values: SessionValues | None = None

    def kept_values(self, server: Server, account: str) -> SessionValues:  # noqa: ARG002
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
