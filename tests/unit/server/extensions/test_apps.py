"""What a server makes of its apps, and what it refuses."""

import io
from pathlib import Path
from typing import Any

import pytest

from dragoman import (
    BlockingContext,
    Client,
    Configuration,
    Context,
    DefinitionError,
    Resource,
    Server,
    Tool,
    apps,
    tool,
    types,
)
from dragoman.errors import MethodAlreadyDefined
from dragoman.runtime.callables import resolved
from dragoman.server import ExtensionRow, Method, ServerExtension
from dragoman.server.extensions.apps import Apps

URI = "ui://clock/app.html"
PAGE = "<!doctype html><title>Clock</title>"


def now() -> str:
    """Tells the time."""
    return "12:00"


class Clock(Tool):
    """Tells the time."""

    ui = URI
    ui_visibility = "app"

    def call(self) -> str:
        return "12:00"


def listed(server: Server, method: str) -> types.Json:
    answered = server.handle({"jsonrpc": "2.0", "id": 1, "method": f"{method}/list"})
    assert answered is not None
    [entry] = answered["result"][method]
    return entry


def read(server: Server, uri: str = URI) -> types.Json:
    answered = server.handle({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}})
    assert answered is not None
    [contents] = answered["result"]["contents"]
    return contents


@pytest.mark.covers("APP-03")
@pytest.mark.parametrize(
    "add",
    [
        lambda server: server.tool(ui=URI, ui_visibility=["app"])(now),
        lambda server: server.add_tool(tool(ui=URI, ui_visibility=("app",))(now)),
        lambda server: server.add_tool(Tool.define(now, ui=URI, ui_visibility="app")),
        lambda server: server.add_tool(Clock),
        lambda server: setattr(server, "tools", [Clock(name="again")]),
    ],
    ids=["decorated", "free", "defined", "class", "assigned"],
)
def test_a_tool_names_its_app_however_it_is_made(add):
    server = Server("clock")
    server.add_app(URI, PAGE)
    add(server)
    assert listed(server, "tools")["_meta"] == {
        "ui": {"resourceUri": URI, "visibility": ["app"]},
        "ui/resourceUri": URI,
    }
    assert server.capabilities.extensions == {apps.ID: apps.capability()}


def test_a_tool_of_two_servers_names_its_app_in_both():
    shared = Tool.define(now, ui=URI, meta={"com.example/a": 1})
    for _ in range(2):
        server = Server("clock", tools=[shared], resources=[apps.ui_resource(URI, PAGE)])
        assert listed(server, "tools")["_meta"] == {
            "com.example/a": 1,
            "ui": {"resourceUri": URI},
            "ui/resourceUri": URI,
        }


def test_a_server_without_apps_has_no_extension():
    server = Server("clock", tools=[tool(ui=None)(now)])
    assert server.dispatcher.installed is None
    assert server.capabilities.extensions is None


@pytest.mark.covers("APP-02", "APP-06")
def test_an_app_says_what_it_needs_where_it_is_listed_and_where_it_is_read():
    server = Server("clock")
    server.add_app(
        URI,
        PAGE,
        title="Clock",
        description="A clock.",
        csp=apps.Csp(connect=["https://time.example.com"]),
        permissions=["clipboard_write"],
        border=True,
        domain="clock.example.com",
        meta={"com.example/a": 1, "ui": {"theme": "dark"}},
    )
    meta = {
        "com.example/a": 1,
        "ui": {
            "theme": "dark",
            "csp": {"connectDomains": ["https://time.example.com"]},
            "permissions": {"clipboardWrite": {}},
            "domain": "clock.example.com",
            "prefersBorder": True,
        },
    }
    assert listed(server, "resources") == {
        "uri": URI,
        "name": "app.html",
        "title": "Clock",
        "description": "A clock.",
        "mimeType": "text/html;profile=mcp-app",
        "_meta": meta,
    }
    assert read(server) == {"uri": URI, "mimeType": "text/html;profile=mcp-app", "text": PAGE, "_meta": meta}


def test_an_app_that_needs_nothing_says_nothing():
    server = Server("clock")
    server.add_app(URI, PAGE)
    assert "_meta" not in read(server)


@pytest.mark.covers("APP-06")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", {"a": 1}),
        (types.ResourceContents("x://y", text="", meta={"a": 2, "b": 3}), {"a": 2, "b": 3}),
        ({"contents": [{"uri": "x://y", "text": ""}]}, {"a": 1}),
    ],
    ids=["text", "contents", "result"],
)
def test_the_meta_of_any_resource_is_read_too_and_contents_may_say_otherwise(value: Any, expected: types.Json):
    server = Server()
    server.resource("x://y", meta={"a": 1})(lambda: value)
    assert read(server, "x://y")["_meta"] == expected


@pytest.mark.parametrize("kind", ["file", "function", "coroutine"])
def test_the_document_is_read_each_time(kind, tmp_path: Path):
    page = tmp_path / "clock.html"
    page.write_text("<p>1")

    async def later(ctx: Context) -> str:
        assert not apps.supported(ctx)
        return page.read_text()

    def at_once(ctx: BlockingContext) -> str:
        assert not apps.supported(ctx)
        return page.read_text()

    server = Server("clock")
    server.add_app(URI, {"file": page, "function": at_once, "coroutine": later}[kind])
    assert read(server)["text"] == "<p>1"
    page.write_text("<p>2")
    assert read(server)["text"] == "<p>2"


def test_a_template_serves_many_apps():
    server = Server("reports")
    server.add_app("ui://reports/{id}.html", lambda id: f"<p>{id}", border=False)
    server.tool(ui="ui://reports/7.html")(now)
    server.check()
    found = read(server, "ui://reports/7.html")
    assert (found["text"], found["_meta"]) == ("<p>7", {"ui": {"prefersBorder": False}})


@pytest.mark.covers("APP-02")
@pytest.mark.parametrize(
    ("uri", "html", "options", "said"),
    [
        ("https://a/app.html", PAGE, {}, "begins with ui://"),
        (URI, "clock.html", {}, r"is an HTML document, not 'clock.html'; give a file as Path\('clock.html'\)"),
        (URI, Path("/nowhere/clock.html"), {}, "/nowhere/clock.html, and there is no such file"),
        (URI, PAGE, {"csp": {"connect": "https://a"}}, "The csp of 'ui://clock/app.html'"),
        (URI, PAGE, {"csp": {"conect": ["https://a"]}}, "has no 'conect'"),
        (URI, PAGE, {"csp": {"frames": ["https://a; script-src *"]}}, "takes origins, such as"),
        (URI, PAGE, {"csp": {"frames": [""]}}, "takes origins, such as"),
        (
            URI,
            PAGE,
            {"permissions": ["bluetooth"]},
            "some of camera, microphone, geolocation, clipboard_write, not 'bl",
        ),
        (URI, PAGE, {"permissions": "bluetooth"}, "not 'bluetooth'"),
        (URI, PAGE, {"frame": True}, "An app has no option 'frame'; it has name, title"),
    ],
)
def test_an_app_that_cannot_be_shown_is_refused(uri, html, options, said):
    server = Server("clock")
    with pytest.raises(DefinitionError, match=said):
        server.add_app(uri, html, **options)
    assert server.resources == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ui": "clock.html"}, "begins with ui://"),
        ({"ui": 5}, "ui of the tool 'now' must be str, not 5"),
        ({"ui": URI, "ui_visibility": ["user"]}, "'model' and 'app'"),
        ({"ui_visibility": 5}, "ui_visibility of the tool 'now' must be str"),
    ],
)
def test_a_tool_with_a_malformed_app_is_refused(options, said):
    server = Server("clock")
    with pytest.raises(DefinitionError, match=said):
        server.tool(**options)(now)
    assert server.tools == []


SERVED: dict[str, Any] = {
    "asgi": lambda server: server.asgi(),
    "wsgi": lambda server: server.wsgi(),
    "handle": lambda server: server.handle_async({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    "handle_http": lambda server: server.handle_http_async("POST", {}, b"{}"),
    "connect": lambda server: server.connect(io.BytesIO().write),
    "check": lambda server: server.check(),
}


@pytest.mark.covers("APP-07")
@pytest.mark.parametrize("serve", SERVED.values(), ids=SERVED)
async def test_a_tool_whose_app_is_missing_is_refused_when_the_server_is_served(serve):
    server = Server("clock")
    server.tool(ui=URI)(now)
    for _ in range(2):
        with pytest.raises(DefinitionError, match=r"The tool 'now' names the app 'ui://clock/app.html', .*add_app"):
            await resolved(serve(server))
    server.add_app(URI, PAGE)
    await resolved(serve(server))
    server.remove_resource(URI)
    with pytest.raises(DefinitionError, match="The tool 'now' names the app"):
        await resolved(serve(server))


@pytest.mark.covers("APP-07")
def test_a_server_whose_own_function_reads_resources_may_have_any_app():
    server = Server("clock", resources=[apps.ui_resource(URI, border=True)])
    server.tool(ui=URI)(now)
    server.on_read_resource(lambda uri: PAGE)
    with Client(server) as client:
        assert client.read_resource(URI).text == PAGE
        assert client.resource(URI).meta == {"ui": {"prefersBorder": True}}


def test_the_extension_is_installed_once_beside_others_and_settings():
    class Notes(ServerExtension):
        rows = (ExtensionRow(id="com.example/notes"),)

    notes = Notes()
    server = Server("clock", extensions=[notes])
    server.add_app(URI, PAGE)
    server.tool(ui=URI)(now)
    assert server.extension(Notes) is notes
    assert server.extension(Apps) is server.extension(Apps)
    assert server.capabilities.extensions == {"com.example/notes": {}, apps.ID: apps.capability()}
    declaring = Server("clock", extensions={"com.example/maps": {"zoom": 3}, apps.ID: {"com.example/x": 1}})
    declaring.add_app(URI, PAGE)
    assert declaring.capabilities.extensions == {
        "com.example/maps": {"zoom": 3},
        apps.ID: {"com.example/x": 1, **apps.capability()},
    }


def test_an_extension_that_comes_later_may_not_take_what_is_there():
    class Adding(ServerExtension):
        rows = (ExtensionRow(id="com.example/x", methods=(Method(name="a/b", result=types.Result),)),)

        def handlers(self):
            async def answer(ctx, params):
                return {}

            return {"a/b": answer}

    server = Server()
    server.method("a/b")(lambda: 1)
    with pytest.raises(DefinitionError, match="The method 'a/b' is added by two extensions"):
        server.extension(Adding)
    assert server.dispatcher.installed is None
    other = Server()
    other.extension(Adding)
    with pytest.raises(MethodAlreadyDefined):
        other.method("a/b")


def test_a_pinned_version_without_extensions_has_no_apps():
    server = Server("clock", configuration=Configuration(protocol_version="2025-03-26"))
    with pytest.raises(DefinitionError, match=r"io.modelcontextprotocol/ui' does not exist in the pinned protocol"):
        server.add_app(URI, PAGE)
    with pytest.raises(DefinitionError, match="does not exist in the pinned protocol"):
        server.tool(ui=URI)(now)
    assert (server.tools, server.resources, server.dispatcher.installed) == ([], [], None)


def test_a_resource_that_is_no_app_stays_as_it_is():
    class Plain(Resource):
        uri = "a://b"

        def read(self) -> str:
            return "b"

    assert read(Server(resources=[Plain]), "a://b") == {"uri": "a://b", "mimeType": "text/plain", "text": "b"}
