"""Subscriptions to changes (2026-07-28): which are honoured, which message goes to whom.

A subscription is named by the id of its listen request. Its first message is the acknowledgement with the subset of the
filter that is honoured; every message carries the subscription id; changes wait in a bounded queue in which equal ones
are one, because they are hints to look again and not events to count.
"""

from __future__ import annotations

from typing import Any

from dragoman import types
from dragoman.protocol.jsonrpc import encode_notification
from dragoman.protocol.methods import declares

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"

MOST_WAITING = 1000


def honour(wanted: types.SubscriptionFilter, capabilities: types.ServerCapabilities) -> types.SubscriptionFilter:
    """Return the part of a filter that a server with these capabilities will serve."""
    return types.SubscriptionFilter(
        tools_list_changed=_both(wanted.tools_list_changed, capabilities, "tools", "list_changed"),
        prompts_list_changed=_both(wanted.prompts_list_changed, capabilities, "prompts", "list_changed"),
        resources_list_changed=_both(wanted.resources_list_changed, capabilities, "resources", "list_changed"),
        resource_subscriptions=(
            wanted.resource_subscriptions if declares(capabilities, ("resources", "subscribe")) else None
        ),
    )


def _both(wanted: bool | None, capabilities: types.ServerCapabilities, *path: str) -> bool | None:  # noqa: FBT001
    return True if wanted and declares(capabilities, path) else None


class Subscription:
    """One listen request: what it wants and what waits for it.

    Example:
        subscription = Subscription(request.id, honour(params.notifications, capabilities))
        stream.send(subscription.acknowledgement())
        if subscription.offer(RESOURCE_UPDATED, "file:///a"):
            for message in subscription.take():
                stream.send(message)
    """

    def __init__(self, id: types.RequestId, honoured: types.SubscriptionFilter) -> None:
        self.id = id
        self._honoured = honoured
        self._uris = frozenset(honoured.resource_subscriptions or ())
        self._parents = frozenset(uri.rstrip("/") for uri in self._uris)
        self._parent_lengths = frozenset(map(len, self._parents))
        self._waiting: dict[tuple[str, str | None], bytes] = {}

    def acknowledgement(self) -> bytes:
        """Return the first message of the subscription."""
        return self._message(ACKNOWLEDGED, {"notifications": self._honoured})

    def offer(self, method: str, uri: str | None = None) -> bool:
        """Let a change wait if it is wanted; the oldest gives way when too many wait.

        Raises:
            ValidationError: the URI cannot be JSON.
        """
        if not self._wants(method, uri):
            return False
        if (method, uri) not in self._waiting:
            self._waiting[method, uri] = self._message(method, {} if uri is None else {"uri": uri})
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

    def _wants(self, method: str, uri: str | None) -> bool:
        if method == RESOURCE_UPDATED:
            return uri is not None and self._follows(uri)
        wanted = {
            TOOLS_CHANGED: self._honoured.tools_list_changed,
            PROMPTS_CHANGED: self._honoured.prompts_list_changed,
            RESOURCES_CHANGED: self._honoured.resources_list_changed,
        }
        return bool(wanted.get(method))

    def _follows(self, uri: str) -> bool:
        """A subscription to a resource covers what lies below it."""
        return uri in self._uris or any(
            uri[length : length + 1] == "/" and uri[:length] in self._parents for length in self._parent_lengths
        )

    def _message(self, method: str, params: dict[str, Any]) -> bytes:
        return encode_notification(method, {**params, "_meta": {types.SUBSCRIPTION_ID: self.id}})
