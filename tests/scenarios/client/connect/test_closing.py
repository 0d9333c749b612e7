"""Closing clients: from any task and thread, in any order and state, more than once, and whatever happens meanwhile."""

import asyncio
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman import AsyncClient, Client, ConnectError, DragomanError, TransportError
from dragoman.stores import Memory
from dragoman.transports.process.process import ProcessTransport
from scenarios.calling_server import server
from scenarios.client_programs import SERVER, environment
from scenarios.scripted_server import DEADLINE, HOLD, ScriptedServer, served

EVERYWHERE = pytest.mark.parametrize("over", ["memory", "stdio", "http"])


@pytest.fixture(scope="module")
def url():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            server.storage, "_engine", Memory()
        )  # the store of the machine opens files, and closes them at a fork
        yield from serving()


def serving():
    with served(server.asgi()) as url:
        Client(url, mode="handshake").start().stop()  # what a server opens for its first session stays open
        yield url


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    """Let a process end soon whose calls never do."""
    monkeypatch.setitem(ProcessTransport.__init__.__kwdefaults__, "grace", 0.1)


@pytest.fixture
def target(over, url):
    return {"memory": server, "stdio": [sys.executable, str(SERVER)], "http": url}[over]


def connected(target, era="stateless", **options):
    return AsyncClient(target, mode=era, env=environment(), **options)


@pytest.mark.covers("LML-04")
@EVERYWHERE
async def test_a_client_may_be_closed_by_another_task_than_the_one_that_opened_it(target, era):
    client = connected(target, era)
    await asyncio.create_task(client.start())
    assert (await asyncio.create_task(client.call_tool("add", {"a": 1, "b": 2}))).structured == 3
    await asyncio.create_task(client.stop())
    assert client.status == "stopped"


@EVERYWHERE
async def test_clients_may_be_closed_in_any_order(target, era):
    clients = [connected(target, era) for _ in range(3)]
    for client in clients:
        await client.start()
    for index in (0, 2, 1):
        await clients[index].stop()
        for other in clients:
            if other.status == "ready":
                assert (await other.call_tool("add", {"a": 1, "b": 2})).structured == 3
    assert [client.status for client in clients] == ["stopped"] * 3


@EVERYWHERE
async def test_closing_more_than_once_and_by_many_at_once_is_harmless(target, era):
    client = connected(target, era)
    await client.start()
    await asyncio.gather(*(client.stop() for _ in range(5)))
    await client.stop()
    assert client.status == "stopped"


@EVERYWHERE
async def test_calls_that_wait_fail_when_the_client_is_closed(target, era):
    client = connected(target, era)
    begun = asyncio.Semaphore(0)
    calls = [
        asyncio.create_task(client.call_tool("wait", {"name": str(n)}, on_progress=lambda *_: begun.release()))
        for n in range(5)
    ]
    for _ in calls:
        await asyncio.wait_for(begun.acquire(), DEADLINE)
    await client.stop()
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), DEADLINE)
    assert all(isinstance(outcome, TransportError) for outcome in outcomes), outcomes


@EVERYWHERE
async def test_a_client_that_is_closed_while_it_starts_fails_to_start_and_cancels_nobody(target):
    for turns in (0, 1, 3, 10):
        client = connected(target)
        starting = asyncio.create_task(client.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.stop()
        [outcome] = await asyncio.wait_for(asyncio.gather(starting, return_exceptions=True), DEADLINE)
        assert outcome is client or isinstance(outcome, TransportError), outcome
        await client.stop()
        assert not client.alive


async def test_a_server_that_never_answers_does_not_keep_a_client_from_closing():
    client = AsyncClient(ScriptedServer({"server/discover": HOLD, "initialize": HOLD}))
    starting = asyncio.create_task(client.start())
    await asyncio.sleep(0.01)
    await asyncio.wait_for(client.stop(), DEADLINE)
    with pytest.raises(ConnectError):
        await asyncio.wait_for(starting, DEADLINE)


class OwnError(Exception):
    pass


@EVERYWHERE
async def test_what_a_body_raises_is_raised_and_the_client_is_closed(target, era):
    client = connected(target, era)

    async def body():
        async with client:
            await client.tools()
            raise OwnError

    with pytest.raises(OwnError):
        await body()
    assert client.status == "stopped"


@EVERYWHERE
async def test_a_body_that_is_cancelled_stays_cancelled_and_the_client_is_closed(target, era):
    client, inside = connected(target, era), asyncio.Event()

    async def body():
        async with client:
            calling = client.call_tool("wait", {"name": "cancelled"}, on_progress=lambda *_: inside.set())
            await calling

    task = asyncio.create_task(body())
    await asyncio.wait_for(inside.wait(), DEADLINE)
    task.cancel()
    await asyncio.wait_for(asyncio.wait([task]), DEADLINE)
    assert task.cancelled()
    assert client.status == "stopped"


@EVERYWHERE
async def test_a_time_out_around_a_call_is_a_time_out(target):
    async with connected(target) as client:
        begun = asyncio.Event()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.call_tool("wait", {"name": "late"}, on_progress=lambda *_: begun.set())
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured == 3


async def test_a_failed_start_poisons_nothing():
    client = AsyncClient("http://127.0.0.1:1/mcp")
    for _ in range(2):
        with pytest.raises(ConnectError):
            await client.start()
        await asyncio.sleep(0)
    assert client.status == "failed"
    await client.stop()
    assert asyncio.current_task().cancelling() == 0


async def test_a_group_of_tasks_may_share_a_client_that_one_of_them_closes():
    client = AsyncClient(server)

    async def call(number):
        return (await client.call_tool("add", {"a": number, "b": 1})).structured

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call(number)) for number in range(10)]
    async with asyncio.TaskGroup() as group:
        group.create_task(client.stop())
    assert [task.result() for task in tasks] == list(range(1, 11))


@EVERYWHERE
def test_a_blocking_client_may_be_closed_from_any_thread_while_others_call(target, era):
    client = Client(target, mode=era, env=environment()).start()
    begun = threading.Semaphore(0)

    def work(number):
        try:
            client.call_tool("wait", {"name": str(number)}, on_progress=lambda *_: begun.release())
        except TransportError:
            return "failed"
        return "returned"

    with ThreadPoolExecutor(6) as threads:
        working = [threads.submit(work, number) for number in range(5)]
        for _ in working:
            assert begun.acquire(timeout=DEADLINE)
        threads.submit(client.stop).result(DEADLINE)
        assert [future.result(DEADLINE) for future in working] == ["failed"] * 5
    client.stop()
    assert client.start().call_tool("add", {"a": 1, "b": 2}).structured == 3
    client.stop()


def test_blocking_clients_may_be_closed_out_of_order(era):
    with Client(server, mode=era) as outer:
        inner = Client(server, mode=era).start()
        outer.stop()
        assert inner.call_tool("add", {"a": 1, "b": 2}).structured == 3
        inner.stop()


def test_what_a_body_of_a_blocking_client_raises_is_raised_and_the_client_is_closed():
    client = Client(server)
    with pytest.raises(OwnError), client:
        raise OwnError
    assert client.status == "stopped"


def test_a_client_that_is_connected_in_another_loop_says_so_and_can_be_closed_from_anywhere():
    client = AsyncClient(server)
    ready, done = threading.Event(), threading.Event()

    async def elsewhere():
        async with client:
            ready.set()
            await asyncio.to_thread(done.wait, DEADLINE)

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()), daemon=True)
    thread.start()
    assert ready.wait(DEADLINE)
    try:
        with pytest.raises(DragomanError, match="another event loop"):
            asyncio.run(client.tools())
        asyncio.run(asyncio.wait_for(client.stop(), DEADLINE))
        assert client.status == "stopped"
    finally:
        done.set()
        thread.join(DEADLINE)
    assert client.status == "stopped"


@EVERYWHERE
def test_a_client_whose_loop_has_ended_is_used_and_closed_in_the_next(target):
    client = connected(target)
    for _ in range(3):
        assert asyncio.run(client.call_tool("add", {"a": 1, "b": 2})).structured == 3
        assert not client.alive
    asyncio.run(client.stop())
    assert client.status == "stopped"


@EVERYWHERE
async def test_a_client_that_was_dropped_is_closed(target):
    before = asyncio.all_tasks()
    client = connected(target)
    await client.call_tool("add", {"a": 1, "b": 2})
    dropped = weakref.ref(client)
    del client
    async with asyncio.timeout(DEADLINE):
        while dropped() is not None:  # a collection is slow in a process with many tests, so there are few
            await asyncio.sleep(0)
            gc.collect()
        while asyncio.all_tasks() - before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert asyncio.all_tasks() == before
