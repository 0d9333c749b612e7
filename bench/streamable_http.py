"""How fast is a Streamable HTTP server, against those of others and the smallest program that does the same I/O?

The same tools are called on every side over 16 connections that are kept alive, by a client in a process of its own
(`http_load.py`). All servers run at once and the rounds alternate between them; what counts is the ratio within each
round, because times on a shared machine mean little alone. The time that our server and the bare one spend on a core
per call means more there, and is noted beside the rows. The last rows hold a thousand streams open while calls come at
a steady rate.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from processes import (
    DEADLINE,
    ENVIRONMENT,
    HERE,
    free_port,
    node,
    python,
    resident_megabytes,
    seconds_on_a_core,
    stop,
    wait_until_it_listens,
)
from rows import Effort, Held, Row, Samples, Wanted, alternate, at_least

CONNECTIONS = 16
STREAMS = 1000
CALLS_PER_SECOND = 200

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {
    f"{PREFIX}protocolVersion": STATELESS,
    f"{PREFIX}clientCapabilities": {},
    f"{PREFIX}clientInfo": {"name": "bench", "version": "1"},
}
BOTH = "application/json, text/event-stream"


class Side(NamedTuple):
    """What is measured: a server, the era it is spoken to in, and whether it keeps sessions then."""

    server: str
    version: str
    sessions: bool = False


class Workload(NamedTuple):
    """A row: what is called on which sides."""

    title: str
    sides: dict[str, Side]
    tool: str
    arguments: dict[str, Any]
    held: tuple[Held, ...] = ()
    progress: bool = False
    connections: int = CONNECTIONS


ADD = {"a": 2, "b": 40}
PAYLOAD = {"text": "x" * (1 << 20)}
PYTHON_STATELESS = {name: Side(name, STATELESS) for name in ("dragoman", "mcp", "fastmcp", "bare")}
HELD = (at_least(12, "mcp"), at_least(0.9, "bare"))
WORKLOADS = {
    "http_stateless": Workload(
        "HTTP, tools/call, stateless",
        PYTHON_STATELESS
        | {"typescript": Side("typescript", STATELESS), "dragoman-asgi": Side("dragoman-asgi", STATELESS)},
        "add",
        ADD,
        HELD,
    ),
    "http_session": Workload(
        "HTTP, tools/call, in sessions",
        {
            "dragoman": Side("dragoman", HANDSHAKE, sessions=True),
            "dragoman-asgi": Side("dragoman-asgi", HANDSHAKE, sessions=True),
            "typescript": Side("typescript", HANDSHAKE),
            "mcp": Side("mcp", HANDSHAKE, sessions=True),
            "mcp-stateless": Side("mcp-stateless", HANDSHAKE),
            "fastmcp": Side("fastmcp", HANDSHAKE, sessions=True),
            "bare": Side("bare", HANDSHAKE),
        },
        "add",
        ADD,
        HELD,
    ),
    "http_mounted": Workload(
        "HTTP, tools/call, as an application on uvicorn",
        PYTHON_STATELESS | {"dragoman": Side("dragoman-asgi", STATELESS)},
        "add",
        ADD,
        (at_least(6, "mcp"), at_least(0.6, "bare")),
    ),
    "http_fastapi": Workload(
        "HTTP, tools/call, mounted in FastAPI with a middleware",
        {name: Side(f"{name}-fastapi", STATELESS) for name in ("dragoman", "mcp", "bare")},
        "add",
        ADD,
        (at_least(5, "mcp"), at_least(0.7, "bare")),
    ),
    "http_progress": Workload(
        "HTTP, a call with 10 progress events",
        PYTHON_STATELESS | {"typescript": Side("typescript-count", STATELESS)},
        "count",
        {},
        (at_least(8, "mcp"), at_least(0.8, "bare")),
        progress=True,
    ),
    "http_payload": Workload(
        "HTTP, 1 MiB in and out, 2 connections",
        PYTHON_STATELESS | {"typescript": Side("typescript-echo", STATELESS)},
        "echo",
        PAYLOAD,
        connections=2,
    ),
}


def message(
    method: str, params: dict[str, Any], version: str, id: int | None = 1, meta: dict[str, Any] | None = None
) -> str:
    """Return a message as a client of a version writes it."""
    sent = (META if version == STATELESS else {}) | (meta or {})
    said = params | {"_meta": sent} if sent else params
    written = {"jsonrpc": "2.0", **({} if id is None else {"id": id}), "method": method, "params": said}
    return json.dumps(written, separators=(",", ":"))


def http(verb: str, port: int, headers: dict[str, str], body: str = "") -> str:
    """Return a request as it is sent."""
    length = {"content-type": "application/json", "content-length": str(len(body))} if body else {}
    lines = {"host": f"127.0.0.1:{port}", "accept": BOTH} | length | headers
    return (
        f"{verb} /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + f"\r\n{body}"
    )


class Server:
    """One server as a child process that listens."""

    def __init__(self, name: str, interpreter: Path | None = None) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="bench")
        self.child = subprocess.Popen(
            [*command(name, interpreter), str(self.port), *more_of(name)],
            env=ENVIRONMENT | {"XDG_STATE_HOME": self._folder.name},
        )
        wait_until_it_listens(self.child, self.port)
        self._connection = HTTPConnection("127.0.0.1", self.port, timeout=30)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()
        stop(self.child, ask=True)
        self._folder.cleanup()

    def _begin_sessions(self, count: int) -> list[str]:
        self._connection.close()  # servers hang up on what is idle
        return [self._begin_session() for _ in range(count)]

    def _begin_session(self) -> str:
        introduction = {
            "protocolVersion": HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        opened = self._post(message("initialize", introduction, HANDSHAKE), {})
        id = str(opened.headers["mcp-session-id"])
        said = {"mcp-session-id": id, "mcp-protocol-version": HANDSHAKE}
        self._post(message("notifications/initialized", {}, HANDSHAKE, None), said)
        return id

    def _post(self, body: str, headers: dict[str, str]) -> Any:
        sent = {"accept": BOTH, "content-type": "application/json"} | headers
        self._connection.request("POST", "/mcp", body, sent)
        response = self._connection.getresponse()
        if response.status >= 300:
            raise SystemExit(f"{self.child.args!r} answered {response.status}: {response.read()[:500]!r}")
        response.read()
        return response

    def requests(self, side: Side, asked: Workload, count: int | None = None) -> list[str]:
        """Return a call for each connection, each in a session of its own where there are any."""
        count = asked.connections if count is None else count
        params: dict[str, Any] = {"name": asked.tool, "arguments": asked.arguments}
        token = {"progressToken": "p"} if asked.progress else {}
        body = message("tools/call", params, side.version, meta=token)
        headers = {"mcp-protocol-version": side.version}
        if side.version == STATELESS:
            headers |= {"mcp-method": "tools/call", "mcp-name": asked.tool}
        if not side.sessions:
            return [http("POST", self.port, headers, body)] * count
        ids = self._begin_sessions(count)
        return [http("POST", self.port, headers | {"mcp-session-id": id}, body) for id in ids]

    def listening(self, count: int) -> list[str]:
        """Return requests that open subscriptions."""
        body = message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, STATELESS)
        headers = {"mcp-protocol-version": STATELESS, "mcp-method": "subscriptions/listen"}
        return [http("POST", self.port, headers, body)] * count

    def reading(self, count: int) -> list[str]:
        """Return requests that open the GET stream of a session each."""
        ids = self._begin_sessions(count)
        headers = {"accept": "text/event-stream", "mcp-protocol-version": HANDSHAKE}
        return [http("GET", self.port, headers | {"mcp-session-id": id}) for id in ids]


def command(name: str, interpreter: Path | None = None) -> list[str | Path]:
    """Return how to start a server, without its port, by the Python of its side or by another."""
    if name.startswith("typescript"):
        return [node(), HERE / "server.mjs"]
    return [interpreter or python(name), HERE / "http_servers.py", name]


def more_of(name: str) -> list[str]:
    """Return what a server is told after its port: the TypeScript one, which tools it has."""
    return ["0", name.partition("-")[2] or "add"] if name.startswith("typescript") else []


class Load:
    """The client process, which holds its connections until it is asked again or left."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, HERE / "http_load.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )

    def __enter__(self) -> Load:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.communicate(timeout=DEADLINE)

    def go(self, **asked: Any) -> dict[str, Any]:
        """Have it do something, and return what it saw."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        printed = self._child.stdout.readline()
        if not printed:
            raise SystemExit("The client failed")
        seen: dict[str, Any] = json.loads(printed)
        if seen["wrong"]:
            raise SystemExit(f"{seen['wrong']} answers were no success")
        return seen


def check_answers(name: str, asked: Workload, servers: dict[str, Server]) -> None:
    """Stop when a side answers wrongly, or the bare one differently from ours: the figures would mean nothing."""
    answers = {label: answer(servers[side.server], side, asked) for label, side in asked.sides.items()}
    for label, body in answers.items():
        right = body.count(b"notifications/progress") == 10 if asked.progress else b'"text"' in body
        if not right:
            raise SystemExit(f"{label} answered {name} wrongly: {body[:2000]!r}")
    if not asked.progress and answers["bare"] != answers["dragoman"]:
        raise SystemExit(f"{answers['bare'][:500]!r} is not {answers['dragoman'][:500]!r}")


def answer(server: Server, side: Side, asked: Workload) -> bytes:
    """Return the body of one answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        request = server.requests(side, asked, 1)[0].replace("host:", "connection: close\r\nhost:", 1)
        connection.sendall(request.encode())
        return connection.makefile("rb").read().partition(b"\r\n\r\n")[2]


def throughput(name: str, asked: Workload, servers: dict[str, Server], load: Load, effort: Effort) -> Row:
    """Return calls per second of every side, measured in turn, and what they cost ours and the bare one."""
    check_answers(name, asked, servers)
    requests = {label: servers[side.server].requests(side, asked) for label, side in asked.sides.items()}
    costs: Samples = {label: [] for label in asked.sides}
    busy: list[float] = []

    def measure(label: str) -> float:
        server = servers[asked.sides[label].server]
        spent = seconds_on_a_core(server.child.pid)
        seen = load.go(port=server.port, seconds=effort.seconds, requests=requests[label])
        costs[label].append((seconds_on_a_core(server.child.pid) - spent) / seen["answers"] * 1e6)
        busy.append(seen["busy"])
        return float(seen["rate"])

    rates = alternate(effort.rounds, asked.sides, measure)
    shown = {label: costs[label] for label in ("dragoman", "bare")}
    notes = {f"microseconds on a core, {label}": statistics.median(values) for label, values in shown.items()}
    notes["share of a core that the client needed"] = max(busy)
    return Row(name, asked.title, "calls/s", rates, asked.held, notes=notes)


def percentile(sorted_values: list[float], share: float) -> float:
    """Return the value below which a share of them lies, in milliseconds."""
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))] * 1e3


def with_streams(effort: Effort) -> Row:
    """Return how long calls take while streams are open, and what those cost, of a fresh process each."""
    samples: Samples = {}
    notes: dict[str, float] = {}
    for label, kind in (("dragoman", "listen"), ("GET streams", "GET"), ("no streams", "none")):
        with Server("dragoman") as server:
            before = resident_megabytes(server.child.pid)
            streams = server.listening(STREAMS) if kind == "listen" else server.reading(STREAMS if kind == "GET" else 0)
            calls = server.requests(PYTHON_STATELESS["dragoman"], WORKLOADS["http_stateless"])
            seconds = effort.seconds * effort.rounds
            with Load() as load:
                paced = {"seconds": seconds, "rate": CALLS_PER_SECOND}
                durations = load.go(port=server.port, requests=calls, streams=streams, **paced)["durations"]
                notes[f"kilobytes a stream, {label}"] = (resident_megabytes(server.child.pid) - before) * 1024 / STREAMS
        samples[label] = [percentile(durations, 0.5)]
        notes[f"p99 in milliseconds, {label}"] = percentile(durations, 0.99)
    title = "HTTP, 200 calls/s while 1,000 listen streams are open, p50"
    return Row("http_streams", title, "ms", samples, (), more_is_better=False, notes=notes)


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of HTTP servers."""
    chosen = {name: asked for name, asked in WORKLOADS.items() if wanted(name)}
    with ExitStack() as stack:
        names = dict.fromkeys(side.server for asked in chosen.values() for side in asked.sides.values())
        load = stack.enter_context(Load())
        servers = {name: stack.enter_context(Server(name)) for name in names}
        for name, asked in chosen.items():
            yield throughput(name, asked, servers, load, effort)
    if wanted("http_streams"):
        yield with_streams(effort)
