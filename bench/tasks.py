"""How long does a task take that has nothing to do, from its call to the moment at which a client knows its result?

A client calls the tool and then asks for the task again and again without a pause, over one connection. With
Redis each side has a server of its own. Without Redis dragoman keeps tasks on disk, and fastmcp-tasks keeps them in the
memory of its process.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from typing import Any

from processes import HERE, free_port, python
from rows import Effort, Row, Wanted, alternate, at_most
from stores import listening, redis_program
from streamable_http import BOTH, PREFIX, STATELESS, message

SIDES = ("dragoman", "fastmcp")
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
    """Runs tasks of a server, one after another."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE)

    def _ask(self, method: str, named: str, **params: Any) -> dict[str, Any]:
        headers = {
            "accept": BOTH,
            "content-type": "application/json",
            "mcp-protocol-version": STATELESS,
            "mcp-method": method,
            "mcp-name": named,
        }
        self._connection.request("POST", "/mcp", message(method, params, STATELESS, meta=META), headers)
        answered: dict[str, Any] = json.loads(self._connection.getresponse().read())
        if "result" not in answered:
            raise SystemExit(f"{method} was refused: {answered}")
        result: dict[str, Any] = answered["result"]
        return result

    def seconds_of_a_task(self) -> float:
        """Return how long a task takes until its result is known."""
        began = time.perf_counter()
        id = self._ask("tools/call", "nothing", name="nothing", arguments={})["taskId"]
        while (task := self._ask("tasks/get", id, taskId=id))["status"] == "working":
            if time.perf_counter() - began > DEADLINE:
                raise SystemExit("A task does not end")
        if task["status"] != "completed":
            raise SystemExit(f"A task did not complete: {task}")
        return time.perf_counter() - began

    def milliseconds(self) -> float:
        """Return how long the middle one of some tasks takes."""
        return statistics.median(self.seconds_of_a_task() for _ in range(TASKS)) * 1e3


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of tasks."""
    for name in [name for name in LIMITS if wanted(name)]:
        with ExitStack() as stack:
            clients = {side: TaskClient(_serve(stack, name, side)) for side in SIDES}
            samples = alternate(effort.rounds, SIDES, partial(_milliseconds, clients))
            samples["limit"] = [LIMITS[name]] * effort.rounds
            yield Row(
                name, TITLES[name], "ms", samples, (at_most(1, "limit"), at_most(0.05, "fastmcp")), more_is_better=False
            )


def _milliseconds(clients: dict[str, TaskClient], side: str) -> float:
    return clients[side].milliseconds()


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
