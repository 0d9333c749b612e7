"""`Audience`: the connections, sessions and subscriptions that receive the notifications of a server.

`wants_change` decides whether a client of the handshake era receives the notification of a change.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from dragoman import types
from dragoman.protocol.methods import declares
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.server.request.call import server_notifications

if TYPE_CHECKING:
    from dragoman.server.request.call import Session
    from dragoman.server.server import Server

_CAPABILITIES = {
    TOOLS_CHANGED: ("tools", "list_changed"),
    PROMPTS_CHANGED: ("prompts", "list_changed"),
    RESOURCES_CHANGED: ("resources", "list_changed"),
    RESOURCE_UPDATED: ("resources", "subscribe"),
}


def wants_change(server: Server, session: Session, method: str, subject: str | None) -> bool:
    """Tell whether a client of the handshake era receives the notification of a change.

    A client receives a notification of an extension if the client declared the extension, where clients declare it, and
    the notification has no subject. In this era a client can subscribe only to the URIs of resources.
    """
    if method in _CAPABILITIES:
        is_subscribed = subject is None or subject in session.subscribed
        return is_subscribed and declares(server.capabilities, _CAPABILITIES[method])
    caller = session.caller
    if subject is not None or caller is None:
        return False
    rows = server_notifications(server, method)
    return any(row.exists_in(caller.version) and declares(caller.capabilities, row.capability) for row in rows)


def change_params(subject: str | None, params: types.Json | None) -> Any:
    """Return the params of a notification of a change; a subject without params is the URI of a resource."""
    if params is not None:
        return params
    return types.Params() if subject is None else types.ResourceUpdatedNotificationParams(subject)


class NotificationListener(Protocol):
    """A receiver of a server's notifications: a connection, a session, a subscription, or the other processes."""

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Send the notification of a change, from any thread, if the client wants it."""

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread, if the log level of the client includes it."""

    def complete_elicitation(self, id: str) -> None:
        """Notify the client, from any thread, that a url elicitation is complete, if the client received it."""


class Audience:
    """The listeners of a server; any thread may add, remove and notify them."""

    def __init__(self) -> None:
        self._listeners: WeakSet[NotificationListener] = WeakSet()
        self._lock = Lock()

    def add(self, listener: NotificationListener) -> None:
        """Add a listener."""
        with self._lock:
            self._listeners.add(listener)

    def discard(self, listener: NotificationListener) -> None:
        """Remove a listener."""
        with self._lock:
            self._listeners.discard(listener)

    def members(self) -> list[NotificationListener]:
        """Return the current listeners."""
        with self._lock:
            return list(self._listeners)
