"""A proxy in front of a server of its own process: the target gets the identity of each caller, and enforces scopes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from dragoman import AsyncClient, Configuration, Context, Server
from dragoman.auth import Bearer, Identity
from dragoman.errors import InsufficientScope
from dragoman.stores import Memory
from scenarios.http.test_uvicorn import running
from scenarios.http_peer import DEADLINE, NEWEST, SECRET, STATELESS

USERS = {
    "admin": Identity("ann", frozenset({"admin"}), {"tenant": "acme"}),
    "plain": Identity("ann", frozenset(), {"tenant": "acme"}),
    "other": Identity("bob", frozenset({"admin"}), {"tenant": "apex"}),
    "odd": Identity("eve", frozenset({"admin"}), {"tenant": {1, 2}, "object": object()}),
}
WAYS = {"proxied": "", "proxied twice": "", "proxied and mounted": "m_", "mounted and proxied": "m_"}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)
EVERY_VERSION = pytest.mark.parametrize("version", [NEWEST, STATELESS])
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def office() -> Server:
    server = Server("office", secret=SECRET, store=Memory())

    @server.tool
    async def whoami(ctx: Context) -> str:
        scopes = "everything" if ctx.scopes is None else " ".join(sorted(ctx.scopes))
        return f"{ctx.principal}: {scopes}: {ctx.claims.get('tenant')}"

    @server.tool
    async def count(ctx: Context) -> int:
        return await ctx.user_state.update("count", lambda total: (total or 0) + 1)

    @server.tool(scopes=["admin"])
    async def wipe() -> str:
        return "wiped"

    @server.tool
    async def delete(path: str, ctx: Context) -> str:
        if path.startswith("/shared") and "admin" not in (ctx.scopes or ()):
            raise InsufficientScope(["admin"])
        return "deleted"

    return server


def proxy_of(server: Server) -> Server:
    return Server.proxy(server, store=Memory(), secret=SECRET)


def mounting(server: Server) -> Server:
    outer = Server("outer", secret=SECRET, store=Memory())
    outer.mount(server, prefix="m")
    return outer


def reached(way: str) -> Server:
    match way:
        case "proxied":
            return proxy_of(office())
        case "proxied twice":
            return proxy_of(proxy_of(office()))
        case "proxied and mounted":
            return mounting(proxy_of(office()))
        case _:
            return proxy_of(mounting(office()))


class Caller:
    """Sends requests over sockets, each with a token of its own."""

    def __init__(self, http: aiohttp.ClientSession, url: str, version: str) -> None:
        self.http = http
        self.url = url
        self.version = version
        self.sessions: dict[str, str] = {}

    async def _post(self, token: str, method: str, params: dict[str, Any]) -> tuple[int, Any, Any]:
        headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
        if self.version == STATELESS:
            params = {**params, "_meta": META}
            headers |= {"mcp-protocol-version": STATELESS, "mcp-method": method, "mcp-name": params.get("name", "")}
        elif method != "initialize":
            headers |= {"mcp-session-id": self.sessions[USERS[token].principal], "mcp-protocol-version": NEWEST}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with asyncio.timeout(DEADLINE), self.http.post(self.url, json=body, headers=headers) as response:
            text = await response.text()
            if response.content_type == "text/event-stream":
                text = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")][-1]
            return response.status, json.loads(text), response.headers

    async def send(self, token: str, method: str, **params: Any) -> tuple[int, Any, str]:
        """Return the status, the message and the challenge of a response; tokens of a principal share a session."""
        principal = USERS[token].principal
        if self.version != STATELESS and principal not in self.sessions:
            hello = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            _, _, headers = await self._post(token, "initialize", hello)
            self.sessions[principal] = headers["mcp-session-id"]
        status, answer, headers = await self._post(token, method, params)
        return status, answer, headers.get("www-authenticate", "")

    async def call(self, token: str, tool: str, **arguments: Any) -> str:
        _, answer, _ = await self.send(token, "tools/call", name=tool, arguments=arguments)
        return answer["result"]["content"][0]["text"]


@asynccontextmanager
async def calling(server: Server, version: str) -> AsyncIterator[Caller]:
    auth = Bearer(
        USERS.get, resource="https://api.example.com/mcp", authorization_servers=["https://login.example.com"]
    )
    app = server.asgi(auth=auth)
    async with running(app) as port, aiohttp.ClientSession() as http:
        yield Caller(http, f"http://127.0.0.1:{port}/mcp", version)


@EVERY_WAY
@EVERY_VERSION
async def test_target_enforces_the_scopes_of_its_tools(way, version):
    async with calling(reached(way), version) as caller:
        for _ in range(2):  # the connection of a caller with more scopes is not used for one with fewer
            assert await caller.call("admin", f"{WAYS[way]}wipe") == "wiped"
            status, answer, challenge = await caller.send("plain", "tools/call", name=f"{WAYS[way]}wipe", arguments={})
            assert (status, answer["error"]["code"]) == (403, -32600)
            assert 'error="insufficient_scope"' in challenge
            assert 'scope="admin"' in challenge


@EVERY_WAY
@EVERY_VERSION
async def test_a_handler_of_the_target_may_ask_for_more_scopes(way, version):
    async with calling(reached(way), version) as caller:
        name = f"{WAYS[way]}delete"
        status, _, challenge = await caller.send("plain", "tools/call", name=name, arguments={"path": "/shared/a"})
        assert (status, 'scope="admin"' in challenge) == (403, True)
        assert await caller.call("plain", name, path="/own/a") == "deleted"


@EVERY_WAY
@EVERY_VERSION
async def test_tools_are_listed_to_callers_that_have_their_scopes(way, version):
    async with calling(reached(way), version) as caller:
        for token, is_listed in (("admin", True), ("plain", False), ("other", True), ("plain", False)):
            _, answer, _ = await caller.send(token, "tools/list")
            assert (f"{WAYS[way]}wipe" in {tool["name"] for tool in answer["result"]["tools"]}) is is_listed


@EVERY_WAY
@EVERY_VERSION
async def test_target_knows_principal_scopes_and_claims_of_each_caller(way, version):
    async with calling(reached(way), version) as caller:
        name = f"{WAYS[way]}whoami"
        for _ in range(2):
            assert await caller.call("admin", name) == "ann: admin: acme"
            assert await caller.call("plain", name) == "ann: : acme"
            assert await caller.call("other", name) == "bob: admin: apex"
            assert await caller.call("odd", name) == "eve: admin: {1, 2}"


@EVERY_WAY
@EVERY_VERSION
async def test_state_of_users_in_the_target_is_kept_apart(way, version):
    async with calling(reached(way), version) as caller:
        name = f"{WAYS[way]}count"
        assert [await caller.call(token, name) for token in ("admin", "plain", "other")] == ["1", "2", "1"]


@EVERY_WAY
@EVERY_VERSION
async def test_every_tool_is_open_in_memory(way, version):
    mode = "stateless" if version == STATELESS else "handshake"
    async with AsyncClient(reached(way), mode=mode) as client:
        assert (await client.call_tool(f"{WAYS[way]}wipe")).text == "wiped"
        assert (await client.call_tool(f"{WAYS[way]}whoami")).text == "None: everything: None"


async def test_a_call_that_waits_in_the_proxy_is_not_continued_with_fewer_scopes():
    target = Server("target", configuration=Configuration(protocol_version=NEWEST))

    @target.tool(scopes=["admin"])
    async def wipe(ctx: Context) -> str:
        return f"wiped {(await ctx.elicit('Which disk?', str)).content}"

    async with calling(proxy_of(target), STATELESS) as caller:
        call: dict[str, Any] = {"name": "wipe", "arguments": {}}
        _, answer, _ = await caller.send("admin", "tools/call", **call)
        (key,) = answer["result"]["inputRequests"]
        call["inputResponses"] = {key: {"action": "accept", "content": {"value": "seven"}}}
        call["requestState"] = answer["result"]["requestState"]
        _, answer, _ = await caller.send("plain", "tools/call", **call)
        assert "result" not in answer
        _, answer, _ = await caller.send("admin", "tools/call", **call)
        assert answer["result"]["content"][0]["text"] == "wiped seven"
