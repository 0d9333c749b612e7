"""What a server with an extension sends to one client: requests, and notifications before and after the response."""

import asyncio
from typing import Any

import pytest

from dragoman import AsyncClient, BlockingContext, Context, Server, types
from dragoman.client import ClientExtension
from dragoman.errors import DefinitionError
from dragoman.server import ExtensionRow, Method, ServerExtension
from dragoman.testing import WirePeer
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer, serve

ID = "com.example/quotes"
CHANGED = "notifications/quotes/changed"
DECLARED: types.Json = {"extensions": {ID: {}}, "roots": {}}
ROW = ExtensionRow(
    id=ID,
    methods=(
        Method(name="quotes/confirm", result=types.Result, sender=("server",)),
        Method(name=CHANGED, sender=("server",)),
    ),
)
OLD = ExtensionRow(
    id="com.example/old",
    capability=("tasks",),
    since="2025-11-25",
    until="2025-11-25",
    methods=(Method(name="notifications/old", sender=("server",)),),
)


class Quotes(ServerExtension):
    rows = (ROW,)


class Old(ServerExtension):
    rows = (OLD,)


def quoting() -> Server:
    server = Server(extensions=[Quotes(), Old()])

    @server.tool
    async def confirm(ctx: Context, method: str = "quotes/confirm") -> str:
        return str(await ctx.request(method, {"price": 3}, timeout=5))

    @server.tool
    def confirm_blocking(ctx: BlockingContext) -> str:
        ctx.notify(CHANGED, {"price": 3})
        return str(ctx.request("quotes/confirm", {"price": 3}))

    @server.tool
    async def tell(ctx: Context, method: str = CHANGED) -> str:
        kept.append(ctx)
        await ctx.notify(method, {"price": 4})
        return "told"

    kept: list[Context] = []
    server.server_context = kept
    return server


@pytest.mark.covers("EXS-16")
@pytest.mark.parametrize("tool", ["confirm", "confirm_blocking"])
async def test_a_request_of_an_extension_is_answered_by_the_client(tool):
    async with WirePeer(quoting(), capabilities=DECLARED) as peer:
        id = peer.start("tools/call", {"name": tool})
        asked = await peer.receive("quotes/confirm")
        assert asked["params"] == {"price": 3}
        peer.answer(asked["id"], {"confirmed": True})
        assert (await peer.response(id))["result"]["content"][0]["text"] == "{'confirmed': True}"
        told = [one["params"] for one in peer.received if one["method"] == CHANGED]
        assert told == ([{"price": 3}] if tool == "confirm_blocking" else [])


@pytest.mark.covers("EXS-16")
async def test_our_client_answers_it_by_its_extension():
    class Confirming(ClientExtension):
        rows = (ROW,)

        def requests(self):
            return {"quotes/confirm": lambda params: {"paid": params["price"]}}

    async with AsyncClient(quoting(), mode="handshake", extensions=[Confirming()]) as client:
        assert (await client.call_tool("confirm")).text == "{'paid': 3}"


@pytest.mark.covers("EXS-16")
@pytest.mark.parametrize(
    ("era", "capabilities", "method", "said"),
    [
        ("handshake", {}, "quotes/confirm", ID),
        ("handshake", {"extensions": {ID: {}}}, "roots/list", "roots"),
        ("2025-03-26", DECLARED, "quotes/confirm", "cannot send quotes/confirm"),
        ("handshake", DECLARED, "quotes/lose", "cannot send quotes/lose"),
        ("handshake", DECLARED, CHANGED, f"cannot send {CHANGED}"),
        ("handshake", DECLARED, "tools/list", "cannot send tools/list"),
        ("stateless", DECLARED, "quotes/confirm", "cannot send quotes/confirm"),
    ],
)
async def test_a_request_that_the_client_would_not_know_is_not_sent(era, capabilities, method, said):
    async with WirePeer(quoting(), era, capabilities=capabilities) as peer:
        response = await peer.request("tools/call", {"name": "confirm", "arguments": {"method": method}})
        if "error" in response:
            assert (response["error"]["code"], said in response["error"]["message"]) == (-32601, True)
        else:
            assert said in response["result"]["content"][0]["text"]
        assert peer.received == []


@pytest.mark.covers("EXS-16")
async def test_requests_of_the_protocol_can_be_sent_as_well_and_need_an_object_for_an_answer():
    async with WirePeer(quoting(), capabilities=DECLARED) as peer:
        id = peer.start("tools/call", {"name": "confirm", "arguments": {"method": "roots/list"}})
        peer.answer((await peer.receive("roots/list"))["id"], {"roots": []})
        assert (await peer.response(id))["result"]["content"][0]["text"] == "{'roots': []}"
        id = peer.start("tools/call", {"name": "confirm"})
        peer.answer((await peer.receive())["id"], [1])
        assert (await peer.response(id))["error"]["code"] == -32602
        id = peer.start("tools/call", {"name": "confirm"})
        peer.answer((await peer.receive())["id"], error={"code": -1, "message": "no"})
        assert "The client refused quotes/confirm: no" in (await peer.response(id))["result"]["content"][0]["text"]


@pytest.mark.covers("EXS-17")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
@pytest.mark.parametrize(("capabilities", "count"), [(DECLARED, 1), ({}, 0)], ids=["declared", "undeclared"])
async def test_a_notification_reaches_the_client_of_its_request_and_no_other(capabilities, count, era):
    server = quoting()
    async with (
        WirePeer(server, era, capabilities=capabilities) as peer,
        WirePeer(server, era, capabilities=DECLARED) as other,
    ):
        await peer.request("tools/call", {"name": "tell"})
        assert [one["params"] for one in peer.received] == [{"price": 4}] * count
        assert other.received == []


@pytest.mark.covers("EXS-17")
async def test_a_notification_that_no_extension_has_is_a_mistake_of_the_author(caplog):
    async with WirePeer(quoting(), capabilities=DECLARED) as peer:
        result = (await peer.request("tools/call", {"name": "tell", "arguments": {"method": "quotes/confirm"}}))[
            "result"
        ]
        assert result["isError"]
        assert isinstance(caplog.records[0].exc_info[1], DefinitionError)
        assert "has the notification 'quotes/confirm'" in caplog.text


@pytest.mark.covers("EXS-17")
@pytest.mark.parametrize(("version", "count"), [("2025-11-25", 1), ("2025-06-18", 0), ("stateless", 0)])
async def test_an_older_extension_tells_clients_that_need_not_declare_it_in_its_version(version, count):
    async with WirePeer(quoting(), version) as peer:
        await peer.request("tools/call", {"name": "tell", "arguments": {"method": "notifications/old"}})
        assert len(peer.received) == count


@pytest.mark.covers("EXS-17")
async def test_over_http_it_comes_on_the_stream_of_the_request_and_later_on_the_standalone_stream():
    server = quoting()
    peer = HttpPeer(serve(server), NEWEST, capabilities=DECLARED)
    await peer.initialize()
    standalone = await peer.listen()
    exchange = await peer.call("tell").end()
    assert [one.get("method") for one in exchange.said] == [CHANGED, None]
    kept: Any = server.server_context
    await kept[0].notify(CHANGED, {"price": 5})
    (event,) = await standalone.events(1)
    assert '"price":5' in event.data
    standalone.leave()
    await standalone.end()


@pytest.mark.covers("EXS-17")
async def test_in_the_stateless_era_nothing_follows_the_response():
    server = quoting()
    exchange = await HttpPeer(serve(server), STATELESS, capabilities=DECLARED).call("tell").end()
    assert [one.get("method") for one in exchange.said] == [CHANGED, None]
    kept: Any = server.server_context
    await kept[0].notify(CHANGED, {"price": 5})
    await asyncio.sleep(0)
    assert len(exchange.said) == 2
