"""How much a proxy does for one call that it passes, counted in tasks, futures and writes."""

import asyncio
import sys

from budgets.test_client_calls import functions_of_ours, tasks_started
from dragoman import Server
from scenarios.proxied_http import HttpFront
from scenarios.raw_http import answering, called, classic, reply, result

DEADLINE = 60
WRITES = ("Http1Connection.write", "PooledConnection.begin")
SERVER = """
from dragoman import Server

server = Server("sums")


@server.tool(inline=True)
def add(a: int, b: int) -> str:
    return str(a + b)


server.run()
"""


async def test_a_call_through_a_proxy_starts_no_task(monkeypatch):
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}\n'
    hello = (
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        b'"clientInfo":{"name":"any","version":"1"}}}\n'
    )
    proxy, answers = Server.proxy([sys.executable, "-c", SERVER]), asyncio.Queue()
    loop, futures = asyncio.get_running_loop(), []
    create_future = loop.create_future
    async with asyncio.timeout(DEADLINE), proxy.serving():
        connection = proxy.connect(answers.put_nowait)
        connection.receive(hello)
        await answers.get()
        seen = []
        for number in range(1, 12):
            with functions_of_ours() as passed, tasks_started() as tasks:
                with monkeypatch.context() as patch:
                    patch.setattr(loop, "create_future", lambda: futures.append(1) or create_future())
                    connection.receive(request % number)
                began = len(futures)
                assert b'"text":"3"' in await answers.get()
            seen.append((len(passed), len(tasks), began, passed))
            futures.clear()
        connection.close()
    _, tasks, began, passed = min(seen)
    assert (tasks, began) == (0, 0), passed


async def test_a_call_through_a_proxy_over_http_needs_one_write_to_each_end_and_no_task():
    async def add(request, writer):
        return reply(200, result(request, called()))

    seen = []
    async with answering(classic(add)) as raw, HttpFront(raw.url) as front:
        await front.begin()
        for _ in range(11):
            with functions_of_ours() as passed, tasks_started() as tasks:
                assert (await front.ask("tools/call", {"name": "add"})).last["result"] == called()
            seen.append((len(passed), len(tasks), passed))
    assert len(front.passed) == len(seen)
    _, tasks, passed = min(seen)
    assert tasks == 0, passed
    assert [passed.count(name) for name in WRITES] == [1, 1], passed
