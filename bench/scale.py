"""What do many open streams cost a Streamable HTTP server?

The streams are `subscriptions/listen`, each on a connection of its own, to a fresh process each: what counts is the
memory that they hold, and how long a change takes to reach them all.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from processes import resident_megabytes
from rows import Effort, Row, Wanted, at_most
from streamable_http import ADD, STATELESS, Load, Server, Side, Workload

CHANGE = Workload("", {}, "change", {}, connections=1)
LISTEN_SIDES = {"listen_run": "dragoman", "listen_mounted": "dragoman-asgi"}
KILOBYTES = {"listen_run": 12.0, "listen_mounted": 17.0}
"""How many kilobytes a stream may hold."""
CHANGE_SECONDS = 2.0


class Listened:
    """What the streams of one server hold, and how long a change takes."""

    def __init__(self, name: str, count: int) -> None:
        with Server(name) as server, Load() as load:
            calls = server.requests(Side(name, STATELESS), Workload("", {}, "add", ADD), 1)
            load.go(port=server.port, seconds=0, count=1, requests=calls)
            before = resident_megabytes(server.child.pid)
            streams = server.listening(count)
            change = [] if name == "bare" else server.requests(Side(name, STATELESS), CHANGE)
            load.go(port=server.port, seconds=0, requests=change, streams=streams, change=bool(change))
            self.kilobytes = (resident_megabytes(server.child.pid) - before) * 1024 / count
            self.change_seconds = load.go()["seconds"] if change else 0.0


def listening(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure many open streams of what we run, of what is mounted, and of the smallest application on uvicorn."""
    count = 100 * effort.calls
    bare = Listened("bare", count)
    seconds = []
    for name, side in LISTEN_SIDES.items():
        ours = Listened(side, count)
        seconds.append(ours.change_seconds)
        if wanted(name):
            samples = {"dragoman": [ours.kilobytes], "bare": [bare.kilobytes], "limit": [KILOBYTES[name]]}
            served = "run" if name == "listen_run" else "mounted on uvicorn"
            title = f"memory of one of {count:,} listen streams, {served}"
            yield Row(name, title, "kB", samples, (at_most(1, "limit"),), more_is_better=False)
    if wanted("listen_change"):
        samples = {"dragoman": [statistics.median(seconds)], "limit": [CHANGE_SECONDS]}
        title = f"a change reaches {count:,} listen streams"
        yield Row("listen_change", title, "s", samples, (at_most(1, "limit"),), more_is_better=False)


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of scale."""
    if any(map(wanted, (*LISTEN_SIDES, "listen_change"))):
        yield from listening(effort, wanted)
