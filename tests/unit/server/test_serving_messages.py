"""One message in, one answer out: `handle`, `handle_json` and their asynchronous twins."""

import asyncio
import gc
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman import BlockingContext, Context, DragomanError, Server, ToolResult, ValidationError
from dragoman.server.request.call import Session
from scenarios.wire import DEADLINE, introduction, request

INTRODUCTION = introduction(protocolVersion="2025-06-18")


def as_parsed(server, message, *context):
    return server.handle(message, *context)


def as_parsed_async(server, message, *context):
    return asyncio.run(asyncio.wait_for(server.handle_async(message, *context), DEADLINE))


def as_text(server, message, *context):
    answer = server.handle_json(json.dumps(message), *context)
    return None if answer is None else json.loads(answer)


def as_bytes(server, message, *context):
    answer = server.handle_json(json.dumps(message).encode(), *context)
    return None if answer is None else json.loads(answer)


def as_bytes_async(server, message, *context):
    answer = asyncio.run(asyncio.wait_for(server.handle_json_async(json.dumps(message).encode(), *context), DEADLINE))
    return None if answer is None else json.loads(answer)


DOORS = pytest.mark.parametrize("handle", [as_parsed, as_parsed_async, as_text, as_bytes, as_bytes_async])


def call(name, **arguments):
    return request("tools/call", {"name": name, "arguments": arguments})


def adding():
    server = Server(server_context="the server's")

    @server.tool
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    @server.tool
    def add_blocking(a: int, b: int) -> int:
        return a + b

    @server.tool(inline=True)
    def add_inline(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def context(ctx: Context) -> str:
        return f"{ctx.server_context}, {ctx.session_id}"

    @server.tool
    def thread() -> str:
        return threading.current_thread().name

    return server


@pytest.mark.covers("SRV-08", "SRV-09")
@DOORS
@pytest.mark.parametrize("tool", ["add", "add_blocking", "add_inline"])
def test_a_request_is_answered_through_every_door_by_every_kind_of_tool(handle, tool):
    answer = handle(adding(), call(tool, a=1, b=2))
    assert answer == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}},
    }


@pytest.mark.covers("SRV-08", "SRV-09", "RPC-08")
@DOORS
@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "nope"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_what_is_no_request_is_not_answered(handle, message):
    assert handle(adding(), message) is None


@pytest.mark.covers("SRV-09", "RPC-10", "RPC-13")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        ("{", -32700),
        (b"\xff", -32700),
        ('"\ud800"', -32700),
        ('{"jsonrpc": "2.0", "id": 1, "method": "\ud800"}', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b"3", -32600),
    ],
)
def test_what_is_no_message_is_answered_without_an_id(body, code):
    server = Server()
    for answer in (server.handle_json(body), asyncio.run(server.handle_json_async(body))):
        message = json.loads(answer)
        assert message["error"]["code"] == code
        assert "id" not in message


@pytest.mark.covers("SRV-09")
def test_the_answer_is_bytes_without_a_line_end():
    assert Server().handle_json('{"jsonrpc": "2.0", "id": 1, "method": "ping"}') == (
        b'{"jsonrpc":"2.0","id":1,"result":{}}'
    )


@pytest.mark.covers("SRV-29")
@DOORS
def test_no_message_depends_on_one_before(handle):
    server = adding()
    assert "result" in handle(server, request("tools/list"))
    for _ in range(2):
        assert handle(server, request("initialize", INTRODUCTION))["result"]["protocolVersion"] == "2025-06-18"
    assert handle(server, request("nope"))["error"]["code"] == -32601
    assert "result" in handle(server, request("server/discover"))


@pytest.mark.covers("SRV-08")
@DOORS
def test_a_context_may_be_given_for_each_message(handle):
    server = adding()
    answers = [
        handle(server, call("context")),
        handle(server, call("context"), "mine"),
        handle(server, call("context")),
    ]
    said = [answer["result"]["content"][0]["text"] for answer in answers]
    assert said == ["the server's, None", "mine, None", "the server's, None"]


def test_sessions_do_not_pile_up():
    server = adding()
    server.handle(request("initialize", INTRODUCTION))
    gc.collect()
    before = sum(isinstance(thing, Session) for thing in gc.get_objects())
    for _ in range(50):
        server.handle(request("initialize", INTRODUCTION))
        server.handle(call("add", a=1, b=2))
    gc.collect()
    assert sum(isinstance(thing, Session) for thing in gc.get_objects()) <= before


async def test_a_blocking_door_inside_a_running_loop_says_what_to_do_instead():
    server = adding()

    with pytest.raises(DragomanError, match="await its asynchronous twin"):
        server.handle_json("{}")
    with pytest.raises(DragomanError, match="await its asynchronous twin"):
        server.handle(request("ping"))


def test_many_threads_may_ask_at_once():
    server = adding()
    tools = ["add", "add_blocking", "add_inline"]

    def ask(number):
        answer = server.handle(call(tools[number % 3], a=number, b=1))
        return answer["result"]["structuredContent"]["result"]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(200), timeout=DEADLINE)) == list(range(1, 201))


def test_tools_may_be_added_while_others_are_listed():
    server = adding()

    def add(number):
        server.tool(name=f"tool_{number}")(lambda: number)
        return len(server.handle(request("tools/list"))["result"]["tools"])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(100), timeout=DEADLINE))
    assert len(server.handle(request("tools/list"))["result"]["tools"]) == 105


def test_a_blocking_tool_may_use_the_door_itself():
    server = adding()

    @server.tool
    def twice(a: int) -> int:
        return server.handle(call("add", a=a, b=a))["result"]["structuredContent"]["result"]

    assert server.handle(call("twice", a=4))["result"]["structuredContent"] == {"result": 8}


def test_several_loops_may_ask_at_once():
    server = adding()

    def loop(number):
        async def talk():
            answers = await asyncio.gather(*(server.handle_async(call("add", a=number, b=i)) for i in range(20)))
            return [answer["result"]["structuredContent"]["result"] for answer in answers]

        return asyncio.run(asyncio.wait_for(talk(), DEADLINE))

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(loop, range(4), timeout=DEADLINE))
    assert answers == [[number + i for i in range(20)] for number in range(4)]


@pytest.mark.covers("SRV-23", "RPC-13")
@DOORS
@pytest.mark.parametrize("failure", [LookupError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_whatever_a_tool_raises_is_answered_and_the_next_request_too(handle, failure, caplog):
    server = adding()

    @server.tool
    async def waiting() -> str:
        raise failure("secret")

    @server.tool
    def blocking(ctx: BlockingContext) -> str:
        raise failure("secret")

    failed = {"content": [{"type": "text", "text": "Internal error occurred"}], "isError": True}
    assert handle(server, call("waiting"))["result"] == failed
    assert handle(server, call("blocking"))["result"] == failed
    assert handle(server, request("ping"))["result"] == {}
    assert len(caplog.records) == 2


@DOORS
def test_what_cannot_be_sent_is_answered_all_the_same(handle, caplog):
    server = Server()
    server.tool(name="odd")(lambda: ToolResult("x", meta={"a": object()}))
    server.method("acme/odd")(lambda: object())
    assert handle(server, call("odd"))["result"]["isError"] is True
    assert handle(server, request("acme/odd"))["error"] == {"code": -32603, "message": "Internal error"}
    assert len(caplog.records) == 2


async def test_cancelling_whoever_waits_for_the_answer_cancels_the_tool():
    server = Server()
    ended = []

    @server.tool
    async def forever() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await server.handle_async(call("forever"))
    assert ended == [1]


def test_a_message_that_is_no_json_is_the_callers_mistake():
    with pytest.raises(ValidationError):
        Server().handle({"jsonrpc": "2.0", "id": object(), "method": "ping"})


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_blocking_doors_work_in_a_child_after_fork():
    server = adding()
    assert server.handle(request("ping"))["result"] == {}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE)
        answer = server.handle(call("add_blocking", a=1, b=2))
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        assert json.load(answers)["result"]["structuredContent"] == {"result": 3}
    assert os.waitpid(child, 0)[1] == 0
