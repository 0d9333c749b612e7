"""Clients of others use the tasks of our server, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faults.tasks.crew import until
from interop.processes import HERE, client_command
from ports import free_port
from scenarios.command_line import listens

DEADLINE = 60.0
SERVER = HERE / "task_server.py"


@pytest.mark.covers("TKS-12")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_typescript_sdk_uses_the_tasks_of_2025_11_25(
    transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    node, client = client_command("typescript")[0], HERE / "task_client.mjs"
    if transport == "stdio":
        # The SDK passes few variables of the environment on, so HOME leads to the state folder.
        home = os.environ | {"HOME": str(tmp_path)}
        saw = used([node, client, sys.executable, SERVER, "stdio"], home)
    else:
        port = free_port()
        serving = subprocess.Popen([sys.executable, SERVER, str(port)], stdin=subprocess.DEVNULL)
        try:
            until(lambda: listens(port), "the server listens")
            saw = used([node, client, f"http://127.0.0.1:{port}/mcp"], dict(os.environ))
        finally:
            serving.terminate()
            serving.wait(DEADLINE)
    assert saw["declared"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert (saw["slow"]["end"], saw["confirm"]["end"]) == ("Computed x", "True it")
    assert saw["slow"]["statuses"] == ["working", "completed"]
    assert "input_required" in saw["confirm"]["statuses"]
    assert (saw["confirm"]["progress"][0], saw["confirm"]["progress"][-1]) == (1, 2)  # also after the answers
    assert saw["confirm"]["notified"][-1] == "completed"
    assert "input_required" in saw["confirm"]["notified"]
    assert saw["failing"]["statuses"][-1] == "failed"
    assert saw["failed"] == [True, "no luck"]
    assert saw["forever"]["statuses"][-1] == "cancelled"
    assert saw["related"] == [saw["confirm"]["id"]]
    assert saw["listed"] == ["completed", "completed", "failed", "cancelled"]


FIXTURES = {
    "greet": "Hello, {peer}!",
    "slow_compute": "Computed x",
    "failing_job": "The job failed",
    "protocol_error_job": "The job broke the protocol",
    "confirm_delete": "Deleted notes.txt",
    "multi_input": "{{'name': 'Alice', 'confirm': True}} {{'name': 'Alice', 'confirm': True}}",
    "test_tool_with_task": "Hello, Alice",
}
QUESTIONS = ["Delete notes.txt?", "Who?", "Really?", "What is your name?"]
CONFORMANCE = HERE.parent / "conformance" / "server.py"


@pytest.mark.covers("TKC-03")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_ext_tasks_drives_every_fixture(era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    port = free_port()
    serving = subprocess.Popen([sys.executable, CONFORMANCE, "--port", str(port)], stdin=subprocess.DEVNULL)
    try:
        until(lambda: listens(port), "the server listens")
        client = [client_command("typescript")[0], HERE / "ext_tasks_client.mjs"]
        saw = used([*client, f"http://localhost:{port}/mcp", era], dict(os.environ))
    finally:
        serving.terminate()
        serving.wait(DEADLINE)
    fixtures = saw["fixtures"]
    texts = {name: text.format(peer="ext-tasks") for name, text in FIXTURES.items()}
    if era == "handshake":  # a tool error fails the task there, and the package tells no more of it
        texts["failing_job"] = "Task failed"
    assert {name: one["text"] for name, one in fixtures.items()} == texts
    assert [name for name, one in fixtures.items() if one["kind"] == "immediate"] == ["greet"]
    failed = ["failing_job", "protocol_error_job"] if era == "handshake" else ["protocol_error_job"]
    assert [name for name, one in fixtures.items() if one["status"] == "failed"] == failed
    assert fixtures["failing_job"]["isError"] is (era == "stateless")
    assert fixtures["confirm_delete"]["statuses"] == ["working", "input_required", "completed"]
    assert [message for message, *_ in saw["asked"]] == QUESTIONS
    assert (saw["before"], saw["cancelled"], saw["after"]) == ("working", "cancelled", "cancelled")
    assert saw["resumed"] == "Computed again"
    assert saw["listed"] == (8 if era == "handshake" else None)


@pytest.mark.covers("TKC-03")
def test_fastmcp_drives_every_fixture(tmp_path: Path) -> None:
    client = [client_command("python")[0], HERE / "fastmcp_task_client.py"]
    server = [sys.executable, "-m", "dragoman", "run", CONFORMANCE]
    saw = used([*client, *server], os.environ | {"XDG_STATE_HOME": str(tmp_path)})
    failed = ("failing_job", "protocol_error_job")
    assert saw["fixtures"] == {name: [name in failed, text.format(peer="fastmcp")] for name, text in FIXTURES.items()}
    assert saw["asked"] == QUESTIONS
    assert saw["statuses"] == ["working", "cancelled"]


def used(command: list[object], environment: dict[str, str]) -> dict[str, Any]:
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
