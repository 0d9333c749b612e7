"""`Call`: one request while the server serves it, with its session, its channel and its cancellation.

The code that receives a request (`duplex`, `http`, `serving`) makes its `Call` and passes it to the runner. Handlers
and contexts read it. The `Session` of a call holds what the server knows about the client. The `Channel` of a
call sends every message to the client except the response.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from sys import modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import types
from dragoman.errors import Cancelled, DragomanError, RpcError, Timeout, TransportError, ValidationError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.extensions import CORE
from dragoman.protocol.methods import METHOD_NAMES, Method
from dragoman.server.settings import DEFAULT_SETTINGS, ServerSettings
from dragoman.server.storage import Storage
from dragoman.telemetry import API, active_recorder, note_request_id
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    import asyncio

    from dragoman.protocol.peer import Peer
    from dragoman.protocol.subscriptions import Subscription
    from dragoman.server.request.asking import Asking
    from dragoman.server.request.time_limit import TimeLimit
    from dragoman.server.request.tool_task import OfferedTask
    from dragoman.stores import State

ELICITATION_COMPLETE = "notifications/elicitation/complete"
MAX_ELICITATIONS = 1000
LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""The log levels, from the least severe to the most severe."""
MAX_STATE_KEYS = 1000
"""The number of keys that handlers may keep for a user or in a session."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


def wants_log(
    capabilities: types.ServerCapabilities, level: types.LoggingLevel, threshold: types.LoggingLevel | None
) -> bool:
    """Tell whether a client receives a log message of a level; a client without a threshold receives none.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"There is no log level {level!r}; there are {', '.join(LEVELS)}")
    severity = LEVELS.index(level)
    return threshold is not None and capabilities.logging is not None and severity >= LEVELS.index(threshold)


def server_notifications(offer: eras.Offer, method: str) -> list[Method]:
    """Return the rows of a notification that extensions let the server send: one row for each extension generation."""
    return [
        row
        for row in offer.table.methods
        if row.name == method and row.is_notification and "server" in row.sender and method not in METHOD_NAMES
    ]


class SessionValues(NamedTuple):
    """The values that handlers keep in a session."""

    values: State
    seconds: float | None = None
    """How many seconds the session lasts at most; None if no time is set."""


class Session(Struct, eq=False, weakref=True):
    """What the server knows about the client of a connection or of an HTTP session."""

    caller: eras.Caller | None = None
    id: str | None = None
    principal: str | None = None
    """The verified identity of the client, if the server authenticates."""
    log_level: types.LoggingLevel | None = None
    subscribed: set[str] | frozenset[str] = frozenset()
    """The URIs of the resources that the client subscribed to; few clients need a set of their own."""
    elicitations: Recent[str, None] | None = None
    """The ids of the url elicitations that the server sent and that are not complete, oldest first."""
    end_callbacks: list[Callable[[], None]] | None = None
    """The functions to call when the session ends."""
    has_ended: bool = False

    def kept_values(self, server: ServingPart, account: str) -> SessionValues | None:  # noqa: ARG002
        """Return the values that handlers keep in this session; None if the client has no session."""
        return None

    def begin(self, caller: eras.Caller) -> None:
        """Record the version, the identity and the capabilities of the client, from `initialize`."""
        self.caller = caller

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call a function when the session ends: the connection closes, the client ends the session, or it expires."""
        self.end_callbacks = [*(self.end_callbacks or ()), callback]

    def end(self) -> None:
        """Call the functions of `on_end`."""
        self.has_ended = True
        callbacks, self.end_callbacks = self.end_callbacks or (), None
        for callback in callbacks:
            callback()

    def add_elicitation(self, id: str) -> None:
        """Record a url elicitation; beyond the limit the oldest elicitation is forgotten."""
        if self.elicitations is None:
            self.elicitations = Recent(MAX_ELICITATIONS)
        self.elicitations[id] = None

    def end_elicitation(self, id: str) -> types.ElicitationCompleteNotificationParams | None:
        """Forget an elicitation, and return the params of the notification of its completion.

        None: the session has no such elicitation, or the version of the client has no such notification.
        """
        if self.caller is None or not CORE.exists(ELICITATION_COMPLETE, self.caller.version):
            return None
        if not self.elicitations or id not in self.elicitations:
            return None
        del self.elicitations[id]
        return types.ElicitationCompleteNotificationParams(id)

    def set_level(self, level: types.LoggingLevel) -> None:
        """Record the lowest level of the log messages that the client receives."""
        self.log_level = level

    def subscribe(self, uri: str) -> None:
        """Record that the client subscribed to a resource."""
        if not isinstance(self.subscribed, set):
            self.subscribed = set()
        self.subscribed.add(uri)

    def unsubscribe(self, uri: str) -> None:
        """Record that the client unsubscribed from a resource."""
        if isinstance(self.subscribed, set):
            self.subscribed.discard(uri)


class ConnectedClient(Protocol):
    """Sends messages that belong to no request, for as long as the client is connected."""

    def notify(self, method: str, params: Any) -> object:
        """Send a notification, from any thread."""

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client and return its result."""


class Channel(Protocol):
    """Sends messages to the client of a request, except the response."""

    lacks_standalone_stream: bool
    """Whether the client has no stream for notifications that belong to no request."""
    carrier: Literal["stdio", "memory"] | None
    """The kind of a duplex connection; None for a channel of one request, or of HTTP."""

    @property
    def standalone(self) -> ConnectedClient | None:
        """The connection or the session of the client; None if the client has only this request."""
        ...

    @property
    def end_error(self) -> RpcError | None:
        """The error to send if other code cancels the task of the request, because the HTTP server shuts down."""
        ...

    def notify(self, method: str, params: Any) -> None:
        """Send a notification that belongs to this request, from any thread."""

    def notify_session(self, method: str, params: Any) -> bool:
        """Send a notification that may follow the response, from any thread; return whether the client can get it.

        Before the response it is sent on the stream of this request, afterwards on the standalone stream.
        """
        ...

    async def wait_for_room(self) -> None:
        """Wait until the client has read enough of the sent messages."""

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client and return its result (handshake era)."""

    async def listen(self, subscription: Subscription) -> None:
        """Serve a subscription until the connection or the application ends (stateless era)."""

    def notify_updated(self, uri: str) -> bool:
        """Notify this client, from any thread, that a resource was updated; return whether a client here gets it."""
        ...

    async def close_stream(self) -> None:
        """Close the HTTP connection of this request, if the client can resume the stream of the response."""


class NoChannel:
    """The channel of a request to whose client the server can send only the response."""

    lacks_standalone_stream = False
    carrier: Literal["stdio", "memory"] | None = None
    end_error: RpcError | None = None
    standalone: ConnectedClient | None = None

    def notify(self, method: str, params: Any) -> None:
        """Send nothing."""

    def notify_session(self, method: str, params: Any) -> bool:  # noqa: ARG002
        """Send nothing."""
        return False

    async def wait_for_room(self) -> None:
        """Return at once: this channel sends nothing."""

    async def request(self, method: str, params: Any, timeout: float) -> Raw:  # noqa: ARG002
        """Raise DragomanError: the client cannot answer a request."""
        raise DragomanError(f"The client cannot be asked ({method}), because there is no connection to it")

    async def listen(self, subscription: Subscription) -> None:
        """Return at once: this channel sends nothing."""

    def notify_updated(self, uri: str) -> bool:  # noqa: ARG002
        """Send nothing."""
        return False

    async def close_stream(self) -> None:
        """Do nothing: the client cannot resume a stream."""


NO_CHANNEL = NoChannel()


class Sender(NamedTuple):
    """The verified identity of the client of a call, as another server of this process passes it on."""

    principal: str | None
    scopes: frozenset[str]
    claims: Mapping[str, Any]

    @property
    def key(self) -> Hashable:
        """A value that is equal for equal identities; claims that JSON has no form for are equal to no others."""
        try:
            claims: Hashable = jsonrpc.encode(dict(self.claims))
        except ValidationError:
            claims = object()
        return self.principal, self.scopes, claims


class ServingPart(Protocol):
    """The part of a server that a request needs while it is served."""

    storage: Storage
    debug: bool

    @property
    def name(self) -> str:
        """The name of the server."""

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares."""

    @property
    def offer(self) -> eras.Offer:
        """The versions and methods that the server serves."""

    @property
    def replacements(self) -> Mapping[Hashable, Callable[..., object]]:
        """The functions that replace dependencies and lifespans, by those that they replace."""

    def has_method(self, name: str) -> bool:
        """Tell whether the author registered a method of this name with `server.method`."""

    def lifespan_values(self, loop: asyncio.AbstractEventLoop | None) -> Mapping[Any, object]:
        """Return the values of the lifespans in a loop, by their functions."""

    def report(self, error: BaseException, call: Call | None = None, info: dict[str, Any] | None = None) -> None:
        """Report an error that is not meant for clients."""


class SupportsAddress(Protocol):
    """Knows the network address from which an HTTP request came."""

    @property
    def address(self) -> str | None:
        """The address of the client, if known."""
        ...


class Call(Struct, eq=False):
    """A request while the server serves it; a notification with a handler also has a `Call`."""

    request: eras.McpRequest
    session: Session
    server: ServingPart
    channel: Channel = NO_CHANNEL
    server_context: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    settings: ServerSettings = DEFAULT_SETTINGS
    """The server's settings at the start of the request; a later change does not affect this request."""
    scopes: frozenset[str] | None = None
    """The verified scopes of the caller, empty over HTTP without `auth`; None if every tool is open, as over stdio."""
    claims: Mapping[str, Any] = NOTHING
    target: Any = None
    """The definition whose function serves the request; None if the handler itself returns the result."""
    arguments: Raw | UnsetType = UNSET
    """The arguments for the target's function."""
    refusal: RpcError | None = None
    """The error of the response, if the response is an error."""
    failure_label: str | None = None
    """The label that hooks receive for a result with `isError`."""
    cancelled: bool = False
    is_late: bool = False
    """Whether the handler was cancelled because its time is over; the request itself goes on, and has a response."""
    cancel_reason: str | None = None
    """The reason that the client gave for the cancellation, if any."""
    cancel_callbacks: list[Callable[[], Any]] | None = None
    """The functions to call when the request is cancelled: those of `on_cancel`, and one for each wait of a blocking
    handler."""
    stopped: RpcError | None = None
    """The error to send if the request was cancelled because the server or the session ends."""
    ended: bool = False
    is_drop_logged: bool = False
    """Whether the log says that notifications are dropped, because the request has ended."""
    progress: float | None = None
    asking: Asking | None = None
    task: asyncio.Task[Any] | None = None
    """The task that serves the request, if there is one."""
    handler_task: asyncio.Task[Any] | None = None
    """The task in which a middleware runs the rest of the chain, until that ends; None without middleware."""
    is_notification: bool = False
    client_errors: list[tuple[str, Exception]] | None = None
    """The errors of requests to the client, each with its method; `client_error` recognizes them."""
    headers: Iterable[tuple[bytes, bytes]] = ()
    """The headers of the HTTP request, as received."""
    remote: SupportsAddress | None = None
    """The remote end of an HTTP request; None on a duplex connection."""
    values: dict[str, Any] | None = None
    """The values that middleware sets for later middleware and for the handler."""
    rejection: RpcError | None = None
    """The error of a request that was refused before its handler; only middleware runs for such a request."""
    encoded_page: Raw | None = None
    """The encoded page of a list, while middleware works on the decoded page."""
    offered_task: OfferedTask | None = None
    """The task that an extension offers to the handler."""
    hidden: frozenset[Any] = frozenset()
    """The definitions whose `visible` refuses the caller, among those that the request may concern."""
    within: Any = None
    """The extension that runs a detached call; the call passes only through the extensions after it."""
    asks_input: bool = False
    """Whether the result is `input_required`; set if the call is observed."""
    trace: Mapping[str, str] | None = None
    """The trace context in which a detached call runs; None for a request, whose `_meta` has it."""
    is_passed: bool = False
    """Whether a parent passed the request to this mounted server; the span of the parent covers it."""

    dependencies: Callable[[], Awaitable[None]] | None = None
    """Cleans up what the function of the request depends on, after the response was sent."""
    time_limit: TimeLimit | None = None
    """The limit of the handler that runs, if it has one; it stands still while a question waits for the client."""

    @property
    def principal(self) -> str | None:
        """The verified identity of the client, if the server authenticates."""
        return self.session.principal

    @property
    def sender(self) -> Sender | None:
        """The identity of the client; None if every tool is open to the client, as over stdio."""
        return None if self.scopes is None else Sender(self.principal, self.scopes, self.claims)

    @property
    def holder(self) -> str:
        """For whom the limits of callers count: a principal, or the address of a client without one."""
        from dragoman.server.request.http_request import holder_name

        return holder_name(self.principal, None if self.remote is None else self.remote.address)

    async def clean_up(self) -> None:
        """Clean up the dependencies of the function that served the request."""
        dependencies, self.dependencies = self.dependencies, None
        if dependencies is not None:
            await dependencies()

    def stop(self, why: RpcError) -> None:
        """Cancel the request, and set the error of its response."""
        self.stopped = self.stopped or why
        self.cancel()

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the request: call its callbacks and cancel its task."""
        self.mark_cancelled(reason)
        if self.task is not None:
            # `call_soon` runs after the task's first step, which is already scheduled. A task that is cancelled before
            # its first step never runs its `finally` blocks.
            self.task.get_loop().call_soon(self._cancel_task)

    def mark_cancelled(self, reason: str | None = None) -> None:
        """Tell the handler, and the callbacks of the request, that the request is cancelled."""
        self.cancelled = True
        self._tell(reason)

    def mark_late(self, reason: str) -> None:
        """Tell the handler, and the callbacks of the request, that the time of the handler is over."""
        self.is_late = True
        self._tell(reason)

    @property
    def is_handler_cancelled(self) -> bool:
        """Whether the handler should end: the request was cancelled, or the time of the handler is over."""
        return self.cancelled or self.is_late

    def _tell(self, reason: str | None) -> None:
        self.cancel_reason = self.cancel_reason if reason is None else reason
        while self.cancel_callbacks:
            self._call_back(self.cancel_callbacks.pop(0))

    def _cancel_task(self) -> None:
        # After the end of this call, its task may serve another call.
        if self.task is not None and not self.ended:
            self.task.cancel()

    def withdraw_cancellation(self) -> bool:
        """Withdraw one cancellation of the task, and tell whether none is left."""
        return self.task is not None and not self.task.uncancel()

    def on_cancel(self, callback: Callable[[], Any]) -> Callable[[], None]:
        """Call a function when the request is cancelled, or now if it is cancelled already.

        The returned function removes the callback.
        """
        if self.cancel_callbacks is None:
            self.cancel_callbacks = []
        callbacks = self.cancel_callbacks
        callbacks.append(callback)
        # Another thread may cancel the request now. The thread that removes the callback from the list calls it.
        if self.is_handler_cancelled:
            with suppress(ValueError):
                callbacks.remove(callback)
                self._call_back(callback)  # `_call_back` raises nothing

        def remove() -> None:
            with suppress(ValueError):  # the callback was called already
                callbacks.remove(callback)

        return remove

    def _call_back(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception as error:
            self.server.report(error, self)

    def require_open(self) -> None:
        """Refuse to ask the client of a request that has ended.

        Raises:
            DragomanError: the request has ended.
        """
        if self.ended:
            raise DragomanError(
                f"The request has ended ({self.request.method.name}), so its client cannot be asked: a context serves"
                " its own request only, until the handler returns"
            )

    def drops(self, what: str) -> bool:
        """Tell whether the request has ended, so that a notification of it is dropped; the first drop is logged."""
        if self.ended and not self.is_drop_logged:
            import logging

            self.is_drop_logged = True
            subject = getattr(self.request.params, "name", None) or getattr(self.request.params, "uri", None)
            logging.getLogger("dragoman.server").warning(
                "%s of %s%s (request %r) was dropped, because the request has ended: report before the handler returns."
                " Further notifications of this request are dropped without a line in this log",
                what,
                self.request.method.name,
                f" {subject!r}" if isinstance(subject, str) else "",
                self.request.id,
            )
        return self.ended

    async def ask_client(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client and return its result; an error is recorded in `client_errors`.

        Raises:
            DragomanError: the request has ended.
        """
        self.require_open()
        asking = self.channel.request
        if API in modules and (recorder := active_recorder()) is not None:
            from dragoman.server.request.recording import recorded_question

            asking = partial(recorded_question, recorder, self)
        limit = self.time_limit
        if limit is not None:
            limit.pause()
        try:
            return await asking(method, params, timeout)
        except (RpcError, TransportError) as error:
            if self.client_errors is None:
                self.client_errors = []
            self.client_errors.append((method, error))
            raise
        finally:
            if limit is not None and limit is self.time_limit:
                limit.resume()

    def client_error(self, error: BaseException) -> str | None:
        """Return the text to send for an error of a request to the client; None for any other error."""
        for method, known in self.client_errors or ():
            if known is error:
                if isinstance(known, RpcError):
                    return f"The client refused {method}: {known.message} ({known.code})"
                return str(known)
        return None

    def is_cancelled_by(self, error: BaseException) -> bool:
        """Tell whether an error comes from the cancellation of this request or of its task.

        A cancellation error that the handler raised itself is an ordinary failure, because the client still waits for
        the response.
        """
        import asyncio

        from dragoman.runtime.tasks import SelfCancelTask

        if isinstance(error, Cancelled):
            return self.cancelled
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            return False
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs
            task = None
        if isinstance(error, GeneratorExit):
            # `close` on the coroutine raises GeneratorExit outside its task; a handler raises it inside its task.
            own = self.handler_task or self.task
            return own is not None and task is not own
        if self.cancelled or task is None or not task.cancelling():
            return self.cancelled
        return not (isinstance(task, SelfCancelTask) and task.cancelled_itself)


async def request_client(peer: Peer, send: Callable[[bytes], None], method: str, params: Any, timeout: float) -> Raw:
    """Send a request to the client of a connection or session, and return its result.

    If the caller stops waiting, or the time is up, the client receives a cancellation of the request.

    Raises:
        RpcError: the client answered with an error.
        Timeout: the client did not answer in time.
        TransportError: the connection or the session has ended.
    """
    import asyncio

    answered: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
    id = peer.next_id()
    note_request_id(id)
    send(peer.send_request(id, method, params, answered))
    reason = "The request that asked was cancelled"
    try:
        async with asyncio.timeout(timeout):
            return await answered
    except TimeoutError:
        reason = f"Timed out after {timeout:g} seconds"
        raise Timeout(f"The client did not answer {method} within {timeout:g} seconds", id) from None
    finally:
        if (cancellation := peer.cancel(id, reason)) is not None:  # the client has not answered
            send(cancellation)


def set_outcome(waiter: asyncio.Future[Any], outcome: Any) -> None:
    """Set the result or the exception of a future, unless the future is done."""
    if not waiter.done():
        finish = waiter.set_exception if isinstance(outcome, Exception) else waiter.set_result
        finish(outcome)
