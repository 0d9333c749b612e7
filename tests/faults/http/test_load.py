"""HTTP when much goes on at once, and clients come and go."""

import asyncio
import random

import pytest

from dragoman import BlockingContext, Context, Server
from dragoman.transports.http.exchange import Pace
from scenarios.http_peer import NEWEST, SECRET, STATELESS, HttpPeer, live, serve

PRESSED = Pace(tick=0.001, stream_after=0.002, keep_alive=0.002)
CLIENTS = 60


def busy() -> Server:
    server = Server("busy", secret=SECRET)

    @server.tool
    async def count(to: int, ctx: Context) -> str:
        for number in range(to):
            await ctx.report_progress(number + 1, to)
            await asyncio.sleep(0)
        return f"counted to {to}"

    @server.tool
    def count_in_thread(to: int, ctx: BlockingContext) -> str:
        for number in range(to):
            ctx.report_progress(number + 1, to)
        return f"counted to {to}"

    return server


def progress(messages: list) -> list[int]:
    return [message["params"]["progress"] for message in messages if "method" in message]


@pytest.mark.covers("SHM-10", "SHT-11")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_many_streams_at_once_are_each_whole_and_in_order(version):
    peer = HttpPeer(serve(busy(), pace=PRESSED), version)
    if version == NEWEST:
        await peer.initialize()
    tools = ["count", "count_in_thread"]
    exchanges = [peer.call(tools[to % 2], {"to": to}, token=to, id=to) for to in range(1, CLIENTS)]
    for to, exchange in enumerate(exchanges, 1):
        await exchange.end()
        assert progress(exchange.said) == list(range(1, to + 1))
        assert exchange.said[-1]["result"]["content"][0]["text"] == f"counted to {to}"
    await live(peer.app)


@pytest.mark.covers("SHM-14", "SHT-41")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_clients_that_leave_at_any_moment_leave_nothing_behind(version, caplog):
    peer = HttpPeer(serve(busy(), pace=PRESSED), version)
    if version == NEWEST:
        await peer.initialize()
    moments = random.Random(7)
    exchanges = [peer.call("count", {"to": 20}, token=id, id=id) for id in range(CLIENTS)]
    for exchange in exchanges:
        asyncio.get_running_loop().call_later(moments.random() * 0.02, exchange.leave)
    for exchange in exchanges:
        await exchange.end()
    assert (await peer.call("count", {"to": 1}, id="after").end()).status == 200
    await live(peer.app)
    assert not caplog.records


@pytest.mark.covers("SHT-41")
async def test_a_client_that_comes_back_again_and_again_misses_nothing():
    peer = HttpPeer(serve(busy(), pace=PRESSED))
    await peer.initialize()
    exchange = peer.call("count", {"to": 200}, token="t", id="call")
    said: list = []
    while True:
        await exchange.until(lambda one: one.heard)
        exchange.leave()
        await exchange.end()
        said += exchange.said
        if "result" in said[-1]:
            break
        exchange = await peer.listen(last_event_id=exchange.heard[-1].id)
    assert progress(said) == list(range(1, 201))
    await live(peer.app)
