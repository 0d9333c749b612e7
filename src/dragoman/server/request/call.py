"""One request while it is served: its session, the channel to its client, and whether it was cancelled.

A `Call` is made by the transport that received the request, and passed to the runner, to handlers and to contexts. Its
`Session` is what the server remembers of the client. Its `Channel` sends everything but the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, get_args

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import types
from dragoman.errors import Cancelled, DragomanError, RpcError, TransportError
from dragoman.protocol import eras
from dragoman.protocol.extensions import CORE

if TYPE_CHECKING:
    import asyncio

    from dragoman.protocol.subscriptions import Subscription
    from dragoman.server.request.asking import Asking
    from dragoman.server.server import Server

ELICITATION_COMPLETE = "notifications/elicitation/complete"
MAX_ELICITATIONS = 1000
LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""From the least severe to the most."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


def wants_log(server: Server, level: types.LoggingLevel, threshold: types.LoggingLevel | None) -> bool:
    """Tell whether a client with a threshold is sent a log message of a level; without a threshold it is sent none.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"There is no log level {level!r}; there are {', '.join(LEVELS)}")
    severity = LEVELS.index(level)
    return threshold is not None and server.capabilities.logging is not None and severity >= LEVELS.index(threshold)


class Session:
    """What the server remembers of the client of a connection or of an HTTP session; data, not a task."""

    __slots__ = ("caller", "elicitations", "id", "log_level", "principal", "subscribed")

    def __init__(self, caller: eras.Caller | None = None, id: str | None = None, principal: str | None = None) -> None:
        self.caller = caller
        self.id = id
        self.principal = principal
        """The verified identity of the client, if the server authenticates."""
        self.log_level: types.LoggingLevel | None = None
        self.subscribed: set[str] = set()
        """The URIs of the resources that the client subscribed to."""
        self.elicitations: dict[str, None] | None = None
        """The ids of url elicitations whose completion the client was not yet notified of, oldest first."""

    def begin(self, caller: eras.Caller) -> None:
        """Record the client that the handshake introduced."""
        self.caller = caller

    def add_elicitation(self, id: str) -> None:
        """Record that the user was sent to a page; beyond the limit the oldest elicitation is forgotten."""
        if self.elicitations is None:
            self.elicitations = {}
        self.elicitations[id] = None
        if len(self.elicitations) > MAX_ELICITATIONS:
            del self.elicitations[next(iter(self.elicitations))]

    def end_elicitation(self, id: str) -> types.ElicitationCompleteNotificationParams | None:
        """Forget an elicitation, and return the parameters of its notification; None if the client is not notified."""
        if self.caller is None or not CORE.exists(ELICITATION_COMPLETE, self.caller.version):
            return None
        if not self.elicitations or id not in self.elicitations:
            return None
        del self.elicitations[id]
        return types.ElicitationCompleteNotificationParams(id)

    def set_level(self, level: types.LoggingLevel) -> None:
        """Record the lowest level of log messages that the client is sent."""
        self.log_level = level

    def subscribe(self, uri: str) -> None:
        """Record that the client subscribed to a resource."""
        self.subscribed.add(uri)

    def unsubscribe(self, uri: str) -> None:
        """Record that the client unsubscribed from a resource."""
        self.subscribed.discard(uri)


class Channel(Protocol):
    """Sends messages to the client of a request: everything but the response."""

    lacks_standalone_stream: bool
    """Whether the client has no stream for notifications that belong to no request."""
    takes_parts: bool
    """Whether a large answer may be given in parts, which saves a copy."""

    def notify(self, method: str, params: Any) -> None:
        """Send a notification of this request, from any thread."""
        ...

    def notify_session(self, method: str, params: Any) -> None:
        """Send a notification of the session, from any thread: on this request's stream or on the standalone one."""
        ...

    async def wait_for_room(self) -> None:
        """Wait until the client has read enough of what it was sent."""
        ...

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client and return its result (handshake era)."""
        ...

    async def listen(self, subscription: Subscription) -> None:
        """Serve a subscription until the connection ends in good order (stateless era)."""
        ...

    def notify_updated(self, uri: str) -> None:
        """Notify this client, from any thread, that a resource was updated."""
        ...

    async def close_stream(self) -> None:
        """Close the connection that the response waits on, if the client can resume its stream."""
        ...


class NoChannel:
    """The channel of a request whose client can be sent nothing but the response."""

    lacks_standalone_stream = False
    takes_parts = False

    def notify(self, method: str, params: Any) -> None:
        """Send nothing."""

    def notify_session(self, method: str, params: Any) -> None:
        """Send nothing."""

    async def wait_for_room(self) -> None:
        """Return at once, because nothing is sent."""

    async def request(self, method: str, params: Any, timeout: float) -> Raw:  # noqa: ARG002
        """Refuse, because the client could not answer."""
        raise DragomanError(f"{method} cannot be asked here: the request came without a way back to the client")

    async def listen(self, subscription: Subscription) -> None:
        """End at once, because nothing can be sent."""

    def notify_updated(self, uri: str) -> None:
        """Send nothing."""

    async def close_stream(self) -> None:
        """Keep the connection, because the client could not resume its stream."""


NO_CHANNEL = NoChannel()


class Call(Struct, eq=False):
    """A request that is being served."""

    request: eras.McpRequest
    session: Session
    channel: Channel = NO_CHANNEL
    server: Any = None
    server_context: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    principal: str | None = None
    settings: Any = None
    """The server's settings when the runner began the request; they hold until its end."""
    scopes: frozenset[str] | None = None
    """The verified scopes of the caller; None if the server does not authenticate."""
    claims: Mapping[str, Any] = NOTHING
    target: Any = None
    """The definition whose function serves the request, if a function of the author's does."""
    arguments: Raw | UnsetType = UNSET
    """The arguments of the target."""
    plain_result: types.CallToolResult | None = None
    """A result of plain text and data, which most versions carry unchanged."""
    refusal: RpcError | None = None
    """The error that the request was answered with."""
    failure_label: str | None = None
    """The label of the failure that a result with `isError` stands for; hooks are given it."""
    cancelled: bool = False
    cancel_reason: str | None = None
    """The reason that the client gave for the cancellation, if any."""
    cancel_callbacks: list[Callable[[], Any]] | None = None
    """Called when the request is cancelled: those of handlers, and one for each wait of a blocking handler."""
    stopped: RpcError | None = None
    """The error to answer with if the request was cancelled because the server, or its session, ends."""
    ended: bool = False
    progress: float | None = None
    asking: Asking | None = None
    task: asyncio.Task[Any] | None = None
    """The task that serves the request, if there is one."""
    client_errors: list[tuple[str, Exception]] | None = None
    """The errors of requests to the client, with their methods; they are not the handler's own."""
    headers: Iterable[tuple[bytes, bytes]] = ()
    """The headers of the HTTP request, as received."""
    values: dict[str, Any] | None = None
    """Values that middleware left for later middleware and for the handler."""
    rejection: RpcError | None = None
    """The error of a request that was refused before any handler; only middleware runs for it."""
    encoded_page: Raw | None = None
    """The encoded page of a list, while middleware holds the page as an object."""

    def stop(self, why: RpcError) -> None:
        """Cancel the request, and let it be answered with an error."""
        self.stopped = self.stopped or why
        self.cancel()

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the request: run its callbacks and cancel its task."""
        self.cancelled = True
        self.cancel_reason = self.cancel_reason if reason is None else reason
        while self.cancel_callbacks:
            self._call_back(self.cancel_callbacks.pop(0))
        if self.task is not None:
            # The first step of the task is scheduled already. A task that is cancelled before it never cleans up.
            self.task.get_loop().call_soon(self._cancel_task)

    def _cancel_task(self) -> None:
        # A task that has ended this call may serve the next.
        if self.task is not None and not self.ended:
            self.task.cancel()

    def on_cancel(self, callback: Callable[[], Any]) -> Callable[[], None]:
        """Call a function when the request is cancelled, at once if it already is; the function returned removes it."""
        if self.cancel_callbacks is None:
            self.cancel_callbacks = []
        callbacks = self.cancel_callbacks
        callbacks.append(callback)
        # Another thread may cancel the request at this moment. Whoever removes the callback from the list calls it.
        if self.cancelled:
            with suppress(ValueError):
                callbacks.remove(callback)
                self._call_back(callback)  # which raises nothing

        def remove() -> None:
            with suppress(ValueError):  # it was called
                callbacks.remove(callback)

        return remove

    def _call_back(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception as error:
            self.server.report(error, self)

    async def ask_client(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client and return its result; an error is recorded as the client's own."""
        try:
            return await self.channel.request(method, params, timeout)
        except (RpcError, TransportError) as error:
            if self.client_errors is None:
                self.client_errors = []
            self.client_errors.append((method, error))
            raise

    def client_error(self, error: BaseException) -> str | None:
        """Return the text to send for an error of a request to the client; None if it is another error."""
        for method, known in self.client_errors or ():
            if known is error:
                if isinstance(known, RpcError):
                    return f"The client refused {method}: {known.message} ({known.code})"
                return str(known)
        return None

    def is_cancelled_by(self, error: BaseException) -> bool:
        """Tell whether an error ended the handler because the request was cancelled, so that nothing is answered.

        A cancellation that the author raised is a failure like any other, because the client still waits.
        """
        import asyncio

        if isinstance(error, Cancelled):
            return self.cancelled
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            return False
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs
            task = None
        if isinstance(error, GeneratorExit):
            # A coroutine that is closed does not run in its task; a handler that raises GeneratorExit does.
            return self.task is not None and task is not self.task
        if self.cancelled or task is None or not task.cancelling():
            return self.cancelled
        return not getattr(task, "cancelled_itself", False)
