"""What a call costs over HTTP, without a clock: functions, tasks, writes, and what it leaves behind.

By `server.run("http")`, and as an application on uvicorn with httptools.
"""

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn.server import ServerState

from budgets.test_calls import CALLS
from budgets.test_garbage import INITIALIZE, left_by, message, sums
from dragoman import Server
from dragoman.transports.http import http1
from dragoman.transports.http.http1 import Http1Connection

DEADLINE = 60
HEADERS = {
    "stateless": "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: add\r\n",
    "handshake": "MCP-Protocol-Version: 2025-11-25\r\n",
}


class Transport(asyncio.Transport):
    """Keeps each write by itself."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 50000)})
        self.writes: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.writes.append(data)

    def close(self) -> None: ...


def post(headers: str, body: bytes) -> bytes:
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Caller:
    """A client of one connection, that calls the same tool again and again."""

    def __init__(self, era: str, server: Server | None = None, **options: Any) -> None:
        self.state, self.transport = ServerState(), Transport()
        self.connection = self.connect((server or sums()).asgi(**options))
        self.connection.connection_made(self.transport)
        self._era = era

    def connect(self, app: Any) -> Any:
        config: Any = SimpleNamespace(app=app, timeout_keep_alive=5)
        return Http1Connection(config, self.state, {})

    async def begin(self) -> None:
        headers = HEADERS[self._era]
        if self._era == "handshake":
            self.connection.data_received(post("", message(0, "initialize", INITIALIZE)))
            await self._answered()
            head = b"".join(self.transport.writes).decode()
            self.transport.writes.clear()
            headers += next(f"{line}\r\n" for line in head.split("\r\n") if line.startswith("mcp-session-id"))
        self.request = post(headers, CALLS[self._era].replace(b"%d", b"7").strip())

    async def _answered(self) -> None:
        async with asyncio.timeout(DEADLINE):
            while self.state.tasks or not self.transport.writes:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def call(self) -> None:
        self.connection.data_received(self.request)
        await self._answered()
        (written,) = self.transport.writes
        assert b"HTTP/1.1 200 OK" in written
        assert b'"text":"3"' in written
        self.transport.writes.clear()

    def end(self) -> None:
        self.connection.connection_lost(None)


@pytest.mark.parametrize("era", ["stateless", "handshake"])
@pytest.mark.parametrize("has_routes", [False, True])
def test_call_needs_one_task_and_one_write_with_and_without_routes(era, has_routes, monkeypatch):
    async def measure() -> int:
        server = sums()
        if has_routes:
            server.route("/page")(lambda: "a page")
        caller = Caller(era, server, health=has_routes)
        await caller.begin()
        for _ in range(3):
            await caller.call()
        tasks: list[Any] = []

        def note(work: Any, *, loop: asyncio.AbstractEventLoop, **_: Any) -> Any:
            tasks.append(work)
            return loop.create_future()

        with monkeypatch.context() as patched:
            asyncio.get_running_loop().set_task_factory(lambda loop, work, **_: note(work, loop=loop))
            patched.setattr(http1, "SelfCancelTask", note)
            caller.connection.data_received(caller.request)
            asyncio.get_running_loop().set_task_factory(None)
        (work,) = tasks
        next(iter(work.__await__()), None)
        assert b'"text":"3"' in b"".join(caller.transport.writes)
        assert len(caller.transport.writes) == 1
        caller.end()
        return len(tasks)

    assert asyncio.run(measure()) == 1


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_call_leaves_nothing_and_neither_does_a_connection(era):
    async def measure() -> tuple[float, weakref.ref[Http1Connection]]:
        caller = Caller(era)
        await caller.begin()
        by_call = await left_by(caller.call)
        caller.end()
        gc.collect()
        gc.disable()
        return by_call, weakref.ref(caller.connection)

    try:
        by_call, connection = asyncio.run(measure())
        assert by_call == 0
        assert connection() is None
    finally:
        gc.enable()
