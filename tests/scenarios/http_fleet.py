"""Processes that serve the same server at ports of their own, with a store between them; the client chooses one."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator
from copy import copy
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from ports import free_port
from scenarios.http_crew import DEADLINE, SERVER, Client, Stream, unannounced, until
from scenarios.http_peer import SECRET

TOOLS = """
    from dragoman import BlockingContext


    async def file(name: str) -> None:
        while not os.path.exists(name):
            await asyncio.sleep(0.01)


    @server.tool
    async def steps(gate: str, ctx: Context) -> str:
        await ctx.report_progress(1)
        await file(gate)
        await ctx.report_progress(2)
        return f"there {os.getpid()}"


    @server.tool
    async def many(count: int, ctx: Context) -> str:
        for number in range(count):
            await ctx.report_progress(number + 1)
            await asyncio.sleep(0.01)
        return "done"


    @server.tool
    async def visit(ctx: Context) -> str:
        user = await ctx.user_state.update("visits", lambda visits: (visits or 0) + 1)
        session = await ctx.session_state.update("visits", lambda visits: (visits or 0) + 1)
        return f"{user} {session}"


    @server.tool
    def visit_blocking(ctx: BlockingContext) -> str:
        user = ctx.user_state.update("visits", lambda visits: (visits or 0) + 1)
        session = ctx.session_state.update("visits", lambda visits: (visits or 0) + 1)
        return f"{user} {session}"


    server.run("http", port=int(sys.argv[1]))
"""
LOCAL = "Local()"


def source(store: str) -> str:
    """Return the program of a process; `store` is an expression."""
    made = f'Server("crew", capabilities=declared, store=stores.{store}, state_key=lambda ctx: "somebody")'
    program = textwrap.dedent(SERVER).replace('Server("crew", capabilities=declared)', made)
    return program.replace("from dragoman import", "from dragoman import stores,") + textwrap.dedent(TOOLS)


class Worker:
    """One process of a fleet."""

    def __init__(self, folder: Path, store: str, environment: dict[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.errors = folder / f"stderr-{self.port}"
        program = folder / f"worker-{self.port}.py"
        program.write_text(source(store))
        with self.errors.open("wb") as stderr:
            self.child = subprocess.Popen(
                [sys.executable, "-W", "error", program, str(self.port)],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                env=os.environ | {"XDG_STATE_HOME": str(folder), "DRAGOMAN_SECRET": SECRET} | environment,
                cwd=folder,
            )

    @property
    def stderr(self) -> str:
        return unannounced(self.errors.read_text())

    def kill(self) -> None:
        """End the process without a warning."""
        self.child.kill()
        self.child.wait(DEADLINE)


class Fleet:
    """Several processes, and a client of one session."""

    def __init__(self, workers: list[Worker], http: aiohttp.ClientSession) -> None:
        self.workers = workers
        self.http = http
        self._ids = count(1000, 1000)

    async def begin(self, number: int = 0) -> Client:
        """Begin a session at a process."""
        client = Client(self.http, self.workers[number].url)
        await client.initialize()
        return client

    def at(self, client: Client, number: int) -> Client:
        """Return the client as it sends to a process."""
        there = copy(client)
        there.url = self.workers[number].url
        there._last_id = next(self._ids)
        return there

    def open(self, gate: str) -> None:
        """Let the tool `steps` go on."""
        for worker in self.workers:
            (worker.folder / gate).touch()


def call_of(client: Client, tool: str, id: Any, **arguments: Any) -> Any:
    """Begin to call a tool that tells its progress."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "t"}}
    return client.post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})


async def left_after_one(client: Client, gate: str, id: Any = "call") -> str:
    """Call a tool, leave after its first event, and return the id of that event."""
    async with call_of(client, "steps", id, gate=gate) as response:
        stream = Stream(response)
        await stream.until(lambda messages: messages)
        response.close()
        return str(stream.events[-1].id)


async def rest_of(client: Client, last_event_id: str) -> list[Any]:
    """Resume a stream, and return its messages to the end."""
    async with client.listen(last_event_id=last_event_id) as response:
        assert response.status == 200, await response.text()
        stream = Stream(response)
        await stream.until(lambda messages: messages and ("result" in messages[-1] or "error" in messages[-1]))
        return stream.messages


@contextlib.asynccontextmanager
async def fleet(size: int = 3, store: str = LOCAL, **environment: str) -> AsyncIterator[Fleet]:
    """Start processes; whatever of them is left at the end is killed.

    If the store is not that of one machine, they have no folder in common.
    """
    with tempfile.TemporaryDirectory(prefix="fleet", dir="/tmp") as folder:
        workers: list[Worker] = []
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        try:
            for number in range(size):
                place = Path(folder) / ("host" if store == LOCAL else f"host{number}")
                place.mkdir(exist_ok=True)
                workers.append(Worker(place, store, environment))
            async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(DEADLINE)) as http:
                for worker in workers:
                    await until(lambda worker=worker: _answers(worker))
                yield Fleet(workers, http)
        finally:
            for worker in workers:
                worker.kill()


def _answers(worker: Worker) -> bool:
    assert worker.child.poll() is None, worker.stderr
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", worker.port), 1):
        return True
    return False
