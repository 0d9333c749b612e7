"""`dragoman worker`: a process that runs tasks and serves nobody."""

import signal
import subprocess
import sys
import textwrap

import pytest

from dragoman import Server
from faults.tasks.crew import until
from scenarios.command_line import DEADLINE, environment

SERVER = """
    import os
    from dragoman import Server
    from dragoman.server import TaskOptions

    server = Server("letters", secret="the same in every process of it")

    @server.tool(task=TaskOptions(lease=1, poll=0.1))
    def pid() -> int:
        return os.getpid()
"""
IN_MEMORY = """
server = Server('here', store=Memory())

@server.tool(task=True)
def quick() -> str:
    return ''
"""


def started(folder, *words, **more):
    home = environment(folder, XDG_STATE_HOME=str(folder), **more)
    command = [sys.executable, "-m", "dragoman", "worker", *words]
    return subprocess.Popen(command, cwd=folder, env=home, stderr=subprocess.PIPE, text=True)


@pytest.mark.covers("TKS-17")
def test_a_worker_runs_the_tasks_that_other_processes_make(tmp_path, monkeypatch):
    (tmp_path / "letters.py").write_text(textwrap.dedent(SERVER))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_RUN_TASKS", "0")
    names: dict[str, object] = {}
    exec(textwrap.dedent(SERVER), names)
    server = names["server"]
    assert isinstance(server, Server)
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": "2026-07-28",
        f"{prefix}clientCapabilities": {"extensions": {f"{prefix}tasks": {}}},
    }

    def request(method, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return (server.handle(message) or {})["result"]

    id = request("tools/call", name="pid")["taskId"]
    assert request("tasks/get", taskId=id)["status"] == "working"
    with started(tmp_path, "letters.py", DRAGOMAN_RUN_TASKS="0") as worker:
        assert worker.stderr is not None
        assert worker.stderr.readline() == "Running the tasks of 'letters'\n"
        task = until(lambda: (found := request("tasks/get", taskId=id))["status"] != "working" and found, "it ends")
        assert task["result"]["structuredContent"] == {"result": worker.pid}
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE) == 0


@pytest.mark.covers("TKS-17")
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("server = Server('none')", "no tool that runs as a task"),
        (IN_MEMORY, "reaches one process only"),
    ],
)
def test_a_worker_that_would_find_no_tasks_says_so(tmp_path, source, why):
    (tmp_path / "server.py").write_text(f"from dragoman import Server\nfrom dragoman.stores import Memory\n{source}")
    with started(tmp_path, "server.py") as worker:
        _, said = worker.communicate(timeout=DEADLINE)
        assert worker.returncode == 2
        assert why in said
