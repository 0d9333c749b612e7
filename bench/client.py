"""How fast is a client, against those of others and the smallest loop that does the same I/O?

The same tool is called by every side (`client_sides.py`), each a process of its own that stays connected while the
rounds alternate between them: over HTTP to one dragoman server in both eras, over stdio to a dragoman server as its
child, and in memory to a server of its own library. Over HTTP the client and the server share the machine. The
blocking client is measured in the same rounds, and has rows of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import TracebackType
from typing import NamedTuple

from processes import DEADLINE, ENVIRONMENT, HERE, free_port, on_one_core, python, stop, wait_until_it_listens
from rows import Effort, Held, Row, Wanted, alternate, at_least

MANY = 64
SIDES = ("dragoman", "blocking", "mcp", "fastmcp", "bare", "bare-blocking")
IN_MEMORY = SIDES[:4]


class Place(NamedTuple):
    """Where the server is, and what we hold there."""

    title: str
    era: str
    kind: str
    held: tuple[Held, ...] = ()
    blocking: tuple[Held, ...] = ()
    """What we hold of the blocking client."""


OVER_HTTP = (at_least(3.5, "mcp"), at_least(0.75, "bare"))
BLOCKING_OVER_HTTP = (at_least(0.6, "bare"),)
IN_MEMORY_HELD = (at_least(8, "mcp"),)
PLACES = {
    "client_http": Place("client, HTTP, stateless", "stateless", "http", OVER_HTTP, BLOCKING_OVER_HTTP),
    "client_session": Place("client, HTTP, in a session", "handshake", "http", OVER_HTTP, BLOCKING_OVER_HTTP),
    "client_stdio": Place("client, stdio", "stateless", "stdio"),
    "client_memory": Place("client, in memory, stateless", "stateless", "memory", IN_MEMORY_HELD),
    "client_memory_session": Place("client, in memory, in a session", "handshake", "memory", IN_MEMORY_HELD),
}


class Side:
    """One client as a process that stays connected."""

    def __init__(self, name: str, era: str, *where: str) -> None:
        self._child = subprocess.Popen(
            [python(name), HERE / "client_sides.py", name, era, *where],
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

    @property
    def process(self) -> int:
        return self._child.pid

    def rate(self, seconds: float, at_once: int) -> float:
        """Return the calls per second of a round."""
        return self._go(seconds=seconds, at_once=at_once)["rate"]

    def microseconds(self, seconds: float) -> float:
        """Return how long the middle one of calls takes, of which each waits for the one before."""
        return self._go(seconds=seconds)["microseconds"]

    def _go(self, **asked: float) -> dict[str, float]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        printed = self._child.stdout.readline()
        if not printed:
            raise SystemExit(f"{self._child.args!r} failed")
        seen: dict[str, float] = json.loads(printed)
        return seen


@contextmanager
def http_server() -> Iterator[tuple[str, int]]:
    """Serve with dragoman over HTTP, in both eras; give its address and its process."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        child = subprocess.Popen(
            [sys.executable, HERE / "http_servers.py", "dragoman", str(port)],
            env=ENVIRONMENT | {"XDG_STATE_HOME": folder},
        )
        try:
            wait_until_it_listens(child, port)
            yield f"http://127.0.0.1:{port}/mcp", child.pid
        finally:
            stop(child, ask=True)


def rows_of(name: str, place: Place, effort: Effort, server: int | None, *where: str) -> Iterator[Row]:
    """Measure the clients at one place: one call at a time, and many at once.

    One call at a time over HTTP, where both ends only wait for each other, they share a core.
    """
    names = IN_MEMORY if place.kind == "memory" else SIDES
    with ExitStack() as stack:
        sides = {side: stack.enter_context(Side(side, place.era, place.kind, *where)) for side in names}
        for at_once in (1, MANY):
            alone = at_once == 1 and server is not None
            both = (server or 0, *(side.process for side in sides.values()))
            with on_one_core(both) if alone else nullcontext():
                samples = alternate(
                    effort.rounds,
                    names,
                    lambda side, many=at_once: sides[side].rate(effort.seconds, many),  # type: ignore[misc]
                )
            blocking = {"dragoman": samples.pop("blocking")}
            others = {side: values for side, values in samples.items() if side != "dragoman"}
            samples.pop("bare-blocking", None)
            manner = "one call at a time" if at_once == 1 else f"{MANY} at once"
            yield Row(f"{name}_{at_once}", f"{place.title}, {manner}", "calls/s", samples, place.held)
            title = f"blocking {place.title}, {manner if at_once == 1 else f'{MANY} threads'}"
            yield Row(f"blocking_{name}_{at_once}", title, "calls/s", blocking | others, place.blocking)


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of clients."""
    chosen = {
        name: place
        for name, place in PLACES.items()
        if any(wanted(f"{kind}{name}_{at_once}") for kind in ("", "blocking_") for at_once in (1, MANY))
    }
    with ExitStack() as stack:
        over_http = any(place.kind == "http" for place in chosen.values())
        url, server = stack.enter_context(http_server()) if over_http else ("", None)
        wheres: dict[str, tuple[int | None, *tuple[str, ...]]] = {
            "http": (server, url),
            "stdio": (None, sys.executable, str(HERE / "stdio_servers.py"), "dragoman"),
            "memory": (None,),
        }
        for name, place in chosen.items():
            for row in rows_of(name, place, effort, *wheres[place.kind]):
                if wanted(row.name):
                    yield row
