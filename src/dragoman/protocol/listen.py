"""Subscriptions to changes (2026-07-28): which are honoured, which message goes to whom.

A subscription is named by the id of its listen request. Its first message is the acknowledgement with the subset of the
filter that is honoured; every message carries the subscription id; changes wait in a bounded queue in which equal ones
are one, because they are hints to look again and not events to count.
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

MOST_WAITING = 1000


class SubscriptionField(Struct, frozen=True, kw_only=True):
    """A field of the filter of `subscriptions/listen`, and the notification that it asks for.

    A client asks by True for every notification of that method, or by a list for those about the subjects in it.
    """

    name: str
    """In snake_case: `task_ids` is `taskIds` on the wire."""
    method: str
    capability: tuple[str, ...] = ()
    """What the server must have declared, as a path into its capabilities."""
    declared: tuple[str, ...] = ()
    """What the client must have declared too."""
    covers_below: bool = False
    """A subject covers those that lie below it, as a URI does."""


CORE_FIELDS = (
    SubscriptionField(name="tools_list_changed", method=TOOLS_CHANGED, capability=("tools", "list_changed")),
    SubscriptionField(name="prompts_list_changed", method=PROMPTS_CHANGED, capability=("prompts", "list_changed")),
    SubscriptionField(
        name="resources_list_changed", method=RESOURCES_CHANGED, capability=("resources", "list_changed")
    ),
    SubscriptionField(
        name="resource_subscriptions",
        method=RESOURCE_UPDATED,
        capability=("resources", "subscribe"),
        covers_below=True,
    ),
)


def require_fields_declared(
    wanted: types.SubscriptionFilter, capabilities: types.ClientCapabilities, fields: Iterable[SubscriptionField]
) -> None:
    """See that a client declared what the fields of its filter need.

    Raises:
        MissingCapability: it did not.
    """
    for field in fields:
        if field.declared and getattr(wanted, field.name) is not None:
            require_declared(capabilities, field.declared)


def honour(
    wanted: types.SubscriptionFilter,
    capabilities: types.ServerCapabilities,
    fields: Iterable[SubscriptionField] = CORE_FIELDS,
) -> types.SubscriptionFilter:
    """Return the part of a filter that a server with these capabilities will serve."""
    served = {field.name for field in fields if declares(capabilities, field.capability)}
    given = {name: getattr(wanted, name) for name in served}
    return type(wanted)(**{name: value for name, value in given.items() if value is not False})


class Subscription:
    """One listen request: what it wants and what waits for it.

    Example:
        subscription = Subscription(request.id, honour(params.notifications, capabilities))
        stream.send(subscription.acknowledgement())
        if subscription.offer(RESOURCE_UPDATED, "file:///a"):
            for message in subscription.take():
                stream.send(message)
    """

    def __init__(
        self,
        id: types.RequestId,
        honoured: types.SubscriptionFilter,
        fields: Iterable[SubscriptionField] = CORE_FIELDS,
    ) -> None:
        self.id = id
        self._honoured = honoured
        self._wanted = {field.method: _Wanted(field, getattr(honoured, field.name)) for field in fields}
        self._waiting: dict[tuple[str, str | None], bytes] = {}

    def acknowledgement(self) -> bytes:
        """Return the first message of the subscription."""
        return self._message(ACKNOWLEDGED, {"notifications": self._honoured})

    def offer(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Let a change wait if it is wanted; the oldest gives way when too many wait.

        `params` are the parameters of the notification; without them a subject is its `uri`.

        Raises:
            ValidationError: the parameters cannot be JSON.
        """
        wanted = self._wanted.get(method)
        if wanted is None or not wanted.includes(subject):
            return False
        if params is not None or (method, subject) not in self._waiting:
            given = ({} if subject is None else {"uri": subject}) if params is None else params
            self._waiting[method, subject] = self._message(method, given)
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return True

    def take(self) -> list[bytes]:
        """Return the messages that wait, in order, and forget them."""
        waiting, self._waiting = self._waiting, {}
        return list(waiting.values())

    def result(self) -> types.SubscriptionsListenResult:
        """Return the result that ends the subscription in good order, still to be sealed."""
        return types.SubscriptionsListenResult(meta={types.SUBSCRIPTION_ID: self.id})

    def _message(self, method: str, params: dict[str, Any]) -> bytes:
        return encode_notification(method, {**params, "_meta": {types.SUBSCRIPTION_ID: self.id}})


class _Wanted:
    """What a subscription wants of one method."""

    def __init__(self, field: SubscriptionField, value: bool | list[str] | None) -> None:  # noqa: FBT001
        self._is_all = value is True
        self._subjects = frozenset(value) if isinstance(value, list) else frozenset()
        self._parents = frozenset(one.rstrip("/") for one in self._subjects) if field.covers_below else frozenset()
        self._parent_lengths = frozenset(map(len, self._parents))

    def includes(self, subject: str | None) -> bool:
        """Tell whether a change of this subject is wanted; None is a change that is about no subject."""
        if self._is_all or subject is None:
            return self._is_all
        return subject in self._subjects or any(
            subject[length : length + 1] == "/" and subject[:length] in self._parents for length in self._parent_lengths
        )
