"""How much a client does for one call, counted in tasks, wake-ups and pages rather than in time."""

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

import dragoman
from budgets.test_imports import ENVIRONMENT
from dragoman import AsyncClient, Server

DEADLINE = 60
OURS = str(Path(dragoman.__file__).parent)
SERVER = """
from dragoman import Server

server = Server("sums")


@server.tool(inline=True)
def add(a: int, b: int) -> str:
    return str(a + b)


import socket

import uvicorn

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server.asgi(), log_level="error", lifespan="off")).run(sockets=[listener])
"""


@contextmanager
def functions_noted(is_wanted):
    """Note the names of functions that are entered, a coroutine as often as it goes on."""
    passed, before = [], sys.getprofile()

    def note(frame, event, _):
        if event == "call" and is_wanted(frame.f_code):
            passed.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        yield passed
    finally:
        sys.setprofile(before)


def functions_of_ours():
    """Note the functions of dragoman."""
    return functions_noted(lambda code: code.co_filename.startswith(OURS))


def functions_of_asyncio(*names):
    """Note which functions of these names are entered."""
    return functions_noted(lambda code: code.co_name in names and "asyncio" in code.co_filename)


@contextmanager
def tasks_started():
    """Note the coroutines that tasks are started for."""
    started, loop = [], asyncio.get_running_loop()

    def note(loop, work, **options):
        started.append(work)
        return asyncio.Task(work, loop=loop, **options)

    loop.set_task_factory(note)
    try:
        yield started
    finally:
        loop.set_task_factory(None)


async def measured(target):
    """Return the tasks that a call starts, after some calls that warm up."""
    async with asyncio.timeout(DEADLINE), AsyncClient(target) as client:
        for _ in range(5):
            await client.call_tool("add", {"a": 1, "b": 2})
        # A response may arrive in pieces, which takes more.
        return min([await measured_call(client) for _ in range(10)], key=len)


async def measured_call(client):
    with tasks_started() as tasks:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.text == "3"
    return tasks


def sums():
    server = Server("sums")

    @server.tool(inline=True)
    def add(a: int, b: int) -> str:
        return str(a + b)

    return server


@pytest.fixture
def url(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdout=subprocess.PIPE,
        env=ENVIRONMENT | {"XDG_STATE_HOME": str(tmp_path)},
        text=True,
    )
    with child:
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/mcp"
        child.terminate()
        child.wait(DEADLINE)


def test_client_call_over_http_starts_only_the_task_in_which_aiohttp_writes(url):
    assert len(asyncio.run(measured(url))) <= 1


def test_a_call_over_http_is_one_write_and_sets_no_timer(url):
    async def calls():
        async with asyncio.timeout(DEADLINE), AsyncClient(url) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            with functions_of_asyncio("write", "writelines", "call_at", "connect") as passed:
                for _ in range(20):
                    await client.call_tool("add", {"a": 1, "b": 2})
        return Counter(passed)

    counted = asyncio.run(calls())
    assert counted.pop("_SelectorSocketTransport.write") == 20
    # The pool has one timer for all idle connections, which goes off every four seconds.
    assert counted.total() < 10, counted


PAGES = """
import asyncio, resource, sys
from dragoman import AsyncClient

async def main():
    async with AsyncClient(sys.argv[1]) as client:
        async def calls():
            for _ in range(100):
                await client.call_tool("add", {"a": 1, "b": 2})
        await calls()
        counts = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            await calls()
            counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        print(min(counts))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other allocators map memory by other rules")
def test_a_call_over_http_takes_no_memory_from_the_system_and_gives_none_back(url):
    program = [sys.executable, "-c", PAGES, url]
    told = subprocess.run(program, check=True, capture_output=True, env=ENVIRONMENT, timeout=2 * DEADLINE)
    assert int(told.stdout) < 50, "pages in 100 calls; a mapping for each answer takes a page or more"
