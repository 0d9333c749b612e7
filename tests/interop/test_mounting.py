"""The client of mcp uses a server in which another is mounted, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.processes import HERE, client_command
from scenarios import mounted_servers

DEADLINE = 60.0


@pytest.mark.covers("MNT-01", "MNT-05")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_the_client_of_mcp_uses_everything_of_a_mounted_server(era: str) -> None:
    program = Path(mounted_servers.__file__)
    command = [str(client_command("python")[0]), str(HERE / "mounting_client.py"), era, sys.executable, str(program)]
    environment = os.environ | {"PYTHONPATH": str(program.parents[1])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "tools": ["buy", *(f"weather_{name}" for name in ("forecast", "measure", "ask", "links", "touch"))],
        "templates": ["data://weather/cities/{city}/{level}"],
        "forecast": "Sunny in Oslo",
        "asked": "Oslo on Monday",
        "link": "data://weather/cities",
        "read": "Rome low",
        "prompt": "data://weather/cities",
    }
