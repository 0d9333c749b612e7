"""Multi-round-trip results and subscriptions (2026-07-28)."""

from __future__ import annotations

from dragoman.types.elicitation import ElicitRequestParams
from dragoman.types.sampling import CreateMessageRequestParams
from dragoman.types.wire import Params, Result, Wire


class AskedRequest(Wire, tag_field="method"):
    """What a server asks of a client: a request, without the envelope."""


class ElicitRequest(AskedRequest, tag="elicitation/create"):
    """Ask the user."""

    params: ElicitRequestParams


class CreateMessageRequest(AskedRequest, tag="sampling/createMessage"):
    """Ask the model."""

    params: CreateMessageRequestParams


class ListRootsRequest(AskedRequest, tag="roots/list"):
    """Ask for the roots."""

    params: Params | None = None


InputRequest = ElicitRequest | CreateMessageRequest | ListRootsRequest


class InputRequiredResult(Result):
    """What a server needs before it can answer; the client answers each key and asks again."""

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None


class SubscriptionFilter(Wire):
    """Which changes to be told of."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class SubscriptionsListenRequestParams(Params):
    """The changes that a client would like to be told of."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(Params):
    """The changes that it will be told of."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result):
    """The end of a subscription; its id is in `_meta`."""
