"""What do more processes, and many open streams, do to a Streamable HTTP server?

Two and four workers are asked the same as one, over the same 16 connections, on the same cores as the client. What a
request costs the client bounds what can be gained: `cap` is the rate of one worker times that bound. The streams are
`subscriptions/listen`, each on a connection of its own, to a fresh process each: what counts is the memory that they
hold, and how long a change takes to reach them all.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from processes import resident_megabytes, seconds_on_a_core
from rows import Effort, Row, Samples, Wanted, alternate, at_least, at_most
from streamable_http import ADD, PYTHON_STATELESS, STATELESS, WORKLOADS, Load, Server, Side, Workload

ONE = "one worker"
TWO = "two workers"
FOUR = "four workers"
SERVERS = {TWO: "dragoman-workers-2", FOUR: "dragoman-workers-4", ONE: "dragoman"}
WORKER_ROWS = ("http_workers", "http_workers_cost", "http_workers_four", "http_workers_four_cost")
CHANGE = Workload("", {}, "change", {}, connections=1)
LISTEN_SIDES = {"listen_run": "dragoman", "listen_mounted": "dragoman-asgi"}
KILOBYTES = {"listen_run": 12.0, "listen_mounted": 15.0}
"""How many kilobytes a stream may hold."""
CHANGE_SECONDS = 2.0


class Workers:
    """What servers with one, two and four workers did, measured in turn."""

    def __init__(self, effort: Effort) -> None:
        self.costs: Samples = {name: [] for name in SERVERS}
        """Microseconds on a core that a request costs the servers."""
        self.loads: Samples = {name: [] for name in SERVERS}
        """Microseconds on a core that a request costs the client."""
        self._effort = effort
        asked = WORKLOADS["http_stateless"]
        with ExitStack() as stack:
            self._load = stack.enter_context(Load())
            self._servers = {name: stack.enter_context(Server(side)) for name, side in SERVERS.items()}
            side = PYTHON_STATELESS["dragoman"]
            self._requests = {name: server.requests(side, asked) for name, server in self._servers.items()}
            self.rates = alternate(effort.rounds, SERVERS, self._rate)
        for values in (*self.costs.values(), *self.loads.values()):
            del values[0]  # of the round that warms up

    def _rate(self, name: str) -> float:
        server = self._servers[name]
        spent = seconds_on_a_core(server.child.pid)
        seen = self._load.go(port=server.port, seconds=self._effort.seconds, requests=self._requests[name])
        self.costs[name].append((seconds_on_a_core(server.child.pid) - spent) / seen["answers"] * 1e6)
        self.loads[name].append(seen["busy"] / seen["rate"] * 1e6)
        return float(seen["rate"])

    def caps(self) -> list[float]:
        """Return the rate that the cores allow, in each round.

        One worker and the client have a core each, so that the slower of the two sets the rate. More workers share all
        cores with the client, which itself has never more than one.
        """
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        rounds = zip(self.rates[ONE], self.costs[ONE], self.loads[ONE], strict=True)
        return [rate * max(cost, load) * min(cores / (cost + load), 1 / load) for rate, cost, load in rounds]


def workers(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure calls to two and to four workers, and to one."""
    seen = Workers(effort)
    for some, name in ((TWO, "http_workers"), (FOUR, "http_workers_four")):
        title = f"HTTP, tools/call, {some}"
        if wanted(name):
            rates = {"dragoman": seen.rates[some], ONE: seen.rates[ONE], "cap": seen.caps()}
            held = (at_least(1.35, ONE), at_least(0.9, "cap")) if some == TWO else ()
            notes = {"microseconds on a core, client": statistics.median(seen.loads[ONE])}
            yield Row(name, title, "calls/s", rates, held, notes=notes)
        if wanted(f"{name}_cost"):
            costs = {"dragoman": seen.costs[some], ONE: seen.costs[ONE]}
            limit = (at_most(1.1, ONE),) if some == TWO else ()
            title = f"{title}, on the servers' cores"
            yield Row(f"{name}_cost", title, "us", costs, limit, more_is_better=False)


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
    if any(map(wanted, WORKER_ROWS)):
        yield from workers(effort, wanted)
    if any(map(wanted, (*LISTEN_SIDES, "listen_change"))):
        yield from listening(effort, wanted)
