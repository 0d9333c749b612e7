"""The listeners of a server, and which changes they are notified of."""

import gc
import threading

import pytest

from dragoman import Server, types
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.server.audience import Audience, wants_change
from dragoman.server.request.call import Session


@pytest.mark.parametrize(
    ("method", "declared"),
    [
        (TOOLS_CHANGED, types.ServerCapabilities(tools=types.ListChangedCapability(list_changed=True))),
        (PROMPTS_CHANGED, types.ServerCapabilities(prompts=types.ListChangedCapability(list_changed=True))),
        (RESOURCES_CHANGED, types.ServerCapabilities(resources=types.ResourcesCapability(list_changed=True))),
        (RESOURCE_UPDATED, types.ServerCapabilities(resources=types.ResourcesCapability(subscribe=True))),
    ],
)
def test_a_change_is_announced_by_its_own_capability(method, declared):
    others = {TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED, RESOURCE_UPDATED} - {method}
    server, session = Server(capabilities=declared), Session()
    assert wants_change(server, session, method, None)
    assert not any(wants_change(server, session, other, None) for other in others)
    assert not wants_change(Server(capabilities=types.ServerCapabilities()), session, method, None)


def test_only_a_client_that_subscribed_to_a_resource_is_notified_of_it():
    server, session = Server(capabilities={"resources": {"subscribe": True}}), Session()
    session.subscribe("file:///a")
    assert wants_change(server, session, RESOURCE_UPDATED, "file:///a")
    assert not wants_change(server, session, RESOURCE_UPDATED, "file:///b")


class Member:
    pass


def test_an_audience_forgets_listeners_that_are_discarded_or_collected():
    audience = Audience()
    staying, leaving = Member(), Member()
    audience.add(staying)
    audience.add(leaving)
    audience.add(Member())
    audience.discard(leaving)
    audience.discard(leaving)
    gc.collect()
    assert audience.members() == [staying]


def test_an_audience_may_change_while_it_is_read():
    audience = Audience()
    kept = [Member() for _ in range(2000)]

    def come_and_go() -> None:
        for member in kept:
            audience.add(member)
        for member in kept:
            audience.discard(member)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    while thread.is_alive():
        assert len(audience.members()) <= len(kept)
    thread.join()
    assert audience.members() == []
