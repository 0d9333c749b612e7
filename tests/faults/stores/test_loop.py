"""No store blocks the loop of its server: what waits for a disk or a name is done in other threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("loop_witness.py")
DEADLINE = 60


@pytest.mark.parametrize(
    ("kind", "threads"), [("local", {"sqlite3.connect", "sqlite3.execute"}), ("redis", {"socket.getaddrinfo"})]
)
def test_the_loop_waits_for_nothing_while_a_store_is_used(kind, threads, tmp_path, redis_server):
    where = str(tmp_path / "store") if kind == "local" else str(redis_server.port)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), kind, where],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["blocked"] == []
    assert threads <= set(said["elsewhere"])
    assert said["seen"] == ["sqlite3.connect", "sqlite3.execute"], "the witness is awake"
