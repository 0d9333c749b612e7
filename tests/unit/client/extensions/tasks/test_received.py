"""A server of 2025-11-25 makes tasks of its requests to a client, and asks what became of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from dragoman import AsyncClient
from dragoman.client.extensions.tasks import received
from dragoman.errors import RpcError, Timeout
from scenarios.scripted_server import EVERYTHING, HOLD, ScriptedServer
from scenarios.task_peer import polled

SAMPLING = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}
ELICITATION = {"message": "Where?", "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}
RELATED = "io.modelcontextprotocol/related-task"
_numbers = count(1)


class AskingServer(ScriptedServer):
    """Sends requests to its client, and waits for the responses."""

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.response(self.start(method, **params))

    def start(self, method: str, **params: Any) -> str:
        id = f"{method} {next(_numbers)}"
        self.say(method, params, id=id)
        return id

    async def response(self, id: str) -> dict[str, Any]:
        return await self.until(lambda: next((one for one in self.received if one.get("id") == id), None))

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        response = await self.ask(method, **params)
        assert "result" in response, response
        return response["result"]

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        return (await self.ask(method, **params))["error"]

    async def make(self, method: str = "elicitation/create", ttl: int | None = None, **params: Any) -> str:
        """Make a task, and return its id."""
        asked = params or (ELICITATION if method == "elicitation/create" else SAMPLING)
        created = await self.result(method, **asked, task={} if ttl is None else {"ttl": ttl})
        assert created["task"]["status"] == "working"
        return created["task"]["taskId"]


class Person:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self, request: Any) -> dict[str, str]:
        self.asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return {"city": "Oslo"}


@asynccontextmanager
async def asking(**options: Any) -> AsyncIterator[tuple[AskingServer, AsyncClient]]:
    server = AskingServer({"tools/call": HOLD}, capabilities=EVERYTHING)
    async with AsyncClient(server, **{"tasks": True, **options}) as client:
        yield server, client


def declared(server: ScriptedServer) -> Any:
    return server.sent("initialize")[0]["capabilities"].get("tasks")


@pytest.mark.covers("LTK-05")
async def test_a_client_declares_the_requests_that_its_handlers_answer_as_tasks():
    async with asking(on_sampling=lambda request: "hi", on_elicitation=lambda request: None) as (server, _):
        requests = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
        assert declared(server) == {"list": {}, "cancel": {}, "requests": requests}
    async with asking(on_sampling=lambda request: "hi") as (server, _):
        assert declared(server)["requests"] == {"sampling": {"createMessage": {}}}
    async with asking() as (server, _):
        assert declared(server) == {}
    async with asking(tasks=False, on_sampling=lambda request: "hi") as (server, _):
        assert declared(server) is None


@pytest.mark.covers("LTK-05")
async def test_a_question_becomes_a_task_that_the_server_reads_when_the_person_has_answered():
    person = Person()
    async with asking(on_elicitation=person) as (server, _):
        id = await server.make(ttl=60_000)
        await person.asked.wait()
        task = await server.result("tasks/get", taskId=id)
        assert (task["taskId"], task["status"], task["ttl"], task["pollInterval"]) == (id, "working", 60_000, 1000)
        assert task["lastUpdatedAt"] >= task["createdAt"] > "2026"
        assert "_meta" not in task
        waiting = server.start("tasks/result", taskId=id)
        person.may_answer.set()
        result = (await server.response(waiting))["result"]
        assert result == {"action": "accept", "content": {"city": "Oslo"}, "_meta": {RELATED: {"taskId": id}}}
        assert (await server.result("tasks/get", taskId=id))["status"] == "completed"
        assert await server.result("tasks/result", taskId=id) == result
        assert (await server.error("tasks/cancel", taskId=id))["code"] == -32602


@pytest.mark.covers("LTK-05")
async def test_sampling_becomes_a_task_and_a_request_without_task_stays_plain():
    async with asking(on_sampling=lambda request: "hello") as (server, _):
        id = await server.make("sampling/createMessage")
        result = await server.result("tasks/result", taskId=id)
        assert (result["content"]["text"], result["_meta"]) == ("hello", {RELATED: {"taskId": id}})
        plain = await server.result("sampling/createMessage", **SAMPLING)
        assert (plain["content"]["text"], "_meta" in plain) == ("hello", False)
        assert (await server.result("tasks/get", taskId=id))["ttl"] == received.DEFAULT_TTL_MS


async def test_a_request_that_was_not_declared_for_tasks_is_answered_without_one(tmp_path):
    async with asking(roots=[tmp_path], on_sampling=lambda request: "hello") as (server, _):
        assert len((await server.result("roots/list", task={}))["roots"]) == 1
        assert (await server.error("elicitation/create", **ELICITATION, task={}))["code"] == -32601
    async with asking(on_sampling=lambda request: "hello", capabilities={"sampling": None}) as (server, _):
        assert "task" not in await server.result("sampling/createMessage", **SAMPLING, task={})


@pytest.mark.covers("LTK-05")
async def test_a_cancelled_task_stays_cancelled_and_its_handler_is_cancelled():
    person = Person()
    async with asking(on_elicitation=person) as (server, _):
        id = await server.make()
        await person.asked.wait()
        waiting = server.start("tasks/result", taskId=id)
        assert (await server.result("tasks/cancel", taskId=id))["status"] == "cancelled"
        assert "cancelled" in (await server.response(waiting))["error"]["message"]
        assert (await server.result("tasks/get", taskId=id))["status"] == "cancelled"
        assert (await server.error("tasks/cancel", taskId=id))["code"] == -32602
        assert person.was_cancelled


async def test_a_refused_or_broken_handler_fails_the_task_with_its_error(caplog):
    def refuse(request: Any) -> str:
        raise RpcError(-7, "not today")

    async with asking(on_sampling=refuse) as (server, _):
        id = await server.make("sampling/createMessage")
        assert await server.error("tasks/result", taskId=id) == {"code": -7, "message": "not today"}
        task = await server.result("tasks/get", taskId=id)
        assert (task["status"], task["statusMessage"]) == ("failed", "not today")
        malformed = await server.make("sampling/createMessage", messages=5)
        assert (await server.error("tasks/result", taskId=malformed))["code"] == -32602
    assert not caplog.records


@pytest.mark.covers("LTK-05")
async def test_bad_input_is_refused_before_a_handler_runs():
    person = Person()
    async with asking(on_elicitation=person) as (server, _):
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert (await server.error(method, taskId="unknown"))["code"] == -32602
            assert (await server.error(method))["code"] == -32602
        for task in (5, {"ttl": "long"}, []):
            assert (await server.error("elicitation/create", **ELICITATION, task=task))["code"] == -32602
        for cursor in ("x", "-1", "99999999999999999999"):
            assert (await server.error("tasks/list", cursor=cursor))["code"] == -32602
        assert not person.asked.is_set()
        assert (await server.error("tasks/update", taskId="unknown"))["code"] == -32601


@pytest.mark.covers("LTK-05")
async def test_tasks_are_listed_page_by_page(monkeypatch):
    monkeypatch.setattr(received, "PAGE", 2)
    async with asking(on_sampling=lambda request: "hello") as (server, _):
        assert await server.result("tasks/list") == {"tasks": []}
        ids = [await server.make("sampling/createMessage") for _ in range(5)]
        listed, cursor = [], None
        for expected in (2, 2, 1):
            page = await server.result("tasks/list", **({} if cursor is None else {"cursor": cursor}))
            assert len(page["tasks"]) == expected
            listed += [task["taskId"] for task in page["tasks"]]
            cursor = page.get("nextCursor")
        assert (listed, cursor) == (ids, None)


@pytest.mark.covers("LTK-05")
async def test_a_task_is_forgotten_when_its_time_has_passed():
    person = Person()
    async with asking(on_elicitation=person) as (server, _):
        id = await server.make(ttl=50)
        await polled(lambda: server.ask("tasks/get", taskId=id), lambda response: "error" in response)
        assert (await server.error("tasks/result", taskId=id))["code"] == -32602
        # The time of the handler begins later than that of the task, and on a slow machine it may not be asked at all.
        await polled(lambda: asyncio.sleep(0), lambda _: person.was_cancelled or not person.asked.is_set())
        assert (await server.result("tasks/list"))["tasks"] == []
        longest = await server.make(ttl=10**15)
        assert (await server.result("tasks/get", taskId=longest))["ttl"] == received.MAX_TTL_MS


@pytest.mark.covers("LTK-05")
async def test_the_tasks_of_a_server_are_bounded(monkeypatch):
    person = Person()
    async with asking(on_elicitation=person, max_server_requests=2) as (server, _):
        ids = [await server.make() for _ in range(2)]
        assert "2 at work" in (await server.error("elicitation/create", **ELICITATION, task={}))["message"]
        await server.result("tasks/cancel", taskId=ids[0])
        await server.make()
        monkeypatch.setattr(received, "MAX_RECEIVED_TASKS", 3)
        await server.result("tasks/cancel", taskId=ids[1])
        assert "3 tasks" in (await server.error("elicitation/create", **ELICITATION, task={}))["message"]
        monkeypatch.setattr(received, "MAX_RECEIVED_TASKS", 10)
        monkeypatch.setattr(received, "MAX_PARAMS_BYTES", 100)
        assert (await server.error("elicitation/create", **ELICITATION, task={}))["code"] == -32603


async def test_the_oldest_task_whose_result_was_read_makes_room_for_a_new_one(monkeypatch):
    monkeypatch.setattr(received, "MAX_RECEIVED_TASKS", 3)
    async with asking(on_sampling=lambda request: "hello") as (server, _):
        unread, first, second = [await server.make("sampling/createMessage") for _ in range(3)]
        for id in (second, first):
            await server.result("tasks/result", taskId=id)
        third = await server.make("sampling/createMessage")
        listed = (await server.result("tasks/list"))["tasks"]
        assert [task["taskId"] for task in listed] == [unread, second, third]
        assert (await server.error("tasks/result", taskId=first))["code"] == -32602


async def test_many_waits_for_results_leave_room_for_other_requests_about_tasks():
    person = Person()
    async with asking(on_elicitation=person) as (server, _):
        id = await server.make()
        waiting = [server.start("tasks/result", taskId=id) for _ in range(20)]
        assert (await server.result("tasks/get", taskId=id))["status"] == "working"
        person.may_answer.set()
        for one in waiting:
            assert (await server.response(one))["result"]["action"] == "accept"


async def test_a_call_does_not_time_out_while_a_person_answers_a_task_of_its_tool():
    person = Person()
    async with asking(on_elicitation=person, timeout=0.2) as (server, client):
        calling = asyncio.create_task(client.call_tool("book"))
        await server.until(lambda: server.sent("tools/call"))
        id = await server.make()
        done, _ = await asyncio.wait([calling], timeout=0.6)
        assert not done
        person.may_answer.set()
        await server.result("tasks/result", taskId=id)
        with pytest.raises(Timeout):
            await calling


async def test_a_task_outlives_the_connection_that_brought_it_and_ends_with_the_client():
    person = Person()
    async with asking(on_elicitation=person) as (server, client):
        id = await server.make()
        await person.asked.wait()
        server.hang_up()
        await client.ping()
        assert server.opened == 2
        assert (await server.result("tasks/get", taskId=id))["status"] == "working"
    assert person.was_cancelled
