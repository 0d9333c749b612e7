"""What the official conformance suite does not look at, by our client and our server, over every wire in both eras."""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, InvalidParams, ValidationError, types
from dragoman.errors import TransportError
from scenarios.beyond_server import ODD_URI, make
from scenarios.client_peer import DEADLINE, scenario
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


@pytest.mark.covers("BEY-12")
@WIRES
@ERAS
@scenario
async def test_every_page_is_read_and_a_page_is_had_alone(over, era):
    async with connected(over, era) as client:
        names = [tool.name for tool in await client.tools()]
        assert names == ["weather", "lie", "link"]
        page = await client.list_tools()
        assert ([tool.name for tool in page.tools], page.next_cursor is None) == (names[:2], False)
        following = await client.list_tools(page.next_cursor)
        assert [tool.name for tool in following.tools] == names[2:]
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
