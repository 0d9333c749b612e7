"""What a server tells its clients without being asked: log messages and changes."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, get_args
from weakref import WeakSet

from dragoman import types
from dragoman.protocol.methods import Method, declares
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED

if TYPE_CHECKING:
    from dragoman.server.request.call import Session
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


def is_told(server: Server, session: Session, method: str, subject: str | None) -> bool:
    """Tell whether a client of the handshake era is told of a change.

    Of an extension's notification it is told if it declared the extension and the notification has no subject: this era
    has no way to ask for subjects but the URIs of resources.
    """
    if method in _ANNOUNCED:
        is_subscribed = subject is None or subject in session.subscribed
        return is_subscribed and declares(server.capabilities, _ANNOUNCED[method])
    caller = session.caller
    return (
        subject is None
        and caller is not None
        and any(
            row.exists_in(caller.version) and declares(caller.capabilities, row.capability)
            for row in server_notifications(server, method)
        )
    )


def server_notifications(server: Server, method: str) -> list[Method]:
    """Return the notifications of a name that extensions let the server send, one for each generation."""
    return [
        row
        for row in server.offer.table.methods
        if row.name == method and row.is_notification and "server" in row.sender and row.capability
    ]


def change_params(subject: str | None, params: types.Json | None) -> Any:
    """Return the parameters of a notification of a change; without any, its subject is a URI."""
    if params is not None:
        return params
    return types.Params() if subject is None else types.ResourceUpdatedNotificationParams(subject)


def log_params(level: types.LoggingLevel, data: Any, logger: str | None) -> types.LoggingMessageNotificationParams:
    """Return the parameters of a log message."""
    return types.LoggingMessageNotificationParams(level, data, logger)


class NotificationListener(Protocol):
    """Whom a server tells."""

    def tell(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Tell of a change, from any thread."""

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread."""

    def complete_elicitation(self, id: str) -> None:
        """Tell, from any thread, that a visit came to its end, if it was asked for there."""


class Audience:
    """The connections of a server, to be told of changes from any thread."""

    def __init__(self) -> None:
        self._connections: WeakSet[NotificationListener] = WeakSet()
        self._lock = Lock()

    def add(self, connection: NotificationListener) -> None:
        """Let a connection be told."""
        with self._lock:
            self._connections.add(connection)

    def discard(self, connection: NotificationListener) -> None:
        """Let it be told no more."""
        with self._lock:
            self._connections.discard(connection)

    def members(self) -> list[NotificationListener]:
        """Return those that are there now."""
        with self._lock:
            return list(self._connections)
