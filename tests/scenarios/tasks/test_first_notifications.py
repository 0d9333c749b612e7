"""What a client of 2025-11-25 is notified of without being asked: the status and the progress of its tasks."""

import pytest

from dragoman import Context, Server
from dragoman.server import TaskOptions
from dragoman.server.extensions.tasks.extension import RUN_TASKS, TasksExtension
from dragoman.stores import Memory
from dragoman.testing import WirePeer
from scenarios.http_peer import NEWEST, HttpPeer, serve
from scenarios.task_peer import DECLARED, FIRST, SECOND, polled, task_peer

RELATED = "io.modelcontextprotocol/related-task"
STATUS, PROGRESS = "notifications/tasks/status", "notifications/progress"
ANSWER = {"action": "accept", "content": {"value": "Oslo"}}


def process(store):
    """Return a server that shares nothing but a store, with a tool that reports, asks, and reports again."""
    server = Server("shared", store=store, secret="a secret of sixteen")

    @server.tool(task=TaskOptions(retry=True, lease=0.3))
    async def book(ctx: Context) -> str:
        await ctx.report_progress(1, total=3, message="asking")
        city = (await ctx.elicit("Which city?", str)).content
        await ctx.report_progress(2, total=3, message=f"booking {city}")
        return f"{city} is booked"

    return server


async def start(peer, tool="book"):
    call = {"name": tool, "arguments": {}, "task": {}, "_meta": {"progressToken": "mine"}}
    return (await peer.request("tools/call", **call))["task"]["taskId"]


async def told(wire, id, status):
    """Return the notifications about a task up to one with a status: progress, and statuses with their messages."""
    progress, statuses = [], []
    while not statuses or statuses[-1]["status"] != status:
        message = await wire.receive()
        if message.get("method") == STATUS:
            statuses.append(message["params"])
        elif message.get("method") == PROGRESS:
            progress.append(message["params"])
    assert {one["taskId"] for one in statuses} == {id}
    assert all(RELATED not in str(one) for one in statuses)
    assert all(one["_meta"] == {RELATED: {"taskId": id}} for one in progress)
    assert all(one["progressToken"] == "mine" for one in progress)
    return [one["progress"] for one in progress], [one["status"] for one in statuses]


@pytest.mark.covers("TKS-12")
async def test_the_client_that_made_a_task_hears_of_its_status_and_progress_and_no_other_client_does():
    server = Server("tasks", store=Memory(), secret="a secret of sixteen")

    @server.tool(task=True)
    async def report(ctx: Context) -> str:
        await ctx.report_progress(1, total=2, message="half")
        return "done"

    async with task_peer(server, FIRST) as peer, WirePeer(server, FIRST) as other:
        id = await start(peer, "report")
        progress = await peer.peer.receive(PROGRESS)
        assert progress["params"] == {
            "progressToken": "mine",
            "progress": 1,
            "total": 2,
            "message": "half",
            "_meta": {RELATED: {"taskId": id}},
        }
        last = (await peer.peer.receive(STATUS))["params"]
        while last["status"] != "completed":
            last = (await peer.peer.receive(STATUS))["params"]
        assert last == await peer.get(id)
        assert other.received == []


@pytest.mark.covers("TKS-12", "TKS-21")
@pytest.mark.parametrize("runs_elsewhere", [False, True])
async def test_notifications_go_on_after_an_answer_whichever_process_runs_the_tool(monkeypatch, runs_elsewhere):
    store = Memory()
    server, other = process(store), process(store)
    if runs_elsewhere:
        monkeypatch.setenv(RUN_TASKS, "0")
    async with task_peer(server, FIRST) as peer:
        monkeypatch.delenv(RUN_TASKS, raising=False)
        async with task_peer(other, SECOND):
            id = await start(peer)
            progress, statuses = await told(peer.peer, id, "input_required")
            assert (progress, set(statuses)) == ([1], {"working", "input_required"} & set(statuses))
            waiting = peer.peer.start("tasks/result", {"taskId": id})
            asked = await peer.peer.receive("elicitation/create")
            peer.peer.answer(asked["id"], ANSWER)
            progress, statuses = await told(peer.peer, id, "completed")
            assert progress == [2]
            assert "input_required" not in statuses
            assert (await peer.peer.response(waiting))["result"]["content"][0]["text"] == "Oslo is booked"
            if runs_elsewhere:
                assert not server.extension(TasksExtension)._runners


@pytest.mark.covers("TKS-12", "TKS-21")
async def test_the_client_hears_that_the_process_of_its_task_was_lost_and_how_the_task_ends(monkeypatch):
    store = Memory()
    server, other = process(store), process(store)
    monkeypatch.setenv(RUN_TASKS, "0")
    async with task_peer(server, FIRST) as peer:
        id = await start(peer)
        claimed = await server.extension(TasksExtension)._book.tasks.claim(0.001)  # by a process that is lost
        assert claimed.id == id
        monkeypatch.delenv(RUN_TASKS)
        async with task_peer(other, SECOND):
            lost = await peer.peer.receive(STATUS)
            assert "the tool runs again" in lost["params"]["statusMessage"]
            progress, _ = await told(peer.peer, id, "input_required")
            assert progress == [1]
        await peer.request("tasks/cancel", taskId=id)


@pytest.mark.covers("TKS-12", "TKS-21")
async def test_a_client_that_comes_back_hears_of_its_task_once_it_waits_for_the_result():
    server = process(Memory())
    async with task_peer(server, FIRST) as gone:
        id = await start(gone)
        await gone.until(id, "input_required")
    async with task_peer(server, FIRST) as peer:
        waiting = peer.peer.start("tasks/result", {"taskId": id})
        asked = await peer.peer.receive("elicitation/create")
        peer.peer.answer(asked["id"], ANSWER)
        progress, _ = await told(peer.peer, id, "completed")
        assert progress == [2]
        assert "result" in await peer.peer.response(waiting)


@pytest.mark.by_asgi
@pytest.mark.covers("TKS-12", "TKS-21")
async def test_over_http_the_notifications_come_on_the_standalone_stream():
    app = serve(process(Memory()))
    peer = HttpPeer(app, NEWEST, capabilities=DECLARED)
    await peer.initialize()
    standalone = await peer.listen()
    call = {"name": "book", "arguments": {}, "task": {}, "_meta": {"progressToken": "mine"}}
    id = (await peer.request("tools/call", call)).json["result"]["task"]["taskId"]

    def statuses(stream):
        return [one["params"]["status"] for one in stream.said if one.get("method") == STATUS]

    await standalone.until(lambda stream: "input_required" in statuses(stream))
    waiting = peer.start("tasks/result", {"taskId": id})
    asked = await waiting.until(lambda one: [said for said in one.said if said.get("method") == "elicitation/create"])
    await peer.respond(asked[0]["id"], ANSWER)
    assert (await waiting.end()).said[-1]["result"]["content"][0]["text"] == "Oslo is booked"

    async def heard():
        said = standalone.said + waiting.said
        return [one for one in said if one.get("method") in (STATUS, PROGRESS)]

    every = await polled(heard, lambda found: any(one["params"].get("status") == "completed" for one in found))
    assert [one["params"]["progress"] for one in every if one["method"] == PROGRESS] == [1, 2]
    await app.close()


@pytest.mark.covers("TKS-09", "TKS-12")
async def test_progress_without_a_message_is_written_only_for_a_client_with_a_token():
    store = Memory()
    server = Server("tasks", store=store, secret="a secret of sixteen")
    revisions = []

    @server.tool(task=True)
    async def count(ctx: Context) -> str:
        for number in (3, 2, 1, 4):
            await ctx.report_progress(number)
        return "done"

    async with task_peer(server, FIRST) as peer:
        for meta in ({"progressToken": 7}, {}):
            call = {"name": "count", "arguments": {}, "task": {}, "_meta": meta}
            id = (await peer.request("tools/call", **call))["task"]["taskId"]
            await peer.outcome(id)
            record = await server.extension(TasksExtension)._book.tasks.get(id)
            revisions.append(record.value.count(b'"progress":[4'))
        progress = [one["params"]["progress"] for one in peer.peer.received if one.get("method") == PROGRESS]
    assert revisions == [1, 0]
    assert progress == sorted(set(progress))
