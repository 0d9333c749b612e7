"""Resources and prompts as tools, for hosts that know only tools."""

import asyncio
import threading
from base64 import b64encode

import pytest

from dragoman import AsyncClient, BlockingContext, Context, Server, ToolError, types
from dragoman.auth import Identity
from dragoman.errors import ToolNotUnique
from scenarios.http_peer import STATELESS, HttpPeer

EVERY_VERSION = pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
NAMES = ["list_resources", "read_resource", "list_prompts", "get_prompt"]


def library(**options):
    server = Server("library", secret="a secret of sixteen", **options)
    server.resource("book://1", name="one", description="The first.", mime_type="text/markdown")(lambda: "# One")
    server.resource("cover://1", name="cover", mime_type="image/png")(lambda: b"png")
    server.resource("sound://1", name="sound", mime_type="audio/wav")(lambda: b"wav")
    server.resource("scan://1", name="scan", mime_type="application/pdf")(lambda: b"pdf")
    server.resource("book://{number}/pages/{page}", name="page")(lambda number, page: f"{number}, {page}")

    @server.prompt(description="Reviews a book.")
    def review(title: str, tone: str = "kind") -> str:
        return f"Review {title}, {tone}"

    server.expose_as_tools()
    return server


@EVERY_VERSION
async def test_a_host_that_knows_only_tools_finds_and_reads_resources(version):
    async with AsyncClient(library(), protocol_version=version) as client:
        assert [tool.name for tool in await client.tools()] == NAMES
        assert all(tool.annotations.read_only_hint for tool in await client.tools())
        found = (await client.call_tool("list_resources")).structured
        assert found["resources"][0] == {
            "uri": "book://1",
            "name": "one",
            "description": "The first.",
            "mimeType": "text/markdown",
        }
        assert [one["name"] for one in found["resources"]] == ["one", "cover", "sound", "scan"]
        assert [one["uriTemplate"] for one in found["resourceTemplates"]] == ["book://{number}/pages/{page}"]

        async def read(uri):
            return (await client.call_tool("read_resource", {"uri": uri})).content

        assert await read("book://1") == [types.TextContent("# One")]
        assert await read("book://7/pages/9") == [types.TextContent("7, 9")]
        assert await read("cover://1") == [types.ImageContent(b64encode(b"png").decode(), "image/png")]
        assert await read("sound://1") == [types.AudioContent(b64encode(b"wav").decode(), "audio/wav")]
        [scan] = await read("scan://1")
        assert (scan.resource.uri, scan.resource.blob) == ("scan://1", b64encode(b"pdf").decode())
        with pytest.raises(ToolError, match="unknown://1"):
            await read("unknown://1")


@EVERY_VERSION
async def test_a_host_that_knows_only_tools_fills_in_prompts(version):
    async with AsyncClient(library(), protocol_version=version) as client:
        [prompt] = (await client.call_tool("list_prompts")).structured["prompts"]
        assert (prompt["name"], [one["name"] for one in prompt["arguments"]]) == ("review", ["title", "tone"])
        filled = (await client.call_tool("get_prompt", {"name": "review", "arguments": {"title": "Emma"}})).structured
        assert filled == {
            "description": "Reviews a book.",
            "messages": [{"role": "user", "content": {"type": "text", "text": "Review Emma, kind"}}],
        }
        with pytest.raises(ToolError, match="Unknown prompt: revue; did you mean review"):
            await client.call_tool("get_prompt", {"name": "revue"})
        with pytest.raises(ToolError, match="title"):
            await client.call_tool("get_prompt", {"name": "review"})


async def test_the_tools_see_every_page_and_what_changes_later():
    server = library(page_size=1)
    async with AsyncClient(server) as client:
        server.resource("book://2", name="two")(lambda: "# Two")
        server.disable("book://1")
        found = (await client.call_tool("list_resources")).structured
        assert [one["name"] for one in found["resources"]] == ["cover", "sound", "scan", "two"]
        assert (await client.call_tool("read_resource", {"uri": "book://2"})).text == "# Two"


@pytest.mark.parametrize(("options", "names"), [({"prompts": False}, NAMES[:2]), ({"resources": False}, NAMES[2:])])
def test_only_what_is_asked_for_becomes_tools(options, names):
    server = Server()
    server.expose_as_tools(**options)
    assert [tool.name for tool in server.tools] == names
    with pytest.raises(ToolNotUnique, match=names[0]):
        server.expose_as_tools()


def identified(request):
    return Identity(request.headers["authorization"])


async def test_callers_get_what_the_requests_of_the_protocol_would_give_them():
    server, log = Server(secret="a secret of sixteen"), []
    server.resource("a://ada", name="ada", visible=lambda ctx: ctx.principal == "ada")(lambda: "secret of ada")
    server.resource("a://staff", name="staff", tags={"staff"})(lambda: "secret of staff")
    server.prompt("staff", tags={"staff"})(lambda: "hello")
    server.expose_as_tools(tags={"staff-tools"})

    @server.middleware
    async def audit(ctx, call_next):
        log.append((ctx.principal, ctx.method))
        return await call_next()

    peer = HttpPeer(server.asgi(auth=identified, exclude_tags={"staff"}), STATELESS)

    async def call(user, tool, **arguments):
        exchange = await peer.request("tools/call", {"name": tool, "arguments": arguments}, {"authorization": user})
        return exchange.json["result"]

    for user, expected in (("ada", ["ada"]), ("eve", [])):
        listed = (await call(user, "list_resources"))["structuredContent"]["resources"]
        assert [one["name"] for one in listed] == expected
        assert bool((await call(user, "read_resource", uri="a://ada")).get("isError")) == (user == "eve")
        assert (await call(user, "read_resource", uri="a://staff"))["isError"]
        assert (await call(user, "list_prompts"))["structuredContent"] == {"prompts": []}
        assert (await call(user, "get_prompt", name="staff"))["isError"]
    assert ("eve", "resources/read") in log


@EVERY_VERSION
async def test_a_question_of_a_resource_reaches_the_user_where_the_era_allows(version):
    server = Server(secret="a secret of sixteen")

    @server.resource("a://ask")
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).content

    @server.resource("a://broken")
    def broken() -> str:
        raise LookupError("private")

    server.expose_as_tools()
    async with AsyncClient(server, protocol_version=version, on_elicitation=lambda request: {"value": "Jo"}) as client:
        result = await client.call_tool("read_resource", {"uri": "a://ask"}, raise_on_error=False)
        is_asked = version != "2026-07-28"
        refusal = "resources/read asks the user a question, which this tool cannot do"
        assert result.text == ("Jo" if is_asked else refusal)
        failed = await client.call_tool("read_resource", {"uri": "a://broken"}, raise_on_error=False)
        assert (failed.is_error, failed.text) == (True, "Internal error")
        assert (await client.call_tool("list_resources")).structured["resources"][0]["uri"] == "a://ask"


@EVERY_VERSION
async def test_a_resource_in_a_thread_hears_that_the_call_of_the_tool_is_cancelled(version):
    began, heard = threading.Event(), threading.Event()
    server = Server("library")

    @server.resource("book://slow")
    def slow(ctx: BlockingContext) -> str:
        ctx.on_cancel(heard.set)
        began.set()
        heard.wait(20)
        return "too late"

    server.expose_as_tools()
    async with AsyncClient(server, protocol_version=version) as client:
        reading = asyncio.create_task(client.call_tool("read_resource", {"uri": "book://slow"}))
        assert await asyncio.to_thread(began.wait, 10)
        reading.cancel()
        assert await asyncio.to_thread(heard.wait, 10)
        await asyncio.wait([reading])
