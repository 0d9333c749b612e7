"""A target that never stops listing tools exhausts neither a proxy nor the server that the proxy is mounted in."""

import asyncio
import itertools

import pytest

from dragoman import AsyncClient, RpcError, Server
from dragoman.forward.proxy.upstream import MAX_PLANS
from dragoman.server.registry import MAX_PAGES
from scenarios.raw_http import answering, modern, refusal, reply, result

DEADLINE = 60
PAGE = 50
SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def listing_for_ever(cursors, on_call=None):
    """Serve pages with new tools for ever; a call of a tool is refused because a header is missing."""
    numbers = itertools.count()

    async def refuse(request, _):
        return reply(400, refusal(request.id, -32020, "The header Mcp-Param-Region is missing"))

    others = modern(on_call or refuse)

    async def script(request, writer):
        if request.method != "tools/list":
            return await others(request, writer)
        tools = [{"name": f"tool-{next(numbers)}", "inputSchema": SCHEMA} for _ in range(PAGE)]
        page = {"tools": tools, "nextCursor": next(cursors), "resultType": "complete"}
        return reply(200, result(request, {**page, "ttlMs": 0, "cacheScope": "private"}))

    return script


def endless_cursors():
    return (f"cursor {number}" for number in itertools.count())


async def test_endless_pages_end_a_call_whose_headers_the_proxy_must_find_out():
    async with answering(listing_for_ever(endless_cursors())) as target, asyncio.timeout(DEADLINE):
        async with AsyncClient(Server.proxy(target.url, name="front"), mode="handshake") as client:
            with pytest.raises(RpcError, match=f"does not end: There are more than {MAX_PAGES} pages of tools/list"):
                await client.call_tool("absent", {"region": "north"})
        assert len(target.sent("tools/list")) == MAX_PAGES


async def test_a_proxy_reads_no_further_than_the_tool_of_the_call():
    async def answer(request, _):
        if request.headers.get("mcp-param-region") != "north":
            return reply(400, refusal(request.id, -32020, "The header Mcp-Param-Region is missing"))
        return reply(200, result(request, {"content": [], "resultType": "complete"}))

    async with answering(listing_for_ever(endless_cursors(), answer)) as target, asyncio.timeout(DEADLINE):
        async with AsyncClient(Server.proxy(target.url), mode="handshake") as client:
            await client.call_tool(f"tool-{PAGE}", {"region": "north"})
        assert len(target.sent("tools/list")) == 2


async def test_a_repeated_cursor_ends_the_list_that_a_proxy_reads():
    async with answering(listing_for_ever(itertools.cycle("ab"))) as target, asyncio.timeout(DEADLINE):
        async with AsyncClient(Server.proxy(target.url), mode="handshake") as client:
            with pytest.raises(RpcError, match="Mcp-Param-Region is missing"):
                await client.call_tool("absent", {"region": "north"})
        assert len(target.sent("tools/list")) == 3


async def test_a_connection_remembers_a_bounded_number_of_tools():
    async with answering(listing_for_ever(endless_cursors())) as target, asyncio.timeout(DEADLINE):
        proxy = Server.proxy(target.url)
        async with proxy.serving(), AsyncClient(proxy, mode="handshake") as client:
            for number in range(2 * MAX_PLANS // PAGE):
                await client.list_tools(cursor=str(number))
            (pool,) = proxy.dispatcher.lifespan_values(asyncio.get_running_loop()).values()
            ((_, upstream),) = pool._upstreams
            assert len(upstream.plans) == MAX_PLANS
