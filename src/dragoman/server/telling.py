"""What a server tells its clients without being asked: log messages and changes."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, get_args
from weakref import WeakSet

from dragoman import types
from dragoman.protocol.listen import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.protocol.methods import declares

if TYPE_CHECKING:
    from dragoman.server.server import Server

LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""From the least severe to the most."""


def is_wanted(server: Server, level: types.LoggingLevel, threshold: types.LoggingLevel | None) -> bool:
    """Tell whether a client that set a threshold is sent a message of a level; without one it is sent nothing.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"There is no log level {level!r}; there are {', '.join(LEVELS)}")
    severity = LEVELS.index(level)
    return threshold is not None and server.capabilities.logging is not None and severity >= LEVELS.index(threshold)


_ANNOUNCED = {
    TOOLS_CHANGED: ("tools", "list_changed"),
    PROMPTS_CHANGED: ("prompts", "list_changed"),
    RESOURCES_CHANGED: ("resources", "list_changed"),
    RESOURCE_UPDATED: ("resources", "subscribe"),
}


def announces(capabilities: types.ServerCapabilities, method: str) -> bool:
    """Tell whether a server declared that it tells of such changes."""
    return declares(capabilities, _ANNOUNCED[method])


def log_params(level: types.LoggingLevel, data: Any, logger: str | None) -> types.LoggingMessageNotificationParams:
    """Return the parameters of a log message."""
    return types.LoggingMessageNotificationParams(level, data, logger)


class Listener(Protocol):
    """Whom a server tells."""

    def tell(self, method: str, uri: str | None = None) -> None:
        """Tell of a change, from any thread."""

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread."""

    def complete_elicitation(self, id: str) -> None:
        """Tell, from any thread, that a visit came to its end, if it was asked for there."""


class Audience:
    """The connections of a server, to be told of changes from any thread."""

    def __init__(self) -> None:
        self._connections: WeakSet[Listener] = WeakSet()
        self._lock = Lock()

    def add(self, connection: Listener) -> None:
        """Let a connection be told."""
        with self._lock:
            self._connections.add(connection)

    def discard(self, connection: Listener) -> None:
        """Let it be told no more."""
        with self._lock:
            self._connections.discard(connection)

    def members(self) -> list[Listener]:
        """Return those that are there now."""
        with self._lock:
            return list(self._connections)
