"""The handshake era over HTTP: how sessions begin, what they carry and how they end."""

import re

import pytest

from dragoman import Server
from dragoman.server.http import service as http
from dragoman.server.http.sessions import SessionRegistry
from dragoman.stores import Memory
from scenarios.http_peer import BATCHING, NEWEST, OLDER, SECRET, STATELESS, HttpPeer, live, serve
from scenarios.http_travels import Gate, session, text, travels


@pytest.mark.covers("SHT-05", "SHT-39")
@pytest.mark.parametrize("version", [NEWEST, OLDER, BATCHING])
async def test_initialize_begins_a_session_whose_id_is_short_and_visible(version):
    peer = HttpPeer(serve(travels()), version)
    exchange = await peer.initialize()
    assert exchange.json["result"]["protocolVersion"] == version
    assert re.fullmatch("[!-~]{1,2047}", peer.session)
    assert text(await peer.call("add", {"a": 1, "b": 2}).end()) == "3"


@pytest.mark.covers("SHT-05")
async def test_a_client_that_takes_only_event_streams_gets_its_session_by_one():
    peer = HttpPeer(serve(travels()))
    introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
    exchange = await peer.request("initialize", introduction, {"accept": "text/event-stream"})
    assert exchange.said[0]["result"]["protocolVersion"] == NEWEST
    assert exchange.headers["mcp-session-id"]


@pytest.mark.covers("SHT-06")
async def test_an_introduction_that_fails_begins_no_session():
    server = travels()
    exchange = await HttpPeer(serve(server)).request("initialize", {"protocolVersion": 7})
    assert exchange.json["error"]["code"] == -32602
    assert "mcp-session-id" not in exchange.headers
    assert not server.notifier.members()


@pytest.mark.covers("SHT-07")
async def test_a_second_introduction_in_a_session_is_refused():
    peer = await session(travels())
    again = await peer.request("initialize", {}, id=9)
    assert (again.status, again.json["error"]["code"], again.json["id"]) == (400, -32600, 9)
    unknown = await peer.request("initialize", {}, {"mcp-session-id": "unknown"})
    assert unknown.status == 404


@pytest.mark.covers("SHT-08")
async def test_without_a_session_id_everything_is_400():
    peer = HttpPeer(serve(travels()))
    request = await peer.request("tools/list", id="r")
    assert (request.status, request.json["id"]) == (400, "r")
    assert "initialize first" in request.json["error"]["message"]
    assert (await peer.notify("notifications/initialized")).status == 400
    assert (await peer.respond(1, {})).status == 400
    assert (await peer.send("GET").end()).status == 400
    assert (await peer.send("DELETE").end()).status == 400


@pytest.mark.covers("SHT-09", "SHT-39")
@pytest.mark.parametrize("kind", ["unknown", "changed", "other server", "other path", "other key", "é"])
async def test_an_id_that_is_not_of_this_server_is_404(kind):
    peer = await session(travels())
    server = travels(
        name="cooking" if kind == "other server" else "travels",
        secret="another secret, also long enough" if kind == "other key" else SECRET,
    )
    foreign = HttpPeer(
        serve(server, sessions=SessionRegistry(server.dispatcher, path="/other" if kind == "other path" else "/mcp"))
    )
    flipped = ("A" if peer.session[50] != "A" else "B").join([peer.session[:50], peer.session[51:]])
    foreign.session = {"unknown": "unknown", "changed": flipped, "é": "é"}.get(kind, peer.session)
    assert (await foreign.request("tools/list")).status == 404
    assert (await foreign.notify("notifications/initialized")).status == 404
    assert (await foreign.send("GET").end()).status == 404
    assert (await foreign.send("DELETE").end()).status == 404


@pytest.mark.covers("SHT-39")
async def test_another_process_with_the_same_key_takes_a_session_up():
    peer = await session(travels())
    peer.app = serve(travels())
    exchange = peer.call("where")
    (asked,) = (await exchange.until(lambda one: one.said))[:1]
    assert (await peer.respond(asked["id"], {"action": "accept", "content": {"city": "Rome"}})).status == 202
    assert text(await exchange.end()) == "Rome"


@pytest.mark.covers("SHT-14")
async def test_delete_ends_a_session_and_what_runs_in_it():
    gate = Gate()
    server = travels(gate)
    peer = await session(server)
    streaming, silent, standalone = peer.call("steps", token=1), peer.call("silent"), await peer.listen()
    await streaming.events(1)
    assert (await peer.send("DELETE").end()).status == 200
    for exchange in (streaming, silent, standalone):
        await exchange.end()
        assert not exchange.messages[-1].get("more_body")
    # Not 404, by which a client would take it for a request that nobody has seen, and send it again.
    assert (silent.status, silent.json["error"]["code"]) == (200, -32603)
    assert "may have run" in silent.json["error"]["message"]
    assert gate.cancelled.is_set()
    assert (await peer.request("tools/list")).status == 404
    assert not server.notifier.members()


@pytest.mark.covers("SHT-21")
@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize("version", ["1999-01-01", "", "nonsense"])
async def test_a_version_header_that_is_not_served_is_400(method, version):
    peer = await session(travels())
    headers = {"mcp-protocol-version": version}
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    exchange = await peer.send(method, body, headers).end()
    assert exchange.status == 400
    assert exchange.json["error"]["code"] == -32022
    assert NEWEST in exchange.json["error"]["data"]["supported"]


@pytest.mark.covers("SHT-21")
async def test_a_session_knows_its_version_without_the_header():
    peer = await session(travels())
    assert (await peer.request("tools/list", None, {"mcp-protocol-version": None})).status == 200


@pytest.mark.covers("SHT-10")
async def test_notifications_and_responses_are_202_with_nothing():
    peer = await session(travels())
    for exchange in (await peer.notify("notifications/initialized"), await peer.respond("nobody asked", {})):
        assert (exchange.status, exchange.body) == (202, b"")


@pytest.mark.covers("SHT-18", "BEY-09")
@pytest.mark.parametrize(("version", "status"), [(BATCHING, 200), (OLDER, 400), (NEWEST, 400)])
async def test_a_batch_is_served_at_2025_03_26_only(version, status):
    peer = await session(travels(), version)
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
        7,
    ]
    exchange = await peer.post(batch).end()
    assert exchange.status == status
    if status == 200:
        assert [answer.get("id") for answer in exchange.json] == [1, 2, None]
        assert "result" in exchange.json[0]
        assert [answer["error"]["code"] for answer in exchange.json[1:]] == [-32601, -32600]
        assert (await peer.post(batch[1:2]).end()).status == 202


@pytest.mark.covers("SHT-26", "SHT-27")
async def test_a_session_that_is_idle_too_long_ends_and_one_that_works_does_not():
    now = 0.0
    gate = Gate()
    server = travels(gate)
    sessions = SessionRegistry(server.dispatcher, idle_timeout=100, clock=lambda: now)
    busy = await session(server, sessions=sessions)
    idle, used, reading = (HttpPeer(busy.app) for _ in range(3))
    for peer in (idle, used, reading):
        await peer.initialize()
    working = busy.call("silent")
    await gate.was_reached()
    stream = await reading.listen()
    now = 60.0
    await used.request("ping")
    now = 120.0
    assert (await used.request("ping")).status == 200
    assert (await idle.request("ping")).status == 404
    gate.opened.set()
    assert text(await working.end()) == "there"
    now = 200.0
    assert (await busy.request("ping")).status == 200
    assert (await reading.request("ping")).status == 200
    stream.leave()
    await stream.end()


@pytest.mark.covers("SHT-50")
async def test_a_session_that_is_a_day_old_is_404_where_it_is_known_too():
    today = 1_000_000.0
    gate = Gate()
    server = travels(gate)
    peer = await session(server, sessions=SessionRegistry(server.dispatcher, wall_clock=lambda: today))
    today += 86_400
    working = peer.call("silent")
    await gate.was_reached()
    assert (await peer.request("ping")).status == 200
    today += 1
    assert (await peer.request("ping")).status == 404
    assert (await peer.notify("notifications/initialized")).status == 404
    assert (await peer.send("GET").end()).status == 404
    assert (await peer.send("DELETE").end()).status == 404
    gate.opened.set()
    assert text(await working.end()) == "there"
    peer.session = None
    assert (await peer.initialize()).status == 200
    assert (await peer.request("ping")).status == 200


@pytest.mark.covers("SHT-50")
@pytest.mark.parametrize("idle_timeout", [1800, None])
async def test_a_stream_by_get_ends_when_its_session_is_too_old(idle_timeout):
    now = today = 0.0
    server = travels()
    clocks = {"clock": lambda: now, "wall_clock": lambda: today}
    peer = await session(server, sessions=SessionRegistry(server.dispatcher, idle_timeout=idle_timeout, **clocks))
    stream, other = await peer.listen(), HttpPeer(peer.app)
    now = today = 86_400.0
    await other.initialize()
    assert len(server.notifier.members()) == 2
    now = today = 2 * 86_400.0 + 1
    assert (await other.request("ping")).status == 404
    await stream.end()
    assert not server.notifier.members()


@pytest.mark.covers("SHT-28")
async def test_too_many_sessions_are_503_while_all_are_in_use():
    now = 0.0
    gate = Gate()
    server = travels(gate)
    sessions = SessionRegistry(server.dispatcher, max_sessions=2, clock=lambda: now)
    working = await session(server, sessions=sessions)
    reading, third = HttpPeer(working.app), HttpPeer(working.app)
    await reading.initialize()
    call, stream = working.call("silent"), await reading.listen()
    await gate.was_reached()
    for _ in range(2):
        refused = await third.initialize()
        assert (refused.status, refused.json["error"]["code"], refused.json["id"]) == (503, -32603, third._last_id)
    adopted = await session(travels())
    adopted.app = third.app
    assert (await adopted.request("ping")).status == 503
    gate.opened.set()
    assert text(await call.end()) == "there"
    now = 1.0
    assert (await third.initialize()).status == 200
    server.notify_tools_list_changed()
    await stream.events(1)
    stream.leave()
    await stream.end()


@pytest.mark.covers("SHT-28")
async def test_a_session_that_gave_way_goes_on_with_its_level_and_its_subscriptions():
    server = travels()
    first = await session(server, sessions=SessionRegistry(server.dispatcher, max_sessions=1))
    await first.request("logging/setLevel", {"level": "error"})
    await first.request("resources/subscribe", {"uri": "file:///a"})
    second = HttpPeer(first.app)
    assert (await second.initialize()).status == 200
    assert len(server.notifier.members()) == 1
    stream = await first.listen()
    server.log("warning", "unwanted")
    server.log("error", "wanted")
    server.notify_resource_updated("file:///a")
    await stream.events(2)
    assert [said["params"].get("data") or said["params"]["uri"] for said in stream.said] == ["wanted", "file:///a"]
    assert (await second.request("ping")).status == 503
    stream.leave()
    await stream.end()


@pytest.mark.covers("SHT-24")
async def test_without_sessions_each_request_of_the_older_era_stands_alone():
    peer = HttpPeer(serve(travels(), sessions=False))
    first, second = await peer.initialize(), await peer.initialize()
    assert first.json["result"] == second.json["result"]
    assert peer.session is None
    version = {"mcp-protocol-version": NEWEST}
    assert text(await peer.call("add", {"a": 1, "b": 2}, headers=version).end()) == "3"
    assert (await peer.notify("notifications/initialized")).status == 202
    unknown = await peer.request("no/such", None, version)
    assert (unknown.status, unknown.json["error"]["code"]) == (200, -32601)
    asked = await peer.call("where", headers=version).end()
    assert asked.json["result"]["isError"]
    assert (await peer.post([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]).end()).status == 400


@pytest.mark.covers("SHT-25")
async def test_json_responses_are_json_alone_and_the_stream_by_get_goes_on():
    gate = Gate()
    gate.opened.set()
    server = travels(gate)
    peer = await session(server, json_response=True)
    assert (await peer.call("steps", token="t").end()).headers["content-type"] == "application/json"
    assert (await peer.call("where").end()).json["result"]["isError"]
    stream = await peer.listen()
    server.notify_tools_list_changed()
    await stream.events(1)
    stream.leave()
    await stream.end()


@pytest.mark.covers("SHT-36")
async def test_the_end_of_the_application_ends_every_session_and_leaves_no_task(monkeypatch):
    monkeypatch.setattr(http, "CLOSE_SECONDS", 0.01)
    gate = Gate()
    server = travels(gate)
    peer = await session(server)
    working, stream = peer.call("silent"), await peer.listen()
    await gate.was_reached()
    await live(peer.app)
    assert gate.cancelled.is_set()
    await stream.end()
    # Not 404, by which a client would take it for a request that nobody has seen, and send it again.
    assert (await working.end()).status == 200
    assert working.json["error"]["code"] == -32603
    assert "may have run" in working.json["error"]["message"]
    assert not server.notifier.members()


@pytest.mark.covers("SHT-36")
async def test_a_batch_that_is_served_when_the_application_ends_is_answered(monkeypatch):
    monkeypatch.setattr(http, "CLOSE_SECONDS", 0.01)
    gate = Gate()
    peer = await session(travels(gate), BATCHING)
    calls = [
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        for id, tool, arguments in ((7, "add", {"a": 1, "b": 2}), (8, "silent", {}))
    ]
    batch = peer.post(calls)
    await gate.was_reached()
    await live(peer.app)
    await batch.end()
    answers = {answer["id"]: answer for answer in batch.json}
    assert answers[7]["result"]["content"][0]["text"] == "3"
    assert answers[8]["error"]["code"] == -32603


@pytest.mark.covers("SHM-01")
async def test_both_eras_are_served_side_by_side():
    peer = await session(travels())
    modern = HttpPeer(peer.app, STATELESS)
    assert text(await modern.call("add", {"a": 2, "b": 2}).end()) == "4"
    assert text(await peer.call("add", {"a": 3, "b": 2}).end()) == "5"


async def test_a_method_that_is_not_there_is_an_error_with_200_in_a_session():
    exchange = await (await session(travels())).request("no/such", id=4)
    assert (exchange.status, exchange.json["error"]["code"], exchange.json["id"]) == (200, -32601, 4)


async def test_session_that_a_process_with_a_newer_secret_ended_is_over():
    old, new, store = "the old secret of sixteen", "the new secret of sixteen", Memory()
    apps = [Server("shop", store=store, secret=secret).asgi() for secret in (old, [new, old], old)]
    peers = [HttpPeer(app) for app in apps]
    await peers[0].initialize()
    for peer in peers[1:]:
        peer.session = peers[0].session
    assert (await peers[1].send("DELETE").end()).status == 200
    refused = await peers[2].request("ping")
    assert refused.status == 404
    for app in apps:
        await app.close()
