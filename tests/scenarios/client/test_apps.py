"""Apps, as a client declares, reads and shows them."""

from collections.abc import Iterator
from typing import Any

import pytest

import dragoman
from dragoman import (
    AsyncClient,
    Client,
    Clients,
    Context,
    DefinitionError,
    NotFound,
    Server,
    ToolError,
    ValidationError,
    apps,
    types,
)
from dragoman.errors import AppRefused

URI = "ui://shop/cart.html"
PAGE = "<!doctype html><title>Cart</title>"
ALIAS = "io.modelcontextprotocol/apps"
MODES = ["stateless", "handshake"]


def shop() -> Server:
    server = Server("shop")
    server.add_app(URI, PAGE, csp=apps.Csp(resources=["https://cdn.example.com"]), border=True)
    server.add_app("ui://shop/{id}.html", lambda id: f"<p>{id}", domain="shop.example.com")

    @server.tool(ui=URI)
    async def cart() -> str:
        """Shows the cart."""
        return "one apple"

    @server.tool(ui=URI, ui_visibility="app")
    async def remove(item: str) -> str:
        """Removes an item."""
        if item == "pear":
            raise ToolError("There is no pear")
        return f"removed {item}"

    @server.tool(ui_visibility=["model"])
    async def pay() -> str:
        """Pays."""
        return "paid"

    @server.tool
    async def declared(ctx: Context) -> dict[str, Any]:
        """Tells what the client declared."""
        return dict(ctx.client.capabilities.extensions or {})

    return server


@pytest.fixture
def of_process() -> Iterator[None]:
    """Let the process declare extensions."""
    dragoman.configure(extensions={ALIAS: {"com.example/a": {"x": 1, "y": 1}}, "com.example/b": {}})
    yield
    dragoman.configure(extensions=None)


@pytest.mark.covers("EXT-03")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"apps": False}, {}),
        ({"apps": True}, {apps.ID: apps.capability()}),
        ({"apps": {"mimeTypes": ["text/x"]}}, {apps.ID: {"mimeTypes": ["text/x"]}}),
        ({"extensions": {"com.example/maps": {}}}, {"com.example/maps": {}}),
        (
            {"apps": True, "extensions": {ALIAS: {"com.example/x": 1}, "com.example/maps": {"zoom": 3}}},
            {apps.ID: {**apps.capability(), "com.example/x": 1}, "com.example/maps": {"zoom": 3}},
        ),
        (
            {"apps": True, "extensions": [{"com.example/maps": {}}]},
            {apps.ID: apps.capability(), "com.example/maps": {}},
        ),
    ],
    ids=str,
)
async def test_a_client_declares_what_it_is_given(mode, options, expected):
    async with AsyncClient(shop(), mode=mode, **options) as client:
        assert (await client.call_tool("declared")).structured == expected


@pytest.mark.covers("EXT-03", "LEX-01")
@pytest.mark.parametrize("mode", MODES)
def test_what_a_client_declares_is_merged_over_what_the_process_declares(mode, of_process):
    given = {apps.ID: {"com.example/a": {"y": 2}}}
    with Client(shop(), mode=mode, apps=True, extensions=given) as client:
        assert client.call_tool("declared").structured == {
            apps.ID: {**apps.capability(), "com.example/a": {"x": 1, "y": 2}},
            "com.example/b": {},
        }


@pytest.mark.covers("LEX-02")
@pytest.mark.parametrize("key", ["resourceUri", "visibility", "ui"])
@pytest.mark.parametrize("kind", [Client, AsyncClient, lambda target, **options: Clients({"a": target}, **options)])
def test_what_belongs_to_a_tool_is_refused(key, kind):
    for options in ({"apps": {key: URI}}, {"extensions": {ALIAS: {key: URI}}}):
        with pytest.raises(ValueError, match=f"{key!r} is no setting"):
            kind(shop(), **options)


@pytest.mark.covers("LEX-02")
def test_malformed_settings_are_refused():
    with pytest.raises(DefinitionError, match="mimeTypes must be a list of MIME types"):
        Client(shop(), apps={"mimeTypes": "text/html"})
    with pytest.raises(TypeError, match="apps must be True, or a mapping of settings, not 'yes'"):
        Client(shop(), apps="yes")


@pytest.mark.covers("LEX-03")
@pytest.mark.parametrize("mode", MODES)
def test_what_a_server_declares_is_found_by_id_and_alias(mode):
    with Client(shop(), mode=mode) as client:
        for id in (apps.ID, ALIAS):
            assert client.capabilities.extension(id) == apps.capability()
        assert client.capabilities.extension("com.example/none") is None


@pytest.mark.covers("LEX-04", "LEX-05")
@pytest.mark.parametrize("mode", MODES)
def test_tools_resources_and_templates_say_what_they_show(mode):
    with Client(shop(), mode=mode) as client:
        seen = {
            tool.name: (tool.ui.resource_uri, tool.ui.model_visible, tool.ui.app_visible) for tool in client.tools()
        }
        assert seen == {
            "cart": (URI, True, True),
            "remove": (URI, False, True),
            "pay": (None, True, False),
            "declared": (None, True, True),
        }
        assert client.resource(URI).ui == types.ResourceUi(
            csp=apps.Csp(resources=["https://cdn.example.com"]), prefers_border=True
        )
        assert client.resource_template("ui://shop/{id}.html").ui == types.ResourceUi(domain="shop.example.com")


@pytest.mark.covers("APP-08")
@pytest.mark.parametrize("mode", MODES)
def test_an_app_is_read_by_its_uri_or_by_a_tool(mode):
    with Client(shop(), mode=mode, apps=True) as client:
        for app in (URI, "cart", client.tool("remove")):
            view = client.view(app)
            assert (view.uri, view.html, view.ui) == (URI, PAGE, client.resource(URI).ui)
        assert repr(view) == f"<AppView {URI!r}: {len(PAGE)} characters>"
        assert client.view("ui://shop/7.html").html == "<p>7"
        with pytest.raises(NotFound, match="app of the tool 'pay'"):
            client.view("pay")


def odd(contents: Any, **options: Any) -> Server:
    server = Server("odd")
    server.resource(URI, mime_type=apps.MIME_TYPE, **options)(lambda: contents)
    return server


@pytest.mark.parametrize(
    "contents",
    [
        types.ResourceContents(URI, "text/html", text=PAGE),
        [types.ResourceContents(URI, apps.MIME_TYPE, text=PAGE)] * 2,
        None,
        types.ResourceContents(URI, apps.MIME_TYPE, blob="/w=="),
    ],
    ids=["another type", "two documents", "nothing", "no text"],
)
async def test_what_is_not_the_document_of_an_app_is_not_shown(contents):
    async with AsyncClient(odd(contents)) as client:
        with pytest.raises(ValidationError, match=URI):
            await client.view(URI)


async def test_a_document_may_be_sent_as_bytes_and_described_where_it_is_listed():
    server = odd(lambda: None)

    @server.on_read_resource
    def read(uri: str) -> types.ResourceContents:
        return types.ResourceContents(uri, apps.MIME_TYPE, blob=PAGE.encode())

    server.remove_resource(URI)
    server.add_resource(apps.ui_resource(URI, border=False))
    async with AsyncClient(server) as client:
        view = await client.view(URI)
    assert (view.html, view.ui) == (PAGE, types.ResourceUi(prefers_border=False))


@pytest.mark.covers("APP-08")
@pytest.mark.parametrize("mode", MODES)
async def test_an_app_calls_tools_that_are_visible_to_it_and_no_others(mode):
    async with AsyncClient(shop(), mode=mode, apps=True) as client:
        view = await client.view("cart")
        assert (await client.call_from_app(view, "remove", {"item": "apple"})).text == "removed apple"
        assert (await client.call_from_app(view, "cart")).text == "one apple"
        assert (await client.call_from_app(view, "remove", {"item": "pear"}, raise_on_error=False)).is_error
        for hidden in ("pay", "unknown"):
            with pytest.raises(AppRefused, match=f"The app {URI} may not call the tool '{hidden}'") as refused:
                await client.call_from_app(view, hidden)
            assert refused.value.code == -32000


@pytest.mark.covers("APP-08")
def test_an_app_never_calls_a_tool_of_another_server():
    with Clients({"one": shop(), "two": shop()}, apps=True) as clients:
        view = clients["one"].view(URI)
        assert clients["one"].call_from_app(view, "cart").text == "one apple"
        with pytest.raises(AppRefused, match="belongs to another server"):
            clients["two"].call_from_app(view, "cart")


@pytest.mark.covers("APP-08")
def test_a_person_may_deny_what_an_app_asks_for():
    with Client(shop(), on_approval=lambda call: call.name != "remove") as client:
        view = client.view(URI)
        with pytest.raises(ToolError, match="cancelled"):
            client.call_from_app(view, "remove", {"item": "apple"})
