"""One duplex connection: stdio, or a test's wire.

The peer machine turns bytes into events. A request whose outcome is known at once is answered in place; any other is
answered by a task, which is its own as soon as it waits for something. Cancelling a request cancels its task, and the
peer sees to it that nothing is answered then. Requests to the client wait for their answers here; changes are told to
the session if it shook hands, and to the subscriptions of stateless clients. A long list, which is encoded already, is
sent in parts where the way out takes them, so that it is not copied. What no request asked for waits while the
client does not read: equal changes are one then, and the oldest message gives way when too many wait.

Its states: `open`; `ending` once the input has ended, when the client is asked nothing more and what is in flight goes
on; `closed`, when nothing is sent any more. Its carrier may say twice that the input has ended, or that it is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw

from dragoman import types
from dragoman.errors import TransportError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.peer import Answered, Event, Peer, PeerReply
from dragoman.protocol.peer import RequestCancelled as GaveUp
from dragoman.protocol.states import Transitions
from dragoman.protocol.subscriptions import MAX_WAITING, RESOURCE_UPDATED, Subscription
from dragoman.runtime.eager import EagerRunner
from dragoman.runtime.tasks import is_running_here
from dragoman.server.audience import change_params, is_told, is_wanted, log_params
from dragoman.server.dispatch.runner import Answer, opened_notification, refusal, run, run_notification, run_refused
from dragoman.server.request.call import ELICITATION_COMPLETE, Call, Session
from dragoman.server.request.waiting import ask, settle
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
GONE = "The client is gone, and will not answer"


class DuplexConnection:
    """A server's end of one connection."""

    is_mute = False
    takes_parts = True

    def __init__(self, server: Server, sink: Sink) -> None:
        self._server = server
        self._sink = sink
        self._send = sink.send
        self._peer = Peer(server.limits)
        self._session = _DuplexSession(self._peer)
        self._running: dict[Any, Call] = {}
        self._subscriptions: dict[Subscription, asyncio.Future[None]] = {}
        self._waiting: dict[Any, bytes] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._state: Life = "open"
        self._loop = asyncio.get_running_loop()
        self._relay: EagerRunner[Event | None] = EagerRunner(self._loop, self._begin)
        server.audience.add(self)

    def receive(self, chunk: bytes) -> None:
        """Take in a chunk of the stream."""
        self._relay.run(self._peer.events(chunk))

    def receive_message(self, data: bytes) -> None:
        """Take in one whole message."""
        self._relay.run(self._peer.receive_message(data))

    def receive_end(self) -> None:
        """Take in the end of the stream; an unterminated last line is a line, and nobody will answer us any more."""
        self._relay.run(self._last_events())

    def _last_events(self) -> Iterator[Event | None]:
        yield from self._peer.receive_end()
        yield None

    def _end(self) -> None:
        """Wait for nothing that is still to come: all that came before was taken in."""
        self._state = LIFE[self._state, "end"]
        self._fail_waiting()
        for ended in self._subscriptions.values():
            settle(ended, None)

    async def drain(self) -> None:
        """Wait until nothing is in flight."""
        while self._running or self._relay.is_pending:
            tasks = [call.task for call in self._running.values() if call.task is not None]
            await (asyncio.wait(tasks) if tasks else asyncio.sleep(0))

    def close(self) -> None:
        """Cancel what is in flight; nothing is sent any more."""
        self._state = LIFE[self._state, "close"]
        self._relay.close()  # which leads back to us
        self._sink = FunctionSink(_discard)
        self._send = _discard
        self._server.audience.discard(self)
        self._fail_waiting()
        self._peer.close()
        if self._flushing is not None:
            self._flushing.cancel()
        for call in list(self._running.values()):
            call.give_up()

    def _fail_waiting(self) -> None:
        for waiter in self._peer.abandon():
            settle(waiter, TransportError(GONE))

    async def room(self) -> None:
        """Wait while the client does not take what it is sent."""
        await self._sink.room()

    # Encoded by whoever tells, so that what cannot be JSON fails there, and what changes later is told as it was.

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client, from any thread."""
        self._in_loop(self._write, jsonrpc.encode_notification(method, params))

    say = notify

    def complete_elicitation(self, id: str) -> None:
        """Tell the client, from any thread, that a visit came to its end, if its user was sent there."""
        params = self._session.completed(id)
        if params is not None:
            self.notify(ELICITATION_COMPLETE, params)

    def updated(self, uri: str) -> None:
        """Tell this client, from any thread, that a resource changed."""
        message = jsonrpc.encode_notification(RESOURCE_UPDATED, change_params(uri, None))
        self._in_loop(self._change, RESOURCE_UPDATED, uri, None, message)

    async def close_stream(self) -> None:
        """Keep the connection: there is no other to come back by."""

    def tell(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Tell the client of a change, from any thread, if it wants to know."""
        message = jsonrpc.encode_notification(method, change_params(subject, params))
        is_announced = is_told(self._server, self._session, method, subject)
        self._in_loop(self._change, method, subject, params, message if is_announced else None)

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread, if this client set a level that wants it."""
        if self._session.caller is not None and is_wanted(self._server, level, self._session.log_level):
            message = jsonrpc.encode_notification("notifications/message", log_params(level, data, logger))
            self._in_loop(self._log, message)

    def _change(self, method: str, subject: str | None, params: types.Json | None, message: bytes | None) -> None:
        for subscription in self._subscriptions:
            subscription.enqueue(method, subject, params)
        if message is not None and self._session.caller is not None:
            self._let_wait((method, subject), message)
        self._flush()

    def _log(self, message: bytes) -> None:
        self._let_wait(object(), message)
        self._flush()

    def _let_wait(self, key: Any, message: bytes) -> None:
        self._waiting[key] = message
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def _flush(self) -> None:
        if self._flushing is not None:
            return
        if self._sink.has_room:
            self._send_waiting()
        else:
            self._flushing = self._loop.create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await self.room()
        self._flushing = None
        self._send_waiting()

    def _send_waiting(self) -> None:
        messages, self._waiting = self._waiting, {}
        for message in messages.values():
            self._send(message)
        for subscription in list(self._subscriptions):
            self._send_changes(subscription)

    def _send_changes(self, subscription: Subscription) -> None:
        for message in subscription.drain():
            self._send(message)

    def _in_loop(self, function: Callable[..., None], *args: Any) -> None:
        if is_running_here(self._loop):
            function(*args)
        else:
            with suppress(RuntimeError):  # the loop is closed, and so is the connection
                self._loop.call_soon_threadsafe(function, *args)

    async def listen(self, subscription: Subscription) -> None:
        """Serve a subscription until the connection ends in good order."""
        ended: asyncio.Future[None] = self._loop.create_future()
        # MUST NOT send messages for a cancelled request; this one may have been, before its task began.
        if not self._running[subscription.id].cancelled:
            self._subscriptions[subscription] = ended
            self._send(subscription.acknowledgement())
        if self._state != "open":
            settle(ended, None)
        try:
            await ended
            self._send_changes(subscription)
        finally:
            self._subscriptions.pop(subscription, None)

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask the client and return what it answers.

        Raises:
            RpcError: the client refused.
            Timeout: it did not answer in time.
            TransportError: it is gone.
        """
        if self._state != "open":
            raise TransportError(GONE)
        return await ask(self._peer, self._write, method, params, timeout)

    def _begin(self, event: Event | None) -> Coroutine[Any, Any, None] | None:
        """Take in an event, or the end of the stream, and return what is to be run for it."""
        if type(event) is not jsonrpc.Request:
            if type(event) is jsonrpc.Notification:
                return self._notice(event)
            self._take(event)
            return None
        server, session = self._server, self._session
        try:
            request = eras.open(event, server.offer, session.caller)
        except BaseException as error:
            return self._refuse(event, error)
        call = Call(request, session, self, server, server.server_context, self._loop)
        answer: Any = run(call)
        if type(answer) is CoroutineType:
            self._running[event.id] = call
            return self._finish(call, answer)
        self._reply(event.id, answer)
        return None

    def _take(self, event: Event | None) -> None:
        match event:
            case PeerReply(data):
                self._send(data)
            case GaveUp(id, reason):
                self._cancel(id, reason)
            case Answered(waiter, outcome):
                settle(waiter, outcome)
            case None:
                self._end()
            case _:  # progress on requests of ours, and answers that nobody waits for
                pass

    def _notice(self, message: jsonrpc.Notification) -> Coroutine[Any, Any, None] | None:
        """Take in a notification, and return what is to be run for it."""
        server = self._server
        server.notified(message.method)
        request = opened_notification(server, message, self._session.caller)
        if request is None:
            return None
        call = Call(request, self._session, self, server, server.server_context, self._loop)
        self._running[call] = call
        return self._serve_notice(call)

    async def _serve_notice(self, call: Call) -> None:
        call.task = self._relay.task
        try:
            await run_notification(call)
        finally:
            self._running.pop(call, None)

    def _cancel(self, id: Any, reason: str | None) -> None:
        for subscription in [one for one in self._subscriptions if one.id == id]:
            del self._subscriptions[subscription]
        if id in self._running:
            self._running[id].give_up(reason)

    async def _finish(self, call: Call, answer: Coroutine[Any, Any, Answer]) -> None:
        """Wait for the answer to a request, and send it."""
        id = call.request.id
        call.task = self._relay.task
        if call.cancelled:
            call.give_up()  # once more, now that there is a task to cancel
        try:
            self._reply(id, await answer)
        except (asyncio.CancelledError, GeneratorExit):  # whoever runs the task ends it, and nobody is answered
            self._reply(id, b"")
        finally:
            self._running.pop(id, None)

    def _refuse(self, message: jsonrpc.Request, error: BaseException) -> Coroutine[Any, Any, None] | None:
        """Refuse a request that cannot be opened, after middleware knows of it if there is any."""
        server, session = self._server, self._session
        if server.around is None:
            self._reply(message.id, refusal(server, error, message.id))
            return None
        request = eras.refused_request(message, server.offer, session.caller)
        call = Call(request, session, self, server, server.server_context, self._loop)
        self._running[message.id] = call
        return self._finish(call, run_refused(call, error))

    def _reply(self, id: types.RequestId, answer: Answer) -> None:
        data = self._peer.finish(id, answer)
        if type(data) is bytes:
            self._send(data)
        elif data is not None:
            self._sink.send_parts(*data)

    def _write(self, data: bytes | None) -> None:
        if data is not None:
            self._send(data)


class _DuplexSession(Session):
    """What a connection remembers of its client; the peer speaks the version that the handshake agrees on."""

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._peer = peer

    def begin(self, caller: eras.Caller) -> None:
        super().begin(caller)
        self._peer.version = caller.version


def _discard(_: bytes) -> None:
    """Send nothing: the connection is closed."""
