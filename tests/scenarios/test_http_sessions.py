"""The handshake era over HTTP: sessions, their streams, and what happens when connections break."""

import asyncio
import dataclasses
import re

import pytest

from dragoman import Context, Server
from dragoman.protocol.sse import EventId
from dragoman.server.sessions import Sessions
from dragoman.transports.asgi import Pace
from scenarios.http_peer import (
    BATCHING,
    DEADLINE,
    NEWEST,
    OLDER,
    SECRET,
    STATELESS,
    Exchange,
    HttpPeer,
    live,
    scenario,
    serve,
)


@dataclasses.dataclass
class City:
    city: str


class Gate:
    """Where a tool waits until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        try:
            await asyncio.wait_for(self.opened.wait(), DEADLINE)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def was_reached(self) -> None:
        await asyncio.wait_for(self.reached.wait(), DEADLINE)

    async def was_cancelled(self) -> None:
        await asyncio.wait_for(self.cancelled.wait(), DEADLINE)


def travels(gate: Gate | None = None, *, name: str = "travels", secret: str = SECRET) -> Server:
    server = Server(
        name,
        secret=secret,
        capabilities={"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}},
    )

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def where(ctx: Context) -> str:
        answer = await ctx.elicit("Where?", City)
        return answer.content.city

    @server.tool
    async def ask_twice(ctx: Context) -> str:
        roots = await ctx.list_roots()
        sampled = await ctx.sample("Hello", max_tokens=5)
        return f"{roots[0].uri} {sampled.content.text}"

    @server.tool
    async def steps(ctx: Context) -> str:
        assert gate is not None
        await ctx.report_progress(1)
        await gate.wait()
        await ctx.report_progress(2)
        await ctx.report_progress(3)
        return "there"

    @server.tool
    async def silent() -> str:
        assert gate is not None
        await gate.wait()
        return "there"

    return server


async def session(server: Server, version: str = NEWEST, **options) -> HttpPeer:
    everything = {"elicitation": {}, "roots": {}, "sampling": {}}
    peer = HttpPeer(serve(server, **options), version, capabilities=everything)
    await peer.initialize()
    return peer


def text(exchange: Exchange) -> str:
    message = exchange.json if exchange.headers["content-type"] == "application/json" else exchange.said[-1]
    return message["result"]["content"][0]["text"]


@pytest.mark.covers("SHT-05", "SHT-39")
@pytest.mark.parametrize("version", [NEWEST, OLDER, BATCHING])
@scenario
async def test_initialize_begins_a_session_whose_id_is_short_and_visible(version):
    peer = HttpPeer(serve(travels()), version)
    exchange = await peer.initialize()
    assert exchange.json["result"]["protocolVersion"] == version
    assert re.fullmatch("[!-~]{1,2047}", peer.session)
    assert text(await peer.call("add", {"a": 1, "b": 2}).end()) == "3"


@pytest.mark.covers("SHT-05")
@scenario
async def test_a_client_that_takes_only_event_streams_gets_its_session_by_one():
    peer = HttpPeer(serve(travels()))
    introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
    exchange = await peer.request("initialize", introduction, {"accept": "text/event-stream"})
    assert exchange.said[0]["result"]["protocolVersion"] == NEWEST
    assert exchange.headers["mcp-session-id"]


@pytest.mark.covers("SHT-06")
@scenario
async def test_an_introduction_that_fails_begins_no_session():
    server = travels()
    exchange = await HttpPeer(serve(server)).request("initialize", {"protocolVersion": 7})
    assert exchange.json["error"]["code"] == -32602
    assert "mcp-session-id" not in exchange.headers
    assert not server.audience.members()


@pytest.mark.covers("SHT-07")
@scenario
async def test_a_second_introduction_in_a_session_is_refused():
    peer = await session(travels())
    again = await peer.request("initialize", {}, id=9)
    assert (again.status, again.json["error"]["code"], again.json["id"]) == (400, -32600, 9)
    unknown = await peer.request("initialize", {}, {"mcp-session-id": "unknown"})
    assert unknown.status == 404


@pytest.mark.covers("SHT-08")
@scenario
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
@scenario
async def test_an_id_that_is_not_of_this_server_is_404(kind):
    peer = await session(travels())
    server = travels(
        name="cooking" if kind == "other server" else "travels",
        secret="another secret, also long enough" if kind == "other key" else SECRET,
    )
    foreign = HttpPeer(serve(server, sessions=Sessions(server, path="/other" if kind == "other path" else "/mcp")))
    flipped = ("A" if peer.session[50] != "A" else "B").join([peer.session[:50], peer.session[51:]])
    foreign.session = {"unknown": "unknown", "changed": flipped, "é": "é"}.get(kind, peer.session)
    assert (await foreign.request("tools/list")).status == 404
    assert (await foreign.notify("notifications/initialized")).status == 404
    assert (await foreign.send("GET").end()).status == 404
    assert (await foreign.send("DELETE").end()).status == 404


@pytest.mark.covers("SHT-39")
@scenario
async def test_another_process_with_the_same_key_takes_a_session_up():
    peer = await session(travels())
    peer.app = serve(travels())
    exchange = peer.call("where")
    (asked,) = (await exchange.until(lambda one: one.said))[:1]
    assert (await peer.respond(asked["id"], {"action": "accept", "content": {"city": "Rome"}})).status == 202
    assert text(await exchange.end()) == "Rome"


@pytest.mark.covers("SHT-14")
@scenario
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
    assert silent.status == 404
    assert gate.cancelled.is_set()
    assert (await peer.request("tools/list")).status == 404
    assert not server.audience.members()


@pytest.mark.covers("SHT-21")
@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize("version", ["1999-01-01", "", "nonsense"])
@scenario
async def test_a_version_header_that_is_not_served_is_400(method, version):
    peer = await session(travels())
    headers = {"mcp-protocol-version": version}
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    exchange = await peer.send(method, body, headers).end()
    assert exchange.status == 400
    assert exchange.json["error"]["code"] == -32022
    assert NEWEST in exchange.json["error"]["data"]["supported"]


@pytest.mark.covers("SHT-21")
@scenario
async def test_a_session_knows_its_version_without_the_header():
    peer = await session(travels())
    assert (await peer.request("tools/list", None, {"mcp-protocol-version": None})).status == 200


@pytest.mark.covers("SHT-10")
@scenario
async def test_notifications_and_responses_are_202_with_nothing():
    peer = await session(travels())
    for exchange in (await peer.notify("notifications/initialized"), await peer.respond("nobody asked", {})):
        assert (exchange.status, exchange.body) == (202, b"")


@pytest.mark.covers("SHT-11", "SHT-33")
@scenario
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
@scenario
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
@scenario
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
@scenario
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
@scenario
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
@scenario
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


@pytest.mark.covers("SHT-41")
@scenario
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
@pytest.mark.parametrize("id", ["nonsense", "", "other-7", "0000-1-3"])
@scenario
async def test_an_event_id_that_is_not_kept_is_400_and_the_session_lives_on(id):
    peer = await session(travels())
    exchange = await peer.send("GET", headers={"last-event-id": id}).end()
    assert exchange.status == 400
    assert "Last-Event-ID" in exchange.json["error"]["message"]
    assert (await peer.request("tools/list")).status == 200


@pytest.mark.covers("SHT-12", "SHT-42")
@scenario
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
@scenario
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
@scenario
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
@scenario
async def test_a_stream_by_get_needs_a_client_that_takes_one():
    peer = await session(travels())
    exchange = await peer.send("GET", headers={"accept": "application/json"}).end()
    assert exchange.status == 406


@pytest.mark.covers("SHT-13")
@scenario
async def test_a_stream_by_get_is_kept_alive_by_comments():
    peer = await session(travels(), pace=Pace(tick=0.001, keep_alive=0))
    stream = await peer.listen()
    assert await stream.until(lambda one: one.body.count(b":\r\n\r\n") >= 2)
    stream.leave()
    await stream.end()


@pytest.mark.covers("SHT-43")
@pytest.mark.parametrize("tool", ["silent", "steps"])
@scenario
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
@scenario
async def test_an_id_that_is_in_use_is_409_and_the_first_request_goes_on():
    gate = Gate()
    peer = await session(travels(gate))
    first = peer.call("silent", id="same")
    await gate.was_reached()
    second = await peer.call("add", {"a": 1, "b": 2}, id="same").end()
    assert (second.status, second.json["error"]["code"], second.json["id"]) == (409, -32600, "same")
    gate.opened.set()
    assert text(await first.end()) == "there"


@pytest.mark.covers("SHT-18")
@pytest.mark.parametrize(("version", "status"), [(BATCHING, 200), (OLDER, 400), (NEWEST, 400)])
@scenario
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


@pytest.mark.covers("SHT-43")
@scenario
async def test_a_request_of_a_batch_can_be_cancelled():
    gate = Gate()
    peer = await session(travels(gate), BATCHING)
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "silent", "arguments": {}}}
    exchange = peer.post([call, {"jsonrpc": "2.0", "id": 6, "method": "ping"}])
    await gate.was_reached()
    await peer.notify("notifications/cancelled", {"requestId": 5})
    await exchange.end()
    assert [answer["id"] for answer in exchange.json] == [6]


@pytest.mark.covers("SHT-26", "SHT-27")
@scenario
async def test_a_session_that_is_idle_too_long_ends_and_one_that_works_does_not():
    now = 0.0
    gate = Gate()
    server = travels(gate)
    sessions = Sessions(server, idle_timeout=100, clock=lambda: now)
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


@pytest.mark.covers("SHT-28")
@scenario
async def test_too_many_sessions_are_503_until_one_ends():
    now = 0.0
    server = travels()
    sessions = Sessions(server, idle_timeout=100, most=1, clock=lambda: now)
    first = await session(server, sessions=sessions)
    second = HttpPeer(first.app)
    refused = await second.initialize()
    assert (refused.status, refused.json["error"]["code"], refused.json["id"]) == (503, -32603, 1)
    assert (await first.request("ping")).status == 200
    now = 100.0
    assert (await second.initialize()).status == 200
    adopted = await session(travels())
    adopted.app = second.app
    assert (await adopted.request("ping")).status == 503


@pytest.mark.covers("SHT-24")
@scenario
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
@scenario
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


@pytest.mark.covers("SHT-35")
@scenario
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
@scenario
async def test_a_request_whose_client_does_not_read_is_finished_all_the_same():
    gate = Gate()
    gate.opened.set()
    peer = await session(travels(gate), pace=Pace(send=0.01))
    exchange = await peer.call("steps", token="t", reads=False).end()
    assert gate.reached.is_set()
    assert not exchange.messages


@pytest.mark.covers("SHT-36")
@scenario
async def test_the_end_of_the_application_ends_every_session_and_leaves_no_task():
    gate = Gate()
    server = travels(gate)
    peer = await session(server)
    working, stream = peer.call("silent"), await peer.listen()
    await gate.was_reached()
    await live(peer.app)
    assert gate.cancelled.is_set()
    await working.end()
    await stream.end()
    assert not server.audience.members()


@pytest.mark.covers("SHM-01")
@scenario
async def test_both_eras_are_served_side_by_side():
    peer = await session(travels())
    modern = HttpPeer(peer.app, STATELESS)
    assert text(await modern.call("add", {"a": 2, "b": 2}).end()) == "4"
    assert text(await peer.call("add", {"a": 3, "b": 2}).end()) == "5"


@scenario
async def test_a_method_that_is_not_there_is_an_error_with_200_in_a_session():
    exchange = await (await session(travels())).request("no/such", id=4)
    assert (exchange.status, exchange.json["error"]["code"], exchange.json["id"]) == (200, -32601, 4)


@pytest.mark.covers("SHT-33")
@scenario
async def test_a_question_of_a_request_that_is_cancelled_is_taken_back():
    peer = await session(travels())
    exchange = peer.call("where", id="call")
    asked = (await exchange.until(lambda one: one.said))[0]
    await peer.notify("notifications/cancelled", {"requestId": "call"})
    await exchange.end()
    assert [message["params"].get("requestId") for message in exchange.said] == [None, asked["id"]]


@scenario
async def test_a_client_may_answer_a_question_with_an_error():
    peer = await session(travels())
    exchange = peer.call("where")
    asked = (await exchange.until(lambda one: one.said))[0]
    error = {"code": -1, "message": "No user is here"}
    assert (await peer.post({"jsonrpc": "2.0", "id": asked["id"], "error": error}).end()).status == 202
    await exchange.end()
    assert exchange.said[-1]["error"]["message"] == "No user is here"


@pytest.mark.covers("SHT-14", "SHT-33")
@scenario
async def test_a_session_that_ends_while_something_is_asked_ends_the_request():
    peer = await session(travels())
    exchange = peer.call("where")
    await exchange.until(lambda one: one.said)
    await peer.send("DELETE").end()
    await exchange.end()
    await peer.app.close()
    assert not exchange.messages[-1].get("more_body")
