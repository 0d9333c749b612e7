"""Does a call cost more the more there is of everything else?

The same call is made to servers that differ in one number alone: of tools that are registered, or of sessions that are
open. Both run at once and the rounds alternate, so that the ratio is one of the same minute on the same machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import stdio
import streamable_http
from processes import resident_megabytes
from rows import Effort, Row, Wanted, alternate
from streamable_http import HANDSHAKE, WORKLOADS, Load

MANY = 10_000
FEW = "few"


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


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of growth."""
    if wanted("growth_tools"):
        yield tools(effort)
    if wanted("growth_sessions"):
        yield sessions(effort)
