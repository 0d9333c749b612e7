"""Middleware over HTTP: what it sees of requests that are refused before anything is looked up."""

import pytest

from dragoman import Configuration, RpcError, types
from dragoman.auth import Identity
from dragoman.config import PROCESS
from dragoman.testing import WirePeer
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer, serve
from scenarios.middleware_server import VERSIONS, serving, watching

pytestmark = pytest.mark.covers("CFG-18")


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(PROCESS, "configuration", Configuration())


def authenticated(request):
    user = request.headers.get("authorization")
    return None if user is None else Identity(user, scopes={"read"} if user == "ada" else {"read", "pay"})


@pytest.mark.parametrize("era", VERSIONS)
async def test_an_audit_knows_who_was_refused_and_why(era):
    server, log = serving(), []

    @server.tool(scopes=["pay"])
    def pay() -> str:
        return "paid"

    @server.middleware
    async def audit(ctx, call_next):
        entry = {"who": ctx.principal, "what": ctx.method, "error": None}
        try:
            return await call_next()
        except RpcError as error:
            entry["error"] = error.label
            raise
        finally:
            log.append(entry)

    app = serve(server, auth=authenticated)
    peer = HttpPeer(app, VERSIONS[era])
    ada, hopper = {"authorization": "ada"}, {"authorization": "hopper"}
    if era == "handshake":
        introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        begun = await peer.request("initialize", introduction, ada)
        peer.session = begun.headers["mcp-session-id"]
    refused = await peer.request("tools/call", {"name": "pay"}, ada)
    assert refused.status == 403
    assert "www-authenticate" in refused.headers
    missing = await peer.request("acme/unknown", {}, ada)
    assert missing.status == (404 if era == "stateless" else 200)
    if era == "handshake":
        stolen = await peer.request("tools/call", {"name": "pay"}, hopper)
        assert stolen.status == 404
        last = {"who": "hopper", "what": "tools/call", "error": "invalid_request"}
    else:
        mismatched = await peer.request("tools/call", {"name": "pay"}, {**hopper, "mcp-name": "add"})
        assert mismatched.status == 400
        last = {"who": "hopper", "what": "tools/call", "error": "header_mismatch"}
    assert log[-3:] == [
        {"who": "ada", "what": "tools/call", "error": "insufficient_scope"},
        {"who": "ada", "what": "acme/unknown", "error": "method_not_found"},
        last,
    ]
    nobody = await peer.request("tools/call", {"name": "pay"})
    assert nobody.status == 401  # who did not come in asked for nothing
    assert log[-1] == last


async def test_a_result_in_place_of_a_missing_scope_carries_no_challenge():
    server = serving()

    @server.tool(scopes=["pay"])
    def pay() -> str:
        return "paid"

    @server.middleware
    async def soften(ctx, call_next):
        try:
            return await call_next()
        except RpcError:
            return types.CallToolResult([types.TextContent("Ask the owner")], is_error=True)

    peer = HttpPeer(serve(server, auth=authenticated), STATELESS)
    answered = await peer.request("tools/call", {"name": "pay"}, {"authorization": "ada"})
    assert (answered.status, answered.json["result"]["isError"]) == (200, True)
    assert "www-authenticate" not in answered.headers


async def test_a_message_that_is_no_request_reaches_no_middleware():
    server = serving()
    seen = watching(server)
    peer = HttpPeer(serve(server), NEWEST)
    await peer.initialize()
    assert (await peer.post({"jsonrpc": "2.0", "id": 1}).end()).status == 400
    async with WirePeer(server) as wire:
        wire.send(b"{}\n")
        await wire.receive()
        wire.notify("notifications/roots/list_changed")
    assert seen == []


async def test_a_session_does_not_begin_if_middleware_refuses_its_introduction():
    server, refusals = serving(), []

    @server.middleware
    async def once(ctx, call_next):
        result = await call_next()
        if ctx.method == "initialize" and not refusals:
            refusals.append(ctx.params.client_info.name)
            raise RpcError(-31000, "Not yet")
        return result

    peer = HttpPeer(serve(server))
    assert "mcp-session-id" not in (await peer.initialize()).headers
    assert "mcp-session-id" in (await peer.initialize()).headers
    refusals.clear()
    introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}}
    async with WirePeer(server, "none") as wire:
        assert "error" in await wire.request("initialize", introduction)
        assert "result" in await wire.request("initialize", introduction)
        assert "already" in (await wire.request("initialize", introduction))["error"]["message"]
    assert refusals == ["peer"]


@pytest.mark.parametrize("era", VERSIONS)
async def test_what_the_server_declares_is_not_changed_by_changing_a_result(era):
    server, bare = serving(), serving()
    for each in (server, bare):
        each.tool(name="pay", scopes=["read"])(lambda: "paid")
    changes = {"is": False}

    @server.middleware
    async def scribble(ctx, call_next):
        result = await call_next()
        if changes["is"] and isinstance(result, types.ListToolsResult):
            result.tools[0].description = "scribbled"
        elif changes["is"]:
            result.capabilities.tools = None
        return result

    async def answers(server):
        peer = HttpPeer(serve(server, auth=authenticated), VERSIONS[era])
        ada = {"authorization": "ada"}
        introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        begins = ("initialize", introduction) if era == "handshake" else ("server/discover", {})
        begun = await peer.request(*begins, ada)
        peer.session = begun.headers.get("mcp-session-id")
        return [begun.json["result"], (await peer.request("tools/list", {}, ada)).json["result"]]

    plain = await answers(bare)
    assert await answers(server) == plain
    changes["is"] = True
    assert "tools" not in (await answers(server))[0]["capabilities"]
    changes["is"] = False
    assert await answers(server) == plain
