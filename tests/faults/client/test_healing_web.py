"""Clients whose HTTP server forgets sessions, is restarted, refuses connections or drops streams."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from dragoman import AsyncClient, TransportError
from dragoman.client.connect import reconnect
from dragoman.errors import ConnectError, HttpError
from ports import free_port
from scenarios.client_peer import NEWEST, STATELESS, Web, discovered, initialized, result, said, scenario, until

PEERS = Path(__file__).parents[3] / ".venv" / "peers"
OURS = """
    import sys
    from dragoman import Server
    server = Server("ours")
    @server.tool
    async def where() -> str:
        "Says where."
        return sys.argv[2]
    server.run("http", port=int(sys.argv[1]))
"""
THEIRS = """
    import sys
    from mcp.server import MCPServer
    server = MCPServer("theirs")
    @server.tool()
    async def where() -> str:
        "Says where."
        return sys.argv[2]
    server.run("streamable-http", port=int(sys.argv[1]))
"""


def start(command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@asynccontextmanager
async def process(python, code: str, port: int, life: str, **env: str):
    """Run a server as a process until the end, and then kill it."""
    command = [python, "-c", textwrap.dedent(code), str(port), life]
    child = start(command, os.environ | env)
    try:
        await until(lambda: child.poll() is not None or is_listening(port), "it does not listen")
        yield child
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(10)


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return False
    return True


class Sessions:
    """A server of the handshake era that knows the sessions of its present life only."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.begun = 0
        self.calls: list[object] = []

    def answer(self, m, request):
        if m["method"] == "initialize":
            self.begun += 1
            self.known.add(f"s{self.begun}")
            return web.json_response(initialized(m, tools={}), headers={"Mcp-Session-Id": f"s{self.begun}"})
        if request.headers.get("Mcp-Session-Id") not in self.known:
            return web.Response(status=404)
        if m["method"] == "tools/call":
            self.calls.append(m["params"]["arguments"].get("n"))
            return said(m, request.headers["Mcp-Session-Id"])
        return result(m, {}) if "id" in m else web.Response(status=202)


@pytest.fixture
def brisk(monkeypatch):
    monkeypatch.setattr(reconnect, "FIRST_PAUSE", 0.01)


@pytest.mark.covers("HEAL-10", "CHT-24")
@scenario
async def test_a_forgotten_session_is_begun_anew_once_however_many_calls_find_it_gone():
    sessions, again = Sessions(), []
    async with (
        Web(sessions.answer).running() as server,
        AsyncClient(server.url, mode="handshake", on_reconnect=lambda: again.append(1)) as client,
    ):
        assert (await client.call_tool("x")).text == "s1"
        sessions.known.clear()
        results = await asyncio.gather(*(client.call_tool("x", {"n": n}) for n in range(50)))
        assert {result.text for result in results} == {"s2"}
        assert sorted(n for n in sessions.calls if n is not None) == list(range(50))
        assert sessions.begun == 2
        assert again == [1]


@pytest.mark.covers("HEAL-10", "CHT-24")
@scenario
async def test_a_session_that_is_forgotten_again_and_again_is_an_error():
    sessions = Sessions()

    def answer(m, request):
        if m["method"] == "tools/call":
            sessions.known.clear()
        return sessions.answer(m, request)

    async with Web(answer).running() as server, AsyncClient(server.url, mode="handshake") as client:
        with pytest.raises(TransportError, match="does not know the session"):
            await client.call_tool("x")
        assert sessions.begun == 1 + reconnect.MAX_REPETITIONS


@pytest.mark.covers("HEAL-10", "HEAL-04")
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
@scenario
async def test_a_server_that_is_away_is_an_error_after_a_few_attempts_and_found_when_it_is_back(mode, brisk):
    sessions = Sessions()

    def answer(m, request):
        if m["method"] == "server/discover":
            return discovered(m, STATELESS, tools={})
        return said(m, "ok") if mode == "stateless" else sessions.answer(m, request)

    server = Web(answer)
    async with server.running():
        client = AsyncClient(server.url, mode=mode)
        await client.call_tool("x")
    with pytest.raises(ConnectError, match="is the server running"):
        await client.call_tool("x", idempotent=True)
    sessions.known.clear()
    async with server.running(server.port):
        results = await asyncio.gather(*(client.call_tool("x") for _ in range(10)))
        assert {result.text for result in results} == {"ok" if mode == "stateless" else "s2"}
        await client.stop()


@pytest.mark.covers("HEAL-04")
@scenario
async def test_a_server_that_is_away_for_a_moment_is_waited_for():
    def answer(m, request):
        return discovered(m, STATELESS, tools={}) if m["method"] == "server/discover" else said(m, "ok")

    server = Web(answer)
    async with server.running():
        client = AsyncClient(server.url)
        await client.start()
    call = asyncio.create_task(client.call_tool("x"))
    await asyncio.wait([call], timeout=0.3)
    async with server.running(server.port):
        assert (await asyncio.wait_for(call, 10)).text == "ok"
        await client.stop()


@pytest.mark.covers("HEAL-03")
@scenario
async def test_a_stream_that_breaks_repeats_what_may_run_twice_and_nothing_else():
    calls = []

    async def answer(m, request):
        if m["method"] == "server/discover":
            return discovered(m, STATELESS, tools={})
        calls.append(m["id"])
        if len(calls) % 2 == 0:
            return said(m, "ok")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": hello\n\n")
        request.transport.abort()
        return response

    async with Web(answer).running() as server, AsyncClient(server.url) as client:
        assert (await client.call_tool("x", idempotent=True)).text == "ok"
        assert len(set(calls)) == 2
        with pytest.raises(TransportError, match="may have been served"):
            await client.call_tool("x")
        assert len(calls) == 3


@pytest.mark.covers("HEAL-03")
@pytest.mark.parametrize(("status", "times"), [(503, 3), (500, 3), (400, 1), (404, 1), (429, 1)])
@scenario
async def test_a_status_that_may_pass_is_tried_again_where_no_harm_is_done(status, times, brisk):
    calls = []

    def answer(m, request):
        if m["method"] == "server/discover":
            return discovered(m, STATELESS, tools={})
        calls.append(m["id"])
        return web.Response(status=status)

    async with Web(answer).running() as server, AsyncClient(server.url) as client:
        with pytest.raises(HttpError):
            await client.call_tool("x", idempotent=True)
        assert len(calls) == times
        calls.clear()
        with pytest.raises(HttpError):
            await client.call_tool("x")
        assert len(calls) == 1


@pytest.mark.covers("HEAL-10")
@scenario
async def test_our_server_with_another_secret_is_greeted_again(tmp_path):
    port, again = free_port(), []
    client = AsyncClient(f"http://127.0.0.1:{port}/mcp", mode="handshake", on_reconnect=lambda: again.append(1))
    for life in ("first", "second"):
        env = {"DRAGOMAN_SECRET": f"the secret of the {life} life of it", "XDG_STATE_HOME": str(tmp_path)}
        async with process(sys.executable, OURS, port, life, **env):
            assert (await client.call_tool("where")).text == life
    assert again == [1]
    assert client.protocol_version == NEWEST
    await client.stop()


@pytest.mark.covers("HEAL-10")
@pytest.mark.skipif(not (PEERS / "ready").exists(), reason="the peers are not installed; `make test` sets them up")
@pytest.mark.parametrize("mode", ["handshake", "auto"])
@scenario
async def test_the_official_server_is_greeted_again_after_it_was_restarted(mode):
    port = free_port()
    client = AsyncClient(f"http://127.0.0.1:{port}/mcp", mode=mode)
    for life in ("first", "second"):
        async with process(PEERS / "bin" / "python", THEIRS, port, life):
            assert (await client.call_tool("where")).text == life
    await client.stop()


class Streaming(Web):
    """A server of the handshake era with a stream of its own, which it drops a few times."""

    def __init__(self, sessions: Sessions, drops: int) -> None:
        super().__init__(sessions.answer)
        self.streams = 0
        self.drops = drops

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return await super()._handle(request)
        self.streams += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if self.streams <= self.drops:
            await response.write(b"retry: 10\n\n")
            request.transport.abort()
            return response
        note = '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'
        await response.write(f"data: {note}\n\n".encode())
        await asyncio.Event().wait()
        return response


@pytest.mark.covers("HEAL-10")
@scenario
async def test_a_stream_of_the_servers_own_that_is_dropped_is_opened_again_in_the_same_session():
    sessions, changed = Sessions(), []
    server = Streaming(sessions, drops=3)
    options = {"mode": "handshake", "on_list_changed": changed.append}
    async with server.running(), AsyncClient(server.url, **options) as client:
        await until(lambda: changed == ["tools"])
        assert (server.streams, sessions.begun) == (4, 1)
        assert (await client.call_tool("x")).text == "s1"
        assert client.status == "ready"
