"""Clients of others use the tasks of our server, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
    assert saw["failing"]["statuses"][-1] == "failed"
    assert saw["failed"] == [True, "no luck"]
    assert saw["forever"]["statuses"][-1] == "cancelled"
    assert saw["related"] == [saw["confirm"]["id"]]
    assert saw["listed"] == ["completed", "completed", "failed", "cancelled"]


def used(command: list[object], environment: dict[str, str]) -> dict[str, object]:
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
