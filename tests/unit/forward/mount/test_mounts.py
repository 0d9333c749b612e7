"""What mounts add to a server."""

import pytest

from dragoman import DefinitionError, Server
from dragoman.server.dispatch.handlers import HANDLERS
from scenarios.forwarding_server import forwarding
from scenarios.mounted_servers import shop, weather


def test_a_server_without_mounts_has_the_plain_handlers():
    server = shop()
    assert server.dispatcher.handlers == HANDLERS
    assert server.dispatcher.mounts is None
    assert list(server.dispatcher.mounted_in) == []


def test_capabilities_are_joined_and_follow_those_of_a_mounted_server():
    outer, inner = Server("outer"), Server("inner")
    outer.mount(inner, prefix="inner")
    assert outer.capabilities.completions is None
    assert outer.capabilities.resources.subscribe is None
    inner.on_complete(lambda ref, argument, arguments: [])
    inner.on_subscribe(lambda uri: None)
    assert outer.capabilities.completions == {}
    assert outer.capabilities.resources.subscribe is True

    @inner.tool(task=True)
    async def work() -> str:
        return ""

    assert "io.modelcontextprotocol/tasks" in outer.capabilities.extensions
    assert outer.capabilities.tasks is not None
    assert "tasks/get" in outer.offering.offer.methods["2026-07-28"]
    outer.capabilities = {"completions": False}
    assert outer.capabilities.completions is None


def test_a_mounted_definition_is_found_by_its_name_in_the_parent():
    outer, inner = shop(), weather()
    outer.mount(inner, prefix="weather")
    assert outer.dispatcher.mounts.find("tools", "weather_forecast") is inner.registry.tools["forecast"]
    assert outer.dispatcher.mounts.find("tools", "buy") is None


def test_servers_whose_names_only_they_know_need_prefixes():
    outer, one, two = Server("outer"), forwarding("one", print), forwarding("two", print)
    outer.mount(one)
    with pytest.raises(
        DefinitionError, match="Nothing tells the names of 'one' and 'two' apart: mount one of them with"
    ):
        outer.mount(two)
    outer.mount(two, prefix="two")


def test_nothing_is_mounted_into_a_server_that_passes_everything_on():
    far = forwarding("far", print)
    with pytest.raises(
        DefinitionError, match="'far' serves every name, as a proxy does: mount both servers in a third server"
    ):
        far.mount(weather(), prefix="weather")


def test_a_mounted_server_is_checked_with_its_parent():
    outer, inner = shop(), Server("inner")

    @inner.tool(ui="ui://missing")
    def show() -> str:
        return ""

    outer.mount(inner, prefix="inner")
    with pytest.raises(DefinitionError, match="ui://missing"):
        outer.check()
