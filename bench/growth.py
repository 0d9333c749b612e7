"""Does a call cost more the more there is of everything else, and how does what is held grow with its number?

The same call is made to servers that differ in one number alone: of tools that are registered, or of sessions that are
open. Both run at once and the rounds alternate, so that the ratio is one of the same minute on the same machine.

What many streams, sessions, connections and calls cost together is measured for three numbers, each ten times the one
before, and of a fresh process each. The exponent is the slope of the line through the logarithms: 1 if a thing costs as
much among many as among few, 2 if each costs more with each other.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import stdio
import streamable_http
from processes import resident_megabytes
from rows import Effort, Row, Wanted, alternate, at_most
from scale import Listened
from streamable_http import ADD, HANDSHAKE, STATELESS, WORKLOADS, Load, Server, Side, Workload

MANY = 10_000
FEW = "few"
EXPONENT = 1.1
"""How fast what is held may grow."""
OURS = Side("dragoman", STATELESS)
NAP = Workload("", {}, "nap", {})


def tools(effort: Effort) -> Row:
    """Measure calls to a server with few tools, and to one with many."""
    count = 50 * effort.calls
    requests = b"".join(stdio.calls("add", count))
    with ExitStack() as stack:
        servers = {
            side: stack.enter_context(stdio.Server("dragoman", more)) for side, more in (("dragoman", MANY), (FEW, 0))
        }

        def measure(side: str) -> float:
            started = time.perf_counter()
            answers = servers[side].ask_all(requests, count)
            elapsed = time.perf_counter() - started
            stdio.check_sums(side, answers, count)
            return count / elapsed

        samples = alternate(effort.rounds, servers, measure)
        seconds = servers["dragoman"].seconds_to_first_answer
    title = "growth: stdio, tools/call with 10,000 tools"
    notes = {"seconds to the first answer": seconds}
    return Row("growth_tools", title, "calls/s", samples, notes=notes)


def sessions(effort: Effort) -> Row:
    """Measure calls to a server with few sessions, and to one with many."""
    side, asked = WORKLOADS["http_session"].sides["dragoman"], WORKLOADS["http_session"]
    with ExitStack() as stack:
        servers = {name: stack.enter_context(streamable_http.Server("dragoman")) for name in ("dragoman", FEW)}
        requests = {name: server.requests(side, asked) for name, server in servers.items()}
        crowded = servers["dragoman"]
        before = resident_megabytes(crowded.child.pid)
        load = stack.enter_context(Load())
        opened = open_sessions(load, crowded.port, MANY - streamable_http.CONNECTIONS)
        grown = resident_megabytes(crowded.child.pid) - before

        def measure(name: str) -> float:
            return float(load.go(port=servers[name].port, seconds=effort.seconds, requests=requests[name])["rate"])

        samples = alternate(effort.rounds, servers, measure)
    notes = {"kilobytes a session": grown * 1024 / opened}
    title = "growth: HTTP, tools/call with 10,000 sessions"
    return Row("growth_sessions", title, "calls/s", samples, notes=notes)


def open_sessions(load: Load, port: int, count: int) -> int:
    """Open so many sessions and leave them, each with `initialize`."""
    introduction = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    body = streamable_http.message("initialize", introduction, HANDSHAKE)
    request = streamable_http.http("POST", port, {}, body)
    seen = load.go(port=port, seconds=0, count=count, requests=[request] * streamable_http.CONNECTIONS)
    return int(seen["answers"])


def exponent(costs: dict[int, float]) -> float:
    """Return the slope of the line that fits the logarithms of costs over those of numbers."""
    numbers = [math.log(number) for number in costs]
    return statistics.linear_regression(numbers, [math.log(cost) for cost in costs.values()]).slope


def row_of_growth(name: str, what: str, costs: dict[int, float], unit: str) -> Row:
    """Return how costs grow; what they were is noted."""
    numbers = ", ".join(f"{number:,}" for number in costs)
    samples = {"dragoman": [exponent(costs)], "linear": [1.0]}
    notes = {f"{unit}, {number:,}": cost for number, cost in costs.items()}
    title = f"growth: {what}, for {numbers}"
    return Row(name, title, "exponent", samples, (at_most(EXPONENT, "linear"),), more_is_better=False, notes=notes)


def numbers_of(effort: Effort) -> list[int]:
    """Return the three numbers, the last of which is 10,000 in a full run."""
    most = 100 * effort.calls
    return [most // 100, most // 10, most]


def streams(effort: Effort) -> Iterator[Row]:
    """Measure the memory of listen streams, and how long a change takes to reach them all."""
    seen = {number: Listened("dragoman", number) for number in numbers_of(effort)}
    kilobytes = {number: one.kilobytes * number for number, one in seen.items()}
    seconds = {number: one.change_seconds for number, one in seen.items()}
    yield row_of_growth("growth_listen", "memory of listen streams", kilobytes, "kilobytes")
    yield row_of_growth("growth_change", "time until a change reaches all listen streams", seconds, "seconds")


def held_kilobytes(number: int, fill: Callable[[Load, Server, int], object]) -> float:
    """Return how much more memory a fresh server holds after it was filled."""
    with Server("dragoman") as server, Load() as load:
        fill(load, server, 1)
        before = resident_megabytes(server.child.pid)
        fill(load, server, number)
        return (resident_megabytes(server.child.pid) - before) * 1024


def keep_connections(load: Load, server: Server, number: int) -> None:
    """Make one call over each of so many connections, which stay open."""
    calls = server.requests(OURS, Workload("", {}, "add", ADD), number)
    load.go(port=server.port, seconds=0, count=number, requests=calls)


def memory(effort: Effort, name: str, things: str, fill: Callable[[Load, Server, int], object]) -> Iterator[Row]:
    """Measure what is held for each thing that a client leaves with a server, and how that grows."""
    kilobytes = {number: held_kilobytes(number, fill) for number in numbers_of(effort)}
    most = max(kilobytes)
    title = f"memory of one of {most:,} {things}"
    yield Row(name, title, "kB", {"dragoman": [kilobytes[most] / most]}, more_is_better=False)
    yield row_of_growth(f"growth_{name}", f"memory of {things}", kilobytes, "kilobytes")


def blocking_calls(effort: Effort) -> Iterator[Row]:
    """Measure `def` calls at once that sleep, each on a connection of its own: all must be answered."""
    most = 10 * effort.calls
    seconds: dict[int, float] = {}
    for number in (most // 100, most // 10, most):
        with Server("dragoman") as server, Load() as load:
            calls = server.requests(OURS, NAP, number)
            seen = load.go(port=server.port, seconds=0, count=number, requests=calls)
            if seen["answers"] != number:
                raise SystemExit(f"{seen['answers']} of {number} calls were answered")
            seconds[number] = seen["answers"] / seen["rate"]
    title = f"{most:,} `def` calls at once that sleep 100 ms, until all have answered"
    yield Row("def_calls", title, "s", {"dragoman": [seconds[most]]}, more_is_better=False)
    yield row_of_growth("growth_def_calls", "time of `def` calls at once that sleep 100 ms", seconds, "seconds")


def leave_sessions(load: Load, server: Server, number: int) -> None:
    """Open so many sessions and leave them."""
    open_sessions(load, server.port, max(number, streamable_http.CONNECTIONS))


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of growth."""
    if wanted("growth_tools"):
        yield tools(effort)
    if wanted("growth_sessions"):
        yield sessions(effort)
    groups: dict[tuple[str, ...], Callable[[], Iterator[Row]]] = {
        ("growth_listen", "growth_change"): lambda: streams(effort),
        ("session_memory", "growth_session_memory"): lambda: memory(
            effort, "session_memory", "sessions", leave_sessions
        ),
        ("connection_memory", "growth_connection_memory"): lambda: memory(
            effort, "connection_memory", "connections after a call", keep_connections
        ),
        ("def_calls", "growth_def_calls"): lambda: blocking_calls(effort),
    }
    for names, rows in groups.items():
        if any(map(wanted, names)):
            yield from (row for row in rows() if wanted(row.name))
