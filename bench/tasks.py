"""How long does a task take that has nothing to do, from its call to the moment at which a client knows its result?

A client calls the tool and then asks for the task again and again without a pause, over one connection. With
Redis each side has a server of its own. Without Redis dragoman keeps tasks on disk, and fastmcp-tasks keeps them in the
memory of its process. The side "two exchanges" is two calls of a plain tool by the same client to our server: the
least that a task costs, which is made by one request and known by another.
"""

from __future__ import annotations

import json
import re
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from processes import HERE, free_port, python
from rows import Effort, Row, Wanted, alternate, at_most
from stores import listening, redis_program
from streamable_http import PREFIX, STATELESS, http, message

SIDES = ("dragoman", "fastmcp")
FLOOR = "two exchanges"
LIMITS = {"tasks_local": 5.0, "tasks_redis": 10.0}
"""How many milliseconds a task may take."""
TITLES = {
    "tasks_local": "a task with nothing to do, until its result is known; no Redis",
    "tasks_redis": "a task with nothing to do, until its result is known; Redis",
}
TASKS = 20
"""How many tasks one side runs in one round; the middle one counts."""
DEADLINE = 30.0
META: dict[str, Any] = {f"{PREFIX}clientCapabilities": {"extensions": {f"{PREFIX}tasks": {}}}}


class TaskClient:
    """Runs tasks of a server, one after another; its requests are ready before they are timed."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._call = request(port, "tools/call", "nothing", name="nothing", arguments={})
        self._plain_call = request(port, "tools/call", "plain", name="plain", arguments={})
        # All ids of a server have the same length, so the request for one task fits all of them.
        first: str = self._ask(self._call)["taskId"]
        self._get = request(port, "tasks/get", first, taskId=first).replace(first.encode(), b"%b")

    def _ask(self, request: bytes) -> dict[str, Any]:
        self._connection.sendall(request)
        answered: dict[str, Any] = json.loads(read_body(self._connection))
        if "result" not in answered:
            raise SystemExit(f"A request was refused: {answered}")
        result: dict[str, Any] = answered["result"]
        return result

    def seconds_of_a_task(self) -> float:
        """Return how long a task takes until its result is known."""
        began = time.perf_counter()
        id = self._ask(self._call)["taskId"].encode()
        get = self._get % (id, id)
        while (task := self._ask(get))["status"] == "working":
            if time.perf_counter() - began > DEADLINE:
                raise SystemExit("A task does not end")
        if task["status"] != "completed":
            raise SystemExit(f"A task did not complete: {task}")
        return time.perf_counter() - began

    def seconds_of_two_exchanges(self) -> float:
        """Return how long two calls of a plain tool take."""
        began = time.perf_counter()
        for _ in range(2):
            self._ask(self._plain_call)
        return time.perf_counter() - began


def request(port: int, method: str, named: str, **params: Any) -> bytes:
    """Return a request as it is sent."""
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": method, "mcp-name": named}
    return http("POST", port, headers, message(method, params, STATELESS, meta=META)).encode()


def read_body(connection: socket.socket) -> bytes:
    """Return the body of the next answer, which says its length."""
    received = b""
    while (head := received.find(b"\r\n\r\n")) < 0:
        received += read_some(connection)
    length = re.search(rb"content-length: (\d+)", received[:head], re.IGNORECASE)
    if length is None:
        raise SystemExit(f"An answer does not say its length: {received!r}")
    end = head + 4 + int(length[1])
    while len(received) < end:
        received += read_some(connection)
    return received[head + 4 :]


def read_some(connection: socket.socket) -> bytes:
    """Return bytes of an answer."""
    received = connection.recv(65536)
    if not received:
        raise SystemExit("The server hung up")
    return received


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of tasks."""
    for name in [name for name in LIMITS if wanted(name)]:
        with ExitStack() as stack:
            clients = {side: TaskClient(_serve(stack, name, side)) for side in SIDES}
            timed = {side: client.seconds_of_a_task for side, client in clients.items()}
            timed[FLOOR] = clients["dragoman"].seconds_of_two_exchanges
            samples = alternate(effort.rounds, timed, partial(_milliseconds, timed))
            samples["limit"] = [LIMITS[name]] * effort.rounds
            yield Row(name, TITLES[name], "ms", samples, (at_most(1, "limit"),), more_is_better=False)


def _milliseconds(timed: dict[str, Callable[[], float]], side: str) -> float:
    """Return how long the middle one of some takes."""
    return statistics.median(timed[side]() for _ in range(TASKS)) * 1e3


def _serve(stack: ExitStack, name: str, side: str) -> int:
    """Start the server of a side, and return its port."""
    folder, port, where = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")), free_port(), "local"
    if name == "tasks_redis":
        of_redis = free_port()
        options = ["--port", str(of_redis), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        stack.enter_context(listening([redis_program(), *options], of_redis))
        where = f"redis://127.0.0.1:{of_redis}/0"
    stack.enter_context(
        listening([python(side), HERE / "task_servers.py", side, str(port), where], port, XDG_STATE_HOME=folder)
    )
    return port
