"""`Audience`: the connections, sessions and subscriptions that receive the notifications of a server.

`Notifying` is the part of `Server` that notifies them. `wants_change` decides whether a client of the handshake era
receives the notification of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast
from weakref import WeakSet

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import declares
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.server.request.call import ELICITATION_COMPLETE, server_notifications, wants_log

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
    """A receiver of a server's notifications: a connection, a session, a subscription, or the other processes.

    Each method returns whether a client of this process gets the notification.
    """

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Send the notification of a change, from any thread, if the client wants it."""
        ...

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> bool:
        """Send a log message, from any thread, if the log level of the client includes it."""
        ...

    def complete_elicitation(self, id: str) -> bool:
        """Notify the client, from any thread, that a url elicitation is complete, if the client received it."""
        ...


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

    def members_here(self) -> list[NotificationListener]:
        """Return the current listeners, without those that send to other processes."""
        return [listener for listener in self.members() if not getattr(listener, "is_elsewhere", False)]


class Notifying:
    """The notifying methods of a `Server`, and its audience.

    Each method returns whether the notification goes to at least one client that is connected to this process. The
    clients of other workers are notified too, but not counted.
    """

    def __init__(self) -> None:
        self.audience = Audience()

    @property
    def _this(self) -> Server:
        return cast("Server", self)

    def log(self, level: types.LoggingLevel, data: object, logger: str | None = None) -> bool:
        """Send a log message, from any thread, to every client whose log level includes it.

        Returns whether a client of this process gets it.

        Example:
            server.log("warning", {"disk": "full"}, "storage")

        Raises:
            ValueError: there is no such level.
            ValidationError: the data cannot be JSON.
        """
        wants_log(self._this, level, None)
        encode(data)
        return self._tell_each("notifications/message", lambda member: member.log(level, data, logger))

    def notify_tools_list_changed(self) -> bool:
        """Notify every client, from any thread, that the tools changed; return whether a client here gets it."""
        return self._tell(TOOLS_CHANGED)

    def notify_prompts_list_changed(self) -> bool:
        """Notify every client, from any thread, that the prompts changed; return whether a client here gets it."""
        return self._tell(PROMPTS_CHANGED)

    def notify_resources_list_changed(self) -> bool:
        """Notify every client, from any thread, that the resources changed; return whether a client here gets it."""
        return self._tell(RESOURCES_CHANGED)

    def notify_resource_updated(self, uri: str) -> bool:
        """Notify every client that subscribed to a resource, from any thread, that the resource was updated.

        Returns whether a client of this process gets the notification.
        """
        return self._tell(RESOURCE_UPDATED, uri)

    def notify(
        self, method: str, subject: str | None = None, params: types.Json | None = None, *, everywhere: bool = True
    ) -> bool:
        """Send a notification of an extension, from any thread, to the clients that subscribed to it.

        Example:
            server.notify("notifications/prices", "apple", {"item": "apple", "price": 3})

        Every process of the server notifies its clients that subscribed to the subject, or to all subjects. Without a
        subject, the server also notifies the clients of the handshake era that declared the extension. If each process
        learns of the change by itself, `everywhere=False` notifies the clients of this process alone. Returns whether a
        client of this process gets the notification.

        Raises:
            DefinitionError: no extension of the server has such a notification.
            ValidationError: the parameters cannot be JSON.
        """
        if not server_notifications(self._this, method):
            raise DefinitionError(f"No extension of the server {self._this.name!r} has the notification {method!r}")
        given = {} if params is None else params
        encode(given)
        members = self.audience.members() if everywhere else self.audience.members_here()
        return self._tell_each(method, lambda member: member.notify_change(method, subject, given), members)

    def notify_elicitation_complete(self, elicitation_id: str) -> bool:
        """Notify a client, from any thread, that its user completed a url elicitation (2025-11-25).

        Example:
            @app.get("/signed-in")
            def signed_in(state: str):
                server.notify_elicitation_complete(state)

        Only the client that received this id, from `ctx.elicit_url` or `UrlElicitationRequired`, receives the
        notification, and receives it once. Returns whether that client is connected to this process.
        """
        return self._tell_each(ELICITATION_COMPLETE, lambda member: member.complete_elicitation(elicitation_id))

    def _tell(self, method: str, uri: str | None = None) -> bool:
        return self._tell_each(method, lambda member: member.notify_change(method, uri))

    def _tell_each(
        self,
        notification: str,
        tell: Callable[[NotificationListener], bool],
        members: Iterable[NotificationListener] | None = None,
    ) -> bool:
        is_delivered = False
        for member in self.audience.members() if members is None else members:
            try:
                is_delivered = tell(member) or is_delivered
            except Exception as error:
                self._this.report(error, None, {"notification": notification})
        return is_delivered
