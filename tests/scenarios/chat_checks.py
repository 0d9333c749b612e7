"""What tests of chats share: places to meet a server, and what every provider demands of a conversation."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.chat import Message, ToolCall
from ports import free_port
from scenarios.chat_server import Town

DEADLINE = 60
SERVER = Path(__file__).with_name("chat_server.py")
ERAS = ("handshake", "stateless")
PLACES = [(over, era) for over in ("memory", "stdio", "http") for era in ERAS]


@contextlib.contextmanager
def reach(over: str) -> Iterator[Any]:
    """Give what a client is pointed at to meet the town; a server over HTTP runs meanwhile."""
    if over == "memory":
        yield Town().server
    elif over == "stdio":
        yield [sys.executable, str(SERVER)]
    else:
        with _running() as url:
            yield url


@contextlib.contextmanager
def _running() -> Iterator[str]:
    port = free_port()
    with subprocess.Popen(
        [sys.executable, SERVER, "http", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            _wait_for(child, port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            child.terminate()


def _wait_for(child: "subprocess.Popen[bytes]", port: int) -> None:
    ends = time.monotonic() + DEADLINE
    while time.monotonic() < ends and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("The server does not listen")


def assert_valid(messages: Sequence[Message]) -> None:
    """Every call is followed by its result, every result follows its call, and no id comes twice."""
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id in waiting, "a result without its call"
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, "a call without its result"
        waiting = [call.id for call in message.tool_calls]
        assert not seen.intersection(waiting), "an id that comes twice"
        seen.update(waiting)
        assert message.role == "assistant" or not waiting
    assert not waiting, "a call without its result"


def call(name: str, /, **arguments: Any) -> ToolCall:
    """A call with an id that says what it is."""
    return ToolCall(f"id-{name}", name, arguments)


async def happened(event: threading.Event) -> None:
    """Wait for an event of another thread."""
    assert await asyncio.to_thread(event.wait, DEADLINE), "it did not happen"


async def give_up(turn: "asyncio.Task[Any]") -> None:
    """Cancel a turn, and wait for its end."""
    turn.cancel()
    await asyncio.wait_for(asyncio.wait([turn]), DEADLINE)
    assert turn.cancelled()
