"""A client with `tasks=True` lets tools run as tasks, and its calls return what the tasks return."""

import asyncio
import sys
from pathlib import Path

import pytest

from dragoman import AsyncClient, Client, RpcError, ToolError
from dragoman.errors import Cancelled, InputNeeded, NotFound, Timeout, ValidationError
from dragoman.testing import WirePeer
from scenarios import task_server
from scenarios.client_peer import Web, discovered, error, result, until
from scenarios.client_programs import http_server
from scenarios.task_peer import FIRST, GENERATIONS, ID, SECOND
from scenarios.task_server import make_server

FILE = Path(task_server.__file__)
EVERY_GENERATION = pytest.mark.parametrize("version", GENERATIONS)
CARRIERS = pytest.mark.parametrize("over", ["memory", "stdio", "http"])
TASK = {"createdAt": "2026-11-17T06:00:00Z", "lastUpdatedAt": "2026-11-17T06:00:00Z", "ttlMs": 60_000}


@pytest.fixture(scope="module")
def url():
    with http_server(FILE) as url:
        yield url


@pytest.fixture
def target(over, request):
    return {
        "memory": lambda: make_server(),
        "stdio": lambda: [sys.executable, str(FILE)],
        "http": lambda: request.getfixturevalue("url"),
    }[over]()


def oslo(question):
    assert question.message == "Which city?"
    return {"value": "Oslo"}


@CARRIERS
@EVERY_GENERATION
@pytest.mark.covers("LTK-03", "LTK-07")
async def test_a_call_drives_its_task_to_its_end(target, version):
    said = []
    async with AsyncClient(target, tasks=True, protocol_version=version, on_elicitation=oslo) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured == 3
        booked = await client.call_tool("book", on_progress=lambda *told: said.append(told[2]))
        assert booked.text == "booked in Oslo"
        assert said == ["asking"]
        assert (await client.call_tool("plain")).text == "plain"
        with pytest.raises(ToolError, match="no luck"):
            await client.call_tool("fail")
        with pytest.raises(RpcError, match="broken") as raised:
            await client.call_tool("break_down")
        assert (raised.value.code, raised.value.data) == (-32050, {"floor": 3})


@CARRIERS
@EVERY_GENERATION
@pytest.mark.covers("LTK-03")
def test_the_calls_of_a_blocking_client_drive_their_tasks_too(target, version):
    with Client(target, tasks=True, protocol_version=version, on_elicitation=oslo) as client:
        assert client.call_tool("book").text == "booked in Oslo"
        assert client.tool("add")(a=1, b=2).structured == 3


@CARRIERS
@EVERY_GENERATION
@pytest.mark.covers("LTK-03")
async def test_a_call_that_is_cancelled_cancels_its_task(target, version):
    async with AsyncClient(target, tasks=True, protocol_version=version) as client:
        call = asyncio.create_task(client.call_tool("wait"))
        with pytest.raises(Timeout):
            await client.call_tool("wait", total_timeout=0.3)
        assert (await client.call_tool("waited")).structured is True
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.call_tool("waited")).structured is True


@EVERY_GENERATION
@pytest.mark.covers("LTK-06")
async def test_a_client_uses_tasks_only_if_it_was_asked_to(version):
    async with AsyncClient(make_server(), protocol_version=version) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured == 3
        with pytest.raises(RpcError):
            await client.call_tool("book")
    for value in (None, 1, {}):
        with pytest.raises(TypeError, match="tasks must be True or False"):
            AsyncClient(make_server(), tasks=value)


@pytest.mark.covers("LTK-07")
async def test_a_version_without_tasks_gets_plain_calls():
    async with AsyncClient(make_server(), tasks=True, protocol_version="2025-06-18") as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured == 3


class Scripted:
    """A server of 2026-07-28 whose every call is a task with states that a test gives, one for each poll."""

    def __init__(self, *states, **seed):
        self.states = list(states)
        self.seed = {"resultType": "task", "taskId": "t-1", "status": "working", "pollIntervalMs": 20, **TASK, **seed}
        self.updates = []
        self.polled_at = []
        self.web = Web(self.answer)

    def answer(self, message, request):
        method, params = message["method"], message.get("params", {})
        if method == "server/discover":
            return discovered(message, SECOND, tools={}, extensions={ID: {}})
        if method == "tools/list":
            return result(message, {"resultType": "complete", "tools": []})
        if method == "tools/call":
            assert ID in params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
            return result(message, self.seed)
        if method == "tasks/update":
            self.updates.append(params["inputResponses"])
        if method != "tasks/get":
            return result(message, {"resultType": "complete"})
        assert request.headers["mcp-name"] == "t-1"
        self.polled_at.append(asyncio.get_running_loop().time())
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if callable(state):
            return state(message)
        return result(message, {**self.seed, "resultType": "complete", **state})


DONE = {"status": "completed", "result": {"content": [{"type": "text", "text": "done"}]}}


def asks(**keys):
    params = {"mode": "form", "requestedSchema": {"type": "object", "properties": {"value": {"type": "string"}}}}
    requests = {
        key: {"method": "elicitation/create", "params": {**params, "message": text}} for key, text in keys.items()
    }
    return {"status": "input_required", "inputRequests": requests}


async def called(scripted, **options):
    async with scripted.web.running() as web, AsyncClient(web.url, tasks=True, **options) as client:
        return await client.call_tool("any", timeout=2)


async def test_each_question_is_answered_once_while_the_server_goes_on_asking():
    asked = []

    def answer(question):
        asked.append(question.message)
        return {"value": question.message.upper()}

    both, one = asks(a="x", b="y"), asks(b="y", c="z")
    scripted = Scripted({}, both, both, one, one, DONE)
    assert (await called(scripted, on_elicitation=answer)).text == "done"
    assert sorted(asked) == ["x", "y", "z"]
    assert [sorted(update) for update in scripted.updates] == [["a", "b"], ["c"]]


async def test_a_key_that_stands_for_another_question_later_ends_the_call_and_the_task():
    scripted = Scripted(asks(a="x"), asks(a="other"))
    with pytest.raises(ValidationError, match="another question"):
        await called(scripted, on_elicitation=lambda question: {"value": "v"})


async def test_an_expired_task_is_said_to_be_gone():
    with pytest.raises(NotFound, match="expired"):
        await called(Scripted({}, lambda message: error(message, -32602)))


async def test_a_server_that_is_away_for_a_while_does_not_end_the_call():
    from aiohttp import web

    away = [lambda _: web.Response(status=503)] * 8
    assert (await called(Scripted({}, *away, DONE))).text == "done"


@pytest.mark.covers("LTK-03")
async def test_without_an_interval_the_polls_begin_after_250_ms():
    scripted = Scripted({}, DONE, pollIntervalMs=None)
    assert (await called(scripted)).text == "done"
    first, second = scripted.polled_at
    assert second - first >= 0.49


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([{"status": "cancelled"}], Cancelled),
        ([{"status": "completed"}], ValidationError),
        ([{"status": "failed"}], ValidationError),
        ([{"status": "dreaming"}], ValidationError),
        ([{"taskId": "t-2"}], ValidationError),
        ([{"status": "failed", "error": {"code": -1, "message": "bad"}}], RpcError),
    ],
)
async def test_what_a_server_says_of_a_task_is_not_trusted(states, expected):
    with pytest.raises(expected):
        await called(Scripted(*states))


async def test_a_task_that_ended_before_it_was_told_of_is_asked_for_its_result():
    assert (await called(Scripted(DONE, status="completed"))).text == "done"


async def test_the_task_parameter_is_sent_only_to_tools_that_take_it():
    server = make_server()
    async with WirePeer(server, FIRST) as peer:
        call = {"name": "plain", "arguments": {}, "task": {}}
        assert (await peer.request("tools/call", call))["error"]["code"] == -32601
    async with AsyncClient(server, tasks=True, protocol_version=FIRST) as client:
        assert (await client.call_tool("plain")).text == "plain"


async def test_a_question_without_a_handler_ends_the_call_and_the_task():
    scripted = Scripted(asks(a="x"))
    async with scripted.web.running() as web, AsyncClient(web.url, tasks=True) as client:
        with pytest.raises(InputNeeded):
            await client.call_tool("any")
        await until(lambda: "tasks/cancel" in web.methods)
