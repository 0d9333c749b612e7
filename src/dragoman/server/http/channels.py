"""The channels of requests and notifications over HTTP: how the server sends messages to the client.

`ResponseChannel` is the channel of a request without a session. Its messages are written to the response of the POST,
which becomes an event stream. Messages that come quickly one after another are written together, because most of what a
message costs is the write: the first is written at once, the others at the end of the turn or with the response.
`SubscribedClient` carries a subscription on such a response. `ResumableChannel` is the channel of a request in a
session. Its messages go to an event stream of the session, which outlives the connection. The stream is opened only if
the request sends a message before its response. `NotificationChannel` is the channel of a notification in a session.
`CallsInFlight` are the calls that have such channels.

A `ResumableChannel` has three states:

    unopened   no stream: the exchange of the POST waits for the response
    opened     the request has a stream, and messages go to this stream
    over       `answer` or `close` was called: a notification of the session goes to the standalone stream; a response
               that must be an event still opens the stream

The alternative is a stream for each request. It would cost memory, and most requests send only a response.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Raw

from dragoman import types
from dragoman.errors import DragomanError, InternalError, RpcError
from dragoman.protocol import jsonrpc, sse, statuses
from dragoman.protocol.states import Transitions
from dragoman.protocol.subscriptions import MAX_WAITING, RESOURCE_UPDATED, Subscription
from dragoman.runtime.tasks import call_in_loop, is_running_here
from dragoman.server.dispatch import runner
from dragoman.server.http.streams import ResumableStream
from dragoman.server.request.call import Call, ConnectedClient, NoChannel
from dragoman.transports.http.exchange import JSON_HEADERS, Exchange

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher
    from dragoman.server.http.session import LiveSession

T = TypeVar("T")
ChannelLife = Literal["unopened", "opened", "over"]
CHANNEL_LIFE: Transitions[ChannelLife, Literal["open", "end"]] = Transitions(
    {
        "unopened": {"open": "opened", "end": "over"},
        "opened": {"end": "over"},
        "over": {"open": "over", "end": "over"},
    }
)
TOGETHER_SECONDS = 0.001
"""A notification that is queued within this time after another one is sent waits for the end of the turn."""
MAX_TOGETHER = 64
STOP_SECONDS = 1.0
STOPPED = InternalError("The server was stopped before the request was done; it may have run in part")


class ResponseChannel(NoChannel):
    """The channel of a request without a session: the event stream in the response of its POST."""

    _waiting: deque[bytes] | None = None
    _flushing: asyncio.Task[None] | None = None
    _is_flush_due = False
    """Whether the end of this turn of the loop sends what waits."""
    _sent_at = -inf
    _subscription: SubscribedClient | None = None

    def __init__(self, server: Dispatcher, subscriptions: set[SubscribedClient], exchange: Exchange) -> None:
        self._server = server
        self._subscriptions = subscriptions
        self._exchange = exchange
        self.was_used = False
        """Whether a notification was queued on the channel, or a subscription began."""

    def notify(self, method: str, params: Any) -> None:
        """Queue a notification, from any thread; `wait_for_room`, the end of the turn or the response sends it.

        A client that does not accept a stream receives none. If the queue is full, the oldest notification is dropped.
        """
        if not self._exchange.may_stream:
            return
        if self._waiting is None:
            self._waiting = deque(maxlen=MAX_WAITING)
            self.was_used = True
        self._waiting.append(sse.encode(jsonrpc.encode_notification(method, params)))
        if not self._is_flush_due:
            self._is_flush_due = True
            loop = self._exchange.loop
            (loop.call_soon if is_running_here(loop) else loop.call_soon_threadsafe)(self._flush_soon)

    def notify_session(self, method: str, params: Any) -> bool:
        """Send a notification before the response, from any thread; after the response, nothing is sent."""
        may_send = self._exchange.may_stream and not self._exchange.ended
        if may_send:
            self.notify(method, params)
        return may_send

    def _flush_soon(self) -> None:
        # This must come first: a notification that is queued after this line is sent below or requests another flush.
        self._is_flush_due = False
        is_flushing = self._flushing is not None and not self._flushing.done()
        if self._waiting and not is_flushing and not self._exchange.ended:
            self._flushing = self._exchange.loop.create_task(self._flush())

    async def wait_for_room(self) -> None:
        """Wait until the client has read enough; what was queued just after another event may be sent later."""
        waiting = self._waiting
        if waiting and (len(waiting) >= MAX_TOGETHER or monotonic() - self._sent_at >= TOGETHER_SECONDS):
            await self._flush()

    async def _flush(self) -> None:
        while waiting := self.take():
            await self._exchange.stream(waiting)
            self._sent_at = monotonic()

    def take(self) -> bytes:
        """Return the queued notifications, encoded; they wait no longer."""
        waiting = self._waiting
        return b"".join(waiting.popleft() for _ in range(len(waiting))) if waiting else b""

    @property
    def end_error(self) -> RpcError | None:  # type: ignore[override]
        """The error to send if other code cancels the task of the request, because the HTTP server shuts down."""
        return STOPPED if self._exchange.is_ending else None

    async def stop(self, data: bytes) -> None:
        """Send a response while the handler still runs, because the server ends."""
        await self._exchange.answer(statuses.OK, data, json=True)

    async def close(self) -> None:
        """Stop sending notifications and changes."""
        if self._subscription is not None:
            self._subscriptions.discard(self._subscription)
            self._server.notifier.discard(self._subscription)
        if self._flushing is not None and not self._flushing.done():
            self._flushing.cancel()
            await asyncio.wait([self._flushing])

    async def request(self, method: str, params: Any, timeout: float) -> Raw:  # noqa: ARG002
        """Raise DragomanError: without a session the client cannot answer."""
        raise DragomanError(f"The client cannot be asked ({method}), because its request came without a session")

    def listen(self, subscription: Subscription) -> Coroutine[Any, Any, None]:
        """Serve a subscription until the application ends; `close` ends it too."""
        self._subscription = stream = SubscribedClient(subscription, self._exchange)
        self.was_used = True
        self._subscriptions.add(stream)
        self._server.notifier.add(stream)
        self._exchange.on_ending = stream.end
        return stream.run()

    def notify_updated(self, uri: str) -> bool:
        """Notify all subscribers of a resource, because the stream of this request carries no changes."""
        return self._server.notifier.notify_resource_updated(uri)


class SubscribedClient:
    """A subscription (`subscriptions/listen`) and the event stream that carries its notifications."""

    __slots__ = ("__weakref__", "_ended", "_exchange", "_subscription", "_woken")

    def __init__(self, subscription: Subscription, exchange: Exchange) -> None:
        self._subscription = subscription
        self._exchange = exchange
        self._woken: asyncio.Future[None] | None = None
        self._ended = False

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Send the notification of a change, from any thread, if the client subscribed to it."""
        call_in_loop(self._exchange.loop, self._queue, method, subject, params)
        return self._subscription.wants(method, subject)

    def _queue(self, method: str, subject: str | None, params: types.Json | None) -> None:
        if self._subscription.enqueue(method, subject, params):
            self._wake()

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None and not woken.done():
            woken.set_result(None)

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> bool:  # noqa: ARG002
        """Send nothing: a subscription carries no log messages."""
        return False

    def complete_elicitation(self, id: str) -> bool:  # noqa: ARG002
        """Send nothing: the stateless era has no notification for a complete url elicitation."""
        return False

    def end(self) -> None:
        """End the subscription; `run` returns, and the server sends the result of the request."""
        self._ended = True
        self._wake()

    async def run(self) -> None:
        """Send the acknowledgement, and then changes; return when `end` was called and no change waits."""
        await self._exchange.stream(sse.encode(self._subscription.acknowledgement()))
        while (changes := self._subscription.drain()) or not self._ended:
            if changes:
                await self._exchange.stream(b"".join(map(sse.encode, changes)))
            else:
                # An asyncio.Event takes five times the memory of a future, and a server may have many streams.
                self._woken = self._exchange.loop.create_future()
                await self._woken


class NotificationChannel(NoChannel):
    """The channel of a notification in a session: the standalone stream."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session

    @property
    def standalone(self) -> ConnectedClient:  # type: ignore[override]
        """The session, which outlives its requests."""
        return self._session

    def notify(self, method: str, params: Any) -> None:
        """Send a notification on the standalone stream, from any thread."""
        self._session.notify(method, params)

    def notify_session(self, method: str, params: Any) -> bool:
        """Send a notification on the standalone stream, from any thread."""
        return self._session.notify(method, params)

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on the standalone stream, and return its result."""
        return await self._session.request(method, params, timeout)

    def notify_updated(self, uri: str) -> bool:
        """Notify this client, from any thread, that a resource was updated."""
        return self._session.notify(RESOURCE_UPDATED, types.ResourceUpdatedNotificationParams(uri))


class ResumableChannel(NotificationChannel):
    """The channel of a request in a session: the stream of the request, which opens on first use."""

    opened: ResumableStream | None = None
    """The stream; None if it is not open yet."""
    _state: ChannelLife = "unopened"

    def __init__(
        self, session: LiveSession, exchange: Exchange, request_id: types.RequestId, *, can_stream: bool
    ) -> None:
        self._session = session
        self._request_id = request_id
        self._exchange: Exchange | None = exchange
        self._can_stream = can_stream
        if session.peer.version.primes_streams:
            exchange.opening = lambda: self.stream.priming_event()

    @property
    def stream(self) -> ResumableStream:
        """The stream of the request; the first access opens it."""
        return self.open() if self.opened is None else self.opened

    def open(self) -> ResumableStream:
        """Open the stream."""
        self._state = CHANNEL_LIFE[self._state, "open"]
        stream = self.opened = self._session.new_stream(self._request_id)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            stream.attach(exchange)
        return stream

    @property
    def reader(self) -> Exchange | None:
        """The exchange that waits for the response."""
        if self.opened is None:
            return self._exchange
        return None if self.opened.reader is None else self.opened.reader.exchange

    @property
    def was_used(self) -> bool:
        """Whether the request has a stream."""
        return self.opened is not None

    def answer(self, status: int, data: bytes, *, json: bool) -> Coroutine[Any, Any, None]:
        """Send the response; empty `data` means that there is none.

        The response is one JSON body if `json` is true and no event was sent. Otherwise it is the last event.
        """
        self._state = CHANNEL_LIFE[self._state, "end"]
        stream = self.opened
        reader = None if stream is not None and stream.sequence else self.reader
        if reader is not None and not reader.streaming and (json or not data):
            return reader.reply(status, data, JSON_HEADERS) if data else reader.reply(statuses.ACCEPTED)
        return self._finish(data)

    async def _finish(self, data: bytes) -> None:
        stream = self.stream
        await stream.flush()
        reader = stream.reader
        if data and (reader is not None or stream.assigned_name):
            stream.add(data, last=True)
            await stream.flush()
        else:  # the request was cancelled, or no client can resume the stream
            stream.streams.forget(stream)
            if reader is not None:
                await reader.end()

    async def stop(self, data: bytes) -> None:
        """Send a response while the handler still runs, because the server ends."""
        await self.answer(statuses.OK, data, json=True)
        self.close()

    def close(self) -> None:
        """Detach the exchange that waits for the response."""
        self._state = CHANNEL_LIFE[self._state, "end"]
        if self.opened is not None:
            self.opened.detach()
        elif self._exchange is not None:
            self._exchange.opening = None
            self._exchange = None

    def notify(self, method: str, params: Any) -> None:
        """Send a notification on the stream of the request, from any thread."""
        if self._can_stream:
            call_in_loop(self._session.loop, self._add, jsonrpc.encode_notification(method, params))

    def notify_session(self, method: str, params: Any) -> bool:
        """Send a notification, from any thread: before the response on its stream, afterwards on the standalone one."""
        if self._can_stream and self._is_open():
            self.notify(method, params)
            return True
        return super().notify_session(method, params)

    def _is_open(self) -> bool:
        """Tell whether the response was not sent yet."""
        if self._state == "over":
            return False
        if self.opened is not None:
            return not self.opened.is_finished
        return self._exchange is not None and not self._exchange.ended

    def _add(self, message: bytes) -> None:
        if self._is_open():
            self.stream.add(message)

    async def wait_for_room(self) -> None:
        """Wait until the messages on the stream of the request are written."""
        if self.opened is not None:
            await self.opened.flush()

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on the stream of this request, and return its result.

        Raises:
            DragomanError: the response of this request cannot be a stream.
        """
        if not self._can_stream:
            raise DragomanError(f"The client cannot be asked ({method}), because its response is not an event stream")
        return await self._session.ask(self.stream, method, params, timeout)

    async def listen(self, subscription: Subscription) -> None:  # noqa: ARG002
        """Raise RpcError: the handshake era has no `subscriptions/listen`."""
        raise RpcError(-32601, "subscriptions/listen is not part of this protocol version")

    async def close_stream(self) -> None:
        """Close the HTTP connection; the client resumes the stream for the response (2025-11-25)."""
        if self._can_stream:
            await self.stream.release_client()


class CallsInFlight(set[Call]):
    """The calls that the server is serving."""

    async def run(self, call: Call, work: Awaitable[T]) -> T:
        """Await the work of a call in this task, and count the call as in flight meanwhile."""
        call.task = asyncio.current_task()
        self.add(call)
        try:
            return await work
        finally:
            await self.end(call)

    async def end(self, call: Call) -> None:
        """Clean up after a call whose response was sent; the call is in flight until then."""
        try:
            await call.clean_up()
        finally:
            self.discard(call)

    async def finish(self, seconds: float) -> None:
        """Wait for the calls, at most this long; then cancel the rest and answer them with an error."""
        await self._wait(seconds)
        for call in self:
            call.stop(STOPPED)
        await self._wait(STOP_SECONDS)
        for call in list(self):  # the handlers of these calls ignore the cancellation
            if not call.ended and isinstance(call.channel, ResponseChannel | ResumableChannel):
                await call.channel.stop(runner.stopped(call, STOPPED))

    async def _wait(self, seconds: float) -> None:
        """Wait, at most this long, until no call is in flight; calls that begin meanwhile count too."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (left := deadline - loop.time()) > 0:
            tasks = {call.task for call in self if call.task is not None and not call.task.done()}
            tasks.discard(asyncio.current_task())
            if not tasks:
                return
            await asyncio.wait(tasks, timeout=left)
