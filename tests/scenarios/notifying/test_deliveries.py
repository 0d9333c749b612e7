"""What notifying functions return: whether a client of this process gets the notification."""

import asyncio

import pytest

from dragoman import AsyncClient, BlockingContext, Context, Server
from dragoman.testing import WirePeer
from scenarios.raw_http import serving
from scenarios.task_peer import polled

DEADLINE = 60
pytestmark = pytest.mark.covers("NOT-09")


def shop() -> Server:
    server = Server("shop", capabilities={"resources": {"subscribe": True}}, secret="a secret of sixteen")
    server.resource("shop://prices")(lambda: "3")
    return server


def deliveries(server: Server) -> dict[str, bool]:
    return {
        "tools": server.notify_tools_list_changed(),
        "prompts": server.notify_prompts_list_changed(),
        "resources": server.notify_resources_list_changed(),
        "updated": server.notify_resource_updated("shop://prices"),
        "log": server.log("error", "out of ink"),
        "elicitation": server.notify_elicitation_complete("unknown"),
    }


LISTS = ("tools", "prompts", "resources")


def test_nothing_is_delivered_without_clients():
    assert not any(deliveries(shop()).values())


@pytest.mark.parametrize("is_mounted", [False, True])
async def test_connected_client_gets_what_it_wants(is_mounted):
    server = shop()
    outer = Server("outer", capabilities={"resources": {"subscribe": True}}, secret="a secret of sixteen")
    outer.mount(server, prefix="inner")
    async with WirePeer(outer if is_mounted else server, "2025-11-25") as peer:
        expected = dict.fromkeys([*LISTS, "updated", "log", "elicitation"], False) | dict.fromkeys(LISTS, True)
        assert deliveries(server) == expected
        uri = "shop://inner/prices" if is_mounted else "shop://prices"
        await peer.request("resources/subscribe", {"uri": uri})
        await peer.request("logging/setLevel", {"level": "error"})
        assert deliveries(server) == expected | {"updated": True, "log": True}
        assert server.log("info", "quiet") is False
        assert server.notify_resource_updated("shop://other") is False
    assert not any(deliveries(server).values())


async def test_subscription_of_a_stateless_client_gets_what_its_filter_includes():
    server = shop()
    async with WirePeer(server, "stateless") as peer:
        assert not any(deliveries(server).values())
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["shop://prices"]}
        peer.start("subscriptions/listen", {"notifications": wanted})
        await peer.receive("notifications/subscriptions/acknowledged")
        result = deliveries(server)
        assert {name for name, is_delivered in result.items() if is_delivered} == {"tools", "updated"}


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_client_over_http_gets_changes_on_its_stream(mode):
    server = shop()
    async with asyncio.timeout(DEADLINE), serving(server.asgi()) as url:
        assert server.notify_tools_list_changed() is False
        changes: asyncio.Queue[str] = asyncio.Queue()
        async with AsyncClient(url, mode=mode, on_list_changed=changes.put_nowait) as client:
            await client.tools()

            async def notified() -> bool:
                return server.notify_tools_list_changed()

            await polled(notified, bool)  # the client opens its stream in the background
            assert await changes.get() == "tools"


async def test_context_tells_whether_its_client_gets_a_notification():
    server = shop()
    results: list[bool] = []

    @server.tool
    async def change(ctx: Context) -> str:
        results.append(await ctx.notify_elicitation_complete("1"))
        results.append(await ctx.notify_resource_updated("shop://prices"))
        return "changed"

    @server.tool
    def change_blocking(ctx: BlockingContext) -> str:
        results.append(ctx.notify_elicitation_complete("1"))
        results.append(ctx.notify_resource_updated("shop://prices"))
        return "changed"

    for era, expected in (("2025-11-25", [True, True]), ("stateless", [False, False])):
        for name in ("change", "change_blocking"):
            results.clear()
            async with WirePeer(server, era) as peer:
                await peer.request("tools/call", {"name": name})
            assert results == expected
    results.clear()
    await server.handle_async({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "change"}})
    assert results == [False, False]
