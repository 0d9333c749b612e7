"""A task whose process is killed, and which another process finishes.

    python examples/surviving_task.py

Two processes serve the same tools. The first makes a task and runs it. It is killed in the middle of the third letter.
The second takes the task over when the lease of the first runs out, and begins with the third letter.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

from dragoman import BlockingContext, Server
from dragoman.server import TaskOptions

server = Server("letters")
PREFIX = "io.modelcontextprotocol/"
CLIENT = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientCapabilities": {"extensions": {f"{PREFIX}tasks": {}}},
}


@server.tool(task=TaskOptions(retry=True, lease=1))
def send_letters(people: list[str], ctx: BlockingContext) -> str:
    """Sends a letter to each of some people, and never two."""
    for number, person in enumerate(people, 1):
        ctx.report_progress(number, len(people), f"writing to {person}")
        ctx.step(f"letter to {person}", partial(send, person))
    return f"{len(people)} letters"


def send(person: str) -> None:
    """Send one letter, which takes a while."""
    time.sleep(0.5)
    with Path(os.environ["LETTERS"]).open("a") as letters:
        letters.write(f"{person}, by process {os.getpid()}\n")


def serve(port: int) -> subprocess.Popen[bytes]:
    """Start a process that serves the tools, and wait until it answers."""
    child = subprocess.Popen([sys.executable, __file__, str(port)])
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            request(port, "server/discover")
        except OSError:
            time.sleep(0.05)
        else:
            return child
    raise TimeoutError(f"Nobody serves port {port}")


def request(port: int, method: str, **params: Any) -> Any:
    """Send one request, and return its result."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": CLIENT}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if "name" in params or "taskId" in params:
        headers["Mcp-Name"] = params.get("name") or params["taskId"]
    message = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(message, timeout=20) as reply:  # noqa: S310
        return json.load(reply)["result"]


def main() -> None:
    """Kill the process that runs a task, and show that the task is finished all the same."""
    with tempfile.TemporaryDirectory() as folder:
        letters = Path(folder, "letters")
        letters.touch()
        os.environ.update(XDG_STATE_HOME=folder, LETTERS=str(letters))
        ports = (free_port(), free_port())
        first, second = [serve(port) for port in ports]
        people = ["Ada", "Bob", "Cleo", "Dan", "Eve"]
        task = request(ports[0], "tools/call", name="send_letters", arguments={"people": people})
        while len(letters.read_text().splitlines()) < 2:
            time.sleep(0.05)
        time.sleep(0.1)  # the third letter has begun
        first.kill()
        first.wait()
        print(f"killed process {first.pid}, which ran the task {task['taskId']}")
        while (state := request(ports[1], "tasks/get", taskId=task["taskId"]))["status"] == "working":
            time.sleep(0.2)
        print(f"{state['status']}: {state['result']['content'][0]['text']}")
        print(letters.read_text(), end="")
        assert [line.partition(",")[0] for line in letters.read_text().splitlines()] == people
        second.terminate()
        second.wait()


def free_port() -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("http", port=int(sys.argv[1]))
    else:
        main()
