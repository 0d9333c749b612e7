"""How many instructions or system calls does a call cost a server? A busy machine changes the counts little.

    python bench/instructions.py [--of ROW] [--system-calls] [SIDE ...]

ROW is `stdio` (by default), `stdio_def` for a `def` tool, or a row of `streamable_http.py`. Needs valgrind, under which
a server is some fifty times slower, or strace. Each server is asked few calls and then many; the difference, by call,
is free of what starting costs. A server over stdio gets all calls in one go.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from contextlib import closing
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import stdio
import streamable_http
from processes import DEADLINE, ENVIRONMENT, children, free_port, stop, wait_until_it_listens
from streamable_http import WORKLOADS

TOOLS = {"stdio": "add", "stdio_def": stdio.OF_DEF}
STDIO_SIDES = ("bare", "bare-asyncio", "dragoman", "mcp", "fastmcp")
HTTP_SIDES = ("bare", "dragoman")
FEW = 200
MANY = {"mcp": 400, "fastmcp": 400}
MOST = 4000


class Meter(NamedTuple):
    """A program that runs another one, and what it writes about it."""

    program: str
    options: tuple[str, ...]
    found: str

    def command(self, log: str, measured: Iterable[str | Path]) -> list[str | Path]:
        """Return how to run a program, and to write the count to a log."""
        return [self.program, *(option.format(log=log) for option in self.options), *measured]

    def read(self, log: str) -> int | None:
        """Return the count, if there is one."""
        found = re.search(self.found, Path(log).read_text())
        return None if found is None else int(found[1].replace(",", ""))


CACHEGRIND = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", "--fair-sched=yes")
INSTRUCTIONS = Meter("valgrind", (*CACHEGRIND, "--log-file={log}"), r"I\s+refs:\s+([\d,]+)")
SYSTEM_CALLS = Meter("strace", ("-f", "-c", "-U", "calls,name", "-o", "{log}"), r"(\d+) +total")


def of_stdio(meter: Meter, log: str, tool: str, side: str, count: int) -> int:
    """Ask a stdio server so many calls, and return how many answers came."""
    server = subprocess.Popen(
        meter.command(log, stdio.command(side, 0)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT | {"PYTHONHASHSEED": "0"},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    requests = stdio.INITIALIZE + stdio.INITIALIZED + b"".join(stdio.calls(tool, count))
    threading.Thread(target=_write, args=(server.stdin, requests), daemon=True).start()
    answered = sum(1 for _ in islice(iter(server.stdout.readline, b""), count + 1))
    with closing(server.stdout):
        server.stdin.close()
        server.wait(DEADLINE)
    return answered - 1


def _write(to: IO[bytes], requests: bytes) -> None:
    to.write(requests)
    to.flush()


class MeteredServer(streamable_http.Server):
    """A server over HTTP that runs under a meter."""

    def __init__(self, meter: Meter, log: str, name: str) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="bench")
        self.child = subprocess.Popen(
            meter.command(log, [*streamable_http.command(name), str(self.port)]),
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT | {"PYTHONHASHSEED": "0", "XDG_STATE_HOME": self._folder.name},
        )
        wait_until_it_listens(self.child, self.port)
        self._connection = HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        started = children(self.child.pid)  # by strace, which passes no signal on, and ends with what it runs
        for process in started:
            os.kill(process, signal.SIGTERM)
        stop(self.child, ask=not started)
        self._folder.cleanup()


def of_http(meter: Meter, log: str, row: str, side: str, count: int) -> int:
    """Ask a server over HTTP so many calls, and return how many answers came."""
    asked = WORKLOADS[row]
    with MeteredServer(meter, log, asked.sides[side].server) as server, streamable_http.Load() as load:
        requests = server.requests(asked.sides[side], asked)
        return int(load.go(port=server.port, seconds=0, count=count, requests=requests)["answers"])


def count_of(meter: Meter, row: str, side: str, calls: int) -> int:
    """Return what a server needs in its life, in which it answers so many calls."""
    with tempfile.NamedTemporaryFile() as log:
        if row in TOOLS:
            answered = of_stdio(meter, log.name, TOOLS[row], side, calls)
        else:
            answered = of_http(meter, log.name, row, side, calls)
        counted = meter.read(log.name)
    if counted is None or answered != calls:
        raise SystemExit(f"{side} answered {answered} of {calls}")
    return counted


def by_call(meter: Meter, row: str, side: str) -> float:
    """Return what one call costs."""
    many = MANY.get(side, MOST)
    count_of(meter, row, side, 16)  # which writes the bytecode of what is imported
    return (count_of(meter, row, side, many) - count_of(meter, row, side, FEW)) / (many - FEW)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description="Count what a call costs a server.")
    parser.add_argument("--of", default="stdio", choices=[*TOOLS, *WORKLOADS], metavar="ROW")
    parser.add_argument("--system-calls", action="store_true", help="count system calls and not instructions")
    parser.add_argument("sides", nargs="*", metavar="SIDE")
    asked = parser.parse_args()
    meter, what = (SYSTEM_CALLS, "system calls") if asked.system_calls else (INSTRUCTIONS, "instructions")
    if shutil.which(meter.program) is None:
        raise SystemExit(f"{meter.program} is not installed")
    for side in asked.sides or (STDIO_SIDES if asked.of in TOOLS else HTTP_SIDES):
        digits = 1 if asked.system_calls else 0
        print(f"{asked.of:16s}{side:14s}{by_call(meter, asked.of, side):>12,.{digits}f} {what} a call", flush=True)


if __name__ == "__main__":
    main()
