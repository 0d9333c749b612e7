"""Requests about tasks over HTTP, by several tokens of one principal: the scopes and visibility of the tool apply."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from dragoman import Context, Server
from dragoman.auth import Bearer, Identity
from dragoman.stores import Memory
from scenarios.http.test_uvicorn import running
from scenarios.http_peer import DEADLINE, SECRET
from scenarios.task_peer import DECLARED, FIRST, GENERATIONS, SECOND

USERS = {
    "admin": Identity("ann", frozenset({"admin"}), {"staff": True}),
    "plain": Identity("ann", frozenset(), {"staff": True}),
    "guest": Identity("ann", frozenset({"admin"}), {"staff": False}),
}
METHODS = {FIRST: ["tasks/get", "tasks/result", "tasks/cancel"], SECOND: ["tasks/get", "tasks/update", "tasks/cancel"]}
UNKNOWN = "There is no such task, or it has expired"
PREFIXES = {
    "plain": "",
    "mounted": "m_",
    "mounted twice": "m_m_",
    "mounted beside tasks": "m_",
    "proxied": "",
    "proxied twice": "",
}
NESTINGS = list(PREFIXES)
ANSWERS = {"any": {"action": "accept", "content": {"value": "all of them"}}}
META = {
    "io.modelcontextprotocol/protocolVersion": SECOND,
    "io.modelcontextprotocol/clientCapabilities": DECLARED,
}


def is_staff(ctx: Context) -> bool:
    return ctx.claims.get("staff", False)


def office() -> Server:
    """Return a server with a tool for administrators, one for staff, and one for everybody; the first two ask."""
    server = Server("office", secret=SECRET, store=Memory())

    @server.tool(task=True, scopes=["admin"])
    async def wipe(ctx: Context) -> str:
        await ctx.report_progress(1, message="disk seven")
        return f"wiped {(await ctx.elicit('Which disk?', str)).content}"

    @server.tool(task=True, visible=is_staff)
    async def audit(ctx: Context) -> str:
        await ctx.report_progress(1, message="ledger nine")
        return f"audited {(await ctx.elicit('Which ledger?', str)).content}"

    @server.tool(task=True)
    async def greet() -> str:
        return "hello"

    return server


def nested(nesting: str) -> Server:
    """Return a server that has the tools of the office: by itself, mounted, or behind a proxy of this process."""
    server = office()
    match nesting:
        case "proxied":
            return Server.proxy(server, store=Memory(), secret=SECRET)
        case "proxied twice":
            return Server.proxy(Server.proxy(server, store=Memory(), secret=SECRET), store=Memory(), secret=SECRET)
    for _ in PREFIXES[nesting].split("_")[1:]:
        outer = Server("outer", secret=SECRET, store=Memory())
        if nesting == "mounted beside tasks":

            @outer.tool(task=True)
            async def own() -> str:
                return "own"

        outer.mount(server, prefix="m")
        server = outer
    return server


class Caller:
    """Sends requests over sockets; each request has a token of its own."""

    def __init__(self, http: aiohttp.ClientSession, url: str, version: str) -> None:
        self.http = http
        self.url = url
        self.version = version
        self.session: str | None = None
        self.last_id = 0

    def open(self, token: str, method: str, params: Any, *, is_notification: bool = False) -> Any:
        self.last_id += 1
        headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
        if self.version == SECOND:
            params = {**params, "_meta": META}
            headers |= {"mcp-protocol-version": SECOND, "mcp-method": method}
            headers["mcp-name"] = params.get("name") or params.get("taskId") or ""
        elif self.session is not None:
            headers |= {"mcp-session-id": self.session, "mcp-protocol-version": FIRST}
        body = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        if is_notification:
            del body["id"]
        return self.http.post(self.url, json=body, headers=headers)

    async def initialize(self, token: str) -> None:
        hello = {"protocolVersion": FIRST, "capabilities": DECLARED, "clientInfo": {"name": "c", "version": "1"}}
        async with self.open(token, "initialize", hello) as response:
            self.session = response.headers["mcp-session-id"]
        async with self.open(token, "notifications/initialized", {}, is_notification=True) as response:
            assert response.status == 202

    async def send(self, token: str, method: str, **params: Any) -> tuple[int, Any, str]:
        """Return the status, the last message and the challenge of a response."""
        async with asyncio.timeout(DEADLINE), self.open(token, method, params) as response:
            text = await response.text()
            if response.content_type == "text/event-stream":
                text = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")][-1]
            return response.status, json.loads(text), response.headers.get("www-authenticate", "")

    async def start(self, token: str, tool: str) -> str:
        task = {"task": {}} if self.version == FIRST else {}
        params = {"name": tool, "arguments": {}, **task}
        _, answer, _ = await self.send(token, "tools/call", **params)
        return (answer["result"]["task"] if self.version == FIRST else answer["result"])["taskId"]

    async def until(self, token: str, id: str, status: str) -> Any:
        async with asyncio.timeout(DEADLINE):
            while True:
                _, answer, _ = await self.send(token, "tasks/get", taskId=id)
                if answer["result"]["status"] == status:
                    return answer["result"]

    async def about(self, token: str, method: str, id: str) -> tuple[int, Any, str]:
        answers = {"inputResponses": ANSWERS} if method == "tasks/update" else {}
        return await self.send(token, method, taskId=id, **answers)


@asynccontextmanager
async def calling(server: Server, version: str, **options: Any) -> AsyncIterator[Caller]:
    auth = Bearer(
        USERS.get, resource="https://api.example.com/mcp", authorization_servers=["https://login.example.com"]
    )
    app = server.asgi(auth=auth, allowed_hosts=["127.0.0.1"], **options)
    async with running(app) as port, aiohttp.ClientSession() as http:
        caller = Caller(http, f"http://127.0.0.1:{port}/mcp", version)
        if version == FIRST:
            await caller.initialize("admin")
        yield caller


def named(nesting: str, tool: str) -> str:
    return PREFIXES[nesting] + tool


@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("version", GENERATIONS)
async def test_a_token_without_the_scopes_of_the_tool_cannot_use_its_tasks(version, nesting):
    async with calling(nested(nesting), version) as caller:
        id = await caller.start("admin", named(nesting, "wipe"))
        await caller.until("admin", id, "input_required")
        for method in METHODS[version]:
            status, answer, challenge = await caller.about("plain", method, id)
            assert (status, answer["error"]["code"]) == (403, -32600), method
            assert 'error="insufficient_scope"' in challenge
            assert 'scope="admin"' in challenge
            assert "result" not in answer
        task = await caller.until("admin", id, "input_required")  # neither answered nor cancelled
        assert task["taskId"] == id


@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("version", GENERATIONS)
async def test_a_task_of_a_hidden_tool_is_unknown(version, nesting):
    async with calling(nested(nesting), version) as caller:
        id = await caller.start("plain", named(nesting, "audit"))
        await caller.until("plain", id, "input_required")
        for method in METHODS[version]:
            status, answer, challenge = await caller.about("guest", method, id)
            assert (status, answer["error"], challenge) == (200, {"code": -32602, "message": UNKNOWN}, ""), method
        await caller.until("plain", id, "input_required")


@pytest.mark.parametrize("nesting", NESTINGS)
async def test_the_list_has_only_tasks_of_tools_that_the_caller_may_call(nesting):
    async with calling(nested(nesting), FIRST) as caller:
        wipe, audit, greet = [await caller.start("admin", named(nesting, tool)) for tool in ("wipe", "audit", "greet")]
        for token, expected in (("admin", {wipe, audit, greet}), ("plain", {audit, greet}), ("guest", {wipe, greet})):
            _, answer, _ = await caller.send(token, "tasks/list")
            assert {task["taskId"] for task in answer["result"]["tasks"]} == expected, token


async def test_pages_of_the_list_go_on_after_a_task_that_is_left_out(monkeypatch):
    monkeypatch.setattr("dragoman.server.extensions.tasks.requests.PAGE", 1)
    async with calling(office(), FIRST) as caller:
        ids = [await caller.start("admin", tool) for tool in ("greet", "wipe", "greet")]
        listed, cursor = [], {}
        while cursor is not None:
            _, answer, _ = await caller.send("plain", "tasks/list", **cursor)
            listed += [task["taskId"] for task in answer["result"]["tasks"]]
            cursor = {"cursor": answer["result"]["nextCursor"]} if "nextCursor" in answer["result"] else None
        assert sorted(listed) == sorted([ids[0], ids[2]])


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[Any]:
    async for line in response.content:
        if line.startswith(b"data:") and line.removeprefix(b"data:").strip():
            yield json.loads(line.removeprefix(b"data:"))


@pytest.mark.parametrize("token", ["plain", "guest"])
@pytest.mark.parametrize("nesting", NESTINGS)
async def test_a_subscription_leaves_out_tasks_of_tools_that_the_caller_may_not_call(nesting, token):
    async with calling(nested(nesting), SECOND) as caller:
        wipe, audit = [await caller.start("admin", named(nesting, tool)) for tool in ("wipe", "audit")]
        hidden, shown = (wipe, audit) if token == "plain" else (audit, wipe)
        wanted = {"notifications": {"taskIds": [wipe, audit]}}
        async with asyncio.timeout(DEADLINE), caller.open(token, "subscriptions/listen", wanted) as response:
            received = events(response)
            assert (await anext(received))["params"]["notifications"] == {"taskIds": [shown]}
            for id in (hidden, shown):
                await caller.about("admin", "tasks/cancel", id)
            async for message in received:
                assert message["params"]["taskId"] == shown
                if message["params"]["status"] == "cancelled":
                    break


async def test_the_standalone_stream_carries_nothing_about_tasks_that_take_scopes_or_visibility():
    async with calling(office(), FIRST) as caller:
        headers = {
            "authorization": "Bearer plain",
            "accept": "text/event-stream",
            "mcp-session-id": caller.session,
            "mcp-protocol-version": FIRST,
        }
        async with asyncio.timeout(DEADLINE), caller.http.get(caller.url, headers=headers) as stream:
            assert stream.status == 200
            guarded = [await caller.start("admin", tool) for tool in ("wipe", "audit")]
            for id in guarded:
                await caller.until("admin", id, "input_required")
            greet = await caller.start("admin", "greet")
            async for message in events(stream):
                assert message["params"]["taskId"] == greet
                if message["params"]["status"] == "completed":
                    break


async def test_a_task_keeps_the_scopes_of_a_tool_that_was_removed_or_needs_fewer_scopes_now():
    server = office()

    @server.tool(task=True)
    async def other() -> str:
        return "the server has tasks as long as a tool has them"

    async with calling(server, SECOND) as caller:
        id, audit, greet = [await caller.start("admin", tool) for tool in ("wipe", "audit", "greet")]
        await caller.until("admin", greet, "completed")
        for tool in ("wipe", "audit", "greet"):
            server.remove_tool(tool)
        assert (await caller.about("plain", "tasks/get", id))[0] == 403
        assert (await caller.about("admin", "tasks/get", id))[1]["result"]["taskId"] == id
        assert (await caller.about("admin", "tasks/get", audit))[1]["error"]["message"] == UNKNOWN
        assert (await caller.about("plain", "tasks/get", greet))[1]["result"]["status"] == "completed"

        @server.tool(task=True)
        async def wipe() -> str:
            return "no scopes"

        assert (await caller.about("plain", "tasks/get", id))[0] == 403


async def test_an_application_does_not_serve_the_tasks_of_tools_that_its_tags_leave_out():
    server = Server("office", secret=SECRET, store=Memory())

    @server.tool(task=True, tags={"internal"})
    async def internal() -> str:
        return "internal"

    @server.tool(task=True, tags={"public"})
    async def public() -> str:
        return "public"

    async with calling(server, SECOND) as inside, calling(server, SECOND, include_tags={"public"}) as outside:
        id, shared = await inside.start("plain", "internal"), await inside.start("plain", "public")
        await inside.until("plain", id, "completed")
        for method in METHODS[SECOND]:
            assert (await outside.about("plain", method, id))[1]["error"]["message"] == UNKNOWN
        await outside.until("plain", shared, "completed")


async def test_other_tokens_of_a_session_cannot_guess_its_questions_and_streams():
    async with calling(office(), FIRST) as caller:
        id = await caller.start("admin", "wipe")
        await caller.until("admin", id, "input_required")
        headers = {"mcp-session-id": caller.session, "mcp-protocol-version": FIRST, "authorization": "Bearer plain"}
        async with asyncio.timeout(DEADLINE), caller.open("admin", "tasks/result", {"taskId": id}) as result:
            request = caller.last_id
            async for question in events(result):
                if question.get("method") == "elicitation/create":
                    break
            worker = question["id"].partition("-")[0]  # a caller knows it from its own streams
            for number in range(1, 30):
                body = {"jsonrpc": "2.0", "id": f"{worker}-{number}", "result": ANSWERS["any"]}
                async with caller.http.post(caller.url, json=body, headers=headers) as response:
                    assert response.status == 202
            name = base64.urlsafe_b64encode(str(request).encode()).rstrip(b"=").decode()
            for number in range(1, 30):
                resuming = {"accept": "text/event-stream", "last-event-id": f"{worker}-{number}.{name}-0"}
                async with caller.http.get(caller.url, headers=headers | resuming) as response:
                    assert "not kept any more" in await response.text()
            await caller.until("admin", id, "input_required")
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": ANSWERS["any"]}
            mine = headers | {"authorization": "Bearer admin"}
            async with caller.http.post(caller.url, json=answer, headers=mine) as response:
                assert response.status == 202
            async for message in events(result):
                if "result" in message:
                    assert message["result"]["content"][0]["text"] == "wiped all of them"
