"""How many instructions does a call cost a stdio server? The count is the same however busy the machine is.

    python bench/instructions.py [SIDE ...]

Needs valgrind, under which a server is some fifty times slower. Each server is asked few calls and then many, all written
in one go; the difference, by call, is free of what starting costs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from processes import DEADLINE, ENVIRONMENT, python
from stdio import INITIALIZE, INITIALIZED, calls, command

SIDES = ("bare", "bare-asyncio", "dragoman", "mcp", "fastmcp")
FEW = 200
MANY = {"mcp": 400, "fastmcp": 400}
MOST = 4000
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def instructions(side: str, count: int) -> int:
    """Return how many instructions a server executes in its life, in which it answers so many calls."""
    # valgrind wants the program itself, and a link to it makes no environment of its own.
    interpreter, *arguments = command(side, 0)
    packages = python(side).parent.parent / "lib"
    search = os.pathsep.join(map(str, packages.glob("python*/site-packages")))
    with tempfile.NamedTemporaryFile() as log:
        server = subprocess.Popen(
            [
                *("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"),
                f"--log-file={log.name}",
                Path(interpreter).resolve(),
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT | {"PYTHONPATH": search, "PYTHONHASHSEED": "0"},
        )
        assert server.stdin is not None
        assert server.stdout is not None
        writer = threading.Thread(target=_write, args=(server, count), daemon=True)
        writer.start()
        answered = sum(1 for _ in iter(server.stdout.readline, b""))
        server.wait(DEADLINE)
        found = COUNTED.search(Path(log.name).read_text())
    if found is None or answered != count + 1:
        raise SystemExit(f"{side} answered {answered} of {count + 1}")
    return int(found[1].replace(",", ""))


def _write(server: subprocess.Popen[bytes], count: int) -> None:
    assert server.stdin is not None
    with server.stdin as to:
        to.write(INITIALIZE + INITIALIZED + b"".join(calls("add", count)))


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
