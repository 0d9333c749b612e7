"""A fleet of servers that share a Redis, used by the official clients, and what came of each call."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from faults.stores.balancing import Balancer
from interop.processes import client_command
from ports import free_port
from redis_proxy import RedisProxy, proxied
from redis_server import KEEPING, RedisServer, debugging

SCRIPTS = Path(__file__).parents[2] / "interop" / "chaos"
SESSIONS = 2
HUNG_AFTER = 20.0
DEADLINE = 60.0
CLEAR = (
    "The client did not answer elicitation/create within 3 seconds",
    "The process that served this request is gone; the request may have run",
    "The events of this request cannot be read while the store is away; the request may have run",
    # words of the clients, about a connection that broke
    "fetch failed",
    "terminated",
    "Connection closed",
    "SSE stream ended",
    "RemoteProtocolError: ",
    "ReadError: ",
    "ConnectError: ",
)
"""What the errors may say."""


class Worker:
    """One server process, with a loopback address of its own, by which the balancer knows it."""

    def __init__(self, number: int, redis_url: str, folder: Path) -> None:
        self.address = f"127.0.78.{number}"
        self.port = free_port()
        self.said = folder / f"worker-{number}.log"
        arguments = [redis_url, self.address, str(self.port), str(folder / "executed")]
        home = folder / f"home-{number}"
        home.mkdir()
        with self.said.open("wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, str(SCRIPTS / "recording_server.py"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"HOME": str(home), "XDG_STATE_HOME": str(home)},
            )

    async def listening(self) -> None:
        """Wait until the server accepts connections."""
        ends = time.monotonic() + DEADLINE
        while True:
            assert self.child.poll() is None, self.said.read_text()
            assert time.monotonic() < ends, self.said.read_text()
            with suppress(OSError):
                _, writer = await asyncio.open_connection(self.address, self.port)
                writer.close()
                return
            await asyncio.sleep(0.05)

    def kill(self) -> None:
        """End the server with SIGKILL."""
        self.child.kill()
        self.child.wait(DEADLINE)


@dataclass
class Toll:
    """What came of the calls.

    `lost` counts calls without any outcome, and results of calls that no server executed. `twice` counts calls that
    were executed more than once although the client sent them once, and `resent` calls that a client sent again.
    `unheard` counts calls that were executed and ended with an error for the client.
    """

    calls: int
    kinds: dict[str, int]
    lost: int
    twice: int
    resent: int
    unheard: int
    answered_elsewhere: int
    slowest: float
    unconnected: int
    errors: dict[str, int]

    def show(self) -> None:
        """Write the counts to the output of the tests."""
        sys.stdout.write(f"\n{json.dumps(asdict(self), indent=2)}\n")

    def judge(self) -> None:
        """Assert that no call hung or was executed twice, and that each one has a result or a clear error."""
        assert {name.split()[1] for name in self.kinds} <= {"result", "error"}, self
        assert (self.lost, self.twice, self.resent) == (0, 0, 0), self
        assert self.slowest < HUNG_AFTER, self
        assert [words for words in self.errors if not any(clear in words for clear in CLEAR)] == [], self
        assert self.answered_elsewhere > 0, self


class Fleet:
    """Three servers behind a balancer, and the clients that use them; `redis_url` is what the servers share."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.redis_url = redis_url
        self.workers = [Worker(number, redis_url, folder) for number in (1, 2, 3)]
        self.balancer = Balancer(*((worker.address, worker.port) for worker in self.workers))
        self.lines: list[dict[str, Any]] = []
        self._made = 3
        self._heard = asyncio.Event()

    async def replace(self, victim: Worker) -> None:
        """Kill a server, and put a new one into its place."""
        victim.kill()
        self._made += 1
        successor = Worker(self._made, self.redis_url, self.folder)
        self.workers[self.workers.index(victim)] = successor
        await successor.listening()
        self.balancer.servers = tuple((worker.address, worker.port) for worker in self.workers)

    async def use(self, peer: str, name: str, url: str, ending: asyncio.Event) -> None:
        """Run one process of an official client until `ending`, and keep what it tells."""
        program = str(client_command(peer)[0])
        script = SCRIPTS / {"python": "python_load.py", "typescript": "typescript_load.mjs"}[peer]
        child = await asyncio.create_subprocess_exec(
            program,
            str(script),
            *(name, url, str(SESSIONS), str(HUNG_AFTER)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        closing = asyncio.create_task(self._close(child.stdin, ending))
        try:
            async for line in child.stdout:
                self.lines.append(json.loads(line) | {"peer": peer})
                self._heard.set()
            assert await child.wait() == 0
        finally:
            closing.cancel()
            if child.returncode is None:
                child.send_signal(signal.SIGKILL)
                await child.wait()

    @staticmethod
    async def _close(stdin: asyncio.StreamWriter, ending: asyncio.Event) -> None:
        await ending.wait()
        stdin.close()

    async def called(self) -> Worker:
        """Wait for the next call, and return the server that it went to."""
        seen = len(self.balancer.served)
        async with asyncio.timeout(DEADLINE):
            while True:
                for address, _, body in self.balancer.served[seen:]:
                    if b'"tools/call"' in body:
                        return next(worker for worker in self.workers if worker.address == address)
                await asyncio.sleep(0.01)

    async def results(self, count: int = 6) -> None:
        """Wait until each kind of client got so many more results."""
        began, ends = len(self.lines), time.monotonic() + DEADLINE
        while True:
            got = Counter(line["peer"] for line in self.lines[began:] if line["kind"] == "result")
            if all(got[peer] >= count for peer in ("python", "typescript")):
                return
            self._heard.clear()
            async with asyncio.timeout(ends - time.monotonic()):
                await self._heard.wait()

    def toll(self) -> Toll:
        """Count what came of the calls."""
        calls = [line for line in self.lines if line["number"] is not None]
        executed = Counter((self.folder / "executed").read_text().split())
        sent, elsewhere = self._passed()
        ended = {line["number"]: line["kind"] for line in calls}
        return Toll(
            calls=len(calls),
            kinds=dict(Counter(f"{line['peer']} {line['kind']}" for line in calls)),
            lost=len(sent.keys() - ended) + sum(kind == "result" and not executed[one] for one, kind in ended.items()),
            twice=sum(times > 1 for number, times in executed.items() if sent[number] <= 1),
            resent=sum(times > 1 for times in sent.values()),
            unheard=sum(kind == "error" and executed[number] > 0 for number, kind in ended.items()),
            answered_elsewhere=elsewhere,
            slowest=max(line["seconds"] for line in calls),
            unconnected=len(self.lines) - len(calls),
            errors=dict(Counter(f"{line['peer']}: {line['words']}" for line in self.lines if line["words"])),
        )

    def _passed(self) -> tuple[Counter[str], int]:
        """Return how often the balancer passed each call on, and how many answers went to another server."""
        sent: Counter[str] = Counter()
        asked: dict[str, str] = {}
        elsewhere = 0
        for address, method, body in self.balancer.served:
            message = json.loads(body) if method == "POST" else {}
            if message.get("method") == "tools/call":
                number = message["params"]["arguments"]["number"]
                sent[number] += 1
                asked[number] = address
            elif content := message.get("result", {}).get("content"):
                elsewhere += asked[content["value"]] != address
        return sent, elsewhere

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """Let clients use the servers, and at the end of the block wait until all of their calls have an outcome."""
        with ExitStack() as stack:
            stack.callback(lambda: [worker.kill() for worker in self.workers])
            for worker in self.workers:
                await worker.listening()
            listening = await self.balancer.listen()
            stack.callback(listening.close)
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
            ending = asyncio.Event()
            async with asyncio.TaskGroup() as clients:
                for name in ("python", "typescript"):
                    for number in range(2):
                        clients.create_task(self.use(name, f"{name}{number}", url, ending))
                yield
                ending.set()


class RedisFleet(Fleet):
    """A fleet with one Redis server, and a proxy before it."""

    def __init__(self, folder: Path, redis: RedisServer, proxy: RedisProxy) -> None:
        super().__init__(folder, proxy.url)
        self.redis = redis
        self.proxy = proxy


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[RedisFleet]:
    """Run a fleet on one Redis server, and let clients use it."""
    with RedisServer(folder / "redis", *KEEPING, *debugging()) as redis:
        async with proxied(redis) as proxy:
            made = RedisFleet(folder, redis, proxy)
            async with made.used():
                yield made
