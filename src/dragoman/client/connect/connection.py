"""One connection to a server: the requests in flight, and the messages that the server sends.

The `Peer` machine matches answers, progress and cancellations with requests. `ServerRequests` answers the requests of
the server. This module adds time-outs: each request has a clock, and fails when the clock expires. Progress restarts
the clock, and all clocks are paused while a handler of the client works on a request of the server. When its clock
expires or its caller is cancelled, a request is abandoned, and the client sends `notifications/cancelled` or, over HTTP
in the stateless era, closes the response. When the connection is lost, every pending request fails at once, except over
HTTP, where the response to its POST may still arrive. `close` fails every pending request.

States:

    alive --lose--> lost --close--> closed
    alive --close-> closed

A connection is `lost` when it ended by itself. `close` may be called more than once. A lost connection is not opened
again; `reconnect.py` makes a new one, so that ids and pending requests never move from one session to another.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from sys import modules
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.connect.clocks import Clock, Clocks
from dragoman.client.connect.link import DuplexLink, Link, Outgoing
from dragoman.client.connect.recording import record_session
from dragoman.client.connect.server_requests import AnswersServer, ServerRequests
from dragoman.client.options import OnProgress, RequestOptions
from dragoman.errors import ConnectError, InternalError, RpcError, SessionExpired, Timeout, TooLarge, TransportError
from dragoman.protocol import jsonrpc
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import CLIENT_LIMITS, Limits
from dragoman.protocol.methods import declares
from dragoman.protocol.peer import CANCELLED, Answered, Event, Peer, PeerReply, Progressed, RequestCancelled
from dragoman.protocol.states import Transitions
from dragoman.protocol.versions import Version
from dragoman.runtime.tasks import keep_until_done
from dragoman.telemetry import API, trace_context

CLOSE_SECONDS = 5.0
TIMED_OUT, ABANDONED = "Request timed out", "The client does not wait for it any more"
ConnectionLife = Literal["alive", "lost", "closed"]
CONNECTION_LIFE: Transitions[ConnectionLife, Literal["lose", "close"]] = Transitions(
    {"alive": {"lose": "lost", "close": "closed"}, "lost": {"close": "closed"}, "closed": {"close": "closed"}}
)
_ANSWER_BEGINS = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"')
_RESULT_BEGINS = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"')
_ANSWER_ENDS = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class ConnectionOwner(AnswersServer, Protocol):
    """The methods and data of a client that its connection uses."""

    info: types.Implementation
    table: ProtocolTable
    """The methods that the client knows."""

    def capabilities_for(self, version: Version) -> types.ClientCapabilities:
        """Return the capabilities that the client declares in a version."""

    def log_level_for(self, version: Version) -> types.LoggingLevel | None:
        """Return the log level that each request carries; None for no level."""

    def notification_received(self, notification: jsonrpc.Notification) -> asyncio.Future[None] | None:
        """Handle a notification of the server; no further message is read until a returned future is done."""

    def progress_received(
        self, on_progress: OnProgress | None, params: types.ProgressNotificationParams
    ) -> asyncio.Future[None] | None:
        """Handle progress of a request; no further message is read until a returned future is done."""

    def connection_lost(self, connection: ServerConnection, error: Exception) -> None:
        """Handle the end of a connection that ended by itself."""

    def stream_reopened(self, connection: ServerConnection) -> None:
        """Renew what the server may have forgotten, because it may have been restarted and kept only the session."""


class _Pending(Struct, eq=False):
    """A request that waits for its answer."""

    on_progress: OnProgress | None
    outcome: Raw | Exception | None = None
    clock: Clock | None = None
    waiter: asyncio.Future[None] | None = None

    def is_answered(self) -> bool:
        return self.outcome is not None

    def settle(self, outcome: Raw | Exception) -> None:
        """Set the outcome, unless there is one."""
        if self.outcome is None:
            self.outcome = outcome
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

    def result(self) -> Raw:
        """Return or raise the outcome, once."""
        outcome, self.outcome = self.outcome, None
        try:
            if type(outcome) is Raw:
                return outcome
            assert isinstance(outcome, Exception)
            raise outcome
        finally:
            del outcome  # the exception refers to this frame, and the frame must not refer to the exception


class ServerConnection:
    """One connection, from its opening to its end."""

    def __init__(self, link: Link, owner: ConnectionOwner, limits: Limits = CLIENT_LIMITS) -> None:
        self.link = link
        self.capabilities = types.ServerCapabilities()
        self.server_info: types.Implementation | None = None
        self.instructions: str | None = None
        self.initialized: Raw | None = None
        """The server's answer to `initialize`, as received."""
        self.declared = types.ClientCapabilities()
        """The capabilities that the client declared in a handshake."""
        self.knows_capabilities = False
        """Whether the server declared its capabilities."""
        self.state: ConnectionLife = "alive"
        self.error: Exception | None = None
        """Why the connection was lost; None if it was not."""
        self.child: DuplexLink | None = None
        """The process of a server over HTTP, if this client started it; it ends with the connection."""
        self.on_clocks_paused: Callable[[bool], None] | None = None
        """Called with True when the clocks are paused, and with False when they count again."""
        self._owner = owner
        self._limits = limits
        self._peer = Peer(limits)
        self._table = owner.table
        self._envelope: dict[str, Raw] = {}
        self._pauses = 0
        """The number of handlers and logins that pause the clocks now."""
        self._is_flooded = False
        self._background: set[asyncio.Task[Any]] = set()
        self._cancellations: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._began_at = self._loop.time()
        self._clocks = Clocks(self._loop)
        self.server_requests = ServerRequests(owner, self._peer, link, self._start, self.paused_clocks)

    @property
    def is_alive(self) -> bool:
        """Whether requests may be sent."""
        return self.state == "alive"

    @property
    def version(self) -> Version:
        """The protocol version in use."""
        return self._peer.version

    async def open(self) -> None:
        """Open the link."""
        self.link.on_reopened = self._stream_reopened
        await self.link.open(self.receive, self.lost)

    def use_version(self, version: Version) -> None:
        """Use a protocol version from now on, and declare the present capabilities of the client in it."""
        self.link.version = version
        self._peer.version = version
        self._envelope = self._stateless_envelope(version) if version.stateless else {}

    def set_server(
        self, info: types.Implementation | None, capabilities: types.ServerCapabilities, instructions: str | None
    ) -> None:
        """Set what the server declared in its answer to `initialize` or `server/discover`."""
        self.server_info, self.capabilities, self.instructions = info, capabilities, instructions
        self.knows_capabilities = True

    def offers(self, *path: str) -> bool:
        """Tell whether the server declared a capability; True if its capabilities are not known."""
        return not self.knows_capabilities or declares(self.capabilities, path)

    def discover_result(self) -> types.DiscoverResult:
        """Return the server's answer to `initialize` as a result of `server/discover`."""
        info = None if self.server_info is None else {types.SERVER_INFO: msgspec.to_builtins(self.server_info)}
        return types.DiscoverResult([self.version.name], self.capabilities, instructions=self.instructions, meta=info)

    def _stateless_envelope(self, version: Version) -> dict[str, Raw]:
        fields = {
            types.PROTOCOL_VERSION: version.name,
            types.CLIENT_CAPABILITIES: trim(self._owner.capabilities_for(version), version),
            types.CLIENT_INFO: self._owner.info,
            types.LOG_LEVEL: self._owner.log_level_for(version),
        }
        return {key: Raw(jsonrpc.encode(value)) for key, value in fields.items() if value is not None}

    async def request(
        self, method: str, params: dict[str, Any], options: RequestOptions, *, may_cancel: bool = True
    ) -> Raw:
        """Send a request and return its undecoded result.

        Raises:
            RpcError: the server answered with an error.
            Timeout: neither an answer nor progress arrived within the time-out.
            TransportError: the connection ended.
        """
        message, pending = self._begin(method, params, options)
        task = asyncio.current_task(self._loop)
        assert task is not None
        cancelling = task.cancelling()
        try:
            try:
                await self._send_and_wait(pending, message, Clock(options.timeout, task, cancelling))
            except TransportError:
                # A failure after the answer was received does not matter.
                if pending.outcome is None:
                    raise
        except BaseException as error:
            # A function that returns headers may raise any other exception; then nothing was sent.
            is_sent = not isinstance(error, Exception) or isinstance(error, TransportError | TimeoutError)
            self._abandon(message, error, may_cancel=may_cancel and is_sent)
            if isinstance(error, TimeoutError) and not isinstance(error, TransportError):
                raise TransportError(f"{method} could not be sent: {str(error) or 'it took too long'}") from error
            raise
        finally:
            if options.progress_token is not None:
                self._peer.tokens.pop(options.progress_token, None)
        return pending.result()

    async def _send_and_wait(self, pending: _Pending, message: Outgoing, clock: Clock) -> None:
        """Send a request, and wait for its answer."""
        pending.clock = clock
        try:
            self._clocks.start(clock)
            await self.link.send(message)
            if pending.outcome is None:
                pending.waiter = self._loop.create_future()
                await pending.waiter
        except asyncio.CancelledError:
            if not clock.caused_cancellation():
                raise
            if pending.outcome is None:
                late = f"{message.method} timed out: the server was silent for {clock.seconds:g} seconds."
                raise Timeout(late, message.id, "timeout") from None
        except Exception:
            if clock.has_expired:
                await clock.absorb_cancellation()
            raise
        else:
            if clock.has_expired:
                await clock.absorb_cancellation()
        finally:
            self._clocks.end(clock)

    def _begin(self, method: str, params: dict[str, Any], options: RequestOptions) -> tuple[Outgoing, _Pending]:
        """Register a request with the peer, and return its message and its pending outcome."""
        if self.state != "alive":
            raise ConnectError(f"The connection to the server has ended: {self.error or 'it was closed'}")
        peer, tokens, token = self._peer, self._peer.tokens, options.progress_token
        id = peer.next_id()
        if token is not None and (token in tokens or token in peer.waiting):
            raise ValueError(f"The progress token {token!r} is in use by a request that waits for its answer")
        meta, headers = self._meta(method, id, options), options.headers
        if self.link.is_http and options.mirrored is not None and self._peer.version.mirrors_headers:
            headers = {**options.mirrored.build(params["arguments"]), **(headers or {})}
        pending = _Pending(options.on_progress)
        data = peer.send_request(id, method, {**params, "_meta": meta} if meta else params, pending)
        if token is not None:
            tokens[token] = pending
        if options.on_id is not None:
            options.on_id(id)
        named_by = self._table.named_by.get(method)
        return Outgoing(data, method, id, params, headers, pending.is_answered, self.paused_clocks, named_by), pending

    def _meta(self, method: str, id: types.RequestId, options: RequestOptions) -> dict[str, Any]:
        given = options.meta or {}
        if options.is_whole_meta:
            return {**given} if options.on_progress is None else {**given, "progressToken": id}
        if API in modules:
            given = {**trace_context(), **given}
        if method not in self._table.progressing:
            return {**given, **self._envelope}
        token = id if options.progress_token is None else options.progress_token
        return {**given, **self._envelope, "progressToken": token}

    def _abandon(self, message: Outgoing, error: BaseException, *, may_cancel: bool) -> None:
        """Wait no more for an answer, and cancel the request at the server."""
        assert message.id is not None
        notification = self._peer.cancel(message.id, _cancellation_reason(error))
        is_closed = self.link.is_http and self._peer.version.cancels_by_closing
        if notification is not None and may_cancel and self.is_alive and not is_closed:
            keep_until_done(self._start(self._send_quietly(Outgoing(notification, CANCELLED))), self._cancellations)

    async def _send_quietly(self, message: Outgoing) -> None:
        with suppress(TransportError, RpcError):
            await self.link.send(message)

    async def cancellations_sent(self) -> None:
        """Wait until the server was sent the cancellation of every abandoned request."""
        if self._cancellations:
            await asyncio.wait(list(self._cancellations), timeout=CLOSE_SECONDS)

    @contextmanager
    def receiving_progress(self, options: RequestOptions) -> Iterator[None]:
        """Receive progress of a request that is answered already, while an extension finishes its result."""
        token = options.progress_token
        if token is not None:
            self._peer.tokens[token] = _Pending(options.on_progress)
        try:
            yield
        finally:
            if token is not None:
                self._peer.tokens.pop(token, None)

    async def notify(self, method: str, params: Any = jsonrpc.NO_PARAMS) -> None:
        """Send a notification.

        Raises:
            TransportError: the notification could not be sent.
        """
        await self.link.send(Outgoing(jsonrpc.encode_notification(method, params), method))

    def with_envelope(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with the trace context, and with the `_meta` that every stateless message carries."""
        added = {**trace_context(), **params.get("_meta", {}), **self._envelope}
        return {**params, "_meta": added} if added else dict(params)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return keep_until_done(self._loop.create_task(work), self._background)

    def receive(self, data: bytes) -> asyncio.Future[None] | None:
        """Handle a message of the server; the transport waits for a returned future before the next message."""
        message = jsonrpc.decode(data, self._limits)
        if type(message) is not jsonrpc.Invalid:
            event = self._peer.accept(message)
            return None if event is None else self._receive_event(event)
        room = None
        for event in self._peer.accept_invalid(message, data):
            room = self._receive_event(event) or room
            if type(event) is PeerReply:
                self._fail_unreadable(data, message)
                room = self.server_requests.room
        return room

    def _receive_event(self, event: Event) -> asyncio.Future[None] | None:
        if type(event) is Answered:
            event.waiter.settle(event.outcome)
            return None
        return self._handle(event) or self.server_requests.room

    def _fail_unreadable(self, data: bytes, unreadable: jsonrpc.Invalid) -> None:
        """Fail the request whose answer cannot be decoded, if its id can be read."""
        found = _ANSWER_BEGINS.match(data) or (_RESULT_BEGINS.match(data) and _ANSWER_ENDS.search(data[-100:]))
        if not found:
            return
        error: Exception
        if len(data) > self._limits.message_bytes:
            limit = self._limits.message_bytes
            error = TooLarge(
                f"The answer has {len(data)} bytes, and at most {limit} are accepted; raise max_message_bytes"
            )
        else:
            error = InternalError(f"The answer is malformed: {unreadable.error}")
        event = self._peer.fail(int(found[1]), error)
        if event is not None:
            self._receive_event(event)

    def _handle(self, event: Event) -> asyncio.Future[None] | None:
        match event:
            case Progressed(waiter, params):
                if waiter.clock is not None:
                    self._clocks.restart(waiter.clock)
                return self._owner.progress_received(waiter.on_progress, params)
            case jsonrpc.Notification():
                return self._owner.notification_received(event)
            case jsonrpc.Request(method=("initialize" | "server/discover")):
                self._end_echo()
            case jsonrpc.Request():
                if not self.server_requests.receive(event) and self._pauses and not self._is_flooded:
                    # The server sends more requests than the client accepts. The clocks count on although handlers
                    # work; paused clocks would let such a server delay its answers for ever.
                    self._is_flooded = True
                    self._clocks.resume_all()
            case RequestCancelled(id):
                self.server_requests.cancel(id)
            case PeerReply(data):
                self.server_requests.send(data)
        return None

    @contextmanager
    def paused_clocks(self) -> Iterator[None]:
        """Pause every clock until the last block that paused them ends."""
        self._pauses += 1
        if not self._is_flooded:
            self._clocks.pause_all()
        if self._pauses == 1 and self.on_clocks_paused is not None:
            self.on_clocks_paused(True)  # noqa: FBT003
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                if self.on_clocks_paused is not None:
                    self.on_clocks_paused(False)  # noqa: FBT003
                if not self._is_flooded:
                    self._clocks.resume_all()
                self._is_flooded = False

    def _stream_reopened(self) -> None:
        if self.state == "alive":
            self._owner.stream_reopened(self)

    def lost(self, error: Exception | None) -> None:
        """Note that the link has ended by itself, or the process of the server."""
        if self.state != "alive":
            return
        self.state = CONNECTION_LIFE[self.state, "lose"]
        self.error = error or TransportError("The server closed the connection")
        record_session(self.link, self.version, self._loop.time() - self._began_at, self.error)
        if not self.link.is_http:
            self._fail_pending(self.error)
        self._owner.connection_lost(self, self.error)

    def _end_echo(self) -> None:
        """End a connection on which a request came back that only clients send."""
        error = ConnectError(
            "The server sends the client's own messages back, so it does not speak MCP; is it the right one?"
        )
        self.lost(error)
        self._fail_pending(error)

    def _fail_pending(self, error: Exception) -> None:
        for pending in self._peer.close():
            pending.settle(connection_error(error))

    async def drained(self) -> None:
        """Wait until no request is pending."""
        await self._clocks.ended()

    async def close(self) -> None:
        """End the connection; pending requests fail."""
        current = asyncio.current_task()
        was, self.state = self.state, CONNECTION_LIFE[self.state, "close"]
        if was == "alive":
            record_session(self.link, self.version, self._loop.time() - self._began_at, None)
        if was != "closed":
            self.server_requests.close()
            closed = TransportError("The client was closed while a request waited for its answer")
            self._fail_pending(self.error or closed)
            for task in self._background - {current}:
                task.cancel()
        try:
            await self.link.close()
            if self.child is not None:
                await self.child.close()
        finally:
            self._clocks.close()
        # The current task may be a background task: a handler that closes the connection.
        others = self._background - {current}
        if others:
            await asyncio.wait(others, timeout=CLOSE_SECONDS)


def _cancellation_reason(error: BaseException) -> str:
    """Return why a request was abandoned: the text that its task was cancelled with, if there is one."""
    if isinstance(error, asyncio.CancelledError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return TIMED_OUT if isinstance(error, Timeout) else ABANDONED


def connection_error(error: Exception) -> TransportError:
    """Return a new error for one pending request, made from the error that ended the connection."""
    if not isinstance(error, TransportError):
        fresh = TransportError(f"The connection to the server broke: {str(error) or type(error).__name__}")
    elif isinstance(error, ConnectError | SessionExpired):
        # These types mean that the request was not served.
        fresh = TransportError(*error.args)
    else:
        fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__ if isinstance(error, TransportError) else error
    return fresh
