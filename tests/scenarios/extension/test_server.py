"""An extension of an author's own, as the documentation shows it, seen from the wire."""

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from dragoman import AsyncClient, Configuration, Server, configure, types
from dragoman.auth import Identity
from dragoman.client import ClientExtension
from dragoman.errors import MissingCapability
from dragoman.server import ExtensionRow, Method, ServerExtension
from dragoman.testing import WirePeer
from scenarios.http_crew import RUN
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer, serve

PAGE = Path(__file__).resolve().parents[3] / "docs/extensions.md"
SOURCE = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
MODULE = SOURCE.partition("\nif __name__")[0] + "\nimport sys\n" + RUN.strip()
ID = "com.example/quotes"
CHANGED = "notifications/quotes/changed"
DECLARED: types.Json = {"extensions": {ID: {}}}
ERAS = ["stateless", "handshake", "2025-06-18"]
LACKING = {"stateless": -32021, "handshake": -32603, "2025-06-18": -32603}


def shown() -> Any:
    """Return the module of the documentation, made anew."""
    module = ModuleType("quotes")
    exec(compile(SOURCE, "quotes.py", "exec"), module.__dict__)
    return module


async def asked(server: Server, method: str, params: types.Json | None, era: str, **declared: Any) -> types.Json:
    async with WirePeer(server, era, capabilities=declared or DECLARED) as peer:
        return await peer.request(method, params)


def paint(**added: Any) -> types.Json:
    return {"name": "paint", "arguments": {"color": "red"}, **added}


@pytest.mark.covers("EXS-01")
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_it_is_declared_by_the_handshake_in_the_versions_that_have_it(version):
    async with WirePeer(shown().server, version, capabilities=DECLARED) as peer:
        told = peer.initialized["result"]["capabilities"].get("extensions")
        listed = (await peer.request("tools/list"))["result"]["tools"][0]
        code = (await peer.request("quotes/get", {"tool": "paint"})).get("error", {}).get("code")
    exists = version >= "2025-06-18"
    assert (told, listed.get("price"), code) == (
        ({ID: {"currency": "EUR"}}, 12, None) if exists else (None, None, -32601)
    )


@pytest.mark.covers("EXS-01")
async def test_it_is_declared_by_discovery():
    told = (await asked(shown().server, "server/discover", None, "stateless"))["result"]
    assert told["capabilities"]["extensions"] == {ID: {"currency": "EUR"}}


@pytest.mark.covers("EXS-02")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("params", [{"tool": "paint"}, {"tool": 5}, {}], ids=str)
async def test_a_client_that_did_not_declare_it_is_refused_before_its_parameters_are_read(params, era):
    error = (await asked(shown().server, "quotes/get", params, era, extensions={"com.example/other": {}}))["error"]
    assert (error["code"], error["data"]) == (LACKING[era], {"requiredCapabilities": {"extensions": {ID: {}}}})


@pytest.mark.covers("EXS-02")
@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_needs_it_refuses_such_a_client_too(era):
    response = await asked(shown().server, "tools/call", paint(), era, roots={})
    if era == "stateless":
        error = response["error"]
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"extensions": {ID: {}}}})
    else:  # this era has no error for it, so the model reads it
        assert response["result"]["isError"]
        assert ID in response["result"]["content"][0]["text"]


@pytest.mark.covers("EXS-03")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("declared", [DECLARED, {"roots": {}}], ids=str)
async def test_a_server_without_it_has_no_such_method(declared, era):
    for server in (Server(), Server(extensions={ID: {}}), Server(extensions=[])):
        assert (await asked(server, "quotes/get", {"tool": "paint"}, era, **declared))["error"]["code"] == -32601


@pytest.mark.covers("EXS-04")
@pytest.mark.parametrize("era", ERAS)
async def test_its_method_takes_typed_parameters_and_answers_by_its_result(era):
    server = shown().server
    result = (await asked(server, "quotes/get", {"tool": "paint"}, era))["result"]
    assert (result["tool"], result["price"]) == ("paint", 12)
    assert result.get("resultType") == ("complete" if era == "stateless" else None)
    for params in ({"tool": "raise_prices"}, {"tool": 5}, {}):
        assert (await asked(server, "quotes/get", params, era))["error"]["code"] == -32602


@pytest.mark.covers("EXS-04", "EXS-06")
@pytest.mark.parametrize("era", ERAS)
async def test_a_quote_answers_a_call_until_the_added_parameter_accepts_it(era):
    server = shown().server
    for added in ({}, {"acceptedPrice": 11}, {"acceptedPrice": None}):
        quote = (await asked(server, "tools/call", paint(**added), era))["result"]
        assert (quote["price"], "content" in quote) == (12, False)
        assert quote.get("resultType") == ("quote" if era == "stateless" else None)
    painted = (await asked(server, "tools/call", paint(acceptedPrice=12), era))["result"]
    assert painted["content"] == [{"type": "text", "text": "The house is red."}]
    assert painted.get("resultType") == ("complete" if era == "stateless" else None)
    assert (await asked(server, "tools/call", {"name": "raise_prices"}, era, roots={}))["result"]["content"]
    error = (await asked(server, "tools/call", {"name": "pain"}, era, roots={}))["error"]
    assert error["message"] == "Unknown tool: pain; did you mean paint?"


@pytest.mark.covers("EXS-05")
async def test_entries_have_its_fields_also_page_by_page_and_for_some_only():
    module = shown()
    module.server.page_size = 1
    pages = []
    async with WirePeer(module.server, "stateless") as peer:
        for cursor in (None, "1"):
            page = (await peer.request("tools/list", {"cursor": cursor}))["result"]
            pages.append([(tool["name"], tool.get("price")) for tool in page["tools"]])
        assert pages == [[("paint", 12)], [("raise_prices", None)]]
        module.server.page_size = None
        module.server.tool(price=3, name="mend")(lambda: "mended")
        await peer.request("tools/list")
        module.quotes.change("raise_prices", 2)
        listed = (await peer.request("tools/list"))["result"]["tools"]
    assert [tool["price"] for tool in listed] == [12, 2, 3]


@pytest.mark.covers("EXS-05")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("changes", [False, True])
async def test_entries_keep_its_fields_through_middleware(changes, era):
    module, seen = shown(), []

    @module.server.middleware
    async def rename(ctx, call_next):
        page = await call_next()
        if isinstance(page, types.ListToolsResult):
            seen.append([getattr(tool, "price", None) for tool in page.tools])
            if changes:
                page.tools[0].title = "Painting"
        return page

    async with WirePeer(module.server, era, capabilities=DECLARED) as peer:
        first, second = (await peer.request("tools/list"))["result"]["tools"]
    assert (first.get("title"), first["price"], second.get("price")) == ("Painting" if changes else None, 12, None)
    assert seen == [[12, None]]


@pytest.mark.covers("EXS-05")
async def test_entries_keep_its_fields_for_callers_with_scopes_and_middleware():
    module = shown()
    module.server.tool(name="secret", scopes=["admin"], price=7)(lambda: "secret")

    @module.server.middleware
    async def change(ctx, call_next):
        page = await call_next()
        page.tools[0].title = "Painting"
        return page

    peer = HttpPeer(serve(module.server, auth=lambda request: Identity("ann", frozenset())), STATELESS)
    listed = (await peer.request("tools/list")).json["result"]["tools"]
    assert [(tool["name"], tool.get("price")) for tool in listed] == [("paint", 12), ("raise_prices", None)]


async def subscribed(peer: WirePeer, wanted: types.Json) -> types.Json:
    peer.start("subscriptions/listen", {"notifications": wanted}, id="s")
    return (await peer.receive())["params"]["notifications"]


@pytest.mark.covers("EXS-07")
async def test_who_subscribed_to_a_subject_is_told_of_it_and_of_nothing_else():
    module = shown()
    async with WirePeer(module.server, "stateless", capabilities=DECLARED) as peer:
        assert await subscribed(peer, {"quotedTools": ["paint", "unknown"]}) == {"quotedTools": ["paint"]}
        module.quotes.change("mend", 1)
        await asyncio.to_thread(module.quotes.change, "paint", 14)
        module.quotes.change("paint", 15)
        for price in (14, 15):
            told = await peer.receive()
            assert told["method"] == CHANGED
            assert told["params"] == {"tool": "paint", "price": price, "_meta": {types.SUBSCRIPTION_ID: "s"}}
    async with WirePeer(module.server, "stateless", capabilities=DECLARED) as peer:
        assert await subscribed(peer, {"quotedTools": True, "toolsListChanged": True}) == {
            "quotedTools": True,
            "toolsListChanged": True,
        }
        module.quotes.change("mend", 1)
        assert (await peer.receive())["params"]["tool"] == "mend"


@pytest.mark.covers("EXS-02", "EXS-07")
async def test_a_client_that_did_not_declare_it_cannot_subscribe_but_to_the_rest():
    server = shown().server
    error = (
        await asked(server, "subscriptions/listen", {"notifications": {"quotedTools": []}}, "stateless", roots={})
    )["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"extensions": {ID: {}}}})
    async with WirePeer(server, "stateless") as peer:
        assert await subscribed(peer, {"toolsListChanged": True}) == {"toolsListChanged": True}
    async with WirePeer(Server(), "stateless", capabilities=DECLARED) as peer:
        assert await subscribed(peer, {"quotedTools": True}) == {}


@pytest.mark.covers("EXS-07")
@pytest.mark.parametrize(("capabilities", "heard"), [(DECLARED, [{"all": 1}]), ({}, [])], ids=str)
async def test_in_the_handshake_era_only_what_has_no_subject_is_told_to_who_declared_it(capabilities, heard):
    module = shown()
    async with WirePeer(module.server, "handshake", capabilities=capabilities) as peer:
        module.quotes.change("paint", 14)
        module.server.notify(CHANGED, params={"all": 1})
        module.server.notify_tools_list_changed()
        await peer.receive("notifications/tools/list_changed")
        assert [message["params"] for message in peer.received if message["method"] == CHANGED] == heard


class Library(ServerExtension):
    """An extension that the server alone declares, as that of skills."""

    rows = (
        ExtensionRow(
            id=ID,
            one_sided=True,
            methods=(
                Method(name="books/list", result=types.Result),
                Method(name="notifications/books", sender=("server",)),
            ),
            result_types={"loan": ("tools/call",)},
        ),
    )

    def handlers(self):
        return {"books/list": self.list}

    async def list(self, ctx, params):
        return {"books": ["Emma"]}

    async def around_call(self, ctx, call_next):
        return {"resultType": "loan", "book": "Emma"}


@pytest.mark.covers("EXS-02")
@pytest.mark.parametrize("era", ERAS)
async def test_an_extension_that_clients_do_not_declare_serves_every_client(era):
    server = Server(extensions=[Library()])
    server.tool(name="paint")(lambda color: color)
    async with WirePeer(server, era) as peer:
        assert (await peer.request("books/list"))["result"]["books"] == ["Emma"]
        assert (await peer.request("tools/call", paint()))["result"]["book"] == "Emma"
        if era == "stateless":
            told = (await peer.request("server/discover"))["result"]
        else:
            told = peer.initialized["result"]
            server.notify("notifications/books", params={"book": "Emma"})
            assert (await peer.receive())["params"] == {"book": "Emma"}
        assert told["capabilities"]["extensions"] == {ID: {}}


@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_our_client_uses_it_without_declaring_it(mode):
    class Reading(ClientExtension):
        rows = Library.rows
        heard: ClassVar[list[Any]] = []

        def notifications(self):
            return {"notifications/books": self.heard.append}

        async def finish(self, request, result):
            return {"content": [{"type": "text", "text": result["book"]}]}

        def result_type(self, method, result):
            return "loan" if "book" in result else None

    declared = []
    server = Server(extensions=[Library()])
    server.tool(name="paint")(lambda color: color)

    @server.middleware
    async def note(ctx, call_next):
        declared.append(ctx.client.extension(ID))
        return await call_next()

    async with AsyncClient(server, mode=mode, extensions=[Reading()]) as client:
        assert client.capabilities.extension(ID) == {}
        assert (await client.request("books/list"))["books"] == ["Emma"]
        assert (await client.call_tool("paint", {"color": "red"})).text == "Emma"
        if mode == "handshake":
            server.notify("notifications/books", params={"book": "Emma"})
            await client.ping()
            assert Reading.heard == [{"book": "Emma"}]
    assert set(declared) == {None}


def painting(extension: ServerExtension) -> Server:
    """Return a server with an extension, and with the tool that it answers for."""
    server = Server(extensions=[extension])
    server.tool(name="paint")(lambda color: f"The house is {color}.")
    return server


class Free(ServerExtension):
    """Answers every call as it is told to."""

    rows = (
        ExtensionRow(
            id=ID,
            result_types={"quote": ("tools/call",), "other": ("prompts/get",)},
            methods=(Method(name="free/do", result=types.Result),),
        ),
    )
    answer: Any = None

    def handlers(self):
        return {"free/do": self.do}

    async def do(self, ctx, params):
        return self.answer

    async def around_call(self, ctx, call_next):
        return self.answer


@pytest.mark.covers("EXS-06")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("answer", "declared"),
    [
        (types.Result(result_type="unheard"), DECLARED),
        (types.CallToolResult([], result_type="other"), DECLARED),
        ({"resultType": "other"}, DECLARED),
        (types.Result(result_type="quote"), {"roots": {}}),
        (None, DECLARED),
    ],
    ids=str,
)
async def test_a_result_that_may_not_answer_is_an_internal_error(answer, declared, era, caplog):
    extension = Free()
    extension.answer = answer
    response = await asked(painting(extension), "tools/call", paint(), era, **declared)
    failed = response.get("error", {}).get("code") == -32603 or response["result"]["isError"]
    assert failed
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    if isinstance(answer, types.Result | dict):
        assert (await asked(painting(extension), "free/do", {}, era))["error"]["code"] == -32603


@pytest.mark.covers("EXS-06")
async def test_a_dict_answers_as_well_and_other_results_need_no_declaration():
    extension = Free()
    server = painting(extension)
    extension.answer = {"resultType": "quote", "price": 3}
    result = (await asked(server, "tools/call", paint(), "stateless"))["result"]
    assert (result["resultType"], result["price"]) == ("quote", 3)
    extension.answer = {"content": []}
    result = (await asked(server, "tools/call", paint(), "stateless", roots={}))["result"]
    assert (result["resultType"], result["content"]) == ("complete", [])


@pytest.mark.covers("EXS-04")
@pytest.mark.parametrize("era", ERAS)
async def test_middleware_and_hooks_stand_around_its_methods_and_its_say(era):
    module, seen = shown(), []

    async def around(data: dict, call_next: Callable[[], Any]) -> None:
        await call_next()
        seen.append((data["method"], data.get("error")))

    module.server.configuration = Configuration(around_request=around)

    @module.server.middleware
    async def named(request, call_next):
        result = await call_next()
        seen.append(type(result).__name__)
        return result

    async with WirePeer(module.server, era, capabilities=DECLARED) as peer:
        seen.clear()
        await peer.request("quotes/get", {"tool": "paint"})
        await peer.request("tools/call", paint())
        await peer.request("tools/call", paint(acceptedPrice=20))
    called = ("tools/call", None)
    assert seen == ["Quote", ("quotes/get", None), "Quote", called, "CallToolResult", called]


@pytest.mark.covers("EXS-08")
async def test_what_is_declared_is_merged_layer_by_layer():
    apps, ui = "io.modelcontextprotocol/apps", "io.modelcontextprotocol/ui"
    configure(extensions={apps: {"mimeTypes": ["a"], "more": {"a": 1}}})
    try:
        server = Server(
            extensions={ui: {"more": {"b": 2}}, "com.example/x": {}},
            configuration=Configuration(extensions={ui: {"own": True}}),
            capabilities={"extensions": {"com.example/x": {"level": 2}}},
        )
        told = (await asked(server, "server/discover", None, "stateless"))["result"]["capabilities"]["extensions"]
        assert told == {
            ui: {"mimeTypes": ["a"], "more": {"a": 1, "b": 2}, "own": True},
            "com.example/x": {"level": 2},
        }
        assert server.capabilities.extension(apps) == told[ui]
        replaced = Server(extensions=[Free()], capabilities=types.ServerCapabilities(logging={}))
        assert replaced.capabilities == types.ServerCapabilities(
            logging={}, extensions={ui: {"mimeTypes": ["a"], "more": {"a": 1}}, ID: {}}
        )
        assert Server(extensions=[Free()], capabilities={"extensions": False}).capabilities.extensions is None
        assert Server().capabilities.extensions == {ui: {"mimeTypes": ["a"], "more": {"a": 1}}}
    finally:
        configure(extensions=None)
    assert server.capabilities.extensions == {ui: {"more": {"b": 2}, "own": True}, "com.example/x": {"level": 2}}
    assert Server().capabilities.extensions is None


@pytest.mark.covers("EXS-02", "EXS-03", "EXS-04")
async def test_over_http_refusals_have_their_status_and_the_name_is_mirrored():
    app = serve(shown().server)
    peer, plain = HttpPeer(app, STATELESS, capabilities=DECLARED), HttpPeer(app, STATELESS)
    named = {"mcp-name": "paint"}
    refused = await plain.request("quotes/get", {"tool": "paint"}, named)
    assert (refused.status, refused.json["error"]["code"]) == (400, -32021)
    refused = await plain.request("tools/call", paint())
    assert (refused.status, refused.json["error"]["code"]) == (400, -32021)
    answered = await peer.request("quotes/get", {"tool": "paint"}, named)
    assert (answered.status, answered.json["result"]["price"]) == (200, 12)
    for name in ({"mcp-name": "mend"}, {}):
        mismatched = await peer.request("quotes/get", {"tool": "paint"}, name)
        assert (mismatched.status, mismatched.json["error"]["code"]) == (400, -32020)
    unknown = await HttpPeer(serve(Server()), STATELESS, capabilities=DECLARED).request("quotes/get", {}, named)
    assert (unknown.status, unknown.json["error"]["code"]) == (404, -32601)
    session = HttpPeer(app, NEWEST, capabilities=DECLARED)
    assert (await session.initialize()).json["result"]["capabilities"]["extensions"][ID]
    assert (await session.request("tools/call", paint())).json["result"]["price"] == 12
    stranger = HttpPeer(app, NEWEST)
    await stranger.initialize()
    assert (await stranger.request("quotes/get", {"tool": "paint"})).json["error"]["code"] == -32603


@pytest.mark.covers("EXS-04")
async def test_what_a_client_declared_is_read_from_the_context():
    heard = []

    class Listening(Free):
        async def around_call(self, ctx, call_next):
            heard.append((ctx.client.extension(ID), ctx.client.extension("com.example/none")))
            raise MissingCapability({"extensions": {"com.example/none": {}}})

    error = (await asked(painting(Listening()), "tools/call", paint(), "stateless"))["error"]
    assert (error["code"], heard) == (-32021, [({}, None)])


@pytest.mark.covers("EXS-04")
@pytest.mark.parametrize("era", ERAS)
async def test_a_notification_of_a_client_that_declared_it_is_heard(era):
    heard: asyncio.Queue[Any] = asyncio.Queue()

    class Hearing(ServerExtension):
        rows = (ExtensionRow(id=ID, methods=(Method(name="notifications/sold", params=Sold),)),)

        def handlers(self):
            return {"notifications/sold": self.sold}

        async def sold(self, ctx, params):
            heard.put_nowait(params.item)

    server = Server(extensions=[Hearing()])
    for capabilities, item in ((DECLARED, "tea"), ({}, "salt"), (DECLARED, "milk")):
        async with WirePeer(server, era, capabilities=capabilities) as peer:
            meta = HttpPeer(None, STATELESS, capabilities=capabilities).meta() if era == "stateless" else {}  # type: ignore[arg-type]
            peer.notify("notifications/sold", {"item": item, "_meta": meta})
            assert (await peer.request("notifications/sold", {"item": item}))["error"]["code"] == -32601
    assert [heard.get_nowait() for _ in range(heard.qsize())] == ["tea", "milk"]


class Sold(types.Params):
    item: str
