"""A server that is mounted in another serves the clients of the other, on every carrier and in both eras."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import AsyncClient, InvalidParams, RpcError, Server, ToolError
from dragoman.testing import WirePeer, connected
from ports import free_port
from scenarios import mounted_servers
from scenarios.mounted_servers import mounted, shop, weather

ERAS = ["handshake", "stateless"]
EVERY_ERA = pytest.mark.parametrize("era", ERAS)
DEADLINE = 60


@asynccontextmanager
async def client_of(carrier: str, era: str, **options) -> AsyncIterator[AsyncClient]:
    """Connect a client to the shop with the weather in it."""
    options["on_elicitation"] = lambda request: {"value": "Oslo" if "city" in request.message else "Monday"}
    program = Path(mounted_servers.__file__)
    if carrier == "memory":
        async with connected(mounted(), era, **options) as client:
            yield client
    elif carrier == "stdio":
        environment = {"PYTHONPATH": str(program.parents[1])}
        async with connected([sys.executable, str(program)], era, env=environment, **options) as client:
            yield client
    else:
        port = free_port()
        serving = asyncio.create_task(mounted().run_async("http", port=port))
        try:
            async with connected(f"http://127.0.0.1:{port}/mcp", era, **options) as client:
                yield client
        finally:
            serving.cancel()
            await asyncio.wait([serving])


@EVERY_ERA
@pytest.mark.parametrize("carrier", ["memory", "stdio", "http"])
@pytest.mark.covers("MNT-01", "MNT-02", "MNT-03", "MNT-05")
async def test_everything_of_a_mounted_server_is_served_under_its_prefix(carrier, era):
    heard = []
    progressed = []
    options = {"on_log": lambda message: heard.append(message.data)}
    async with client_of(carrier, era, **options) as client:
        own = ["forecast", "measure", "ask", "links", "touch"]
        assert [tool.name for tool in await client.tools()] == ["buy", *(f"weather_{name}" for name in own)]
        assert [one.uri for one in await client.resources()] == ["data://prices", "data://weather/cities"]
        assert [one.uri_template for one in await client.resource_templates()] == [
            "data://weather/cities/{city}/{level}"
        ]
        assert [prompt.name for prompt in await client.prompts()] == ["weather_report"]
        assert client.instructions == "Be kind.\n\nWhat begins with 'weather_': Ask for one city."
        assert client.server_info.name == "shop"

        assert (await client.call_tool("buy", {"item": "tea"})).text == "bought tea"
        assert (await client.call_tool("weather_forecast", {"city": "Oslo"})).text == "Sunny in Oslo"
        await client.set_log_level("info")
        measured = await client.call_tool("weather_measure", on_progress=lambda *given: progressed.append(given))
        assert measured.text == "21 at station 7"
        assert progressed == [(1, 2, "reading")]
        assert heard == ["measured"]
        assert (await client.call_tool("weather_ask")).text == "Oslo on Monday"
        link, foreign, embedded = (await client.call_tool("weather_links")).content
        assert (link.uri, embedded.resource.uri) == ("data://weather/cities", "data://weather/cities")
        assert foreign.uri == "file:///elsewhere"

        (contents,) = (await client.read_resource(link.uri)).contents
        assert (contents.uri, contents.text) == ("data://weather/cities", "Oslo, Rome")
        template = (await client.resource_templates())[0]
        assert await template.fetch(city="Rome", level="low") == "Rome low"
        assert (await template.complete("level", "h")).values == ["high"]
        (message,) = (await client.get_prompt("weather_report", {"city": "Oslo"})).messages
        assert message.content.uri == "data://weather/cities"
        prompt = (await client.prompts())[0]
        assert (await prompt.complete("city", "R")).values == ["Rome"]


@EVERY_ERA
@pytest.mark.covers("MNT-04")
async def test_what_is_registered_later_shows_and_list_changed_reaches_the_clients_of_the_parent(era):
    inner, outer, middle = weather(), shop(), Server("region")
    middle.mount(inner, prefix="weather")
    outer.mount(middle, prefix="north", separator=".")
    changed = asyncio.Event()
    async with connected(outer, era, on_notification=lambda message: changed.set()) as client:
        assert "north.weather_forecast" in [tool.name for tool in await client.tools()]

        @inner.tool
        def wind() -> str:
            return "west"

        inner.notify_tools_list_changed()
        await asyncio.wait_for(changed.wait(), DEADLINE)
        assert "north.weather_wind" in [tool.name for tool in await client.tools(refresh=True)]
        assert (await client.call_tool("north.weather_wind")).text == "west"
        inner.disable("wind")
        with pytest.raises(InvalidParams, match=r"Unknown tool: north.weather_wind"):
            await client.call_tool("north.weather_wind")
        assert (await client.read_resource("data://north/weather/cities/Rome/low")).contents[0].text == "Rome low"


@EVERY_ERA
@pytest.mark.covers("MNT-04")
async def test_a_subscription_is_known_to_the_mounted_server_and_its_updates_come_with_the_parents_uri(era):
    inner, outer = weather(), shop()
    outer.mount(inner, prefix="weather")
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with connected(outer, era) as client:
        await client.subscribe("data://weather/cities", heard.put_nowait)
        inner.notify_resource_updated("data://other")
        inner.notify_resource_updated("data://cities")
        assert await asyncio.wait_for(heard.get(), DEADLINE) == "data://weather/cities"
        await client.call_tool("weather_touch")
        assert await asyncio.wait_for(heard.get(), DEADLINE) == "data://weather/cities"
        if era == "handshake":
            assert "data://cities" in inner.server_context
        await client.unsubscribe("data://weather/cities")
        inner.notify_resource_updated("data://cities")
        await client.call_tool("buy", {"item": "tea"})
        assert heard.empty()


@EVERY_ERA
async def test_a_server_is_mounted_twice_and_served_by_itself_at_the_same_time(era):
    inner, outer = weather(), shop()
    outer.mount(inner, prefix="a")
    outer.mount(inner, prefix="b", include={"forecast", "data://cities/{city}/{level}"})
    async with connected(outer, era) as client, connected(inner, era) as alone:
        names = [tool.name for tool in await client.tools()]
        assert [name for name in names if "forecast" in name] == ["a_forecast", "b_forecast"]
        assert "b_measure" not in names
        with pytest.raises(InvalidParams, match="Unknown tool: b_measure"):
            await client.call_tool("b_measure")
        for one, name in (client, "a_forecast"), (client, "b_forecast"), (alone, "forecast"):
            assert (await one.call_tool(name, {"city": "Rome"})).text == "Sunny in Rome"
        assert (await client.read_resource("data://b/cities/Rome/low")).contents[0].uri == "data://b/cities/Rome/low"
        with pytest.raises(RpcError):
            await client.read_resource("data://b/cities")
    assert inner.server_context == ["opened", "closed"]


@EVERY_ERA
@pytest.mark.covers("MNT-07")
async def test_the_lifespan_of_a_mounted_server_lasts_as_long_as_that_of_its_parent(era):
    inner, outer, order = weather(), shop(), []

    @outer.lifespan
    async def counter():
        order.append(list(inner.server_context))
        yield
        order.append(list(inner.server_context))

    outer.mount(inner, prefix="weather")
    async with outer.serving():
        assert inner.server_context == ["opened"]
    assert order == [[], ["opened", "closed"]]
    async with connected(outer, era) as client:
        assert (await client.call_tool("weather_measure")).text == "21 at station 7"


@EVERY_ERA
@pytest.mark.covers("MNT-02")
async def test_names_are_renamed_left_out_and_kept_without_a_prefix(era):
    inner, outer = weather(), shop()
    renamed = {"forecast": "sky", "data://cities": "city://all"}
    outer.mount(inner, separator="-", rename=renamed, exclude=["ask", "t*", "data://cities/*"])
    async with connected(outer, era) as client:
        assert [tool.name for tool in await client.tools()] == ["buy", "sky", "measure", "links"]
        assert (await client.call_tool("sky", {"city": "Rome"})).text == "Sunny in Rome"
        assert [one.uri for one in await client.resources()] == ["data://prices", "city://all"]
        assert await client.resource_templates() == []
        assert (await client.read_resource("city://all")).contents[0].uri == "city://all"
        assert (await client.call_tool("links")).content[0].uri == "city://all"
        for name in "forecast", "ask", "touch":
            with pytest.raises(InvalidParams, match=f"Unknown tool: {name}"):
                await client.call_tool(name)
        with pytest.raises(RpcError):
            await client.read_resource("data://cities/Rome/low")


@EVERY_ERA
async def test_the_pages_of_the_parent_hold_what_the_mounted_servers_have(era):
    inner, outer = weather(), shop()
    inner.page_size, outer.page_size = 2, 4
    outer.mount(inner, prefix="weather")
    async with connected(outer, era) as client:
        first = await client.list_tools()
        second = await client.list_tools(cursor=first.next_cursor)
        assert [len(first.tools), len(second.tools), second.next_cursor] == [4, 2, None]
        assert [tool.name for tool in await client.tools()] == [tool.name for tool in [*first.tools, *second.tools]]
        with pytest.raises(InvalidParams, match="Invalid cursor"):
            await client.list_tools(cursor="400")


@EVERY_ERA
async def test_a_cancelled_call_ends_the_handler_of_the_mounted_server(era):
    inner, outer = Server("inner"), shop()
    began, ended = asyncio.Event(), asyncio.Event()

    @inner.tool
    async def endless() -> str:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return ""

    outer.mount(inner, prefix="inner")
    async with connected(outer, era) as client:
        calling = asyncio.create_task(client.call_tool("inner_endless"))
        await asyncio.wait_for(began.wait(), DEADLINE)
        calling.cancel()
        await asyncio.wait_for(ended.wait(), DEADLINE)
        with pytest.raises(asyncio.CancelledError):
            await calling


@EVERY_ERA
async def test_errors_and_failures_of_a_mounted_server_come_as_its_own_clients_get_them(era):
    inner, outer = weather(), shop()

    @inner.tool
    def refuse() -> str:
        raise ToolError("not today")

    @inner.resource("data://broken")
    def broken() -> str:
        raise RpcError(-32050, "broken", {"why": "rain"})

    outer.mount(inner, prefix="weather")
    async with connected(outer, era) as client:
        with pytest.raises(ToolError, match="not today"):
            await client.call_tool("weather_refuse")
        with pytest.raises(ToolError, match="city"):
            await client.call_tool("weather_forecast", {"town": "Rome"})
        with pytest.raises(RpcError) as raised:
            await client.read_resource("data://weather/broken")
        assert (raised.value.code, raised.value.data) == (-32050, {"why": "rain"})
        with pytest.raises(RpcError, match="data://weather/nothing"):
            await client.read_resource("data://weather/nothing")
        with pytest.raises(InvalidParams, match="Unknown prompt: weather_nothing"):
            await client.get_prompt("weather_nothing")


@EVERY_ERA
async def test_methods_of_ones_own_and_hooks_for_roots_are_those_of_the_mounted_server_too(era):
    inner, outer, changed = Server("inner"), shop(), asyncio.Event()

    @inner.method("acme/add")
    def add(a: int, b: int) -> dict:
        return {"uri": "data://x", "sum": a + b}

    inner.on_roots_changed(changed.set)
    outer.mount(inner, prefix="inner")
    outer.mount(inner, prefix="again")
    async with WirePeer(outer, era, capabilities={"roots": {"listChanged": True}}) as peer:
        answer = await peer.request("acme/add", {"a": 1, "b": 2})
        assert (answer["result"]["sum"], answer["result"]["uri"]) == (3, "data://x")
        if era == "handshake":
            peer.notify("notifications/roots/list_changed")
            await asyncio.wait_for(changed.wait(), DEADLINE)
