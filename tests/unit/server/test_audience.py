"""Who is told what: levels, declared changes, and the connections of a server."""

import gc
import threading

import pytest

from dragoman import Server, types
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.server.audience import LEVELS, Audience, is_told, is_wanted
from dragoman.server.request.call import Session


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threshold", LEVELS)
def test_a_message_is_wanted_from_the_threshold_on(level, threshold):
    assert is_wanted(Server(), level, threshold) is (LEVELS.index(level) >= LEVELS.index(threshold))


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_wanted_without_a_threshold_or_without_the_capability(level):
    assert not is_wanted(Server(), level, None)
    assert not is_wanted(Server(capabilities={"logging": False}), level, "debug")


@pytest.mark.parametrize("threshold", [None, "debug"])
def test_an_unknown_level_is_refused_by_name_whether_anybody_wants_it_or_not(threshold):
    with pytest.raises(ValueError, match="There is no log level 'loud'; there are debug, info, notice, warning"):
        is_wanted(Server(), "loud", threshold)


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
    assert is_told(server, session, method, None)
    assert not any(is_told(server, session, other, None) for other in others)
    assert not is_told(Server(capabilities=types.ServerCapabilities()), session, method, None)


def test_only_who_follows_a_resource_is_told_of_it():
    server, session = Server(capabilities={"resources": {"subscribe": True}}), Session()
    session.subscribe("file:///a")
    assert is_told(server, session, RESOURCE_UPDATED, "file:///a")
    assert not is_told(server, session, RESOURCE_UPDATED, "file:///b")


class Member:
    pass


def test_an_audience_forgets_who_leaves_and_who_is_lost():
    audience = Audience()
    staying, leaving = Member(), Member()
    audience.add(staying)
    audience.add(leaving)
    audience.add(Member())
    audience.discard(leaving)
    audience.discard(leaving)
    gc.collect()
    assert audience.members() == [staying]


def test_an_audience_may_change_while_it_is_told():
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
