"""The rules of a mounted server hold for the clients of its parent: middleware, visibility, scopes, tags, questions."""

import pytest

from dragoman import Context, Server, ToolError
from dragoman.auth import Bearer, Identity
from dragoman.testing import WirePeer, connected
from scenarios.http.test_bearer import LOGIN, RESOURCE, arrived, live
from scenarios.http_peer import STATELESS, HttpPeer
from scenarios.mounted_servers import shop, weather

EVERY_ERA = pytest.mark.parametrize("era", ["handshake", "stateless"])
DOOR = {"resource": RESOURCE, "authorization_servers": [LOGIN]}


def answers(request):
    return {"value": request.message}


@EVERY_ERA
@pytest.mark.covers("MNT-06")
async def test_the_middleware_of_both_servers_surrounds_a_request_and_both_may_ask(era):
    inner, outer, passed = weather(), shop(), []

    @outer.middleware
    async def first(ctx: Context, call_next):
        passed.append(("outer", getattr(ctx.params, "name", None)))
        ctx.values["tenant"] = "acme"
        if ctx.method == "tools/call":
            await ctx.step("counted", lambda: passed.append("counted"))
            answer = await ctx.elicit("From the parent?", str)
            passed.append(answer.content)
        return await call_next()

    @inner.middleware
    async def second(ctx: Context, call_next):
        passed.append(("inner", getattr(ctx.params, "name", None), ctx.values.get("tenant")))
        return await call_next()

    outer.mount(inner, prefix="weather")
    async with connected(outer, era, on_elicitation=answers) as client:
        passed.clear()
        assert (await client.call_tool("weather_ask")).text == "Which city? on Which day?"
    assert passed[0] == ("outer", "weather_ask")
    assert passed[-1] == ("inner", "ask", "acme")
    assert passed.count("counted") == 1
    assert "From the parent?" in passed


@EVERY_ERA
async def test_the_middleware_of_the_parent_gets_objects_and_may_change_them(era):
    inner, outer = weather(), shop()

    @outer.middleware
    async def shorten(ctx: Context, call_next):
        result = await call_next()
        if ctx.method == "tools/list":
            result.tools = [tool for tool in result.tools if tool.name.endswith("forecast")]
        if ctx.method == "tools/call":
            result.content[0].text += "!"
        return result

    outer.mount(inner, prefix="weather")
    async with connected(outer, era) as client:
        assert [tool.name for tool in await client.tools()] == ["weather_forecast"]
        assert (await client.call_tool("weather_forecast", {"city": "Rome"})).text == "Sunny in Rome!"
        assert [prompt.name for prompt in await client.prompts()] == ["weather_report"]


@EVERY_ERA
async def test_a_list_that_a_mounted_server_refuses_is_left_out(era, caplog):
    inner, outer = weather(), shop()

    @inner.middleware
    async def refuse(ctx: Context, call_next):
        if ctx.method == "tools/list":
            raise ToolError("not for you")
        return await call_next()

    outer.mount(inner, prefix="weather")
    async with connected(outer, era) as client:
        assert [tool.name for tool in await client.tools()] == ["buy"]
    assert "tools/list of the mounted server 'weather' is left out" in caplog.text


@EVERY_ERA
@pytest.mark.covers("MNT-06")
async def test_a_hidden_definition_is_like_one_that_does_not_exist(era):
    inner, outer = weather(), shop()

    @inner.tool(visible=lambda ctx: False)
    def secret() -> str:
        return "secret"

    @inner.resource("data://secret", visible=lambda ctx: False)
    def hidden() -> str:
        return "secret"

    outer.mount(inner, prefix="weather")
    async with WirePeer(outer, era) as peer:
        listed = (await peer.request("tools/list"))["result"]
        assert "weather_secret" not in [tool["name"] for tool in listed["tools"]]
        refused = [await peer.request("tools/call", {"name": f"weather_{name}"}) for name in ("secret", "absent")]
        assert refused[0]["error"] == {"code": -32602, "message": "Unknown tool: weather_secret"}
        assert refused[1]["error"] == {"code": -32602, "message": "Unknown tool: weather_absent"}
        uris = ["data://weather/secret", "data://weather/absent"]
        read = [(await peer.request("resources/read", {"uri": uri}))["error"] for uri in uris]
        assert read[0] == {**read[1], "message": read[1]["message"].replace(uris[1], uris[0]), "data": {"uri": uris[0]}}
        if era == "stateless":
            assert listed["cacheScope"] == "private"


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
@pytest.mark.covers("MNT-06")
async def test_scopes_and_mirrored_headers_of_a_mounted_tool_are_checked(version):
    inner, outer = weather(), shop()

    @inner.tool(scopes=["admin"])
    def reset() -> str:
        return "done"

    @inner.tool(input_schema={"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
    def route(region: str) -> str:
        return region

    outer.mount(inner, prefix="weather")
    app = outer.asgi(auth=Bearer({"reader": Identity("ann", frozenset({"read"}))}.get, **DOOR))
    visitor = await arrived(app, "reader", version)
    exchange = await visitor.call("weather_reset").end()
    assert exchange.status == 403
    assert 'scope="admin' in exchange.headers["www-authenticate"]
    names = [tool["name"] for tool in (await visitor.request("tools/list")).json["result"]["tools"]]
    assert "weather_reset" not in names
    assert "weather_forecast" in names
    for region, status in ("eu", 200), ("us", 400 if version == STATELESS else 200):
        routed = visitor.call("weather_route", {"region": "eu"}, headers={"mcp-param-region": region})
        assert (await routed.end()).status == status
    await live(app)


@EVERY_ERA
async def test_the_tags_of_an_application_select_what_is_mounted_too(era):
    inner, outer = weather(), Server("outer")

    @inner.tool(tags={"public"})
    def open_to_all() -> str:
        return "open"

    @outer.tool(tags={"public"})
    def front() -> str:
        return "front"

    outer.mount(inner, prefix="weather")
    app = outer.asgi(include_tags={"public"})
    try:
        peer = HttpPeer(app, STATELESS if era == "stateless" else "2025-11-25")
        if era == "handshake":
            await peer.initialize()
        for _ in range(2):
            listed = (await peer.request("tools/list")).json["result"]["tools"]
            assert [tool["name"] for tool in listed] == ["front", "weather_open_to_all"]
        named = {"mcp-name": "weather_forecast"} if era == "stateless" else {}
        refused = (await peer.request("tools/call", {"name": "weather_forecast", "arguments": {}}, named)).json
        assert refused["error"]["message"] == "Unknown tool: weather_forecast"
    finally:
        await app.close()


async def test_a_joined_page_has_the_strictest_cache_hints_and_a_result_those_of_its_own_server():
    inner, outer = Server("inner", ttl_ms=50, cache_scope="public"), Server("outer", ttl_ms=90, cache_scope="public")

    @inner.resource("data://a")
    def a() -> str:
        return "a"

    outer.mount(inner, prefix="inner")
    async with WirePeer(outer, "stateless") as peer:
        page = (await peer.request("resources/list"))["result"]
        assert (page["ttlMs"], page["cacheScope"]) == (50, "public")
        assert page["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "outer"
        read = (await peer.request("resources/read", {"uri": "data://inner/a"}))["result"]
        assert (read["ttlMs"], read["cacheScope"]) == (50, "public")
        assert (await peer.request("prompts/list"))["result"]["ttlMs"] == 50
        inner.mount(Server("innermost"), prefix="x")
        assert (await peer.request("resources/list"))["result"]["cacheScope"] == "private"


async def test_hidden_resource_is_acknowledged_like_an_unknown_one_and_never_notified():
    inner, outer = weather(), shop()

    @inner.resource("data://secret", visible=lambda ctx: False)
    def secret() -> str:
        return "secret"

    outer.mount(inner, prefix="weather")
    async with WirePeer(outer, "stateless") as peer:
        uris = ["data://weather/secret", "data://weather/cities", "data://prices"]
        peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris, "toolsListChanged": True}})
        acknowledged = (await peer.receive())["params"]["notifications"]
        assert sorted(acknowledged["resourceSubscriptions"]) == sorted(uris)
        assert acknowledged["toolsListChanged"] is True
        inner.notify_resource_updated("data://secret")
        inner.notify_resource_updated("data://cities")
        assert (await peer.receive())["params"]["uri"] == "data://weather/cities"
