"""A store that answers late, or not at all, while processes claim tasks and run their steps."""

import asyncio

import pytest

from dragoman import AsyncClient, Configuration, Context, Server
from dragoman.errors import StoreUnavailable
from dragoman.server import TaskOptions
from dragoman.server.extensions.tasks.extension import RUN_TASKS, TasksExtension
from dragoman.stores import Memory
from scenarios.http_peer import STATELESS, HttpPeer, serve
from scenarios.task_peer import DECLARED, SECOND, polled, task_peer

LEASE = 0.2
SECRET = "a secret of sixteen"


class Faulty:
    """The tasks of a shared store as one process reaches them."""

    def __init__(self, tasks):
        self._tasks = tasks
        self.is_paused = False
        self.resumed = asyncio.Event()
        self.failing: dict[str, int] = {}
        """How often a method fails, by name; "made" after the name: the change is made, and its answer is lost."""
        self.failed: list[str] = []

    def pause(self):
        self.is_paused = True

    def __getattr__(self, name):
        method = getattr(self._tasks, name)
        if name == "watch":
            return method

        async def call(*given, **options):
            if self.is_paused:
                await self.resumed.wait()
            if self.failing.get(name, 0) > 0:
                self._fail(name)
            outcome = await method(*given, **options)
            if self.failing.get(f"{name} made", 0) > 0:
                self._fail(f"{name} made")
            if self.is_paused:
                await self.resumed.wait()
            return outcome

        return call

    def _fail(self, fault):
        self.failing[fault] -= 1
        self.failed.append(fault)
        raise StoreUnavailable("the store is away")


class Reached(Memory):
    """A shared store as one process reaches it."""

    def __init__(self, shared):
        self._shared = shared
        self.faulty = None

    def __getattr__(self, name):
        return getattr(self._shared, name)

    def tasks(self, namespace, **limits):
        self.faulty = Faulty(self._shared.tasks(namespace, **limits))
        return self.faulty

    async def now(self):
        return await self._shared.now()


def process(store, ran, name):
    """Return a server that shares a store, and notes which of its steps ran."""
    server = Server("shared", store=store, secret=SECRET)

    @server.tool(task=TaskOptions(retry=True, lease=LEASE))
    async def work(ctx: Context) -> str:
        for number in range(3):
            await ctx.step(str(number), lambda number=number: ran.append((name, number)))
            if (name, number) == ("paused", 0):
                store.faulty.pause()
        return "done"

    @server.tool(task=TaskOptions(lease=LEASE))
    async def once() -> str:
        ran.append((name, "once"))
        return "done"

    return server


@pytest.mark.covers("TKS-14")
async def test_a_step_whose_beginning_was_acknowledged_too_late_does_not_run():
    shared, ran = Memory(), []
    reached = Reached(shared)
    paused, other = process(reached, ran, "paused"), process(shared, ran, "other")
    async with task_peer(paused, SECOND) as here, task_peer(other, SECOND) as there:
        id = (await here.start("work"))["taskId"]
        assert (await there.outcome(id))["result"]["content"][0]["text"] == "done"
        assert ran == [("paused", 0), ("other", 1), ("other", 2)]
        (runner,) = paused.extension(TasksExtension)._runners.values()
        assert id in runner._runs
        reached.faulty.is_paused = False
        reached.faulty.resumed.set()
        await polled(lambda: asyncio.sleep(0), lambda _: id not in runner._runs)
        assert len(ran) == 3
        assert (await there.get(id))["result"]["content"][0]["text"] == "done"


@pytest.mark.covers("TKS-16", "TKS-18")
@pytest.mark.parametrize("fault", ["renew", "renew made", "update", "update made", "finish"])
@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_claimed_task_is_not_left_alone_when_the_store_is_away_for_a_moment(monkeypatch, fault, is_lost):
    shared, ran = Memory(), []
    maker, reached = process(shared, ran, "maker"), Reached(shared)
    monkeypatch.setenv(RUN_TASKS, "0")
    async with task_peer(maker, SECOND) as peer:
        id = (await peer.start("work"))["taskId"]
        if is_lost:  # its process claims the task, and is lost
            claimed = await maker.extension(TasksExtension)._book.tasks.claim(0.001)
            assert claimed.id == id
        monkeypatch.delenv(RUN_TASKS)
        runner = process(reached, ran, "runner")
        _ = runner.extension(TasksExtension)._book
        reached.faulty.failing[fault] = 2
        async with task_peer(runner, SECOND):
            assert (await peer.outcome(id))["result"]["content"][0]["text"] == "done"
    assert ran == [("runner", 0), ("runner", 1), ("runner", 2)]
    assert reached.faulty.failed == [fault, fault]


@pytest.mark.covers("TKS-13", "TKS-16")
async def test_a_task_that_must_not_run_again_fails_also_if_the_store_is_away_for_a_moment(monkeypatch):
    shared, ran = Memory(), []
    maker, reached = process(shared, ran, "maker"), Reached(shared)
    monkeypatch.setenv(RUN_TASKS, "0")
    async with task_peer(maker, SECOND) as peer:
        id = (await peer.start("once"))["taskId"]
        assert (await maker.extension(TasksExtension)._book.tasks.claim(0.001)).id == id
        monkeypatch.delenv(RUN_TASKS)
        runner = process(reached, ran, "runner")
        _ = runner.extension(TasksExtension)._book
        reached.faulty.failing["finish"] = 2
        async with task_peer(runner, SECOND):
            error = (await peer.outcome(id))["error"]
    assert "may have run" in error["message"]
    assert (ran, reached.faulty.failed) == ([], ["finish", "finish"])


@pytest.mark.covers("TKS-18")
async def test_a_runner_goes_on_after_a_task_that_expired_while_it_was_claimed():
    shared, ran = Memory(), []
    server = process(shared, ran, "one")
    async with task_peer(server, SECOND) as peer:
        book = server.extension(TasksExtension)._book
        (runner,) = server.extension(TasksExtension)._runners.values()
        claim = book.tasks.claim

        async def claim_expired(lease):
            record = await claim(lease)
            return None if record is None else record._replace(id="gone")

        made = (await peer.start("work"))["taskId"]
        await peer.outcome(made)
        record = await book.tasks.get(made)
        book.tasks.claim = claim_expired
        unknown = record.value.replace(b'"work"', b'"none"')
        await book.tasks.create("1" * 40, unknown, owner="somebody")
        await polled(lambda: book.tasks.get("1" * 40), lambda found: found.phase == "running")
        assert not runner._claiming.done()


@pytest.mark.by_asgi
@pytest.mark.covers("WRK-13", "TKS-16")
async def test_a_request_about_a_task_says_that_the_store_is_away_with_status_503():
    reached = Reached(Memory())
    server = process(reached, [], "one")
    app = serve(server)
    peer = HttpPeer(app, STATELESS, capabilities=DECLARED)
    _ = server.extension(TasksExtension)._book
    reached.faulty.failing["get"] = reached.faulty.failing["create"] = 1
    asked = await peer.request("tasks/get", {"taskId": "1"}, {"mcp-name": "1"})
    assert asked.status == 503
    assert asked.json["error"]["code"] == -32603
    assert asked.json["error"]["message"] == "The store of this server cannot be reached; try again later"
    made = await peer.request("tools/call", {"name": "work", "arguments": {}}, {"mcp-name": "work"})
    assert made.status == 200
    assert made.json["result"]["isError"] is True
    assert made.json["result"]["content"][0]["text"] == asked.json["error"]["message"]
    await app.close()


async def test_hooks_can_tell_a_store_that_is_away_from_a_crash():
    seen = []
    server = Server("hooks", configuration=Configuration(instrumentation_callback=seen.append))

    @server.tool
    async def use() -> str:
        raise StoreUnavailable("nobody is there")

    @server.resource("thing://one")
    async def one() -> str:
        raise StoreUnavailable("nobody is there")

    async with AsyncClient(server) as client:
        result = await client.call_tool("use", raise_on_error=False)
        assert "try again later" in result.text
        with pytest.raises(Exception, match="try again later"):
            await client.read_resource("thing://one")
    assert [data["error"] for data in seen if "error" in data] == ["store_unavailable"] * 2
