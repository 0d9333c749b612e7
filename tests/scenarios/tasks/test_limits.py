"""The bytes and the number of tasks that a server keeps for each caller, in every store."""

import asyncio
import io
import json
import subprocess
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import redis_store
from dragoman import Context, Server
from dragoman.server import TaskOptions
from dragoman.server.extensions.tasks import requests
from dragoman.stores import Local, Memory, Redis, StoreLimits
from redis_store import until
from scenarios.http_peer import HttpPeer, serve
from scenarios.task_peer import DECLARED, FIRST, SECOND, TaskPeer, polled, task_peer

SECRET = "a secret of sixteen"
KIB = 1024
LIMITS = StoreLimits(task_bytes=200 * KIB, task_bytes_per_caller=80 * KIB)
LARGE = "x" * 30 * KIB
ENGINES = ["memory", "local", "redis"]
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
pytestmark = pytest.mark.covers("TKS-11")


@pytest.fixture
def make_store(tmp_path, redis_server):
    def make(engine: str, limits: StoreLimits | None = None) -> Any:
        if engine == "memory":
            return Memory(limits=limits)
        return Local(tmp_path, limits=limits) if engine == "local" else Redis(redis_server.url, limits=limits)

    return make


def keeper(store: Any, name: str | None = None, **options: Any) -> Server:
    """Return a server with a tool that returns its argument, or a text of some size."""
    server = Server(name or redis_store.fresh(), store=store, secret=SECRET)

    @server.tool(task=TaskOptions(**options))
    async def keep(text: str = "", size: int = 0) -> str:
        return text if size == 0 else "x" * size

    return server


@asynccontextmanager
async def callers(server: Server, version: str = SECOND, **names: str) -> AsyncIterator[dict[str, TaskPeer]]:
    """Serve a server over HTTP to some clients, each at an address."""
    app = serve(server)
    peers = {}
    try:
        for name, address in names.items():
            http = HttpPeer(app, version, capabilities=DECLARED)
            http.address = address
            if version == FIRST:
                await http.initialize()
            peers[name] = TaskPeer(http, version)
        yield peers
    finally:
        await app.close()
        await server.store.close()


async def fill(peer: TaskPeer, text: str = LARGE, limit: int = 50) -> str:
    """Begin tasks until the server refuses one, and return why."""
    for _ in range(limit):
        response = await peer.response(
            "tools/call", name="keep", arguments={"text": text}, **({"task": {}} if peer.version == FIRST else {})
        )
        if "error" in response:
            assert response["error"]["code"] == -32603
            return response["error"]["message"]
    raise AssertionError("the server refused nothing")


@EVERY_ENGINE
@pytest.mark.parametrize("version", [FIRST, SECOND])
async def test_anonymous_client_cannot_block_clients_at_other_addresses(make_store, engine, version):
    server = keeper(make_store(engine, LIMITS))
    async with callers(server, version, one="10.0.0.1", again="10.0.0.1", other="10.0.0.2") as peers:
        assert "a caller may keep 81920 bytes" in await fill(peers["one"])
        assert "a caller may keep" in await fill(peers["again"], limit=1), "a new session must bring no new limits"
        await peers["other"].start("keep", text=LARGE)


@EVERY_ENGINE
async def test_callers_together_stay_within_the_bytes_of_the_server(make_store, engine):
    store = make_store(engine, LIMITS)
    server = keeper(store)
    addresses = {f"client{number}": f"10.0.0.{number}" for number in range(4)}
    async with callers(server, **addresses) as peers:
        reasons = [await fill(peer) for peer in peers.values()]
    assert "the server may keep 204800 bytes" in reasons[-1]
    async with callers(keeper(store), other="10.0.0.9") as peers:
        await peers["other"].start("keep", text=LARGE)


@EVERY_ENGINE
async def test_result_without_room_fails_its_task_and_says_why(make_store, engine):
    server = keeper(make_store(engine, LIMITS))
    async with callers(server, one="10.0.0.1") as peers:
        task = await peers["one"].start("keep", size=100 * KIB)
        error = (await peers["one"].outcome(task["taskId"]))["error"]
        assert error["code"] == -32603
        assert "could not be stored. The store has no room for this: a caller may keep 81920 bytes" in error["message"]


@EVERY_ENGINE
async def test_tasks_of_a_full_caller_still_end(make_store, engine, caplog):
    server = Server(redis_store.fresh(), store=make_store(engine, LIMITS), secret=SECRET)
    go_on = asyncio.Event()

    @server.tool(task=True)
    async def keep(ctx: Context, text: str = "") -> int:
        if not text:
            await ctx.report_progress(1, message="m" * 10 * KIB)
        await go_on.wait()
        return len(text)

    async with callers(server, one="10.0.0.1") as peers:
        peer = peers["one"]
        tasks = [await peer.start("keep", text="x" * 25 * KIB) for _ in range(3)]
        talkative = await peer.start("keep")
        assert "a caller may keep" in await fill(peer)
        await until(lambda: "The status of the task" in caplog.text)
        go_on.set()
        for task in tasks:
            assert (await peer.outcome(task["taskId"]))["result"]["structuredContent"] == {"result": 25 * KIB}
        assert (await peer.outcome(talkative["taskId"]))["result"]["structuredContent"] == {"result": 0}
        await peer.start("keep", text=LARGE)


@EVERY_ENGINE
async def test_expired_tasks_make_room_for_their_caller(make_store, engine):
    server = keeper(make_store(engine, LIMITS), ttl=0.5)
    async with callers(server, one="10.0.0.1") as peers:
        await fill(peers["one"])
        await polled(
            lambda: peers["one"].response("tools/call", name="keep", arguments={"text": LARGE}),
            lambda response: "result" in response,
        )


@EVERY_ENGINE
async def test_list_reads_summaries_only_and_in_pages(make_store, engine, monkeypatch):
    monkeypatch.setattr(requests, "PAGE", 10)
    server = keeper(make_store(engine))
    async with callers(server, FIRST, one="10.0.0.1") as peers:
        peer = peers["one"]
        begun = [(await peer.start("keep", text="x" * 2**20))["taskId"] for _ in range(25)]
        for id in begun:
            await peer.outcome(id)
        tracemalloc.start()
        listed, cursor, pages = [], None, 0
        while cursor is not None or not pages:
            page = await peer.request("tasks/list", **({} if cursor is None else {"cursor": cursor}))
            listed += page["tasks"]
            cursor, pages = page.get("nextCursor"), pages + 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert ([task["taskId"] for task in listed], pages) == (begun, 3)
        assert {task["status"] for task in listed} == {"completed"}
        assert peak < 2**20, f"25 tasks of 1 MiB took {peak} bytes to list"
        assert await peer.error("tasks/list", cursor="unknown") == {
            "code": -32602,
            "message": "There is no such task, or it has expired",
        }


async def test_listed_message_is_cut():
    server = Server("tasks", store=Memory(), secret=SECRET)

    @server.tool(task=True)
    async def talk(ctx: Context) -> str:
        await ctx.report_progress(1, message="m" * 5000)
        await asyncio.Event().wait()
        return ""

    async with task_peer(server, FIRST) as peer:
        task = await peer.start("talk")
        await polled(lambda: peer.get(task["taskId"]), lambda found: found.get("statusMessage") == "m" * 5000)
        (listed,) = (await peer.request("tasks/list"))["tasks"]
        assert listed["statusMessage"] == "m" * 1000
        await peer.request("tasks/cancel", taskId=task["taskId"])


def files_of(folder: Path) -> bytes:
    """Read the files of a store in another process: closing them in this one would end the locks of the store."""
    files = [path for path in folder.iterdir() if path.is_file()]
    return subprocess.run(["cat", *files], capture_output=True, check=True).stdout


@pytest.mark.parametrize("engine", ["local", "redis"])
async def test_store_does_not_contain_the_ids_of_tasks(make_store, engine, tmp_path, redis_server):
    server = keeper(make_store(engine))
    async with callers(server, one="10.0.0.1") as peers:
        task = await peers["one"].start("keep", text="a")
        await peers["one"].outcome(task["taskId"])
        parts = list(redis_store.contents(redis_server.port)) if engine == "redis" else [files_of(tmp_path)]
        assert any(parts)
        assert not any(task["taskId"].encode() in part for part in parts)


def test_clients_of_a_wsgi_application_are_told_apart_by_their_address():
    server = keeper(Memory(limits=LIMITS))
    app = server.wsgi(allowed_hosts="*")

    def call(address: str) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": SECOND,
            "io.modelcontextprotocol/clientCapabilities": DECLARED,
        }
        params = {"name": "keep", "arguments": {"text": LARGE}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/mcp",
            "SERVER_NAME": "localhost",
            "REMOTE_ADDR": address,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "HTTP_HOST": "localhost",
            "HTTP_ACCEPT": "application/json",
            "HTTP_MCP_NAME": "keep",
            "HTTP_MCP_METHOD": "tools/call",
            "HTTP_MCP_PROTOCOL_VERSION": SECOND,
        }
        return json.loads(b"".join(app(environ, lambda status, headers: None)))

    answers = [call("10.0.0.1") for _ in range(4)]
    assert "a caller may keep 81920 bytes" in answers[-1]["error"]["message"]
    assert "result" in call("10.0.0.2")
