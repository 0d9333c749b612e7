"""The types of multi-round-trip requests and of `subscriptions/listen` (2026-07-28)."""

from __future__ import annotations

from dragoman.types.elicitation import ElicitRequestParams
from dragoman.types.sampling import CreateMessageRequestParams
from dragoman.types.wire import Params, Result, Wire


class AskedRequest(Wire, tag_field="method"):
    """A request of a server inside an `input_required` result: method and parameters, without id."""


class ElicitRequest(AskedRequest, tag="elicitation/create"):
    """A question to the user."""

    params: ElicitRequestParams


class CreateMessageRequest(AskedRequest, tag="sampling/createMessage"):
    """A question to the model of the client."""

    params: CreateMessageRequestParams


class ListRootsRequest(AskedRequest, tag="roots/list"):
    """A request for the roots of the client."""

    params: Params | None = None


InputRequest = ElicitRequest | CreateMessageRequest | ListRootsRequest


class InputRequiredResult(Result):
    """The input that a server needs. The client answers each input request and sends its own request again."""

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None


class SubscriptionFilter(Wire):
    """The change notifications that a client subscribes to."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class SubscriptionsListenRequestParams(Params):
    """The parameters of `subscriptions/listen`: the filter that the client requests."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(Params):
    """The filter that the server honours."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result):
    """The end of a subscription; `_meta` has its id."""
