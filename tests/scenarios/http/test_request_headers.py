"""The headers of an HTTP request, as handlers read them."""

import pytest

from dragoman import AsyncClient, BlockingContext, Context, Server
from dragoman.stores import Memory
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer

GIVEN = {"x-tenant": "acme", "authorization": "Bearer hunter2"}


def telling():
    server = Server("telling", secret="a secret of sixteen")

    @server.tool
    async def later(ctx: Context) -> list[str]:
        return [ctx.headers["X-Tenant"], ctx.headers["authorization"], repr(ctx.headers)]

    @server.tool
    def now(ctx: BlockingContext) -> list[str]:
        return [ctx.headers["X-TENANT"], ctx.headers["AUTHORIZATION"], str(ctx.headers)]

    return server


@pytest.mark.parametrize("version", [NEWEST, STATELESS])
@pytest.mark.parametrize("tool", ["later", "now"])
async def test_a_handler_reads_headers_and_shows_no_credentials(version, tool):
    peer = HttpPeer(telling().asgi(), version)
    if version == NEWEST:
        await peer.initialize()
    exchange = await peer.call(tool, headers=GIVEN).end()
    tenant, token, shown = exchange.json["result"]["structuredContent"]["result"]
    assert (tenant, token) == ("acme", "Bearer hunter2")
    assert "acme" in shown
    assert "hunter2" not in shown


@pytest.mark.by_asgi
async def test_there_are_no_headers_without_http_and_none_in_a_task():
    server = Server(store=Memory())

    @server.tool(task=True)
    async def count(ctx: Context) -> int:
        return len(ctx.headers)

    async with AsyncClient(server) as plain:
        assert (await plain.call_tool("count")).structured == 0
    async with AsyncClient(server, tasks=True) as client:
        assert (await client.call_tool("count")).structured == 0
