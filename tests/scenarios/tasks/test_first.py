"""Tasks of 2025-11-25: asked for by the client, read by `tasks/result`, listed, cancelled."""

import asyncio
import threading

import pytest
from msgspec import Raw

from dragoman import BlockingContext, Context, ListRoots, RpcError, Sample, Server, ToolError
from dragoman.server import TaskOptions
from dragoman.server.extensions.tasks import requests
from dragoman.stores import Memory
from dragoman.stores.contract import MAX_SECONDS
from dragoman.testing import WirePeer
from scenarios.http_peer import NEWEST, HttpPeer, serve
from scenarios.task_peer import CARRIERS, DECLARED, FIRST, SECOND, polled, task_peer

EVERY_CARRIER = pytest.mark.parametrize("carrier", CARRIERS)
RELATED = "io.modelcontextprotocol/related-task"
UNKNOWN = {"code": -32602, "message": "There is no such task, or it has expired"}


@pytest.fixture
def server():
    return Server("tasks", store=Memory(), secret="a secret of sixteen")


@EVERY_CARRIER
@pytest.mark.covers("TKS-01", "TKS-02", "TKS-12")
async def test_a_call_with_a_task_is_answered_with_it_and_its_result_names_it(server, carrier):
    @server.tool(task=True)
    async def add(a: int, b: int) -> int:
        return a + b

    async with task_peer(server, FIRST, carrier) as peer:
        task = await peer.start("add", ttl=5000, a=1, b=2)
        assert (task["status"], task["ttl"]) == ("working", 5000)
        assert task.keys() == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
        result = (await peer.outcome(task["taskId"]))["result"]
        assert result["structuredContent"] == {"result": 3}
        assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
        found = await peer.get(task["taskId"])
        assert found["status"] == "completed"
        assert RELATED not in str(found)
        plain = await peer.request("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert plain["structuredContent"] == {"result": 3}


@pytest.mark.covers("TKS-01", "TKS-12")
async def test_lists_and_capabilities_say_which_tools_run_as_tasks(server):
    @server.tool(task=True)
    async def maybe() -> str:
        return ""

    @server.tool(task="required")
    async def always() -> str:
        return ""

    @server.tool
    async def never() -> str:
        return ""

    async with WirePeer(server, FIRST) as peer:
        declared = peer.initialized["result"]["capabilities"]
        assert declared["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        assert "extensions" not in declared
        tools = (await peer.request("tools/list"))["result"]["tools"]
        assert {tool["name"]: tool.get("execution") for tool in tools} == {
            "maybe": {"taskSupport": "optional"},
            "always": {"taskSupport": "required"},
            "never": None,
        }
        call = {"name": "never", "arguments": {}, "task": {}}
        assert (await peer.request("tools/call", call))["error"]["code"] == -32601
        assert (await peer.request("tools/call", {"name": "always"}))["error"]["code"] == -32601
        assert (await peer.request("tools/call", {**call, "name": "none"}))["error"]["code"] == -32602
    async with WirePeer(server, SECOND) as peer:
        assert "execution" not in str((await peer.request("tools/list"))["result"]["tools"])
    async with WirePeer(server, "2025-06-18") as peer:
        assert "tasks" not in peer.initialized["result"]["capabilities"]
        assert (await peer.request("tools/call", {"name": "maybe", "task": {}}))["result"]["content"]
        refused = (await peer.request("tools/call", {"name": "always"}))["result"]
        assert refused["isError"] is True
        assert "io.modelcontextprotocol/tasks" in refused["content"][0]["text"]


@pytest.mark.covers("TKS-12")
async def test_a_task_lives_no_longer_than_its_tool_allows(server):
    @server.tool(task=TaskOptions(ttl=60))
    async def limited() -> str:
        return ""

    @server.tool(task=TaskOptions(ttl=None, poll=None))
    async def unlimited() -> str:
        return ""

    async with task_peer(server, FIRST) as peer:
        assert (await peer.start("limited", ttl=61_000))["ttl"] == 60_000
        assert (await peer.start("limited"))["ttl"] == 60_000
        kept = await peer.start("unlimited")
        assert kept["ttl"] is None
        assert "pollInterval" not in kept
        assert (await peer.start("unlimited", ttl=7))["ttl"] == 7


@pytest.mark.covers("TKS-12")
@pytest.mark.parametrize(
    "ttl", ["0", "-1", str(2**53), str(2**63), "1" + 400 * "0", "1e308", "1e999", "1.5", "true", '"1"', "[]"]
)
async def test_invalid_ttl_of_a_client_is_an_invalid_parameter(server, ttl):
    @server.tool(task=TaskOptions(ttl=None))
    async def unlimited() -> str:
        return ""

    async with WirePeer(server, FIRST, capabilities=DECLARED) as peer:
        params = {"name": "unlimited", "task": {"ttl": Raw(ttl.encode())}}
        assert (await peer.request("tools/call", params))["error"]["code"] == -32602
        assert (await peer.request("tasks/list"))["result"]["tasks"] == []
        longest = await peer.request("tools/call", {"name": "unlimited", "task": {"ttl": 2**53 - 1}})
        assert longest["result"]["task"]["ttl"] == MAX_SECONDS * 1000


@pytest.mark.covers("TKS-12")
async def test_a_failing_tool_fails_and_its_result_tells_why(server):
    @server.tool(task=True)
    async def failing() -> str:
        raise ToolError("no luck")

    @server.tool(task=True)
    async def breaking() -> str:
        raise RpcError(-32050, "broken", {"floor": 3})

    async with task_peer(server, FIRST) as peer:
        id = (await peer.start("failing"))["taskId"]
        assert (await peer.outcome(id))["result"]["isError"] is True
        assert (await peer.get(id))["status"] == "failed"
        id = (await peer.start("breaking"))["taskId"]
        assert (await peer.outcome(id))["error"] == {"code": -32050, "message": "broken", "data": {"floor": 3}}
        assert (await peer.get(id))["statusMessage"] == "broken"


@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.covers("TKS-04", "TKS-12")
async def test_questions_are_requests_that_name_the_task(server, kind):
    @server.tool(name="async", task=True)
    async def book(ctx: Context) -> str:
        city = (await ctx.elicit("Which city?", str)).content
        more = await ctx.ask(roots=ListRoots(), said=Sample("Say it", max_tokens=5))
        return f"{city} {len(more['roots'])} {more['said'].text}"

    @server.tool(name="def", task=True)
    def book_blocking(ctx: BlockingContext) -> str:
        city = ctx.elicit("Which city?", str).content
        more = ctx.ask(roots=ListRoots(), said=Sample("Say it", max_tokens=5))
        return f"{city} {len(more['roots'])} {more['said'].text}"

    async with task_peer(server, FIRST) as peer:
        id = (await peer.start(kind))["taskId"]
        await peer.until(id, "input_required")
        waiting = peer.peer.start("tasks/result", {"taskId": id})
        asked = await peer.peer.receive("elicitation/create")
        assert asked["params"]["_meta"] == {RELATED: {"taskId": id}}
        peer.peer.answer(asked["id"], {"action": "accept", "content": {"value": "Oslo"}})
        listing = await peer.peer.receive("roots/list")
        sampling = await peer.peer.receive("sampling/createMessage")
        assert {one["params"]["_meta"][RELATED]["taskId"] for one in (listing, sampling)} == {id}
        peer.peer.answer(listing["id"], {"roots": []})
        said = {"role": "assistant", "content": {"type": "text", "text": "it"}, "model": "m"}
        peer.peer.answer(sampling["id"], said)
        result = (await peer.peer.response(waiting))["result"]
        assert result["content"][0]["text"] == "Oslo 0 it"
        assert (await peer.get(id))["status"] == "completed"


@pytest.mark.by_asgi
@pytest.mark.covers("TKS-04", "TKS-12")
async def test_over_http_questions_come_on_the_stream_of_the_result(server):
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Which city?", str)).content or ""

    async with task_peer(server, FIRST, "http") as peer:
        id = (await peer.start("ask"))["taskId"]
        waiting = peer.peer.start("tasks/result", {"taskId": id})
        asked = await waiting.until(lambda one: [said for said in one.said if said.get("method")])
        assert asked[0]["params"]["_meta"] == {RELATED: {"taskId": id}}
        await peer.peer.respond(asked[0]["id"], {"action": "accept", "content": {"value": "Oslo"}})
        assert (await waiting.end()).said[-1]["result"]["content"][0]["text"] == "Oslo"


@pytest.mark.covers("TKS-12")
async def test_a_question_that_nobody_answered_is_asked_again_by_the_next_request_for_the_result(server):
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Which city?", str)).content or ""

    async with task_peer(server, FIRST) as peer:
        id = (await peer.start("ask"))["taskId"]
        first = peer.peer.start("tasks/result", {"taskId": id})
        asked = await peer.peer.receive("elicitation/create")
        peer.peer.notify("notifications/cancelled", {"requestId": first})
        withdrawn = await peer.peer.receive("notifications/cancelled")
        assert withdrawn["params"]["requestId"] == asked["id"]
        second = peer.peer.start("tasks/result", {"taskId": id})
        asked = await peer.peer.receive("elicitation/create")
        peer.peer.answer(asked["id"], {"action": "accept", "content": {"value": "Rome"}})
        assert (await peer.peer.response(second))["result"]["content"][0]["text"] == "Rome"


@pytest.mark.covers("TKS-12")
async def test_a_client_that_refuses_a_question_fails_the_task(server):
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return str(await ctx.list_roots())

    async with task_peer(server, FIRST) as peer:
        id = (await peer.start("ask"))["taskId"]
        waiting = peer.peer.start("tasks/result", {"taskId": id})
        asked = await peer.peer.receive("roots/list")
        peer.peer.answer(asked["id"], error={"code": -1, "message": "no"})
        error = (await peer.peer.response(waiting))["error"]
        assert error == {"code": -32603, "message": "The client refused a question: no (-1)"}


@EVERY_CARRIER
@pytest.mark.covers("TKS-06", "TKS-12")
async def test_a_cancelled_task_is_cancelled_before_the_reply_and_only_once(server, carrier):
    stopped = asyncio.Event()

    @server.tool(task=True)
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with task_peer(server, FIRST, carrier) as peer:
        id = (await peer.start("wait"))["taskId"]
        cancelled = await peer.request("tasks/cancel", taskId=id)
        assert (cancelled["taskId"], cancelled["status"]) == (id, "cancelled")
        await asyncio.wait_for(stopped.wait(), 1)
        assert (await peer.error("tasks/cancel", taskId=id))["code"] == -32602
        assert (await peer.outcome(id))["error"] == {"code": -32603, "message": "The task was cancelled"}
        for method in ("get", "result", "cancel"):
            assert await peer.error(f"tasks/{method}", taskId="none") == UNKNOWN


@EVERY_CARRIER
@pytest.mark.covers("TKS-12")
async def test_tasks_are_listed_page_by_page(server, carrier, monkeypatch):
    monkeypatch.setattr(requests, "PAGE", 2)

    @server.tool(task=True)
    async def quick() -> str:
        return ""

    async with task_peer(server, FIRST, carrier) as peer:
        made = [(await peer.start("quick"))["taskId"] for _ in range(5)]
        listed, cursor = [], None
        for _ in range(3):
            page = await peer.request("tasks/list", **({} if cursor is None else {"cursor": cursor}))
            listed += [task["taskId"] for task in page["tasks"]]
            cursor = page.get("nextCursor")
        assert (listed, cursor) == (made, None)
        assert (await peer.error("tasks/list", cursor="none"))["code"] == -32602


@pytest.mark.by_asgi
@pytest.mark.covers("TKS-07", "TKS-12")
async def test_a_session_lists_its_own_tasks_and_a_client_without_one_lists_none(server):
    @server.tool(task=True)
    async def quick() -> str:
        return ""

    app = serve(server)
    one, other = HttpPeer(app, NEWEST), HttpPeer(app, NEWEST)
    for peer in (one, other):
        await peer.initialize()
    call = {"name": "quick", "arguments": {}, "task": {}}
    made = (await one.request("tools/call", call)).json["result"]["task"]["taskId"]
    assert [task["taskId"] for task in (await one.request("tasks/list")).json["result"]["tasks"]] == [made]
    assert (await other.request("tasks/list")).json["result"]["tasks"] == []
    assert (await other.request("tasks/get", {"taskId": made})).json["result"]["taskId"] == made
    await app.close()
    app = serve(server, sessions=False)
    alone = HttpPeer(app, NEWEST)
    headers = {"mcp-protocol-version": NEWEST}
    assert "result" in (await alone.request("tools/call", call, headers)).json
    assert (await alone.request("tasks/list", None, headers)).json["result"]["tasks"] == []
    await app.close()


@pytest.mark.covers("TKS-12")
async def test_a_task_of_one_generation_is_known_to_the_other(server):
    @server.tool(task=True)
    async def quick() -> str:
        return "done"

    async with task_peer(server, FIRST) as old, task_peer(server, SECOND, capabilities=DECLARED) as new:
        id = (await old.start("quick"))["taskId"]
        assert (await new.until(id, "completed"))["result"]["content"][0]["text"] == "done"
        id = (await new.start("quick"))["taskId"]
        assert (await polled(lambda: old.get(id), lambda task: task["status"] != "working"))["status"] == "completed"


@pytest.mark.covers("TKS-06")
async def test_a_blocking_tool_that_does_not_listen_cannot_change_a_cancelled_task(server):
    started, released, ended = threading.Event(), threading.Event(), threading.Event()

    @server.tool(task=True)
    def deaf() -> str:
        started.set()
        released.wait(10)
        ended.set()
        return "late"

    async with task_peer(server, FIRST) as peer:
        id = (await peer.start("deaf"))["taskId"]
        assert await asyncio.to_thread(started.wait, 5)
        assert (await peer.request("tasks/cancel", taskId=id))["status"] == "cancelled"
        released.set()
        assert await asyncio.to_thread(ended.wait, 5)
        assert (await peer.get(id))["status"] == "cancelled"
