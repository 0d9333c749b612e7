"""Who runs a task: processes that share a store, each a server of its own here; and what a task costs."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from dragoman import Context, Server
from dragoman.errors import InvalidParams, StoreUnavailable
from dragoman.server import TaskOptions
from dragoman.server.extensions.contract import ExtensionRow, ServerExtension
from dragoman.server.extensions.tasks import run, runner
from dragoman.server.extensions.tasks.extension import RUN_TASKS, TasksExtension
from dragoman.stores import Memory
from scenarios.parked_tasks import park_tasks, shared_store
from scenarios.task_peer import FIRST, GENERATIONS, SECOND, polled, task_peer


def process(store):
    """Return what is a process of its own, as far as tasks go: a server that shares nothing but a store."""
    return Server("shared", store=store, secret="a secret of sixteen")


def asker(server, **options):
    @server.tool(task=TaskOptions(**options))
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("What?", str)).content or ""


def answer(value):
    return {"elicit-1": {"action": "accept", "content": {"value": value}}}


@pytest.mark.covers("TKS-06")
async def test_a_cancellation_reaches_the_process_that_runs_the_tool_within_a_second():
    store, stopped = Memory(), asyncio.Event()
    one, other = process(store), process(store)
    for server in (one, other):

        @server.tool(task=True)
        async def wait() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return ""

    async with task_peer(one, SECOND) as here, task_peer(other, SECOND) as there:
        id = (await here.start("wait"))["taskId"]
        assert (await there.get(id))["status"] == "working"
        began = time.monotonic()
        await there.request("tasks/cancel", taskId=id)
        await asyncio.wait_for(stopped.wait(), 5)
        assert time.monotonic() - began < 1
        assert (await here.get(id))["status"] == "cancelled"


@pytest.mark.covers("TKS-06")
async def test_a_task_that_is_cancelled_before_its_tool_begins_never_runs():
    server, ran = process(Memory()), []

    @server.tool(task=True)
    async def note() -> str:
        ran.append(1)
        return ""

    async with task_peer(server, SECOND) as peer:
        extension = server.extension(TasksExtension)
        (found,) = extension._runners.values()
        start = found.start

        def start_and_stop(entry, *given):
            start(entry, *given)
            asyncio.get_running_loop().call_soon(found.stop, entry.id)

        found.start = start_and_stop
        await peer.start("note")
        await polled(lambda: asyncio.sleep(0), lambda _: not found._runs)
        assert ran == []


@pytest.mark.covers("TKS-18")
async def test_a_tool_whose_parameters_changed_fails_the_task_and_the_error_names_both():
    store = Memory()
    one, other = process(store), process(store)
    asker(one)

    @other.tool(task=True)
    async def ask(ctx: Context, *, loudly: bool) -> str:
        return f"{ctx} {loudly}"

    async with task_peer(one, SECOND) as here:
        id = (await here.start("ask"))["taskId"]
        await here.until(id, "input_required")
    async with task_peer(other, SECOND) as there:
        await there.request("tasks/update", taskId=id, inputResponses=answer("x"))
        error = (await there.outcome(id))["error"]
        assert error["code"] == -32603
        assert "parameters of the tool 'ask' changed" in error["message"]


@pytest.mark.covers("TKS-18")
async def test_a_tool_that_is_gone_fails_the_task():
    store = Memory()
    one, other = process(store), process(store)
    asker(one)

    @other.tool(task=True)
    async def unrelated() -> str:
        return ""

    async with task_peer(one, SECOND) as here:
        id = (await here.start("ask"))["taskId"]
        await here.until(id, "input_required")
    async with task_peer(other, SECOND) as there:
        await there.request("tasks/update", taskId=id, inputResponses=answer("x"))
        assert (await there.outcome(id))["error"]["message"] == "The tool 'ask' does not exist any more"


@pytest.mark.covers("TKS-13")
async def test_a_task_that_loses_every_process_fails_in_the_end(monkeypatch):
    """A process is lost here: it neither writes nor renews any more, and its tool goes on until the loop ends."""
    store, begun = Memory(), []
    hung = asyncio.Event()

    async def hang(_run, *_):
        begun.append(1)
        await hung.wait()

    monkeypatch.setattr(run.TaskRun, "serve", hang)
    monkeypatch.setattr(runner, "LEASE", 0.1)
    server = process(store)

    @server.tool(task=TaskOptions(retry=2, lease=0.1))
    async def doomed() -> str:
        return ""

    async with task_peer(server, SECOND) as peer:
        id = (await peer.start("doomed"))["taskId"]
        task = await peer.until(id, "failed")
        assert "may have run" in task["error"]["message"]
        assert len(begun) == 3
        hung.set()


@pytest.mark.covers("TKS-18")
async def test_a_process_without_room_lets_tasks_wait(monkeypatch):
    monkeypatch.setattr(runner, "MAX_RUNS", 1)
    released = asyncio.Event()
    server = process(Memory())

    @server.tool(task=TaskOptions(lease=0.3))
    async def wait() -> str:
        await released.wait()
        return "done"

    async with task_peer(server, SECOND) as peer:
        ids = [(await peer.start("wait"))["taskId"] for _ in range(3)]
        released.set()
        for id in ids:
            assert (await peer.outcome(id))["result"]["content"][0]["text"] == "done"


@pytest.mark.covers("TKS-17")
async def test_a_process_that_runs_no_tasks_still_makes_and_answers_them(monkeypatch):
    store = Memory()
    one, other = process(store), process(store)
    asker(one)
    asker(other)
    monkeypatch.setenv(RUN_TASKS, "0")
    async with task_peer(one, SECOND) as here:
        id = (await here.start("ask"))["taskId"]
        assert (await here.get(id))["status"] == "working"
        monkeypatch.delenv(RUN_TASKS)
        async with task_peer(other, SECOND):
            await here.until(id, "input_required")
            await here.request("tasks/update", taskId=id, inputResponses=answer("x"))
            assert (await here.outcome(id))["result"]["content"][0]["text"] == "x"


@pytest.mark.covers("TKS-18")
async def test_a_tool_that_gets_its_option_while_the_server_serves_runs_as_a_task():
    server = process(Memory())
    async with task_peer(server, SECOND) as peer:

        @server.tool(task=True)
        async def late() -> str:
            return "late"

        assert (await peer.outcome((await peer.start("late"))["taskId"]))["result"]["content"][0]["text"] == "late"
        assert server.lifecycle is not None
        await server.lifecycle.end(server.lifecycle)


@pytest.mark.covers("TKS-19")
@pytest.mark.parametrize("version", GENERATIONS)
@pytest.mark.parametrize(("engine", "parked"), [("memory", 500), ("local", 200), ("redis", 200)])
async def test_parked_tasks_cost_no_task_thread_or_connection(engine, parked, version, tmp_path):
    async with shared_store(engine, tmp_path) as store:
        await park_tasks(process(store), parked, version)


class Failing:
    """The tasks of a store that refuses, or cannot be reached, when a test says so."""

    def __init__(self, tasks):
        self.tasks = tasks
        self.renews = True
        self.away = False
        self.refused = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self.tasks, name)

    async def renew(self, *given):
        return self.renews and await self.tasks.renew(*given)

    async def finish(self, *given, **options):
        if self.away:
            self.refused.set()
            raise StoreUnavailable("the store is away")
        return await self.tasks.finish(*given, **options)


class FailingStore(Memory):
    def tasks(self, namespace, **limits):
        self.failing = Failing(super().tasks(namespace, **limits))
        return self.failing


@pytest.mark.covers("TKS-14")
async def test_a_process_that_lost_its_lease_cancels_the_tool_and_says_so(caplog):
    store, stopped = FailingStore(), asyncio.Event()
    server = process(store)

    @server.tool(task=TaskOptions(lease=0.3))
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with task_peer(server, SECOND) as peer:
        id = (await peer.start("wait"))["taskId"]
        store.failing.renews = False
        await asyncio.wait_for(stopped.wait(), 5)
        assert f"The task {id} is not this process's any more" in caplog.text
        assert (await peer.until(id, "failed"))["error"]["code"] == -32603


@pytest.mark.covers("TKS-16")
async def test_a_result_is_written_when_the_store_is_back():
    store = FailingStore()
    server = process(store)

    @server.tool(task=True)
    async def quick() -> str:
        store.failing.away = True
        return "done"

    async with task_peer(server, SECOND) as peer:
        id = (await peer.start("quick"))["taskId"]
        await asyncio.wait_for(store.failing.refused.wait(), 5)
        assert (await peer.get(id))["status"] == "working"
        store.failing.away = False
        assert (await peer.outcome(id))["result"]["content"][0]["text"] == "done"


@pytest.mark.covers("TKS-18")
async def test_a_server_with_other_keys_neither_runs_nor_loses_the_tasks_of_its_namesake():
    store = Memory()
    one, other = process(store), Server("shared", store=store, secret="another secret of sixteen")
    asker(one)
    asker(other)
    async with task_peer(other, SECOND), task_peer(one, SECOND) as peer:
        (runner_of_one,) = one.extension(TasksExtension)._runners.values()
        runner_of_one._is_closing = True  # so that the other server claims the tasks first
        id = (await peer.start("ask"))["taskId"]
        runner_of_one._is_closing = False
        assert (await peer.until(id, "input_required"))["inputRequests"]
        await peer.request("tasks/update", taskId=id, inputResponses=answer("tea"))
        assert (await peer.outcome(id))["result"]["content"][0]["text"] == "tea"


@pytest.mark.covers("TKS-18")
async def test_a_task_of_another_release_holds_up_no_other_task_and_keeps_no_process_busy():
    server, claims = process(Memory()), []
    asker(server)
    async with task_peer(server, SECOND) as peer:
        tasks = server.extension(TasksExtension)._book.tasks
        claim = tasks.claim

        async def counted(lease):
            claims.append(lease)
            return await claim(lease)

        tasks.claim = counted
        await tasks.create("0" * 40, b'{"other": "form"}', owner="somebody")
        id = (await peer.start("ask"))["taskId"]
        await peer.until(id, "input_required")
        await peer.request("tasks/update", taskId=id, inputResponses=answer("tea"))
        assert (await peer.outcome(id))["result"]["content"][0]["text"] == "tea"
        assert len(claims) < 20
        foreign = await polled(lambda: tasks.get("0" * 40), lambda record: record.phase == "ready")
        assert foreign.value == b'{"other": "form"}'


@pytest.mark.covers("TKS-13")
async def test_a_task_of_another_release_that_was_lost_is_still_lost_when_it_is_given_back():
    server = process(Memory())
    asker(server)
    async with task_peer(server, SECOND):
        tasks = server.extension(TasksExtension)._book.tasks
        await tasks.create("0" * 40, b"{}", owner="somebody", lease=0.001)
        found = next(iter(server.extension(TasksExtension)._runners.values()))
        record = await polled(lambda: tasks.claim(30), lambda record: record is not None)
        assert record.was_lost
        await found._give_back(record)
        assert (await tasks.get(record.id)).phase == "running"


@pytest.mark.covers("TKS-18")
async def test_a_task_that_is_claimed_while_its_process_stops_is_not_lost():
    store = Memory()
    one, other = process(store), process(store)
    asker(one)
    asker(other)
    claimed = asyncio.Event()
    async with task_peer(one, SECOND) as here:
        tasks = one.extension(TasksExtension)._book.tasks
        renew = tasks.renew

        async def slow(*given):
            claimed.set()
            await asyncio.sleep(0.05)
            return await renew(*given)

        tasks.renew = slow
        id = (await here.start("ask"))["taskId"]
        await here.until(id, "input_required")
        await here.request("tasks/update", taskId=id, inputResponses=answer("tea"))
        await asyncio.wait_for(claimed.wait(), 5)
    async with task_peer(other, SECOND) as there:
        assert (await there.outcome(id))["result"]["content"][0]["text"] == "tea"


@pytest.mark.covers("TKS-01")
async def test_a_tool_with_the_name_of_a_removed_task_is_no_task():
    server = process(Memory())
    asker(server)
    server.remove_tool("ask")

    @server.tool(name="ask")
    async def plain() -> str:
        return "plain"

    async with task_peer(server, SECOND) as peer:
        result = await peer.request("tools/call", name="ask", arguments={})
        assert result["content"][0]["text"] == "plain"
    assert server.capabilities.extensions is None


@pytest.mark.covers("TKS-18")
async def test_the_first_task_of_a_server_that_already_serves_another_extension_runs():
    class Other(ServerExtension):
        rows = (ExtensionRow(id="com.example/other"),)

        @asynccontextmanager
        async def serving(self, server):
            yield

    server = Server("shared", store=Memory(), secret="a secret of sixteen", extensions=[Other()])
    async with server.serving():

        @server.tool(task=True)
        async def late() -> str:
            return "late"

        async with task_peer(server, SECOND) as peer:
            id = (await peer.start("late"))["taskId"]
            assert (await peer.outcome(id))["result"]["content"][0]["text"] == "late"
    for lifecycle in (server.extension(TasksExtension)._late, server.lifecycle):
        await lifecycle.end(lifecycle)  # they last as long as their loop


@pytest.mark.covers("TKS-07")
@pytest.mark.parametrize("version", [FIRST, SECOND])
async def test_whoever_waits_for_a_task_hears_of_its_expiry_also_if_no_store_reports_it(version):
    server = process(Memory())
    asker(server, ttl=0.3)
    async with task_peer(server, version) as peer:
        extension = server.extension(TasksExtension)
        id = (await peer.start("ask"))["taskId"]
        if version == FIRST:
            error = await asyncio.wait_for(peer.error("tasks/result", taskId=id), 5)
            assert error["code"] == -32602
        else:
            (feed,) = extension._feeds.values()
            assert feed.watch([id]) == [id]
            await polled(lambda: asyncio.sleep(0), lambda _: not feed._watching)


@pytest.mark.covers("TKS-02")
@pytest.mark.parametrize("kind", ["text", "error", "status"])
async def test_what_cannot_be_written_as_json_ends_its_task_at_once(kind):
    server = process(Memory())

    @server.tool(task=TaskOptions(retry=True))
    async def odd(ctx: Context) -> str:
        if kind == "status":
            await ctx.report_progress(1, 2, "half \ud800")
            await ctx.step("step", lambda: 1)
            return "done"
        if kind == "error":
            raise InvalidParams("odd", {"value": object()})
        return "\ud800"

    async with task_peer(server, SECOND) as peer:
        task = await peer.until((await peer.start("odd"))["taskId"], "completed" if kind == "status" else "failed")
        if kind == "status":
            assert task["statusMessage"] == "half ?"
            assert task["result"]["content"][0]["text"] == "done"
        else:
            assert task["error"]["code"] == -32603


@pytest.mark.covers("TKS-12")
async def test_a_question_is_asked_again_in_another_session_while_the_first_has_no_answer():
    server = process(Memory())
    asker(server)
    async with task_peer(server, FIRST) as gone, task_peer(server, FIRST) as back:
        id = (await gone.start("ask"))["taskId"]
        unanswered = asyncio.create_task(gone.response("tasks/result", taskId=id))
        await polled(lambda: asyncio.sleep(0), lambda _: questions(gone))
        waiting = asyncio.create_task(back.request("tasks/result", taskId=id))
        await polled(lambda: asyncio.sleep(0), lambda _: questions(back))
        (question,) = questions(back)
        back.peer.send({"jsonrpc": "2.0", "id": question["id"], "result": answer("tea")["elicit-1"]})
        assert (await asyncio.wait_for(waiting, 5))["content"][0]["text"] == "tea"
        assert "result" in await asyncio.wait_for(unanswered, 5)


def questions(peer):
    return [message for message in peer.peer.received if message.get("method") == "elicitation/create"]
