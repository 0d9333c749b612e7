"""What a lifespan and an extension begin before a server serves and end afterwards, on all that carries requests."""

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from dragoman import AsyncClient, ConnectError, Context, Server, types
from dragoman.server import ExtensionRow, ServerExtension, asgi
from dragoman.stores import Memory
from dragoman.testing import WirePeer
from scenarios.http_crew import crew
from scenarios.http_peer import STATELESS, HttpPeer, live

DEADLINE = 60
CALL: types.Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "say"}}
MODULE = """
    import os, sys
    from contextlib import asynccontextmanager
    from typing import Annotated
    from dragoman import Lifespan, Server
    from dragoman.server import ExtensionRow, ServerExtension


    class Noting(ServerExtension):
        rows = (ExtensionRow(id="com.example/noting"),)

        @asynccontextmanager
        async def serving(self, server):
            if os.environ.get("REFUSE") == "extension":
                raise LookupError("there is no such template")
            note("enter")
            yield
            note("leave")


    def note(what):
        with open(os.environ["NOTES"], "a") as file:
            file.write(f"{what} {os.getpid()}\\n")


    async def opened():
        if os.environ.get("REFUSE") == "lifespan":
            raise LookupError("there is no such template")
        note("open")
        yield "said"
        note("close")


    server = Server("noting", lifespan=opened, extensions=[Noting()])


    @server.tool
    def say(said: Annotated[str, Lifespan()]) -> str:
        note("call")
        return said
"""
WHOLE = ["open", "enter", "call", "leave", "close"]


class Noting(ServerExtension):
    """Notes when its server begins and ends to serve."""

    rows = (ExtensionRow(id="com.example/noting"),)

    def __init__(self) -> None:
        self.happened: list[str] = []

    @asynccontextmanager
    async def serving(self, server):
        self.happened.append("enter")
        yield
        self.happened.append("leave")


def noting() -> tuple[Server, list[str]]:
    extension = Noting()
    server = Server(extensions=[extension], secret="a secret of sixteen", store=Memory())

    @server.lifespan
    @asynccontextmanager
    async def opened(given: Server) -> AsyncIterator[str]:
        assert given is server
        extension.happened.append("open")
        yield "said"
        extension.happened.append("close")

    @server.tool
    async def say(ctx: Context) -> str:
        extension.happened.append("call")
        return ctx.lifespan

    return server, extension.happened


class Program:
    """A program that serves, and the notes that it leaves."""

    def __init__(self, folder: Path, code: str) -> None:
        self.notes = folder / "notes"
        self.environment = {"NOTES": str(self.notes), "XDG_STATE_HOME": str(folder)}
        self.path = folder / "program.py"
        self.path.write_text(textwrap.dedent(MODULE) + textwrap.dedent(code))

    def run(self, lines: str = "", *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", *options, self.path],
            input=lines,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )

    def said(self) -> list[str]:
        return [line.split()[0] for line in self.notes.read_text().splitlines()] if self.notes.exists() else []


@pytest.mark.covers("EXS-14", "DEP-01")
def test_stdio_begins_before_the_first_message_and_ends_after_the_last(tmp_path):
    program = Program(tmp_path, "server.run()")
    finished = program.run(json.dumps(CALL) + "\n")
    assert (finished.returncode, json.loads(finished.stdout)["result"]["content"][0]["text"]) == (0, "said")
    assert program.said() == WHOLE


@pytest.mark.covers("EXS-14", "DEP-01")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_too(number, tmp_path):
    program = Program(tmp_path, "server.run()")
    child = subprocess.Popen(
        [sys.executable, "-W", "error", program.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=program.environment,
    )
    with child:
        child.stdin.write(json.dumps(CALL).encode() + b"\n")
        child.stdin.flush()
        child.stdout.readline()
        child.send_signal(number)
        assert child.wait(DEADLINE) == 0
    assert program.said() == WHOLE


@pytest.mark.covers("EXS-15", "DEP-04")
@pytest.mark.parametrize("refuses", ["extension", "lifespan"])
@pytest.mark.parametrize("code", ["server.run()", 'server.run("http", port=0)'])
def test_a_server_that_cannot_begin_does_not_serve_and_says_why(code, refuses, tmp_path):
    finished = Program(tmp_path, code).run(json.dumps(CALL) + "\n", REFUSE=refuses)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert "LookupError: there is no such template" in finished.stderr


@pytest.mark.covers("EXS-14", "DEP-01")
async def test_each_worker_begins_before_it_is_asked_and_ends_with_a_signal(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))

    def notes() -> list[tuple[str, str]]:
        lines = (tmp_path / "notes").read_text().splitlines() if (tmp_path / "notes").exists() else []
        return [tuple(line.split()) for line in lines]

    run = """
    server.run("http", port=int(sys.argv[1]), workers=int(sys.argv[2]))
    """
    async with crew(3, MODULE + run) as processes:
        await processes.ready()
        async with asyncio.timeout(DEADLINE):
            while len(notes()) < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert {what for what, _ in notes()} == {"open", "enter"}
        assert {int(worker) for _, worker in notes()} == processes.workers()
        async with AsyncClient(processes.url) as client:
            assert (await client.call_tool("say")).text == "said"
        processes.child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(processes.child.wait, DEADLINE) == 0
    opened, closed = ({worker for what, worker in notes() if what == wanted} for wanted in ("open", "close"))
    entered, left = ({worker for what, worker in notes() if what == wanted} for wanted in ("enter", "leave"))
    assert (len(notes()), opened, entered) == (13, closed, left)


@pytest.mark.covers("EXS-14", "DEP-01")
@pytest.mark.parametrize(
    "code",
    [
        "server.handle({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {'name': 'say'}})",
        """
        from dragoman import Client
        client = Client(server)
        client.call_tool("say")
        """,
        """
        import asyncio
        asyncio.run(server.handle_async({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {'name': 'say'}}))
        """,
        """
        import io, json
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        meta["io.modelcontextprotocol/clientCapabilities"] = {}
        params = {"name": "say", "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "HTTP_HOST": "localhost"}
        environ |= {"CONTENT_TYPE": "application/json", "HTTP_ACCEPT": "application/json"}
        environ |= {"HTTP_MCP_PROTOCOL_VERSION": "2026-07-28", "HTTP_MCP_METHOD": "tools/call", "HTTP_MCP_NAME": "say"}
        environ |= {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
        app = server.wsgi()
        assert b'said' in b''.join(app(environ, lambda status, headers: None))
        """,
    ],
    ids=["handle", "blocking client", "handle_async", "wsgi"],
)
def test_what_has_no_end_of_its_own_ends_with_its_loop_or_the_program(code, tmp_path):
    program = Program(tmp_path, code)
    finished = program.run()
    assert (finished.returncode, finished.stderr) == (0, "")
    assert program.said() == WHOLE


def test_a_forked_child_does_not_end_what_its_parent_began(tmp_path):
    code = """
    server.handle({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    note("parent")
    """
    program = Program(tmp_path, code)
    finished = program.run()
    assert (finished.returncode, finished.stderr) == (0, "")
    assert program.said() == ["open", "enter", "parent", "leave", "close"]


@pytest.mark.covers("EXS-14", "DEP-01")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_in_memory_it_lasts_from_the_first_client_to_the_last(mode):
    server, happened = noting()
    async with AsyncClient(server, mode=mode) as first:
        await first.call_tool("say")
        async with AsyncClient(server, mode=mode) as second:
            await second.call_tool("say")
        assert happened == ["open", "enter", "call", "call"]
    assert happened == ["open", "enter", "call", "call", "leave", "close"]
    async with WirePeer(server, mode) as peer:
        await peer.request("tools/call", {"name": "say"})
    assert happened[6:] == WHOLE


@pytest.mark.covers("EXS-15", "DEP-04")
async def test_a_client_of_a_server_that_cannot_begin_cannot_connect():
    class Refusing(Noting):
        @asynccontextmanager
        async def serving(self, server):
            raise LookupError("there is no such template")
            yield

    server = Server(extensions=[Refusing()], secret="a secret of sixteen", store=Memory())
    with pytest.raises(ConnectError, match="cannot begin to serve: there is no such template"):
        await AsyncClient(server).start()
    peer = HttpPeer(server.asgi(), STATELESS)
    assert (await peer.request("ping")).status == 500


@pytest.mark.covers("EXS-14", "DEP-01")
async def test_a_lifespan_of_asgi_begins_and_ends_it():
    server, happened = noting()
    await live(server.asgi())
    assert happened == ["open", "enter", "leave", "close"]


@pytest.mark.covers("EXS-14", "DEP-01")
@pytest.mark.parametrize("mounted", [False, True])
async def test_without_a_lifespan_the_first_request_begins_it_and_close_ends_it(mounted):
    server, happened = noting()
    app = server.asgi()
    outer: Any = Starlette(routes=[Mount("/", app)]) if mounted else app
    peer = HttpPeer(outer, STATELESS)
    exchanges = [peer.call("say") for _ in range(3)]
    for exchange in exchanges:
        assert (await exchange.end()).json["result"]["content"][0]["text"] == "said"
    assert happened == ["open", "enter", "call", "call", "call"]
    await app.close()
    assert happened == ["open", "enter", "call", "call", "call", "leave", "close"]


def test_without_a_lifespan_and_without_close_it_ends_with_the_loop():
    server, happened = noting()

    async def serve() -> None:
        app = server.asgi()
        assert (await HttpPeer(app, STATELESS).call("say").end()).status == 200
        del app

    for _ in range(2):
        asyncio.run(serve())
    assert happened == WHOLE * 2


@pytest.mark.covers("DEP-01")
def test_a_loop_that_cancels_no_tasks_closes_a_lifespan_with_its_async_generators():
    server, happened = Server(), []

    @server.lifespan
    async def opened() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(0)
            happened.append("close")

    async def serve() -> int:
        return (await HttpPeer(server.asgi(), STATELESS).request("tools/list")).status

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(serve()) == 200
    assert happened == []
    loop.run_until_complete(loop.shutdown_asyncgens())
    assert happened == ["close"]
    for task in asyncio.all_tasks(loop):
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
    loop.close()


@pytest.mark.covers("EXS-14", "DEP-01")
async def test_a_server_of_one_request_begins_and_ends_with_it():
    servers = [noting() for _ in range(2)]
    waiting = [server for server, _ in servers]
    app = asgi(lambda request: waiting.pop())
    for _ in range(2):
        assert (await HttpPeer(app, STATELESS).call("say").end()).status == 200
    assert [happened for _, happened in servers] == [WHOLE] * 2
