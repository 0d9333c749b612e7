"""`Notifier`: notifies the connections, sessions and subscriptions of a server: its listeners.

`wants_change` decides whether a client of the handshake era receives the notification of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Protocol
from weakref import WeakSet

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import declares
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.server.offering import Offering
from dragoman.server.request.call import ELICITATION_COMPLETE, Session, server_notifications, wants_log

Report = Callable[[BaseException, None, dict[str, Any]], None]
"""Reports an error that belongs to no call, with the place of the error."""

_CAPABILITIES = {
    TOOLS_CHANGED: ("tools", "list_changed"),
    PROMPTS_CHANGED: ("prompts", "list_changed"),
    RESOURCES_CHANGED: ("resources", "list_changed"),
    RESOURCE_UPDATED: ("resources", "subscribe"),
}


def wants_change(offering: Offering, session: Session, method: str, subject: str | None) -> bool:
    """Tell whether a client of the handshake era receives the notification of a change.

    A client receives a notification of an extension if the client declared the extension, where clients declare it, and
    the notification has no subject. In this era a client can subscribe only to the URIs of resources.
    """
    if method in _CAPABILITIES:
        is_subscribed = subject is None or subject in session.subscribed
        return is_subscribed and declares(offering.capabilities, _CAPABILITIES[method])
    caller = session.caller
    if subject is not None or caller is None:
        return False
    rows = server_notifications(offering.offer, method)
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


class Notifier:
    """The listeners of one server; any thread may add, remove and notify them.

    Each notifying method returns whether the notification goes to at least one client that is connected to this
    process. The clients of other workers are notified too, but not counted.

    Example:
        notifier = Notifier(offering, report)
        notifier.add(connection)
        notifier.notify_change(TOOLS_CHANGED)
    """

    def __init__(self, offering: Offering, report: Report) -> None:
        self._offering = offering
        self._report = report
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

    def log(self, level: types.LoggingLevel, data: object, logger: str | None = None) -> bool:
        """Send a log message to every client whose log level includes it.

        Raises:
            ValueError: there is no such level.
            ValidationError: the data cannot be JSON.
        """
        wants_log(self._offering.capabilities, level, None)
        encode(data)
        return self._notify_each("notifications/message", lambda member: member.log(level, data, logger))

    def notify_change(self, method: str, uri: str | None = None) -> bool:
        """Notify every client that wants it of a change of a list, or of the resource of a URI."""
        return self._notify_each(method, lambda member: member.notify_change(method, uri))

    def notify_resource_updated(self, uri: str) -> bool:
        """Notify every client that subscribed to a resource that the resource was updated."""
        return self.notify_change(RESOURCE_UPDATED, uri)

    def notify_extension(
        self, method: str, subject: str | None, params: types.Json | None, *, everywhere: bool
    ) -> bool:
        """Send a notification of an extension to the clients that subscribed to it.

        Raises:
            DefinitionError: no extension of the server has such a notification.
            ValidationError: the parameters cannot be JSON.
        """
        name = self._offering.identity.name
        if not server_notifications(self._offering.offer, method):
            raise DefinitionError(f"No extension of the server {name!r} has the notification {method!r}")
        given = {} if params is None else params
        encode(given)
        members = self.members() if everywhere else self.members_here()
        return self._notify_each(method, lambda member: member.notify_change(method, subject, given), members)

    def complete_elicitation(self, id: str) -> bool:
        """Notify the client that received a url elicitation that its user completed it."""
        return self._notify_each(ELICITATION_COMPLETE, lambda member: member.complete_elicitation(id))

    def _notify_each(
        self,
        notification: str,
        notify: Callable[[NotificationListener], bool],
        members: Iterable[NotificationListener] | None = None,
    ) -> bool:
        is_delivered = False
        for member in self.members() if members is None else members:
            try:
                is_delivered = notify(member) or is_delivered
            except Exception as error:
                self._report(error, None, {"notification": notification})
        return is_delivered
