"""How fast is a stdio server, against the official Python SDK and the smallest loops that do the same I/O?

    make bench

The same tool is called on every side, in the handshake era. All servers run at once and the rounds alternate between
them; what counts is the ratio of the medians, because times on a shared machine mean little alone.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / ".venv" / "peers" / "bin" / "python"
OURS = Path(sys.executable)
PYTHONS = {"bare": OURS, "bare-asyncio": OURS, "dragoman": OURS, "mcp": PEERS}
TOOLS = {
    "bare": ("bare", "add_inline"),
    "bare-asyncio": ("bare-asyncio", "add_inline"),
    "dragoman, async": ("dragoman", "add"),
    "dragoman, in a thread": ("dragoman", "add_in_thread"),
    "dragoman, inline": ("dragoman", "add_inline"),
    "mcp, async": ("mcp", "add"),
    "mcp, in a thread": ("mcp", "add_in_thread"),
}
ROUNDS = 5
STARTS = 5
PIPELINED = {"bare": 20_000, "bare-asyncio": 20_000, "dragoman": 20_000, "mcp": 500}
SEQUENTIAL = 200
DEADLINE = 60.0
# Either distorts what is measured: the one imports, the other stdout.
DISTORTING = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in DISTORTING}

Samples = dict[str, list[float]]


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


def calls(tool: str, count: int) -> bytes:
    """Return that many calls of a tool, to be written in one go."""
    return b"".join(
        line({"id": number, "method": "tools/call", "params": {"name": tool, "arguments": {"a": number, "b": 1}}})
        for number in range(1, count + 1)
    )


class Server:
    """One server as a child process that has answered `initialize`."""

    def __init__(self, side: str) -> None:
        started = time.perf_counter()
        self.child = subprocess.Popen(
            [PYTHONS[side], HERE / "stdio_servers.py", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            bufsize=0,
        )
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self._input, self._output = self.child.stdin.fileno(), self.child.stdout.fileno()
        self.ask(INITIALIZE)
        self.seconds_to_first_answer = time.perf_counter() - started
        os.write(self._input, INITIALIZED)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.close()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(10)
        self.child.stdout.close()

    def ask(self, request: bytes) -> bytes:
        """Write one request and return its answer."""
        os.write(self._input, request)
        return self._read(1)

    def ask_all(self, requests: bytes, count: int) -> bytes:
        """Write many requests while their answers are read, and return these."""
        writer = threading.Thread(target=self._write, args=(requests,), daemon=True)
        writer.start()
        answers = self._read(count)
        writer.join(DEADLINE)
        return answers

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._input, rest) :]

    def _read(self, count: int) -> bytes:
        chunks: list[bytes] = []
        ends = time.monotonic() + DEADLINE
        while count:
            readable, _, _ = select.select([self._output], [], [], ends - time.monotonic())
            chunk = os.read(self._output, 1 << 18) if readable else b""
            if not chunk:
                raise SystemExit(f"{self.child.args!r} did not answer: {b''.join(chunks)[-500:]!r}")
            chunks.append(chunk)
            count -= chunk.count(b"\n")
        return b"".join(chunks)

    def resident_megabytes(self) -> float:
        """Return the memory that the process holds."""
        printed = subprocess.run(["ps", "-o", "rss=", "-p", str(self.child.pid)], capture_output=True, check=True)
        return int(printed.stdout) / 1024


def check_answers(label: str, answers: bytes, count: int) -> None:
    """Stop when a side answered wrongly: its figures would mean nothing."""
    sums = {}
    for answer in answers.splitlines():
        message = json.loads(answer)
        sums[message["id"]] = message["result"]["content"][0]["text"]
    if sums != {number: str(number + 1) for number in range(1, count + 1)}:
        raise SystemExit(f"{label} answered wrongly: {answers[:500]!r}")


def calls_per_second(label: str, server: Server) -> float:
    """Return how many calls a second a side answers that are written in one go."""
    side, tool = TOOLS[label]
    count = PIPELINED[side]
    requests = calls(tool, count)
    started = time.perf_counter()
    answers = server.ask_all(requests, count)
    elapsed = time.perf_counter() - started
    check_answers(label, answers, count)
    return count / elapsed


def median_microseconds(label: str, server: Server) -> float:
    """Return how long a call takes when the next one waits for its answer."""
    _, tool = TOOLS[label]
    durations = []
    for request in calls(tool, SEQUENTIAL).splitlines(keepends=True):
        started = time.perf_counter()
        server.ask(request)
        durations.append(time.perf_counter() - started)
    return statistics.median(durations) * 1e6


def alternate(measure: Callable[[str, Server], float], servers: dict[str, Server]) -> Samples:
    """Measure every side in turn, in each round after one that warms up."""
    samples: Samples = {label: [] for label in TOOLS}
    for warmed_up in [False] + [True] * ROUNDS:
        for label, (side, _) in TOOLS.items():
            sample = measure(label, servers[side])
            if warmed_up:
                samples[label].append(sample)
    return samples


def starts_and_memory() -> tuple[Samples, Samples]:
    """Return milliseconds from the start to the first answer, and megabytes after it, of a fresh process each."""
    milliseconds: Samples = {side: [] for side in PYTHONS}
    megabytes: Samples = {side: [] for side in PYTHONS}
    for warmed_up in [False] + [True] * STARTS:
        for side in PYTHONS:
            with Server(side) as server:
                if warmed_up:
                    milliseconds[side].append(server.seconds_to_first_answer * 1e3)
                    megabytes[side].append(server.resident_megabytes())
    return milliseconds, megabytes


def show(title: str, samples: Samples, unit: str) -> dict[str, float]:
    """Print the median and the spread of each side; return the medians."""
    print(f"\n{title}")
    medians = {label: statistics.median(values) for label, values in samples.items()}
    for label, values in samples.items():
        print(f"  {label:22} {medians[label]:>12,.1f} {unit:8} ({min(values):,.1f} to {max(values):,.1f})")
    return medians


def ratio(medians: dict[str, float], label: str, other: str, aim: str) -> None:
    """Print how a side compares with another."""
    print(f"  ratio  {label} / {other}: {medians[label] / medians[other]:.2f}  ({aim})")


def main() -> None:
    """Print every measure."""
    with ExitStack() as stack:
        servers = {side: stack.enter_context(Server(side)) for side in PYTHONS}
        throughput = show("tools/call, pipelined", alternate(calls_per_second, servers), "calls/s")
        ratio(throughput, "dragoman, async", "mcp, async", "we hold >= 100")
        ratio(throughput, "dragoman, in a thread", "mcp, in a thread", "for information")
        ratio(throughput, "dragoman, inline", "mcp, async", "for information")
        ratio(throughput, "dragoman, async", "bare", "for information")
        ratio(throughput, "dragoman, inline", "bare", "for information")
        latency = show("tools/call, one at a time, p50", alternate(median_microseconds, servers), "us")
        ratio(latency, "dragoman, async", "bare", "we hold <= 1.6")
        ratio(latency, "dragoman, async", "bare-asyncio", "for information")
        ratio(latency, "dragoman, in a thread", "bare", "for information")
        ratio(latency, "dragoman, inline", "bare", "for information")
        ratio(latency, "dragoman, async", "mcp, async", "for information")
    milliseconds, megabytes = starts_and_memory()
    starts = show("start to first answer", milliseconds, "ms")
    ratio(starts, "dragoman", "bare", "we hold <= 1.6")
    ratio(starts, "dragoman", "bare-asyncio", "for information")
    ratio(starts, "dragoman", "mcp", "for information")
    memory = show("memory of an idle server", megabytes, "MB")
    ratio(memory, "dragoman", "bare", "we hold <= 1.5")
    ratio(memory, "dragoman", "bare-asyncio", "for information")
    ratio(memory, "dragoman", "mcp", "for information")


if __name__ == "__main__":
    main()
