"""Clients that were opened and closed, one way or another, leave nothing behind."""

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from dragoman import AsyncClient, Client
from dragoman.runtime.portal import portal
from scenarios.calling_server import server
from scenarios.client_peer import descriptors
from scenarios.client_programs import SERVER, environment, http_server

DEADLINE = 60
MANY, FEW = 48, 4
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is open is counted in /proc")


@pytest.fixture(scope="module")
def url():
    with http_server() as url:
        yield url


def children() -> int:
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())


def threads() -> int:
    """Count the threads, but not those that wait for a job and end by themselves."""
    return sum(thread.name != "dragoman-worker" for thread in threading.enumerate())


def open_things() -> dict[str, int]:
    gc.collect()
    return {"descriptors": descriptors(), "threads": threads(), "children": children()}


async def settle(before: dict[str, int]) -> None:
    """Wait until no more is open than before."""
    end = time.monotonic() + DEADLINE
    while any(count > before[name] for name, count in open_things().items()):
        assert time.monotonic() < end, f"{open_things()} are left of {before}"
        await asyncio.sleep(0.02)


class OwnError(Exception):
    pass


async def use(client: AsyncClient, how: str) -> None:
    """Open a client, use it, and leave it in some way."""
    async with client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured == 3
        await client.tools()
        if how == "raise":
            raise OwnError
        if how == "cancel":
            asyncio.current_task().cancel()
            await asyncio.sleep(0)


async def use_in_a_task(client: AsyncClient, how: str) -> None:
    task = asyncio.create_task(use(client, how))
    await asyncio.wait_for(asyncio.wait([task]), DEADLINE)
    assert task.cancelled() == (how == "cancel")
    if how != "cancel":
        assert isinstance(task.exception(), OwnError if how == "raise" else type(None))


def ways(count: int) -> list[str]:
    return [("leave", "raise", "leave", "cancel")[number % 4] for number in range(count)]


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize(("over", "count"), [("memory", MANY), ("http", MANY), ("stdio", FEW)])
async def test_asynchronous_clients_leave_no_tasks_descriptors_threads_or_processes(over, count, era, url):
    target = {"memory": server, "http": url, "stdio": [sys.executable, str(SERVER)]}[over]

    await use(AsyncClient(target, mode=era, env=environment()), "leave")
    await asyncio.sleep(0)
    tasks, before = len(asyncio.all_tasks()), open_things()
    for how in ways(count):
        await use_in_a_task(AsyncClient(target, mode=era, env=environment()), how)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= tasks
    await settle(before)


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize(("over", "count"), [("memory", MANY), ("http", MANY), ("stdio", FEW)])
def test_blocking_clients_leave_no_descriptors_threads_or_processes(over, count, era, url):
    target = {"memory": server, "http": url, "stdio": [sys.executable, str(SERVER)]}[over]

    def use_blocking(how):
        with Client(target, mode=era, env=environment()) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).structured == 3
            if how == "raise":
                raise OwnError
            if how == "cancel":
                client.start_call("wait", {"name": "left"})

    use_blocking("leave")
    before = open_things()
    for how in ways(count):
        with pytest.raises(OwnError) if how == "raise" else contextlib.nullcontext():
            use_blocking(how)
    portal().run(settle(before))


async def test_clients_that_cannot_connect_leave_nothing():
    before, tasks = open_things(), len(asyncio.all_tasks())
    for target in [
        "http://127.0.0.1:1/mcp",
        [sys.executable, "-c", "raise SystemExit(3)"],
        ["no-such-command"],
    ] * 3:
        with pytest.raises(Exception, match=r"\w"):
            await AsyncClient(target, connect_timeout=5).start()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= tasks
    await settle(before)


async def test_many_concurrent_clients_leave_nothing(url):
    await use(AsyncClient(url), "leave")
    tasks, before = len(asyncio.all_tasks()), open_things()
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(*(use_in_a_task(AsyncClient(url), how) for how in ways(MANY)))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= tasks
    await settle(before)
