"""Clients of a proxy cannot take the connections of other principals: real processes behind a proxy over HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dragoman import AsyncClient, RpcError, Server
from dragoman.forward.proxy import pool
from dragoman.forward.proxy.known_targets import CONNECT_WAIT
from scenarios.plain_target import COMMAND, is_running
from scenarios.proxied_http import HttpFront, serving_itself

DEADLINE = 60


class Front:
    """A proxy in front of processes, which knows its callers by a header."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/mcp"
        self._clients: list[AsyncClient] = []

    def client(self, principal: str, mode: str = "handshake") -> AsyncClient:
        """Return a client that can be asked, so that the proxy opens a connection for each session or call."""
        client = AsyncClient(
            self._url, headers={"X-User": principal}, mode=mode, on_elicitation=lambda _: {"value": "x"}
        )
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        for client in self._clients:
            await client.stop()


@contextlib.asynccontextmanager
async def front(**options: Any) -> AsyncIterator[Front]:
    app = Server.proxy(COMMAND, **options).asgi(auth=lambda request: request.headers.get("X-User"))
    async with asyncio.timeout(DEADLINE), serving_itself(app) as port:
        clients = Front(port)
        try:
            yield clients
        finally:
            await clients.stop()


async def pid_of(client: AsyncClient) -> int:
    return int((await client.call_tool("pid")).text)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("isolate", [None, "principal", "session"])
async def test_sessions_of_a_principal_end_only_processes_of_that_principal(isolate, caplog):
    async with front(isolate=isolate, max_connections=8) as clients:
        victim = clients.client("bob")
        process = await pid_of(victim)
        processes = [await pid_of(clients.client("eve")) for _ in range(10)]
        assert await pid_of(victim) == process
        await until(lambda: sum(map(is_running, processes)) == 2)
        assert caplog.text.count("A session lost its connection to the target: All 2 connections") == 8


async def test_every_principal_has_a_connection_while_the_pool_has_room():
    async with front(isolate="principal", max_connections=4, max_connections_per_principal=1) as clients:
        names = ["ann", "bob", "cat", "dan"]
        processes = [await pid_of(clients.client(name)) for name in names]
        assert [await pid_of(clients.client(name)) for name in names] != processes
        assert not any(map(is_running, processes))


async def hang(client: AsyncClient, count: int, reached: int) -> list[asyncio.Task[Any]]:
    """Begin calls that hang, and return when some of them have reached a process."""
    progress: asyncio.Queue[Any] = asyncio.Queue()

    def report(*values: Any) -> None:
        progress.put_nowait(values)

    calls = [asyncio.create_task(client.call_tool("hang", on_progress=report)) for _ in range(count)]
    for _ in range(reached):
        await progress.get()
    return calls


async def cancel(calls: list[asyncio.Task[Any]]) -> None:
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)


async def test_hanging_calls_of_a_principal_leave_connections_for_others():
    async with front(max_connections=8) as clients:
        calls = await hang(clients.client("eve", "stateless"), count=12, reached=2)
        own = asyncio.create_task(pid_of(clients.client("eve", "stateless")))
        assert await pid_of(clients.client("bob", "stateless")) > 0
        assert await pid_of(clients.client("bob")) > 0
        assert not own.done(), "a principal whose connections all hang waits"
        await cancel(calls)
        assert await own > 0


async def test_a_principal_without_a_free_connection_is_told_so(monkeypatch):
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.2)
    async with front(max_connections=8) as clients:
        calls = await hang(clients.client("eve", "stateless"), count=2, reached=2)
        with pytest.raises(RpcError, match="All 2 connections that the proxy opens for one principal are in use"):
            await pid_of(clients.client("eve"))
        await cancel(calls)


async def test_a_principal_without_a_free_connection_does_not_make_the_target_seem_away():
    async with front(max_connections=8) as clients:
        bob = clients.client("bob")
        assert "pid" in [tool.name for tool in (await bob.list_tools()).tools]
        calls = await hang(clients.client("eve", "stateless"), count=2, reached=2)
        own = asyncio.create_task(clients.client("eve", "stateless").list_tools())
        _, pending = await asyncio.wait([own], timeout=2 * CONNECT_WAIT)
        assert pending, "the list waits for a connection as calls do"
        assert "dragoman/age" not in ((await bob.list_tools()).meta or {})
        await cancel(calls)
        assert "dragoman/age" not in ((await own).meta or {})


async def test_a_full_pool_closes_a_connection_of_another_principal_only_if_nobody_uses_it(monkeypatch):
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.2)
    async with front(isolate="principal", max_connections=2) as clients:
        ann = clients.client("ann")
        process = await pid_of(ann)
        bob = clients.client("bob", "stateless")
        unused = await pid_of(bob)
        with pytest.raises(RpcError, match="All 2 connections of the proxy are in use"):
            await pid_of(clients.client("cat"))
        monkeypatch.setattr(pool, "UNUSED_SECONDS", 0.0)
        assert await pid_of(clients.client("cat")) > 0
        assert await pid_of(ann) == process
        await until(lambda: not is_running(unused))


@pytest.mark.parametrize("isolate", [None, "principal", "session"])
async def test_the_process_of_a_session_ends_when_the_client_ends_the_session(isolate):
    async with front(isolate=isolate) as clients:
        client = clients.client("ann")
        process = await pid_of(client)
        assert is_running(process)
        await client.stop()
        await until(lambda: not is_running(process))


async def test_the_process_of_a_session_ends_when_the_session_expires():
    proxy = HttpFront(COMMAND)
    proxy.serving = {"session_idle_timeout": 1}
    async with asyncio.timeout(DEADLINE), proxy:
        await proxy.begin({"elicitation": {}})
        answer = await proxy.ask("tools/call", {"name": "pid", "arguments": {}})
        process = int(answer.last["result"]["content"][0]["text"])
        assert is_running(process)
        await until(lambda: not is_running(process))
