"""How many instructions does a call cost a client? The count is nearly the same however busy the machine is.

    python bench/client_instructions.py (stdio|http) (stateless|handshake) (1|64) [SIDE ...]

Needs valgrind. The sides are those of `client_sides.py`. Each makes few calls and then many, one after another or by
64 tasks or threads; the difference, by call, is free of what connecting costs. With the source of another commit in
PYTHONPATH, the clients of that commit are counted.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import client_sides
from client import http_server
from processes import DEADLINE, ENVIRONMENT, HERE, python

SIDES = ("bare", "dragoman", "blocking")
FEW, MANY = 128, 1408
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


async def call_in_tasks(side: str, era: str, count: int, at_once: int, *where: str) -> None:
    """Make so many calls by an asynchronous client."""
    async with getattr(client_sides, side)(era, *where) as call:

        async def work() -> None:
            for _ in range(count // at_once):
                await call()

        await asyncio.gather(*(work() for _ in range(at_once)))


def call_in_threads(era: str, count: int, at_once: int, *where: str) -> None:
    """Make so many calls by the blocking client."""
    with client_sides.blocking(era, *where) as call:

        def work() -> None:
            for _ in range(count // at_once):
                call()

        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def instructions(side: str, count: int, *how: Any) -> int:
    """Return how many instructions a client executes in its life, in which it makes so many calls."""
    with tempfile.NamedTemporaryFile() as log:
        valgrind = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
        program = (str(python(side)), str(HERE / "client_instructions.py"), "call", side, str(count), *map(str, how))
        subprocess.run(
            [*valgrind, f"--log-file={log.name}", *program],
            env=ENVIRONMENT | {"PYTHONHASHSEED": "0"},
            check=True,
            timeout=5 * DEADLINE,
        )
        found = COUNTED.search(Path(log.name).read_text())
    assert found is not None
    return int(found[1].replace(",", ""))


def call(side: str, count: str, era: str, at_once: str, *where: str) -> None:
    """Be one client."""
    if side == "blocking":
        call_in_threads(era, int(count), int(at_once), *where)
    else:
        asyncio.run(call_in_tasks(side, era, int(count), int(at_once), *where))


def compare(kind: str, era: str, at_once: str, *sides: str) -> None:
    """Count and print."""
    stdio = ("stdio", sys.executable, str(HERE / "stdio_servers.py"), "dragoman")
    with http_server() if kind == "http" else nullcontext(("", 0)) as (url, _):
        how = (era, at_once, *(("http", url) if kind == "http" else stdio))
        for side in sides or SIDES:
            instructions(side, int(at_once), *how)  # which writes the bytecode of what is imported
            cost = (instructions(side, MANY, *how) - instructions(side, FEW, *how)) // (MANY - FEW)
            print(f"{side:14s}{cost:>12,} instructions a call", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["call"]:
        call(*sys.argv[2:])
    else:
        compare(*sys.argv[1:])
