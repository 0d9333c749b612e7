from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from dragoman.errors import ValidationError
from dragoman.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    Dropped,
    ElicitRequest,
    ElicitRequestParams,
    InputRequiredResult,
    ListRootsRequest,
    Params,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnknownContent,
    decode,
)

encode = msgspec.json.encode


def test_what_a_server_asks_is_told_by_its_method() -> None:
    result = InputRequiredResult(
        result_type="input_required",
        input_requests={
            "who": ElicitRequest(params=ElicitRequestParams(message="Who?")),
            "what": CreateMessageRequest(params=CreateMessageRequestParams(messages=[], max_tokens=5)),
            "where": ListRootsRequest(),
            "again": ListRootsRequest(params=Params(meta=Raw(b"{}"))),
        },
        request_state="",
    )
    assert encode(result) == (
        b'{"inputRequests":{'
        b'"who":{"method":"elicitation/create","params":{"message":"Who?"}},'
        b'"what":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}},'
        b'"where":{"method":"roots/list"},'
        b'"again":{"method":"roots/list","params":{"_meta":{}}}},"requestState":"","resultType":"input_required"}'
    )
    assert decode(encode(result), InputRequiredResult) == result


def test_a_question_about_content_of_an_unknown_type_is_still_a_question() -> None:
    data = (
        b'{"inputRequests": {"what": {"method": "sampling/createMessage", "params": {"_meta": {"a": 1}, "maxTokens": 5,'
        b' "messages": [{"role": "user", "content": {"type": "video", "url": "a"}}]}}}}'
    )
    dropped: list[Dropped] = []
    requests = decode(data, InputRequiredResult, dropped).input_requests
    assert requests is not None
    question = requests["what"]
    assert isinstance(question, CreateMessageRequest)
    assert question.params.meta == Raw(b'{"a": 1}')
    assert question.params.messages[0].content == UnknownContent({"type": "video", "url": "a"})
    assert not dropped


def test_a_question_of_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        decode(b'{"inputRequests": {"a": {"method": "mind/read", "params": {}}}}', InputRequiredResult)
    assert refused.value.path == '$.inputRequests["a"].method'


def test_a_malformed_question_is_refused_where_it_is_wrong() -> None:
    with pytest.raises(ValidationError) as refused:
        decode(b'{"inputRequests": {"a": {"method": "elicitation/create", "params": {}}}}', InputRequiredResult)
    assert refused.value.path == '$.inputRequests["a"].params.message'


@pytest.mark.parametrize("kind", [SubscriptionsListenRequestParams, SubscriptionsAcknowledgedNotificationParams])
def test_a_filter_names_each_change(
    kind: type[SubscriptionsListenRequestParams | SubscriptionsAcknowledgedNotificationParams],
) -> None:
    params = kind(
        notifications=SubscriptionFilter(
            tools_list_changed=True,
            prompts_list_changed=False,
            resources_list_changed=True,
            resource_subscriptions=["file:///a"],
        )
    )
    assert encode(params) == (
        b'{"notifications":{"toolsListChanged":true,"promptsListChanged":false,'
        b'"resourcesListChanged":true,"resourceSubscriptions":["file:///a"]}}'
    )


def test_the_end_of_a_subscription_carries_its_id_in_meta() -> None:
    data = b'{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"resultType":"complete"}'
    assert encode(decode(data, SubscriptionsListenResult)) == data
