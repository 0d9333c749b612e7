"""What a client hears of a stateless server: one open request for all that it wants to know."""

import asyncio

import pytest
from aiohttp import web

from dragoman import AsyncClient, RpcError, Server
from dragoman.client.hear import subscriptions
from scenarios.client_peer import STATELESS, Script, Web, discovered, error, result, until

ALL = 'tools={"listChanged": True}, prompts={"listChanged": True}, resources={"listChanged": True, "subscribe": True}'
SERVER = f"""
OPEN = []
def note(method, listen, **params):
    meta = {{"io.modelcontextprotocol/subscriptionId": listen["id"]}}
    tell({{"jsonrpc": "2.0", "method": "notifications/" + method, "params": {{**params, "_meta": meta}}}})
def answer(m):
    if m["method"] == "server/discover": discovered(m, "{STATELESS}", {ALL})
    elif m["method"] == "subscriptions/listen": OPEN.append(m); listen(m)
    elif m["method"] == "tools/list": result(m, {{"resultType": "complete", "tools": TOOLS}})
    elif m["method"] == "prompts/list": result(m, {{"resultType": "complete", "prompts": []}})
    elif m["method"] == "tools/call": call(m); text(m, "ok")
TOOLS = [{{"name": "x", "inputSchema": {{"type": "object"}}}}]
def listen(m): note("subscriptions/acknowledged", m, notifications=m["params"]["notifications"])
def call(m): pass
"""


def listens(script: Script) -> list[dict]:
    return [m["params"]["notifications"] for m in script.received if m["method"] == "subscriptions/listen"]


@pytest.mark.covers("CLS-01")
async def test_a_list_with_change_notifications_is_kept_until_it_changes(tmp_path):
    code = SERVER + "def call(m): note('tools/list_changed', OPEN[-1])"
    script, changed = Script(tmp_path, code), []
    async with AsyncClient(script.command, on_list_changed=changed.append) as client:
        await client.tools()
        await until(lambda: client._session.subscriptions.stream.acknowledged.tools_list_changed)
        await client.tools()
        known = script.methods.count("tools/list")
        for _ in range(3):
            await client.tools()
        assert script.methods.count("tools/list") == known
        assert listens(script) == [{"toolsListChanged": True}]
        await client.call_tool("x")
        assert changed == ["tools"]
        await client.tools()
        assert script.methods.count("tools/list") == known + 1
        assert len(listens(script)) == 1


@pytest.mark.covers("CLS-01")
async def test_a_further_subscription_replaces_the_listen_request(tmp_path):
    script = Script(tmp_path, SERVER)
    async with AsyncClient(script.command) as client:
        await client.tools()
        await client.subscribe("file:///b")
        await client.subscribe("file:///a")
        assert client._session.subscriptions.stream.acknowledged.resource_subscriptions == ["file:///a", "file:///b"]
        await client.unsubscribe("file:///b")
        await until(lambda: len(listens(script)) == 4)
        assert listens(script) == [
            {"toolsListChanged": True},
            {"toolsListChanged": True, "resourceSubscriptions": ["file:///b"]},
            {"toolsListChanged": True, "resourceSubscriptions": ["file:///a", "file:///b"]},
            {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]},
        ]
        await until(lambda: script.methods.count("notifications/cancelled") == 3)
        opened = [m["id"] for m in script.received if m["method"] == "subscriptions/listen"]
        ended = [m["params"]["requestId"] for m in script.received if m["method"] == "notifications/cancelled"]
        assert ended == opened[:3]


@pytest.mark.covers("CLS-02", "BEY-18")
async def test_updates_reach_the_subscribers_of_a_resource_and_of_the_folder_above_it(tmp_path):
    code = (
        SERVER + "def call(m): [note('resources/updated', OPEN[-1], uri=u) for u in ('f:///a', 'f:///d/x', 'f:///c')]"
    )
    script, all_updates, first, below = Script(tmp_path, code), [], [], []
    async with AsyncClient(script.command, on_resource_updated=all_updates.append) as client:
        await client.subscribe("f:///a", first.append)
        await client.subscribe("f:///d/", below.append)
        await client.call_tool("x")
        assert (first, below) == (["f:///a"], ["f:///d/x"])
        assert all_updates == ["f:///a", "f:///d/x", "f:///c"]


@pytest.mark.covers("CLS-03", "BEY-19")
async def test_a_request_that_ends_is_made_again_and_what_was_known_is_asked_for_anew(tmp_path):
    code = SERVER + "def call(m): result(OPEN[-1], {'resultType': 'complete'})"
    script = Script(tmp_path, code)
    async with AsyncClient(script.command) as client:
        await client.tools()
        await until(lambda: client._session.subscriptions.stream.acknowledged.tools_list_changed)
        await client.call_tool("x")
        await until(
            lambda: len(listens(script)) == 2 and client._session.subscriptions.stream.acknowledged.tools_list_changed
        )
        await client.tools()
        assert script.methods.count("tools/list") == 2
        assert len(script.pids) == 1


@pytest.mark.covers("CLS-03")
async def test_a_request_that_never_lasts_is_made_less_and_less_often(tmp_path, monkeypatch):
    paused = []

    def backoff(attempt, first, most):
        paused.append(attempt)
        return 0 if len(paused) < 8 else 3600

    monkeypatch.setattr(subscriptions, "backoff", backoff)
    script = Script(tmp_path, SERVER + "def listen(m): result(m, {'resultType': 'complete'})")
    async with AsyncClient(script.command) as client:
        await client.tools()
        await until(lambda: len(paused) == 8)
        assert paused == list(range(1, 9))


@pytest.mark.covers("CLS-04")
async def test_a_server_that_refuses_is_not_asked_again_for_the_same(tmp_path):
    script = Script(tmp_path, SERVER + "def listen(m): error(m, -32601)")
    async with AsyncClient(script.command) as client:
        for _ in range(3):
            await client.tools()
        assert script.methods.count("tools/list") == 3
        assert len(listens(script)) == 1
        with pytest.raises(RpcError):
            await client.subscribe("file:///a")
        assert client._session.subscriptions.resources == set()
        assert len(listens(script)) == 2


@pytest.mark.covers("CLS-05")
async def test_no_subscription_is_opened_to_a_server_without_notifications(tmp_path):
    code = f"""
def answer(m):
    if m["method"] == "server/discover": discovered(m, "{STATELESS}", tools={{}})
    else: result(m, {{"resultType": "complete", "tools": []}})
"""
    script = Script(tmp_path, code)
    async with AsyncClient(script.command) as client:
        await client.tools()
    assert script.methods == ["server/discover", "tools/list"]


@pytest.mark.covers("CLS-05")
async def test_our_own_server_is_listened_to_and_stopping_leaves_nothing():
    server = Server("x", capabilities={"resources": {"subscribe": True, "listChanged": True}})
    updates = []

    @server.resource("memo://a")
    def memo() -> str:
        return "a"

    client = AsyncClient(server, on_resource_updated=updates.append)
    for _ in range(2):
        await client.start()
        await client.resources()
        await client.subscribe("memo://a")
        server.notify_resource_updated("memo://a")
        await until(lambda: updates)
        await client.stop()
        assert updates == ["memo://a"]
        updates.clear()


@pytest.mark.covers("CLS-03")
async def test_a_stream_over_http_that_breaks_is_opened_again_and_one_that_is_refused_is_not():
    opened, refuse = [], []

    async def answer(m, request):
        if m["method"] == "server/discover":
            return discovered(m, STATELESS, tools={"listChanged": True})
        if m["method"] == "tools/list":
            return result(m, {"resultType": "complete", "tools": []})
        opened.append(m)
        if refuse:
            return web.json_response(error(m, -32601), status=404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if len(opened) < 3:
            request.transport.abort()
        else:
            await asyncio.Event().wait()
        return response

    async with Web(answer).running() as server:
        async with AsyncClient(server.url) as client:
            await client.tools()
            await until(lambda: len(opened) == 3)
        refuse.append(True)
        async with AsyncClient(server.url) as client:
            await client.tools()
            await until(lambda: len(opened) == 4)
            await client.tools()
        assert len(opened) == 4
