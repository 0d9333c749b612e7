"""Processes that share the tasks of one server, and a client that asks any of them."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ports import free_port

PROGRAM = Path(__file__).parent / "task_server.py"
DEADLINE = 60.0
PREFIX = "io.modelcontextprotocol/"
META = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientCapabilities": {"elicitation": {}, "extensions": {f"{PREFIX}tasks": {}}},
}
TERMINAL = ("completed", "failed", "cancelled")


class Member:
    """One process of the server."""

    def __init__(self, folder: Path, store: str, lease: float) -> None:
        self.port = free_port()
        self.file = folder / "steps.txt"
        self.file.touch()
        self.errors = folder / f"stderr-{self.port}"
        with self.errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, store, str(self.port), str(lease), str(self.file)],
                env=os.environ | {"XDG_STATE_HOME": str(folder)},
                stderr=stderr,
            )
        until(self._answers, "the process serves")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.errors.read_text()
        try:
            return "result" in self.request("tools/call", "pid", name="pid", arguments={})
        except OSError:
            return False

    def request(self, method: str, named: str, **params: Any) -> dict[str, Any]:
        """Send one request of 2026-07-28, and return the response; a busy server sends it as a stream."""
        with self.open(method, named, **params) as reply:
            is_stream = reply.headers["content-type"].startswith("text/event-stream")
            return [*messages(reply)][-1] if is_stream else json.loads(reply.read())

    def listen(self, *ids: str) -> Iterator[dict[str, Any]]:
        """Subscribe to tasks, and yield each message of the stream."""
        with self.open("subscriptions/listen", None, notifications={"taskIds": list(ids)}) as reply:
            yield from messages(reply)

    def open(self, method: str, named: str | None, **params: Any) -> Any:
        """Send one request of 2026-07-28, and return the open reply."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            **({} if named is None else {"mcp-name": named}),
        }
        url = f"http://127.0.0.1:{self.port}/mcp"
        return urllib.request.urlopen(
            urllib.request.Request(url, json.dumps(message).encode(), headers), timeout=DEADLINE
        )

    def start(self, tool: str, **arguments: Any) -> str:
        """Call a tool as a task, and return the id of the task."""
        result = self.request("tools/call", tool, name=tool, arguments=arguments)["result"]
        assert result["resultType"] == "task"
        return result["taskId"]

    def get(self, id: str) -> dict[str, Any]:
        return self.request("tasks/get", id, taskId=id)["result"]

    def answer(self, id: str, value: bool) -> None:
        responses = {key: {"action": "accept", "content": {"value": value}} for key in self.get(id)["inputRequests"]}
        self.request("tasks/update", id, taskId=id, inputResponses=responses)

    def ended(self, id: str) -> dict[str, Any]:
        """Wait until a task has ended, and return it."""
        return until(lambda: (task := self.get(id))["status"] in TERMINAL and task, f"the task {id} ends")

    def steps(self) -> list[list[str]]:
        """Return what the tools of all processes noted: process, word, task, step."""
        return [line.split() for line in self.file.read_text().splitlines()]

    def runs(self) -> int:
        """Return how many tasks the process runs."""
        reply = self.request("tools/call", "runs", name="runs", arguments={})
        return reply["result"]["structuredContent"]["result"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        """End the process, whatever state it is in."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()


def messages(stream: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield each message of a stream of events."""
    for line in stream:
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Wait until a condition holds, and return what it gives."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)
    return found


def counted(steps: list[list[str]], word: str) -> Counter[tuple[str, str]]:
    """Return how often each step of each task was noted with a word."""
    return Counter((task, step) for _, noted, task, step in steps if noted == word)
