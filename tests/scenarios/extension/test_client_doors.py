"""An extension on a client: bound to one of several clients, around its answers, and with unfinished results."""

import asyncio
from typing import Any

import pytest

from dragoman import (
    AsyncClient,
    AsyncClients,
    Context,
    InputNeeded,
    RpcError,
    Server,
    ToolError,
    types,
)
from dragoman.client import ClientExtension, ExtensionClient, ExtensionRow, FurtherResult, Method, ReceivedRequest
from dragoman.protocol.subscriptions import SubscriptionField
from dragoman.server import ServerExtension
from scenarios.extension.test_server import shown
from scenarios.http_crew import crew, until

ID = "com.example/weather"
CHANGED = "notifications/weather"
MODES = ["stateless", "handshake"]
ROW = ExtensionRow(
    id=ID,
    methods=(
        Method(name="weather/get", result=types.Result),
        Method(name="notifications/read", sender=("client",)),
        Method(name=CHANGED, sender=("server",)),
    ),
    subscriptions=(SubscriptionField(name="places", method=CHANGED),),
)


class Weather(ServerExtension):
    """The server's side: tells what changed, and notes what it is told."""

    rows = (ROW,)

    def __init__(self, name: str) -> None:
        self.name = name
        self.read = asyncio.Event()

    def handlers(self):
        return {"weather/get": self.get, "notifications/read": self.note}

    async def get(self, ctx, params):
        return {"weather": f"rain in {self.name}"}

    async def note(self, ctx, params):
        self.read.set()
        return {}


class Watching(ClientExtension):
    """The client's side: gets the weather whenever it hears that it changed."""

    rows = (ROW,)

    def __init__(self, heard: list[Any], client: ExtensionClient | None = None) -> None:
        self.heard, self.client = heard, client

    def bind(self, client):
        return Watching(self.heard, client)

    def notifications(self):
        return {CHANGED: self.changed}

    async def changed(self, params):
        client = self.client
        assert client is not None
        weather = (await client.send("weather/get"))["weather"]
        self.heard.append((client.server_name, weather, client.protocol_version, client.capabilities.extension(ID)))
        await client.notify("notifications/read")


@pytest.mark.parametrize("mode", MODES)
async def test_each_client_of_a_group_has_its_own_object_which_can_send(mode):
    heard: list[Any] = []
    watching = Watching(heard)
    sides = {name: Weather(name) for name in ("Oslo", "Bergen")}
    servers = {name: Server(name, extensions=[side]) for name, side in sides.items()}
    async with AsyncClients(servers, extensions=[watching], mode=mode) as clients:
        for name, server in servers.items():
            await clients[name].listen(places=True)
            server.notify(CHANGED)
            await asyncio.wait_for(sides[name].read.wait(), 10)
    version = "2026-07-28" if mode == "stateless" else "2025-11-25"
    assert sorted(heard) == [(name, f"rain in {name}", version, {}) for name in ("Bergen", "Oslo")]
    assert watching.client is None


async def test_an_object_may_keep_its_only_client_and_send_before_anybody_else():
    class Keeping(ClientExtension):
        rows = (ROW,)

        def bind(self, client):
            assert (client.protocol_version, client.capabilities) == (None, types.ServerCapabilities())
            self.client = client

    keeping = Keeping()
    async with AsyncClient(Server("Oslo", extensions=[Weather("Oslo")]), extensions=[keeping]):
        assert (await keeping.client.send("weather/get"))["weather"] == "rain in Oslo"
        assert repr(keeping.client) == "<ExtensionClient of 'Oslo'>"
        with pytest.raises(RpcError, match="weather/lose"):
            await keeping.client.send("weather/lose")


def asking() -> Server:
    server = Server()

    @server.tool
    async def ask(ctx: Context) -> str:
        sampled = await ctx.sample("Say hello")
        answer = await ctx.elicit("Who?", str)
        roots = await ctx.list_roots()
        return f"{sampled.text}, {answer.content}, {len(roots)}"

    return server


class Around(ClientExtension):
    """Notes what is asked, and changes what is answered."""

    def __init__(self, name: str, seen: list[Any]) -> None:
        self.rows = (ExtensionRow(id=f"com.example/{name}"),)
        self.name, self.seen = name, seen

    async def around_answer(self, request: ReceivedRequest, call_next):
        self.seen.append((self.name, request.method, request.params.get("message")))
        result = await call_next()
        if request.method == "elicitation/create":
            return {"action": "accept", "content": {"value": f"{result.content['value']} {self.name}"}}
        return result


def answers(**options: Any) -> dict[str, Any]:
    return {
        "on_sampling": lambda request: "hello",
        "on_elicitation": lambda request: {"value": "Ann"},
        "roots": ["/tmp"],
        **options,
    }


@pytest.mark.parametrize("mode", MODES)
async def test_extensions_stand_around_the_answers_of_the_client_in_both_eras(mode):
    seen: list[Any] = []
    outer, inner = Around("outer", seen), _Second("inner", seen)
    async with AsyncClient(asking(), mode=mode, extensions=[outer, inner], **answers()) as client:
        assert (await client.call_tool("ask")).text == "hello, Ann inner outer, 1"
    asked = [("sampling/createMessage", None), ("elicitation/create", "Who?"), ("roots/list", None)]
    assert seen == [(name, *one) for one in asked for name in ("outer", "inner")]


class _Second(Around):
    async def around_answer(self, request: ReceivedRequest, call_next):
        self.seen.append((self.name, request.method, request.params.get("message")))
        result = await call_next()
        if isinstance(result, types.ElicitResult):
            result.content["value"] += f" {self.name}"
        return result


@pytest.mark.parametrize(("mode", "raised"), [("stateless", InputNeeded), ("handshake", ToolError)])
async def test_an_extension_may_refuse_what_is_asked(mode, raised):
    class Refusing(Around):
        async def around_answer(self, request, call_next):
            raise RpcError(-1, "not today")

    async with AsyncClient(asking(), mode=mode, extensions=[Refusing("a", [])], **answers()) as client:
        with pytest.raises(raised, match="not today"):
            await client.call_tool("ask")


async def test_an_answer_may_come_later_than_the_response():
    """As the tasks of 2025-11-25 let a client do it: the response is a task, and the handler runs on."""
    seen: list[Any] = []

    class Tasking(ClientExtension):
        rows = (ExtensionRow(id=ID),)

        async def around_answer(self, request, call_next):
            self.task = asyncio.create_task(call_next())
            return {"task": {"taskId": "1", "related": request.params["_meta"]}}

    class Asking(ServerExtension):
        rows = (ExtensionRow(id=ID),)

        async def around_call(self, ctx, call_next):
            asked = {"messages": [], "maxTokens": 1, "_meta": {"a": 1}}
            seen.append(await ctx.request("sampling/createMessage", asked))
            return await call_next()

    server, tasking = Server(extensions=[Asking()]), Tasking()
    server.tool(name="ask")(lambda: "asked")
    async with AsyncClient(server, mode="handshake", extensions=[tasking], **answers()) as client:
        assert (await client.call_tool("ask")).text == "asked"
        assert seen == [{"task": {"taskId": "1", "related": {"a": 1}}}]
        assert (await tasking.task).content.text == "hello"


@pytest.mark.parametrize("mode", MODES)
async def test_a_result_of_a_further_type_can_be_had_as_it_came(mode):
    module = shown()

    @module.server.tool
    def mix(color: bool) -> str:
        return "mixed"

    async with AsyncClient(module.server, mode=mode, extensions=[module.Buying(20)]) as client:
        result = await client.call_tool_unfinished("paint", {"color": "red"})
        assert isinstance(result, FurtherResult)
        assert (result.result_type, result.fields["price"]) == ("quote", 12)
        assert repr(result) == "<FurtherResult of the type 'quote'>"
        assert (await client.call_tool("paint", {"color": "red"})).text == "The house is red."
        done = await client.call_tool_unfinished("raise_prices", timeout=5)
        assert not isinstance(done, FurtherResult)
        assert done.text == "done"
        with pytest.raises(ToolError, match="color"):
            await client.call_tool_unfinished("mix", {"color": 3})
        failed = await client.call_tool_unfinished("mix", {"color": 3}, raise_on_error=False)
        assert not isinstance(failed, FurtherResult)
        assert failed.is_error


async def test_an_unfinished_call_needs_the_approval_of_any_other():
    module, asked = shown(), []

    def approve(call):
        asked.append((call.name, dict(call.arguments)))
        return len(asked) < 2

    async with AsyncClient(module.server, extensions=[module.Buying(20)], on_approval=approve) as client:
        assert isinstance(await client.call_tool_unfinished("paint", {"color": "red"}), FurtherResult)
        with pytest.raises(ToolError, match="cancelled"):
            await client.call_tool_unfinished("paint", {"color": "red"})
    assert asked == [("paint", {"color": "red"})] * 2


MIRRORING = """
    import sys
    from dragoman import Server, types
    from dragoman.server import ExtensionRow, ServerExtension

    class Quoting(ServerExtension):
        rows = (ExtensionRow(id="com.example/quotes", result_types={"quote": ("tools/call",)}),)

        async def around_call(self, ctx, call_next):
            return {"resultType": "quote", "region": ctx.headers["mcp-param-region"]}

    server = Server(extensions=[Quoting()])
    region = {"type": "string", "x-mcp-header": "Region"}

    @server.tool(input_schema={"type": "object", "properties": {"region": region}})
    def deploy(region: str) -> str:
        return region

    server.run("http", port=int(sys.argv[1]), workers=int(sys.argv[2]))
"""


async def test_an_unfinished_call_mirrors_its_arguments_in_headers():
    class Quoting(ClientExtension):
        rows = (ExtensionRow(id="com.example/quotes", result_types={"quote": ("tools/call",)}),)

    async with crew(1, MIRRORING) as processes:
        await processes.ready()
        async with AsyncClient(processes.url, mode="stateless", extensions=[Quoting()]) as client:
            result = await until(lambda: client.call_tool_unfinished("deploy", {"region": "north"}))
    assert isinstance(result, FurtherResult)
    assert result.fields["region"] == "north"
