"""A client comes back to another worker than the one that serves its request, and misses nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import Context, Server
from dragoman.server.http import resumption
from dragoman.stores.local.folder import DATABASE
from scenarios.http.test_workers import Workshop, parted
from scenarios.http_peer import DEADLINE, HttpPeer, live
from scenarios.http_travels import City, Gate, text


def missed(exchange: Any) -> list[Any]:
    """What came: the progress of notifications, and the ids of responses."""
    return [message.get("id") or message["params"]["progress"] for message in exchange.said]


async def left_after_one(peer: HttpPeer, **options: Any) -> str:
    """Call a tool, leave after its first event, and return the id of that event."""
    exchange = peer.call("steps", token="t", id="call", **options)
    (first,) = await exchange.events(1)
    await parted(exchange)
    return first.id


@pytest.mark.covers("WRK-07", "SHT-41")
async def test_a_stream_is_resumed_on_another_worker_while_its_request_runs(tmp_path):
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer = await workshop.begin()
    first = await left_after_one(peer)
    resumed = await workshop.at(peer, 1).listen(last_event_id=first)
    gate.opened.set()
    await resumed.end()
    assert missed(resumed) == [2, 3, "call"]
    assert text(resumed) == "there"
    again = await (await workshop.at(peer, 2).listen(last_event_id=resumed.heard[1].id)).end()
    assert missed(again) == ["call"]
    nothing = await (await workshop.at(peer, 2).listen(last_event_id=again.heard[-1].id)).end()
    assert nothing.said == []
    home = await (await workshop.at(peer, 0).listen(last_event_id=first)).end()
    assert missed(home) == [2, 3, "call"]
    await workshop.close()


@pytest.mark.covers("WRK-07")
async def test_who_resumes_last_reads_whatever_worker_that_is(tmp_path, monkeypatch):
    monkeypatch.setattr(resumption, "CHECK_SECONDS", 0.05)
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer = await workshop.begin()
    exchange = peer.call("steps", token="t", id="call")
    (first,) = await exchange.events(1)
    readers = [await workshop.at(peer, number).listen(last_event_id=first.id) for number in (1, 1, 2, 0, 1)]
    await exchange.end()
    *older, newest = readers
    for reader in older:
        await reader.end()
        assert reader.said == []
    gate.opened.set()
    await newest.end()
    assert missed(newest) == [2, 3, "call"]
    await workshop.close()


@pytest.mark.covers("WRK-07", "WRK-02")
async def test_a_question_comes_to_the_worker_where_the_stream_is_read_and_is_answered_on_a_third(tmp_path):
    workshop = Workshop(tmp_path)
    for server in workshop.servers:
        asking_later(server)
    peer = await workshop.begin()
    exchange = peer.call("ask_later", token="t")
    (first,) = await exchange.events(1)
    await parted(exchange)
    resumed = await workshop.at(peer, 1).listen(last_event_id=first.id)
    asked = (await resumed.until(lambda one: one.said))[0]
    assert (await workshop.at(peer, 2).respond(asked["id"], {"action": "accept", "content": {"city": "Rome"}})).status
    assert text(await resumed.end()) == "Rome"
    await workshop.close()


def asking_later(server: Server) -> None:
    @server.tool
    async def ask_later(ctx: Context) -> str:
        await ctx.report_progress(1)
        await ctx.close_stream()
        answer = await ctx.elicit("Where?", City)
        return answer.content.city


@pytest.mark.covers("WRK-07", "SHT-48")
async def test_a_client_that_was_let_go_comes_back_to_another_worker(tmp_path):
    workshop = Workshop(tmp_path)
    for server in workshop.servers:
        asking_later(server)
    peer = await workshop.begin()
    exchange = await peer.call("ask_later").end()
    (primed,) = exchange.all_events
    resumed = await workshop.at(peer, 2).listen(last_event_id=primed.id)
    (asked,) = await resumed.until(lambda one: one.said)
    await workshop.at(peer, 1).respond(asked["id"], {"action": "accept", "content": {"city": "Oslo"}})
    assert text(await resumed.end()) == "Oslo"
    await workshop.close()


@pytest.mark.covers("WRK-07")
async def test_what_a_worker_had_when_it_ended_is_resumed_on_another(tmp_path):
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer = await workshop.begin()
    first = await left_after_one(peer)
    gate.opened.set()
    await live(workshop.apps[0])
    resumed = await (await workshop.at(peer, 1).listen(last_event_id=first)).end()
    assert missed(resumed) == [2, 3, "call"]
    assert text(resumed) == "there"
    await workshop.close()


@pytest.mark.covers("WRK-07", "WRK-12")
async def test_a_worker_that_ends_leaves_the_error_of_what_it_stopped(tmp_path):
    workshop = Workshop(tmp_path, gate=Gate())
    peer = await workshop.begin()
    first = await left_after_one(peer)
    await asyncio.wait_for(workshop.apps[0].close(0.01), DEADLINE)
    resumed = await (await workshop.at(peer, 1).listen(last_event_id=first)).end()
    (error,) = resumed.said
    assert (error["id"], "may have run" in error["error"]["message"]) == ("call", True)
    await workshop.close()


@pytest.mark.covers("WRK-07")
async def test_who_reads_on_another_worker_is_sent_home_when_that_worker_ends(tmp_path):
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer = await workshop.begin()
    first = await left_after_one(peer)
    resumed = await workshop.at(peer, 1).listen(last_event_id=first)
    await live(workshop.apps[1])
    await resumed.end()
    assert resumed.said == []
    again = await workshop.at(peer, 2).listen(last_event_id=first)
    gate.opened.set()
    await again.end()
    assert missed(again) == [2, 3, "call"]
    await workshop.close()


@pytest.mark.covers("WRK-04", "WRK-07")
async def test_delete_ends_what_is_read_on_another_worker(tmp_path):
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer = await workshop.begin()
    first = await left_after_one(peer)
    resumed = await workshop.at(peer, 1).listen(last_event_id=first)
    assert (await workshop.at(peer, 2).send("DELETE").end()).status == 200
    await resumed.end()
    await gate.was_cancelled()
    await workshop.close()


@pytest.mark.covers("WRK-07")
async def test_nobody_resumes_the_stream_of_another_session(tmp_path):
    gate = Gate()
    workshop = Workshop(tmp_path, gate=gate)
    peer, stranger = await workshop.begin(), await workshop.begin()
    first = await left_after_one(peer)
    stolen = await (await workshop.at(stranger, 1).listen(last_event_id=first)).end()
    (error,) = stolen.said
    assert "not kept any more" in error["error"]["message"]
    gate.opened.set()
    resumed = await (await workshop.at(peer, 1).listen(last_event_id=first)).end()
    assert missed(resumed) == [2, 3, "call"]
    await workshop.close()


@pytest.mark.covers("WRK-07", "WRK-04", "SHT-12")
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18"])
async def test_the_stream_by_get_goes_on_in_another_worker_with_what_was_missed(tmp_path, version):
    workshop = Workshop(tmp_path)
    peer = workshop.peer()
    peer.version = version
    await peer.initialize()
    for number in (1, 2, 0):
        await workshop.at(peer, number).request("ping")
    await peer.request("logging/setLevel", {"level": "info"})
    stream = await peer.listen()
    workshop.servers[0].log("info", "before")
    await stream.events(1)
    await parted(stream)
    for number, server in enumerate(workshop.servers):
        server.log("info", f"missed {number}")
        # The answer comes when every worker has got this, and what was sent before it.
        await workshop.at(peer, number).request("logging/setLevel", {"level": "info"})
    resumed = await workshop.at(peer, 1).listen(last_event_id=stream.heard[-1].id)
    await resumed.events(3)
    assert sorted(message["params"]["data"] for message in resumed.said) == ["missed 0", "missed 1", "missed 2"]
    workshop.servers[2].log("info", "after")
    await resumed.events(4)
    await parted(resumed)
    again = await workshop.at(peer, 2).listen(last_event_id=resumed.all_events[-1].id)
    workshop.servers[0].log("info", "at last")
    await again.events(1)
    assert [message["params"]["data"] for message in again.said] == ["at last"]
    await parted(again)
    await workshop.close()


@pytest.mark.covers("WRK-07")
async def test_the_stream_by_get_that_nothing_came_on_goes_on_elsewhere(tmp_path):
    workshop = Workshop(tmp_path, 2)
    peer = await workshop.begin()
    stream = await peer.listen()
    (primed,) = stream.all_events
    await live(workshop.apps[0])
    await stream.end()
    resumed = await workshop.at(peer, 1).listen(last_event_id=primed.id)
    workshop.servers[1].notify_tools_list_changed()
    assert len(await resumed.events(1)) == 1
    await parted(resumed)
    await workshop.close()


@pytest.mark.covers("WRK-07")
async def test_what_is_short_and_delivered_leaves_nothing_in_the_store(tmp_path: Path):
    gate = Gate()
    gate.opened.set()
    workshop = Workshop(tmp_path, 1, gate=gate)
    peer = await workshop.begin()
    for _ in range(5):
        assert text(await peer.call("steps", token="t").end()) == "there"
        assert text(await peer.call("add", {"a": 1, "b": 2}).end()) == "3"
    await workshop.close()
    assert not tmp_path.joinpath(DATABASE).exists()
