"""One living connection to a server: requests in flight, and what the server says and asks meanwhile.

The peer machine matches answers, progress and cancellations; `ServerRequests` answers the server; this adds time. A
request has a clock that counts while nothing is heard of it: progress winds it up again, and it stands still while a
handler of ours works on a request of the server. A request whose clock runs out, or whose caller is cancelled, is given
up, and the server is told so. When the connection ends, every request that waits fails at once.

Its states: `alive`; `lost` when it has ended by itself; `closed` when it was closed, which it may be more than once.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.connect.clocks import Clock, Clocks
from dragoman.client.connect.link import Link, Outgoing
from dragoman.client.connect.server_requests import AnswersServer, ServerRequests
from dragoman.errors import (
    ConnectError,
    InternalError,
    RpcError,
    SessionExpired,
    Timeout,
    TransportError,
)
from dragoman.protocol import jsonrpc
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.fields import trim
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.peer import CANCELLED, Answered, Event, Peer, PeerReply, Progressed, RequestCancelled
from dragoman.protocol.states import Transitions
from dragoman.protocol.versions import Version
from dragoman.runtime.tasks import current_task

CLOSE_SECONDS = 5.0
LATE, UNWANTED = "Request timed out", "The client does not wait for it any more"
ConnectionLife = Literal["alive", "lost", "closed"]
CONNECTION_LIFE: Transitions[ConnectionLife, Literal["lose", "close"]] = Transitions(
    {"alive": {"lose": "lost", "close": "closed"}, "lost": {"close": "closed"}, "closed": {"close": "closed"}}
)
OnProgress = Callable[[float, float | None, str | None], object]
"""Gets progress, total and message."""
_ANSWER_BEGINS = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"')
_RESULT_BEGINS = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"')
_ANSWER_ENDS = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_SENT, _TAKEN = object(), object()
_logger = logging.getLogger("dragoman.client")


class Options(Struct):
    """How one request is sent, and how long it is waited for; None is as the client has it."""

    timeout: float | None = None
    """Seconds without any sign of it."""
    total_timeout: float | None = None
    """Seconds in all, with every round of input and every repetition; whoever makes them minds it."""
    on_progress: OnProgress | None = None
    progress_token: types.ProgressToken | None = None
    headers: Mapping[str, str] | None = None
    meta: Mapping[str, Any] | None = None
    mirrored: HeaderPlan | None = None
    """Which of the arguments are headers too, where there are headers."""
    is_safe: bool | None = None
    """Whether it may be made again when the connection broke; None where the method says so."""
    on_id: Callable[[types.RequestId], Any] | None = None
    """Told the id of each request before it is sent."""


class Host(AnswersServer, Protocol):
    """The client, as its connection sees it."""

    info: types.Implementation
    table: ProtocolTable
    """The methods that the client knows."""

    def capabilities_for(self, version: Version) -> types.ClientCapabilities:
        """Return what the client can do for a server of a version."""

    def log_level_for(self, version: Version) -> types.LoggingLevel | None:
        """Return from which level on log messages are wanted with each request."""

    def notified(self, notification: jsonrpc.Notification) -> None:
        """Take a notification of the server."""

    def progressed(self, on_progress: OnProgress | None, params: types.ProgressNotificationParams) -> None:
        """Take a sign of progress of a request."""

    def lost(self, connection: ServerConnection, error: Exception) -> None:
        """Take note that a connection has ended by itself."""


class _Pending(Struct, eq=False):
    """A request that waits for its answer."""

    on_progress: OnProgress | None
    outcome: Raw | Exception | None = None
    # There only if the answer was not there as soon as the request was sent: in memory it mostly is.
    clock: Clock | None = None
    waiter: asyncio.Future[None] | None = None

    def is_answered(self) -> bool:
        """Tell whether there is an outcome."""
        return self.outcome is not None

    def settle(self, outcome: Raw | Exception) -> None:
        """Have an outcome, if there was none."""
        if self.outcome is None:
            self.outcome = outcome
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

    def result(self) -> Raw:
        """Return the outcome, or raise it; ask for it once."""
        outcome, self.outcome = self.outcome, None
        try:
            if type(outcome) is Raw:
                return outcome
            assert isinstance(outcome, Exception)
            raise outcome
        finally:
            del outcome  # which would hold on to this frame, which would hold on to it


class _Begun(Generator[Any, None, None]):
    """A coroutine whose first step was taken: to be awaited, what that step waits for, and then the rest."""

    __slots__ = ("_awaited", "_rest")

    def __init__(self, rest: Generator[Any, None, None], awaited: Any) -> None:
        self._rest = rest
        self._awaited = awaited

    def __await__(self) -> Generator[Any, None, None]:
        return self

    def __next__(self) -> Any:
        awaited, self._awaited = self._awaited, _TAKEN
        return next(self._rest) if awaited is _TAKEN else awaited

    def send(self, _: None) -> Any:
        """Go on, as a task does."""
        return next(self)

    def throw(self, *error: Any) -> Any:
        """Go on with an error, as a task does that is cancelled."""
        try:
            return self._rest.throw(*error)
        finally:
            del error  # which would hold on to this frame, which would hold on to it


class ServerConnection:
    """A connection, from its opening to its end."""

    def __init__(self, link: Link, host: Host, limits: Limits = DEFAULT_LIMITS) -> None:
        self.link = link
        self.capabilities = types.ServerCapabilities()
        self.server_info: types.Implementation | None = None
        self.instructions: str | None = None
        self.declared = types.ClientCapabilities()
        """What the client said in a handshake that it can do."""
        self.has_introduced = False
        """Whether the server said what it can do."""
        self.state: ConnectionLife = "alive"
        self.error: Exception | None = None
        """Why it has ended by itself."""
        self.on_standstill: Callable[[bool], None] | None = None
        """Told when its clocks begin to stand still, and when they go on."""
        self._host = host
        self._limits = limits
        self._peer = Peer(limits)
        self._table = host.table
        self._envelope: dict[str, Raw] = {}
        self._meta_begins = b"{"
        self._answering = 0
        self._is_flooded = False
        self._background: set[asyncio.Task[Any]] = set()
        self._telling: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._clocks = Clocks(self._loop)
        self.serving = ServerRequests(host, self._peer, link, self._start, self._standstill)

    @property
    def is_alive(self) -> bool:
        """Whether requests may be sent."""
        return self.state == "alive"

    @property
    def version(self) -> Version:
        """The version that is spoken."""
        return self._peer.version

    async def open(self) -> None:
        """Open the link."""
        await self.link.open(self.receive, self._lost)

    def speak(self, version: Version) -> None:
        """Speak a version from now on."""
        self.link.version = version
        self._peer.version = version
        self._envelope = self._introduction(version) if version.stateless else {}
        self._meta_begins = jsonrpc.encode(self._envelope)[:-1] + b"," if self._envelope else b"{"

    def introduction(self) -> types.DiscoverResult:
        """Return what the server said of itself, as a stateless one says it."""
        info = None if self.server_info is None else {types.SERVER_INFO: msgspec.to_builtins(self.server_info)}
        return types.DiscoverResult([self.version.name], self.capabilities, instructions=self.instructions, meta=info)

    def _introduction(self, version: Version) -> dict[str, Raw]:
        said = {
            types.PROTOCOL_VERSION: version.name,
            types.CLIENT_CAPABILITIES: trim(self._host.capabilities_for(version), version),
            types.CLIENT_INFO: self._host.info,
            types.LOG_LEVEL: self._host.log_level_for(version),
        }
        return {key: Raw(jsonrpc.encode(value)) for key, value in said.items() if value is not None}

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        options: Options,
        *,
        may_cancel: bool = True,
    ) -> Raw:
        """Send a request and return its result as it came.

        Raises:
            RpcError: the server answered with an error.
            Timeout: nothing was heard of it in time.
            TransportError: the connection is gone.
        """
        message, pending = self._begin(method, params, options)
        task = current_task(self._loop)
        assert task is not None
        cancelling = task.cancelling()
        try:
            sending = self.link.send(message)
            begun: Awaitable[None] | None = sending
            try:
                if not self.link.is_http:
                    # In memory, most are answered before anybody has to wait.
                    steps = sending.__await__()
                    awaited = next(steps, _SENT)
                    begun = None if awaited is _SENT else _Begun(steps, awaited)
                if begun is not None or pending.outcome is None:
                    await self._wait(pending, message, Clock(options.timeout, task, cancelling), begun)
            except TransportError:
                # What breaks after the answer came breaks nothing.
                if pending.outcome is None:
                    raise
        except BaseException as error:
            self._abandon(message, error, may_cancel=may_cancel)
            if isinstance(error, TimeoutError) and not isinstance(error, TransportError):
                raise TransportError(f"{method} could not be sent: {str(error) or 'it took too long'}") from error
            raise
        finally:
            if options.progress_token is not None:
                self._peer.tokens.pop(options.progress_token, None)
        return pending.result()

    async def _wait(self, pending: _Pending, message: Outgoing, clock: Clock, sending: Awaitable[None] | None) -> None:
        """Wait until a request is sent and has its answer."""
        pending.clock = clock
        try:
            self._clocks.start(clock)
            if sending is not None:
                await sending
            if pending.outcome is None:
                pending.waiter = self._loop.create_future()
                await pending.waiter
        except asyncio.CancelledError:
            if not clock.is_to_blame():
                raise
            if pending.outcome is None:
                late = f"{message.method} timed out: nothing was heard of it for {clock.seconds:g} seconds"
                raise Timeout(late, message.id) from None
        except Exception:
            if clock.has_run_out:
                await clock.forgive()
            raise
        else:
            if clock.has_run_out:
                await clock.forgive()
        finally:
            self._clocks.end(clock)

    def _begin(self, method: str, params: dict[str, Any], options: Options) -> tuple[Outgoing, _Pending]:
        """Return a request that is to be sent, and what waits for its answer from now on."""
        if self.state != "alive":
            raise ConnectError(f"The connection to the server has ended: {self.error or 'it was closed'}")
        peer, tokens, token = self._peer, self._peer.tokens, options.progress_token
        id = peer.next_id()
        while id in tokens:  # an id is a progress token too
            id = peer.next_id()
        if token is not None and (token in tokens or token in peer.waiting):
            raise ValueError(f"The progress token {token!r} is in use by a request that waits for its answer")
        meta, headers = self._meta(method, id, options), options.headers
        if self.link.is_http and options.mirrored is not None and self._peer.version.stateless:
            headers = {**options.mirrored.build(params["arguments"]), **(headers or {})}
        pending = _Pending(options.on_progress)
        data = peer.send_request(id, method, {**params, "_meta": meta} if meta else params, pending)
        if token is not None:
            tokens[token] = pending
        if options.on_id is not None:
            options.on_id(id)
        named_by = self._table.named_by.get(method)
        return Outgoing(data, method, id, params, headers, pending.is_answered, self._standstill, named_by), pending

    def _meta(self, method: str, id: types.RequestId, options: Options) -> Raw | dict[str, Any]:
        if method not in self._table.progressing:
            return {**(options.meta or {}), **self._envelope}
        if options.meta or options.progress_token is not None or not isinstance(id, int):
            token = id if options.progress_token is None else options.progress_token
            return {**(options.meta or {}), **self._envelope, "progressToken": token}
        return Raw(b'%b"progressToken":%d}' % (self._meta_begins, id))

    def _abandon(self, message: Outgoing, error: BaseException, *, may_cancel: bool) -> None:
        assert message.id is not None
        notice = self._peer.cancel(message.id, _reason(error))
        closes = self.link.is_http and self._peer.version.stateless
        if notice is not None and may_cancel and self.is_alive and not closes:
            telling = self._start(self._tell(Outgoing(notice, CANCELLED)))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    @contextmanager
    def hearing_progress(self, options: Options) -> Iterator[None]:
        """Take progress of a request that has an answer, while an extension makes the result of that."""
        token = options.progress_token
        if token is not None:
            self._peer.tokens[token] = _Pending(options.on_progress)
        try:
            yield
        finally:
            if token is not None:
                self._peer.tokens.pop(token, None)

    async def told(self) -> None:
        """Wait until the server was told of every request that was given up."""
        if self._telling:
            await asyncio.wait(list(self._telling), timeout=CLOSE_SECONDS)

    async def notify(self, method: str, params: Any = jsonrpc.NO_PARAMS) -> None:
        """Send a notification.

        Raises:
            TransportError: it could not be sent.
        """
        await self.link.send(Outgoing(jsonrpc.encode_notification(method, params), method))

    def introduced(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with who sends them, where every message says so."""
        return {**params, "_meta": {**params.get("_meta", {}), **self._envelope}} if self._envelope else dict(params)

    async def _tell(self, message: Outgoing) -> None:
        with suppress(TransportError, RpcError):
            await self.link.send(message)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def receive(self, data: bytes) -> asyncio.Future[None] | None:
        """Take a message of the server; what is returned is done when the next one may follow, None is at once."""
        room = None
        for event in self._peer.receive_message(data):
            if type(event) is Answered:
                event.waiter.settle(event.outcome)
            else:
                self._take(event)
                if type(event) is PeerReply:
                    self._fail_unreadable(data)
                room = self.serving.room
        return room

    def _fail_unreadable(self, data: bytes) -> None:
        """Let nobody wait for an answer that cannot be read, where it plainly says whose it is."""
        found = _ANSWER_BEGINS.match(data) or (_RESULT_BEGINS.match(data) and _ANSWER_ENDS.search(data[-100:]))
        if found and int(found[1]) in self._peer.waiting:
            unreadable = jsonrpc.decode(data, self._limits)
            assert isinstance(unreadable, jsonrpc.Invalid)
            error = InternalError(f"The answer is malformed: {unreadable.error}")
            self.receive(jsonrpc.encode_error(int(found[1]), error))

    def _take(self, event: Event) -> None:
        match event:
            case Progressed(waiter, params):
                if waiter.clock is not None:
                    self._clocks.wind(waiter.clock)
                self._host.progressed(waiter.on_progress, params)
            case jsonrpc.Notification():
                self._host.notified(event)
            case jsonrpc.Request():
                if not self.serving.receive(event):
                    self._go_on_counting()
            case RequestCancelled(id):
                self.serving.cancel(id)
            case PeerReply(data):
                self.serving.send(data)

    @contextmanager
    def _standstill(self) -> Iterator[None]:
        """Let every clock stand still, until the last who waits for something else is done."""
        self._answering += 1
        if not self._is_flooded:
            self._clocks.stop_all()
        if self._answering == 1 and self.on_standstill is not None:
            self.on_standstill(True)  # noqa: FBT003
        try:
            yield
        finally:
            self._answering -= 1
            if not self._answering:
                if self.on_standstill is not None:
                    self.on_standstill(False)  # noqa: FBT003
                if not self._is_flooded:
                    self._clocks.wind_all()
                self._is_flooded = False

    def _go_on_counting(self) -> None:
        """Let no clock stand still until nobody answers: the server asks more than it lets anybody answer."""
        if self._answering and not self._is_flooded:
            self._is_flooded = True
            self._clocks.wind_all()

    def _lost(self, error: Exception | None) -> None:
        if self.state != "alive":
            return
        self.state = CONNECTION_LIFE[self.state, "lose"]
        self.error = error or TransportError("The server closed the connection")
        if not self.link.is_http:
            self._fail(self.error)
        self._host.lost(self, self.error)

    def _fail(self, error: Exception) -> None:
        for pending in self._peer.close():
            pending.settle(broken(error))

    async def drained(self) -> None:
        """Wait until no request waits for its answer."""
        await self._clocks.ended()

    async def close(self) -> None:
        """End the connection; what waits for an answer fails."""
        current = asyncio.current_task()
        was, self.state = self.state, CONNECTION_LIFE[self.state, "close"]
        if was != "closed":
            self.serving.close()
            self._fail(self.error or TransportError("The client was closed while a request waited for its answer"))
            for task in self._background - {current}:
                task.cancel()
        try:
            await self.link.close()
        finally:
            self._clocks.close()
        # Whoever closes it may be an answer to the server that is being worked out.
        others = self._background - {current}
        if others:
            await asyncio.wait(others, timeout=CLOSE_SECONDS)


def _reason(error: BaseException) -> str:
    """Return why a request was given up: what the task was cancelled with, if it says so."""
    if isinstance(error, asyncio.CancelledError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return LATE if isinstance(error, Timeout) else UNWANTED


def broken(error: Exception) -> TransportError:
    """Return the end of a connection as it is raised for one request that was under way: a new error each time."""
    if not isinstance(error, TransportError):
        fresh = TransportError(f"The connection to the server broke: {str(error) or type(error).__name__}")
    elif isinstance(error, ConnectError | SessionExpired):
        # These would say that the request was not served.
        fresh = TransportError(*error.args)
    else:
        fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__ if isinstance(error, TransportError) else error
    return fresh
