"""Dragoman with clients and servers of others, as people run them; `peers.toml` says what works, or why not.

`make e2e` sets the environments up and runs this file. What works must work, and what does not must not: a cell that is
out of date fails either way.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client, DragomanError
from interop.wild.environments import HERE, PEERS, node, python
from ports import free_port

pytestmark = pytest.mark.e2e

WORKS = "works"
DEADLINE = 60.0
OURS = [sys.executable, str(HERE / "server.py")]
SEEN = {"tools": ["add", "wait"], "sum": "5", "resource": "hello", "prompt": "Say hello to Ann", "gives_up": True}
"""What a client sees of our server; one that has no resources or prompts leaves them out."""


def filled(words: list[str], peer: dict[str, Any], **values: Any) -> list[str]:
    """Return a command of the list with everything in its place."""
    known = {
        "here": HERE,
        "node": node(),
        "packages": HERE / "node_modules",
        "python": python(peer.get("environment", "")),
        **values,
    }
    return [word.format(**known) for word in words]


@contextmanager
def listening(command: list[str], port: int, folder: Path) -> Iterator[str]:
    """Run a program until it listens, and end it; give the URL of its server."""
    with (folder / "complaints").open("w+b") as complaints:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=complaints,
            start_new_session=True,
            env=os.environ | {"XDG_STATE_HOME": str(folder)},
        )
        try:
            ends = time.monotonic() + DEADLINE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except ConnectionRefusedError:
                    assert child.poll() is None, (folder / "complaints").read_text()
                    assert time.monotonic() < ends, "the program does not listen"
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(DEADLINE)


def sees(command: list[str], target: list[str], folder: Path) -> dict[str, Any]:
    """Return what a client sees of our server.

    Raises:
        AssertionError: it fails; with what it wrote.
    """
    ran = subprocess.run([*command, *target], capture_output=True, text=True, timeout=DEADLINE, cwd=folder, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("name", PEERS["clients"])
def test_a_client_of_others_uses_our_server(name, transport, tmp_path):
    peer = PEERS["clients"][name]
    command = filled(peer["command"], peer)
    if transport == "stdio":
        outcome = attempt(lambda: sees(command, ["stdio", *OURS], tmp_path))
    else:
        port = free_port()
        with listening([*OURS, str(port)], port, tmp_path) as url:
            outcome = attempt(lambda: sees(command, ["http", url], tmp_path))
    if peer[transport] == WORKS:
        assert not isinstance(outcome, Exception), outcome
        assert outcome == {part: SEEN[part] for part in SEEN if part in outcome}
        assert "sum" in outcome
    else:
        assert isinstance(outcome, Exception), f"it works now: {outcome}"


def attempt(use: Any) -> Any:
    """Return what using something gives, or the error that it fails with."""
    try:
        return use()
    except (AssertionError, DragomanError) as error:
        return error


@pytest.mark.parametrize("name", PEERS["servers"])
def test_our_client_uses_a_server_of_others(name, tmp_path):
    peer = PEERS["servers"][name]
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    command = filled(peer["command"], peer, folder=tmp_path)
    tool, arguments, expected = peer["call"]
    given = {
        key: value.format(folder=tmp_path) if isinstance(value, str) else value for key, value in arguments.items()
    }

    def use() -> str:
        with Client(command) as client:
            assert tool in [bound.name for bound in client.tools()]
            assert all(
                isinstance(found, list) for found in [client.resources(), client.resource_templates(), client.prompts()]
            )
            return client.call_tool(tool, given, raise_on_error=False).text

    outcome = attempt(use)
    if peer["connects"] == WORKS:
        assert not isinstance(outcome, Exception), outcome
        assert expected.format(folder=tmp_path) in outcome
    else:
        assert isinstance(outcome, Exception), f"it works now: {outcome}"


@pytest.mark.parametrize("mode", ["auto", "handshake"])
@pytest.mark.parametrize("name", PEERS["bridges"])
def test_our_client_uses_our_server_across_a_bridge_of_others(name, mode, tmp_path):
    peer = PEERS["bridges"][name]
    port = free_port()
    with ExitStack() as stack:
        if "{url}" in peer["command"]:
            url = stack.enter_context(listening([*OURS, str(port)], port, tmp_path))
            target: Any = filled(peer["command"], peer, url=url)
        else:
            command = filled(peer["command"], peer, server=shlex.join(OURS), port=port)
            target = stack.enter_context(listening(command, port, tmp_path))

        def use() -> Any:
            with Client(target, mode=mode) as client:
                return client.call_tool("add", {"a": 2, "b": 3}).structured

        outcome = attempt(use)
    if peer["connects"] == WORKS:
        assert outcome == 5
    else:
        assert isinstance(outcome, Exception), f"it works now: {outcome}"
