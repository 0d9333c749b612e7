"""The names of a group's tools, which tools are chosen, and the prompts and resources of all servers."""

import pytest

from dragoman import (
    AsyncClients,
    NotFound,
    ToolError,
)
from dragoman.client import register_transport
from scenarios.client_peer import DEADLINE
from scenarios.group_servers import DEAD, names, weather
from scenarios.scripted_server import STATELESS, ScriptedServer, page


@pytest.mark.covers("LMG-05", "LMG-06")
async def test_tools_of_one_name_are_told_apart_by_their_servers(notes):
    async with AsyncClients({"notes": notes, "weather": weather()}) as clients:
        tools = await clients.tools()
        assert names(tools) == ["crash", "delete", "forecast", "notes__search", "weather__search", "who"]
        found = {tool.qualified_name: tool for tool in tools}
        assert (found["notes__search"].name, found["notes__search"].server) == ("search", "notes")
        assert (await found["notes__search"](text="tea")).text == "notes about tea"
        assert (await found["weather__search"].call({"text": "tea"}, timeout=DEADLINE)).text == "weather of tea"
        assert (await clients.call_tool(found["weather__search"], {"text": "x"})).text == "weather of x"
        assert (await clients.call_tool(await clients["notes"].tool("who"))).text.startswith("nobody")
        assert (await clients.call_tool("notes__search", {"text": "x"})).text == "notes about x"
        assert (await clients.call_tool("weather__forecast", {"city": "x"})).text == "rain in x"
        assert (await clients.tool("forecast")).server == "weather"
        assert (await clients.tool("notes__who")).qualified_name == "who"
        with pytest.raises(ToolError, match="locked"):
            await clients.call_tool("delete", {"id": 1})
        assert (await clients.call_tool("delete", {"id": 1}, raise_on_error=False)).is_error


async def test_a_name_that_leads_nowhere_or_to_several_is_not_found(notes):
    async with AsyncClients({"notes": notes, "weather": weather()}) as clients:
        with pytest.raises(NotFound) as caught:
            await clients.tool("search")
        assert sorted(caught.value.close_matches) == ["notes__search", "weather__search"]
        with pytest.raises(NotFound) as caught:
            await clients.call_tool("forecats")
        assert caught.value.close_matches == ["forecast"]


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        (None, None, ["crash", "delete", "forecast", "notes__search", "weather__search", "who"]),
        ("forecast", None, ["forecast"]),
        ("search", None, ["notes__search", "weather__search"]),
        (["weather__*"], None, ["forecast", "weather__search"]),
        (None, "notes__*", ["forecast", "weather__search"]),
        (["*search", "who"], ["weather__search"], ["notes__search", "who"]),
        ([], None, []),
        (None, [], ["crash", "delete", "forecast", "notes__search", "weather__search", "who"]),
    ],
)
@pytest.mark.covers("LMG-05")
async def test_tools_are_chosen_by_names_and_patterns(include, exclude, left):
    notes = ScriptedServer({"tools/list": page("tools", "crash", "delete", "search", "who")})
    async with AsyncClients({"notes": notes, "weather": weather()}) as clients:
        assert names(await clients.tools(include, exclude)) == left
        # Which names there are does not depend on what was chosen.
        assert (await clients.call_tool("weather__search", {"text": "x"})).text == "weather of x"


async def test_a_configuration_prefixes_and_hides_tools():
    def numbered(*tools):
        return ScriptedServer({"tools/list": page("tools", *tools), "tools/call": {"content": []}})

    first, second = numbered("read", "write", "drop_all"), numbered("read", "odd name.x")
    register_transport("first", lambda: first)
    register_transport("second", lambda: second)
    servers = {
        "files": {"type": "first", "prefix": "fs", "tools": ["*"], "excludeTools": ["drop_*"]},
        "more": {"type": "second", "with_prefix": True},
    }
    async with AsyncClients(servers) as clients:
        assert names(await clients.tools()) == ["fs__read", "fs__write", "more__odd-name-x", "more__read"]
        await clients.call_tool("more__odd-name-x")
        assert second.sent("tools/call")[0]["name"] == "odd name.x"
        for name in ("write", "files__write", "fs__write"):
            await clients.call_tool(name)
        assert [sent["name"] for sent in first.sent("tools/call")] == ["write"] * 3
        with pytest.raises(NotFound):
            await clients.call_tool("files__drop_all")


async def test_a_call_by_a_name_that_is_known_lists_nothing():
    listed = {"tools/list": page("tools", "go"), "tools/call": {"content": [], "resultType": "complete"}}
    server = ScriptedServer(listed, stateless=True, acknowledges=False)
    async with AsyncClients({"one": server}, protocol_version=STATELESS) as clients:
        await clients.call_tool("go")
        before = len(server.sent("tools/list"))
        await clients.call_tool("one__go")
        await clients.call_tool("go")
        assert len(server.sent("tools/list")) == before


async def test_prompts_resources_and_templates_are_those_of_all_servers(notes):
    async with AsyncClients({"notes": notes, "weather": weather(), "dead": DEAD}) as clients:
        prompts = {prompt.name: prompt for prompt in await clients.prompts()}
        assert set(prompts) == {"summary", "packing"}
        assert (await prompts["summary"].fetch()).text == "Summarise the notes."
        [resource] = await clients.resources()
        assert await resource.content() == "tea"
        [template] = await clients.resource_templates(refresh=True)
        assert await template.fetch(id=3) == "note 3"
