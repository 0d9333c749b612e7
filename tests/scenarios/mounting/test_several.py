"""Several servers behind one: real processes and sockets, of which some are away, and files that describe them."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, ConfigError, Context, DefinitionError, InvalidParams, RpcError, Server
from dragoman.client.connect import reconnect
from dragoman.forward.mount import merged_listening
from dragoman.forward.proxy.known_targets import CONNECT_WAIT
from ports import free_port
from scenarios.group_servers import DEAD, HANGING, NOTES, weather
from scenarios.plain_target import COMMAND, is_running
from scenarios.proxied_http import serving_itself
from scenarios.raw_http import serving
from scenarios.restarted_target import Target, target

DEADLINE = 60
ERAS = ["handshake", "stateless"]
UNREACHABLE = r"cannot be reached|was lost"


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attempts to reconnect follow each other quickly."""
    monkeypatch.setattr(reconnect, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(merged_listening, "LONGEST_PAUSE", 0.2)


@pytest.fixture
def notes(tmp_path: Path) -> dict[str, Any]:
    """Return the entry of a server on stdio."""
    program = tmp_path / "notes.py"
    program.write_text(NOTES)
    return {"command": sys.executable, "args": [str(program)]}


def entry_of(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


@contextlib.asynccontextmanager
async def front(server: Server) -> AsyncIterator[str]:
    """Serve over HTTP, with the principals that the header X-User names."""
    app = server.asgi(auth=lambda request: request.headers.get("X-User", "ann"))
    async with asyncio.timeout(DEADLINE), serving_itself(app) as port:
        yield f"http://127.0.0.1:{port}/mcp"


async def names(client: AsyncClient) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def until_listed(client: AsyncClient, *tools: str) -> None:
    while await names(client) != list(tools):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_is_dead_appears_when_it_comes_up_and_another_may_die_meanwhile(era, notes):
    late, heard = Target(free_port()), asyncio.Queue[str]()
    async with target("search") as shop:
        servers = {"notes": notes, "shop": {"url": shop.url}, "late": {"url": late.url}}
        notes_tools = [f"notes_{name}" for name in ("search", "delete", "who", "crash")]
        async with (
            front(Server.proxy({"mcpServers": servers}, name="office")) as url,
            AsyncClient(url, mode=era, on_list_changed=heard.put_nowait) as client,
        ):
            assert client.server_info.name == "office"
            assert "What begins with 'shop_': Ask for one city." in client.instructions
            await client.tools()  # a client of 2026-07-28 listens to the changes of what it keeps
            assert await names(client) == [*notes_tools, "shop_search"]
            assert (await client.call_tool("notes_search", {"text": "tea"})).text == "notes about tea"
            assert (await client.read_resource("notes://notes/all")).contents[0].text == "tea"
            with pytest.raises(RpcError, match=r"late.*cannot be reached"):
                await client.call_tool("late_forecast")
            try:
                await late.start("forecast")
                assert await heard.get() in ("tools", "prompts", "resources")
                await until_listed(client, *notes_tools, "shop_search", "late_forecast")
                await client.call_tool("late_forecast")
                await shop.kill()
                with pytest.raises(RpcError, match=UNREACHABLE):
                    await client.call_tool("shop_search")
                assert await names(client) == [*notes_tools, "shop_search", "late_forecast"]
                assert (await client.call_tool("notes_search", {"text": "tea"})).text == "notes about tea"
                while not heard.empty():
                    heard.get_nowait()
                await shop.start("search", "sell")
                await heard.get()
                await until_listed(client, *notes_tools, "shop_search", "shop_sell", "late_forecast")
                await client.call_tool("shop_sell")
            finally:
                await late.kill()


async def test_every_client_hears_of_a_server_that_comes_up_also_after_another_client_has_gone(notes):
    late = Target(free_port())
    async with front(Server.proxy({"mcpServers": {"notes": notes, "late": {"url": late.url}}})) as url:
        async with AsyncClient(url, mode="handshake") as first:
            await names(first)
        changes = {era: asyncio.Queue[str]() for era in ERAS}
        async with (
            AsyncClient(url, mode=ERAS[0], on_list_changed=changes[ERAS[0]].put_nowait) as one,
            AsyncClient(url, mode=ERAS[1], on_list_changed=changes[ERAS[1]].put_nowait) as other,
        ):
            for client in (one, other):
                assert "late" not in {tool.name.partition("_")[0] for tool in await client.tools()}
            try:
                await late.start("forecast")
                for queue in changes.values():
                    await queue.get()
                for client in (one, other):
                    while "late_forecast" not in await names(client):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            finally:
                await late.kill()


@pytest.mark.parametrize("era", ERAS)
async def test_servers_that_do_not_answer_delay_lists_together_and_only_once(era, notes):
    servers = {"slow": entry_of(HANGING), "notes": notes, "slower": entry_of(HANGING), "dead": entry_of(DEAD)}
    async with (
        front(Server.proxy({"mcpServers": servers}, connect_timeout=2)) as url,
        AsyncClient(url, mode=era) as client,
    ):
        await names(client)
        for _ in range(2):
            began = time.monotonic()
            assert {name.partition("_")[0] for name in await names(client)} == {"notes"}
            assert time.monotonic() - began < CONNECT_WAIT


@pytest.mark.parametrize("era", ERAS)
async def test_two_servers_have_a_tool_of_the_same_name(era, notes):
    async with (
        serving(weather().asgi()) as url,
        AsyncClient(Server.proxy({"notes": notes, "weather": {"url": url}}), mode=era) as client,
    ):
        assert (await client.call_tool("notes_search", {"text": "tea"})).text == "notes about tea"
        assert (await client.call_tool("weather_search", {"text": "Oslo"})).text == "weather of Oslo"


async def test_a_file_chooses_prefixes_tools_and_servers(tmp_path, notes):
    path = tmp_path / "mcp.json"
    servers = {
        "My Notes": {**notes, "excludeTools": ["dele*", "crash"]},
        "again": {**notes, "tools": ["search"], "prefix": "second"},
        "off": {"command": "${VARIABLE_OF_NOBODY}", "disabled": True},
    }
    path.write_text(f"// two servers\n{json.dumps({'mcpServers': servers})}")
    for given in (path, str(path)):
        async with asyncio.timeout(DEADLINE), AsyncClient(Server.proxy(given)) as client:
            assert await names(client) == ["My-Notes_search", "My-Notes_who", "second_search"]
            assert {prompt.name for prompt in await client.prompts()} == {"My-Notes_summary", "second_summary"}
            with pytest.raises(InvalidParams, match="Unknown tool: second_delete"):
                await client.call_tool("second_delete", {"id": 1})


@pytest.mark.parametrize("era", ERAS)
async def test_principals_are_isolated_at_every_server(era):
    servers = {"one": entry_of(COMMAND), "two": entry_of(COMMAND)}
    async with front(Server.proxy({"mcpServers": servers}, isolate="principal")) as url:

        async def pids(user: str) -> list[str]:
            async with AsyncClient(url, mode=era, headers={"X-User": user}) as client:
                return [(await client.call_tool(f"{name}_pid")).text for name in servers]

        ann, bob = await pids("ann"), await pids("bob")
        assert len({*ann, *bob}) == 4
        assert await pids("ann") == ann


async def test_all_servers_share_the_limit_of_connections():
    servers = {"one": entry_of(COMMAND), "two": entry_of(COMMAND)}
    proxy = Server.proxy({"mcpServers": servers}, isolate="principal", max_connections=8)
    async with front(proxy) as url, contextlib.AsyncExitStack() as stack:
        processes: list[int] = []
        for _ in range(3):
            client = AsyncClient(
                url, mode="handshake", headers={"X-User": "eve"}, on_elicitation=lambda _: {"value": "x"}
            )
            await stack.enter_async_context(client)
            processes += [int((await client.call_tool(f"{name}_pid")).text) for name in servers]
        while sum(map(is_running, processes)) != 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("era", ERAS)
async def test_credentials_are_forwarded_only_to_servers_with_a_url_and_none_of_their_own(era, notes):
    inner = Server("inner")

    @inner.tool
    async def authorization(ctx: Context) -> str:
        return ctx.headers.get("Authorization", "none")

    async with serving(inner.asgi()) as to:
        own = {"url": to, "headers": {"Authorization": "Bearer own"}}
        servers = {"notes": notes, "theirs": {"url": to}, "own": own}
        proxy = Server.proxy({"mcpServers": servers}, forward_credentials=True)
        async with front(proxy) as url, AsyncClient(url, mode=era, auth="caller") as client:
            assert (await client.call_tool("theirs_authorization")).text == "Bearer caller"
            assert (await client.call_tool("own_authorization")).text == "Bearer own"
            assert (await client.call_tool("notes_search", {"text": "tea"})).text == "notes about tea"
    with pytest.raises(DefinitionError, match="needs a server with a URL and without credentials of its own"):
        Server.proxy({"mcpServers": {"notes": notes, "own": own}}, forward_credentials=True)


@pytest.mark.parametrize("era", ERAS)
async def test_any_target_is_mounted(era, tmp_path, notes):
    outer, path = Server("outer"), tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"notes": notes}}))
    async with serving(weather().asgi()) as url:
        outer.mount(url, prefix="url", include=["forecast"])
        outer.mount([notes["command"], *notes["args"]], prefix="command", include=["search"])
        outer.mount(Path(notes["args"][0]), prefix="path", rename={"search": "find"}, include=["search"])
        outer.mount(notes, prefix="entry", include=["who"])
        outer.mount(path, prefix="file", include=["notes_search"])
        async with asyncio.timeout(DEADLINE), AsyncClient(outer, mode=era) as client:
            tools = ["url_forecast", "command_search", "find", "entry_who", "file_notes_search"]
            assert await names(client) == tools
            assert (await client.call_tool("url_forecast", {"city": "Oslo"})).text == "rain in Oslo"
            for tool in ("command_search", "find", "file_notes_search"):
                assert (await client.call_tool(tool, {"text": "tea"})).text == "notes about tea"


def test_the_target_of_a_mount_is_checked_as_a_server_is(tmp_path):
    outer = Server("outer")
    outer.mount(["one"])
    with pytest.raises(DefinitionError, match="Nothing tells the names of 'proxy' and 'proxy' apart"):
        outer.mount(["two"])
    with pytest.raises(DefinitionError, match="The prefix of a mounted server must be letters"):
        outer.mount("https://example.com/mcp", prefix="a b")
    with pytest.raises(ConfigError, match=r"absent\.json: the file cannot be read"):
        outer.mount(tmp_path / "absent.json")
