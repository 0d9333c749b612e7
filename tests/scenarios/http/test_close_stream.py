"""`ctx.close_stream()`: a handler lets its client go, which comes back for the rest; and how much is kept for it."""

import asyncio

import pytest

from dragoman import BlockingContext, Context, Server
from dragoman.protocol.sse import EventId
from dragoman.server.http import streams
from dragoman.stores import Memory
from dragoman.testing import WirePeer
from scenarios.http_peer import BATCHING, DEADLINE, NEWEST, OLDER, SECRET, STATELESS, HttpPeer, serve
from scenarios.http_travels import Gate, text


def patient(gate: Gate | None = None) -> Server:
    server = Server("patient", secret=SECRET)

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        await ctx.close_stream()
        if gate is not None:
            await gate.wait()
        await ctx.report_progress(2)
        return "waited"

    @server.tool
    async def wait_in_silence(ctx: Context) -> str:
        await ctx.close_stream()
        await ctx.close_stream()
        if gate is not None:
            await gate.wait()
        return "waited"

    @server.tool
    def wait_in_thread(ctx: BlockingContext) -> str:
        ctx.report_progress(1)
        ctx.close_stream()
        ctx.report_progress(2)
        return "waited"

    return server


async def session(server: Server, version: str = NEWEST, **options) -> HttpPeer:
    peer = HttpPeer(serve(server, **options), version)
    await peer.initialize()
    return peer


@pytest.mark.covers("SHT-48")
async def test_a_client_that_is_let_go_comes_back_for_the_rest():
    gate = Gate()
    peer = await session(patient(gate))
    exchange = await peer.call("wait", token="t", id="call").end()
    primed, told = exchange.all_events
    assert (primed.data, EventId.decode(primed.id).sequence, primed.retry) == ("", 0, 1000)
    assert not exchange.messages[-1].get("more_body")
    resumed = await peer.listen(last_event_id=told.id)
    await gate.was_reached()
    gate.opened.set()
    await resumed.end()
    assert [message.get("id") or message["params"]["progress"] for message in resumed.said] == [2, "call"]
    assert text(resumed) == "waited"


@pytest.mark.covers("SHT-48")
async def test_one_who_comes_back_when_all_is_done_gets_the_response():
    gate = Gate()
    peer = await session(patient(gate))
    exchange = await peer.call("wait_in_silence").end()
    (primed,) = exchange.all_events
    assert primed.data == ""
    gate.opened.set()
    resumed = await (await peer.listen(last_event_id=primed.id)).end()
    assert text(resumed) == "waited"


@pytest.mark.covers("SHT-48")
async def test_one_who_came_back_may_be_let_go_again():
    gates = [Gate(), Gate()]
    server = Server(secret=SECRET)

    @server.tool
    async def twice(ctx: Context) -> str:
        for gate in gates:
            await ctx.close_stream()
            await gate.wait()
        return "waited"

    peer = await session(server)
    exchange = await peer.call("twice").end()
    (primed,) = exchange.all_events
    resumed = await peer.listen(last_event_id=primed.id)
    gates[0].opened.set()
    await resumed.end()
    assert not resumed.said
    gates[1].opened.set()
    assert text(await (await peer.listen(last_event_id=primed.id)).end()) == "waited"


@pytest.mark.covers("SHT-48")
async def test_a_blocking_handler_lets_its_client_go_too():
    peer = await session(patient())
    exchange = await peer.call("wait_in_thread", token="t").end()
    assert [message["params"]["progress"] for message in exchange.said] == [1]
    resumed = await (await peer.listen(last_event_id=exchange.heard[-1].id)).end()
    assert [message["params"]["progress"] for message in resumed.said[:-1]] == [2]
    assert text(resumed) == "waited"


@pytest.mark.covers("SHT-48")
@pytest.mark.parametrize("tool", ["wait", "wait_in_silence", "wait_in_thread"])
@pytest.mark.parametrize("version", [STATELESS, OLDER, BATCHING])
async def test_clients_of_other_versions_stay(version, tool):
    peer = HttpPeer(serve(patient()), version)
    if version != STATELESS:
        await peer.initialize()
    exchange = await peer.call(tool, token="t").end()
    assert text(exchange) == "waited"
    assert not [event for event in (exchange.all_events if tool != "wait_in_silence" else []) if not event.data]


@pytest.mark.covers("SHT-48")
@pytest.mark.parametrize("options", [{"json_response": True}, {"sessions": False}])
async def test_clients_that_get_json_or_have_no_session_stay(options):
    peer = HttpPeer(serve(patient(), **options))
    await peer.initialize()
    headers = {"mcp-protocol-version": NEWEST}
    exchange = await peer.call("wait_in_silence", headers=headers).end()
    assert exchange.headers["content-type"] == "application/json"
    assert text(exchange) == "waited"


@pytest.mark.covers("SHT-48")
async def test_a_client_that_takes_only_json_stays():
    peer = await session(patient())
    exchange = await peer.call("wait", token="t", headers={"accept": "application/json"}).end()
    assert text(exchange) == "waited"


@pytest.mark.covers("SHT-48")
async def test_without_http_nothing_happens():
    async with WirePeer(patient()) as peer:
        answer = await peer.request("tools/call", {"name": "wait_in_silence", "arguments": {}})
        assert answer["result"]["content"][0]["text"] == "waited"


@pytest.mark.covers("SHT-49")
async def test_what_is_kept_for_one_who_comes_back_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(streams, "MAX_LOG_BYTES", 3000)
    go_on, is_done = asyncio.Event(), asyncio.Event()
    server = Server(secret=SECRET, store=Memory())

    @server.tool
    async def flood(ctx: Context) -> str:
        await ctx.report_progress(1)
        await go_on.wait()
        for number in range(2, 102):
            await ctx.report_progress(number, message="x" * 1000)
        is_done.set()
        return "flooded"

    app = server.asgi(allowed_hosts=["*"])
    peer = HttpPeer(app)
    await peer.initialize()
    exchange = peer.call("flood", token="t")
    (first,) = await exchange.events(1)
    exchange.leave()
    await exchange.end()
    go_on.set()
    await asyncio.wait_for(is_done.wait(), DEADLINE)
    resumed = await asyncio.wait_for((await peer.listen(last_event_id=first.id)).end(), DEADLINE)
    assert text(resumed) == "flooded"
    assert sum(len(event.data) for event in resumed.heard) <= 3000 + 300
    await app.close()
