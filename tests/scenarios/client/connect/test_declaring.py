"""What a client declares besides its handlers, requests that are taken up, further methods, reasons of cancellation."""

import asyncio
import concurrent.futures
import threading

import pytest

from dragoman import AsyncClient, Client, Context, InputNeeded, Server, types
from dragoman.errors import RpcError
from scenarios.scripted_server import DEADLINE, HOLD, ScriptedServer, served


def booking():
    server = Server("booking")

    @server.tool
    async def book(*, ctx: Context) -> str:
        answer = await ctx.elicit("How many nights?", {"type": "object", "properties": {"nights": {"type": "integer"}}})
        return f"{answer.content['nights']} nights"

    @server.prompt
    async def plan(*, ctx: Context) -> str:
        answer = await ctx.elicit("Where?", {"type": "object", "properties": {"city": {"type": "string"}}})
        return f"Plan {answer.content['city']}"

    @server.resource("bill://latest")
    async def bill(*, ctx: Context) -> str:
        answer = await ctx.elicit("Which?", {"type": "object", "properties": {"number": {"type": "integer"}}})
        return f"Bill {answer.content['number']}"

    return server


def answers(needed, **content):
    return {key: types.ElicitResult("accept", content=content) for key in needed.requests}


@pytest.mark.parametrize("carrier", ["memory", "http"])
def test_what_is_declared_without_a_handler_raises_what_is_needed_and_is_taken_up_with_the_answers(carrier):
    server = booking()
    with served(server.asgi()) as url:
        target = server if carrier == "memory" else url
        with Client(target, mode="stateless", capabilities={"elicitation": {}}) as client:
            with pytest.raises(InputNeeded) as raised:
                client.call_tool("book")
            taken_up = {"input_responses": answers(raised.value, nights=2), "request_state": raised.value.state}
            assert client.call_tool("book", **taken_up).text == "2 nights"
            with pytest.raises(InputNeeded) as raised:
                client.get_prompt("plan")
            taken_up = {"input_responses": answers(raised.value, city="Oslo"), "request_state": raised.value.state}
            assert client.get_prompt("plan", **taken_up).text == "Plan Oslo"
            with pytest.raises(InputNeeded) as raised:
                client.read_resource("bill://latest")
            taken_up = {"input_responses": answers(raised.value, number=7), "request_state": raised.value.state}
            assert client.read_resource("bill://latest", **taken_up).contents[0].text == "Bill 7"


async def test_capabilities_are_added_to_those_of_handlers_or_hide_them_or_replace_them():
    async def declared(**options):
        server = ScriptedServer()
        async with AsyncClient(server, mode="handshake", **options):
            return server.sent("initialize")[0]["capabilities"]

    handlers = {"on_elicitation": lambda request: {}, "on_sampling": lambda request: "yes", "roots": ["."]}
    added = await declared(**handlers, capabilities={"experimental": {"x": {}}, "sampling": {"tools": {}}})
    assert added["experimental"] == {"x": {}}
    assert added["sampling"] == {"tools": {}}
    assert {"roots", "elicitation"} <= added.keys()
    assert "sampling" not in await declared(**handlers, capabilities={"sampling": False})
    assert await declared(capabilities={"elicitation": True}) == {"elicitation": {}}
    replaced = await declared(**handlers, capabilities=types.ClientCapabilities(roots=types.RootsCapability()))
    assert replaced == {"roots": {}}


async def test_extensions_are_declared(era):
    server = ScriptedServer({"tools/call": {"content": []}}, stateless=era == "stateless")
    async with AsyncClient(server, mode=era, extensions={"com.example/maps": {"zoom": 3}}) as client:
        await client.call_tool("t")
    if era == "handshake":
        declared = server.sent("initialize")[0]["capabilities"]
    else:
        declared = server.sent("tools/call")[0]["_meta"][types.CLIENT_CAPABILITIES]
    assert declared["extensions"] == {"com.example/maps": {"zoom": 3}}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"capabilities": {"elicitations": {}}}, ValueError),
        ({"capabilities": {"sampling": 3}}, ValueError),
        ({"capabilities": ["sampling"]}, TypeError),
        ({"extensions": ["x"]}, TypeError),
        ({"extensions": {"x": None}}, TypeError),
        ({"on_request": print}, TypeError),
        ({"on_request": {"acme/ask": 3}}, TypeError),
    ],
)
def test_what_cannot_be_declared_is_refused_when_the_client_is_made(options, error):
    with pytest.raises(error):
        AsyncClient(ScriptedServer(), **options)


async def test_further_methods_of_the_server_are_answered():
    def refuse(params):
        raise RpcError(-32050, "Not today")

    def fail(params):
        raise OSError("secret")

    async def ask(params):
        return {"echo": params}

    server = ScriptedServer()
    handlers = {"acme/ask": ask, "acme/refuse": refuse, "acme/fail": fail, "acme/none": lambda params: None}
    async with AsyncClient(server, mode="handshake", on_request=handlers) as client:
        server.say("acme/ask", {"n": 1}, id="ask")
        server.say("acme/refuse", id="refuse")
        server.say("acme/fail", id="fail")
        server.say("acme/none", id="none")
        server.say("acme/other", id="other")
        await server.until(lambda: sum("method" not in message for message in server.received) == 5)
        client.on_request = {"acme/other": ask}
        server.say("acme/other", id="later")
        await server.until(lambda: any(message.get("id") == "later" for message in server.received))
    told = {message["id"]: message for message in server.received if "method" not in message}
    assert told["ask"]["result"] == {"echo": {"n": 1}}
    assert told["refuse"]["error"] == {"code": -32050, "message": "Not today"}
    assert told["fail"]["error"] == {"code": -32603, "message": "Internal error"}
    assert told["none"]["result"] == {}
    assert told["other"]["error"]["code"] == -32601
    assert told["later"]["result"] == {"echo": {}}


def test_a_server_tells_what_it_speaks_and_offers_in_both_eras(era):
    server = Server("telling", version="3", instructions="Ask me")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    with Client(server, mode=era) as client:
        found = client.discover()
    assert found.instructions == "Ask me"
    assert found.capabilities.tools is not None
    assert ("2026-07-28" in found.supported_versions) is (era == "stateless")
    assert found.meta[types.SERVER_INFO]["name"] == "telling"


async def test_meta_goes_with_every_kind_of_request(era):
    completion = {"completion": {"values": []}}
    server = ScriptedServer({"completion/complete": completion, "acme/x": {}}, stateless=era == "stateless")
    async with AsyncClient(server, mode=era) as client:
        await client.complete({"type": "ref/prompt", "name": "p"}, "a", "b", meta={"trace": 1})
        await client.request("acme/x", meta={"trace": 2})
        assert await client.ping(meta={"trace": 3})
        await client.discover(meta={"trace": 4})
    assert server.sent("completion/complete")[0]["_meta"]["trace"] == 1
    assert server.sent("acme/x")[0]["_meta"]["trace"] == 2
    pings = server.sent("server/discover" if era == "stateless" else "ping")
    assert next(params["_meta"]["trace"] for params in pings if "trace" in params.get("_meta", {})) == 3


async def test_the_server_is_told_why_a_task_was_cancelled():
    server = ScriptedServer({"resources/read": HOLD})
    async with AsyncClient(server, mode="handshake") as client:
        reading = asyncio.create_task(client.read_resource("x:1"))
        await server.until(lambda: server.sent("resources/read"))
        reading.cancel("The window was closed")
        with pytest.raises(asyncio.CancelledError):
            await reading
        told = await server.until(lambda: server.sent("notifications/cancelled"))
    assert told[0]["reason"] == "The window was closed"


def test_any_blocking_request_can_be_cancelled_with_a_reason():
    arrived, told = threading.Event(), []

    class Heard(ScriptedServer):
        async def send(self, message):
            await super().send(message)
            if self.sent("resources/read"):
                arrived.set()

    server = Heard({"resources/read": HOLD, "completion/complete": {"completion": {"values": ["a"]}}})
    with Client(server, mode="handshake") as client:
        reference = {"type": "ref/prompt", "name": "p"}
        assert client.submit(client.complete, reference, "a", "b").result(DEADLINE).values == ["a"]
        reading = client.submit(client.read_resource, "x:1")
        assert arrived.wait(DEADLINE)
        assert reading.cancel("The window was closed")
        with pytest.raises(concurrent.futures.CancelledError):
            reading.result(DEADLINE)
        assert not reading.cancel("again")
        client.ping()
        told = server.sent("notifications/cancelled")
        with pytest.raises(TypeError, match="not a method that sends one request"):
            client.submit(client.tools)
    assert [params["reason"] for params in told] == ["The window was closed"]
