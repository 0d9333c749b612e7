"""Definitions that are registered but not served: `enabled=False`, `server.enable` and `server.disable`."""

import asyncio

import pytest

from dragoman import AsyncClient, Context, DefinitionError, Prompt, Resource, RpcError, Server, Tool
from dragoman.errors import ToolNotUnique
from dragoman.testing import WirePeer

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def of_each_kind(**options):
    """Return a server with three definitions of each kind, of which the second is disabled."""
    server = Server("kinds", secret="a secret of sixteen")
    for name in "abc":
        enabled = name != "b"
        server.tool(f"tool_{name}", enabled=enabled, **options)(lambda: "done")
        server.prompt(f"prompt_{name}", enabled=enabled, **options)(lambda: "hello")
        server.resource(f"r://{name}", name=name, enabled=enabled, **options)(lambda: "text")
        server.resource(f"t://{name}/{{x}}", name=name, enabled=enabled, **options)(lambda x: x)
    return server


KINDS = {
    "tools/list": ("tool_b", ("tools/call", {"name": "tool_b"}), "tools"),
    "prompts/list": ("prompt_b", ("prompts/get", {"name": "prompt_b"}), "prompts"),
    "resources/list": ("r://b", ("resources/read", {"uri": "r://b"}), "resources"),
    "resources/templates/list": ("t://b/{x}", ("resources/read", {"uri": "t://b/1"}), "resources"),
}


@pytest.mark.parametrize("method", KINDS)
async def test_a_disabled_definition_is_neither_listed_nor_served_until_it_is_enabled(method):
    key, request, notified = KINDS[method]
    server = of_each_kind()
    async with WirePeer(server) as peer:

        async def seen():
            listed = (await peer.request(method))["result"][LISTS[method]]
            return len(listed), "result" in await peer.request(*request)

        assert await seen() == (2, False)
        server.enable(key)
        assert (await peer.receive())["method"] == f"notifications/{notified}/list_changed"
        assert await seen() == (3, True)
        server.enable(key)  # nothing changes, and nobody is notified
        server.disable(key)
        assert (await peer.receive())["method"] == f"notifications/{notified}/list_changed"
        assert await seen() == (2, False)
        assert peer.received == []


async def test_an_enabled_definition_is_listed_in_the_place_where_it_was_registered():
    server = of_each_kind()
    server.enable("tool_b")
    server.disable("tool_a")
    server.enable(server.tools[0])
    async with AsyncClient(server) as client:
        assert [tool.name for tool in await client.tools()] == ["tool_a", "tool_b", "tool_c"]


def test_a_disabled_definition_stays_registered():
    server = of_each_kind()
    assert [tool.name for tool in server.tools] == ["tool_a", "tool_b", "tool_c"]
    assert [len(table) for table in (server.prompts, server.resources, server.resource_templates)] == [3, 3, 3]
    with pytest.raises(ToolNotUnique, match="two tools called 'tool_b'"):
        server.tool("tool_b")(lambda: "")
    with pytest.raises(DefinitionError, match="'r://b' is registered already"):
        server.add_resource(Resource(uri="r://b", name="b"))
    server.remove_tool("tool_b")
    assert [tool.name for tool in server.tools] == ["tool_a", "tool_c"]
    with pytest.raises(DefinitionError, match="'tool_b' is not registered"):
        server.enable("tool_b")
    server.tools = [Tool.define(lambda: "", name="new", enabled=False)]
    server.enable("new")
    assert [tool.name for tool in server.tools] == ["new"]
    with pytest.raises(DefinitionError, match="'tool_a' is not registered"):
        server.disable("tool_a")


def test_a_name_of_two_kinds_needs_the_kind():
    server = Server()
    tool = server.tool("review")(lambda: "")
    server.add_prompt(Prompt.define(lambda: "", name="review"))
    with pytest.raises(DefinitionError, match="'review' is a tool and a prompt: choose one with kind='tool'"):
        server.disable("review")
    server.disable("review", kind="prompt")
    assert (list(server.registry.tools), list(server.registry.prompts)) == (["review"], [])
    server.disable(tool)
    assert list(server.registry.tools) == []


async def test_a_call_that_is_being_served_outlives_its_tool():
    server = Server()
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @server.tool
    async def slow(ctx: Context) -> str:
        begun.set()
        await goes_on.wait()
        return "done"

    async with AsyncClient(server) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await begun.wait()
        server.disable("slow")
        goes_on.set()
        assert (await call).text == "done"
        with pytest.raises(RpcError, match="Unknown tool: slow"):
            await client.call_tool("slow")
