"""One connection: an author's failures, cancellation, and the end, with nothing lost and nothing left behind."""

import asyncio
import gc
import json
import threading
import weakref

import pytest

from dragoman import BlockingContext, Cancelled, Context, RpcError, Server, ToolError, ToolResult
from dragoman.config import Configuration
from dragoman.testing import WirePeer
from dragoman.transports.contract import FunctionSink

DEADLINE = 60
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless", "none"])
INTERNAL_ERROR = {"code": -32603, "message": "Internal error"}
TOOL_FAILED = {"content": [{"type": "text", "text": "Internal error occurred"}], "isError": True}
INTRODUCTION = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def run(conversation):
    async def within_the_deadline():
        async with asyncio.timeout(DEADLINE):
            return await conversation

    return asyncio.run(within_the_deadline())


def ask(server, method, params=None, era="handshake"):
    """Return the response to one request, and see that nothing else was sent."""

    async def talk():
        async with WirePeer(server, era) as peer:
            response = await peer.request(method, params)
            assert peer.received == []
            return response

    return run(talk())


class Wire:
    """A connection whose bytes are looked at one by one; sends are framed, receipts are kept as they are."""

    def __init__(self, server):
        self.sent = []
        self._arrived = asyncio.Event()
        self.connection = server.connect(self._keep)

    def _keep(self, data):
        self.sent.append(data)
        self._arrived.set()

    def send(self, *messages):
        """Send messages, or bytes as they are, in one chunk."""
        self.connection.receive(
            b"".join((m if isinstance(m, bytes) else json.dumps(m).encode()) + b"\n" for m in messages)
        )

    def request(self, id, method, params=None):
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})})

    async def until(self, count):
        """Wait until so many messages were sent, and return them decoded."""
        async with asyncio.timeout(DEADLINE):
            while len(self.sent) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return [json.loads(data) for data in self.sent]

    async def end(self):
        self.connection.receive_end()
        async with asyncio.timeout(DEADLINE):
            await self.connection.drain()


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


# Hostile input.

HOSTILE = [
    (b"{", -32700, ...),
    (b"not json", -32700, ...),
    (b"\xff\xfe", -32700, ...),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', -32700, ...),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700, ...),
    (b"[" * 200 + b"]" * 200, -32700, ...),
    (b"[]", -32600, ...),
    (b"3", -32600, ...),
    (b'"text"', -32600, ...),
    (b"null", -32600, ...),
    (b"{}", -32600, ...),
    (b'{"jsonrpc": "1.0", "id": 901, "method": "ping"}', -32600, 901),
    (b'{"id": 902, "method": "ping"}', -32600, 902),
    (b'{"jsonrpc": "2.0", "id": 903}', -32600, 903),
    (b'{"jsonrpc": "2.0", "id": 904, "method": 5}', -32600, 904),
    (b'{"jsonrpc": "2.0", "id": 905, "method": "rpc.discover"}', -32600, 905),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, ...),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, ...),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, ...),
    (b'{"jsonrpc": "2.0", "id": 906, "method": "tools/list", "params": [1]}', -32602, 906),
    (b'{"jsonrpc": "2.0", "id": 907, "method": "tools/list", "params": "x"}', -32602, 907),
    (b'{"jsonrpc": "2.0", "id": 908, "method": "tools/list", "params": {"_meta": 3}}', -32602, 908),
    (b'{"jsonrpc": "2.0", "id": 909, "method": "tools/call", "params": {"name": "\\ud800"}}', -32700, ...),
    (b'{"jsonrpc": "2.0", "id": 910, "method": "nope"}', -32601, 910),
]
SILENT = [
    b"",
    b"   ",
    b'{"jsonrpc": "2.0", "method": "nope"}',
    b'{"jsonrpc": "2.0", "id": 77, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 77, "error": {"code": 1, "message": "x"}}',
    b'{"jsonrpc": "2.0", "result": {}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12345}}',
]


@pytest.mark.covers("RPC-01", "RPC-03", "RPC-05", "RPC-06", "RPC-07", "RPC-10")
def test_hostile_input_is_answered_in_place_and_harms_nothing_in_flight():
    server = Server()
    released = None

    @server.tool
    async def hold(number: int) -> int:
        await released.wait()
        return number

    async def talk():
        nonlocal released
        released = asyncio.Event()
        wire = Wire(server)
        for number in range(20):
            wire.request(number, "tools/call", {"name": "hold", "arguments": {"number": number}})
        await asyncio.sleep(0)
        for line in SILENT:
            wire.send(line)
        for line, code, id in HOSTILE:
            answered = len(wire.sent)
            wire.send(line)
            answer = json.loads(wire.sent[-1])
            assert len(wire.sent) == answered + 1, line
            assert (answer["error"]["code"], answer.get("id", ...)) == (code, id), line
        refusals = len(wire.sent)
        released.set()
        answers = (await wire.until(refusals + 20))[refusals:]
        assert {answer["id"]: answer["result"]["structuredContent"]["result"] for answer in answers} == {
            number: number for number in range(20)
        }
        await wire.end()
        assert len(wire.sent) == refusals + 20

    run(talk())


@pytest.mark.covers("RPC-07")
@pytest.mark.parametrize(("version", "shown"), [("2024-11-05", True), ("2025-06-18", True), ("2025-11-25", False)])
def test_an_unreadable_id_is_null_or_left_out_as_the_version_wants_it(version, shown):
    async def talk():
        wire = Wire(Server())
        wire.request(0, "initialize", {**INTRODUCTION, "protocolVersion": version})
        wire.send(b"{")
        answer = (await wire.until(2))[1]
        assert ("id" in answer) is shown
        assert answer.get("id") is None

    run(talk())


def test_the_bytes_of_an_answer_are_exactly_these():
    async def talk():
        wire = Wire(Server("sums"))
        wire.send(b'{"jsonrpc":"2.0","id":"\\u00e4","method":"ping"}')
        wire.send(b"{")
        wire.send(b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')
        return wire.sent

    ping, broken, tools = run(talk())
    assert ping == '{"jsonrpc":"2.0","id":"ä","result":{}}'.encode()
    assert broken.startswith(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"The message is not JSON: ')
    assert tools == b'{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}'


def test_what_one_line_changes_holds_for_the_next_line_of_the_same_chunk():
    async def talk():
        wire = Wire(Server())
        introduction = {**INTRODUCTION, "protocolVersion": "2025-03-26"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduction}, ping, ping, [ping])
        answers = [json.loads(data) for data in wire.sent]
        assert answers[0]["result"]["protocolVersion"] == "2025-03-26"
        assert answers[1:] == [PONG, PONG, [PONG]]

    run(talk())


# Failures of an author's code.


class OwnBaseException(BaseException):
    pass


FAILURES = [LookupError("secret"), SystemExit("secret"), KeyboardInterrupt("secret"), OwnBaseException("secret")]
FAILURES += [asyncio.CancelledError("secret"), Cancelled("secret"), StopIteration("secret")]
EVERY_FAILURE = pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
WAYS = pytest.mark.parametrize("way", ["async", "thread", "inline"])


def raising(failure, way):
    async def asynchronous():
        raise failure

    def plain():
        raise failure

    return (asynchronous if way == "async" else plain), {"inline": way == "inline", "name": "broken"}


@pytest.mark.covers("SRV-23", "RPC-13")
@EVERY_FAILURE
@WAYS
@ERAS
def test_whatever_a_tool_raises_is_answered_and_reported_and_the_server_goes_on(failure, way, era, caplog):
    server = Server()
    function, options = raising(failure, way)
    server.tool(**options)(function)

    async def talk():
        async with WirePeer(server, era) as peer:
            result = (await peer.request("tools/call", {"name": "broken"}))["result"]
            assert {**result, **TOOL_FAILED} == result
            assert "result" in await peer.request("tools/list")
            assert peer.received == []

    run(talk())
    (record,) = caplog.records
    assert "tools/call" in record.getMessage()
    assert "secret" in str(record.exc_info[1]) or "secret" in str(record.exc_info[1].__cause__)


@pytest.mark.covers("SRV-23", "RPC-13")
@EVERY_FAILURE
@WAYS
def test_whatever_another_handler_raises_is_answered_and_reported_and_the_server_goes_on(failure, way, caplog):
    server = Server()
    function, options = raising(failure, way)
    server.prompt(**options)(function)
    server.resource("a://b", **options)(function)

    async def talk():
        async with WirePeer(server) as peer:
            assert (await peer.request("prompts/get", {"name": "broken"}))["error"] == INTERNAL_ERROR
            assert (await peer.request("resources/read", {"uri": "a://b"}))["error"] == INTERNAL_ERROR
            assert (await peer.request("ping"))["result"] == {}

    run(talk())
    assert len(caplog.records) == 2


@pytest.mark.covers("RPC-12")
def test_what_a_tool_raises_for_the_client_is_said_and_not_reported(caplog):
    server = Server()

    @server.tool
    def unhappy() -> str:
        raise ToolError("There is no such city")

    @server.tool
    def refusing() -> str:
        raise RpcError(-31999, "The printer is on fire", {"floor": 3})

    said = ask(server, "tools/call", {"name": "unhappy"})["result"]
    assert said == {"content": [{"type": "text", "text": "There is no such city"}], "isError": True}
    assert ask(server, "tools/call", {"name": "refusing"})["error"] == {
        "code": -31999,
        "message": "The printer is on fire",
        "data": {"floor": 3},
    }
    assert caplog.records == []


@pytest.mark.parametrize("returned", [object(), "\ud800", ToolResult("x", meta={"a": object()}), {"a": {1, object()}}])
@WAYS
@ERAS
def test_a_tools_result_that_cannot_be_sent_is_a_failed_call_and_reported(returned, way, era, caplog):
    server = Server()

    async def asynchronous():
        return returned

    server.tool(name="odd", inline=way == "inline")(asynchronous if way == "async" else lambda: returned)
    result = ask(server, "tools/call", {"name": "odd"}, era)["result"]
    assert {**result, **TOOL_FAILED} == result
    assert len(caplog.records) == 1


@pytest.mark.parametrize("returned", [object(), {"a": object()}, "\ud800"])
def test_a_result_of_a_method_of_ones_own_that_cannot_be_sent_is_refused_and_reported(returned, caplog):
    server = Server()
    server.method("acme/odd")(lambda: returned)
    for era in ("handshake", "stateless"):
        assert ask(server, "acme/odd", era=era)["error"] == INTERNAL_ERROR
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (RpcError(5, "said", object()), {"code": 5, "message": "said"}),
        (RpcError(5, "\ud800"), INTERNAL_ERROR),
    ],
)
def test_an_error_that_cannot_be_sent_is_said_as_far_as_it_can_be_and_reported(error, sent, caplog):
    server = Server()

    @server.prompt
    def odd() -> str:
        raise error

    assert ask(server, "prompts/get", {"name": "odd"})["error"] == sent
    assert caplog.records


def test_a_result_that_does_not_fit_its_schema_is_an_error_where_results_are_validated(caplog):
    server = Server(configuration=Configuration(validate_tool_call_results=True))
    server.tool(name="odd", output_schema={"type": "object", "required": ["a"]})(lambda: {"b": 1})
    server.tool(name="inline", inline=True, output_schema={"type": "object", "required": ["a"]})(lambda: {"b": 1})
    assert ask(server, "tools/call", {"name": "odd"})["error"]["code"] == -32603
    assert ask(server, "tools/call", {"name": "inline"})["error"]["code"] == -32603
    assert len(caplog.records) == 2


# Cancellation.


@pytest.mark.covers("RPC-11")
@ERAS
def test_cancelling_an_asynchronous_tool_cancels_it_and_nothing_is_answered(era):
    server = Server()
    events = {}

    @server.tool
    async def forever(ctx: Context) -> str:
        events["started"].set()
        try:
            await asyncio.Event().wait()
        finally:
            events["cancelled"] = ctx.cancelled
            events["ended"].set()

    async def talk():
        events.update(started=asyncio.Event(), ended=asyncio.Event())
        async with WirePeer(server, era) as peer:
            id = peer.start("tools/call", {"name": "forever"})
            await asyncio.wait_for(events["started"].wait(), DEADLINE)
            peer.notify("notifications/cancelled", {"requestId": id, "reason": "tired"})
            await asyncio.wait_for(events["ended"].wait(), DEADLINE)
            assert events["cancelled"] is True
            assert "result" in await peer.request("tools/list")
            assert peer.received == []
            # The id is free again.
            assert "result" in await peer.request("tools/list", id=id)
        assert not other_tasks()

    run(talk())


@pytest.mark.covers("RPC-11")
@ERAS
def test_cancelling_a_blocking_tool_lets_it_know_and_nothing_is_answered(era, caplog):
    server = Server()
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    seen = []

    @server.tool
    def patient(ctx: BlockingContext) -> str:
        started.set()
        assert go_on.wait(DEADLINE)
        seen.append(ctx.cancelled)
        ended.set()
        ctx.raise_if_cancelled()

    async def talk():
        async with WirePeer(server, era) as peer:
            id = peer.start("tools/call", {"name": "patient"})
            assert await asyncio.to_thread(started.wait, DEADLINE)
            peer.notify("notifications/cancelled", {"requestId": id})
            go_on.set()
            assert await asyncio.to_thread(ended.wait, DEADLINE)
            assert "result" in await peer.request("tools/list")
            assert peer.received == []
            assert id not in [message.get("id") for message in peer.received]

    run(talk())
    assert seen == [True]
    assert caplog.records == []


def test_a_tool_that_ignores_its_cancellation_is_not_answered():
    server = Server()

    @server.tool
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"

    @server.tool
    async def resigned(ctx: Context) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ctx.raise_if_cancelled()

    async def talk():
        wire = Wire(server)
        for id, name in enumerate(("stubborn", "resigned")):
            wire.request(id, "tools/call", {"name": name})
            await asyncio.sleep(0)
            wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
        await wire.end()
        assert wire.sent == []

    run(talk())


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_request_that_is_cancelled_in_the_chunk_that_brings_it_leaves_nothing_behind(kind):
    server = Server()

    async def asynchronous() -> str:
        await asyncio.Event().wait()

    def plain() -> str:
        return "quick"

    server.tool(name="any")(asynchronous if kind == "async" else plain)

    async def talk():
        wire = Wire(server)
        wire.send(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "any"}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        )
        await wire.end()
        assert wire.sent == []
        wire.request(1, "ping")
        assert await wire.until(1) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
        await asyncio.sleep(0)  # a spare task ends in its turn
        assert not other_tasks()

    run(talk())


def test_messages_wait_until_initialize_is_answered():
    server = Server()
    callers = []

    @server.middleware
    async def slow(ctx, call_next):
        if ctx.method == "initialize":
            await asyncio.sleep(0)
        callers.append((ctx.method, ctx.client.info and ctx.client.info.name))
        return await call_next()

    async def talk():
        wire = Wire(server)
        wire.send(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INTRODUCTION},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        )
        assert [answer["id"] for answer in await wire.until(2)] == [1, 2]
        assert callers[1] == ("tools/list", INTRODUCTION["clientInfo"]["name"])
        await wire.end()

    run(talk())


@pytest.mark.covers("CAN-05")
def test_initialize_cannot_be_cancelled():
    async def talk():
        wire = Wire(Server())
        wire.send(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INTRODUCTION},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        )
        assert (await wire.until(1))[0]["result"]["protocolVersion"] == "2025-11-25"

    run(talk())


# The end of a connection.


def test_the_end_of_the_input_lets_everything_in_flight_finish():
    server = Server()
    released = None

    @server.tool
    async def hold(number: int) -> int:
        await released.wait()
        return number

    @server.tool
    def block(number: int) -> int:
        return number

    async def talk():
        nonlocal released
        released = asyncio.Event()
        wire = Wire(server)
        for number in range(10):
            wire.request(number, "tools/call", {"name": "hold", "arguments": {"number": number}})
            wire.request(100 + number, "tools/call", {"name": "block", "arguments": {"number": number}})
        wire.connection.receive(b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}')
        asyncio.get_running_loop().call_soon(released.set)
        await wire.end()
        answered = {json.loads(data)["id"] for data in wire.sent}
        assert answered == {*range(10), *range(100, 110), "last"}
        assert not other_tasks()

    run(talk())


def test_closing_cancels_everything_in_flight_and_sends_nothing_more():
    server = Server()
    ended = []

    @server.tool
    async def forever(ctx: Context) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(ctx.cancelled)

    async def talk():
        wire = Wire(server)
        for number in range(10):
            wire.request(number, "tools/call", {"name": "forever"})
            if number == 4:
                await asyncio.sleep(0)
        wire.connection.close()
        async with asyncio.timeout(DEADLINE):
            await wire.connection.drain()
        wire.connection.notify("notifications/message", {"level": "info", "data": "too late"})
        wire.request(99, "ping")
        assert wire.sent == []
        assert ended == [True] * 10
        assert not other_tasks()

    run(talk())


@pytest.mark.covers("SRV-01")
def test_many_requests_of_many_connections_are_all_answered_once():
    server = Server()

    @server.tool
    async def waiting(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @server.tool
    def blocking(number: int) -> int:
        return number

    @server.tool(inline=True)
    def quick(number: int) -> int:
        return number

    async def talk():
        wires = [Wire(server) for _ in range(5)]
        for wire in wires:
            for number in range(300):
                name = ("waiting", "blocking", "quick")[number % 3]
                wire.request(number, "tools/call", {"name": name, "arguments": {"number": number}})
        for wire in wires:
            answers = await wire.until(300)
            assert sorted(answer["id"] for answer in answers) == list(range(300))
            assert all(answer["result"]["structuredContent"]["result"] == answer["id"] for answer in answers)
            await wire.end()
        assert not other_tasks()

    run(talk())


def with_many_tools(count):
    server = Server()
    for number in range(count):
        server.tool(lambda: None, name=f"tool_{number}", description="x" * 1000)
    return server


LIST = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n'


def test_large_lists_are_answered_in_a_batch():
    sent = []

    async def talk():
        connection = with_many_tools(100).connect(FunctionSink(sent.append))
        introduction = {**INTRODUCTION, "protocolVersion": "2025-03-26"}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": introduction}
        connection.receive(json.dumps(message).encode() + b"\n[" + LIST.strip() % 1 + b"," + LIST.strip() % 2 + b"]\n")
        connection.close()
        _, batch = map(json.loads, sent)
        assert [(answer["id"], len(answer["result"]["tools"])) for answer in batch] == [(1, 100), (2, 100)]

    run(talk())


CALL_OF_ONE = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}\n'


def test_a_closed_connection_is_freed_without_the_garbage_collector():
    server = Server()

    @server.tool
    async def wait() -> None:
        await asyncio.sleep(0)

    async def talk():
        connection = server.connect(lambda _: None)
        connection.receive(CALL_OF_ONE)
        await asyncio.wait_for(connection.drain(), DEADLINE)
        connection.close()
        await asyncio.sleep(0)
        kept = weakref.ref(connection)
        del connection
        assert kept() is None

    gc.disable()
    try:
        run(talk())
    finally:
        gc.enable()
