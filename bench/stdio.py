"""How fast is a stdio server, against those of others and the smallest loop that does the same I/O?

The same tools are called on every side, in the handshake era. All servers run at once and the rounds alternate between
them; what counts is the ratio within each round, because times on a shared machine mean little alone.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from processes import (
    DEADLINE,
    ENVIRONMENT,
    HERE,
    node,
    on_one_core,
    python,
    resident_megabytes,
    seconds_on_a_core,
    stop,
)
from rows import Effort, Held, Row, Samples, Wanted, alternate, at_least, at_most

SIDES = ("dragoman", "typescript", "mcp", "fastmcp", "bare")
WITHOUT_BARE = SIDES[:-1]
TYPESCRIPT_TOOLS = ("add", "echo", "hold", "release")
# About as many as a side answers in the same time.
PIPELINED = {"bare": 100, "dragoman": 50, "typescript": 20, "mcp": 2, "fastmcp": 1}
PIPELINED_IN_THREADS = {"dragoman": 20, "mcp": 2, "fastmcp": 1}
OF_DEF = "add_in_thread"
"""The tool that is a `def`, and runs in a worker thread."""
LISTED = 1000
PAYLOAD = "x" * (1 << 20)
SLOW = 1000
NEWLINE = ord("\n")
LOOKED_AT = 4096
"""How much of an answer's end is looked at: all of a long one would drive what is measured out of the caches."""
ROOM = 1 << 26
"""For all answers to what is asked in one go; pages that nothing was written to take no memory."""


def line(message: dict[str, object]) -> bytes:
    """Return a message as it is written."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


INITIALIZE = line(
    {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    }
)
INITIALIZED = line({"method": "notifications/initialized"})


def request(number: int, method: str, **params: object) -> bytes:
    """Return a request."""
    return line({"id": number, "method": method, "params": params})


def calls(tool: str, count: int) -> list[bytes]:
    """Return that many calls of a tool."""
    return [request(number, "tools/call", name=tool, arguments={"a": number, "b": 1}) for number in range(1, count + 1)]


class Server:
    """One server as a child process that has answered `initialize`."""

    def __init__(self, side: str, more: int = 0, interpreter: Path | None = None) -> None:
        started = time.perf_counter()
        self.child = subprocess.Popen(
            command(side, more, interpreter), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, bufsize=0
        )
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self._input, self._output = self.child.stdin.fileno(), self.child.stdout.fileno()
        # Of whole pages: copying from pages of a pipe to an address a few bytes into one is several times slower.
        self._received = mmap.mmap(-1, ROOM)
        self.ask(INITIALIZE)
        self.seconds_to_first_answer = time.perf_counter() - started
        self._write(INITIALIZED)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.close()
        stop(self.child, ask=False)
        self.child.stdout.close()

    def ask(self, request: bytes) -> memoryview:
        """Write one request and return its answer, to be looked at before the next."""
        return self.ask_all(request, 1)

    def ask_all(self, requests: bytes, count: int) -> memoryview:
        """Write requests while so many answers are read, and return these, to be looked at before the next."""
        if len(requests) <= select.PIPE_BUF:
            self._write(requests)
            return self.read(count)
        writer = threading.Thread(target=self._write, args=(requests,), daemon=True)
        writer.start()
        answers = self.read(count)
        writer.join(DEADLINE)
        return answers

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._input, rest) :]

    def read(self, count: int) -> memoryview:
        """Return so many answers; that they are read must cost little beside what writing them does."""
        size = 0
        signal.alarm(int(DEADLINE))
        while count > 0:
            came = os.readv(self._output, [memoryview(self._received)[size:]])
            if came == 0:
                raise SystemExit(f"{self.child.args!r} did not answer: {self._received[:size][-500:]!r}")
            size += came
            if count > 1:
                count -= self._received[size - came : size].count(b"\n")
            elif self._received[size - 1] == NEWLINE:
                count = 0
        signal.alarm(0)
        return memoryview(self._received)[:size]


def _give_up(*_: object) -> None:
    raise SystemExit(f"A server did not answer within {DEADLINE} seconds")


signal.signal(signal.SIGALRM, _give_up)


def command(side: str, more: int, interpreter: Path | None = None) -> list[str | Path]:
    """Return how to start a server, by the Python of its side or by another."""
    if side == "typescript":
        return [node(), HERE / "server.mjs", "stdio", str(more), *TYPESCRIPT_TOOLS]
    return [interpreter or python(side), HERE / "stdio_servers.py", side, str(more)]


def check_sums(side: str, answers: memoryview, count: int) -> None:
    """Stop when a side answered wrongly: its figures would mean nothing."""
    sums = {}
    for answer in bytes(answers).splitlines():
        message = json.loads(answer)
        sums[message["id"]] = message["result"]["content"][0]["text"]
    if sums != {number: str(number + 1) for number in range(1, count + 1)}:
        raise SystemExit(f"{side} answered wrongly: {bytes(answers[:500])!r}")


def median_microseconds(server: Server, requests: Iterable[bytes], holds: bytes) -> float:
    """Return how long an answer takes when the next request waits for it."""
    durations = []
    for written in requests:
        started = time.perf_counter()
        answer = server.ask(written)
        durations.append(time.perf_counter() - started)
        if holds not in bytes(answer[-LOOKED_AT:]):
            raise SystemExit(f"{server.child.args!r} answered wrongly: {bytes(answer[:500])!r}")
    return statistics.median(durations) * 1e6


class Workloads:
    """The servers, and what is asked of them."""

    def __init__(self, servers: dict[str, Server], effort: Effort) -> None:
        self._servers = servers
        self._effort = effort

    def _row(
        self, name: str, title: str, unit: str, sides: Iterable[str], measure: Callable[[str], float], *held: Held
    ) -> Row:
        samples = alternate(self._effort.rounds, sides, measure)
        return Row(name, title, unit, samples, held, more_is_better=unit.endswith("/s"))

    def _rate(self, side: str, tool: str, count: int) -> float:
        """Return how many calls that are written in one go are answered in a second."""
        requests = b"".join(calls(tool, count))
        started = time.perf_counter()
        answers = self._servers[side].ask_all(requests, count)
        elapsed = time.perf_counter() - started
        check_sums(side, answers, count)
        return count / elapsed

    def pipelined(self) -> Row:
        """Calls that are written in one go."""

        def measure(side: str) -> float:
            return self._rate(side, "add", PIPELINED[side] * self._effort.calls * 2)

        held = (at_least(70, "mcp"), at_least(2, "typescript"))
        return self._row("stdio_pipelined", "stdio, tools/call, pipelined", "calls/s", SIDES, measure, *held)

    def pipelined_in_threads(self) -> Row:
        """Calls of a `def` that are written in one go."""

        def measure(side: str) -> float:
            return self._rate(side, OF_DEF, PIPELINED_IN_THREADS[side] * self._effort.calls * 2)

        title = "stdio, a `def` tool, pipelined"
        return self._row("stdio_def_pipelined", title, "calls/s", PIPELINED_IN_THREADS, measure, at_least(20, "mcp"))

    def sequential_in_threads(self) -> Row:
        """Calls of a `def` of which each waits for the one before."""
        requests = calls(OF_DEF, self._effort.calls)

        def measure(side: str) -> float:
            return median_microseconds(self._servers[side], requests, b'"text"')

        # On all cores: the thread of a tool runs beside the loop.
        sides = ("dragoman", "mcp", "fastmcp", "bare-thread")
        title = "stdio, a `def` tool, one at a time, p50"
        return self._row("stdio_def_sequential", title, "us", sides, measure, at_most(1.5, "bare-thread"))

    def sequential(self) -> Row:
        """Calls of which each waits for the one before."""
        requests = calls("add", self._effort.calls)

        def measure(side: str) -> float:
            return median_microseconds(self._servers[side], requests, b'"text"')

        held = at_most(1.3, "bare-asyncio")
        sides = (*SIDES, "bare-asyncio")
        with on_one_core((os.getpid(), *(server.child.pid for server in self._servers.values()))):
            return self._row("stdio_sequential", "stdio, tools/call, one at a time, p50", "us", sides, measure, held)

    def payload(self) -> Row:
        """Calls with an argument and an answer of 1 MiB."""
        requests = [request(1, "tools/call", name="echo", arguments={"text": PAYLOAD})] * max(
            5, self._effort.calls // 20
        )

        def measure(side: str) -> float:
            return median_microseconds(self._servers[side], requests, PAYLOAD[:100].encode()) / 1e3

        return self._row("stdio_payload", "stdio, 1 MiB in and out, p50", "ms", SIDES, measure)

    def slow(self) -> Row:
        """Pings while a thousand calls are in flight."""
        held = b"".join(request(number, "tools/call", name="hold", arguments={}) for number in range(1, SLOW + 1))
        pings = [request(number, "ping") for number in range(SLOW + 1, SLOW + 1 + self._effort.calls)]
        release = request(SLOW + 1, "tools/call", name="release", arguments={})

        def measure(side: str) -> float:
            server = self._servers[side]
            server.ask_all(held + b"".join(pings[:1]), 1)
            for ping in pings[:10]:
                server.ask(ping)
            latency = median_microseconds(server, pings, b'"result":{}')
            server.ask_all(release, SLOW + 1)
            return latency

        title = "stdio, ping while 1,000 calls are in flight, p50"
        return self._row("stdio_slow", title, "us", WITHOUT_BARE, measure)


def listing(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure lists of a thousand tools, and pings of ours to compare with: how long they take, and the server needs.

    Most of the time that a long list takes is that of the client, which reads it.
    """
    costs: Samples = {side: [] for side in (*WITHOUT_BARE, "ping")}
    requests = [request(number, "tools/list") for number in range(effort.calls)]
    pings = [request(number, "ping") for number in range(effort.calls)]
    with ExitStack() as stack:
        servers = {side: stack.enter_context(Server(side, LISTED)) for side in WITHOUT_BARE}

        def measure(side: str) -> float:
            few = requests if side in ("dragoman", "typescript") else requests[: max(5, effort.calls // 20)]
            asked, holds = (pings, b'"result":{}') if side == "ping" else (few, b'"tool_999"')
            server = servers["dragoman" if side == "ping" else side]
            spent = seconds_on_a_core(server.child.pid)
            taken = median_microseconds(server, asked, holds)
            costs[side].append((seconds_on_a_core(server.child.pid) - spent) / len(asked) * 1e6)
            return taken

        with on_one_core((os.getpid(), *(server.child.pid for server in servers.values()))):
            samples = alternate(effort.rounds, costs, measure)
    title = "stdio, tools/list of 1,000 tools"
    if wanted("stdio_list"):
        yield Row("stdio_list", f"{title}, p50", "us", samples, more_is_better=False)
    if wanted("stdio_list_cost"):
        held = (at_most(2.5, "ping"),)
        yield Row("stdio_list_cost", f"{title}, on the server's core", "us", costs, held, more_is_better=False)


def starts_and_memory(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure a fresh process each: how long until it answers, and what it holds then."""
    megabytes: Samples = {side: [] for side in (*SIDES, "bare-asyncio")}
    smallest = {"dragoman": "small-dragoman"}

    def measure(side: str) -> float:
        with Server(smallest.get(side, side)) as server:
            megabytes[side].append(resident_megabytes(server.child.pid))
            return server.seconds_to_first_answer * 1e3

    milliseconds = alternate(effort.rounds, megabytes, measure)
    if wanted("stdio_start"):
        held = (at_most(1.6, "bare-asyncio"),)
        yield Row("stdio_start", "stdio, start to first answer", "ms", milliseconds, held, more_is_better=False)
    if wanted("stdio_memory"):
        held = (at_most(1.5, "bare-asyncio"),)
        yield Row("stdio_memory", "stdio, memory of an idle server", "MB", megabytes, held, more_is_better=False)


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of stdio servers."""
    if wanted("stdio_start") or wanted("stdio_memory"):
        yield from starts_and_memory(effort, wanted)
    methods = {
        "stdio_pipelined": Workloads.pipelined,
        "stdio_sequential": Workloads.sequential,
        "stdio_payload": Workloads.payload,
        "stdio_slow": Workloads.slow,
        "stdio_def_pipelined": Workloads.pipelined_in_threads,
        "stdio_def_sequential": Workloads.sequential_in_threads,
    }
    chosen = [method for name, method in methods.items() if wanted(name)]
    if chosen:
        with ExitStack() as stack:
            sides = (*SIDES, "bare-asyncio", "bare-thread")
            workloads = Workloads({side: stack.enter_context(Server(side)) for side in sides}, effort)
            for method in chosen:
                yield method(workloads)
    if wanted("stdio_list") or wanted("stdio_list_cost"):
        yield from listing(effort, wanted)
