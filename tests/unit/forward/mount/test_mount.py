"""What a mounted server is known to have, and how its notifications travel."""

import gc
import weakref

import pytest

from dragoman import Server
from dragoman.forward.messages import Subject
from dragoman.forward.mount.mount import find, has, is_open, keys, reads
from dragoman.protocol.methods import METHODS
from scenarios.forwarding_server import forwarding
from scenarios.mounted_servers import shop, weather

ROWS = {row.name: row for row in METHODS}


class Listener:
    def __init__(self, *, is_elsewhere=False):
        self.is_elsewhere = is_elsewhere
        self.heard = []

    def notify_change(self, method, subject=None, params=None):
        self.heard.append((method, subject, params))

    def log(self, level, data, logger):
        self.heard.append((level, data, logger))

    def complete_elicitation(self, id):
        self.heard.append(id)


@pytest.fixture
def servers():
    top, outer, inner = Server("top"), shop(), weather()
    outer.mount(inner, prefix="weather")
    top.mount(outer, prefix="shop", exclude=["weather_ask"])
    return top, outer, inner


def test_names_are_known_at_any_depth(servers):
    top, _, inner = servers
    names = set(keys(top.dispatcher, "tools"))
    assert {"shop_buy", "shop_weather_forecast"} <= names
    assert "shop_weather_ask" not in names
    assert find(top.dispatcher, "tools", "shop_weather_forecast") is inner.registry.tools["forecast"]
    inner.disable("forecast")
    assert find(top.dispatcher, "tools", "shop_weather_forecast") is not None
    assert find(top.dispatcher, "tools", "shop_weather_ask") is None
    assert find(top.dispatcher, "tools", "weather_forecast") is None


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("data://shop/prices", True),
        ("data://shop/weather/cities", True),
        ("data://shop/weather/cities/Rome/low", True),
        ("data://shop/weather/cities/{city}/{level}", True),
        ("data://shop/nothing", False),
        ("data://prices", False),
    ],
)
def test_uris_are_known_at_any_depth(servers, uri, expected):
    assert reads(servers[0].dispatcher, uri) is expected


def test_a_server_with_a_function_for_every_uri_may_have_any(servers):
    top, _, inner = servers
    inner.on_read_resource(lambda uri: uri)
    assert reads(top.dispatcher, "data://shop/weather/nothing") is None
    assert reads(top.dispatcher, "data://shop/nothing") is False


def test_only_a_server_that_forwards_may_have_any_name(servers):
    top, outer, _ = servers
    assert has(top.dispatcher, ROWS["tools/call"], Subject("shop_buy", is_uri=False)) is True
    assert has(top.dispatcher, ROWS["prompts/get"], Subject("shop_buy", is_uri=False)) is False
    assert not is_open(top.dispatcher, "tools/call")
    outer.mount(forwarding("far", lambda method, params: {}), prefix="far")
    assert is_open(top.dispatcher, "tools/call")
    assert has(top.dispatcher, ROWS["tools/call"], Subject("shop_far_x", is_uri=False)) is None


def test_notifications_reach_the_listeners_of_every_server_above_once(servers):
    top, outer, inner = servers
    here, elsewhere = Listener(), Listener(is_elsewhere=True)
    for server in top, outer:
        server.notifier.add(here)
        server.notifier.add(elsewhere)
    inner.notify_resource_updated("data://cities")
    expected = ("notifications/resources/updated", "data://weather/cities", None)
    above = ("notifications/resources/updated", "data://shop/weather/cities", None)
    assert sorted(here.heard) == sorted(elsewhere.heard) == sorted([expected, above])
    here.heard.clear()
    inner.notify_tools_list_changed()
    inner.log("error", "broken")
    inner.notify_elicitation_complete("visit")
    assert len(here.heard) == 6


def test_a_server_that_is_mounted_twice_below_a_parent_notifies_once_unless_the_uris_differ(servers):
    top, outer, inner = servers
    outer.mount(inner, prefix="again")
    top.mount(inner, prefix="beside")
    heard = Listener()
    top.notifier.add(heard)
    inner.notify_tools_list_changed()
    inner.log("error", "broken")
    assert heard.heard == [("notifications/tools/list_changed", None, None), ("error", "broken", None)]
    heard.heard.clear()
    inner.notify_resource_updated("data://cities")
    known = ["data://beside/cities", "data://shop/again/cities", "data://shop/weather/cities"]
    assert sorted(uri for _, uri, _ in heard.heard) == known


def test_a_parent_that_nobody_keeps_is_forgotten():
    outer, inner = shop(), weather()
    outer.mount(inner, prefix="weather")
    gone = weakref.ref(outer)
    (mount,) = inner.dispatcher.mounted_in
    assert "prefix 'weather'" in repr(mount)
    del mount, outer
    gc.collect()
    assert gone() is None
    assert list(inner.dispatcher.mounted_in) == []
    inner.notify_tools_list_changed()
    assert inner.notifier.members() == []
