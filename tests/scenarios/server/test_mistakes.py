"""What authors, clients and other servers get wrong, and who is told of it in which words."""

import asyncio
import logging
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from dragoman import (
    AsyncClient,
    BlockingContext,
    Client,
    Configuration,
    ConnectError,
    Context,
    DefinitionError,
    InputRequired,
    Server,
    ServerCrashed,
    Timeout,
    Tool,
    ToolError,
    ToolResult,
    tool,
    types,
)
from dragoman.testing import WirePeer
from scenarios.http_carriers import carrier
from scenarios.http_peer import SECRET, HttpPeer, serve
from scenarios.wire import DEADLINE, ask, text

ERAS = ["2025-11-25", "2026-07-28"]
EVERY_ERA = pytest.mark.parametrize("era", ERAS)
INTERNAL = {"content": [{"type": "text", "text": "Internal error occurred"}], "isError": True}


def call(server: Server, name: str = "get", era: str = "2025-11-25", **arguments: Any) -> types.Json:
    result = ask(server, "tools/call", {"name": name, "arguments": arguments}, era)["result"]
    return {key: value for key, value in result.items() if key in ("content", "isError", "structuredContent")}


# Errors of a tool's own client.


@pytest.mark.covers("TOOL-15")
@EVERY_ERA
@pytest.mark.parametrize(
    "error",
    [
        ServerCrashed("The server's process ended: password=hunter2", 1, "password=hunter2"),
        ConnectError("No connection to hunter2.internal"),
        Timeout("hunter2.internal did not answer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_tool_could_not_reach_is_an_unexpected_error_and_its_text_stays_here(error, era, caplog):
    server = Server("front")

    @server.tool
    async def get() -> str:
        raise error

    assert call(server, era=era) == INTERNAL
    [record] = caplog.records
    assert record.getMessage().startswith("Unexpected error in tools/call of 'get' (request ")
    assert "hunter2" in str(record.exc_info[1])


@pytest.mark.covers("TOOL-15")
def test_a_crash_behind_a_tool_does_not_tell_the_caller_what_the_crashed_process_wrote(caplog):
    server = Server("front")
    program = [sys.executable, "-c", "import sys; sys.stderr.write('password=hunter2\\n'); sys.exit(3)"]

    @server.tool
    async def get() -> str:
        async with AsyncClient(program) as inner:
            return (await inner.call_tool("anything")).text

    assert call(server) == INTERNAL
    assert len([record for record in caplog.records if "'get'" in record.getMessage()]) == 1


async def test_a_client_that_does_not_answer_is_told_so_and_nobody_else(caplog):
    server = Server("asking")

    @server.tool
    async def get(ctx: Context) -> str:
        return str(await ctx.list_roots(timeout=0.01))

    async with WirePeer(server, capabilities={"roots": {}}) as peer:
        response = await peer.request("tools/call", {"name": "get"})
    assert text(response["result"]) == "The client did not answer roots/list within 0.01 seconds"
    assert response["result"]["isError"] is True
    assert caplog.records == []


def refusing(server: Server, method: str, params: types.Json) -> types.Json:
    """Return the response to a request whose client refuses to list its roots."""

    async def talk() -> types.Json:
        async with WirePeer(server, capabilities={"roots": {}}) as peer:
            id = peer.start(method, params)
            asked = await peer.receive("roots/list")
            peer.answer(asked["id"], error={"code": -32601, "message": "No roots"})
            return await peer.response(id)

    return asyncio.run(asyncio.wait_for(talk(), DEADLINE))


@pytest.mark.parametrize("blocking", [False, True])
def test_an_error_of_the_client_is_not_passed_off_as_the_answer_to_its_own_request(blocking, caplog):
    server = Server("asking")

    async def get(ctx: Context) -> str:
        return str(await ctx.list_roots())

    def get_blocking(ctx: BlockingContext) -> str:
        return str(ctx.list_roots())

    server.tool(name="get")(get_blocking if blocking else get)
    server.prompt(name="get")(get_blocking if blocking else get)
    said = "The client refused roots/list: No roots (-32601)"
    called = refusing(server, "tools/call", {"name": "get"})
    assert called["result"] == {"content": [{"type": "text", "text": said}], "isError": True}
    assert refusing(server, "prompts/get", {"name": "get"})["error"] == {"code": -32603, "message": said}
    assert caplog.records == []


# What a handler raises or returns.


@EVERY_ERA
def test_a_tool_error_in_a_prompt_or_resource_reaches_the_caller(era, caplog):
    server = Server("errors")

    @server.prompt
    def get() -> str:
        raise ToolError("There is no such city")

    @server.resource("city://atlantis")
    async def city() -> str:
        raise ToolError("It sank")

    assert ask(server, "prompts/get", {"name": "get"}, era)["error"] == {
        "code": -32603,
        "message": "There is no such city",
    }
    error = ask(server, "resources/read", {"uri": "city://atlantis"}, era)["error"]
    assert error == {"code": -32603, "message": "It sank"}
    assert caplog.records == []


def cancels_itself() -> Any:
    async def get() -> str:
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
        return "never"

    return get


def cancels_itself_later() -> Any:
    async def get() -> str:
        await asyncio.sleep(0)
        asyncio.current_task().cancel()
        await asyncio.sleep(DEADLINE)
        return "never"

    return get


def exits() -> Any:
    async def get() -> str:
        await asyncio.sleep(0)
        raise GeneratorExit

    return get


def exits_in_a_thread() -> Any:
    def get() -> str:
        raise GeneratorExit

    return get


@EVERY_ERA
@pytest.mark.parametrize("make", [cancels_itself, cancels_itself_later, exits, exits_in_a_thread])
def test_a_handler_that_ends_itself_is_answered_and_logged(make, era, caplog):
    server = Server("ends")
    server.tool(make())
    assert call(server, era=era) == INTERNAL
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "Unexpected error in tools/call of 'get'"
    ]


# In the stateless era a mounted application runs in a task of its carrier, which alone knows who cancelled it.
@pytest.mark.parametrize(
    ("carried_by", "era"), [("connection", "2025-11-25"), ("connection", "2026-07-28"), ("asgi", "2025-11-25")]
)
@pytest.mark.parametrize("make", [cancels_itself, cancels_itself_later, exits, exits_in_a_thread])
def test_a_handler_that_ends_itself_is_answered_and_logged_over_http(make, carried_by, era, caplog):
    async def talk() -> types.Json:
        carrier.set(carried_by)
        server = Server("ends", secret=SECRET)
        server.tool(make())
        peer = HttpPeer(serve(server), era)
        if era != "2026-07-28":
            await peer.initialize()
        answers = [await peer.call("get").end() for _ in range(2)]
        return [answer.json["result"] for answer in answers]

    for result in asyncio.run(asyncio.wait_for(talk(), DEADLINE)):
        assert {name: result[name] for name in INTERNAL} == INTERNAL
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "Unexpected error in tools/call of 'get'"
    ] * 2


@pytest.mark.parametrize("inline", [False, True])
@EVERY_ERA
def test_a_function_that_returns_a_coroutine_is_awaited(inline, era):
    async def later(name: str) -> str:
        await asyncio.sleep(0)
        return f"Hello {name}"

    server = Server("later")
    server.tool(name="get", inline=inline)(lambda name: later(name))
    server.prompt(name="get", inline=inline)(lambda name: later(name))
    server.resource("get://{name}", name="get", inline=inline)(lambda name: later(name))
    server.on_complete(lambda: later("Bob"))
    arguments = {"name": "get", "arguments": {"name": "Ada"}}
    assert text(ask(server, "tools/call", arguments, era)["result"]) == "Hello Ada"
    assert ask(server, "prompts/get", arguments, era)["result"]["messages"][0]["content"]["text"] == "Hello Ada"
    assert ask(server, "resources/read", {"uri": "get://Ada"}, era)["result"]["contents"][0]["text"] == "Hello Ada"
    ref = {"ref": {"type": "ref/prompt", "name": "get"}, "argument": {"name": "name", "value": ""}}
    assert ask(server, "completion/complete", ref, era)["result"]["completion"]["values"] == ["Hello Bob"]


@dataclass
class Trip:
    city: str
    nights: int = 2


@pytest.mark.covers("SCH-15")
@EVERY_ERA
def test_a_value_that_does_not_fit_its_annotation_is_never_sent(era, caplog):
    server = Server("promises")

    @server.tool
    def number() -> int:
        return "hunter2"

    @server.tool
    def ratio() -> float:
        return float("nan")

    @server.tool
    def trip() -> Trip:
        return {"city": "Oslo", "nights": "hunter2"}

    @server.tool
    def words() -> str:
        return 5

    @server.tool
    def block() -> list[types.TextContent]:
        return [types.TextContent("x", annotations=types.Annotations(priority=7))]

    names = ["number", "ratio", "trip", "words", "block"]
    assert [call(server, name, era) for name in names] == [INTERNAL] * len(names)
    for name, record in zip(names, caplog.records, strict=True):
        assert f"of '{name}'" in record.getMessage()
        assert "hunter2" not in str(record.exc_info[1])
    assert "$.nights: the value is not of type" in str(caplog.records[2].exc_info[1])
    assert "priority must be a number from 0 to 1, not 7" in str(caplog.records[4].exc_info[1])


@EVERY_ERA
def test_a_dataclass_that_comes_and_goes_keeps_its_defaults(era):
    server = Server("echo")

    @server.tool
    def get(trip: Trip) -> Trip:
        return trip

    assert call(server, era=era, trip={"city": "Oslo"})["structuredContent"] == {"city": "Oslo", "nights": 2}


# Plain dicts in the shape of the wire.


@pytest.mark.covers("SMP-01")
async def test_sampling_takes_messages_as_plain_dicts():
    server = Server("asking")

    @server.tool
    async def get(ctx: Context) -> str:
        answer = await ctx.sample(
            [
                {"role": "user", "content": {"type": "text", "text": "Hi"}},
                {"role": "assistant", "content": [{"type": "image", "data": "eA==", "mime_type": "image/png"}]},
                {"role": "user", "content": "Bye"},
            ],
            model_preferences={"hints": [{"name": "x"}], "costPriority": 0.5, "speed_priority": 1},
        )
        return answer.text

    async with WirePeer(server, capabilities={"sampling": {}}) as peer:
        id = peer.start("tools/call", {"name": "get"})
        asked = await peer.receive("sampling/createMessage")
        assert asked["params"]["messages"] == [
            {"role": "user", "content": {"type": "text", "text": "Hi"}},
            {"role": "assistant", "content": [{"type": "image", "data": "eA==", "mimeType": "image/png"}]},
            {"role": "user", "content": {"type": "text", "text": "Bye"}},
        ]
        assert asked["params"]["modelPreferences"] == {
            "hints": [{"name": "x"}],
            "costPriority": 0.5,
            "speedPriority": 1,
        }
        answer = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}
        peer.answer(asked["id"], answer)
        response = await peer.response(id)
    assert text(response["result"]) == "Hello"


@EVERY_ERA
@pytest.mark.parametrize(
    "given",
    [
        [{"uri": "a://b", "mimeType": "text/plain", "text": "x"}],
        ({"uri": "a://b", "mime_type": "text/plain", "text": "x"},),
        {"uri": "a://b", "mimeType": "text/plain", "text": "x"},
        {"contents": [{"uri": "a://b", "mimeType": "text/plain", "text": "x"}]},
        [types.ResourceContents("a://b", "text/plain", text="x")],
    ],
    ids=repr,
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_reader_may_return_contents_as_plain_dicts(given, whole, era):
    server = Server("reader")
    (server.on_read_resource if whole else server.resource("a://b"))(lambda: given)
    result = ask(server, "resources/read", {"uri": "a://b"}, era)["result"]
    assert result["contents"] == [{"uri": "a://b", "mimeType": "text/plain", "text": "x"}]


@pytest.mark.parametrize(
    "given", [[{"uri": "a", "text": "x", "stars": 5}], {"uri": "a"}, [{"uri": "a", "text": "b", "blob": "c"}], {}]
)
def test_other_dicts_of_a_reader_are_json(given):
    server = Server("reader")
    server.resource("a://b")(lambda: given)
    [contents] = ask(server, "resources/read", {"uri": "a://b"})["result"]["contents"]
    assert contents["mimeType"] == "application/json"


@EVERY_ERA
def test_prompts_completions_and_lists_may_be_plain_dicts_of_whole_results(era):
    server = Server("dicts")

    @server.prompt
    def get(tone: str = "kind") -> types.Json:
        block = {"type": "text", "text": "x", "annotations": {"last_modified": "2026-01-01"}}
        return {"description": "Says x", "messages": [{"role": "assistant", "content": block}], "_meta": {"a": 1}}

    @server.on_complete
    def complete() -> types.Json:
        return {"completion": {"values": ["a"], "hasMore": True}, "_meta": {"a": 1}}

    @server.on_list_resources
    def resources() -> types.Json:
        return {"resources": [{"uri": "a://b", "name": "b", "mime_type": "text/plain"}], "_meta": {"a": 1}}

    prompt = ask(server, "prompts/get", {"name": "get"}, era)["result"]
    assert (prompt["description"], prompt["_meta"]["a"]) == ("Says x", 1)
    assert prompt["messages"][0]["content"]["annotations"] == {"lastModified": "2026-01-01"}
    ref = {"ref": {"type": "ref/prompt", "name": "get"}, "argument": {"name": "tone", "value": ""}}
    completed = ask(server, "completion/complete", ref, era)["result"]
    assert completed["completion"] == {"values": ["a"], "hasMore": True}
    assert completed["_meta"]["a"] == 1
    listed = ask(server, "resources/list", {}, era)["result"]
    assert listed["resources"] == [{"uri": "a://b", "name": "b", "mimeType": "text/plain"}]
    assert listed["_meta"]["a"] == 1


# Arguments and names.


@pytest.fixture
def trips() -> Server:
    server = Server("trips")

    @server.tool
    def book(city: str, days: int = 3) -> str:
        return f"{city} {days}"

    @server.prompt
    def review(code: str = "") -> str:
        return code

    return server


@EVERY_ERA
def test_an_argument_that_looks_misspelled_is_refused_with_the_right_name(trips, era):
    result = call(trips, "book", era, city="Oslo", dayz=5)
    assert result["isError"] is True
    assert text(result) == "Invalid arguments: dayz: there is no such argument; did you mean 'days'?"
    said = text(call(trips, "book", era, citty="Oslo"))
    assert said == (
        "Missing required arguments: city. Invalid arguments: citty: there is no such argument; did you mean 'city'?"
    )
    error = ask(trips, "prompts/get", {"name": "review", "arguments": {"codes": "x"}}, era)["error"]
    assert (error["code"], error["message"]) == (
        -32602,
        "Invalid arguments: codes: there is no such argument; did you mean 'code'?",
    )


@pytest.mark.covers("TOOL-14")
def test_other_arguments_are_ignored_and_logged_for_debugging(trips, caplog):
    with caplog.at_level(logging.DEBUG, "dragoman"):
        result = call(trips, "book", city="Oslo", days="2", day=1, sessionId="1", x=[1])
    assert text(result) == "Oslo 2"
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (
        logging.DEBUG,
        "book() has no parameters for day, sessionId, x; they are ignored",
    )


def test_what_hosts_add_is_never_taken_for_a_misspelling():
    server = Server("hosts")
    server.tool(name="get")(lambda session_id="", actions="": f"{session_id}{actions}")
    assert text(call(server, sessionId="1", action="2", chatInput="3", toolCallId="4")) == ""


def test_a_strict_server_refuses_every_argument_that_a_tool_does_not_have():
    server = Server("strict", strict_arguments=True)

    @server.tool
    def get(city: str) -> str:
        return city

    @server.tool
    def anything(**more: int) -> str:
        return str(more)

    assert text(call(server, city="Oslo", x=1, sessionId="2")) == (
        "Invalid arguments: x: there is no such argument; sessionId: there is no such argument"
    )
    assert text(call(server, "anything", x=1)) == "{'x': 1}"


@pytest.mark.covers("TOOL-10")
def test_an_unknown_tool_or_prompt_names_the_closest(trips):
    error = ask(trips, "tools/call", {"name": "bok"})["error"]
    assert (error["code"], error["message"]) == (-32602, "Unknown tool: bok; did you mean book?")
    error = ask(trips, "prompts/get", {"name": "reviw"})["error"]
    assert (error["code"], error["message"]) == (-32602, "Unknown prompt: reviw; did you mean review?")
    for far in ("zzz", "b" * 1000):
        assert ask(trips, "tools/call", {"name": far})["error"]["message"] == f"Unknown tool: {far}"


@pytest.mark.covers("SCH-01")
def test_a_schema_that_lacks_what_the_function_needs_is_refused():
    schema = {"type": "object", "properties": {"town": {"type": "string"}}}
    with pytest.raises(DefinitionError, match="The input schema of the tool 'get' has no city, days, which"):
        tool(name="get", input_schema=schema)(lambda city, days: city)
    tool(name="get", input_schema={**schema, "allOf": [{"properties": {"city": {}}}]})(lambda city: city)
    tool(name="get", input_schema=schema)(lambda town, days=3: town)


@pytest.mark.covers("SCH-01", "TOOL-17")
@EVERY_ERA
@pytest.mark.parametrize("annotation", [None, dict, dict[str, Any]], ids=repr)
def test_a_function_of_one_dict_takes_all_arguments_of_its_schema(annotation, era):
    schema = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}

    def get(args):
        return ToolResult(repr(args))

    if annotation is not None:
        get.__annotations__["args"] = annotation
    server = Server("whole", tools=[tool(input_schema=schema)(get)])
    assert text(call(server, era=era, town="Oslo", x=1)) == "{'town': 'Oslo', 'x': 1}"
    assert text(call(server, era=era)) == "Missing required arguments: town"


def test_a_context_called_ctx_needs_no_annotation():
    server = Server("contexts")

    @server.tool
    async def later(city, ctx):
        return f"{city} {type(ctx).__name__}"

    @server.tool
    def now(ctx, city):
        return f"{city} {type(ctx).__name__}"

    assert text(call(server, "later", city="Oslo")) == "Oslo Context"
    assert text(call(server, "now", city="Oslo")) == "Oslo BlockingContext"
    listed = ask(server, "tools/list", {})["result"]["tools"]
    assert [list(one["inputSchema"]["properties"]) for one in listed] == [["city"], ["city"]]


def test_a_method_without_its_object_and_a_class_are_refused_with_the_remedy():
    remedy = r"register the method of an object instead, after the class, such as server\.tool\(thing\.get\)"
    with pytest.raises(DefinitionError, match=f"belongs to no object yet; {remedy}"):

        class Desk:
            @tool
            def get(self, city: str) -> str:
                return city

    with pytest.raises(DefinitionError, match=r"after the class, such as server\.tool\(Thing\.open\)"):

        class Shop:
            @tool
            @classmethod
            def open(cls) -> str:
                return "open"

    with pytest.raises(DefinitionError, match=r"Trip is a class, .* let the class extend dragoman\.Tool"):
        tool(Trip)
    with pytest.raises(DefinitionError, match="5 cannot be called: give a function"):
        Tool.define(5)


def test_any_arguments_may_include_one_called_self():
    server = Server("any")

    @server.tool
    def get(**more: Any) -> str:
        return str(more)

    assert text(call(server, self=1, function=2)) == "{'self': 1, 'function': 2}"


def test_a_handler_that_requires_nothing_is_an_error_of_its_author(caplog):
    server = Server("nothing")

    @server.tool
    def get() -> Any:
        return InputRequired()

    assert call(server) == INTERNAL
    assert "InputRequired needs questions" in caplog.text


# What is observed.


def observing(data: list[types.Json]) -> Configuration:
    return Configuration(instrumentation_callback=data.append)


@pytest.mark.covers("CFG-08")
def test_names_that_a_client_makes_up_are_no_labels():
    data: list[types.Json] = []
    server = Server("labels", configuration=observing(data))
    server.tool(name="get")(lambda: "x")
    for method, params in (
        ("tools/call", {"name": "made-up"}),
        ("prompts/get", {"name": "made-up"}),
        ("resources/read", {"uri": "made://up"}),
        ("tools/call", {"name": "get"}),
    ):
        ask(server, method, params)
    asked = [one for one in data if one["method"] != "initialize"]
    assert [one.get("error") for one in asked] == ["tool_not_found", "prompt_not_found", "resource_not_found", None]
    assert "made" not in str(asked)
    assert asked[3]["tool_name"] == "get"


@pytest.mark.covers("CAN-07", "CFG-09")
@pytest.mark.parametrize("then", ["passes it on", "returns", "fails", "refuses"])
async def test_cancelled_request_is_labeled_whatever_its_tool_does(then):
    data: list[types.Json] = []
    records: list[types.Json] = []
    begun = asyncio.Event()
    server = Server("cancelled", configuration=observing(data), audit=records.append)

    @server.tool
    async def get() -> str:
        begun.set()
        try:
            await asyncio.sleep(DEADLINE)
        except asyncio.CancelledError:
            if then == "passes it on":
                raise
            if then != "returns":
                raise (ToolError("late") if then == "refuses" else LookupError("late")) from None
        return "late"

    async with WirePeer(server) as peer:
        id = peer.start("tools/call", {"name": "get"})
        await begun.wait()
        peer.notify("notifications/cancelled", {"requestId": id, "reason": "bored"})
        await peer.request("ping")
    [observed] = [one for one in data if one["method"] == "tools/call"]
    assert (observed["error"], observed["cancel_reason"], observed["tool_name"]) == ("cancelled", "bored", "get")
    assert [record["outcome"] for record in records if record["method"] == "tools/call"] == ["cancelled"]


@pytest.mark.covers("CAN-07")
async def test_a_blocking_handler_is_told_of_its_cancellation_and_why(caplog):
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    heard: list[Any] = []
    server = Server("cancelled")

    @server.tool
    def get(ctx: BlockingContext) -> str:
        released = threading.Event()
        ctx.on_cancel(lambda: heard.append("taken back"))()
        ctx.on_cancel(lambda: heard.append(ctx.cancel_reason))
        ctx.on_cancel(lambda: 1 / 0)
        ctx.on_cancel(released.set)
        loop.call_soon_threadsafe(begun.set)
        released.wait(DEADLINE)
        ctx.on_cancel(lambda: heard.append("at once"))
        ended.set()
        return "late"

    async with WirePeer(server) as peer:
        id = peer.start("tools/call", {"name": "get"})
        await begun.wait()
        peer.notify("notifications/cancelled", {"requestId": id, "reason": "bored"})
        assert await asyncio.to_thread(ended.wait, DEADLINE)
    assert heard == ["bored", "at once"]
    [record] = caplog.records
    assert isinstance(record.exc_info[1], ZeroDivisionError)


def test_a_client_unwraps_the_results_of_both_marks():
    server = Server("marks")

    @server.tool
    def ours() -> list[int]:
        return [1]

    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "x-fastmcp-wrap-result": True}
    server.tool(name="theirs", output_schema=schema)(lambda: {"result": 5})
    for mode in ("handshake", "stateless"):
        with Client(server, mode=mode) as client:
            client.tools()
            assert client.call_tool("ours").structured == [1]
            assert client.call_tool("theirs").structured == 5


def test_methods_of_an_object_and_of_a_class_are_tools_prompts_and_resources():
    class Desk:
        city = "Oslo"

        def __init__(self, name: str) -> None:
            self.name = name

        def where(self, floor: int) -> str:
            """Says where the desk is."""
            return f"{self.name}, floor {floor}"

        async def greet(self) -> str:
            return f"Hello from {self.name}"

        @classmethod
        def town(cls) -> str:
            return cls.city

    desk, server = Desk("front"), Server()
    server.tool(desk.where)
    server.add_tool(Desk.town)
    server.tool("back", description="Another.")(Desk("back").where)
    server.prompt(desk.greet)
    server.resource("desk://front")(desk.greet)
    assert text(call(server, "where", floor=2)) == "front, floor 2"
    assert text(call(server, "town")) == "Oslo"
    assert text(call(server, "back", floor=3)) == "back, floor 3"
    [where, *_] = ask(server, "tools/list", {})["result"]["tools"]
    assert (where["description"], list(where["inputSchema"]["properties"])) == ("Says where the desk is.", ["floor"])
    prompt = ask(server, "prompts/get", {"name": "greet"})["result"]["messages"][0]["content"]["text"]
    assert prompt == ask(server, "resources/read", {"uri": "desk://front"})["result"]["contents"][0]["text"]
