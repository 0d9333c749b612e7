"""Programs that use clients, run in interpreters of their own."""

import contextlib
import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from ports import free_port

TESTS = Path(__file__).resolve().parents[1]
SERVER = TESTS / "scenarios" / "calling_server.py"
DEADLINE = 60
OPENING = """
import asyncio, logging, multiprocessing, os, signal, sys, threading, time
from dragoman import AsyncClient, Client, Server
from scenarios.calling_server import server
# That a turn of the loop took long says something about the machine alone.
logging.getLogger("asyncio").setLevel(logging.ERROR)
TARGETS = {"memory": server, "stdio": [sys.executable, sys.argv[1]], "http": sys.argv[2]}
target = TARGETS[sys.argv[3]]
"""


def environment() -> dict[str, str]:
    paths = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def start(text: str, over: str, url: str = "", **options) -> subprocess.Popen:
    """Start a program that reaches `target` over memory, stdio or HTTP."""
    command = [sys.executable, "-W", "always", "-W", "ignore::DeprecationWarning"]
    program = OPENING + textwrap.dedent(text)
    return subprocess.Popen(
        [*command, "-c", program, str(SERVER), url, over],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(text: str, over: str, url: str = "", **options) -> list[str]:
    """Run a program to its end, see that it had nothing to complain of, and return the lines that it wrote."""
    with start(text, over, url, **options) as program:
        try:
            output, errors = program.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            program.kill()
            output, errors = program.communicate()
            raise AssertionError(f"The program did not end:\n{output}\n{errors}") from None
    assert not errors, errors
    assert program.returncode == 0, output
    return output.split("\n")[:-1]


@contextlib.contextmanager
def http_server(file: Path = SERVER) -> Iterator[str]:
    """Run the server over HTTP in a process of its own, and give its URL."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, str(file), "http", str(port)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _await_port(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(DEADLINE)


def _await_port(port: int) -> None:
    end = time.monotonic() + DEADLINE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < end, "the server did not come up"
            time.sleep(0.02)
        else:
            return
