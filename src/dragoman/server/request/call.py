"""One request while it is served: who asked, where its messages go, and whether it is still wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import types
from dragoman.errors import Cancelled, DragomanError, RpcError, TransportError
from dragoman.protocol import eras
from dragoman.protocol.extensions import CORE

if TYPE_CHECKING:
    import asyncio

    from dragoman.protocol.subscriptions import Subscription
    from dragoman.server.request.asking import Asking

ELICITATION_COMPLETE = "notifications/elicitation/complete"
MOST_ELICITATIONS = 1000
_NO_CLAIMS: Mapping[str, Any] = MappingProxyType({})


class Session:
    """What a connection, or a session of the handshake era, remembers: data, not a task."""

    __slots__ = ("caller", "elicitations", "id", "log_level", "principal", "subscribed")

    def __init__(self, caller: eras.Caller | None = None, id: str | None = None, principal: str | None = None) -> None:
        self.caller = caller
        self.id = id
        self.principal = principal
        """Who the client proved to be, where that is verified."""
        self.log_level: types.LoggingLevel | None = None
        self.subscribed: set[str] = set()
        """The resources that the client asked to be told of."""
        self.elicitations: dict[str, None] | None = None
        """The pages that its user was sent to and that it was not told the end of, by their elicitation ids."""

    def begin(self, caller: eras.Caller) -> None:
        """Note who the client says it is."""
        self.caller = caller

    def elicited(self, id: str) -> None:
        """Note that the client's user was sent to a page; the oldest is forgotten when there are too many."""
        if self.elicitations is None:
            self.elicitations = {}
        self.elicitations[id] = None
        if len(self.elicitations) > MOST_ELICITATIONS:
            del self.elicitations[next(iter(self.elicitations))]

    def completed(self, id: str) -> types.ElicitationCompleteNotificationParams | None:
        """Return what tells the client that a visit came to its end, if it is to be told: once, and only its own."""
        if self.caller is None or not CORE.exists(ELICITATION_COMPLETE, self.caller.version):
            return None
        if not self.elicitations or id not in self.elicitations:
            return None
        del self.elicitations[id]
        return types.ElicitationCompleteNotificationParams(id)

    def set_level(self, level: types.LoggingLevel) -> None:
        """Note from which level on the client wants log messages."""
        self.log_level = level

    def subscribe(self, uri: str) -> None:
        """Note that the client wants to be told when a resource changes."""
        self.subscribed.add(uri)

    def unsubscribe(self, uri: str) -> None:
        """Note that it wants so no longer."""
        self.subscribed.discard(uri)


class Channel(Protocol):
    """The way back to the client that sent a request, for everything but the response."""

    is_mute: bool
    """Whether the client can be told of nothing that belongs to no request."""
    takes_parts: bool
    """Whether a large answer may be given in parts, so that it is not copied."""

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, from any thread."""
        ...

    def say(self, method: str, params: Any) -> None:
        """Send a notification that does not need the request, from any thread: on whatever the client reads now."""
        ...

    async def room(self) -> None:
        """Wait while the client does not take what it is sent."""
        ...

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask the client and return what it answers (handshake era)."""
        ...

    async def listen(self, subscription: Subscription) -> None:
        """Serve a subscription until the connection ends in good order (stateless era)."""
        ...

    def updated(self, uri: str) -> None:
        """Tell this client, from any thread, that a resource changed."""
        ...

    async def close_stream(self) -> None:
        """Let go of the connection that the response waits on, if the client can come back for it."""
        ...


class Silence:
    """The channel of a request that has no way back but its response."""

    is_mute = False
    takes_parts = False

    def notify(self, method: str, params: Any) -> None:
        """Send nothing."""

    def say(self, method: str, params: Any) -> None:
        """Send nothing."""

    async def room(self) -> None:
        """Return at once: nothing is sent."""

    async def request(self, method: str, params: Any, timeout: float) -> Raw:  # noqa: ARG002
        """Refuse: nobody would answer."""
        raise DragomanError(f"{method} cannot be asked here: the request came without a way back to the client")

    async def listen(self, subscription: Subscription) -> None:
        """End at once: nothing can be sent."""

    def updated(self, uri: str) -> None:
        """Tell nobody."""

    async def close_stream(self) -> None:
        """Keep the connection: nobody could come back."""


SILENCE = Silence()


class Call(Struct, eq=False):
    """A request that is being served."""

    request: eras.McpRequest
    session: Session
    channel: Channel = SILENCE
    server: Any = None
    server_context: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    principal: str | None = None
    settings: Any = None
    """What holds while the request is served, set when that begins."""
    scopes: frozenset[str] | None = None
    """What whoever asks may do; None where nobody verifies it."""
    claims: Mapping[str, Any] = _NO_CLAIMS
    target: Any = None
    """The definition whose function serves the request, if that is the author's."""
    arguments: Raw | UnsetType = UNSET
    """What the target is given."""
    plain: types.CallToolResult | None = None
    """A result of plain text and data, which most versions carry as it is."""
    refusal: RpcError | None = None
    """The error that the request was answered with."""
    failure: str | None = None
    """What a result that reports an error stands for, as hooks are told."""
    cancelled: bool = False
    cancel_reason: str | None = None
    """Why the client gave the request up, if it said so."""
    cancel_callbacks: list[Callable[[], Any]] | None = None
    """What is called when the request is given up: for a handler, and for what its thread waits for in the loop."""
    stopped: RpcError | None = None
    """What whoever asked is told when it was given up because the server, or its session, ends."""
    ended: bool = False
    progress: float | None = None
    asking: Asking | None = None
    task: asyncio.Task[Any] | None = None
    """The task that serves the request, where there is one."""
    client_errors: list[tuple[str, Exception]] | None = None
    """What came of requests to the client that failed, with their methods: the client's errors, not the handler's."""
    headers: Iterable[tuple[bytes, bytes]] = ()
    """Those of the HTTP request, as they came."""
    values: dict[str, Any] | None = None
    """What middleware noted for later middleware and the handler, once there is something."""
    refused: RpcError | None = None
    """Why the request is not served, if it was refused before any handler: only middleware runs for it then."""
    page: Raw | None = None
    """The page of a list as it is kept, while middleware holds it as an object."""

    def stop(self, why: RpcError) -> None:
        """Give the request up, and let whoever asked know why."""
        self.stopped = self.stopped or why
        self.give_up()

    def give_up(self, reason: str | None = None) -> None:
        """Let the handler know that nobody wants its outcome: what it asked for is called, and its task cancelled."""
        self.cancelled = True
        self.cancel_reason = self.cancel_reason if reason is None else reason
        while self.cancel_callbacks:
            self._call_back(self.cancel_callbacks.pop(0))
        if self.task is not None:
            self._cancel_soon()

    def on_cancel(self, callback: Callable[[], Any]) -> Callable[[], None]:
        """Call something when the request is given up, at once if it already is; return what takes that back."""
        if self.cancel_callbacks is None:
            self.cancel_callbacks = []
        callbacks = self.cancel_callbacks
        callbacks.append(callback)

        def take_back() -> bool:
            try:
                callbacks.remove(callback)
            except ValueError:  # it was called
                return False
            return True

        # Another thread may give the request up just now; whoever takes the callback out of the list calls it.
        if self.cancelled and take_back():
            self._call_back(callback)

        def stop() -> None:
            take_back()

        return stop

    def _call_back(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception as error:
            self.server.report(error, self)

    async def ask_client(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask the client and return what it answers; that it refuses, or does not answer, is noted as its own error."""
        try:
            return await self.channel.request(method, params, timeout)
        except (RpcError, TransportError) as error:
            self.note_client_error(method, error)
            raise

    def note_client_error(self, method: str, error: Exception) -> None:
        """Note that an error is the client's: what came of asking it."""
        if self.client_errors is None:
            self.client_errors = []
        self.client_errors.append((method, error))

    def client_error(self, error: BaseException) -> str | None:
        """Return what to say of an error that came of asking the client; None if it is another error."""
        for method, known in self.client_errors or ():
            if known is error:
                if isinstance(known, RpcError):
                    return f"The client refused {method}: {known.message} ({known.code})"
                return str(known)
        return None

    def _cancel_soon(self) -> None:
        # After its first step, which is scheduled already: a task that never began would not clean up after itself.
        assert self.task is not None
        self.task.get_loop().call_soon(self._cancel_task)

    def _cancel_task(self) -> None:
        # A task that has ended this call may serve the next.
        if self.task is not None and not self.ended:
            self.task.cancel()

    def is_given_up_by(self, error: BaseException) -> bool:
        """Tell whether a handler ended because nobody wants its outcome any more, so that nothing is answered.

        An author's own cancellation is a failure like any other: whoever asked still waits.
        """
        import asyncio

        if isinstance(error, Cancelled):
            return self.cancelled
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            return False
        task = _current_task()
        if isinstance(error, GeneratorExit):
            # A coroutine that is closed does not run in its task; a handler that raises this does.
            return self.task is not None and task is not self.task
        if self.cancelled or task is None or not task.cancelling():
            return self.cancelled
        return not getattr(task, "cancelled_itself", False)


def _current_task() -> asyncio.Task[Any] | None:
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None
