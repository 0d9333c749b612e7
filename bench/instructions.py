"""How many instructions does a call cost a stdio server? The count is the same however busy the machine is.

    python bench/instructions.py [SIDE ...]

Needs valgrind, under which a server is some fifty times slower. Each server is asked few calls and then many, all
written in one go; the difference, by call, is free of what starting costs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import threading
from itertools import islice
from pathlib import Path
from typing import IO

from processes import DEADLINE, ENVIRONMENT
from stdio import INITIALIZE, INITIALIZED, calls, command

SIDES = ("bare", "bare-asyncio", "dragoman", "mcp", "fastmcp")
FEW = 200
MANY = {"mcp": 400, "fastmcp": 400}
MOST = 4000
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def instructions(side: str, count: int) -> int:
    """Return how many instructions a server executes in its life, in which it answers so many calls."""
    with tempfile.NamedTemporaryFile() as log:
        server = subprocess.Popen(
            [
                *("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"),
                f"--log-file={log.name}",
                *command(side, 0),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT | {"PYTHONHASHSEED": "0"},
        )
        assert server.stdin is not None
        assert server.stdout is not None
        requests = INITIALIZE + INITIALIZED + b"".join(calls("add", count))
        threading.Thread(target=_write, args=(server.stdin, requests), daemon=True).start()
        answered = sum(1 for _ in islice(iter(server.stdout.readline, b""), count + 1))
        server.stdin.close()
        server.wait(DEADLINE)
        found = COUNTED.search(Path(log.name).read_text())
    if found is None or answered != count + 1:
        raise SystemExit(f"{side} answered {answered} of {count + 1}")
    return int(found[1].replace(",", ""))


def _write(to: IO[bytes], requests: bytes) -> None:
    to.write(requests)
    to.flush()


def by_call(side: str) -> int:
    """Return what one call costs."""
    many = MANY.get(side, MOST)
    instructions(side, 1)  # which writes the bytecode of what is imported
    return (instructions(side, many) - instructions(side, FEW)) // (many - FEW)


def main(*sides: str) -> None:
    """Count and print."""
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    for side in sides or SIDES:
        print(f"{side:14s}{by_call(side):>12,} instructions a call", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
