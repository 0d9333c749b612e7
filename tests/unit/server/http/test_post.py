"""The moments at which a request ends and its client leaves at once."""

import asyncio

import pytest

from dragoman import Context, Server
from scenarios import http_peer
from scenarios.http_peer import DEADLINE, NEWEST, SECRET, STATELESS, Exchange, HttpPeer, scenario, serve


class Leaving(Exchange):
    """A client that leaves while it is sent its answer."""

    async def _send(self, message) -> None:
        raise ConnectionResetError


@scenario
async def test_a_connection_that_breaks_while_the_answer_is_sent_is_no_failure(monkeypatch, caplog):
    server = Server(secret=SECRET)

    @server.tool
    async def told(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "told"

    monkeypatch.setattr(http_peer, "Exchange", Leaving)
    await HttpPeer(serve(server), STATELESS).call("told", token=1).end()
    assert not caplog.records


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
@scenario
async def test_a_client_that_leaves_in_any_turn_of_the_loop_ends_its_exchange(version, turns, caplog):
    server = Server(secret=SECRET)
    go_on = asyncio.Event()

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        await go_on.wait()
        await ctx.report_progress(2)
        return "waited"

    peer = HttpPeer(serve(server), version)
    if version == NEWEST:
        await peer.initialize()
    exchange = peer.call("wait", token=1, id="call")
    await exchange.events(1)
    first, second = (go_on.set, exchange.leave) if turns % 2 else (exchange.leave, go_on.set)
    first()
    for _ in range(turns // 2):
        await asyncio.sleep(0)
    second()
    await exchange.end()
    await asyncio.wait_for(peer.app.close(), DEADLINE)
    assert not caplog.records


@pytest.mark.parametrize("turns", range(8))
@scenario
async def test_a_request_that_is_cancelled_in_any_turn_of_the_loop_ends_its_exchange(turns, caplog):
    server = Server(secret=SECRET)
    go_on = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await go_on.wait()
        return "waited"

    peer = HttpPeer(serve(server))
    await peer.initialize()
    exchange = peer.call("wait", id="call")
    cancel = peer.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "call"}})
    for _ in range(turns):
        await asyncio.sleep(0)
    go_on.set()
    await cancel.end()
    await exchange.end()
    assert exchange.status in {200, 202}
    assert not caplog.records
