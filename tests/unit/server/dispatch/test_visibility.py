"""Definitions that only some callers see: their lists, their calls, and what may be cached."""

import asyncio

import pytest

from dragoman import AsyncClient, Client, Context, DefinitionError, NotFound, Resource, RpcError, Server, Tool
from dragoman.auth import Identity
from dragoman.stores import Memory
from dragoman.testing import WirePeer
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer
from scenarios.wire import ask, introduction

EVERY_VERSION = pytest.mark.parametrize("version", [NEWEST, STATELESS])
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def identified(request):
    user = request.headers.get("authorization")
    return None if user is None else Identity(user, scopes={"read"})


def is_ada(ctx: Context) -> bool:
    return ctx.principal == "ada"


async def is_hopper(ctx: Context) -> bool:
    await asyncio.sleep(0)
    return ctx.principal == "hopper"


def shared(**options):
    """Return a server that has definitions of each kind for everybody, for ada and for hopper."""
    server = Server("shared", secret="a secret of sixteen", **options)
    for name, visible in (("every", None), ("ada", is_ada), ("hopper", is_hopper)):
        server.tool(name, visible=visible)(lambda: "done")
        server.prompt(name, visible=visible)(lambda word="": word).complete("word")(lambda value: [f"{value}!"])
        server.resource(f"r://{name}", name=name, visible=visible)(lambda: "text")
        template = server.resource(f"t://{name}/{{x}}", name=name, visible=visible)(lambda x: x)
        template.complete("x")(lambda value: [f"{value}!"])
    return server


class Users:
    """A client of each user."""

    def __init__(self, server, version, **options):
        self.app = server.asgi(auth=identified, **options)
        self.version = version
        self.peers = {}

    async def ask(self, user, method, params=None, **headers):
        if user not in self.peers:
            self.peers[user] = peer = HttpPeer(self.app, self.version)
            if self.version == NEWEST:
                begun = await peer.request("initialize", introduction(), {"authorization": user})
                peer.session = begun.headers["mcp-session-id"]
        named = {"mcp-name": params["uri"]} if params and "uri" in params and self.version == STATELESS else {}
        return (await self.peers[user].request(method, params, {"authorization": user, **named, **headers})).json

    async def names(self, user, method, params=None):
        result = (await self.ask(user, method, params))["result"]
        return [entry["name"] for entry in result[LISTS[method]]], result


@EVERY_VERSION
async def test_each_user_lists_what_the_user_may_see(version):
    users = Users(shared(cache_scope="public", ttl_ms=60_000), version)
    for method in LISTS:
        for user, expected in (("ada", ["every", "ada"]), ("hopper", ["every", "hopper"]), ("eve", ["every"])) * 2:
            names, result = await users.names(user, method)
            assert names == expected
            assert result.get("cacheScope") == ("private" if version == STATELESS else None)


@EVERY_VERSION
async def test_a_user_uses_only_what_the_user_may_see(version):
    users = Users(shared(), version)
    for user in ("ada", "hopper", "eve"):
        for name in ("every", "ada", "hopper"):
            outcomes = [
                await users.ask(user, "tools/call", {"name": name}),
                await users.ask(user, "prompts/get", {"name": name}),
                await users.ask(user, "resources/read", {"uri": f"r://{name}"}),
                await users.ask(user, "resources/read", {"uri": f"t://{name}/1"}),
                await users.ask(user, "completion/complete", completing({"type": "ref/prompt", "name": name}, "word")),
                await users.ask(
                    user, "completion/complete", completing({"type": "ref/resource", "uri": f"t://{name}/{{x}}"}, "x")
                ),
            ]
            assert ["result" in one for one in outcomes] == [name in ("every", user)] * 6


def completing(ref, argument):
    return {"ref": ref, "argument": {"name": argument, "value": "a"}}


@EVERY_VERSION
async def test_a_hidden_definition_is_answered_like_an_unknown_one_and_never_suggested(version):
    server = Server(secret="a secret of sixteen")
    server.tool("delete_all", visible=is_ada)(lambda: "done")
    server.tool("delete_one")(lambda: "done")
    users = Users(server, version)
    hidden = await users.ask("eve", "tools/call", {"name": "delete_all"})
    unknown = await users.ask("eve", "tools/call", {"name": "delete_al"})
    assert hidden["error"]["code"] == unknown["error"]["code"] == -32602
    assert hidden["error"]["message"] == "Unknown tool: delete_all; did you mean delete_one?"
    assert unknown["error"]["message"] == "Unknown tool: delete_al; did you mean delete_one?"


@EVERY_VERSION
async def test_pages_are_those_of_the_list_that_the_user_sees(version):
    users = Users(shared(page_size=1), version)
    for user, expected in (("ada", ["every", "ada"]), ("hopper", ["every", "hopper"]), ("eve", ["every"])):
        seen, cursor = [], None
        while True:
            names, result = await users.names(user, "tools/list", {} if cursor is None else {"cursor": cursor})
            seen += names
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        assert seen == expected


async def test_only_the_reader_may_cache_a_resource_that_not_everybody_sees():
    server = shared(cache_scope="public", ttl_ms=1000)
    server.add_resource(Resource.define(lambda: "x", uri="r://own", name="own", visible=is_ada))
    users = Users(server, STATELESS)
    scopes = [
        (await users.ask("ada", "resources/read", {"uri": uri}))["result"]["cacheScope"]
        for uri in ("r://every", "r://ada", "t://ada/1", "r://own")
    ]
    assert scopes == ["public", "private", "private", "private"]


async def test_a_function_that_reads_every_resource_is_not_asked_for_a_hidden_one():
    server = Server()
    server.resource("r://hidden", name="hidden", visible=lambda ctx: False)(lambda: "")
    server.on_read_resource(lambda uri: f"read {uri}")
    async with AsyncClient(server) as client:
        assert (await client.read_resource("r://other")).contents[0].text == "read r://other"
        with pytest.raises(RpcError, match="r://hidden"):
            await client.read_resource("r://hidden")


async def test_a_function_is_asked_once_for_a_request_and_decides_anew_for_the_next():
    asked, open_hours = [], {"open": True}

    def is_open(ctx: Context) -> bool:
        asked.append(ctx.method)
        return open_hours["open"]

    server = Server(tools=[Tool.define(lambda: "done", name=name, visible=is_open) for name in "abc"])
    async with AsyncClient(server) as client:
        assert len(await client.tools()) == 3
        assert asked == ["tools/list"]
        assert (await client.call_tool("b")).text == "done"
        assert asked == ["tools/list", "tools/call"]
        open_hours["open"] = False
        assert await client.tools(refresh=True) == []


async def test_a_tool_without_a_function_is_called_without_asking_the_others():
    def refuses(ctx: Context) -> bool:
        raise AssertionError(ctx.method)

    server = Server()
    server.tool("a", visible=refuses)(lambda: "")
    server.tool("b")(lambda: "done")
    async with AsyncClient(server) as client:
        assert (await client.call_tool("b")).text == "done"


async def test_a_function_that_fails_hides_its_definition_and_is_reported(caplog):
    def broken(ctx: Context) -> bool:
        raise LookupError("no such user")

    server = Server()
    server.tool("a", visible=broken)(lambda: "")
    server.tool("b")(lambda: "")
    async with AsyncClient(server) as client:
        assert [tool.name for tool in await client.tools()] == ["b"]
    assert "no such user" in caplog.text


async def test_headers_decide_what_is_visible_and_middleware_runs_before():
    server = Server(secret="a secret of sixteen")

    @server.middleware
    async def tenant(ctx, call_next):
        ctx.values["tenant"] = ctx.headers.get("X-Tenant")
        return await call_next()

    @server.tool(visible=lambda ctx: ctx.values["tenant"] == "acme")
    def report() -> str:
        return "reported"

    users = Users(server, STATELESS)
    for tenant, count in (("acme", 1), ("other", 0)):
        listed = await users.ask("ada", "tools/list", None, **{"x-tenant": tenant})
        assert len(listed["result"]["tools"]) == count
        called = await users.ask("ada", "tools/call", {"name": "report"}, **{"x-tenant": tenant})
        assert ("result" in called) == bool(count)


async def test_a_class_decides_by_a_method():
    class Secret(Tool):
        name = "secret"

        def visible(self, ctx: Context) -> bool:  # type: ignore[override]
            return ctx.client.info is not None and ctx.client.info.name == "trusted"

        def call(self) -> str:
            return "42"

    server = Server(tools=[Secret])
    async with AsyncClient(server, name="trusted") as client, AsyncClient(server, name="other") as other:
        assert (await client.call_tool("secret")).text == "42"
        assert await other.tools() == []


@pytest.mark.parametrize("method", ["subscribe", "listen"])
async def test_nobody_is_notified_of_a_resource_that_is_hidden_from_them(method):
    server = Server(capabilities={"resources": {"subscribe": True}})
    server.resource("r://open", name="open")(lambda: "")
    server.resource("r://hidden", name="hidden", visible=lambda ctx: False)(lambda: "")
    server.resource("t://hidden/{x}", name="template", visible=lambda ctx: False)(lambda x: x)
    uris = ["r://open", "r://hidden", "t://hidden/1", "r://unknown"]
    if method == "subscribe":
        async with WirePeer(server) as peer:
            answers = [await peer.request("resources/subscribe", {"uri": uri}) for uri in uris]
            assert [answer["result"] for answer in answers] == [{}] * 4
            server.notify_resource_updated("r://hidden")
            server.notify_resource_updated("r://open")
            updated = await peer.receive()
            assert updated["params"]["uri"] == "r://open"
            return
    async with AsyncClient(server, protocol_version="2026-07-28") as client:
        heard = asyncio.Queue()
        for uri in uris:
            await client.subscribe(uri, heard.put_nowait)
        for uri in reversed(uris):
            server.notify_resource_updated(uri)
        assert {await heard.get(), await heard.get()} == {"r://open", "r://unknown"}


async def test_requests_about_a_task_ask_whether_its_tool_is_visible_and_its_run_does_not():
    asked, is_shown = [], True

    def visible(ctx: Context) -> bool:
        asked.append(ctx.method)
        return is_shown

    server = Server(store=Memory())

    @server.tool(task=True, visible=visible)
    async def render() -> str:
        return "rendered"

    async with AsyncClient(server, tasks=True, protocol_version="2026-07-28") as client:
        task = await client.start_tool("render")
        assert (await task.result()).text == "rendered"
        assert asked.count("tools/call") == 1
        is_shown = False
        with pytest.raises(RpcError, match="Unknown tool: render"):
            await client.start_tool("render")
        with pytest.raises(NotFound, match="it may have expired"):
            await client.task(task.id)
        assert asked[-1] == "tasks/get"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_a_handler_that_asks_sees_the_same_decision_in_every_round(era):
    server = Server(secret="a secret of sixteen")

    @server.tool(visible=lambda ctx: True)
    async def greet(ctx: Context) -> str:
        return f"Hello {(await ctx.elicit('Who?', str)).content}"

    version = "2025-11-25" if era == "handshake" else "2026-07-28"
    with Client(server, protocol_version=version, on_elicitation=lambda request: {"value": "Jo"}) as client:
        assert client.call_tool("greet").text == "Hello Jo"


def test_what_is_no_function_is_refused():
    with pytest.raises(DefinitionError, match="visible of <lambda> must be a function that takes a Context, not True"):
        Tool.define(lambda: "", name="a", visible=True)


def test_lists_of_a_server_without_such_functions_stay_public():
    server = Server(cache_scope="public", ttl_ms=5)
    server.tool("a")(lambda: "")
    assert ask(server, "tools/list", {}, "stateless")["result"]["cacheScope"] == "public"
