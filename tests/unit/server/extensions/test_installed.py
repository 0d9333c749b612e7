"""What a server makes of the extensions that it is given, and what it refuses."""

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from dragoman import Configuration, DefinitionError, Server, Tool, ValidationError, tool, types
from dragoman.errors import MethodAlreadyDefined
from dragoman.protocol.versions import V2025_11_25, V2026_07_28
from dragoman.server import ExtensionRow, Method, ServerExtension

ID = "com.example/prices"
GET = Method(name="prices/get", result=types.Result)
CHANGED = Method(name="notifications/prices", sender=("server",))


class Prices(ServerExtension):
    rows = (ExtensionRow(id=ID, settings={"a": 1}, methods=(GET, CHANGED)),)
    tool_options: ClassVar[dict[str, Any]] = {"price": int | float, "discount": bool}

    def __init__(self) -> None:
        self.defined: list[Any] = []
        self.bound: list[Server] = []

    def bind(self, server):
        self.bound.append(server)
        server.add_tool(listed)

    def handlers(self):
        return {"prices/get": self.get}

    async def get(self, ctx, params):
        return {}

    def define_tool(self, tool, options):
        self.defined.append((tool.name, dict(options)))
        if options.get("price") == 13:
            raise DefinitionError("13 is no price")


@tool
def listed() -> None:
    """Lists the prices."""


def paint() -> None:
    """Paints."""


class Mending(Tool):
    price = 3

    def call(self) -> str:
        return "mended"


@pytest.mark.covers("EXS-09")
def test_options_come_to_the_extension_from_wherever_a_tool_is_made():
    prices = Prices()
    free = tool(price=1)(paint)
    server = Server(extensions=[prices], tools=[free, Mending, Mending(name="again", price=4)])
    server.tool(name="a", price=2.5, discount=True)(paint)
    server.add_tool(Tool.define(paint, name="b", discount=False))
    server.tool(name="c", price=None)(paint)
    assert prices.defined == [
        ("paint", {"price": 1}),
        ("mending", {"price": 3}),
        ("again", {"price": 4}),
        ("a", {"price": 2.5, "discount": True}),
        ("b", {"discount": False}),
    ]
    assert prices.bound == [server]


@pytest.mark.covers("EXS-09")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"price": "dear"}, r"price of the tool 'paint' must be int \| float, not 'dear'"),
        ({"discount": 1}, "discount of the tool 'paint' must be bool, not 1"),
        ({"price": 13}, "13 is no price"),
        ({"prize": 1}, "Tool has no option 'prize'"),
    ],
)
def test_an_option_that_does_not_fit_is_refused_and_nothing_is_registered(options, said):
    server = Server(extensions=[Prices()])
    with pytest.raises(DefinitionError, match=said):
        server.tool(**options)(paint)
    assert [one.name for one in server.tools] == ["listed"]


@pytest.mark.covers("EXS-09")
@pytest.mark.parametrize("given", [None, {"com.example/x": {}}, []])
def test_a_server_without_the_extension_refuses_its_options_but_not_attributes_that_are_called_so(given):
    server = Server(extensions=given, tools=[Mending])
    with pytest.raises(DefinitionError, match=r"'paint' has the option 'price', .* Server\(extensions=\[...\]\)"):
        server.tool(price=1)(paint)


def named(**members: Any) -> ServerExtension:
    return type("Named", (ServerExtension,), {"rows": (ExtensionRow(id=ID),), **members})()


async def answer(ctx, params):
    return {}


def blocking(ctx, params):
    return {}


@pytest.mark.covers("EXS-10")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("quotes", "must be a list of extensions, or a dict of settings"),
        (5, "must be a list of extensions"),
        ([Prices], "is not an extension: give an object"),
        ([ServerExtension()], "is not an extension"),
        ({"prices": {}}, "a prefix and a name"),
        ({ID: 5}, f"settings of the extension '{ID}' must be a dict, not 5"),
        ([Prices(), Prices()], f"'{ID}' is given twice"),
        ([named(rows=(ExtensionRow(id=ID), ExtensionRow(id="com.example/x")))], "have one id, not several"),
        ([named(tool_options={"scopes": str})], "cannot add 'scopes': tools have that already"),
        (
            [Prices(), named(rows=(ExtensionRow(id="com.example/x"),), tool_options={"price": str})],
            "cannot add 'price'",
        ),
        ([named(rows=(ExtensionRow(id=ID, methods=(GET,)),))], "has no handler for 'prices/get'"),
        ([named(handlers=lambda _: {"prices/set": answer})], "handles a method that its rows lack: 'prices/set'"),
        (
            [named(rows=(ExtensionRow(id=ID, methods=(GET,)),), handlers=lambda _: {"prices/get": blocking})],
            "must be an `async def",
        ),
        (
            [
                Prices(),
                named(
                    rows=(ExtensionRow(id="com.example/x", methods=(GET,)),),
                    handlers=lambda _: {"prices/get": answer},
                ),
            ],
            "'prices/get' is added by two extensions",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(given, said):
    with pytest.raises(DefinitionError, match=said):
        Server(extensions=given)


@pytest.mark.covers("EXS-09")
def test_an_extension_that_is_refused_leaves_the_options_of_tools_as_they_are():
    with pytest.raises(DefinitionError, match="cannot add 'scopes'"):
        Server(extensions=[named(tool_options={"scopes": str})])
    assert Server(tools=[tool(scopes=["paint"])(paint)]).tools[0].scopes == ["paint"]


@pytest.mark.covers("EXS-10")
def test_a_pinned_version_must_have_the_extension():
    pinned = Configuration(protocol_version="2025-03-26")
    said = "does not exist in the pinned protocol version 2025-03-26"
    with pytest.raises(DefinitionError, match=said):
        Server(extensions=[Prices()], configuration=pinned)
    server = Server(extensions=[Prices()], configuration=Configuration(protocol_version="2025-06-18"))
    with pytest.raises(DefinitionError, match=said):
        server.configuration = pinned


@pytest.mark.covers("EXS-10")
def test_a_method_of_ones_own_cannot_take_the_name_of_an_extensions():
    server = Server(extensions=[Prices()])
    with pytest.raises(MethodAlreadyDefined):
        server.method("prices/get")
    server.method("acme/get")(lambda: 1)
    assert server.offering.for_notification("prices/get") is None
    assert server.offering.for_notification("acme/get") is server.offering.offer


def test_only_notifications_of_an_extension_are_sent_by_hand():
    server = Server(extensions=[Prices()])
    server.notify("notifications/prices")
    for method in ("prices/get", "notifications/tools/list_changed", "notifications/unknown"):
        with pytest.raises(DefinitionError, match="No extension of the server 'dragoman' has the notification"):
            server.notify(method)
    with pytest.raises(ValidationError):
        server.notify("notifications/prices", params={"a": object()})


class Generations(ServerExtension):
    """An extension that an older version declares elsewhere, and which is declared when a tool needs it."""

    rows = (
        ExtensionRow(id=ID, capability=("tasks",), settings={"list": {}}, until=V2025_11_25, methods=(GET,)),
        ExtensionRow(id=ID, settings={"b": 2}, since=V2026_07_28, methods=(GET,)),
    )
    tool_options: ClassVar[dict[str, Any]] = {"lasting": bool}
    is_used = False

    def settings(self):
        return super().settings() if self.is_used else None

    def define_tool(self, tool, options):
        self.is_used = True

    def handlers(self):
        return {"prices/get": answer}


@pytest.mark.covers("EXS-01")
def test_generations_are_declared_each_in_its_way_once_a_tool_needs_them():
    server = Server(extensions=[Generations()])
    assert (server.capabilities.tasks, server.capabilities.extensions) == (None, None)
    assert ask(server, "prices/get")["error"]["code"] == -32601
    server.tool(lasting=True)(paint)
    assert (server.capabilities.tasks, server.capabilities.extensions) == ({"list": {}}, {ID: {"b": 2}})
    told = ask(server, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=CLIENT)["result"]
    assert told["capabilities"]["tasks"] == {"list": {}}
    assert "extensions" not in told["capabilities"]
    assert ask(server, "prices/get") == {"jsonrpc": "2.0", "id": 1, "result": {}}


CLIENT = {"name": "c", "version": "1"}


def ask(server: Server, method: str, **params: Any) -> types.Json:
    answered = server.handle({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert answered is not None
    return answered


@dataclass
class Counting(ServerExtension):
    """An extension that compares by value, and changes what a tool gave."""

    calls: int = 0
    rows = (ExtensionRow(id=ID),)

    async def around_call(self, ctx, call_next):
        self.calls += 1
        result = await call_next()
        result.content.append(types.AudioContent("aaaa", "audio/wav"))
        return result


def test_what_is_changed_around_a_call_is_sent_as_the_version_carries_it():
    counting = Counting()
    server = Server(extensions=[counting], configuration=Configuration(validate_tool_call_results=False))
    server.tool(name="say", inline=True)(lambda: "said")
    told = ask(server, "tools/call", name="say")["result"]["content"]
    assert [block["type"] for block in told] == ["text", "audio"]
    assert counting.calls == 1


class Noted(msgspec.Struct):
    note: str | None = None


class Notes(ServerExtension):
    rows = (
        ExtensionRow(id=ID, entries={"resources/list": Noted, "prompts/list": Noted}),
        ExtensionRow(id=ID, since=V2026_07_28),
    )

    def entry(self, definition):
        return None if definition.name == "plain" else Noted(f"about {definition.name}")


@pytest.mark.covers("EXS-05")
def test_entries_of_other_lists_have_fields_too():
    server = Server(extensions=[Notes()], tools=[listed])
    server.prompt(name="plain")(lambda: "")
    server.prompt(name="fancy", title="Fancy")(lambda: "")
    server.resource("a://b", name="b")(lambda: "")
    listed_in = {
        method: ask(server, f"{method}/list")["result"][method] for method in ("prompts", "resources", "tools")
    }
    assert [entry.get("note") for entry in listed_in["prompts"]] == [None, "about fancy"]
    assert listed_in["resources"][0]["note"] == "about b"
    assert "note" not in listed_in["tools"][0]
