"""Many slow calls at once over a real pipe, and a ping in between."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from faults.stdio.stdio_process import Process

SLOW = """
import asyncio
import threading

from dragoman import Server

server = Server("slow")
opened = asyncio.Event()
released = threading.Event()


@server.tool
async def wait() -> str:
    await opened.wait()
    return "done"


@server.tool
def block() -> str:
    released.wait()
    return "done"


@server.tool
async def release() -> str:
    opened.set()
    released.set()
    return "released"


server.run()
"""


def message(id: object, method: str, name: str | None = None) -> bytes:
    params = {} if name is None else {"params": {"name": name}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, **params}).encode() + b"\n"


@pytest.mark.parametrize(("tool", "calls"), [("wait", 5000), ("block", 400)])
def test_thousands_of_slow_calls_do_not_hold_up_a_ping(tmp_path: Path, tool: str, calls: int) -> None:
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    with Process(command=[sys.executable, str(program)]) as server:
        server.write(b"".join(message(id, "tools/call", tool) for id in range(calls)))
        server.write(message("ping", "ping"))
        assert json.loads(server.line()) == {"jsonrpc": "2.0", "id": "ping", "result": {}}
        server.write(message("release", "tools/call", "release"))
        answers = [json.loads(server.line()) for _ in range(calls + 1)]
        assert {answer["id"] for answer in answers} == {"release", *range(calls)}
        assert all(answer["result"]["content"][0]["text"] in ("done", "released") for answer in answers)
