"""Workers of `server.run("http")` as real processes: each gets its part of the connections, and none is lost."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from scenarios.http_crew import DEADLINE, RUN, SERVER, Crew, crew, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
BODY = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "pid",
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            },
        },
    }
).encode()
REQUEST = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
    b"Mcp-Method: tools/call\r\nMcp-Name: pid\r\nContent-Length: %d\r\n\r\n%b"
) % (len(BODY), BODY)
WITHOUT_UVLOOP = "import sys\nsys.modules['uvloop'] = None\n"


class Held:
    """A connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, processes: Crew) -> "Held":
        return cls(*await asyncio.open_connection("127.0.0.1", processes.port))

    async def pid(self) -> int:
        """Return the process that serves the connection."""
        self.writer.write(REQUEST)
        async with asyncio.timeout(DEADLINE):
            head = await self._reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            answer = json.loads(await self._reader.readexactly(int(length.partition(b":")[2])))
        return int(answer["result"]["content"][0]["text"])


@contextlib.asynccontextmanager
async def opened(processes: Crew, count: int) -> AsyncIterator[Counter[int]]:
    """Open connections one after another, and yield how many each process has while they are open."""
    held: list[Held] = []
    try:
        found: Counter[int] = Counter()
        for _ in range(count):
            held.append(await Held.to(processes))
            found[await held[-1].pid()] += 1
        yield found
    finally:
        for one in held:
            one.writer.close()
            with contextlib.suppress(OSError):
                await one.writer.wait_closed()


async def all_serve(processes: Crew, count: int) -> set[int]:
    """Wait until so many workers serve, and return them; each then knows of the others."""
    found: set[int] = set()

    async def served() -> bool:
        async with opened(processes, 2 * count) as spread:
            found.clear()
            found.update(spread)
        return len(found) == count

    await until(served)
    return found


@pytest.mark.covers("WRK-15")
@pytest.mark.parametrize("loop", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize(("count", "workers"), [(16, 2), (64, 2), (64, 4)])
async def test_every_worker_gets_its_part_of_the_connections_of_a_client(count, workers, loop):
    async with crew(workers, source=loop + textwrap.dedent(SERVER + RUN)) as processes:
        await processes.ready()
        await all_serve(processes, workers)
        async with opened(processes, count) as spread:
            assert spread.keys() == processes.workers()
            # A busy machine may keep a worker from its turn, but not from most of them.
            assert min(spread.values()) >= count / workers / 4, spread
        processes.child.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert processes.stderr == ""


@pytest.mark.covers("WRK-15")
async def test_a_worker_that_was_replaced_gets_the_connections_that_it_lacks():
    async with crew(2) as processes:
        await processes.ready()
        first = await all_serve(processes, 2)
        async with opened(processes, 8) as before:
            killed = min(first)
            os.kill(killed, signal.SIGKILL)
            await until(lambda: processes.workers() - first)
            (new,) = processes.workers() - first

            async def serves() -> bool:
                async with opened(processes, 1) as spread:
                    return new in spread

            await until(serves)
            kept = before[max(first)]
            async with opened(processes, kept) as after:
                assert after[new] >= kept / 4, (before, after)


@pytest.mark.covers("WRK-15")
async def test_connections_do_not_wait_for_a_worker_that_is_stopped():
    async with crew(2) as processes:
        await processes.ready()
        stopped = min(await all_serve(processes, 2))
        os.kill(stopped, signal.SIGSTOP)
        try:
            async with opened(processes, 16) as spread:
                assert spread.keys() == processes.workers() - {stopped}
        finally:
            os.kill(stopped, signal.SIGCONT)
        await all_serve(processes, 2)


@pytest.mark.covers("WRK-15")
@pytest.mark.parametrize("workers", [2, 4])
async def test_connections_that_are_open_or_pending_when_the_signal_comes_are_answered(workers):
    async with crew(workers) as processes:
        await processes.ready()
        await all_serve(processes, workers)
        for pid in processes.workers():
            os.kill(pid, signal.SIGSTOP)  # so that every connection is pending when the signal comes
        pending = [await Held.to(processes) for _ in range(16)]
        answers = [asyncio.create_task(one.pid()) for one in pending]
        await asyncio.sleep(0)  # the requests are written
        processes.child.send_signal(signal.SIGTERM)
        for pid in processes.workers():
            os.kill(pid, signal.SIGCONT)
        assert len(await asyncio.gather(*answers)) == 16
        for one in pending:
            one.writer.close()
        assert await processes.ended() == 0
        assert processes.stderr == ""
