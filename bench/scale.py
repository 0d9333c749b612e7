"""What do more processes, and many open streams, do to a Streamable HTTP server?

Two workers are asked the same as one, over the same 16 connections, on the same cores as the client: what a request
costs the client bounds what can be gained. The streams are `subscriptions/listen`, each on a connection of its own, to
a fresh process each: what counts is the memory that they hold, and how long a change takes to reach them all.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from processes import resident_megabytes, seconds_on_a_core
from rows import Effort, Row, Samples, Wanted, alternate, at_least, at_most
from streamable_http import ADD, PYTHON_STATELESS, STATELESS, WORKLOADS, Load, Server, Side, Workload

ONE = "one worker"
SERVERS = {"dragoman": "dragoman-workers", ONE: "dragoman"}
CHANGE = Workload("", {}, "change", {}, connections=1)
LISTEN_SIDES = {"listen_run": "dragoman", "listen_mounted": "dragoman-asgi"}
KILOBYTES = {"listen_run": 12.0, "listen_mounted": 15.0}
"""How many kilobytes a stream may hold."""
CHANGE_SECONDS = 2.0


def workers(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure calls to two workers, and to one."""
    asked = WORKLOADS["http_stateless"]
    costs: Samples = {name: [] for name in SERVERS}
    with ExitStack() as stack:
        load = stack.enter_context(Load())
        servers = {name: stack.enter_context(Server(side)) for name, side in SERVERS.items()}
        requests = {name: server.requests(PYTHON_STATELESS["dragoman"], asked) for name, server in servers.items()}

        def measure(name: str) -> float:
            server = servers[name]
            spent = seconds_on_a_core(server.child.pid)
            seen = load.go(port=server.port, seconds=effort.seconds, requests=requests[name])
            costs[name].append((seconds_on_a_core(server.child.pid) - spent) / seen["answers"] * 1e6)
            return float(seen["rate"])

        rates = alternate(effort.rounds, SERVERS, measure)
    for values in costs.values():
        del values[0]  # of the round that warms up
    title = "HTTP, tools/call, two workers"
    if wanted("http_workers"):
        yield Row("http_workers", title, "calls/s", rates, (at_least(1.35, ONE),))
    if wanted("http_workers_cost"):
        held = (at_most(1.1, ONE),)
        yield Row("http_workers_cost", f"{title}, on the servers' cores", "us", costs, held, more_is_better=False)


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
    if wanted("http_workers") or wanted("http_workers_cost"):
        yield from workers(effort, wanted)
    if any(map(wanted, (*LISTEN_SIDES, "listen_change"))):
        yield from listening(effort, wanted)
