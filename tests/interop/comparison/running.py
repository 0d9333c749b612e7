"""The processes of the comparison: those of each library, and what speaks to them that belongs to none."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop.comparison import wire

Message = dict[str, Any]

HERE = Path(__file__).parent
PEERS = HERE.parents[2] / ".venv" / "peers"
DEADLINE = 120.0
STATELESS = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST = HANDSHAKE[-1]
CAPABILITIES: Message = {"elicitation": {}}
CLIENT_INFO = {"name": "nobody", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
}
QUIET = {"FASTMCP_SHOW_SERVER_BANNER": "false", "FASTMCP_CHECK_FOR_UPDATES": "off"}


def python_of(library: str) -> str:
    """Return the interpreter that has a library."""
    if library == "dragoman":
        return sys.executable
    if not (PEERS / "ready").exists():
        pytest.fail("The libraries to compare with are not installed; `make test` sets them up", pytrace=False)
    return str(PEERS / "bin" / "python")


def run(library: str, program: str, *arguments: str) -> str:
    """Run a program in the environment of a library, and return what it printed."""
    command = [python_of(library), str(HERE / program), *arguments]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3 * DEADLINE, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


# Servers over HTTP.


class Served(NamedTuple):
    """The ports at which one library serves."""

    pair: tuple[int, int]
    pair_without_sessions: tuple[int, int]
    mounted: int
    guarded: int


class Reply(NamedTuple):
    """What came back."""

    status: int
    session: str | None
    message: Message

    @property
    def text(self) -> str | None:
        """The text of a tool's result, if it is one that went well."""
        result = self.message.get("result", {})
        return None if result.get("isError") or "content" not in result else str(result["content"][0]["text"])


@contextmanager
def served(*libraries: str) -> Iterator[dict[str, Served]]:
    """Serve over HTTP by every library at once."""
    with ExitStack() as stack:
        # Short, for the path of a Unix socket has at most a hundred bytes.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="compared", dir="/tmp"))
        children = {library: stack.enter_context(_serving(library, Path(folder))) for library in libraries}
        yield {library: _ports(child, _complaints(Path(folder), library)) for library, child in children.items()}


def _complaints(folder: Path, library: str) -> Path:
    """Return what it wrote to stderr; its state is in the same folder, in one by the name of the library."""
    return folder / f"{library}.stderr"


@contextmanager
def _serving(library: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with _complaints(folder, library).open("wb") as complaints:
        child = subprocess.Popen(
            [python_of(library), str(HERE / "server.py"), library, "http"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=os.environ | QUIET | {"XDG_STATE_HOME": str(folder)},
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=DEADLINE)


def _ports(child: subprocess.Popen[bytes], complaints: Path) -> Served:
    """Wait until it listens, and return where."""
    assert child.stdout is not None
    deadline = threading.Timer(DEADLINE, child.kill)
    deadline.start()
    line = child.stdout.readline()
    deadline.cancel()
    if not line:
        pytest.fail(f"The server does not listen: {complaints.read_text()}", pytrace=False)
    first, second, third, fourth, mounted, guarded = map(int, line.split())
    return Served((first, second), (third, fourth), mounted, guarded)


def post(port: int, message: Message, **headers: str) -> Reply:
    """Send one message by a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("POST", "/mcp", json.dumps(message), sent)
        response = connection.getresponse()
        return Reply(response.status, response.headers["mcp-session-id"], _message_in(response.read()))
    finally:
        connection.close()


def _message_in(body: bytes) -> Message:
    """Return the last JSON object of a body, be it an event stream, or nothing."""
    for line in reversed(body.splitlines()):
        with suppress(ValueError):
            return dict(json.loads(line.removeprefix(b"data:")))
    return {}


def initialize(version: str = NEWEST) -> Message:
    params = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": CLIENT_INFO}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(tool: str, **params: Any) -> Message:
    params = {"name": tool, "arguments": {}} | params
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


def call_stateless(port: int, tool: str) -> Reply:
    headers = {"mcp_protocol_version": STATELESS, "mcp_method": "tools/call", "mcp_name": tool}
    return post(port, call(tool, _meta=META), **headers)


# Servers by stdio.


class Conversation:
    """A server of a library by stdio, spoken to line by line."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._writable, self._readable = child.stdin, child.stdout

    def say(self, message: Message) -> None:
        self._writable.write(json.dumps(message).encode() + b"\n")
        self._writable.flush()

    def hear(self) -> Message:
        """Return the next message that is a request or a response; nothing if it ended."""
        for line in self._readable:
            message: Message = json.loads(line)
            if "id" in message:
                return message
        return {}

    def ask(self, message: Message) -> Message:
        self.say(message)
        return self.hear()


@contextmanager
def conversation(library: str) -> Iterator[Conversation]:
    """Start a server by stdio; it is killed at the end, or at the deadline."""
    with tempfile.TemporaryDirectory(prefix="compared") as folder:
        child = subprocess.Popen(
            [python_of(library), str(HERE / "server.py"), library, "stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | QUIET | {"XDG_STATE_HOME": folder},
        )
        deadline = threading.Timer(DEADLINE, child.kill)
        deadline.start()
        try:
            yield Conversation(child)
        finally:
            deadline.cancel()
            child.kill()
            child.communicate()


# A server for clients, over HTTP.


class _Forgetful(BaseHTTPRequestHandler):
    """Serves sessions of the handshake era, and forgets them all when `wire://forget` is read."""

    protocol_version = "HTTP/1.1"
    sessions: set[str | None]

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        begins = message["method"] in ("initialize", "server/discover")
        if not begins and self.headers["mcp-session-id"] not in self.sessions:
            self._reply(404)
            return
        sent: list[Message] = []
        wire.serve(message, sent.append)
        headers = {}
        if message["method"] == "initialize":
            headers["mcp-session-id"] = uuid.uuid4().hex
            self.sessions.add(headers["mcp-session-id"])
        if message.get("params", {}).get("uri") == "wire://forget":
            self.sessions.clear()
        self._reply(200 if sent else 202, *sent, **headers)

    def do_GET(self) -> None:
        self._reply(405)

    def do_DELETE(self) -> None:
        self._reply(405)

    def _reply(self, status: int, *messages: Message, **headers: str) -> None:
        body = b"".join(json.dumps(message).encode() for message in messages)
        self.send_response(status)
        described = {"content-length": str(len(body))} | ({"content-type": "application/json"} if body else {})
        for name, value in (described | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing of what was served."""


@contextmanager
def forgetful() -> Iterator[str]:
    """Serve sessions that are forgotten on demand; give the URL."""
    handler = type("Forgetful", (_Forgetful,), {"sessions": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        serving.join(DEADLINE)


def behaviours(library: str) -> dict[str, list[str]]:
    """Return what came of everything that the client of a library was put through."""
    with forgetful() as url:
        printed = run(library, "client.py", library, url, sys.executable, str(HERE / "wire.py"))
    reports = [json.loads(line) for line in printed.splitlines()]
    return {report["behaviour"]: report["came"] for report in reports}
