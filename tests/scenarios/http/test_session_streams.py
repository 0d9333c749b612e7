"""The streams of sessions over HTTP: what is asked and told on them, and what happens when connections break."""

import asyncio

import pytest

from dragoman import Context
from dragoman.protocol.sse import EventId
from dragoman.transports.http.exchange import Pace
from scenarios.http_peer import (
    BATCHING,
    DEADLINE,
    NEWEST,
    OLDER,
    HttpPeer,
    live,
)
from scenarios.http_travels import City, Gate, session, text, travels


@pytest.mark.covers("SHT-11", "SHT-33")
async def test_what_is_asked_goes_on_the_stream_of_its_request_and_is_answered_by_a_post():
    peer = await session(travels())
    exchange = peer.call("ask_twice", id="call")
    roots = (await exchange.until(lambda one: one.said))[0]
    assert roots["method"] == "roots/list"
    await peer.respond(roots["id"], {"roots": [{"uri": "file:///home"}]})
    sampling = (await exchange.until(lambda one: one.said[1:]))[0]
    assert sampling["method"] == "sampling/createMessage"
    await peer.respond(sampling["id"], {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hi"}})
    assert text(await exchange.end()) == "file:///home Hi"
    assert exchange.said[-1]["id"] == "call"


@pytest.mark.covers("SHT-34")
async def test_only_the_session_that_was_asked_can_answer():
    server = travels()
    peer = await session(server)
    other = HttpPeer(peer.app)
    await other.initialize()
    exchange = peer.call("where")
    asked = (await exchange.until(lambda one: one.said))[0]
    await other.respond(asked["id"], {"action": "accept", "content": {"city": "Athens"}})
    await peer.respond(asked["id"], {"action": "accept", "content": {"city": "Rome"}})
    assert text(await exchange.end()) == "Rome"


@pytest.mark.covers("SHT-33")
async def test_a_question_that_is_not_answered_in_time_is_taken_back():
    server = travels()

    @server.tool
    async def hasty(ctx: Context) -> str:
        return str(await ctx.elicit("Where?", City, timeout=0.01))

    peer = await session(server)
    exchange = await peer.call("hasty").end()
    asked, withdrawn, response = exchange.said
    assert withdrawn["params"]["requestId"] == asked["id"]
    assert "did not answer" in response["result"]["content"][0]["text"]


@pytest.mark.covers("SHT-40")
@pytest.mark.parametrize(("version", "primes"), [(NEWEST, True), (OLDER, False), (BATCHING, False)])
async def test_a_stream_begins_with_an_event_to_resume_from_where_the_version_has_that(version, primes):
    gate = Gate()
    gate.opened.set()
    peer = await session(travels(gate), version)
    exchange = await peer.call("steps", token="t").end()
    assert [message["params"]["progress"] for message in exchange.said[:-1]] == [1, 2, 3]
    first = exchange.all_events[0]
    assert (first.data == "" and first.retry is not None and first.id is not None) == primes
    assert len(exchange.all_events) == len(exchange.said) + primes


@pytest.mark.covers("SHT-40")
async def test_what_takes_long_begins_its_stream_with_an_event_to_resume_from():
    gate = Gate()
    peer = await session(travels(gate), pace=Pace(tick=0.001, stream_after=0))
    exchange = peer.call("silent")
    (primed,) = await exchange.until(lambda one: one.all_events)
    assert (primed.data, EventId.decode(primed.id).sequence) == ("", 0)
    exchange.leave()
    await exchange.end()
    gate.opened.set()
    resumed = await (await peer.listen(last_event_id=primed.id)).end()
    assert text(resumed) == "there"


@pytest.mark.covers("SHT-41")
async def test_a_broken_connection_cancels_nothing_and_the_client_gets_exactly_what_it_missed():
    gate = Gate()
    peer = await session(travels(gate))
    exchange = peer.call("steps", token="t", id="call")
    (first,) = await exchange.events(1)
    exchange.leave()
    await exchange.end()
    resumed = await peer.listen(last_event_id=first.id)
    gate.opened.set()
    await resumed.end()
    assert [message.get("id") or message["params"]["progress"] for message in resumed.said] == [2, 3, "call"]
    assert not resumed.messages[-1].get("more_body")
    again = await (await peer.listen(last_event_id=resumed.heard[0].id)).end()
    assert [message.get("id") or message["params"]["progress"] for message in again.said] == [3, "call"]
    nothing = await (await peer.listen(last_event_id=again.heard[-1].id)).end()
    assert nothing.said == []


@pytest.mark.covers("SHT-40", "SHT-41")
@pytest.mark.parametrize(("version", "primes"), [(NEWEST, True), (OLDER, False)])
async def test_a_resumed_stream_begins_with_the_cursor_of_its_client_where_the_version_has_that(version, primes):
    gate = Gate()
    peer = await session(travels(gate), version)
    exchange = peer.call("steps", token="t")
    (first,) = await exchange.events(1)
    exchange.leave()
    await exchange.end()
    for _ in range(2):  # a connection that breaks before the next event costs nothing
        resumed = await peer.listen(last_event_id=first.id)
        await resumed.until(lambda one: len(one.all_events) >= primes)
        assert [(event.id, event.data) for event in resumed.all_events] == [(first.id, "")] * primes
        resumed.leave()
        await resumed.end()
    gate.opened.set()
    assert len((await (await peer.listen(last_event_id=first.id)).end()).said) == 3


@pytest.mark.covers("SHT-41")
async def test_a_stream_that_is_resumed_while_its_post_is_open_is_read_by_the_newer():
    gate = Gate()
    peer = await session(travels(gate))
    exchange = peer.call("steps", token="t")
    (first,) = await exchange.events(1)
    resumed = await peer.listen(last_event_id=first.id)
    await exchange.end()
    gate.opened.set()
    await resumed.end()
    assert len(exchange.said) == 1
    assert len(resumed.said) == 3


@pytest.mark.covers("SHT-41")
@pytest.mark.parametrize("id", ["nonsense", "", "other-7", "0000-1.-3"])
async def test_an_event_id_that_is_none_is_400_and_the_session_lives_on(id):
    peer = await session(travels())
    exchange = await peer.send("GET", headers={"last-event-id": id}).end()
    assert exchange.status == 400
    assert "Last-Event-ID" in exchange.json["error"]["message"]
    assert (await peer.request("tools/list")).status == 200


@pytest.mark.covers("SHT-41")
async def test_the_response_of_a_request_that_is_not_kept_any_more_is_an_error():
    peer = await session(travels())
    resumed = await (await peer.listen(last_event_id="0000-1.ImNhbGwi-3")).end()
    (error,) = resumed.said
    assert (error["id"], error["error"]["code"]) == ("call", -32603)
    assert error["error"]["message"].endswith("the request may have run")


@pytest.mark.covers("SHT-41", "SHT-12")
async def test_a_stream_by_get_goes_on_though_what_was_missed_is_not_kept():
    server = travels()
    peer = await session(server)
    resumed = await peer.listen(last_event_id="0000-1-3")
    server.notify_tools_list_changed()
    await resumed.events(1)
    assert resumed.all_events[0].data == "", "it begins with an event to resume from"
    resumed.leave()
    await resumed.end()


@pytest.mark.covers("SHT-12", "SHT-42")
async def test_a_stream_by_get_tells_what_belongs_to_no_request():
    server = travels()
    peer = await session(server)
    await peer.request("resources/subscribe", {"uri": "file:///a"})
    await peer.request("logging/setLevel", {"level": "info"})
    stream = await peer.listen()
    await asyncio.to_thread(server.notify_tools_list_changed)
    server.notify_prompts_list_changed()
    server.notify_resource_updated("file:///a")
    server.notify_resource_updated("file:///b")
    server.log("debug", "nothing")
    await asyncio.to_thread(server.log, "error", "broken")
    await stream.events(3)
    assert {message["method"] for message in stream.said} == {
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        "notifications/message",
    }
    stream.leave()
    await stream.end()
    server.log("error", "missed")
    resumed = await peer.listen(last_event_id=stream.heard[-1].id)
    await resumed.events(1)
    assert [message["params"]["data"] for message in resumed.said] == ["missed"]
    resumed.leave()
    await resumed.end()


@pytest.mark.covers("SHT-12")
async def test_the_newest_stream_by_get_wins():
    server = travels()
    peer = await session(server)
    older = await peer.listen()
    newer = await peer.listen()
    await older.end()
    server.notify_tools_list_changed()
    await newer.events(1)
    assert not older.said
    await live(peer.app)
    await newer.end()


@pytest.mark.covers("SHT-12")
async def test_an_older_reader_that_leaves_late_takes_nothing_from_the_newer():
    server = travels()
    peer = await session(server)
    older = await peer.listen()
    newer = await peer.listen()
    older.leave()
    await older.end()
    server.notify_tools_list_changed()
    assert len(await newer.events(1)) == 1
    newer.leave()
    await newer.end()


@pytest.mark.covers("SHT-16")
async def test_a_stream_by_get_needs_a_client_that_takes_one():
    peer = await session(travels())
    exchange = await peer.send("GET", headers={"accept": "application/json"}).end()
    assert exchange.status == 406


@pytest.mark.covers("SHT-13")
async def test_a_stream_by_get_is_kept_alive_by_comments():
    peer = await session(travels(), pace=Pace(tick=0.001, keep_alive=0))
    stream = await peer.listen()
    assert await stream.until(lambda one: one.body.count(b":\r\n\r\n") >= 2)
    stream.leave()
    await stream.end()


@pytest.mark.covers("SHT-43", "BEY-11")
@pytest.mark.parametrize("tool", ["silent", "steps"])
async def test_a_request_that_its_client_cancels_ends_without_an_answer(tool):
    gate = Gate()
    peer = await session(travels(gate))
    exchange = peer.call(tool, token="t", id="call")
    await gate.was_reached()
    assert (await peer.notify("notifications/cancelled", {"requestId": "call"})).status == 202
    await exchange.end()
    assert gate.cancelled.is_set()
    assert b"result" not in exchange.body
    assert not exchange.messages[-1].get("more_body")
    assert (await peer.call("add", {"a": 1, "b": 1}, id="call").end()).status == 200


@pytest.mark.covers("SHT-44")
async def test_an_id_that_is_in_use_is_409_and_the_first_request_goes_on():
    gate = Gate()
    peer = await session(travels(gate))
    first = peer.call("silent", id="same")
    await gate.was_reached()
    second = await peer.call("add", {"a": 1, "b": 2}, id="same").end()
    assert (second.status, second.json["error"]["code"], second.json["id"]) == (409, -32600, "same")
    gate.opened.set()
    assert text(await first.end()) == "there"


@pytest.mark.covers("SHT-43")
async def test_a_request_of_a_batch_can_be_cancelled():
    gate = Gate()
    peer = await session(travels(gate), BATCHING)
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "silent", "arguments": {}}}
    exchange = peer.post([call, {"jsonrpc": "2.0", "id": 6, "method": "ping"}])
    await gate.was_reached()
    await peer.notify("notifications/cancelled", {"requestId": 5})
    await exchange.end()
    assert [answer["id"] for answer in exchange.json] == [6]


@pytest.mark.covers("SHT-43")
async def test_a_request_may_be_cancelled_by_the_batch_that_it_is_part_of():
    gate = Gate()
    peer = await session(travels(gate), BATCHING)
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "silent", "arguments": {}}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    exchange = await peer.post([call, {"jsonrpc": "2.0", "id": 6, "method": "ping"}, cancel]).end()
    assert [answer["id"] for answer in exchange.json] == [6]


@pytest.mark.covers("SHT-35")
@pytest.mark.by_asgi
async def test_a_reader_who_does_not_read_holds_up_nobody_else():
    server = travels()
    peer = await session(server)
    stuck = peer.send("GET", reads=False)
    await asyncio.wait_for(stuck.blocked.wait(), DEADLINE)
    for _ in range(3):
        server.notify_tools_list_changed()
    assert text(await peer.call("add", {"a": 1, "b": 2}).end()) == "3"
    stuck.task.cancel()
    await asyncio.wait([stuck.task])
    await live(peer.app)


@pytest.mark.covers("SHT-35")
async def test_a_request_whose_client_does_not_read_is_finished_all_the_same():
    gate = Gate()
    gate.opened.set()
    peer = await session(travels(gate), pace=Pace(send=0.01))
    exchange = await peer.call("steps", token="t", reads=False).end()
    assert gate.reached.is_set()
    assert not exchange.messages


@pytest.mark.covers("SHT-33")
async def test_a_question_of_a_request_that_is_cancelled_is_taken_back():
    peer = await session(travels())
    exchange = peer.call("where", id="call")
    asked = (await exchange.until(lambda one: one.said))[0]
    await peer.notify("notifications/cancelled", {"requestId": "call"})
    await exchange.end()
    assert [message["params"].get("requestId") for message in exchange.said] == [None, asked["id"]]


async def test_a_client_may_answer_a_question_with_an_error():
    peer = await session(travels())
    exchange = peer.call("where")
    asked = (await exchange.until(lambda one: one.said))[0]
    error = {"code": -1, "message": "No user is here"}
    assert (await peer.post({"jsonrpc": "2.0", "id": asked["id"], "error": error}).end()).status == 202
    await exchange.end()
    assert exchange.said[-1]["result"]["isError"] is True
    assert (
        exchange.said[-1]["result"]["content"][0]["text"]
        == "The client refused elicitation/create: No user is here (-1)"
    )


@pytest.mark.covers("SHT-14", "SHT-33")
async def test_a_session_that_ends_while_something_is_asked_takes_it_back_and_ends_the_request():
    peer = await session(travels())
    exchange = peer.call("where", id="call")
    asked = (await exchange.until(lambda one: one.said))[0]
    await peer.send("DELETE").end()
    await exchange.end()
    _, withdrawn, response = exchange.said
    assert withdrawn["params"]["requestId"] == asked["id"]
    assert response["id"] == "call"
    await peer.app.close()
    assert not exchange.messages[-1].get("more_body")
