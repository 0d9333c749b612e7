"""The listeners of a server, and which changes they are notified of."""

import gc
import threading

import pytest

from dragoman import Server, types
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.server.notifier import Notifier, wants_change
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
    assert wants_change(server.offering, session, method, None)
    assert not any(wants_change(server.offering, session, other, None) for other in others)
    assert not wants_change(Server(capabilities=types.ServerCapabilities()).offering, session, method, None)


def test_only_a_client_that_subscribed_to_a_resource_is_notified_of_it():
    server, session = Server(capabilities={"resources": {"subscribe": True}}), Session()
    session.subscribe("file:///a")
    assert wants_change(server.offering, session, RESOURCE_UPDATED, "file:///a")
    assert not wants_change(server.offering, session, RESOURCE_UPDATED, "file:///b")


class Member:
    pass


def test_a_notifier_forgets_listeners_that_are_discarded_or_collected():
    notifier = Server().notifier
    staying, leaving = Member(), Member()
    notifier.add(staying)
    notifier.add(leaving)
    notifier.add(Member())
    notifier.discard(leaving)
    notifier.discard(leaving)
    gc.collect()
    assert notifier.members() == [staying]


def test_listeners_may_change_while_they_are_read():
    notifier = Server().notifier
    kept = [Member() for _ in range(2000)]

    def come_and_go() -> None:
        for member in kept:
            notifier.add(member)
        for member in kept:
            notifier.discard(member)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    while thread.is_alive():
        assert len(notifier.members()) <= len(kept)
    thread.join()
    assert notifier.members() == []


class Listener:
    def __init__(self) -> None:
        self.changes: list[str] = []

    def notify_change(self, method, subject=None, params=None):
        self.changes.append(method)
        return True


def test_a_notifier_tells_whether_a_listener_gets_a_change_and_reports_a_listener_that_fails():
    reported: list[BaseException] = []
    notifier = Notifier(Server().offering, lambda error, call, info: reported.append(error))
    assert notifier.notify_change(TOOLS_CHANGED) is False
    listener, broken = Listener(), Listener()
    broken.notify_change = None
    notifier.add(listener)
    notifier.add(broken)
    assert notifier.notify_change(TOOLS_CHANGED) is True
    assert listener.changes == [TOOLS_CHANGED]
    assert [type(error) for error in reported] == [TypeError]
