from __future__ import annotations

import itertools
import json

import msgspec
import pytest

from dragoman import types
from dragoman.errors import MissingCapability, ValidationError
from dragoman.protocol import eras
from dragoman.protocol.subscriptions import (
    ACKNOWLEDGED,
    CORE_FIELDS,
    MAX_WAITING,
    PROMPTS_CHANGED,
    RESOURCE_UPDATED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
    Subscription,
    SubscriptionField,
    honoured_filter,
    require_fields_declared,
)
from dragoman.protocol.versions import V2026_07_28

EVERYTHING = types.SubscriptionFilter(
    tools_list_changed=True,
    prompts_list_changed=True,
    resources_list_changed=True,
    resource_subscriptions=["file:///a", "file:///b"],
)
NOTHING = types.SubscriptionFilter()
ALL_CAPABILITIES = types.ServerCapabilities(
    tools=types.ListChangedCapability(list_changed=True),
    prompts=types.ListChangedCapability(list_changed=True),
    resources=types.ResourcesCapability(subscribe=True, list_changed=True),
)


@pytest.mark.parametrize(
    ("capabilities", "honoured"),
    [
        (types.ServerCapabilities(), NOTHING),
        (ALL_CAPABILITIES, EVERYTHING),
        (
            types.ServerCapabilities(tools=types.ListChangedCapability(list_changed=True)),
            types.SubscriptionFilter(tools_list_changed=True),
        ),
        (
            types.ServerCapabilities(prompts=types.ListChangedCapability(list_changed=True)),
            types.SubscriptionFilter(prompts_list_changed=True),
        ),
        (
            types.ServerCapabilities(resources=types.ResourcesCapability(list_changed=True)),
            types.SubscriptionFilter(resources_list_changed=True),
        ),
        (
            types.ServerCapabilities(resources=types.ResourcesCapability(subscribe=True)),
            types.SubscriptionFilter(resource_subscriptions=["file:///a", "file:///b"]),
        ),
        (
            types.ServerCapabilities(
                tools=types.ListChangedCapability(),
                prompts=types.ListChangedCapability(list_changed=False),
                resources=types.ResourcesCapability(subscribe=False, list_changed=False),
            ),
            NOTHING,
        ),
    ],
)
def test_a_wish_is_honoured_where_the_server_declared_the_capability(
    capabilities: types.ServerCapabilities, honoured: types.SubscriptionFilter
) -> None:
    assert honoured_filter(EVERYTHING, capabilities) == honoured


@pytest.mark.parametrize(
    ("wanted", "honoured"),
    [
        (NOTHING, NOTHING),
        (types.SubscriptionFilter(tools_list_changed=False, resources_list_changed=False), NOTHING),
        (types.SubscriptionFilter(prompts_list_changed=True), types.SubscriptionFilter(prompts_list_changed=True)),
        (types.SubscriptionFilter(resource_subscriptions=[]), types.SubscriptionFilter(resource_subscriptions=[])),
        (
            types.SubscriptionFilter(resource_subscriptions=["x:b", "x:a", "x:b"]),
            types.SubscriptionFilter(resource_subscriptions=["x:b", "x:a", "x:b"]),
        ),
    ],
)
def test_nothing_is_honoured_that_was_not_wanted(
    wanted: types.SubscriptionFilter, honoured: types.SubscriptionFilter
) -> None:
    assert honoured_filter(wanted, ALL_CAPABILITIES) == honoured


@pytest.mark.parametrize(
    ("honoured", "id", "expected"),
    [
        (
            types.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["file:///project/config.json"]),
            1,
            (
                b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":'
                b'{"toolsListChanged":true,"resourceSubscriptions":["file:///project/config.json"]},'
                b'"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}'
            ),
        ),
        (
            NOTHING,
            "one",
            (
                b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},'
                b'"_meta":{"io.modelcontextprotocol/subscriptionId":"one"}}}'
            ),
        ),
    ],
)
def test_the_acknowledgement_says_what_is_honoured(
    honoured: types.SubscriptionFilter, id: types.RequestId, expected: bytes
) -> None:
    assert Subscription(id, honoured).acknowledgement() == expected


def test_the_acknowledgement_is_the_example_of_the_specification() -> None:
    honoured = types.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["file:///project/config.json"])
    assert json.loads(Subscription(1, honoured).acknowledgement()) == {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {
            "_meta": {"io.modelcontextprotocol/subscriptionId": 1},
            "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["file:///project/config.json"]},
        },
    }


def test_the_acknowledgement_comes_before_changes_that_already_wait() -> None:
    subscription = Subscription(1, EVERYTHING)
    subscription.enqueue(TOOLS_CHANGED)
    sent = [subscription.acknowledgement(), *subscription.drain()]
    assert [json.loads(message)["method"] for message in sent] == [ACKNOWLEDGED, TOOLS_CHANGED]


@pytest.mark.parametrize("id", [1, 0, -7, 2**53, "1", "", "é", "a b"])
def test_every_message_carries_the_id_in_the_type_that_the_client_chose(id: types.RequestId) -> None:
    subscription = Subscription(id, EVERYTHING)
    subscription.enqueue(TOOLS_CHANGED)
    subscription.enqueue(RESOURCE_UPDATED, "file:///a")
    messages = [subscription.acknowledgement(), *subscription.drain()]
    ids = [json.loads(message)["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for message in messages]
    assert [(type(carried), carried) for carried in ids] == [(type(id), id)] * 3
    assert subscription.id == id


@pytest.mark.parametrize(
    ("method", "uri", "params"),
    [
        (TOOLS_CHANGED, None, b""),
        (PROMPTS_CHANGED, None, b""),
        (RESOURCES_CHANGED, None, b""),
        (RESOURCE_UPDATED, "file:///a", b'"uri":"file:///a",'),
    ],
)
def test_a_change_is_a_notification_with_the_subscription_id(method: str, uri: str | None, params: bytes) -> None:
    subscription = Subscription(7, EVERYTHING)
    assert subscription.enqueue(method, uri)
    beginning = f'{{"jsonrpc":"2.0","method":"{method}","params":{{'.encode()
    assert subscription.drain() == [beginning + params + b'"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}']


def test_the_methods_are_those_of_the_specification() -> None:
    assert (TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED, RESOURCE_UPDATED, ACKNOWLEDGED) == (
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/subscriptions/acknowledged",
    )


LIST_CHANGES = {
    "tools_list_changed": TOOLS_CHANGED,
    "prompts_list_changed": PROMPTS_CHANGED,
    "resources_list_changed": RESOURCES_CHANGED,
}


@pytest.mark.parametrize(("wanted", "offered"), list(itertools.product(LIST_CHANGES, repeat=2)))
def test_only_the_list_changes_that_were_honoured_are_sent(wanted: str, offered: str) -> None:
    subscription = Subscription(1, types.SubscriptionFilter(**{wanted: True}))
    assert subscription.enqueue(LIST_CHANGES[offered]) is (wanted == offered)
    assert len(subscription.drain()) == (wanted == offered)


@pytest.mark.parametrize(
    "method",
    [
        "notifications/progress",
        "notifications/message",
        "notifications/cancelled",
        ACKNOWLEDGED,
        "notifications/tools/List_changed",
        "",
    ],
)
def test_no_other_notification_travels_on_a_subscription(method: str) -> None:
    subscription = Subscription(1, EVERYTHING)
    assert not subscription.enqueue(method)
    assert not subscription.enqueue(method, "file:///a")
    assert subscription.drain() == []


@pytest.mark.parametrize("method", [*LIST_CHANGES.values(), RESOURCE_UPDATED])
def test_a_subscription_to_nothing_is_told_nothing(method: str) -> None:
    assert not Subscription(1, NOTHING).enqueue(method, "file:///a" if method == RESOURCE_UPDATED else None)


@pytest.mark.parametrize(
    ("followed", "uri", "wanted"),
    [
        ("file:///a", "file:///a", True),
        ("file:///a", "file:///a/b", True),
        ("file:///a", "file:///a/b/c.txt", True),
        ("file:///a", "file:///a/", True),
        ("file:///a/", "file:///a/b", True),
        ("file:///a/", "file:///a/", True),
        ("file:///a/", "file:///a", False),
        ("file:///a///", "file:///a/b", True),
        ("file:///", "file:///a", True),
        ("file:///a", "file:///ab", False),
        ("file:///a", "file:///b", False),
        ("file:///a/b", "file:///a", False),
        ("file:///a", "FILE:///a", False),
        ("file:///a", "file:///A", False),
        ("file:///a", "file:///a?query", False),
        ("file:///a", "http:///a", False),
        ("https://example.com", "https://example.com/page", True),
        ("https://example.com", "https://example.com.evil.org/page", False),
        ("config:app", "config:app", True),
        ("config:app", "config:app/theme", True),
        ("config:app", "config:apple", False),
        ("", "file:///a", False),
        ("", "", True),
        ("", "/a", True),
    ],
)
def test_a_resource_is_followed_with_what_lies_below_it(followed: str, uri: str, *, wanted: bool) -> None:
    subscription = Subscription(1, types.SubscriptionFilter(resource_subscriptions=["other://x", followed]))
    assert subscription.enqueue(RESOURCE_UPDATED, uri) is wanted


def test_an_update_without_a_uri_is_for_nobody() -> None:
    assert not Subscription(1, EVERYTHING).enqueue(RESOURCE_UPDATED)


def test_an_update_names_the_resource_below_and_not_the_followed_one() -> None:
    subscription = Subscription(1, EVERYTHING)
    subscription.enqueue(RESOURCE_UPDATED, "file:///a/below")
    assert [json.loads(message)["params"]["uri"] for message in subscription.drain()] == ["file:///a/below"]


def test_changes_keep_their_order_and_equal_ones_are_one() -> None:
    subscription = Subscription(1, EVERYTHING)
    changes = [
        (RESOURCE_UPDATED, "file:///b"),
        (TOOLS_CHANGED, None),
        (RESOURCE_UPDATED, "file:///a"),
        (TOOLS_CHANGED, None),
        (RESOURCE_UPDATED, "file:///b"),
        (RESOURCES_CHANGED, None),
    ]
    assert [subscription.enqueue(*change) for change in changes] == [True] * 6
    sent = [json.loads(message) for message in subscription.drain()]
    assert [(message["method"], message["params"].get("uri")) for message in sent] == [
        (RESOURCE_UPDATED, "file:///b"),
        (TOOLS_CHANGED, None),
        (RESOURCE_UPDATED, "file:///a"),
        (RESOURCES_CHANGED, None),
    ]


def test_what_was_taken_is_forgotten_and_may_come_again() -> None:
    subscription = Subscription(1, EVERYTHING)
    assert subscription.drain() == []
    subscription.enqueue(TOOLS_CHANGED)
    first = subscription.drain()
    assert len(first) == 1
    assert subscription.drain() == []
    subscription.enqueue(TOOLS_CHANGED)
    assert subscription.drain() == first


def test_the_oldest_change_gives_way_when_too_many_wait() -> None:
    assert MAX_WAITING == 1000
    subscription = Subscription(1, EVERYTHING)
    for number in range(1003):
        assert subscription.enqueue(RESOURCE_UPDATED, f"file:///a/{number}")
    uris = [json.loads(message)["params"]["uri"] for message in subscription.drain()]
    assert uris == [f"file:///a/{number}" for number in range(3, 1003)]


def test_equal_changes_do_not_push_others_out() -> None:
    subscription = Subscription(1, EVERYTHING)
    for number in range(1000):
        subscription.enqueue(RESOURCE_UPDATED, f"file:///a/{number}")
    for _ in range(5):
        subscription.enqueue(RESOURCE_UPDATED, "file:///a/999")
    assert len(subscription.drain()) == 1000


def test_a_uri_that_cannot_be_sent_is_refused_at_once_and_harms_no_other() -> None:
    subscription = Subscription(1, EVERYTHING)
    subscription.enqueue(TOOLS_CHANGED)
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        subscription.enqueue(RESOURCE_UPDATED, "file:///a/\udcff.txt")
    subscription.enqueue(PROMPTS_CHANGED)
    assert [json.loads(message)["method"] for message in subscription.drain()] == [TOOLS_CHANGED, PROMPTS_CHANGED]


def test_a_uri_that_cannot_be_sent_and_that_nobody_follows_is_no_matter() -> None:
    assert not Subscription(1, EVERYTHING).enqueue(RESOURCE_UPDATED, "file:///elsewhere/\udcff.txt")


def test_each_of_many_followed_resources_is_followed() -> None:
    many = [f"file:///{number}" for number in range(10_000)]
    subscription = Subscription(1, types.SubscriptionFilter(resource_subscriptions=many))
    assert all(subscription.enqueue(RESOURCE_UPDATED, f"{uri}/below") for uri in many)
    assert not subscription.enqueue(RESOURCE_UPDATED, "file:///10000/below")


@pytest.mark.parametrize("id", [1, "one"])
def test_the_result_ends_the_subscription_with_its_id(id: types.RequestId) -> None:
    result = Subscription(id, EVERYTHING).result()
    assert msgspec.to_builtins(result) == {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}


def test_the_sealed_result_is_the_one_of_the_specification() -> None:
    sealed = eras.seal(Subscription(1, EVERYTHING).result(), V2026_07_28)
    assert msgspec.to_builtins(sealed) == {
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/subscriptionId": 1},
    }


def test_a_field_that_needs_a_declaration_of_the_client_is_refused_without_it() -> None:
    field = SubscriptionField(name="resource_subscriptions", method="a/b", declared=("extensions", "com.example/a"))
    fields = (CORE_FIELDS[0], field)
    wanted = types.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["tea"])
    with pytest.raises(MissingCapability) as refused:
        require_fields_declared(wanted, types.ClientCapabilities(), fields)
    assert refused.value.data == {"requiredCapabilities": {"extensions": {"com.example/a": {}}}}
    require_fields_declared(wanted, types.ClientCapabilities(extensions={"com.example/a": {}}), fields)
    require_fields_declared(types.SubscriptionFilter(tools_list_changed=True), types.ClientCapabilities(), fields)


def test_a_subject_of_another_field_covers_itself_alone() -> None:
    field = SubscriptionField(name="resource_subscriptions", method="a/b")
    subscription = Subscription(1, types.SubscriptionFilter(resource_subscriptions=["tea"]), [field])
    assert [subscription.enqueue("a/b", subject) for subject in ("tea", "tea/green", None)] == [True, False, False]
