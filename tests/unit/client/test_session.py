"""The session of a client: rounds of input, total time, subscriptions, and the event loop."""

import asyncio
import threading

import msgspec
import pytest
from opentelemetry import context, propagate

from dragoman import AsyncClient, Context, DragomanError, RpcError, Server, Timeout
from dragoman.client.options import RequestOptions, seconds
from scenarios.client_peer import NEWEST, STATELESS, scenario

ERAS = pytest.mark.parametrize("version", [NEWEST, STATELESS])
CAPABILITIES = {"resources": {"subscribe": True, "listChanged": True}, "tools": {}}


def notes() -> Server:
    server = Server("notes", capabilities=CAPABILITIES)

    @server.resource("memo://a")
    def memo() -> str:
        return "a"

    return server


@pytest.mark.covers("CTM-05")
def test_times_are_given_or_of_the_environment_or_the_default(monkeypatch):
    assert seconds(None, "X_SECONDS", 60) == 60
    monkeypatch.setenv("X_SECONDS", "7.5")
    assert seconds(None, "X_SECONDS", 60) == 7.5
    assert seconds(3, "X_SECONDS", 60) == 3


@pytest.mark.covers("CTM-03")
@scenario
async def test_a_time_out_of_an_authors_function_is_not_that_of_the_call():
    async with AsyncClient(notes(), total_timeout=30) as client:

        async def answer(*given):
            raise TimeoutError("of somebody else")

        client._session.rounds = answer
        with pytest.raises(TimeoutError, match="of somebody else") as caught:
            await client.read_resource("memo://a")
        assert not isinstance(caught.value, Timeout)


@pytest.mark.covers("CLS-02")
@ERAS
@scenario
async def test_nobody_is_notified_after_unsubscribing(version):
    server, updates = notes(), asyncio.Queue()
    async with AsyncClient(server, protocol_version=version) as client:
        await client.subscribe("memo://a", updates.put_nowait)
        server.notify_resource_updated("memo://a")
        assert await asyncio.wait_for(updates.get(), 10) == "memo://a"
        await client.unsubscribe("memo://a")
        assert client._session.subscriptions.resources == set()
        server.notify_resource_updated("memo://a")
        await client.read_resource("memo://a")
        assert updates.empty()


@pytest.mark.covers("CLS-04")
@scenario
async def test_a_resource_that_the_server_refuses_is_not_subscribed_to():
    server = notes()

    async def refuse(method, params, options, is_repeatable=None):
        raise RpcError(-32002, "no such resource")

    async with AsyncClient(server, mode="handshake") as client:
        client._session.request = refuse
        with pytest.raises(RpcError, match="no such"):
            await client.subscribe("memo://b", print)
        assert client._session.subscriptions.resources == set()
        assert client._session.subscriptions._callbacks == {}


@pytest.mark.covers("HEAL-09")
@scenario
async def test_a_client_that_is_connected_in_a_loop_that_runs_is_not_moved_to_another():
    async with AsyncClient(notes()) as client:
        errors = []

        def elsewhere():
            try:
                asyncio.run(client.read_resource("memo://a"))
            except DragomanError as error:
                errors.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join, 10)
        assert errors == ["The client is connected in another event loop; use one client per loop"]


@pytest.mark.covers("HEAL-09")
@ERAS
def test_a_client_whose_loop_has_ended_listens_and_tells_in_the_next(version):
    server, told = notes(), []
    client = AsyncClient(server, protocol_version=version, on_resource_updated=told.append)

    async def use():
        await client.subscribe("memo://a")
        server.notify_resource_updated("memo://a")
        async with asyncio.timeout(60):
            while not told:
                await client.read_resource("memo://a")
        assert set(told) == {"memo://a"}
        told.clear()

    asyncio.run(use())
    asyncio.run(use())
    asyncio.run(client.stop())


@pytest.mark.covers("CLF-08")
@scenario
async def test_the_trace_that_is_under_way_travels_with_each_request():
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    server, seen = Server(), []

    @server.tool
    async def note(ctx: Context) -> None:
        seen.append({key: value for key, value in ctx.meta.items() if key in (*trace, "tenant", "mine")})

    async with AsyncClient(server, meta=lambda: {"tenant": 1}) as client:
        token = context.attach(propagate.extract(trace))  # no provider is installed
        await client.call_tool("note", meta={"mine": 2})
        context.detach(token)
        await client.call_tool("note")
    assert seen == [{**trace, "tenant": 1, "mine": 2}, {"tenant": 1}]


@pytest.mark.covers("CLF-08")
@scenario
async def test_options_are_asked_for_what_the_client_adds_anew_for_each_request():
    turns = iter(range(10))
    async with AsyncClient(notes(), meta=lambda: {"turn": next(turns)}, timeout=7) as client:
        options = RequestOptions(meta={"mine": 2})
        first, second = (client._session._filled(options) for _ in range(2))
        assert second.meta["turn"] == first.meta["turn"] + 1
        assert (first.timeout, options.meta) == (7, {"mine": 2})
        assert client._session._filled(RequestOptions(timeout=3)).timeout == 3


@scenario
async def test_a_result_that_is_wanted_as_it_came_is_not_read_even_where_it_asks_for_input():
    asks = msgspec.Raw(b'{"resultType":"input_required","inputRequests":{}}')

    async def request(*_):
        return asks

    async with AsyncClient(notes()) as client:
        client._session.connections.latest.request = request
        assert await client._session.request("notes/count", {}, msgspec.Raw, RequestOptions()) is asks


@pytest.mark.covers("CTR-01")
@scenario
async def test_a_server_that_did_not_say_what_it_offers_is_asked_for_anything():
    async with AsyncClient(notes()) as client:
        connection = await client._session.start()
        assert connection.offers("resources", "subscribe")
        assert not connection.offers("completions")
        connection.knows_capabilities = False
        assert connection.offers("completions")
