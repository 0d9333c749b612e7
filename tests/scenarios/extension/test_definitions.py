"""An extension and definitions: their options, who sees them, what surrounds them, and their removal."""

from typing import Any, ClassVar

import pytest

from dragoman import AsyncClient, Context, Resource, Server, Tool, types
from dragoman.client import ClientExtension
from dragoman.errors import DefinitionError, InvalidParams, ToolError
from dragoman.server import ExtensionRow, ServerExtension
from dragoman.testing import WirePeer

ID = "com.example/shelves"
DECLARED: types.Json = {"extensions": {ID: {}}}
ERAS = ["stateless", "handshake"]


class Shelves(ServerExtension):
    """Keeps tools and resources on shelves; hidden ones are shown to clients that declared the extension."""

    rows = (ExtensionRow(id=ID),)
    tool_options: ClassVar[Any] = {"shelf": str, "hidden": bool}
    resource_options: ClassVar[Any] = {"shelf": str, "hidden": bool}
    around_methods = ("tools/call", "prompts/get", "resources/read", "completion/complete")

    def __init__(self) -> None:
        self.shelves: dict[str, str] = {}
        self.seen: list[Any] = []

    def define_tool(self, tool, options):
        self.shelves[tool.name] = options.get("shelf", "floor")

    def define_resource(self, resource, options):
        if options.get("shelf") == "":
            raise DefinitionError(f"The shelf of {resource.name!r} has no name")
        self.shelves[resource.name] = options.get("shelf", "floor")

    def forget(self, definition):
        self.shelves.pop(definition.name, None)

    def shows(self, ctx, definition):
        return not getattr(definition, "hidden", False) or ctx.client.extension(ID) is not None

    async def around_call(self, ctx, call_next):
        result = await call_next()
        self.seen.append((ctx.method, type(result).__name__))
        return result


def shelved() -> tuple[Server, Shelves]:
    shelves = Shelves()
    server = Server(extensions=[shelves])

    @server.tool(shelf="top")
    def open_tool() -> str:
        return "open"

    @server.tool(hidden=True)
    def hidden_tool() -> str:
        return "hidden"

    @server.resource("shelf://book", shelf="middle")  # type: ignore[call-arg]
    def book() -> str:
        return "Emma"

    @server.resource("shelf://{page}", hidden=True)  # type: ignore[call-arg]
    def page(page: str) -> str:
        return page

    @server.prompt
    def greet(name: str) -> str:
        return f"Hello, {name}"

    @greet.complete("name")
    def names(value: str) -> list[str]:
        return ["Ann"]

    return server, shelves


@pytest.mark.covers("EXS-09")
def test_resources_have_options_of_extensions_as_tools_have():
    server, shelves = shelved()
    assert shelves.shelves == {"open_tool": "top", "hidden_tool": "floor", "book": "middle", "page": "floor"}
    with pytest.raises(DefinitionError, match="shelf of the resource 'a' must be str, not 3"):
        server.resource("shelf://a", name="a", shelf=3)(lambda: "a")
    with pytest.raises(DefinitionError, match="The shelf of 'b' has no name"):
        server.add_resource(Resource.define(lambda: "b", uri="shelf://b", name="b", shelf=""))
    with pytest.raises(DefinitionError, match=r"'c' has the option 'shelf', .* Server\(extensions=\[...\]\)"):
        Server().add_resource(Resource.define(lambda: "c", uri="shelf://c", name="c", shelf="top"))
    with pytest.raises(TypeError, match=r"resource\(\) has no option 'shelv'; did you mean 'shelf'"):
        server.resource("shelf://d", shelv="top")
    assert list(server.registry.resources) == ["shelf://book"]


def test_an_option_that_resources_have_cannot_be_added():
    class Renaming(ServerExtension):
        rows = (ExtensionRow(id="com.example/names"),)
        resource_options: ClassVar[Any] = {"mime_type": str}

    class Shelving(ServerExtension):
        rows = (ExtensionRow(id="com.example/shelving"),)
        resource_options: ClassVar[Any] = {"shelf": str}

    with pytest.raises(DefinitionError, match="cannot add 'mime_type': resources have that already"):
        Server(extensions=[Renaming()])
    with pytest.raises(DefinitionError, match="cannot add 'shelf': resources have that already"):
        Server(extensions=[Shelves(), Shelving()])


@pytest.mark.covers("EXS-18")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("capabilities", [DECLARED, {}], ids=["declared", "undeclared"])
async def test_each_client_sees_what_is_shown_to_it_page_by_page(capabilities, era):
    server, _ = shelved()
    server.page_size = 1
    async with WirePeer(server, era, capabilities=capabilities) as peer:
        seen = []
        for method, field in (("tools/list", "tools"), ("resources/templates/list", "resourceTemplates")):
            page = (await peer.request(method))["result"]
            seen.append([one["name"] for one in page[field]])
            assert era == "handshake" or page["cacheScope"] == "private"
            if "nextCursor" in page:
                more = (await peer.request(method, {"cursor": page["nextCursor"]}))["result"]
                seen[-1] += [one["name"] for one in more[field]]
        shown = [["open_tool", "hidden_tool"], ["page"]] if capabilities else [["open_tool"], []]
        assert seen == shown
        assert (await peer.request("tools/call", {"name": "hidden_tool"}))["result"]["content"][0]["text"] == "hidden"


@pytest.mark.covers("EXS-19")
@pytest.mark.parametrize("era", ERAS)
async def test_an_extension_surrounds_the_requests_that_it_names(era):
    server, shelves = shelved()
    ref = {"type": "ref/prompt", "name": "greet"}
    async with WirePeer(server, era, capabilities=DECLARED) as peer:
        await peer.request("tools/call", {"name": "open_tool"})
        await peer.request("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}})
        await peer.request("resources/read", {"uri": "shelf://book"})
        await peer.request("completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}})
        await peer.request("tools/list")
        error = (await peer.request("prompts/get", {"name": "gret"}))["error"]
    assert error["message"] == "Unknown prompt: gret; did you mean greet?"
    assert shelves.seen == [
        ("tools/call", "CallToolResult"),
        ("prompts/get", "GetPromptResult"),
        ("resources/read", "ReadResourceResult"),
        ("completion/complete", "CompleteResult"),
    ]


@pytest.mark.covers("EXS-19")
@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_refused_before_an_extension_sees_the_call(era):
    class Answering(ServerExtension):
        rows = (ExtensionRow(id=ID),)

        async def around_call(self, ctx, call_next):
            return types.CallToolResult([types.TextContent("answered")])

    server = Server(extensions=[Answering()])
    server.tool(name="known")(lambda: "known")
    async with WirePeer(server, era) as peer:
        result = (await peer.request("tools/call", {"name": "known"}))["result"]
        error = (await peer.request("tools/call", {"name": "knwn"}))["error"]
    assert result["content"][0]["text"] == "answered"
    assert (error["code"], error["message"]) == (-32602, "Unknown tool: knwn; did you mean known?")


def test_requests_that_are_answered_with_cached_bytes_cannot_be_surrounded():
    class Listing(ServerExtension):
        rows = (ExtensionRow(id=ID),)
        around_methods = ("tools/list",)

    with pytest.raises(DefinitionError, match=r"around_methods may have tools/call, .*, not 'tools/list'"):
        Server(extensions=[Listing()])


@pytest.mark.covers("EXS-20")
def test_an_extension_forgets_what_the_server_removed():
    server, shelves = shelved()
    server.remove_tool("hidden_tool")
    server.remove_resource("shelf://book")
    assert shelves.shelves == {"open_tool": "top", "page": "floor"}
    replaced = Tool.define(lambda: "new", name="open_tool", shelf="low")
    server.tools = [replaced, Tool.define(lambda: "plain", name="plain")]
    assert shelves.shelves == {"open_tool": "low", "page": "floor"}
    server.tools = [replaced, Tool.define(lambda: "other", name="other", shelf="top")]
    assert shelves.shelves == {"open_tool": "low", "other": "top", "page": "floor"}
    server.tools = [Tool.define(lambda: "plain", name="open_tool")]
    server.resource_templates = []
    assert shelves.shelves == {}


class Versions(ServerExtension):
    """Declares its older generation with settings that it finds out."""

    rows = (
        ExtensionRow(id=ID, capability=("tasks",), since="2025-11-25", until="2025-11-25", settings={"list": {}}),
        ExtensionRow(id=ID, since="2026-07-28"),
    )
    found: types.Json | None = None

    def capability_settings(self, row):
        return None if self.found is None else {**row.settings, **self.found}


@pytest.mark.covers("EXS-01")
@pytest.mark.parametrize(("found", "declared"), [({"cancel": {}}, {"list": {}, "cancel": {}}), (None, None)])
async def test_settings_of_an_older_capability_may_be_found_out(found, declared):
    extension = Versions()
    extension.found = found
    server = Server(extensions=[extension])
    async with WirePeer(server, "2025-11-25") as peer:
        assert peer.initialized["result"]["capabilities"].get("tasks") == declared
    async with WirePeer(server, "stateless") as peer:
        told = (await peer.request("server/discover"))["result"]["capabilities"]
        assert (told.get("tasks"), told["extensions"]) == (None, {ID: {}})


@pytest.mark.parametrize(("found", "declared"), [({"cancel": {}}, {"list": {}, "cancel": {}}), (None, None)])
async def test_a_client_may_find_them_out_too(found, declared):
    class Using(ClientExtension):
        rows = Versions.rows

        def capability_settings(self, row):
            return None if found is None else {**row.settings, **found}

    server, heard = Server(), []

    @server.tool
    async def look(ctx: Context) -> str:
        heard.append(ctx.client.capabilities.tasks)
        return "looked"

    async with AsyncClient(server, mode="handshake", extensions=[Using()]) as client:
        await client.call_tool("look")
    assert heard == [declared]


@pytest.mark.covers("EXS-08")
async def test_objects_and_settings_may_be_given_in_one_list():
    server = Server(extensions=[Shelves(), {"com.example/maps": {"zoom": 3}}, {"com.example/maps": {"dark": True}}])
    expected = {ID: {}, "com.example/maps": {"zoom": 3, "dark": True}}
    assert server.capabilities.extensions == expected
    for wrong in ([{"maps": {}}], [{"com.example/maps": 3}], [Shelves(), 3], 3, "com.example/maps"):
        with pytest.raises(DefinitionError):
            Server(extensions=wrong)


@pytest.mark.parametrize("era", ERAS)
async def test_errors_of_a_surrounded_prompt_are_those_of_the_protocol(era):
    class Refusing(Shelves):
        async def around_call(self, ctx, call_next):
            raise InvalidParams("not on this shelf") if ctx.method == "prompts/get" else ToolError("no")

    server = Server(extensions=[Refusing()])
    server.prompt(name="greet")(lambda: "hello")
    server.tool(name="act")(lambda: "acted")
    async with WirePeer(server, era, capabilities=DECLARED) as peer:
        error = (await peer.request("prompts/get", {"name": "greet"}))["error"]
        result = (await peer.request("tools/call", {"name": "act"}))["result"]
    assert (error["code"], error["message"]) == (-32602, "not on this shelf")
    assert (result["isError"], result["content"][0]["text"]) == (True, "no")
