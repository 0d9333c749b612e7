"""Subscriptions to change notifications (`subscriptions/listen`, 2026-07-28).

A client sends a filter that names the notifications it asks for. The server honours the part of the filter that it can
serve. The first message of a subscription is the acknowledgement, with the honoured filter. Every message carries the
subscription id, which is the id of the listen request.

Notifications wait in a bounded queue until the stream has room. The queue holds each change once: the client reads the
changed list or resource again after one notification, so a second notification would add nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from dragoman import types
from dragoman.protocol.jsonrpc import encode_notification
from dragoman.protocol.methods import declares, require_declared

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"

MAX_WAITING = 1000
# One object for all subscriptions, of which there may be many thousands.
_NO_SUBJECTS: frozenset[str] = frozenset()


class SubscriptionField(Struct, frozen=True, kw_only=True):
    """A field of the filter of `subscriptions/listen`, and the notification that it asks for.

    The value True asks for every notification of the method. A list asks for the notifications about its subjects.
    """

    name: str
    """In snake_case: `task_ids` is `taskIds` on the wire."""
    method: str
    capability: tuple[str, ...] = ()
    """The capability that the server must have declared, as a path into its capabilities."""
    declared: tuple[str, ...] = ()
    """The capability that the client must have declared as well, as a path into its capabilities."""
    covers_below: bool = False
    """A subject covers the subjects below it, as `file:///a` covers `file:///a/b`."""


CORE_FIELDS = (
    SubscriptionField(name="tools_list_changed", method=TOOLS_CHANGED, capability=("tools", "list_changed")),
    SubscriptionField(name="prompts_list_changed", method=PROMPTS_CHANGED, capability=("prompts", "list_changed")),
    SubscriptionField(
        name="resources_list_changed", method=RESOURCES_CHANGED, capability=("resources", "list_changed")
    ),
    SubscriptionField(
        name="resource_subscriptions", method=RESOURCE_UPDATED, capability=("resources", "subscribe"), covers_below=True
    ),
)


def require_fields_declared(
    requested: types.SubscriptionFilter, capabilities: types.ClientCapabilities, fields: Iterable[SubscriptionField]
) -> None:
    """Check that a client declared the capabilities that the fields of its filter need.

    Raises:
        MissingCapability: the client did not declare one of them.
    """
    for field in fields:
        if field.declared and getattr(requested, field.name) is not None:
            require_declared(capabilities, field.declared)


def honoured_filter(
    requested: types.SubscriptionFilter,
    capabilities: types.ServerCapabilities,
    fields: Iterable[SubscriptionField] = CORE_FIELDS,
) -> types.SubscriptionFilter:
    """Return the part of a filter that a server with these capabilities honours."""
    values = {
        field.name: getattr(requested, field.name) for field in fields if declares(capabilities, field.capability)
    }
    return type(requested)(**{name: value for name, value in values.items() if value is not False})


class Subscription:
    """One listen request: its honoured filter and the queue of its notifications.

    The acknowledgement names `hidden` subjects like any others, but the client is never notified of them.

    Example:
        subscription = Subscription(request.id, honoured_filter(params.notifications, capabilities))
        stream.send(subscription.acknowledgement())
        if subscription.enqueue(RESOURCE_UPDATED, "file:///a"):
            for message in subscription.drain():
                stream.send(message)
    """

    __slots__ = ("_filters", "_waiting", "hidden", "honoured", "id")

    def __init__(
        self,
        id: types.RequestId,
        honoured: types.SubscriptionFilter,
        fields: Iterable[SubscriptionField] = CORE_FIELDS,
        hidden: frozenset[str] = _NO_SUBJECTS,
    ) -> None:
        self.id = id
        self.honoured = honoured
        self.hidden = hidden
        wanted = ((field, getattr(honoured, field.name)) for field in fields)
        self._filters = {field.method: _FieldFilter(field, value, hidden) for field, value in wanted if value}
        self._waiting: dict[tuple[str, str | None], bytes] = {}

    def acknowledgement(self) -> bytes:
        """Return the first message of the subscription."""
        return self._message(ACKNOWLEDGED, {"notifications": self.honoured})

    def wants(self, method: str, subject: str | None = None) -> bool:
        """Tell whether the filter includes a notification."""
        field_filter = self._filters.get(method)
        return field_filter is not None and field_filter.includes(subject)

    def enqueue(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Queue a notification if the filter includes it, and return whether it does. A full queue drops its oldest.

        `params` are the parameters of the notification. Without `params`, the subject becomes the `uri`.

        Raises:
            ValidationError: JSON has no form for the parameters.
        """
        if not self.wants(method, subject):
            return False
        if params is not None or (method, subject) not in self._waiting:
            given = ({} if subject is None else {"uri": subject}) if params is None else params
            self._waiting[method, subject] = self._message(method, given)
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return True

    def drain(self) -> list[bytes]:
        """Return the queued messages in order, and empty the queue."""
        waiting, self._waiting = self._waiting, {}
        return list(waiting.values())

    def result(self) -> types.SubscriptionsListenResult:
        """Return the result that ends the subscription, not sealed yet."""
        return types.SubscriptionsListenResult(meta={types.SUBSCRIPTION_ID: self.id})

    def _message(self, method: str, params: dict[str, Any]) -> bytes:
        return encode_notification(method, {**params, "_meta": {types.SUBSCRIPTION_ID: self.id}})


class _FieldFilter:
    """The subjects of one method that a subscription includes."""

    __slots__ = ("_includes_all", "_parents", "_subjects")

    def __init__(self, field: SubscriptionField, value: bool | list[str], hidden: frozenset[str]) -> None:  # noqa: FBT001
        self._includes_all = value is True
        self._subjects = frozenset(value) - hidden if isinstance(value, list) else _NO_SUBJECTS
        self._parents = tuple(f"{subject.rstrip('/')}/" for subject in self._subjects) if field.covers_below else ()

    def includes(self, subject: str | None) -> bool:
        """Tell whether the filter includes a notification about this subject; None is a notification without one."""
        if self._includes_all or subject is None:
            return self._includes_all
        return subject in self._subjects or subject.startswith(self._parents)
