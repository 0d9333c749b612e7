"""Requests that a mounted server answers for its parent."""

import pytest

from dragoman import Configuration, Context, RpcError, Server
from dragoman.errors import ResourceNotFound
from dragoman.testing import WirePeer
from scenarios.forwarding_server import forwarding
from scenarios.mounted_servers import shop

QUESTION = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}


async def test_the_state_of_a_server_that_forwards_travels_in_that_of_a_parent_that_asks_too():
    seen, outer = [], shop()

    def answer(method, params):
        seen.append((params.get("requestState"), params.get("inputResponses")))
        if params.get("requestState") == "far":
            return {"resultType": "complete", "content": []}
        return {"resultType": "input_required", "inputRequests": {"elicit-1": QUESTION}, "requestState": "far"}

    @outer.middleware
    async def greet(ctx: Context, call_next):
        await ctx.elicit("Who?", str)
        return await call_next()

    outer.mount(forwarding("far", answer), prefix="far")
    accepted = {"elicit-1": {"action": "accept", "content": {"value": "Ann"}}}
    async with WirePeer(outer, "stateless", capabilities={"elicitation": {}}) as peer:
        params = {"name": "far_x"}
        for _ in range(2):
            result = (await peer.request("tools/call", params))["result"]
            assert result["resultType"] == "input_required"
            params |= {"inputResponses": accepted, "requestState": result["requestState"]}
        assert "requestedSchema" in result["inputRequests"]["elicit-1"]["params"]
        assert (await peer.request("tools/call", params))["result"]["resultType"] == "complete"
    assert seen == [(None, None), ("far", accepted)]


@pytest.mark.parametrize("has_middleware", [False, True])
async def test_a_question_of_a_server_that_forwards_passes_as_it_is_if_the_parent_asks_nothing(has_middleware):
    outer, seen = shop(), []
    if has_middleware:

        @outer.middleware
        async def see(ctx: Context, call_next):
            seen.append(await call_next())
            return seen[-1]

    asked = {"resultType": "input_required", "inputRequests": {"k": QUESTION}, "requestState": "far", "x": 1}
    outer.mount(forwarding("far", lambda method, params: asked), prefix="far")
    async with WirePeer(outer, "stateless", capabilities={"elicitation": {}}) as peer:
        assert (await peer.request("tools/call", {"name": "far_x"}))["result"] == asked
    assert not has_middleware or seen[-1] == asked


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_two_servers_that_forward_are_asked_for_a_resource_in_turn(era):
    outer, asked = Server("outer"), []

    def first(method, params):
        asked.append("first")
        return ResourceNotFound(params["uri"])

    def second(method, params):
        asked.append("second")
        return {"contents": [{"uri": params["uri"], "text": "x"}]}

    outer.mount(forwarding("first", first), prefix="a", rename={"data://y": "web://y"})
    outer.mount(forwarding("second", second), prefix="b", rename={"data://z": "web://z"})
    async with WirePeer(outer, era) as peer:
        read = await peer.request("resources/read", {"uri": "https://example.com/x"})
        assert read["result"]["contents"] == [{"uri": "https://example.com/x", "text": "x"}]
        assert asked == ["first", "second"]
        read = await peer.request("resources/read", {"uri": "web://z"})
        assert read["result"]["contents"][0]["uri"] == "web://z"
        missing = await peer.request("resources/read", {"uri": "web://y"})
        assert "web://y" in missing["error"]["message"]


async def test_an_error_of_a_server_that_forwards_has_its_code_and_its_data():
    outer = shop()
    outer.mount(forwarding("far", lambda method, params: RpcError(-32001, "away", {"x": 1})), prefix="far")
    async with WirePeer(outer, "stateless") as peer:
        error = (await peer.request("tools/call", {"name": "far_x"}))["error"]
        assert error == {"code": -32001, "message": "away", "data": {"x": 1}}
        assert [tool["name"] for tool in (await peer.request("tools/list"))["result"]["tools"]] == ["buy"]


async def test_a_mounted_server_that_does_not_serve_the_version_of_a_client_is_left_out():
    inner, outer = Server("inner", configuration=Configuration(protocol_version="2025-11-25")), shop()
    inner.tool(name="x", task=True)(lambda: "x")
    inner.method("acme/x")(lambda: {"a": 1})
    outer.mount(inner, prefix="inner")
    for version, names in ("2025-11-25", ["buy", "inner_x"]), ("2026-07-28", ["buy"]):
        async with WirePeer(outer, version, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}}) as peer:
            tools = (await peer.request("tools/list"))["result"]["tools"]
            assert [tool["name"] for tool in tools] == names
            called = await peer.request("acme/x")
            asked = await peer.request("tasks/get", {"taskId": "x"})
            if version == "2026-07-28":
                assert (called["error"]["code"], asked["error"]["code"]) == (-32601, -32601)
            else:
                assert (called["result"], asked["error"]["code"]) == ({"a": 1}, -32602)


async def test_an_unknown_completion_is_refused_like_one_of_the_parent():
    inner, outer = Server("inner"), shop()
    outer.mount(inner, prefix="inner")

    @inner.prompt
    def greet(name: str) -> str:
        return name

    @greet.complete("name")
    def names(value: str) -> list[str]:
        return ["Ann"]

    async with WirePeer(outer, "stateless") as peer:
        for name in "inner_greet", "inner_nothing":
            params = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "name", "value": ""}}
            answer = await peer.request("completion/complete", params)
            if name == "inner_greet":
                assert answer["result"]["completion"]["values"] == ["Ann"]
            else:
                assert answer["error"]["message"] == "Unknown prompt: inner_nothing"


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize(
    "refusal", [RpcError(-32602, "Nope"), {"content": [], "isError": True}], ids=["error", "result"]
)
async def test_a_tool_that_fails_is_unknown_if_its_server_does_not_list_it(is_listed, refusal):
    asked = []

    def answer(method, params):
        asked.append(method)
        return refusal if method == "tools/call" else {"tools": [{"name": "x", "inputSchema": {}}] * is_listed}

    outer = shop()
    outer.mount(forwarding("far", answer), prefix="far")
    async with WirePeer(outer, "handshake") as peer:
        for _ in range(2):
            answered = await peer.request("tools/call", {"name": "far_x"})
            if not is_listed:
                assert answered["error"]["message"] == "Unknown tool: far_x"
            elif isinstance(refusal, dict):
                assert answered["result"] == refusal
            else:
                assert answered["error"]["message"] == "Nope"
    assert asked.count("tools/list") == (1 if is_listed else 2)


async def test_a_list_that_fails_denies_no_tool():
    def answer(method, params):
        return RpcError(-32602, "Nope" if method == "tools/call" else "No list")

    outer = shop()
    outer.mount(forwarding("far", answer), prefix="far")
    async with WirePeer(outer, "handshake") as peer:
        assert (await peer.request("tools/call", {"name": "far_x"}))["error"]["message"] == "Nope"
