"""How fast is a client, against those of others and the smallest loop that does the same I/O?

    make bench

The same tool is called by every side (`client_sides.py`), each a process of its own that stays connected while the
rounds alternate between them: over HTTP to one dragoman server in both eras, over stdio to a dragoman server as its
child, and in memory to a server of its own library. What counts is the ratio of the medians, because times on a shared
machine mean little alone. Over HTTP the client and the server share the machine.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / ".venv" / "peers" / "bin" / "python"
ROUNDS = 5
SECONDS = 1.0
MANY = 64
DEADLINE = 120.0
# Either distorts what is measured: the one imports, the other stdout.
DISTORTING = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in DISTORTING}
SIDES = ("bare", "dragoman", "blocking", "mcp", "fastmcp")
IN_MEMORY = ("dragoman", "blocking", "mcp", "fastmcp")
HELD = {
    "http": {"mcp": "we hold >= 4", "bare": "we hold >= 0.75"},
    "stdio": {},
    "memory": {"mcp": "we hold >= 10"},
}

Samples = dict[str, list[float]]


class Side:
    """One client as a process that stays connected."""

    def __init__(self, name: str, era: str, *where: str) -> None:
        self._child = subprocess.Popen(
            [PEERS if name in ("mcp", "fastmcp") else sys.executable, HERE / "client_sides.py", name, era, *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._child.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()

    def rate(self, seconds: float, at_once: int) -> float:
        """Return the calls per second of a round."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps({"seconds": seconds, "at_once": at_once}) + "\n")
        self._child.stdin.flush()
        printed = self._child.stdout.readline()
        if not printed:
            raise SystemExit(f"{self._child.args!r} failed")
        return float(json.loads(printed)["rate"])


@contextmanager
def http_server() -> Iterator[str]:
    """Serve with dragoman over HTTP, in both eras."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        child = subprocess.Popen(
            [sys.executable, HERE / "http_servers.py", "dragoman", str(port)],
            env=ENVIRONMENT | {"XDG_STATE_HOME": folder},
        )
        try:
            _wait_until_it_listens(child, port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            child.terminate()
            child.wait(DEADLINE)


def _wait_until_it_listens(child: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + DEADLINE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            if time.monotonic() > ends or child.poll() is not None:
                raise SystemExit("The server does not listen") from None
            time.sleep(0.02)
        else:
            return


def measure(title: str, names: tuple[str, ...], held: dict[str, str], era: str, *where: str) -> None:
    """Print the rates of some clients, one call at a time and many at once."""
    with ExitStack() as stack:
        sides = {name: stack.enter_context(Side(name, era, *where)) for name in names}
        for at_once in (1, MANY):
            samples: Samples = {name: [] for name in names}
            for warmed_up in [False] + [True] * ROUNDS:
                for name, side in sides.items():
                    rate = side.rate(SECONDS if warmed_up else SECONDS / 2, at_once)
                    if warmed_up:
                        samples[name].append(rate)
            show(f"{title}, {'one call at a time' if at_once == 1 else f'{MANY} at once'}", samples, held)


def show(title: str, samples: Samples, held: dict[str, str]) -> None:
    """Print the median and the spread of each side, and our ratios to the others."""
    print(f"\n{title}")
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, values in samples.items():
        print(f"  {name:10} {medians[name]:>9,.0f} calls/s ({min(values):,.0f} to {max(values):,.0f})")
    for ours in ("dragoman", "blocking"):
        for other in medians:
            if other not in ("dragoman", "blocking"):
                aim = held.get(other, "for information") if ours == "dragoman" else "for information"
                print(f"  ratio  {ours} / {other}: {medians[ours] / medians[other]:.2f}  ({aim})")


def main() -> None:
    """Print every measure."""
    with http_server() as url:
        measure("tools/call over HTTP, stateless", SIDES, HELD["http"], "stateless", "http", url)
        measure("tools/call over HTTP, in a session", SIDES, HELD["http"], "handshake", "http", url)
    command = (sys.executable, str(HERE / "stdio_servers.py"), "dragoman")
    measure("tools/call over stdio, stateless", SIDES, HELD["stdio"], "stateless", "stdio", *command)
    measure(
        "tools/call in memory, each to a server of its own library", IN_MEMORY, HELD["memory"], "stateless", "memory"
    )


if __name__ == "__main__":
    main()
