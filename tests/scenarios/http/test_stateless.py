"""The stateless era over HTTP: each POST stands alone."""

import asyncio
import json
import logging
from contextlib import suppress

import pytest

from dragoman import BlockingContext, Context, Server, Tool, types
from dragoman.protocol.jsonrpc import Limits
from dragoman.server import asgi
from dragoman.server.http.channels import MAX_WAITING
from dragoman.transports.http.exchange import Pace
from scenarios.http_peer import DEADLINE, NEWEST, SECRET, STATELESS, HttpPeer, live, serve


class Waiting:
    """A tool that waits, and notes how it ended."""

    def __init__(self, server: Server) -> None:
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        server.add_tool(self.tool())

    def tool(self) -> Tool:
        async def wait() -> str:
            self.began.set()
            try:
                await asyncio.wait_for(self.go_on.wait(), DEADLINE)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "waited"

        return Tool.define(wait)


def sums() -> Server:
    server = Server("sums", secret=SECRET)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(to: int, ctx: Context) -> str:
        for number in range(to):
            await ctx.report_progress(number + 1, to)
        return "counted"

    @server.tool
    def count_in_thread(to: int, ctx: BlockingContext) -> str:
        for number in range(to):
            ctx.report_progress(number + 1, to)
        return "counted"

    return server


def peer(server: Server | None = None, **options) -> HttpPeer:
    return HttpPeer(serve(server or sums(), **options), STATELESS)


@pytest.mark.covers("SHM-10", "SHM-13")
async def test_a_result_alone_is_one_json_body():
    exchange = await peer().call("add", {"a": 1, "b": 2}, id=7).end()
    assert exchange.status == 200
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.headers["content-length"] == str(len(exchange.body))
    assert "mcp-session-id" not in exchange.headers
    assert exchange.json["id"] == 7
    assert exchange.json["result"]["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.covers("SHM-10", "SHT-15")
@pytest.mark.parametrize("tool", ["count", "count_in_thread"])
async def test_progress_makes_it_an_event_stream_that_ends_with_the_response(tool):
    exchange = await peer().call(tool, {"to": 3}, token="t").end()
    assert exchange.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
    }
    *progress, response = exchange.said
    assert [message["params"]["progress"] for message in progress] == [1, 2, 3]
    assert response["result"]["content"][0]["text"] == "counted"
    assert not exchange.messages[-1].get("more_body")


@pytest.mark.covers("SHM-11")
async def test_what_is_told_faster_than_it_is_sent_is_bounded_and_the_response_comes_last():
    server = Server()

    @server.tool
    async def flood(ctx: Context) -> str:
        for number in range(MAX_WAITING + 10):
            ctx._send_progress(number + 1, None, None)
        return "over"

    exchange = await peer(server).call("flood", token=1).end()
    *progress, response = exchange.said
    assert [message["params"]["progress"] for message in progress] == list(range(11, MAX_WAITING + 11))
    assert response["result"]["content"][0]["text"] == "over"


async def test_what_is_told_without_waiting_is_sent_while_the_handler_goes_on():
    server = Server()
    go_on = asyncio.Event()

    @server.tool
    async def hint(ctx: Context) -> str:
        ctx._send_progress(1, None, None)
        await go_on.wait()
        return "over"

    exchange = peer(server).call("hint", token=1)
    await exchange.events(1)
    go_on.set()
    await exchange.end()
    assert len(exchange.said) == 2


async def test_what_takes_long_becomes_an_event_stream_with_comments_to_keep_it_alive():
    server = Server()
    waiting = Waiting(server)
    exchange = peer(server, pace=Pace(tick=0.001, stream_after=0, keep_alive=0)).call("wait")
    await exchange.until(lambda one: one.body.count(b":\r\n\r\n") >= 2)
    waiting.go_on.set()
    await exchange.end()
    assert exchange.headers["x-accel-buffering"] == "no"
    assert [message["result"]["content"][0]["text"] for message in exchange.said] == ["waited"]


async def test_a_client_that_takes_only_json_gets_json_however_long_it_takes():
    server = sums()
    client = peer(server, pace=Pace(tick=0.001, stream_after=0))
    exchange = await client.call("count", {"to": 3}, token="t", headers={"accept": "application/json"}).end()
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.json["result"]["content"][0]["text"] == "counted"


async def test_a_client_that_takes_only_event_streams_gets_one():
    exchange = await peer().call("add", {"a": 1, "b": 2}, headers={"accept": "text/event-stream"}).end()
    assert exchange.headers["content-type"] == "text/event-stream"
    assert exchange.said[0]["result"]["content"][0]["text"] == "3"


@pytest.mark.covers("SHM-12")
async def test_json_responses_are_a_setting_of_the_other_era():
    exchange = await peer(json_response=True).call("count", {"to": 1}, token="t").end()
    assert exchange.headers["content-type"] == "text/event-stream"


@pytest.mark.covers("SHM-03", "SHM-05", "SHM-06", "SHM-07", "SHM-09", "SHT-22", "BEY-02")
@pytest.mark.parametrize(
    ("changes", "headers", "status", "code"),
    [
        ({"method": "no/such"}, {"mcp-method": "no/such", "mcp-name": None}, 404, -32601),
        ({"method": "initialize"}, {"mcp-method": "initialize", "mcp-name": None}, 404, -32601),
        ({}, {"mcp-method": "tools/list"}, 400, -32020),
        ({}, {"mcp-method": None}, 400, -32020),
        ({}, {"mcp-name": "subtract"}, 400, -32020),
        ({}, {"mcp-name": None}, 400, -32020),
        ({}, {"mcp-protocol-version": None}, 400, -32020),
        ({}, {"mcp-protocol-version": NEWEST}, 400, -32020),
        ({"version": "2099-01-01"}, {"mcp-protocol-version": "2099-01-01"}, 400, -32022),
        ({"version": None}, {}, 400, -32602),
        ({"version": 7}, {}, 400, -32602),
        ({"name": None}, {"mcp-name": None}, 400, -32602),
    ],
)
async def test_what_is_refused_on_the_ladder_has_its_status_and_its_id(changes, headers, status, code):
    client = peer()
    meta = client.meta()
    version = changes.get("version", STATELESS)
    key = "io.modelcontextprotocol/protocolVersion"
    meta = {name: value for name, value in meta.items() if name != key} | ({} if version is None else {key: version})
    params = {"_meta": meta, "arguments": {}} | ({"name": "add"} if changes.get("name", "add") else {})
    method = changes.get("method", "tools/call")
    message = {"jsonrpc": "2.0", "id": "x", "method": method, "params": params}
    mirrored = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/call", "mcp-name": "add"}
    exchange = await client.post(message, mirrored | headers).end()
    assert (exchange.status, exchange.json["error"]["code"], exchange.json["id"]) == (status, code, "x")
    assert exchange.headers["content-type"] == "application/json"


@pytest.mark.covers("SHM-03")
async def test_an_unsupported_version_is_answered_with_those_that_are_served():
    client = peer()
    key = "io.modelcontextprotocol/protocolVersion"
    exchange = await client.request("tools/list", {"_meta": {key: "1999"}}, {"mcp-protocol-version": "1999"}, id=1)
    data = exchange.json["error"]["data"]
    assert data["requested"] == "1999"
    assert data["supported"][0] == STATELESS


@pytest.mark.covers("SHM-09")
async def test_an_error_of_a_handler_is_200_but_for_a_missing_capability():
    server = Server(secret=SECRET)

    @server.tool
    async def ask(ctx: Context) -> str:
        ctx.require_capability("sampling")
        return ""

    client = peer(server)
    missing = await client.call("ask").end()
    assert (missing.status, missing.json["error"]["code"]) == (400, -32021)
    unknown = await client.call("none").end()
    assert (unknown.status, unknown.json["error"]["code"]) == (200, -32602)


@pytest.mark.covers("SHT-18", "SHT-20", "SHT-22")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"", -32700),
        (b"7", -32600),
        (b"[]", -32600),
        (b"[" * 200 + b"]" * 200, -32700),
    ],
)
async def test_what_is_no_message_is_400(body, code):
    exchange = await peer().send("POST", body, {"mcp-protocol-version": STATELESS}).end()
    assert (exchange.status, exchange.json["error"]["code"]) == (400, code)
    assert "id" not in exchange.json


@pytest.mark.covers("SHT-16", "SHT-17")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": None}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"accept": "text/html"}, 406),
        ({"accept": None}, 200),
        ({"accept": "*/*"}, 200),
        ({"accept": "APPLICATION/JSON"}, 200),
    ],
)
async def test_other_media_types_are_refused(headers, status):
    exchange = await peer().request("tools/list", None, headers)
    assert exchange.status == status
    assert (status == 200) == ("result" in exchange.json)


@pytest.mark.covers("SHT-19")
@pytest.mark.by_asgi
async def test_a_body_that_is_too_large_is_413_and_not_read_to_its_end():
    client = peer(limits=Limits(message_bytes=10))
    chunks = [b"x" * 6] * 100
    exchange = client.send("POST", chunks)
    await exchange.end()
    assert exchange.status == 413
    assert exchange.json["error"] == {"code": -32700, "message": "A message must not have more than 10 bytes"}
    assert len(exchange._chunks) > 90


@pytest.mark.covers("SHT-10")
async def test_a_notification_is_202_with_nothing():
    client = peer()
    message = {"jsonrpc": "2.0", "method": "notifications/whatever", "params": {"_meta": client.meta()}}
    exchange = await client.post(message, {"mcp-protocol-version": STATELESS}).end()
    assert (exchange.status, exchange.body) == (202, b"")


@pytest.mark.covers("SHM-02", "SHT-12")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"])
@pytest.mark.by_asgi
async def test_without_sessions_there_is_only_post(method):
    exchange = await peer(sessions=False).send(method).end()
    assert exchange.status == 405
    assert exchange.headers["allow"] == "POST"
    if method == "HEAD":
        assert exchange.body == b""
    else:
        assert exchange.json["error"]["code"] == -32600


@pytest.mark.covers("SHT-01")
@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "HEAD", "PATCH"])
@pytest.mark.by_asgi
async def test_with_sessions_there_are_three_methods(method):
    exchange = await peer().send(method).end()
    assert (exchange.status, exchange.headers["allow"]) == (405, "GET, POST, DELETE")


@pytest.mark.covers("SHT-01")
@pytest.mark.parametrize(
    ("path", "root_path", "status"),
    [
        ("/mcp", "", 200),
        ("/mcp/", "", 200),
        ("/api/mcp", "/api", 200),
        ("/mcp", "/api", 200),
        ("/mounted", "/mounted", 200),
        ("/mounted/", "/mounted", 200),
        ("/", "", 404),
        ("/mcpx", "", 404),
        ("/mcp/more", "", 404),
        ("/api/other", "/api", 404),
    ],
)
async def test_the_application_serves_its_path_alone_or_mounted(path, root_path, status):
    exchange = await peer().request("tools/list", path=path, root_path=root_path)
    assert exchange.status == status


@pytest.mark.covers("SHM-04")
async def test_a_session_id_on_a_stateless_request_is_ignored():
    exchange = await peer().request("tools/list", None, {"mcp-session-id": "whatever"})
    assert exchange.status == 200


@pytest.mark.covers("SHM-14", "BEY-11")
async def test_a_client_that_leaves_cancels_its_request_and_nothing_is_logged(caplog):
    server = Server()
    waiting = Waiting(server)
    exchange = peer(server).call("wait")
    await asyncio.wait_for(waiting.began.wait(), DEADLINE)
    with caplog.at_level(logging.DEBUG):
        exchange.leave()
        await exchange.end()
    assert waiting.cancelled.is_set()
    assert not exchange.messages
    assert not caplog.records


@pytest.mark.covers("SHM-14")
async def test_a_handler_that_ends_well_though_its_client_left_ends_into_the_void():
    server = Server()
    began = asyncio.Event()

    @server.tool
    async def stubborn() -> str:
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done"

    exchange = peer(server).call("stubborn")
    await asyncio.wait_for(began.wait(), DEADLINE)
    exchange.leave()
    await exchange.end()
    assert exchange.task.exception() is None


async def test_a_client_that_leaves_while_it_sends_is_nobody():
    exchange = peer().send("POST", [])
    exchange.leave()
    await exchange.end()
    assert not exchange.messages


@pytest.mark.covers("LSN-01", "LSN-02", "LSN-03", "LSN-06", "SHT-36", "BEY-19")
async def test_a_subscription_is_a_stream_that_ends_with_its_result_when_the_application_ends():
    server = sums()
    client = peer(server)
    exchange = client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
    await exchange.events(1)
    await asyncio.to_thread(server.notify_tools_list_changed)
    server.notify_prompts_list_changed()
    await exchange.events(2)
    await live(client.app)
    await exchange.end()
    acknowledged, changed, result = exchange.said
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    assert changed["method"] == "notifications/tools/list_changed"
    assert changed["params"]["_meta"][types.SUBSCRIPTION_ID] == "s"
    assert (result["id"], result["result"]["resultType"]) == ("s", "complete")
    assert not exchange.messages[-1].get("more_body")


@pytest.mark.covers("LSN-06")
async def test_a_subscriber_who_leaves_is_forgotten():
    server = sums()
    exchange = peer(server).start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await exchange.events(1)
    assert len(server.notifier.members()) == 1
    exchange.leave()
    await exchange.end()
    assert not server.notifier.members()


async def test_a_subscription_needs_a_client_that_takes_event_streams():
    headers = {"accept": "application/json"}
    exchange = await peer().request("subscriptions/listen", {"notifications": {}}, headers, id=3)
    assert (exchange.status, exchange.json["id"]) == (406, 3)


def test_an_application_may_be_used_in_one_loop_after_another():
    server = Server()
    app = serve(server)

    async def leave_in_a_loop() -> None:
        waiting = Waiting(server)
        exchange = HttpPeer(app, STATELESS).call("wait")
        await asyncio.wait_for(waiting.began.wait(), DEADLINE)
        exchange.leave()
        await exchange.end()
        assert waiting.cancelled.is_set()
        server.remove_tool("wait")

    for _ in range(2):
        asyncio.run(leave_in_a_loop())


@pytest.mark.parametrize("has_header", [True, False])
@pytest.mark.parametrize("way", ["stateless", "per request", "view"])
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_initialize_without_sessions_keeps_every_field_of_the_version(version, way, has_header):
    server = Server("sums", title="Sums", website_url="https://sums.example.com", secret=SECRET)
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {"mcp-protocol-version": version} if has_header else {}
    if way == "view":
        result = json.loads((await server.handle_http_async("POST", headers, body)).body)["result"]
    else:
        app = server.asgi(stateless=True) if way == "stateless" else asgi(lambda _: server)
        result = (await HttpPeer(app, version).send("POST", body, headers).end()).json["result"]
        await live(app)
    assert (result["protocolVersion"], result["serverInfo"]["title"]) == (version, "Sums")
    assert ("websiteUrl" in result["serverInfo"]) == (version == "2025-11-25")
