"""An extension of an author's own on a client, in both eras."""

import asyncio

import msgspec
import pytest

import dragoman
from dragoman import AsyncClient, AsyncClients, Timeout, TransportError, types
from dragoman.client import ClientExtension, ExtensionRow, Method, SubscriptionField
from dragoman.errors import CapabilityNotAvailable, ConfigError, ToolError
from dragoman.protocol.versions import V2025_11_25, V2026_07_28
from scenarios.client_peer import Script, until
from scenarios.scripted_server import EVERYTHING, HOLD, ScriptedServer, page

ID = "com.example/quotes"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
OFFERED = {**EVERYTHING, "extensions": {ID: {}}}
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


class Price(msgspec.Struct, rename="camel"):
    price: int | None = None
    price_unit: str | None = None


class Currency(msgspec.Struct):
    currency: str | None = None


class QuoteParams(types.Params):
    quote_id: str
    price: int = 0


ROW = ExtensionRow(
    id=ID,
    settings={"currencies": ["EUR"]},
    methods=(
        Method(name="quotes/get", params=QuoteParams, result=types.Result, name_from="quoteId", repeatable=True),
        Method(name="quotes/accept", params=QuoteParams, result=types.CallToolResult, progresses=True),
        Method(name="quotes/confirm", params=QuoteParams, result=types.Result, sender=("server",)),
        Method(name="notifications/quotes/changed", params=QuoteParams, sender=("server",)),
    ),
    params={"tools/call": Currency},
    entries={"tools/list": Price},
    result_types={"quote": ("tools/call",)},
    subscriptions=(SubscriptionField(name="quote_ids", method="notifications/quotes/changed"),),
)


class Quotes(ClientExtension):
    """Accepts each quote, and notes what it hears."""

    rows = (ROW,)

    def __init__(self, currency="EUR"):
        self.currency = currency
        self.changes = []
        self.confirmed = []
        self.seen = []

    def params(self, request):
        self.seen.append((request.method, request.protocol_version, request.tool and request.tool.name))
        return {"currency": self.currency}

    async def finish(self, request, result):
        assert request.capabilities.extension(ID) is not None
        accepted = {name: result.get(name) for name in ("quoteId", "currency", "token")}
        return await request.send("quotes/accept", accepted)

    def notifications(self):
        return {"notifications/quotes/changed": self.changes.append}

    def requests(self):
        return {"quotes/confirm": self.confirm}

    async def confirm(self, params):
        self.confirmed.append(params.quote_id)
        return {"confirmed": True}


@ERAS
async def test_a_result_is_finished_by_a_method_of_the_extension_with_its_progress(era):
    def accepted(params):
        token = params["_meta"]["progressToken"]
        server.say("notifications/progress", {"progressToken": token, "progress": 1, "message": "accepted"})
        return {"content": [{"type": "text", "text": "bought"}]}

    answers = {"tools/call": {"resultType": "quote", "quoteId": "q"}, "quotes/accept": accepted}
    server = ScriptedServer(answers, stateless=era == "stateless", capabilities=OFFERED)
    quotes, progress = Quotes(), []
    async with AsyncClient(server, mode=era, extensions=[quotes]) as client:
        told = await client.call_tool("buy", on_progress=lambda _, total, message: progress.append(message))
        assert (told.text, progress) == ("bought", ["accepted"])
        version = "2026-07-28" if era == "stateless" else "2025-11-25"
        assert quotes.seen == [("tools/call", version, None)]
        own = await client.request("tools/call", {"name": "buy", "currency": "NOK"})
        assert own["resultType"] == "quote"
    assert [params["currency"] for params in server.sent("tools/call")] == ["EUR", "NOK"]


@ERAS
@pytest.mark.parametrize(
    ("extensions", "result_type", "said"),
    [
        ([Quotes()], "haggling", "unknown type 'haggling', and no extension of this client"),
        (None, "haggling", f"tools/call is of the unknown type 'haggling'.*'{ID}'"),
        ({ID: {}}, "quote", f"'quote'.*'{ID}'.*settings alone do not read results"),
    ],
)
async def test_a_result_of_an_unknown_type_names_the_extensions_of_the_server(era, extensions, result_type, said):
    answers = {"tools/call": {"resultType": result_type}}
    server = ScriptedServer(answers, stateless=era == "stateless", capabilities=OFFERED)
    async with AsyncClient(server, mode=era, extensions=extensions) as client:
        with pytest.raises(TransportError, match=said):
            await client.call_tool("buy")


async def test_a_result_of_an_official_extension_names_it():
    server = ScriptedServer({"tools/call": {"resultType": "task", "taskId": "1"}}, stateless=True)
    async with AsyncClient(server, mode="stateless") as client:
        with pytest.raises(TransportError, match=r"'task'.*'io\.modelcontextprotocol/tasks'"):
            await client.call_tool("t")


def declared(server, era):
    if era == "handshake":
        return server.sent("initialize")[0]["capabilities"]
    return server.sent("tools/call")[0]["_meta"][types.CLIENT_CAPABILITIES]


@ERAS
async def test_what_is_declared_is_merged_over_what_is_configured_under_one_name(era):
    dragoman.configure(extensions={ID: {"a": {"b": 1, "c": 1}}, "io.modelcontextprotocol/apps": {"mimeTypes": []}})
    try:
        server = ScriptedServer({"tools/call": {"content": []}}, stateless=era == "stateless")
        given = [Quotes(), {ID: {"a": {"c": 2}}, "com.example/maps": {}}]
        async with AsyncClient(server, mode=era, extensions=iter(given)) as client:
            await client.call_tool("t")
    finally:
        dragoman.configure(extensions=None)
    assert declared(server, era)["extensions"] == {
        ID: {"a": {"b": 1, "c": 2}, "currencies": ["EUR"]},
        "io.modelcontextprotocol/ui": {"mimeTypes": []},
        "com.example/maps": {},
    }


class Generations(ClientExtension):
    """Two generations, of which the first is declared elsewhere and does not name its results."""

    rows = (
        ExtensionRow(
            id="com.example/jobs",
            capability=("tasks",),
            settings={"list": {}},
            since=V2025_11_25,
            until=V2025_11_25,
            params={"tools/call": Currency},
            result_types={"job": ("tools/call",)},
        ),
        ExtensionRow(id="com.example/jobs", settings={"new": True}, since=V2026_07_28),
    )

    def params(self, request):
        return {"currency": "EUR"}

    def result_type(self, method, result):
        return "job" if "job" in result else None

    async def finish(self, request, result):
        request.report_progress(0.5, 1, "half")
        asked = {"n": types.ElicitRequest(types.ElicitRequestParams("How many?", requested_schema=SCHEMA))}
        answers = await request.answer(asked)
        return types.CallToolResult([types.TextContent(f"{result['job']} {answers['n'].content}")])


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2025-06-18", {}),
        ("2025-11-25", {"tasks": {"list": {}}}),
        ("2026-07-28", {"extensions": {"com.example/jobs": {"new": True}}}),
    ],
)
async def test_each_generation_is_declared_in_its_versions_and_in_its_place(version, expected):
    era = "stateless" if version == "2026-07-28" else "handshake"
    server = ScriptedServer({"tools/call": {"content": []}}, stateless=era == "stateless")
    if version == "2025-06-18":
        server.answers["initialize"] = {
            "protocolVersion": version,
            "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"},
        }
    async with AsyncClient(server, protocol_version=version, extensions=[Generations()]) as client:
        await client.call_tool("t")
    assert declared(server, era) == expected


async def test_a_result_that_does_not_name_its_type_is_finished_with_progress_and_answers():
    server = ScriptedServer({"tools/call": {"job": 7}}, capabilities={**EVERYTHING, "tasks": {}})
    told = []
    options = {"on_elicitation": lambda request: {"n": 2}, "on_progress": lambda *given: told.append(given)}
    async with AsyncClient(server, mode="handshake", extensions=[Generations()], **options) as client:
        assert (await client.call_tool("t")).text == "7 {'n': 2}"
        assert (await client.request("tools/call", {"name": "t"})) == {"job": 7}
        await until(lambda: told)
    assert told == [(0.5, 1, "half")]
    assert [sent["currency"] for sent in server.sent("tools/call")] == ["EUR", "EUR"]


async def test_parameters_go_only_to_a_server_that_declared_the_extension():
    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server, mode="handshake", extensions=[Quotes()]) as client:
        await client.call_tool("t")
        with pytest.raises(CapabilityNotAvailable, match="quote_ids"):
            await client.listen(quote_ids=True)
    assert "currency" not in server.sent("tools/call")[0]


async def test_the_server_asks_by_a_method_of_the_extension_and_notifications_that_do_not_fit_are_left_out(caplog):
    server, quotes = ScriptedServer(capabilities=OFFERED), Quotes()
    async with AsyncClient(server, mode="handshake", extensions=[quotes]):
        server.say("quotes/confirm", {"quoteId": "q-9"}, id="ask")
        server.say("quotes/confirm", {"quoteId": 9}, id="misfit")
        server.say("notifications/quotes/changed", {"price": "x"})
        await server.until(lambda: sum("method" not in message for message in server.received) == 2)
    answers = {message["id"]: message for message in server.received if "method" not in message}
    assert answers["ask"]["result"] == {"confirmed": True}
    assert answers["misfit"]["error"]["code"] == -32602
    assert (quotes.confirmed, quotes.changes) == (["q-9"], [])
    assert "notifications/quotes/changed of the server cannot be read" in caplog.text


async def test_a_server_that_has_not_declared_the_extension_is_not_served_by_it():
    server, quotes = ScriptedServer(), Quotes()
    async with AsyncClient(server, mode="handshake", extensions=[quotes]):
        server.say("quotes/confirm", {"quoteId": "q-9"}, id="ask")
        await server.until(lambda: any("method" not in message for message in server.received))
    assert next(message for message in server.received if "method" not in message)["error"]["code"] == -32601
    assert quotes.confirmed == []


class Waiting(Quotes):
    """Waits for what never comes, and says so when nobody waits for it any more."""

    async def finish(self, request, result):
        try:
            return await request.send("quotes/accept", {"quoteId": result["quoteId"]})
        except asyncio.CancelledError:
            request.send_later("quotes/get", {"quoteId": "given up"})
            request.send_later("quotes/refused")
            raise


@ERAS
@pytest.mark.parametrize("how", ["cancelled", "total", "idle"])
async def test_a_result_that_is_being_finished_keeps_to_the_time_of_the_call_and_is_cancelled_with_it(era, how):
    answers = {"tools/call": {"resultType": "quote", "quoteId": "q"}, "quotes/accept": HOLD, "quotes/get": {}}
    server = ScriptedServer(answers, stateless=era == "stateless", capabilities=OFFERED)
    async with AsyncClient(server, mode=era, extensions=[Waiting()]) as client:
        limits = {"cancelled": {}, "total": {"total_timeout": 0.1}, "idle": {"timeout": 0.1}}[how]
        call = asyncio.create_task(client.call_tool("t", **limits))
        await server.until(lambda: server.sent("quotes/accept"))
        if how == "cancelled":
            call.cancel()
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else Timeout):
            await call
        await server.until(lambda: server.sent("notifications/cancelled"))
        if how != "idle":
            await server.until(lambda: server.sent("quotes/refused"))
            assert server.sent("quotes/get")[0]["quoteId"] == "given up"


async def test_what_an_extension_gives_must_be_the_ordinary_result():
    class Looping(Quotes):
        async def finish(self, request, result):
            return result

    class Failing(Quotes):
        async def finish(self, request, result):
            return {"content": [{"type": "text", "text": "sold out"}], "isError": True}

    class Idle(ClientExtension):
        rows = (ROW,)

    answers = {"tools/call": {"resultType": "quote", "quoteId": "q"}}
    for extension, error, said in (
        (Looping(), TransportError, f"{ID} did not finish the result of tools/call"),
        (Failing(), ToolError, "sold out"),
        (Idle(), NotImplementedError, "Idle does not finish results of tools/call"),
    ):
        server = ScriptedServer(answers, stateless=True, capabilities=OFFERED)
        async with AsyncClient(server, mode="stateless", extensions=[extension]) as client:
            with pytest.raises(error, match=said):
                await client.call_tool("t")


async def test_a_subscription_is_replaced_and_ended_and_an_unknown_one_is_refused():
    server, quotes = ScriptedServer(stateless=True, capabilities=OFFERED), Quotes()
    async with AsyncClient(server, mode="stateless", extensions=[quotes]) as client:
        await client.subscribe("file:///a")
        assert (await client.listen(quote_ids=("a",))).quote_ids == ["a"]
        assert (await client.listen(quote_ids=True)).quote_ids is True
        assert (await client.listen(quote_ids=None)).quote_ids is None
        with pytest.raises(TypeError, match=r"'quotes'; there are.*quote_ids"):
            await client.listen(quotes=True)
        with pytest.raises(TypeError, match="there are"):
            await client.listen(tools_list_changed=True)
    wanted = [params["notifications"] for params in server.sent("subscriptions/listen")]
    assert wanted == [
        {"resourceSubscriptions": ["file:///a"]},
        {"resourceSubscriptions": ["file:///a"], "quoteIds": ["a"]},
        {"resourceSubscriptions": ["file:///a"], "quoteIds": True},
        {"resourceSubscriptions": ["file:///a"]},
    ]


@ERAS
async def test_a_notification_of_the_client_says_who_sends_it_where_every_message_does(era):
    server = ScriptedServer(stateless=era == "stateless", capabilities=OFFERED)
    async with AsyncClient(server, mode=era, extensions=[Quotes()]) as client:
        await client.notify("notifications/quotes/seen", {"quoteId": "q"})
        (told,) = await server.until(lambda: server.sent("notifications/quotes/seen"))
    meta = told.pop("_meta", {})
    assert told == {"quoteId": "q"}
    assert (ID in meta.get(types.CLIENT_CAPABILITIES, {}).get("extensions", {})) is (era == "stateless")


async def test_resources_and_templates_have_readers_too():
    class Reading(ClientExtension):
        rows = (ExtensionRow(id=ID, entries={"resources/list": Price}),)

        def read_resource(self, resource):
            return super().read_resource(resource) or type(resource).__name__

    resources = page("resources", "a", "b")
    resources["resources"][0]["price"] = 5
    answers = {
        "resources/list": resources,
        "resources/templates/list": page("resourceTemplates", "t"),
        "prompts/list": page("prompts", "p"),
        "tools/list": page("tools", "t"),
    }
    async with AsyncClient(ScriptedServer(answers), mode="handshake", extensions=[Reading()]) as client:
        found = [resource.extension(ID) for resource in await client.resources()]
        assert found == [Price(5), "Resource"]
        assert (await client.resource_template("t")).extension(ID) == "ResourceTemplate"
        assert (await client.prompt("p")).extension(ID) is None
        assert (await client.tool("t")).extension(ID) is None
        assert (await client.resource("a")).extension("com.example/other") is None


async def test_a_group_gives_its_extensions_to_each_and_an_entry_adds_settings(tmp_path):
    script = Script(tmp_path, "def answer(m):\n    if m['method'] == 'initialize': initialized(m)")
    servers = {name: ScriptedServer({"tools/call": {"content": []}}) for name in ("a", "b")}
    group = AsyncClients(servers, mode="handshake", extensions=iter([Quotes()]))
    entry = {"command": script.command[0], "args": script.command[1:], "extensions": {ID: {"vip": True}}}
    async with group as clients:
        await clients.add("c", entry)
        told = (await script.until_received("initialize"))["params"]["capabilities"]["extensions"]
    assert told == {ID: {"currencies": ["EUR"], "vip": True}}
    for server in servers.values():
        assert declared(server, "handshake")["extensions"] == {ID: {"currencies": ["EUR"]}}


async def test_an_entry_whose_extensions_are_no_settings_says_so():
    group = AsyncClients({"a": {"command": "x", "extensions": {ID: 3}}})
    with pytest.raises(ConfigError, match=r"extensions.*object of settings"):
        await group["a"].start()
