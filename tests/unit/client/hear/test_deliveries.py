"""Calls of callbacks: their order, failures, bounds, and how long requests wait for them."""

import asyncio
import sys
import threading
import time
from contextvars import copy_context

import pytest

from dragoman import AsyncClient, Client, Context, Server
from dragoman.client.hear import deliveries as module
from dragoman.client.hear.deliveries import Deliveries
from scenarios.http_peer import scenario
from scenarios.scripted_server import DEADLINE, HOLD, ScriptedServer, served

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


def counting():
    server = Server("counting")

    @server.tool
    async def count(to: int, *, ctx: Context) -> str:
        for number in range(1, to + 1):
            await ctx.report_progress(number, total=to, message=f"step {number}")
        return "counted"

    return server


@pytest.mark.covers("LNT-05")
@ERAS
@scenario
async def test_progress_is_told_in_order_and_before_the_call_returns(era):
    heard = []
    async with AsyncClient(counting(), mode=era) as client:
        await client.call_tool("count", {"to": 20}, on_progress=lambda *given: heard.append(given))
        assert heard == [(number, 20, f"step {number}") for number in range(1, 21)]


@ERAS
def test_progress_over_http_is_told_before_a_blocking_call_returns(era):
    heard = []
    with served(counting().asgi()) as url, Client(url, mode=era) as client:
        client.call_tool("count", {"to": 20}, on_progress=lambda *given: heard.append(given[0]))
        assert heard == list(range(1, 21))


@ERAS
@scenario
async def test_progress_goes_to_the_call_else_to_the_client(era):
    heard = []
    async with AsyncClient(counting(), mode=era, on_progress=lambda *_: heard.append("client")) as client:
        await client.call_tool("count", {"to": 1})
        await client.call_tool("count", {"to": 1}, on_progress=lambda *_: heard.append("call"))
    assert heard == ["client", "call"]


@scenario
async def test_an_asynchronous_handler_is_waited_for():
    heard = []

    async def slow(progress, total, message):
        await asyncio.sleep(0)
        heard.append(progress)

    async with AsyncClient(counting()) as client:
        await client.call_tool("count", {"to": 3}, on_progress=slow)
        assert heard == [1, 2, 3]


class OwnError(Exception):
    pass


@pytest.mark.parametrize("error", [OwnError("ouch"), asyncio.CancelledError()])
@scenario
async def test_a_handler_that_fails_is_reported_and_harms_nothing(error, caplog):
    heard = []

    def failing(progress, total, message):
        heard.append(progress)
        raise error

    async with AsyncClient(counting()) as client:
        assert (await client.call_tool("count", {"to": 3}, on_progress=failing)).text == "counted"
    assert heard == [1, 2, 3]
    assert caplog.text.count("A handler of notifications failed") == 3


def test_a_handler_that_exits_does_not_end_the_loop_that_every_blocking_client_shares(caplog):
    async def exits(progress, total, message):
        sys.exit(3)

    with Client(counting()) as client:
        for handler in (exits, lambda *_: sys.exit(3)):
            assert client.call_tool("count", {"to": 2}, on_progress=handler).text == "counted"
    assert caplog.text.count("A handler of notifications failed") == 4


@scenario
async def test_each_function_is_told_in_the_order_in_which_things_were_sent():
    heard, logged = [], []
    server = ScriptedServer({"tools/call": {"content": []}})
    options = {
        "on_log": lambda message: logged.append(message.data),
        "on_resource_updated": heard.append,
        "on_list_changed": heard.append,  # the same function, although it is another object
    }
    async with AsyncClient(server, **options) as client:
        for number in range(50):
            server.say("notifications/message", {"level": "info", "data": number})
            server.say("notifications/resources/updated", {"uri": f"x:{number}"})
            server.say("notifications/tools/list_changed")
        await client.call_tool("t")
    assert logged == list(range(50))
    assert [said for said in heard if said != "tools"] == [f"x:{number}" for number in range(50)]
    assert heard[:2] == ["x:0", "tools"]


@scenario
async def test_a_change_that_is_still_to_be_told_is_told_once():
    going_on, heard = asyncio.Event(), []

    class Hearing:
        __hash__ = None

        async def __call__(self, what):
            heard.append(what)
            await asyncio.wait_for(going_on.wait(), DEADLINE)

    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server, on_list_changed=Hearing(), on_resource_updated=Hearing()) as client:
        for number in range(200):
            server.say("notifications/tools/list_changed")
            server.say("notifications/resources/updated", {"uri": f"x:{number % 2}"})
            server.say("notifications/message", {"level": "info", "data": {"number": number}})
            if number == 100:
                await asyncio.sleep(0.01)
                going_on.set()
        await client.call_tool("t")
    assert sorted(set(heard)) == ["tools", "x:0", "x:1"]
    assert len(heard) <= 3 * 3


@scenario
async def test_the_oldest_give_way_when_those_that_wait_are_too_large(monkeypatch, caplog):
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1000)
    going_on, heard = asyncio.Event(), []

    async def hear(message):
        heard.append(message.data)
        await asyncio.wait_for(going_on.wait(), DEADLINE)

    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server, on_log=hear) as client:
        server.say("notifications/message", {"level": "info", "data": "first"})
        await asyncio.sleep(0.01)
        for size in (10, 600, 700, 2000):
            server.say("notifications/message", {"level": "info", "data": "x" * size})
        asyncio.get_running_loop().call_later(0.05, going_on.set)
        await client.call_tool("t")
    assert len(heard[-1]) == 2000
    assert len(heard) <= 2
    assert "the oldest are dropped" in caplog.text


@scenario
async def test_a_request_does_not_wait_for_slow_functions_longer_than_its_own_time(monkeypatch):
    monkeypatch.setattr(module, "DELIVERY_SECONDS", DEADLINE)
    going_on = asyncio.Event()

    async def hear(message):
        await asyncio.wait_for(going_on.wait(), DEADLINE)

    server = ScriptedServer({"tools/call": {"content": [{"type": "text", "text": "answered"}]}})
    async with AsyncClient(server, on_log=hear) as client:
        server.say("notifications/message", {"level": "info", "data": "slow"})
        result = await asyncio.wait_for(client.call_tool("t", timeout=0.1), DEADLINE / 2)
        assert result.text == "answered"
        going_on.set()


@scenario
async def test_functions_that_are_called_in_the_loop_leave_turns_to_others():
    server = ScriptedServer({"tools/call": {"content": []}})
    turns = 0

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with AsyncClient(server, on_log=lambda message: time.sleep(0.002)) as client:
        counting = asyncio.create_task(others())
        await asyncio.sleep(0)
        for _ in range(50):
            server._receive(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}')
        turns = 0
        await client.call_tool("t")
        counting.cancel()
    assert turns > 10


@scenario
async def test_a_request_waits_for_what_was_told_before_its_answer_and_not_for_what_comes_later():
    heard, may_go_on, never = [], asyncio.Event(), asyncio.Event()

    async def take(message):
        heard.append(message.data)
        await (may_go_on if message.data == "before" else never).wait()

    server = ScriptedServer({"tools/call": HOLD})
    async with AsyncClient(server, on_log=take) as client:
        calling = asyncio.create_task(client.call_tool("t"))
        await server.until(lambda: server.sent("tools/call"))
        id = next(message["id"] for message in server.received if message.get("method") == "tools/call")
        server.say("notifications/message", {"level": "error", "data": "before"})
        server.answer(id, {"content": []})
        for _ in range(100):
            await asyncio.sleep(0)
        assert heard == ["before"]
        assert not calling.done()
        server.say("notifications/message", {"level": "error", "data": "later"})
        await asyncio.sleep(0)
        may_go_on.set()
        await asyncio.wait_for(calling, DEADLINE)


@scenario
async def test_a_handler_may_call_the_client_that_told_it():
    heard = []

    async def nested(progress, total, message):
        heard.append((await client.call_tool("count", {"to": 1})).text)

    async with AsyncClient(counting()) as client:
        await client.call_tool("count", {"to": 2}, on_progress=nested)
    assert heard == ["counted", "counted"]


@scenario
async def test_a_call_of_another_client_inside_a_handler_still_waits_for_its_own_progress():
    heard = []

    async def nested(progress, total, message):
        await other.call_tool("count", {"to": 3}, on_progress=lambda *given: heard.append(given[0]))
        heard.append("returned")

    async with AsyncClient(counting()) as client, AsyncClient(counting()) as other:
        await client.call_tool("count", {"to": 1}, on_progress=nested)
    assert heard == [1, 2, 3, "returned"]


@scenario
async def test_the_oldest_give_way_when_too_many_wait_and_nobody_waits_for_them_in_vain(caplog):
    going_on, heard, others = asyncio.Event(), [], []

    async def stuck(number):
        heard.append(number)
        await going_on.wait()

    async def other(number):
        others.append(number)

    deliveries = Deliveries(max_waiting=3)
    deliveries.put(stuck, 0)
    await asyncio.sleep(0)
    deliveries.put(stuck, 1)
    waiting = asyncio.create_task(deliveries.delivered())
    await asyncio.sleep(0)
    for number in range(2, 8):
        deliveries.put(stuck, number)
    deliveries.put(other, "of another function")
    await asyncio.wait_for(waiting, module.DELIVERY_SECONDS / 2)
    going_on.set()
    await asyncio.wait_for(deliveries.delivered(), DEADLINE)
    assert heard == [0, 6, 7]
    assert others == ["of another function"]
    assert caplog.text.count("Too many notifications wait for their handlers") == 1
    assert (deliveries.count, deliveries.size) == (0, 0)


@scenario
async def test_what_a_plain_function_promises_is_awaited_before_its_next_call():
    heard = []

    async def later(number):
        await asyncio.sleep(0.01 if number == 1 else 0)
        heard.append(number)

    def promising(number):
        return later(number)

    deliveries = Deliveries()
    for number in (1, 2, 3):
        deliveries.put(promising, number)
    await asyncio.wait_for(deliveries.delivered(), DEADLINE)
    assert heard == [1, 2, 3]


@scenario
async def test_a_plain_function_is_called_no_more_once_its_deliveries_are_closed():
    started, going_on, heard = threading.Event(), threading.Event(), []

    def slow(number):
        heard.append(number)
        started.set()
        going_on.wait(DEADLINE)

    deliveries = Deliveries()
    for number in range(10):
        deliveries.put(slow, number)
    assert await asyncio.to_thread(started.wait, DEADLINE)
    await asyncio.wait_for(deliveries.close(), DEADLINE)
    going_on.set()
    deliveries.put(slow, "again")
    await asyncio.wait_for(deliveries.delivered(), DEADLINE)
    assert heard == [0, "again"]


@scenario
async def test_what_a_plain_function_promises_too_late_is_forgotten():
    started, going_on, returned = threading.Event(), threading.Event(), threading.Event()

    async def later():
        raise AssertionError("nobody waits for it")

    def promising():
        started.set()
        going_on.wait(DEADLINE)
        returned.set()
        return later()

    deliveries = Deliveries()
    deliveries.put(promising)
    assert await asyncio.to_thread(started.wait, DEADLINE)
    await asyncio.wait_for(deliveries.close(), DEADLINE)
    going_on.set()
    assert await asyncio.to_thread(returned.wait, DEADLINE)


@scenario
async def test_deliveries_that_were_closed_before_they_began_deliver_again_later():
    heard = []
    deliveries = Deliveries()
    deliveries.put(heard.append, 1)
    await deliveries.close()
    deliveries.put(heard.append, 2)
    await asyncio.wait_for(deliveries.delivered(), DEADLINE)
    assert heard == [2]


@scenario
async def test_closing_lets_go_whoever_waits_for_a_handler():
    deliveries = Deliveries()
    deliveries.put(asyncio.Event().wait)
    await asyncio.sleep(0)
    waiting = asyncio.create_task(deliveries.delivered())
    await asyncio.sleep(0)
    await asyncio.wait_for(deliveries.close(), DEADLINE)
    await asyncio.wait_for(waiting, DEADLINE)
    assert not deliveries.queues


@scenario
async def test_a_handler_may_close_the_client():
    closed = asyncio.Event()

    async def close(message):
        await client.stop()
        closed.set()

    server = ScriptedServer()
    client = AsyncClient(server, on_log=close)
    await client.start()
    server.say("notifications/message", {"level": "error", "data": 1})
    await asyncio.wait_for(closed.wait(), DEADLINE)
    assert client.status == "stopped"
    await asyncio.wait_for(client.stop(), DEADLINE)


def test_plain_handlers_of_a_blocking_client_run_outside_its_loop():
    threads = []
    with Client(counting()) as client:
        client.call_tool("count", {"to": 1}, on_progress=lambda *_: threads.append(threading.current_thread().name))
    assert threads != ["dragoman portal"]
    assert len(threads) == 1


@scenario
async def test_a_request_that_waits_while_a_slow_callback_lets_others_run_harms_nothing(caplog):
    deliveries, waiting, heard, outside = Deliveries(), [], [], copy_context()

    async def slow(number):
        heard.append(number)
        time.sleep(2 * module.YIELD_SECONDS)  # noqa: ASYNC251 - so long that other tasks run before the next call
        waiting.append(asyncio.get_running_loop().create_task(deliveries.delivered(), context=outside))

    deliveries.put(slow, 1)
    (queue,) = deliveries.queues.values()
    await queue.task
    await asyncio.gather(*waiting)
    assert heard == [1]
    assert not caplog.records
