"""Changes told to stateless clients that listen."""

import asyncio
import json
from typing import Any

import pytest

from dragoman import Context, Server, types
from dragoman.protocol.subscriptions import MAX_WAITING
from dragoman.testing import WirePeer
from scenarios.notifying.test_subscriptions import Congested
from scenarios.wire import DEADLINE

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
LISTS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
EVERYTHING = dict.fromkeys(LISTS, True)
FOLLOWED = {kind: {"listChanged": True, "subscribe": True} for kind in ["resources"]}


async def listen(peer: WirePeer, wanted: types.Json, id: Any = None) -> tuple[Any, types.Json]:
    """Return the id of a subscription and the part of its filter that is honoured."""
    id = peer.start(LISTEN, {"notifications": wanted}, id=id)
    acknowledged = await peer.receive()
    assert acknowledged["method"] == ACKNOWLEDGED
    assert subscription(acknowledged) == (type(id), id)
    return id, acknowledged["params"]["notifications"]


def subscription(message: types.Json) -> tuple[type, Any]:
    id = message["params"]["_meta"][types.SUBSCRIPTION_ID]
    return type(id), id


def taken(peer: WirePeer) -> list[tuple[str, Any]]:
    """Return the methods and subscription ids of what was received, and forget it."""
    heard = [(message["method"], subscription(message)[1]) for message in peer.received]
    peer.received.clear()
    return heard


def notify_everything(server: Server) -> None:
    for kind in LISTS.values():
        getattr(server, f"notify_{kind}_list_changed")()
    server.notify_resource_updated("file:///a")


@pytest.mark.covers("LSN-01", "LSN-02", "LSN-03", "NOT-08")
@pytest.mark.parametrize("id", [7, 0, -3, "seven", "7", ""], ids=repr)
async def test_a_subscription_is_acknowledged_first_and_its_messages_carry_its_id_as_it_was(id):
    server = Server()
    async with WirePeer(server, "stateless") as peer:
        assert await listen(peer, {"toolsListChanged": True}, id) == (id, {"toolsListChanged": True})
        server.notify_tools_list_changed()
        await asyncio.to_thread(server.notify_tools_list_changed)
        for _ in range(2):
            message = await peer.receive()
            assert message["method"] == "notifications/tools/list_changed"
            assert subscription(message) == (type(id), id)


@pytest.mark.covers("LSN-02", "BEY-19")
@pytest.mark.parametrize(
    ("capabilities", "honoured"),
    [
        (None, EVERYTHING),
        ({}, EVERYTHING),
        ({"tools": False, "prompts": False, "resources": False}, {}),
        (types.ServerCapabilities(), {}),
        ({"tools": {"listChanged": True}, "prompts": False, "resources": False}, {"toolsListChanged": True}),
        ({"resources": {"subscribe": True}}, EVERYTHING | {"resourceSubscriptions": ["file:///a"]}),
    ],
    ids=repr,
)
async def test_the_acknowledgement_says_what_the_server_honours_and_only_that_is_told(capabilities, honoured):
    server = Server(capabilities=capabilities)
    async with WirePeer(server, "stateless") as peer:
        _, acknowledged = await listen(peer, {**EVERYTHING, "resourceSubscriptions": ["file:///a"]})
        assert acknowledged == honoured
        notify_everything(server)
        assert len(taken(peer)) == len(honoured)


@pytest.mark.covers("LSN-03", "NOT-08")
async def test_several_subscriptions_of_several_connections_are_told_each_for_itself():
    server = Server()
    async with WirePeer(server, "stateless") as peer, WirePeer(server, "stateless") as other:
        tools, _ = await listen(peer, {"toolsListChanged": True}, "tools")
        both, _ = await listen(peer, {"toolsListChanged": True, "promptsListChanged": True}, 2)
        others, _ = await listen(other, {"promptsListChanged": True}, "tools")
        server.notify_tools_list_changed()
        server.notify_prompts_list_changed()
        tools_changed, prompts_changed = "notifications/tools/list_changed", "notifications/prompts/list_changed"
        assert taken(peer) == [(tools_changed, tools), (tools_changed, both), (prompts_changed, both)]
        assert taken(other) == [(prompts_changed, others)]


@pytest.mark.covers("LSN-03")
async def test_a_session_that_also_listens_is_told_as_a_session_and_as_a_subscription():
    server = Server()
    envelope = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
    async with WirePeer(server) as peer:
        peer.start(LISTEN, {"notifications": {"toolsListChanged": True}, "_meta": envelope}, id="listen")
        await peer.receive(ACKNOWLEDGED)
        server.notify_tools_list_changed()
        assert sorted("_meta" in message["params"] for message in peer.received) == [False, True]


@pytest.mark.covers("LSN-04")
@pytest.mark.parametrize(
    "params", [{}, {"notifications": None}, {"notifications": [1]}, {"notifications": {"toolsListChanged": "yes"}}]
)
async def test_a_malformed_filter_is_refused(params):
    async with WirePeer(Server(), "stateless") as peer:
        assert (await peer.request(LISTEN, params))["error"]["code"] == -32602
        assert peer.received == []


@pytest.mark.covers("LSN-04")
async def test_a_subscription_needs_an_id_that_is_free():
    server = Server()
    async with WirePeer(server, "stateless") as peer:
        await listen(peer, {"toolsListChanged": True}, "one")
        envelope = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
        params = {"notifications": {"promptsListChanged": True}, "_meta": envelope}
        peer.send({"jsonrpc": "2.0", "id": "one", "method": LISTEN, "params": params})
        assert (await peer.response("one"))["error"]["code"] == -32600
        peer.send({"jsonrpc": "2.0", "method": LISTEN, "params": params})
        notify_everything(server)
        assert taken(peer) == [("notifications/tools/list_changed", "one")]


@pytest.mark.covers("LSN-04")
@pytest.mark.parametrize("era", ["none", "2024-11-05", "handshake"])
async def test_listening_does_not_exist_before_the_stateless_era(era):
    async with WirePeer(Server(), era) as peer:
        assert (await peer.request(LISTEN, {"notifications": EVERYTHING}))["error"]["code"] == -32601


@pytest.mark.covers("LSN-06")
@pytest.mark.parametrize("id", [5, "five"])
async def test_a_cancelled_subscription_is_told_nothing_more_from_that_moment_on(id):
    server = Server()
    async with WirePeer(server, "stateless") as peer:
        others = asyncio.all_tasks()
        await listen(peer, EVERYTHING, id)
        cancelled = asyncio.all_tasks() - others
        kept, _ = await listen(peer, {"toolsListChanged": True}, "kept")
        peer.notify("notifications/cancelled", {"requestId": id})
        notify_everything(server)
        assert taken(peer) == [("notifications/tools/list_changed", kept)]
        await asyncio.wait(cancelled)
        notify_everything(server)
        assert taken(peer) == [("notifications/tools/list_changed", kept)]
        # The id is free again.
        await listen(peer, {"promptsListChanged": True}, id)
        assert peer.received == []


@pytest.mark.covers("LSN-06")
async def test_a_subscription_that_is_cancelled_in_the_chunk_that_brings_it_leaves_nothing_behind():
    server = Server()
    sent: list[types.Json] = []
    connection = server.connect(lambda data: sent.append(json.loads(data)))
    envelope = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
    request = {"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": {"notifications": EVERYTHING, "_meta": envelope}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    connection.receive(b"".join(json.dumps(message).encode() + b"\n" for message in (request, cancel)))
    await asyncio.wait_for(connection.drain(), DEADLINE)
    notify_everything(server)
    # If tasks start eagerly (Python 3.12), the subscription is acknowledged before it is cancelled.
    assert [message["method"] for message in sent] in ([], [ACKNOWLEDGED])
    connection.close()


@pytest.mark.covers("LSN-06", "BEY-19")
async def test_the_end_of_the_input_ends_subscriptions_in_good_order():
    server = Server("listened")
    sent: list[types.Json] = []
    connection = server.connect(lambda data: sent.append(json.loads(data)))
    envelope = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
    for id in (1, "1"):
        request = {"jsonrpc": "2.0", "id": id, "method": LISTEN}
        params = {"notifications": {"toolsListChanged": True}, "_meta": envelope}
        connection.receive(json.dumps({**request, "params": params}).encode() + b"\n")
    for _ in range(3):
        await asyncio.sleep(0)
    connection.receive_end()
    server.notify_tools_list_changed()
    await asyncio.wait_for(connection.drain(), DEADLINE)
    assert [message["method"] for message in sent[:4]] == [ACKNOWLEDGED] * 2 + ["notifications/tools/list_changed"] * 2
    results = [(message["id"], message["result"]) for message in sent[4:]]
    assert [id for id, _ in results] == [1, "1"]
    for id, result in results:
        assert result["resultType"] == "complete"
        assert result["_meta"][types.SUBSCRIPTION_ID] == id
    connection.close()
    server.notify_tools_list_changed()
    assert len(sent) == 6


@pytest.mark.covers("LSN-06")
async def test_a_subscription_that_comes_just_before_the_end_of_the_input_is_acknowledged_and_ended():
    sent: list[types.Json] = []
    connection = Server().connect(lambda data: sent.append(json.loads(data)))
    envelope = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
    request = {"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": {"notifications": EVERYTHING, "_meta": envelope}}
    connection.receive(json.dumps(request).encode())
    connection.receive_end()
    await asyncio.wait_for(connection.drain(), DEADLINE)
    acknowledged, ended = sent
    assert acknowledged["method"] == ACKNOWLEDGED
    assert ended["result"]["_meta"][types.SUBSCRIPTION_ID] == 1
    connection.close()


@pytest.mark.covers("LSN-06")
async def test_an_abrupt_end_sends_nothing():
    server = Server()
    async with WirePeer(server, "stateless") as peer:
        await listen(peer, EVERYTHING)
        peer._connection.close()
        notify_everything(server)
        await asyncio.wait_for(peer._connection.drain(), DEADLINE)
        assert peer.received == []


@pytest.mark.covers("LSN-03", "NOT-02")
async def test_progress_and_log_messages_never_travel_on_a_subscription():
    server = Server(capabilities={**FOLLOWED, "tools": {}, "logging": {}})

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1)
        await ctx.error("oh")
        await ctx.notify_resource_updated("file:///a")

    async with WirePeer(server, "stateless") as peer, WirePeer(server, "stateless") as other:
        wanted = {**EVERYTHING, "resourceSubscriptions": ["file:///a"]}
        id, _ = await listen(peer, wanted)
        await listen(other, wanted)
        meta = {"progressToken": 1, types.LOG_LEVEL: "info"}
        await peer.request("tools/call", {"name": "work", "_meta": meta})
        server.log("emergency", "for sessions")
        carried = [(message["method"], "_meta" in message["params"]) for message in peer.received]
        assert carried == [("notifications/progress", False), ("notifications/message", False), (UPDATED, True)]
        assert subscription(peer.received[-1])[1] == id
        assert other.received == []


@pytest.mark.covers("NOT-08")
@pytest.mark.parametrize("uris", [1, 10_000])
async def test_ten_thousand_changes_are_few_messages_for_a_client_that_does_not_read(uris):
    server = Server(capabilities={**FOLLOWED, "tools": {"listChanged": True}})
    way_out = Congested()
    connection = server.connect(way_out)
    envelope = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}
    params = {"notifications": wanted, "_meta": envelope}
    connection.receive(json.dumps({"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": params}).encode() + b"\n")
    await asyncio.sleep(0)
    assert [message["method"] for message in way_out.sent] == [ACKNOWLEDGED]
    for number in range(10_000):
        server.notify_resource_updated(f"file:///a/{number % uris}")
    server.notify_tools_list_changed()
    server.notify_tools_list_changed()
    assert len(way_out.sent) == 1
    way_out.relieved.set()
    connection.receive_end()
    await asyncio.wait_for(connection.drain(), DEADLINE)
    *changes, result = way_out.sent[1:]
    assert result["result"]["resultType"] == "complete"
    assert len(changes) == min(uris + 1, MAX_WAITING)
    assert changes[-1]["method"] == "notifications/tools/list_changed"
    connection.close()
