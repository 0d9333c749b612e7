"""One request while it is served: who asked, where its messages go, and whether it is still wanted."""

from __future__ import annotations

from typing import Any, Protocol

from dragoman import types
from dragoman.errors import Cancelled
from dragoman.protocol import eras


class Session:
    """What a connection, or a session of the handshake era, remembers: data, not a task."""

    __slots__ = ("caller", "id", "log_level")

    def __init__(self, caller: eras.Caller | None = None, id: str | None = None) -> None:
        self.caller = caller
        self.id = id
        self.log_level: types.LoggingLevel | None = None


class Channel(Protocol):
    """The way back to the client that sent a request, for everything but the response."""

    def notify(self, method: str, params: Any) -> None:
        """Send a notification that belongs to the request."""
        ...


class Silence:
    """The channel of a request that has no way back but its response."""

    def notify(self, method: str, params: Any) -> None:
        """Send nothing."""


SILENCE = Silence()


class Call:
    """A request that is being served."""

    __slots__ = ("cancelled", "channel", "principal", "request", "server_context", "session")

    def __init__(
        self,
        request: eras.Request,
        session: Session,
        channel: Channel = SILENCE,
        *,
        server_context: Any = None,
        principal: str | None = None,
    ) -> None:
        self.request = request
        self.session = session
        self.channel = channel
        self.server_context = server_context
        self.principal = principal
        self.cancelled = False

    def is_given_up_by(self, error: BaseException) -> bool:
        """Tell whether a handler ended because nobody wants its outcome any more, so that nothing is answered.

        An author's own cancellation is a failure like any other: whoever asked still waits.
        """
        import asyncio

        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            return self.cancelled or (task is not None and task.cancelling() > 0)
        return isinstance(error, GeneratorExit) or (isinstance(error, Cancelled) and self.cancelled)
