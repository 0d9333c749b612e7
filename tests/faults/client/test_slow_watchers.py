"""Functions of the author's that are slow, or hang: they delay nobody but themselves."""

import asyncio
import threading
import time

import pytest

from dragoman import AsyncClient, Client, Context, Server
from scenarios.scripted_server import DEADLINE, served

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])
QUICK = 2.0
"""Seconds in which a call is back that a slow function does not delay, also on a busy machine."""


def telling():
    server = Server("telling")

    @server.tool
    async def count(to: int, *, ctx: Context) -> str:
        for number in range(1, to + 1):
            await ctx.report_progress(number, total=to)
        return "counted"

    @server.tool
    async def complain(*, ctx: Context) -> str:
        await ctx.log("error", "smoke")
        return "complained"

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


@ERAS
def test_a_slow_watcher_of_one_thread_does_not_delay_the_calls_of_another(era):
    released, began = threading.Event(), threading.Event()

    def slow(progress, total, message):
        began.set()
        released.wait(DEADLINE)

    with served(telling().asgi()) as url, Client(url, mode=era) as client:
        slow_call = client.start_call("count", {"to": 20}, on_progress=slow)
        assert began.wait(DEADLINE)
        started = time.monotonic()
        for number in range(20):
            assert client.call_tool("add", {"a": number, "b": 1}).structured == number + 1
        assert time.monotonic() - started < QUICK
        assert slow_call.result(QUICK).text == "counted"
        released.set()


@ERAS
def test_a_watcher_that_hangs_does_not_keep_back_an_answer(era):
    released = threading.Event()
    with served(telling().asgi()) as url:
        options = {"mode": era, "on_log": lambda message: released.wait(DEADLINE), "timeout": DEADLINE}
        with Client(url, **options) as client:
            started = time.monotonic()
            for _ in range(10):
                assert client.call_tool("complain").text == "complained"
            assert time.monotonic() - started < QUICK
            released.set()


@ERAS
async def test_a_plain_function_that_blocks_does_not_stall_the_loop_of_an_asynchronous_client(era):
    released, told_all, heard = threading.Event(), threading.Event(), []

    def slow(progress, total, message):
        heard.append(progress)
        if progress == total:
            told_all.set()
        released.wait(DEADLINE)

    async with AsyncClient(telling(), mode=era) as client:
        started = time.monotonic()
        await client.call_tool("count", {"to": 5}, on_progress=slow)
        await client.call_tool("add", {"a": 1, "b": 1})
        assert time.monotonic() - started < QUICK
        assert heard == [1]
        released.set()
        assert await asyncio.to_thread(told_all.wait, DEADLINE)
    assert heard == [1, 2, 3, 4, 5]


async def test_a_watcher_that_hangs_does_not_keep_another_one_from_being_told():
    released, heard = threading.Event(), []
    options = {"on_log": lambda message: released.wait(DEADLINE), "on_progress": lambda *given: heard.append(given[0])}
    async with AsyncClient(telling(), **options) as client:
        await client.call_tool("complain")
        await client.call_tool("count", {"to": 3})
        assert heard == [1, 2, 3]
        released.set()
