"""What the official conformance suite does not look at, by our client and our server, over every wire in both eras."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, InputNeeded, InvalidParams, ToolError, ValidationError, types
from dragoman.client import Accept, Sampling
from dragoman.errors import RpcError, Timeout, TransportError
from scenarios.beyond_server import ODD_URI, make
from scenarios.client_peer import DEADLINE, scenario, until
from scenarios.http_peer import serve
from scenarios.raw_http import answering, modern, reply, result, serving

SERVER = Path(__file__).parents[1] / "beyond_server.py"
COMMAND = [sys.executable, "-m", "dragoman", "run", str(SERVER)]
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])
WIRES = pytest.mark.parametrize("over", ["stdio", "http"])


@contextlib.asynccontextmanager
async def connected(over: str, era: str, **options: Any) -> AsyncIterator[AsyncClient]:
    """Connect a client to the server as a process, or over sockets."""
    options = {"mode": era, "timeout": DEADLINE, "connect_timeout": 3 * DEADLINE} | options
    if over == "stdio":
        async with AsyncClient(COMMAND, **options) as client:
            yield client
    else:
        async with serving(serve(make())) as url, AsyncClient(url, **options) as client:
            yield client


async def eventually(look: Callable[[], Any], wanted: Any) -> None:
    """Wait until what an asynchronous function says is what is wanted."""
    async with asyncio.timeout(DEADLINE):
        while await look() != wanted:  # noqa: ASYNC110 - what is looked at is in another process
            await asyncio.sleep(0.01)


@pytest.mark.covers("BEY-08", "BEY-10")
@WIRES
@ERAS
@scenario
async def test_an_unknown_tool_is_invalid_params_and_arguments_that_do_not_fit_are_for_the_model(over, era):
    async with connected(over, era) as client:
        with pytest.raises(InvalidParams, match="no_such") as refused:
            await client.call_tool("no_such")
        assert refused.value.code == -32602
        for arguments, named in ({}, "city"), ({"city": 5}, "city"), ({"city": "Oslo", "days": 8}, "days"):
            with pytest.raises(ToolError, match=named):
                await client.call_tool("weather", arguments)
        assert (await client.call_tool("weather", {"city": "Oslo", "days": 7})).structured["celsius"] == 27.5


@pytest.mark.covers("BEY-12")
@WIRES
@ERAS
@scenario
async def test_every_page_is_read_and_a_page_is_had_alone(over, era):
    async with connected(over, era) as client:
        names = [tool.name for tool in await client.tools()]
        assert names[:4] == ["weather", "lie", "link", "visit"]
        assert len(names) == 9
        page = await client.list_tools()
        assert ([tool.name for tool in page.tools], page.next_cursor is None) == (names[:3], False)
        following = await client.list_tools(page.next_cursor)
        assert [tool.name for tool in following.tools] == names[3:6]
        with pytest.raises(InvalidParams):
            await client.list_tools("no cursor of yours")


@pytest.mark.covers("BEY-13")
@WIRES
@ERAS
@scenario
async def test_structured_output_fits_its_schema_or_is_refused_by_a_strict_client(over, era):
    async with connected(over, era, strict=True) as client:
        schema = (await client.tool("weather")).output_schema
        assert schema["properties"]["celsius"] == {"type": "number"}
        found = await client.call_tool("weather", {"city": "Oslo"})
        assert found.structured == {"city": "Oslo", "celsius": 21.5}
        assert found.text == '{"city":"Oslo","celsius":21.5}'
        with pytest.raises(ValidationError, match="sum"):
            await client.call_tool("lie")


@pytest.mark.covers("BEY-14")
@WIRES
@ERAS
@scenario
async def test_a_resource_link_leads_to_what_it_names(over, era):
    async with connected(over, era) as client:
        text, link = (await client.call_tool("link")).content
        assert text.text == "The note:"
        assert isinstance(link, types.ResourceLink)
        assert (link.name, link.mime_type, link.size) == ("first", "text/plain", 11)
        assert (await client.read_resource(link.uri)).contents[0].text == "Buy a coat."


@pytest.mark.covers("BEY-15")
@WIRES
@ERAS
@scenario
async def test_a_user_is_sent_to_a_page_and_only_consent_comes_back(over, era):
    asked = []

    def on_elicitation(request):
        asked.append((request.mode, request.url, request.host, request.server))
        return Accept()

    async with connected(over, era, on_elicitation=on_elicitation) as client:
        assert (await client.call_tool("visit")).text == "accept None"
    assert asked == [("url", "https://example.com/login?who=me", "example.com", "beyond")]


@pytest.mark.covers("BEY-15")
@WIRES
@ERAS
@scenario
async def test_a_client_that_asks_nobody_is_not_sent_to_a_page(over, era):
    async with connected(over, era) as client:
        with pytest.raises((ToolError, RpcError, InputNeeded)) as refused:
            await client.call_tool("visit")
        assert "elicitation" in str(refused.value).lower()


@pytest.mark.covers("BEY-16")
@WIRES
@ERAS
@scenario
async def test_a_model_is_given_tools_and_its_use_of_them_comes_back(over, era):
    asked = []

    def complete(request):
        asked.append(([tool.name for tool in request.tools], request.tool_choice.mode))
        return [types.ToolUseContent(id="1", name="look_up", input={"word": "dragoman"})]

    async with connected(over, era, on_sampling=Sampling(complete, tools=True)) as client:
        assert (await client.call_tool("reason")).text == "toolUse: look_up {'word': 'dragoman'}"
    assert asked == [(["look_up"], "required")]


@pytest.mark.covers("BEY-16")
@WIRES
@ERAS
@scenario
async def test_a_model_that_takes_no_tools_is_not_given_any(over, era):
    asked = []
    async with connected(over, era, on_sampling=asked.append) as client:
        with pytest.raises((ToolError, RpcError), match=r"sampling\.tools"):
            await client.call_tool("reason")
    assert asked == []


@pytest.mark.covers("BEY-17")
@WIRES
@ERAS
@scenario
async def test_roots_are_those_of_the_moment(over, era, tmp_path):
    async with connected(over, era, roots=[tmp_path]) as client:
        assert (await client.call_tool("roots")).text == f"{tmp_path.name}={tmp_path.as_uri()}"
        client.roots.add(tmp_path / "more")
        assert (await client.call_tool("roots")).text.split()[1] == f"more={(tmp_path / 'more').as_uri()}"


@pytest.mark.covers("BEY-11")
@WIRES
@ERAS
@scenario
async def test_what_a_client_gives_up_is_given_up_by_the_server(over, era):
    async with connected(over, era) as client:
        waiting = asyncio.Event()

        async def given_up() -> Any:
            return (await client.call_tool("given_up")).structured

        call = asyncio.create_task(client.call_tool("wait", {"name": "task"}, on_progress=lambda *told: waiting.set()))
        await asyncio.wait_for(waiting.wait(), DEADLINE)
        call.cancel()
        await asyncio.wait([call], timeout=DEADLINE)
        assert call.cancelled()
        await eventually(given_up, ["task"])
        waiting.clear()
        with pytest.raises(Timeout):
            await client.call_tool("wait", {"name": "clock"}, timeout=2, on_progress=lambda *told: waiting.set())
        assert waiting.is_set(), "the tool must have begun before its time is up"
        await eventually(given_up, ["task", "clock"])


@pytest.mark.covers("BEY-18", "BEY-19")
@WIRES
@ERAS
@scenario
async def test_who_follows_a_resource_is_told_of_it_and_of_no_other(over, era):
    told, lists = [], []
    async with connected(over, era, on_list_changed=lists.append) as client:
        await client.tools()
        await client.subscribe("note://1", told.append)
        await client.call_tool("change", {"uri": "note://2"})
        await client.call_tool("change", {"uri": "note://1"})
        await until(lambda: told == ["note://1"] and "tools" in lists)
        await client.unsubscribe("note://1")
        lists.clear()
        await client.tools()
        await client.call_tool("change", {"uri": "note://1"})
        await until(lambda: "tools" in lists)
    assert told == ["note://1"]


@pytest.mark.covers("BEY-20")
@WIRES
@scenario
async def test_discovery_says_how_long_it_holds(over):
    async with connected(over, "stateless") as client:
        discovered = await client.request("server/discover")
        assert (discovered["ttlMs"], discovered["cacheScope"]) == (60_000, "public")
        assert discovered["resultType"] == "complete"


@pytest.mark.covers("BEY-03", "BEY-04")
@WIRES
@ERAS
@scenario
async def test_names_that_no_header_carries_or_that_look_wrapped_arrive_as_they_are(over, era):
    async with connected(over, era) as client:
        assert (await client.read_resource(ODD_URI)).contents[0].text == "not what it looks like"
        for name, said in ("=?base64?eA==?=", "called like a header"), ("zoë", "no header carries"):
            assert said in (await client.get_prompt(name)).messages[0].content.text
        assert (await client.read_resource("note://日本")).contents[0].text.startswith("about ")


@pytest.mark.covers("BEY-01")
@pytest.mark.parametrize("kind", ["task", "", "Complete", 7])
@scenario
async def test_a_result_of_an_unknown_type_is_refused_over_http_whatever_was_asked(kind):
    answers = {
        "tools/call": {"content": []},
        "tools/list": {"tools": [], "ttlMs": 0, "cacheScope": "private"},
        "resources/read": {"contents": [], "ttlMs": 0, "cacheScope": "private"},
        "prompts/get": {"messages": []},
    }

    async def script(request, writer):
        return reply(200, result(request, answers[request.method] | types_said))

    offered = {"tools": {}, "resources": {}, "prompts": {}}
    types_said: dict[str, Any] = {}
    async with (
        answering(modern(script, capabilities=offered)) as server,
        AsyncClient(server.url, mode="stateless") as client,
    ):
        asking = [
            lambda: client.call_tool("x"),
            lambda: client.list_tools(),
            lambda: client.read_resource("a://b"),
            lambda: client.get_prompt("x"),
        ]
        for ask in asking:
            types_said.clear()
            await ask()
            types_said["resultType"] = kind
            with pytest.raises((TransportError, ValidationError), match=r"[tT]ype"):
                await ask()
