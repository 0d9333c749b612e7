"""Servers that tell clients that do not read, that are leaving, or that are gone."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import Context, Server, types
from dragoman.testing import WirePeer
from dragoman.transports.stdio.serving import run_stdio
from faults.stdio.stdio_process import DEADLINE, ENVIRONMENT, Process
from faults.stdio.stdio_service import resident_bytes

MEBIBYTE = 1 << 20
TIMES = 10_000
NEEDS_PROC = pytest.mark.skipif(sys.platform != "linux", reason="memory is looked up in /proc")
TESTS = str(Path(__file__).resolve().parents[2])


# The server that this file is when it is run.


def make_server() -> Server:
    server = Server(capabilities={"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}})

    @server.tool
    async def flood(how: str, ctx: Context) -> None:
        """Tell without end, as fast as there is room."""
        number = 0
        while True:
            number += 1
            if how == "progress":
                telling = asyncio.ensure_future(ctx.report_progress(number, message="x" * 1000))
            else:
                telling = asyncio.ensure_future(ctx.info("x" * 1000))
            await asyncio.sleep(0)
            if not telling.done():
                say("waiting for room")
            await telling

    @server.tool
    async def tell_all(how: str) -> None:
        """Tell all clients, many times, without waiting for any."""
        say(str(resident_bytes(os.getpid())))
        for first in range(0, TIMES, 100):
            if how == "loop":
                tell_some(server, first)
            else:
                await asyncio.to_thread(tell_some, server, first)
        say(str(resident_bytes(os.getpid())))

    return server


def tell_some(server: Server, first: int) -> None:
    for number in range(first, first + 100):
        server.notify_tools_list_changed()
        server.notify_resource_updated(f"file:///a/{number}")
        server.log("info", "x" * 2000)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


class Served(Process):
    """The server as a process, after the handshake of a session that wants log messages and listens."""

    def __init__(self) -> None:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.child = subprocess.Popen([sys.executable, __file__], env={**ENVIRONMENT, "PYTHONPATH": TESTS}, **pipes)
        self.unread = b""
        client = {"name": "client", "version": "1"}
        introduction = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.send(1, "initialize", introduction)
        assert b'"id":1' in self.line()
        self.send(2, "logging/setLevel", {"level": "debug"})
        assert b'"id":2' in self.line()
        envelope = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}
        self.send(3, "subscriptions/listen", {"notifications": wanted, "_meta": envelope})
        assert b"notifications/subscriptions/acknowledged" in self.line()

    def send(self, id: int, method: str, params: types.Json) -> None:
        self.write(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n")

    def call(self, name: str, how: str) -> None:
        self.send(4, "tools/call", {"name": name, "arguments": {"how": how}, "_meta": {"progressToken": 4}})

    def said(self) -> bytes:
        assert self.child.stderr is not None
        return self.child.stderr.readline().strip()

    def end(self, how: str) -> None:
        assert self.child.stdout is not None
        if how == "terminated":
            self.signal(signal.SIGTERM)
        else:
            self.child.stdout.close()


ENDS = pytest.mark.parametrize("end", ["terminated", "output closed"])


@pytest.mark.covers("LOG-08", "PRG-07")
@NEEDS_PROC
@ENDS
@pytest.mark.parametrize("how", ["progress", "log"])
def test_a_handler_that_tells_without_end_waits_for_a_client_that_does_not_read(how, end):
    with Served() as process:
        before = resident_bytes(process.child.pid)
        process.call("flood", how)
        assert process.said() == b"waiting for room"
        assert resident_bytes(process.child.pid) < before + 8 * MEBIBYTE
        process.end(end)
        assert process.exit_code(DEADLINE) == 0


@pytest.mark.covers("LOG-08")
def test_a_handler_goes_on_telling_when_the_client_reads_again():
    with Served() as process:
        process.call("flood", "progress")
        assert process.said() == b"waiting for room"
        told = [msgspec.json.decode(process.line())["params"]["progress"] for _ in range(2000)]
        assert told == list(range(1, 2001))


@pytest.mark.covers("NOT-08")
@NEEDS_PROC
@ENDS
@pytest.mark.parametrize("how", ["loop", "thread"])
def test_what_is_told_to_a_client_that_does_not_read_is_bounded(how, end):
    with Served() as process:
        process.call("tell_all", how)
        before = int(process.said())
        # Without a bound it would be more than 20 MB.
        assert int(process.said()) < before + 12 * MEBIBYTE
        process.end(end)
        assert process.exit_code(DEADLINE) == 0


# In this process.


def hammer(server: Server, stop: threading.Event, failures: list[BaseException]) -> None:
    try:
        while not stop.is_set():
            server.notify_tools_list_changed()
            server.notify_prompts_list_changed()
            server.notify_resource_updated("file:///a")
            server.log("info", "text")
    except BaseException as error:
        failures.append(error)


@pytest.mark.covers("NOT-01")
def test_threads_may_tell_while_connections_come_and_go_and_loops_end(caplog):
    server = Server(
        capabilities={"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}},
    )
    stop, failures = threading.Event(), []
    threads = [threading.Thread(target=hammer, args=(server, stop, failures)) for _ in range(4)]

    async def talk() -> None:
        for _ in range(5):
            async with WirePeer(server) as peer:
                await peer.request("logging/setLevel", {"level": "info"})
                await peer.request("resources/subscribe", {"uri": "file:///a"})
                for method in ("message", "tools/list_changed", "resources/updated"):
                    await peer.receive(f"notifications/{method}")

    try:
        for thread in threads:
            thread.start()
        for _ in range(5):
            asyncio.run(asyncio.wait_for(talk(), DEADLINE))
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)
    assert failures == []
    assert caplog.records == []
    assert server.notifier.members() == []


@pytest.mark.covers("NOT-01")
def test_a_closed_connection_is_told_nothing_whether_its_loop_runs_or_not(caplog):
    server = Server()
    sent: list[bytes] = []

    def tell(connection: Any) -> None:
        connection.notify_change("notifications/tools/list_changed")
        connection.notify_updated("file:///a")
        connection.notify("notifications/message", {})
        connection.log("emergency", "too late", None)

    async def talk() -> Any:
        async with WirePeer(server) as peer:
            await peer.request("logging/setLevel", {"level": "info"})
            peer._take = sent.append  # type: ignore[attr-defined]
        tell(peer._connection)
        await asyncio.to_thread(tell, peer._connection)
        return peer._connection

    connection = asyncio.run(asyncio.wait_for(talk(), DEADLINE))
    tell(connection)
    assert sent == []
    assert caplog.records == []


@pytest.mark.covers("NOT-01")
def test_a_connection_whose_loop_ended_without_closing_it_harms_nobody(caplog):
    server = Server()
    sent: list[bytes] = []

    async def leave() -> Any:
        return server.connect(sent.append)

    connection = asyncio.run(leave())
    server.notify_tools_list_changed()
    connection.notify_updated("file:///a")
    assert sent == []
    del connection
    gc.collect()
    assert server.notifier.members() == []
    assert caplog.records == []


if __name__ == "__main__":
    run_stdio(make_server(), grace=0.5)
