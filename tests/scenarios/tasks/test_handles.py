"""`start_tool` gives a task, which a client waits for, answers, cancels, and takes up after a restart."""

import asyncio
import sys

import pytest
from aiohttp.web import Response

from dragoman import AsyncClient, Client, RpcError, ToolError
from dragoman.errors import Cancelled, CapabilityNotAvailable, DragomanError, InputNeeded, NotFound, Timeout
from dragoman.server.extensions.tasks import requests
from scenarios.client_peer import Web, initialized, result, until
from scenarios.client_programs import http_server
from scenarios.task_peer import FIRST, GENERATIONS, SECOND
from scenarios.task_server import make_server
from scenarios.tasks.test_client import DONE, FILE, Scripted, oslo

EVERY_GENERATION = pytest.mark.parametrize("version", GENERATIONS)


@EVERY_GENERATION
@pytest.mark.covers("LTK-02")
async def test_a_started_tool_is_a_task_that_says_how_it_is(version):
    async with AsyncClient(make_server(), tasks=True, protocol_version=version, on_elicitation=oslo) as client:
        task = await client.start_tool("wait")
        assert (task.status, task.ttl, task.poll_interval) == ("working", 3600, 0.02)
        assert task.working
        assert not any((task.input_required, task.completed, task.failed, task.cancelled))
        assert task.last_updated_at >= task.created_at > "2026"
        assert repr(task) == f"<AsyncTask {task.id!r}: working>"
        with pytest.raises(Timeout, match="it continues"):
            await task.wait(0.05)
        await task.cancel()
        assert (await task.refresh()).cancelled
        with pytest.raises(Cancelled):
            await task.result()
        booked = await client.start_tool("book")
        assert (await booked.result()).text == "booked in Oslo"
        assert booked.completed
        assert booked.status_message == "asking"
        failed = await client.start_tool("fail")
        with pytest.raises(ToolError, match="no luck"):
            await failed.result()
        assert (await failed.result(raise_on_error=False)).is_error
        broken = await (await client.start_tool("break_down")).wait()
        assert broken.failed
        with pytest.raises(RpcError, match="broken"):
            await broken.result()


@EVERY_GENERATION
@pytest.mark.covers("LTK-02")
async def test_a_tool_that_was_not_made_a_task_is_one_that_has_ended(version):
    async with AsyncClient(make_server(), tasks=True, protocol_version=version) as client:
        task = await client.start_tool("plain")
        await task.cancel()
        assert (await (await task.refresh()).wait(1)).completed
        assert ((await task.result()).text, task.id) == ("plain", "")


@EVERY_GENERATION
@pytest.mark.covers("LTK-01", "LTK-02")
async def test_a_task_is_taken_up_by_another_client(version):
    server = make_server()
    async with AsyncClient(server, tasks=True, protocol_version=version) as client:
        id = (await client.start_tool("add", {"a": 1, "b": 2})).id
        async with AsyncClient(server, tasks=True, protocol_version=version) as other:
            task = await other.task(id, tool="add")
            assert (await task.result()).structured == 3
            assert (await other.tasks.result(id)).text == "3"
            assert (await other.tasks.get(id)).completed
            with pytest.raises(NotFound, match="expired"):
                await other.task("none")


@pytest.mark.parametrize("over", ["stdio", "http"])
@EVERY_GENERATION
@pytest.mark.covers("LTK-01", "LTK-02")
def test_the_tasks_of_a_blocking_client_block(over, version, request):
    target = [sys.executable, str(FILE)] if over == "stdio" else request.getfixturevalue("url")
    with Client(target, tasks=True, protocol_version=version, on_elicitation=oslo) as client:
        task = client.start_tool("book")
        assert task.wait(20).refresh().completed
        assert task.result().text == "booked in Oslo"
        assert client.task(task.id).result().text == "booked in Oslo"
        assert client.tasks.result(task.id).text == "booked in Oslo"
        waiting = client.start_tool("wait")
        client.tasks.cancel(waiting.id)
        assert client.tasks.get(waiting.id).cancelled
        assert [one.id for one in client.tasks.list()] == ([task.id, waiting.id] if version == FIRST else [])


@pytest.fixture(scope="module")
def url():
    with http_server(FILE) as url:
        yield url


@pytest.mark.covers("LTK-02")
async def test_a_question_without_a_handler_is_answered_by_hand():
    async with AsyncClient(make_server(), tasks=True, protocol_version=SECOND, on_elicitation=oslo) as client:
        task = await client.start_tool("book")
        client.on_elicitation = None
        with pytest.raises(InputNeeded):
            await task.wait(10)
        assert task.input_required
        [key] = task.input_requests
        await task.update({key: {"action": "accept", "content": {"value": "Rome"}}, "none": 1})
        assert (await task.result()).text == "booked in Rome"


@pytest.mark.covers("LTK-01", "LTK-06")
async def test_tasks_are_listed_page_by_page_where_the_server_lists_them(monkeypatch):
    monkeypatch.setattr(requests, "PAGE", 2)
    server = make_server()
    async with AsyncClient(server, tasks=True, protocol_version=FIRST) as client:
        made = [(await client.start_tool("add", {"a": 1, "b": 2})).id for _ in range(5)]
        assert [task.id for task in await client.tasks.list()] == made
    for version in (SECOND, "2025-06-18"):
        async with AsyncClient(server, tasks=True, protocol_version=version) as client:
            assert await client.tasks.list() == []


@pytest.mark.covers("LTK-01", "LCAPS-01")
async def test_a_server_that_does_not_cancel_or_list_is_not_asked_to():
    def answer(message, _):
        if message["method"] == "initialize":
            return initialized(message, FIRST, tools={}, tasks={"requests": {"tools": {"call": {}}}})
        if "id" not in message:
            return Response(status=202)
        state = {"taskId": "t-1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": None}
        return result(message, state)

    async with (
        Web(answer).running() as web,
        AsyncClient(web.url, tasks=True, protocol_version=FIRST) as client,
    ):
        assert client.capabilities.tasks == {"requests": {"tools": {"call": {}}}}
        assert await client.tasks.list() == []
        task = await client.task("t-1")
        with pytest.raises(CapabilityNotAvailable, match=r"tasks\.cancel"):
            await task.cancel()
        with pytest.raises(CapabilityNotAvailable):
            await task.update({})
        assert "tasks/cancel" not in web.methods


@pytest.mark.covers("LTK-06")
async def test_a_client_without_tasks_says_how_to_get_them():
    async with AsyncClient(make_server()) as client:
        for use in (client.tasks.list, lambda: client.task("t"), lambda: client.start_tool("add")):
            with pytest.raises(DragomanError, match="tasks=True"):
                await use()


@EVERY_GENERATION
async def test_two_that_wait_for_a_task_have_it_answered_once(version):
    asked = []

    async def slowly(question):
        asked.append(question)
        await asyncio.sleep(0.1)
        return {"value": "Oslo"}

    async with AsyncClient(make_server(), tasks=True, protocol_version=version, on_elicitation=slowly) as client:
        task = await client.start_tool("book")
        other = await client.task(task.id)
        both = await asyncio.gather(task.result(), other.result())
        assert [one.text for one in both] == ["booked in Oslo"] * 2
        assert len(asked) == 1


@pytest.mark.parametrize("over", ["memory", "http"])
@pytest.mark.covers("LTK-04")
async def test_a_client_that_is_notified_of_its_tasks_hardly_polls(over, request):
    target = make_server() if over == "memory" else request.getfixturevalue("url")
    heard = []
    async with AsyncClient(target, tasks=True, protocol_version=SECOND, on_notification=heard.append) as client:
        task = await client.start_tool("slow", {"name": "one"})
        assert task.poll_interval == 60
        waiting = asyncio.create_task(task.wait(20))
        other = asyncio.create_task(client.call_tool("slow", {"name": "two"}))
        await until(lambda: [one for one in heard if one.method.endswith("acknowledged")])
        for name in ("one", "two"):
            await client.call_tool("let", {"name": name})
        assert (await waiting).completed
        assert (await other).text == "two"
        assert [one.params["status"] for one in heard if one.method == "notifications/tasks"]


@pytest.mark.covers("LTK-04")
async def test_the_notifications_of_2025_11_25_keep_a_task_up_to_date():
    async with AsyncClient(make_server(), tasks=True, protocol_version=FIRST) as client:
        task = await client.start_tool("slow", {"name": "one"})
        assert task.working
        await client.call_tool("let", {"name": "one"})
        await until(lambda: task.completed)
        assert (await task.result()).text == "one"


async def test_a_server_that_does_not_notify_is_polled():
    scripted = Scripted({}, {}, DONE)
    async with scripted.web.running() as web, AsyncClient(web.url, tasks=True) as client:
        assert (await client.call_tool("any")).text == "done"
        assert web.methods.count("tasks/get") == 3
