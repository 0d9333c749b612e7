"""Servers on several hosts, which share only a Redis: each host is a network namespace of its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.stores import hosts as hosts_of_tests
from faults.stores.hosts import hosts
from redis_server import program

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
PORT, REDIS_PORT = "18000", "16379"


def wait_for(network, name, port):
    """Wait until a host listens on a port, asked from the host of the user."""
    probe = f"import socket; socket.create_connection(('{network.address(name)}', {port}), 1)"
    deadline = time.monotonic() + 30
    while subprocess.run(network.command("user", [sys.executable, "-c", probe]), capture_output=True).returncode:
        assert time.monotonic() < deadline, f"{name} does not listen"
        time.sleep(0.1)


def cutting_script(network, folder):
    """Return a program that cuts off the host whose address it is given."""
    script = folder / "cut"
    lines = [
        f'[ "$1" = {network.address(name)} ] && {" ".join(network.cutting_command(name))}' for name in ("one", "two")
    ]
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\ntrue\n")
    script.chmod(0o755)
    return script


def use(network, folder):
    """Start Redis and two servers, use the servers from the host `user`, and return what the user saw."""
    address = network.address("redis")
    options = ["--port", REDIS_PORT, "--bind", address, "--protected-mode", "no", "--save", "", "--dir", str(folder)]
    network.start("redis", [program(), *options])
    wait_for(network, "redis", REDIS_PORT)
    for name in ("one", "two"):
        home = folder / name
        home.mkdir()
        where = [f"redis://{address}:{REDIS_PORT}/0", network.address(name), PORT]
        script = [sys.executable, str(HERE / "hosts_server.py"), *where]
        network.start(name, script, HOME=str(home), XDG_STATE_HOME=str(home))
    for name in ("one", "two"):
        wait_for(network, name, PORT)
    addresses = [f"{network.address(name)}:{PORT}" for name in ("one", "two")]
    script = [sys.executable, str(HERE / "hosts_client.py"), *addresses, str(cutting_script(network, folder)), "HOST"]
    ready = os.environ | {"PYTHONPATH": str(TESTS)}
    said = subprocess.run(network.command("user", script), capture_output=True, text=True, timeout=120, env=ready)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["hosts", "processes"])
def test_sessions_questions_and_streams_go_on_where_servers_share_only_redis(tmp_path, monkeypatch, kind):
    if kind == "hosts" and (reason := hosts_of_tests.why_not()) is not None:
        pytest.skip(f"{reason}; the same is shown with processes of this machine")
    if kind == "processes":
        monkeypatch.setattr(hosts_of_tests, "why_not", lambda: "the test asks for processes")
    with hosts("redis", "one", "two", "user") as network:
        seen = use(network, tmp_path)
    assert seen["sessions"] == 12
    assert seen["answered_elsewhere"] == 12
    assert seen["cut_stream"]["resumed"]
    assert seen["cut_stream"]["outcome"].startswith("counted to 10")
    assert seen["cut_host"]["resumed"]
    assert "is gone; the request may have run" in seen["cut_host"]["outcome"]
    assert seen["cut_host"]["seconds"] < 20
    assert seen["afterwards"] == "1 True"
