"""Several workers, each with an equal server, joined by a real bus: whichever gets a request serves it."""

import asyncio
from pathlib import Path

import pytest

from dragoman import Context, Server
from dragoman.server.http.service import HttpService
from dragoman.server.http.sessions import SessionRegistry
from dragoman.server.http.workers import Workers
from dragoman.stores import Local, Memory
from dragoman.stores.memory import MemoryBus
from dragoman.transports.http.asgi import AsgiApp
from scenarios.http_peer import BRISK, STATELESS, Exchange, HttpPeer, live
from scenarios.http_travels import Gate, text, travels

EVERYTHING = {"elicitation": {}, "roots": {}, "sampling": {}}


class Workshop:
    """Workers that serve equal servers, and a client whose every request may come to another of them."""

    def __init__(self, folder: Path, count: int = 3, gate: Gate | None = None, *, idle_timeout: float = 1800) -> None:
        self.now = [0.0] * count
        self.servers = [updating(travels(gate, store=Local(folder))) for _ in range(count)]
        self.apps = [self._app(number, idle_timeout) for number in range(count)]

    def _app(self, number: int, idle_timeout: float) -> AsgiApp:
        server = self.servers[number]
        workers = Workers(server.dispatcher, joins=True)
        sessions = SessionRegistry(
            server.dispatcher, workers=workers, idle_timeout=idle_timeout, clock=lambda: self.now[number]
        )
        return AsgiApp(HttpService(server.dispatcher, workers=workers, sessions=sessions), pace=BRISK)

    def peer(self) -> HttpPeer:
        return HttpPeer(self.apps[0], capabilities=EVERYTHING)

    async def begin(self) -> HttpPeer:
        peer = self.peer()
        await peer.initialize()
        return peer

    def at(self, peer: HttpPeer, number: int) -> HttpPeer:
        """Let what the client sends next come to a worker."""
        peer.app = self.apps[number]
        return peer

    async def close(self) -> None:
        for app in self.apps:
            await live(app)


def updating(server: Server) -> Server:
    @server.tool
    async def update(ctx: Context) -> str:
        await ctx.notify_resource_updated("file:///told")
        return "told"

    return server


async def parted(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        exchange.leave()
        await exchange.end()


@pytest.mark.covers("WRK-01", "SHT-39")
async def test_every_request_of_a_session_may_come_to_another_worker(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    for number in (1, 2, 0, 2, 1):
        assert text(await workshop.at(peer, number).call("add", {"a": number, "b": 1}).end()) == str(number + 1)
    await workshop.close()


@pytest.mark.covers("WRK-02")
async def test_a_question_is_answered_on_another_worker(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    exchange = workshop.at(peer, 1).call("where")
    asked = (await exchange.until(lambda one: one.said))[0]
    answer = {"action": "accept", "content": {"city": "Rome"}}
    assert (await workshop.at(peer, 2).respond(asked["id"], answer)).status == 202
    assert text(await exchange.end()) == "Rome"
    await workshop.close()


@pytest.mark.covers("WRK-02")
async def test_an_error_answers_a_question_on_another_worker(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    exchange = peer.call("where")
    asked = (await exchange.until(lambda one: one.said))[0]
    error = {"code": -1, "message": "No user is here"}
    assert (await workshop.at(peer, 1).post({"jsonrpc": "2.0", "id": asked["id"], "error": error}).end()).status == 202
    await exchange.end()
    assert exchange.said[-1]["result"]["isError"] is True
    assert (
        exchange.said[-1]["result"]["content"][0]["text"]
        == "The client refused elicitation/create: No user is here (-1)"
    )
    await workshop.close()


@pytest.mark.covers("WRK-02", "SHT-34")
async def test_a_question_is_not_answered_by_another_session_on_another_worker(tmp_path):
    workshop = Workshop(tmp_path)
    peer, stranger = await workshop.begin(), await workshop.begin()
    exchange = peer.call("where")
    asked = (await exchange.until(lambda one: one.said))[0]
    await workshop.at(stranger, 1).respond(asked["id"], {"action": "accept", "content": {"city": "Athens"}})
    await workshop.at(peer, 2).respond(asked["id"], {"action": "accept", "content": {"city": "Rome"}})
    assert text(await exchange.end()) == "Rome"
    await workshop.close()


@pytest.mark.covers("WRK-02")
@pytest.mark.parametrize("id", ["nobody-1", "1", 7, "-", "é"])
async def test_an_answer_to_nothing_is_202_and_concerns_nobody(id, tmp_path):
    workshop = Workshop(tmp_path, 2)
    peer = await workshop.begin()
    assert (await workshop.at(peer, 1).respond(id, {})).status == 202
    assert (await peer.request("ping")).status == 200
    await workshop.close()


@pytest.mark.covers("WRK-02", "SHT-43")
async def test_a_request_is_cancelled_on_another_worker(tmp_path):
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer = await workshop.begin()
    exchange = peer.call("silent", id="call")
    await gate.was_reached()
    assert (await workshop.at(peer, 2).notify("notifications/cancelled", {"requestId": "call"})).status == 202
    await gate.was_cancelled()
    await exchange.end()
    assert b"result" not in exchange.body
    await workshop.close()


@pytest.mark.covers("WRK-03", "SHT-42")
async def test_a_level_and_a_subscription_hold_on_every_worker(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    stream = await workshop.at(peer, 2).listen()
    await workshop.at(peer, 0).request("logging/setLevel", {"level": "error"})
    await workshop.at(peer, 1).request("resources/subscribe", {"uri": "file:///a"})
    await workshop.at(peer, 0).request("resources/subscribe", {"uri": "file:///b"})
    await workshop.at(peer, 1).request("resources/unsubscribe", {"uri": "file:///b"})
    workshop.servers[1].log("info", "not wanted")
    workshop.servers[1].notify_resource_updated("file:///b")
    for number, server in enumerate(workshop.servers):
        server.log("error", f"of {number}")
        server.notify_resource_updated("file:///a")
    await stream.events(6)
    assert sorted(message["params"].get("data") or message["params"]["uri"] for message in stream.said) == [
        *["file:///a"] * 3,
        *["of 0", "of 1", "of 2"],
    ]
    await parted(stream)
    await workshop.close()


@pytest.mark.covers("WRK-03")
async def test_a_worker_that_takes_a_session_up_later_knows_what_the_others_remember(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    await peer.request("logging/setLevel", {"level": "error"})
    await peer.request("resources/subscribe", {"uri": "file:///a"})
    stream = await workshop.at(peer, 2).listen()
    workshop.servers[2].log("info", "not wanted")
    workshop.servers[2].notify_resource_updated("file:///a")
    workshop.servers[2].log("error", "wanted")
    await stream.events(2)
    assert [message["params"].get("data") for message in stream.said] == [None, "wanted"]
    await parted(stream)
    await workshop.close()


@pytest.mark.covers("WRK-03")
async def test_what_is_set_in_a_batch_holds_on_every_worker(tmp_path):
    workshop = Workshop(tmp_path, 2)
    peer = HttpPeer(workshop.apps[0], "2025-03-26")
    await peer.initialize()
    await workshop.at(peer, 1).request("ping")
    level = {"jsonrpc": "2.0", "id": 8, "method": "logging/setLevel", "params": {"level": "error"}}
    await workshop.at(peer, 0).post([level]).end()
    stream = await workshop.at(peer, 1).listen()
    workshop.servers[0].log("info", "not wanted")
    workshop.servers[0].log("error", "wanted")
    await stream.events(1)
    assert stream.said[0]["params"]["data"] == "wanted"
    await parted(stream)
    await workshop.close()


@pytest.mark.covers("WRK-05", "LSN-07")
async def test_a_change_in_one_worker_is_told_in_both_eras_by_all(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    stream = await workshop.at(peer, 1).listen()
    modern = HttpPeer(workshop.apps[2], STATELESS)
    subscribed = modern.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
    await subscribed.events(1)
    await asyncio.to_thread(workshop.servers[0].notify_tools_list_changed)
    assert (await stream.events(1))[0].data.count("notifications/tools/list_changed")
    assert (await subscribed.events(2))[1].data.count("notifications/tools/list_changed")
    assert len(stream.said) == 1
    await parted(stream, subscribed)
    await workshop.close()


@pytest.mark.covers("WRK-05", "NOT-02")
async def test_an_update_that_a_request_tells_reaches_its_own_client_wherever_that_reads(tmp_path):
    workshop = Workshop(tmp_path)
    peer, other = await workshop.begin(), await workshop.begin()
    stream, strange = await workshop.at(peer, 1).listen(), await workshop.at(other, 1).listen()
    await workshop.at(peer, 2).call("update").end()
    await stream.events(1)
    assert stream.said[0]["params"] == {"uri": "file:///told"}
    assert not strange.said
    await parted(stream, strange)
    await workshop.close()


@pytest.mark.covers("WRK-04", "SHT-12")
async def test_the_newest_stream_by_get_wins_on_whichever_worker(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    oldest = await workshop.at(peer, 0).listen()
    older = await workshop.at(peer, 1).listen()
    await oldest.end()
    newest = await workshop.at(peer, 2).listen()
    await older.end()
    workshop.servers[0].notify_tools_list_changed()
    await newest.events(1)
    assert [len(one.said) for one in (oldest, older, newest)] == [0, 0, 1]
    again = await workshop.at(peer, 0).listen()
    await newest.end()
    resumed = await workshop.at(peer, 2).listen(last_event_id=newest.heard[-1].id)
    await again.end()
    workshop.servers[1].notify_tools_list_changed()
    await resumed.events(1)
    assert len(again.said) == 0
    await parted(resumed)
    await workshop.close()


@pytest.mark.covers("WRK-04", "SHT-14")
async def test_delete_on_one_worker_ends_the_session_on_all(tmp_path):
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer = await workshop.begin()
    working = workshop.at(peer, 1).call("silent")
    await gate.was_reached()
    stream = await workshop.at(peer, 2).listen()
    assert (await workshop.at(peer, 0).send("DELETE").end()).status == 200
    await gate.was_cancelled()
    await working.end()
    await stream.end()
    for number in range(3):
        assert (await workshop.at(peer, number).request("ping")).status == 404
        assert (await workshop.at(peer, number).send("GET").end()).status == 404
        assert (await workshop.at(peer, number).send("DELETE").end()).status == 404
    await workshop.close()


@pytest.mark.covers("WRK-04")
async def test_an_ended_session_is_404_for_a_worker_that_comes_later(tmp_path):
    workshop, later = Workshop(tmp_path, 2), Workshop(tmp_path, 1)
    peer = await workshop.begin()
    await workshop.at(peer, 1).send("DELETE").end()
    assert (await later.at(peer, 0).request("ping")).status == 404
    await workshop.close()
    await later.close()


@pytest.mark.covers("WRK-06", "SHT-26")
async def test_a_session_lapses_only_when_no_worker_uses_it(tmp_path):
    workshop = Workshop(tmp_path, 2, idle_timeout=100)
    peer = await workshop.begin()
    assert (await workshop.at(peer, 1).request("ping")).status == 200
    workshop.now = [150.0, 50.0]
    assert (await workshop.at(peer, 0).request("ping")).status == 200
    workshop.now = [300.0, 300.0]
    assert (await workshop.at(peer, 1).request("ping")).status == 404
    assert (await workshop.at(peer, 0).request("ping")).status == 404
    await workshop.close()


@pytest.mark.covers("WRK-06")
async def test_the_session_goes_on_when_a_worker_leaves(tmp_path):
    workshop = Workshop(tmp_path)
    peer = await workshop.begin()
    await workshop.at(peer, 1).request("logging/setLevel", {"level": "error"})
    await live(workshop.apps[0])
    stream = await workshop.at(peer, 2).listen()
    await live(workshop.apps[1])
    workshop.servers[2].log("error", "wanted")
    assert len(await stream.events(1)) == 1
    await parted(stream)
    await workshop.close()


class Broken(Memory):
    """A store whose bus cannot be opened, or breaks afterwards."""

    def __init__(self, *, opens: bool) -> None:
        super().__init__()
        self._opens = opens

    def bus(self, group: str) -> MemoryBus:
        store = self

        class Bus(MemoryBus):
            async def open(self, receive) -> None:
                if not store._opens:
                    raise ConnectionError("no broker, and nobody's business")

            async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
                raise ConnectionError("no broker, and nobody's business")

        return Bus()


@pytest.mark.covers("SHT-23")
async def test_a_bus_that_cannot_be_opened_is_reported_and_500(caplog):
    app = travels(store=Broken(opens=False)).asgi()
    exchange = await HttpPeer(app, STATELESS).call("add", {"a": 1, "b": 2}).end()
    assert (exchange.status, exchange.json) == (
        500,
        {"jsonrpc": "2.0", "error": {"code": -32603, "message": "Internal error"}},
    )
    assert "nobody's business" in caplog.text


@pytest.mark.covers("SHT-23")
async def test_a_bus_that_breaks_is_reported_and_holds_no_request_up(caplog):
    app = travels(store=Broken(opens=True)).asgi()
    peer = HttpPeer(app)
    assert (await peer.initialize()).status == 200
    level = await peer.request("logging/setLevel", {"level": "error"})
    assert (level.status, level.json["result"]) == (200, {})
    assert "nobody's business" in caplog.text
    stream = await peer.listen()
    await parted(stream)
    caplog.clear()
    ended = await peer.send("DELETE").end()
    assert ended.status == 500
    assert (await peer.request("ping")).status == 404
    await live(app)
