"""Tasks of 2026-07-28: made, read, answered, cancelled and subscribed to."""

import asyncio
import threading

import pytest

from dragoman import BlockingContext, Context, Elicit, RpcError, Server, ToolError
from dragoman.server import TaskOptions
from dragoman.server.extensions.tasks import run
from dragoman.stores import Memory, StoreLimits
from dragoman.testing import WirePeer
from scenarios.http_peer import STATELESS, HttpPeer, serve
from scenarios.task_peer import CARRIERS, DECLARED, FIRST, ID, SECOND, polled, task_peer

EVERY_CARRIER = pytest.mark.parametrize("carrier", CARRIERS)
UNKNOWN = {"code": -32602, "message": "There is no such task, or it has expired"}
MISSING = {"requiredCapabilities": {"extensions": {ID: {}}}}


def accepted(value):
    return {"action": "accept", "content": {"value": value}}


@pytest.fixture
def server():
    return Server("tasks", store=Memory(), secret="a secret of sixteen")


@EVERY_CARRIER
@pytest.mark.covers("TKS-01", "TKS-02")
async def test_a_call_becomes_a_task_whose_result_is_what_the_call_would_have_given(server, carrier):
    @server.tool(task=True)
    async def add(a: int, b: int) -> int:
        return a + b

    async with task_peer(server, SECOND, carrier) as peer:
        created = await peer.start("add", a=1, b=2)
        assert created["status"] == "working"
        assert created.keys() - {"_meta"} == {
            *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs")
        }
        task = await peer.until(created["taskId"], "completed")
        assert task["resultType"] == "complete"
        assert task["result"]["structuredContent"] == {"result": 3}
        assert task["lastUpdatedAt"] >= task["createdAt"] == created["createdAt"]


@EVERY_CARRIER
@pytest.mark.covers("TKS-03")
async def test_a_client_that_did_not_declare_tasks_gets_a_plain_result(server, carrier):
    @server.tool(task=True)
    async def quick() -> str:
        return "done"

    @server.tool(task="required")
    async def slow() -> str:
        raise AssertionError("never runs")

    async with task_peer(server, SECOND, carrier, {}) as peer:
        assert (await peer.request("tools/call", name="quick"))["content"][0]["text"] == "done"
        error = await peer.error("tools/call", name="slow")
        assert (error["code"], error["data"]) == (-32021, MISSING)
        for method, further in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {}})):
            error = await peer.error(f"tasks/{method}", taskId="none", **further)
            assert (error["code"], error["data"]) == (-32021, MISSING)


@pytest.mark.covers("TKS-03")
async def test_the_old_capability_does_not_declare_the_extension(server):
    @server.tool(task=True)
    async def quick() -> str:
        return "done"

    async with task_peer(server, SECOND, capabilities={"tasks": {}}) as peer:
        answered = await peer.request("tools/call", name="quick", task={"ttl": 1})
        assert answered["resultType"] == "complete"


@pytest.mark.covers("TKS-01")
async def test_the_server_declares_tasks_only_if_a_tool_runs_as_one(server):
    @server.tool(task=False)
    async def plain() -> str:
        return "plain"

    async with WirePeer(server, SECOND) as peer:
        declared = (await peer.request("server/discover"))["result"]["capabilities"]
        assert ID not in declared.get("extensions", {})
    async with WirePeer(server, FIRST) as peer:
        assert "tasks" not in peer.initialized["result"]["capabilities"]

    @server.tool(task=True)
    async def late() -> str:
        return "late"

    async with WirePeer(server, SECOND) as peer:
        declared = (await peer.request("server/discover"))["result"]["capabilities"]
        assert declared["extensions"] == {ID: {}}
        assert "tasks" not in declared
        assert (await peer.request("tasks/list"))["error"]["code"] == -32601
        assert (await peer.request("tasks/result", {"taskId": "x"}))["error"]["code"] == -32601
        server.remove_tool("late")
        declared = (await peer.request("server/discover"))["result"]["capabilities"]
        assert ID not in declared.get("extensions", {})


@EVERY_CARRIER
@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.covers("TKS-04", "TKS-05")
async def test_questions_are_input_requests_whose_answers_may_come_one_by_one(server, carrier, kind):
    ran = []

    @server.tool(name="async", task=True)
    async def book(ctx: Context) -> str:
        city = (await ctx.elicit("Which city?", str)).content
        await ctx.step("book", lambda: ran.append(city))
        answers = await ctx.ask(who=Elicit("Who?", str), when=Elicit("When?", str))
        return f"{city} {answers['who'].content} {answers['when'].content} {ctx.task.id}"

    @server.tool(name="def", task=True)
    def book_blocking(ctx: BlockingContext) -> str:
        city = ctx.elicit("Which city?", str).content
        ctx.step("book", lambda: ran.append(city))
        answers = ctx.ask(who=Elicit("Who?", str), when=Elicit("When?", str))
        return f"{city} {answers['who'].content} {answers['when'].content} {ctx.task.id}"

    async with task_peer(server, SECOND, carrier) as peer:
        id = (await peer.start(kind))["taskId"]
        task = await peer.until(id, "input_required")
        ((first, asked),) = task["inputRequests"].items()
        assert asked["method"] == "elicitation/create"
        assert (await peer.request("tasks/update", taskId=id, inputResponses={first: accepted("Oslo")})).keys() <= {
            "resultType",
            "_meta",
        }
        task = await peer.until(id, "input_required")
        assert set(task["inputRequests"]) == {"who", "when"}
        stray = {"unknown": {"ignored": True}, first: accepted("Rome"), "who": accepted("Ada")}
        await peer.request("tasks/update", taskId=id, inputResponses=stray)
        task = await peer.get(id)
        assert (task["status"], set(task["inputRequests"])) == ("input_required", {"when"})
        await peer.request("tasks/update", taskId=id, inputResponses={"when": accepted("now")})
        result = (await peer.outcome(id))["result"]
        assert result["content"][0]["text"] == f"Oslo Ada now {id}"
        assert ran == ["Oslo"]


@pytest.mark.covers("TKS-05")
async def test_the_key_of_a_question_is_never_used_again(server):
    @server.tool(task=True)
    async def changing(ctx: Context) -> str:
        kind = int if ctx.inputs.get("what") else str
        answer = await ctx.elicit("What?", kind, key="what")
        return f"{answer.content!r}"

    async with task_peer(server, SECOND) as peer:
        id = (await peer.start("changing"))["taskId"]
        task = await peer.until(id, "input_required")
        assert list(task["inputRequests"]) == ["what"]
        await peer.request("tasks/update", taskId=id, inputResponses={"what": accepted("x")})
        task = await peer.until(id, "input_required", "completed", "failed")
        assert list(task["inputRequests"]) == ["what-2"]
        await peer.request("tasks/update", taskId=id, inputResponses={"what": accepted("y"), "what-2": accepted(7)})
        assert (await peer.outcome(id))["result"]["content"][0]["text"] == "7"


@EVERY_CARRIER
@pytest.mark.covers("TKS-02")
async def test_a_failing_tool_completes_and_a_protocol_error_fails(server, carrier):
    @server.tool(task=True)
    async def failing() -> str:
        raise ToolError("no luck")

    @server.tool(task=True)
    async def breaking() -> str:
        raise RpcError(-32050, "broken", {"floor": 3})

    @server.tool(task=True)
    async def buggy() -> str:
        raise LookupError("a secret")

    async with task_peer(server, SECOND, carrier) as peer:
        result = (await peer.outcome((await peer.start("failing"))["taskId"]))["result"]
        assert (result["isError"], result["content"][0]["text"]) == (True, "no luck")
        task = await peer.until((await peer.start("breaking"))["taskId"], "failed")
        assert task["error"] == {"code": -32050, "message": "broken", "data": {"floor": 3}}
        assert task["statusMessage"] == "broken"
        assert "result" not in task
        outcome = await peer.outcome((await peer.start("buggy"))["taskId"])
        assert "secret" not in str(outcome)


@EVERY_CARRIER
@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.covers("TKS-06")
async def test_a_cancelled_task_stops_its_tool_and_stays_cancelled(server, carrier, kind):
    started, stopped = threading.Event(), threading.Event()

    @server.tool(name="async", task=True)
    async def wait() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    @server.tool(name="def", task=True)
    def wait_blocking(ctx: BlockingContext) -> str:
        ctx.on_cancel(stopped.set)
        started.set()
        stopped.wait(20)
        return "late"

    async with task_peer(server, SECOND, carrier) as peer:
        id = (await peer.start(kind))["taskId"]
        assert await asyncio.to_thread(started.wait, 5)
        for _ in range(2):  # the second acknowledgement changes nothing
            assert (await peer.request("tasks/cancel", taskId=id)).keys() <= {"resultType", "_meta"}
        assert await asyncio.to_thread(stopped.wait, 5)
        assert (await peer.get(id))["status"] == "cancelled"


@EVERY_CARRIER
@pytest.mark.covers("TKS-07")
async def test_an_unknown_an_expired_and_a_foreign_task_are_the_same_error(server, carrier):
    @server.tool(task=TaskOptions(ttl=0.001))
    async def brief() -> str:
        return ""

    async with task_peer(server, SECOND, carrier) as peer:
        created = await peer.start("brief")
        assert created["ttlMs"] == 1
        await polled(lambda: peer.response("tasks/get", taskId=created["taskId"]), lambda said: "error" in said)
        for id in (created["taskId"], "never"):
            assert await peer.error("tasks/get", taskId=id) == UNKNOWN
            assert await peer.error("tasks/cancel", taskId=id) == UNKNOWN
            assert await peer.error("tasks/update", taskId=id, inputResponses={}) == UNKNOWN


@pytest.mark.by_asgi
@pytest.mark.covers("TKS-07")
async def test_a_task_belongs_to_the_principal_that_made_it(server):
    @server.tool(task=True)
    async def who(ctx: Context) -> str:
        return f"{ctx.principal} {dict(ctx.headers)}"

    app = serve(server, auth=lambda request: request.headers.get("x-user"))
    peer = HttpPeer(app, STATELESS, capabilities=DECLARED)
    created = (await peer.call("who", headers={"x-user": "ada"}).end()).json["result"]
    foreign = await peer.request(
        "tasks/get", {"taskId": created["taskId"]}, {"x-user": "bob", "mcp-name": created["taskId"]}
    )
    assert foreign.json["error"] == UNKNOWN
    headers = {"x-user": "ada", "mcp-name": created["taskId"]}
    found = await polled(
        lambda: peer.request("tasks/get", {"taskId": created["taskId"]}, headers),
        lambda exchange: exchange.json["result"]["status"] == "completed",
    )
    assert found.json["result"]["result"]["content"][0]["text"] == "ada {}"
    await app.close()


@pytest.mark.by_asgi
@pytest.mark.parametrize(("headers", "status"), [({}, 200), ({"mcp-name": "other"}, 400)])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
async def test_task_methods_accept_a_missing_name_header_but_no_other_name(server, method, headers, status):
    server.tool(name="work", task=True)(lambda: "done")
    app = serve(server)
    peer = HttpPeer(app, STATELESS, capabilities=DECLARED)
    created = (await peer.call("work").end()).json["result"]
    assert (await peer.request(method, {"taskId": created["taskId"]}, headers)).status == status
    await app.close()


@pytest.mark.covers("TKS-08")
async def test_a_tool_may_begin_its_task_later(server):
    @server.tool(task=TaskOptions(required=True, begin="later"))
    async def order(ctx: Context, *, cheap: bool = False) -> str:
        size = (await ctx.elicit("Which size?", str)).content
        if cheap:
            return f"{size} at once"
        await ctx.task.begin()
        colour = (await ctx.elicit("Which colour?", str)).content
        return f"{size} {colour}"

    async with task_peer(server, SECOND) as peer:
        asked = await peer.request("tools/call", name="order", arguments={})
        assert asked["resultType"] == "input_required"
        again = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": accepted("large")}}
        created = await peer.request("tools/call", name="order", arguments={}, **again)
        assert created["resultType"] == "task"
        assert created.keys().isdisjoint({"requestState", "inputRequests"})
        task = await peer.until(created["taskId"], "input_required")
        assert list(task["inputRequests"]) == ["elicit-2"]
        await peer.request("tasks/update", taskId=created["taskId"], inputResponses={"elicit-2": accepted("red")})
        assert (await peer.outcome(created["taskId"]))["result"]["content"][0]["text"] == "large red"
        asked = await peer.request("tools/call", name="order", arguments={"cheap": True})
        again = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": accepted("small")}}
        plain = await peer.request("tools/call", name="order", arguments={"cheap": True}, **again)
        assert plain["content"][0]["text"] == "small at once"


@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.covers("TKS-09")
async def test_progress_becomes_the_status_message_and_its_writes_are_few(server, kind):
    told = threading.Event()

    @server.tool(name="async", task=True)
    async def report(ctx: Context) -> str:
        for number in range(1, 101):
            await ctx.report_progress(number, message=f"part {number}")
        await asyncio.to_thread(told.wait, 10)
        return "done"

    @server.tool(name="def", task=True)
    def report_blocking(ctx: BlockingContext) -> str:
        for number in range(1, 101):
            ctx.report_progress(number, message=f"part {number}")
        told.wait(10)
        return "done"

    async with task_peer(server, SECOND) as peer:
        id = (await peer.start(kind))["taskId"]
        seen = set()
        async with asyncio.timeout(60):
            while "part 100" not in seen:
                seen.add((await peer.get(id)).get("statusMessage"))
                await asyncio.sleep(0.005)
        assert len(seen) < 10
        told.set()
        assert (await peer.until(id, "completed"))["statusMessage"] == "part 100"


@EVERY_CARRIER
@pytest.mark.covers("TKS-10")
async def test_a_subscriber_hears_of_each_state_of_its_tasks_and_of_no_other(server, carrier):
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("What?", str)).content or ""

    async with task_peer(server, SECOND, carrier) as peer:
        id, other = [(await peer.start("ask"))["taskId"] for _ in range(2)]
        params = {"notifications": {"taskIds": [id, "unknown"]}}
        stream = peer.peer.start("subscriptions/listen", params)
        if carrier == "duplex":
            heard = peer.peer.received

            async def hears(status):
                while True:
                    said = await peer.peer.receive("notifications/tasks")
                    if said["params"]["status"] == status:
                        return said["params"]

            acknowledged = await peer.peer.receive("notifications/subscriptions/acknowledged")
        else:
            heard = []

            async def hears(status):
                def found(exchange):
                    return [one["params"] for one in exchange.said if one["params"].get("status") == status]

                return (await stream.until(found))[-1]

            acknowledged = (await stream.until(lambda exchange: exchange.said))[0]
        assert acknowledged["params"]["notifications"]["taskIds"] == [id]
        asked = await hears("input_required")
        assert list(asked["inputRequests"]) == ["elicit-1"]
        await peer.request("tasks/update", taskId=other, inputResponses={"elicit-1": accepted("not this")})
        await peer.request("tasks/update", taskId=id, inputResponses={"elicit-1": accepted("this")})
        done = await hears("completed")
        expected = await peer.get(id)
        assert {name: done[name] for name in expected.keys() - {"_meta", "resultType"}} == {
            name: value for name, value in expected.items() if name not in ("_meta", "resultType")
        }
        assert "io.modelcontextprotocol/subscriptionId" in done["_meta"]
        said = [*heard, *(stream.said if carrier == "http" else [])]
        assert other not in str(said)
        if carrier == "http":
            stream.leave()
            await stream.end()


@pytest.mark.covers("TKS-03")
async def test_a_client_that_did_not_declare_tasks_cannot_subscribe_to_them(server):
    @server.tool(task=True)
    async def quick() -> str:
        return ""

    async with task_peer(server, SECOND, capabilities={}) as peer:
        error = await peer.error("subscriptions/listen", notifications={"taskIds": []})
        assert (error["code"], error["data"]) == (-32021, MISSING)


@pytest.mark.covers("TKS-11")
async def test_a_result_that_is_too_large_fails_the_task(server, monkeypatch):
    monkeypatch.setattr(run, "MAX_RESULT_BYTES", 1000)

    @server.tool(task=True)
    async def large() -> str:
        return "x" * 2000

    async with task_peer(server, SECOND) as peer:
        error = (await peer.outcome((await peer.start("large"))["taskId"]))["error"]
        assert error["code"] == -32603
        assert "at most 1000" in error["message"]


@pytest.mark.covers("TKS-11")
async def test_a_client_that_has_too_many_tasks_is_refused():
    limits = StoreLimits(tasks=2, tasks_per_caller=1)
    server = Server("tasks", store=Memory(limits=limits), secret="a secret of sixteen")

    @server.tool(task=True)
    async def quick() -> str:
        return ""

    async with task_peer(server, SECOND) as peer:
        await peer.start("quick")
        error = await peer.error("tools/call", name="quick")
        assert error["code"] == -32603
        assert "wait until some expire" in error["message"]
