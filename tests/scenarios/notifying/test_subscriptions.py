"""Changes told to sessions of the handshake era: lists that changed, and resources that they follow."""

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from dragoman import BlockingContext, Context, Server, types
from dragoman.config import Configuration
from dragoman.protocol.subscriptions import MAX_WAITING
from dragoman.testing import WirePeer
from dragoman.transports.contract import FunctionSink
from scenarios.wire import DEADLINE

UPDATED = "notifications/resources/updated"
KINDS = pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
FOLLOWED = {"resources": {"subscribe": True}}
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


def changed(kind: str) -> types.Json:
    return {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": {}}


def updated(uri: str) -> types.Json:
    return {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}


def notify(server: Server, kind: str) -> None:
    getattr(server, f"notify_{kind}_list_changed")()


# Lists.


@pytest.mark.covers("NOT-01", "NOT-03")
@KINDS
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_session_is_told_that_a_list_changed(version, kind):
    server = Server()
    async with WirePeer(server, version) as one, WirePeer(server, version) as other:
        notify(server, kind)
        assert one.received == other.received == [changed(kind)]


@pytest.mark.covers("NOT-01")
@KINDS
async def test_a_change_may_be_told_from_another_thread(kind):
    server = Server()
    async with WirePeer(server) as one, WirePeer(server) as other:
        await asyncio.to_thread(notify, server, kind)
        assert await one.receive() == await other.receive() == changed(kind)


@pytest.mark.covers("NOT-01")
@KINDS
def test_connections_of_several_loops_are_told_of_a_change(kind):
    server = Server()
    ready = threading.Barrier(3, timeout=DEADLINE)
    heard: list[types.Json] = []

    async def talk() -> None:
        async with WirePeer(server) as peer:
            await asyncio.to_thread(ready.wait)
            heard.append(await peer.receive())

    threads = [threading.Thread(target=asyncio.run, args=(talk(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait()
    notify(server, kind)
    for thread in threads:
        thread.join(DEADLINE)
    assert heard == [changed(kind)] * 2


@pytest.mark.covers("NOT-01")
@KINDS
async def test_a_change_is_told_only_where_it_is_declared(kind):
    every = {"tools", "prompts", "resources"}
    undeclared = Server(capabilities={name: {"listChanged": name != kind} for name in every})
    empty = Server(capabilities=dict.fromkeys(every, False))
    async with WirePeer(undeclared) as peer, WirePeer(empty) as other:
        notify(undeclared, kind)
        notify(empty, kind)
        assert peer.received == other.received == []


@pytest.mark.covers("NOT-01")
@KINDS
@pytest.mark.parametrize("era", ["none", "stateless"])
async def test_who_neither_shook_hands_nor_listens_is_told_of_no_change(era, kind):
    server = Server()
    async with WirePeer(server, era) as peer:
        await peer.request("tools/list")
        notify(server, kind)
        assert peer.received == []


@pytest.mark.covers("NOT-01")
@KINDS
def test_without_clients_nothing_happens(kind):
    server = Server()
    notify(server, kind)
    server.notify_resource_updated("file:///a")
    server.log("info", "nobody hears")
    assert server.notifier.members() == []


@pytest.mark.covers("NOT-01")
@KINDS
async def test_who_is_gone_is_told_nothing(kind):
    server = Server()
    async with WirePeer(server) as gone:
        pass
    async with WirePeer(server) as here:
        notify(server, kind)
        assert here.received == [changed(kind)]
        assert gone.received == []
    assert server.notifier.members() == []


@pytest.mark.covers("NOT-01")
@pytest.mark.parametrize("where", ["loop", "thread"])
async def test_a_change_that_cannot_be_told_is_reported_with_its_name_and_hinders_nothing(where):
    reports: list[tuple[BaseException, types.Json]] = []
    configuration = Configuration(exception_reporter=lambda error, info: reports.append((error, info)))
    server = Server(capabilities=FOLLOWED, configuration=configuration)
    async with WirePeer(server) as peer:
        if where == "loop":
            server.notify_resource_updated("\ud800")
        else:
            await asyncio.to_thread(server.notify_resource_updated, "\ud800")
        assert [info for _, info in reports] == [{"notification": UPDATED}]
        assert peer.received == []


@pytest.mark.covers("NOT-01")
async def test_a_change_told_in_a_handler_comes_before_its_response():
    server = Server()

    @server.tool
    async def grow() -> None:
        server.notify_tools_list_changed()

    seen: list[types.Json] = []
    async with WirePeer(server) as peer:
        id = peer.start("tools/call", {"name": "grow"})
        seen.append(await peer.receive())
        await peer.response(id)
    assert seen == [changed("tools")]


# Resources.


@pytest.mark.covers("SUB-01", "SUB-05", "BEY-18")
@pytest.mark.parametrize("version", VERSIONS)
async def test_who_follows_a_resource_is_told_that_it_changed_and_nobody_else(version):
    server = Server(capabilities=FOLLOWED)
    async with WirePeer(server, version) as subscriber, WirePeer(server, version) as other:
        assert (await subscriber.request("resources/subscribe", {"uri": "file:///a"}))["result"] == {}
        await other.request("resources/subscribe", {"uri": "file:///b"})
        server.notify_resource_updated("file:///a")
        await asyncio.to_thread(server.notify_resource_updated, "file:///c")
        await asyncio.to_thread(server.notify_resource_updated, "file:///b")
        assert await other.receive() == updated("file:///b")
        assert subscriber.received == [updated("file:///a")]
        assert other.received == []


@pytest.mark.covers("SUB-01", "SUB-05", "BEY-18")
async def test_who_does_not_follow_a_resource_any_more_is_not_told():
    server = Server(capabilities=FOLLOWED)
    async with WirePeer(server) as peer:
        assert (await peer.request("resources/unsubscribe", {"uri": "file:///a"}))["result"] == {}
        for _ in range(2):
            await peer.request("resources/subscribe", {"uri": "file:///a"})
        server.notify_resource_updated("file:///a")
        assert peer.received == [updated("file:///a")]
        assert (await peer.request("resources/unsubscribe", {"uri": "file:///a"}))["result"] == {}
        server.notify_resource_updated("file:///a")
        assert peer.received == [updated("file:///a")]


@pytest.mark.covers("SUB-02")
@pytest.mark.parametrize("capabilities", [None, {"resources": {}}, {"resources": {"subscribe": False}}, {}])
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_following_does_not_exist_where_it_is_not_declared(method, capabilities):
    async with WirePeer(Server(capabilities=capabilities)) as peer:
        assert (await peer.request(method, {"uri": "file:///a"}))["error"]["code"] == -32601


@pytest.mark.covers("SUB-07")
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_following_does_not_exist_in_the_stateless_era(method):
    async with WirePeer(Server(capabilities=FOLLOWED), "stateless") as peer:
        assert (await peer.request(method, {"uri": "file:///a"}))["error"]["code"] == -32601


@pytest.mark.covers("SUB-01", "SUB-02")
async def test_a_function_for_followers_makes_the_capability_declared():
    server = Server()
    server.on_subscribe(lambda uri: None)
    async with WirePeer(server) as peer:
        declared = peer.initialized["result"]["capabilities"]["resources"]
        assert declared == {"listChanged": True, "subscribe": True}
        assert (await peer.request("resources/subscribe", {"uri": "file:///a"}))["result"] == {}


def hooked(kind: str) -> tuple[Server, list[tuple[str, str]]]:
    server = Server()
    called: list[tuple[str, str]] = []

    async def subscribe(uri: str, ctx: Context) -> None:
        called.append(("subscribe", f"{uri} {ctx.request_id}"))

    async def unsubscribe(uri: str, ctx: Context) -> None:
        called.append(("unsubscribe", f"{uri} {ctx.request_id}"))

    def blocking_subscribe(uri: str, ctx: BlockingContext) -> None:
        called.append(("subscribe", f"{uri} {ctx.request_id}"))

    def blocking_unsubscribe(uri: str, ctx: BlockingContext) -> None:
        called.append(("unsubscribe", f"{uri} {ctx.request_id}"))

    server.on_subscribe(subscribe if kind == "async" else blocking_subscribe)
    server.on_unsubscribe(unsubscribe if kind == "async" else blocking_unsubscribe)
    return server, called


@pytest.mark.covers("SUB-01")
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_the_functions_for_followers_are_given_the_uri_and_the_context(kind):
    server, called = hooked(kind)
    async with WirePeer(server) as peer:
        await peer.request("resources/subscribe", {"uri": "file:///a"}, id=70)
        server.notify_resource_updated("file:///a")
        assert peer.received == [updated("file:///a")]
        await peer.request("resources/unsubscribe", {"uri": "file:///a"}, id=71)
    assert called == [("subscribe", "file:///a 70"), ("unsubscribe", "file:///a 71")]


@pytest.mark.covers("SUB-03")
@pytest.mark.parametrize("params", [{}, {"uri": 3}, {"uri": None}, {"uri": ["file:///a"]}], ids=repr)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_a_uri_that_is_no_text_is_refused_before_anything_is_called(method, params):
    server, called = hooked("async")
    async with WirePeer(server) as peer:
        assert (await peer.request(method, params))["error"]["code"] == -32602
    assert called == []


@pytest.mark.covers("SUB-04")
@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, {}),
        ({"_meta": {"acme/since": 3}}, {"_meta": {"acme/since": 3}}),
        ({"_meta": {"acme/since": 3}, "more": 1}, {"_meta": {"acme/since": 3}}),
        ({"_meta": "text"}, {}),
        ({"more": 1}, {}),
        ("text", {}),
        (7, {}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_of_what_a_function_for_followers_gives_only_its_meta_is_answered(method, returned, result):
    server = Server()
    server.on_subscribe(lambda: returned)
    server.on_unsubscribe(lambda: returned)
    async with WirePeer(server) as peer:
        assert (await peer.request(method, {"uri": "file:///a"}))["result"] == result


@pytest.mark.covers("SUB-01")
async def test_a_function_that_fails_refuses_and_nothing_is_followed(caplog):
    server = Server()

    @server.on_subscribe
    async def subscribe(uri: str) -> None:
        raise LookupError(uri)

    async with WirePeer(server) as peer:
        assert (await peer.request("resources/subscribe", {"uri": "file:///a"}))["error"]["code"] == -32603
        server.notify_resource_updated("file:///a")
        assert peer.received == []
    assert len(caplog.records) == 1


@pytest.mark.covers("SUB-06", "NOT-02")
@pytest.mark.parametrize("kind", ["async", "thread", "inline"])
async def test_a_request_tells_its_own_client_only_that_a_resource_changed(kind):
    server = Server()

    async def asynchronous(ctx: Context) -> None:
        await ctx.notify_resource_updated("file:///a")

    def blocking(ctx: BlockingContext) -> None:
        ctx.notify_resource_updated("file:///a")

    server.tool(name="touch", inline=kind == "inline")(asynchronous if kind == "async" else blocking)
    server.on_subscribe(lambda: None)
    async with WirePeer(server) as asking, WirePeer(server) as following:
        await following.request("resources/subscribe", {"uri": "file:///a"})
        await asking.request("tools/call", {"name": "touch"})
        assert asking.received == [updated("file:///a")]
        assert following.received == []


# Clients that do not read.


class Congested(FunctionSink):
    """A way out that has no room until it is relieved."""

    def __init__(self) -> None:
        super().__init__(self._keep)
        self.sent: list[types.Json] = []
        self.relieved = asyncio.Event()
        self.full = asyncio.Event()

    @property
    def has_room(self) -> bool:
        return self.relieved.is_set()

    def _keep(self, data: bytes) -> None:
        self.sent.append(msgspec.json.decode(data))
        if len(self.sent) == MAX_WAITING:
            self.full.set()

    async def wait_for_room(self) -> None:
        await self.relieved.wait()


def connect(server: Server) -> tuple[Any, Congested]:
    """Return a session that wants log messages, and its way out, which has taken nothing else yet."""
    way_out = Congested()
    connection = server.connect(way_out)
    client = {"name": "client", "version": "1"}
    introduction = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    for method, params in [("initialize", introduction), ("logging/setLevel", {"level": "info"})]:
        message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        connection.receive(msgspec.json.encode(message) + b"\n")
    way_out.sent.clear()
    return connection, way_out


@pytest.mark.covers("NOT-08")
async def test_while_a_session_does_not_read_equal_changes_are_one_and_the_oldest_messages_give_way():
    server = Server()
    connection, way_out = connect(server)
    for number in range(10_000):
        server.notify_tools_list_changed()
        server.log("info", number)
    server.notify_prompts_list_changed()
    server.notify_prompts_list_changed()
    assert way_out.sent == []
    way_out.relieved.set()
    await asyncio.wait_for(way_out.full.wait(), DEADLINE)
    logged = [message["params"]["data"] for message in way_out.sent if "data" in message["params"]]
    assert logged == list(range(10_000))[-len(logged) :]
    assert way_out.sent[-1] == changed("prompts")
    assert len(way_out.sent) == MAX_WAITING
    server.notify_tools_list_changed()
    assert way_out.sent[-1] == changed("tools")
    connection.close()


@pytest.mark.covers("NOT-01")
async def test_what_still_waits_when_a_connection_closes_is_not_sent():
    server = Server()
    connection, way_out = connect(server)
    server.notify_tools_list_changed()
    connection.close()
    way_out.relieved.set()
    for _ in range(5):
        await asyncio.sleep(0)
    server.notify_tools_list_changed()
    assert way_out.sent == []
