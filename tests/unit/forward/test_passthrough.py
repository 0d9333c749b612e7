"""Raw messages pass to any target; over HTTP with the right headers, and a session that is lost is renewed."""

import asyncio
import contextlib
import json

import pytest

from dragoman import AsyncClient, Configuration, Context, Server
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
from dragoman.forward.passthrough import Passthrough
from scenarios.raw_http import serving
from scenarios.shop_server import shop

DEADLINE = 60
OLDER, STATELESS = "2025-06-18", "2026-07-28"


class Peer:
    """Sends raw messages through a passthrough, and keeps what comes back."""

    def __init__(self, target):
        self.transport = Passthrough(endpoint_of(target, EndpointOptions(Credentials())))
        self.received = asyncio.Queue()
        self.ended = asyncio.Event()

    async def __aenter__(self):
        await self.transport.open(lambda data: self.received.put_nowait(json.loads(data)), lambda _: self.ended.set())
        return self

    async def __aexit__(self, *_):
        await self.transport.close()

    async def send(self, **message):
        await self.transport.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def next(self):
        async with asyncio.timeout(DEADLINE):
            return await self.received.get()

    async def begin(self, capabilities=None):
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": OLDER, "capabilities": capabilities or {}, "clientInfo": info, "x-mine": 1}
        await self.send(id="first", method="initialize", params=params)
        answer = await self.next()
        if "result" in answer:
            await self.send(method="notifications/initialized")
        return answer


@contextlib.asynccontextmanager
async def target(kind, server):
    if kind == "memory":
        yield server
    else:
        async with serving(server.asgi()) as url:
            yield url


@pytest.mark.parametrize("kind", ["memory", "http"])
async def test_a_handshake_a_call_with_progress_and_a_question_pass(kind):
    async with target(kind, shop()) as where, Peer(where) as peer:
        answer = await peer.begin({"elicitation": {}})
        assert (answer["id"], answer["result"]["protocolVersion"]) == ("first", OLDER)
        call = {"name": "greet", "arguments": {"name": "Ada"}, "_meta": {"progressToken": "t"}}
        await peer.send(id=7, method="tools/call", params=call)
        assert (await peer.next())["params"]["progressToken"] == "t"
        assert (await peer.next())["result"]["content"][0]["text"] == "Hello Ada"
        await peer.send(id=8, method="tools/call", params={"name": "ask", "arguments": {}})
        question = await peer.next()
        assert question["method"] == "elicitation/create"
        await peer.send(id=question["id"], result={"action": "accept", "content": {"value": "Ada"}})
        answer = await peer.next()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (8, "Ada")


def stateless(**params):
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    }
    return {**params, "_meta": meta}


@pytest.mark.parametrize("kind", ["memory", "http"])
async def test_stateless_requests_pass_with_their_headers_also_those_that_tools_mirror(kind):
    server = Server("shop")
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    @server.tool(input_schema=schema)
    async def route(region: str) -> str:
        return region

    async with target(kind, server) as where, Peer(where) as peer:
        await peer.send(id=1, method="tools/list", params=stateless())
        assert (await peer.next())["result"]["tools"][0]["name"] == "route"
        call = stateless(name="route", arguments={"region": "north"})
        await peer.send(id=2, method="tools/call", params=call)
        answer = await peer.next()
        assert answer["result"]["content"][0]["text"] == "north"


async def test_a_cancelled_stateless_request_is_cancelled_by_closing_its_response():
    server, cancelled = Server("slow"), asyncio.Event()

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving(server.asgi()) as url, Peer(url) as peer:
        params = stateless(name="wait", arguments={})
        params["_meta"]["progressToken"] = 1
        await peer.send(id=1, method="tools/call", params=params)
        assert (await peer.next())["method"] == "notifications/progress"
        await peer.send(method="notifications/cancelled", params={"requestId": 1})
        async with asyncio.timeout(DEADLINE):
            await cancelled.wait()
        assert peer.received.empty()


async def test_a_session_that_the_server_has_lost_is_renewed_unseen():
    async with serving(shop().asgi()) as url, Peer(url) as peer:
        await peer.begin()
        peer.transport._link.session_id = "forgotten"
        for id in (1, 2):
            await peer.send(id=id, method="tools/call", params={"name": "greet", "arguments": {"name": "Ada"}})
            assert (await peer.next())["result"]["content"][0]["text"] == "Hello Ada"
        assert peer.received.empty()


async def test_a_process_that_ends_answers_what_waits_and_reports_the_end(tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("import sys\nsys.stdin.readline()\nsys.exit(3)\n")
    async with Peer(str(script)) as peer:
        await peer.send(id=5, method="ping")
        answer = await peer.next()
        assert (answer["id"], "error" in answer) == (5, True)
        async with asyncio.timeout(DEADLINE):
            await peer.ended.wait()
        await peer.send(id=6, method="ping")
        assert (await peer.next())["id"] == 6


async def test_a_client_can_use_a_passthrough_as_its_transport():
    async with serving(shop().asgi()) as url:
        passthrough = Passthrough(endpoint_of(url, EndpointOptions(Credentials())))
        async with AsyncClient(passthrough) as client:
            assert (await client.call_tool("greet", {"name": "Ada"})).text == "Hello Ada"


async def test_a_client_that_probed_the_stateless_era_in_vain_begins_a_session():
    seen = []

    async def app(scope, receive, send):
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"mcp-protocol-version"))
        await inner(scope, receive, send)

    inner = Server("older", configuration=Configuration(protocol_version=OLDER)).asgi()
    async with serving(app) as url, Peer(url) as peer:
        meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": STATELESS}}
        await peer.send(id=0, method="server/discover", params=meta)
        assert "error" in await peer.next()
        assert (await peer.begin())["result"]["protocolVersion"] == OLDER
    assert seen[:2] == [STATELESS.encode(), None]


async def test_the_end_waits_for_answers_and_not_for_subscriptions():
    server, release = Server("shop"), asyncio.Event()

    @server.tool
    async def wait() -> str:
        await release.wait()
        return "done"

    client = {"io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"}}
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": STATELESS, **client}}
    meta["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {}
    async with serving(server.asgi()) as url, Peer(url) as peer:
        await peer.send(
            id=1, method="subscriptions/listen", params={"notifications": {"toolsListChanged": True}, **meta}
        )
        assert (await peer.next())["method"] == "notifications/subscriptions/acknowledged"
        await peer.send(id=2, method="tools/call", params={"name": "wait", **meta})
        ending = asyncio.create_task(peer.transport.answered())
        done, _ = await asyncio.wait([ending], timeout=0.1)
        assert not done
        release.set()
        assert (await peer.next())["id"] == 2
        async with asyncio.timeout(DEADLINE):
            await ending
