"""A client over Streamable HTTP: sessions, and the standalone stream."""

import asyncio

import pytest

from dragoman import AsyncClient, Server
from dragoman.client.connect import http as client_http
from dragoman.errors import RpcError
from dragoman.stores import Memory
from scenarios.http_crew import until
from scenarios.http_peer import DEADLINE
from scenarios.raw_http import (
    NEWEST,
    answering,
    called,
    chunk,
    classic,
    event,
    fine,
    introduction,
    refusal,
    reply,
    result,
    saying,
    serving,
    stream,
    stream_head,
)

ENDED = classic(saying(reply(500)))
"""A server of the handshake era with a session and no stream, where no call is answered."""


def client_of(server, **options) -> AsyncClient:
    return AsyncClient(server.url, mode="handshake", timeout=DEADLINE, **options)


async def stop_listening(client) -> None:
    """Wait until a client has given up its standalone stream."""
    await asyncio.wait_for(client._session.connections.current.link._standalone_stream, DEADLINE)


def at_stream(on_get):
    """Serve a session whose standalone stream is scripted, its resumption too."""

    async def script(request, writer):
        return await (on_get if request.verb == "GET" else ENDED)(request, writer)

    return script


def logging_session(on_call, on_get):
    """Serve a session of a server that sends logs, whose standalone stream and requests are scripted."""

    async def script(request, writer):
        if request.verb == "GET":
            return await on_get(request, writer)
        if request.method == "initialize":
            declared = {**introduction(), "capabilities": {"logging": {}}}
            return reply(200, result(request, declared), mcp_session_id="s1")
        return await classic(on_call)(request, writer)

    return script


# Sessions.


@pytest.mark.covers("CHT-04", "CHT-07", "CHT-03", "CHT-15")
async def test_a_session_is_named_from_the_handshake_on_and_ended_with_it():
    async def script(request, writer):
        return reply(200, result(request, called()), mcp_session_id="another")

    async with answering(classic(script)) as server:
        async with client_of(server) as client:
            await client.call_tool("any")
            await client.call_tool("any")
            await server.until(lambda sent: any(one.verb == "GET" for one in sent))
        first, *later = server.requests
    assert first.method == "initialize"
    assert not {"mcp-session-id", "mcp-protocol-version"} & first.headers.keys()
    assert {one.headers["mcp-session-id"] for one in later} == {"s1"}
    assert {one.headers["mcp-protocol-version"] for one in later} == {NEWEST}
    assert {one.headers["accept"] for one in server.sent("POST")} == {"application/json, text/event-stream"}
    assert {one.headers["content-type"] for one in server.sent("POST")} == {"application/json"}
    assert later[-1].verb == "DELETE"
    assert "mcp-method" not in server.sent("tools/call")[0].headers


@pytest.mark.covers("CHT-04", "CHT-07")
async def test_an_empty_session_is_none():
    inner = classic(fine, session=None)

    async def empty(request, writer):
        said = await inner(request, writer)
        return said.replace(b"\r\n", b"\r\nmcp-session-id:\r\n", 1)

    async with answering(empty) as server:
        async with client_of(server) as client:
            await client.call_tool("any")
        assert not [one for one in server.requests if "mcp-session-id" in one.headers]
        assert not [one for one in server.requests if one.verb != "POST"]


@pytest.mark.covers("CHT-04")
async def test_a_session_of_a_refused_handshake_is_none():
    async def script(request, writer):
        if request.method == "initialize" and len(server.sent("initialize")) == 1:
            error = refusal(request.id, -32022, "Unsupported", {"supported": ["2025-06-18"]})
            return reply(400, error, mcp_session_id="refused")
        if request.method == "initialize":
            chosen = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
            return reply(200, result(request, chosen))
        return reply(202, kind=None)

    async with answering(script) as server, client_of(server) as client:
        assert client.protocol_version == "2025-06-18"
        assert not [one for one in server.requests if "mcp-session-id" in one.headers]


@pytest.mark.covers("CHT-05", "CHT-24")
@pytest.mark.parametrize(
    "said",
    [
        reply(404),
        reply(404, refusal(None, -32001, "Session not found")),
        reply(400, refusal(None, -32000, "Bad Request: No valid session ID provided")),
    ],
    ids=["404", "404 and a body", "400 about the session"],
)
async def test_a_session_that_the_server_forgot_is_replaced_and_the_call_made_again(said):
    async def script(request, writer):
        return said if request.headers["mcp-session-id"] == "s1" else reply(200, result(request, called("new")))

    scripts = {}

    async def renewing(request, writer):
        if request.method == "initialize":
            number = len(server.sent("initialize"))
            scripts["now"] = classic(script, session=f"s{number}")
        return await scripts["now"](request, writer)

    reconnected = asyncio.Event()
    async with answering(renewing) as server:
        async with client_of(server, on_reconnect=reconnected.set) as client:
            assert (await client.call_tool("any")).text == "new"
            await asyncio.wait_for(reconnected.wait(), DEADLINE)
        second = server.sent("initialize")[1]
        assert "mcp-session-id" not in second.headers
        assert [one.headers["mcp-session-id"] for one in server.sent("DELETE")] == ["s2"]


@pytest.mark.covers("CHT-05")
@pytest.mark.parametrize(("status", "code"), [(400, -32602), (404, -32601)])
async def test_an_error_that_names_the_request_is_about_the_request(status, code):
    async def script(request, writer):
        return reply(status, refusal(request.id, code, "There is no session of that cinema"))

    async with answering(classic(script)) as server, client_of(server) as client:
        with pytest.raises(RpcError) as caught:
            await client.call_tool("any")
        assert caught.value.code == code
        assert client.alive


@pytest.mark.covers("CHT-07", "LTR-12")
@pytest.mark.parametrize("status", [200, 204, 404, 405, 500])
async def test_a_session_ends_whatever_the_server_says_to_that(status):
    async def script(request, writer):
        return reply(status) if request.verb == "DELETE" else await ENDED(request, writer)

    async with answering(script) as server:
        client = client_of(server)
        await client.start()
        await client.stop()
        await client.stop()
        assert len(server.sent("DELETE")) == 1


@pytest.mark.covers("CHT-07", "LTR-12")
@pytest.mark.parametrize("how", ["hangs", "hangs up"])
async def test_closing_does_not_wait_for_a_server_that_does_not_answer(how, monkeypatch):
    monkeypatch.setattr(client_http, "CLOSE_SECONDS", 0.1)

    async def script(request, writer):
        if request.verb != "DELETE":
            return await ENDED(request, writer)
        if how == "hangs":
            await asyncio.Event().wait()
        return writer.close()

    async with answering(script) as server:
        client = client_of(server)
        await client.start()
        await asyncio.wait_for(client.stop(), DEADLINE)
        assert client.status == "stopped"


@pytest.mark.covers("CHT-07")
async def test_closing_goes_on_though_the_headers_cannot_be_had(caplog):
    calls = []

    def headers():
        if len(calls) > 3:
            raise RuntimeError("no token any more")
        calls.append(1)
        return {}

    async with answering(ENDED) as server:
        client = client_of(server, headers=headers)
        await client.start()
        await server.until(lambda sent: any(one.verb == "GET" for one in sent))
        calls.extend([1, 1, 1])
        await client.stop()
        assert not server.sent("DELETE")


# The standalone stream.


def notice(method: str = "notifications/tools/list_changed") -> dict:
    return {"jsonrpc": "2.0", "method": method}


@pytest.mark.covers("CSR-06", "LTR-11")
async def test_notifications_come_on_a_standalone_stream_that_is_opened_after_the_handshake():
    changed = asyncio.Event()

    said = stream(event(notice()), end=False)
    async with answering(classic(saying(reply(500)), on_get=saying(said))) as server:
        async with client_of(server, on_list_changed=lambda kind: changed.set()):
            await asyncio.wait_for(changed.wait(), DEADLINE)
        methods = [one.method or one.verb for one in server.requests]
    assert methods == ["initialize", "notifications/initialized", "GET", "DELETE"]
    assert server.sent("GET")[0].headers["accept"] == "text/event-stream"


@pytest.mark.covers("CSR-06", "LTR-11")
@pytest.mark.parametrize(
    "said",
    [reply(405), reply(401), reply(404), reply(409), reply(200, b"hi", "text/plain")],
    ids=["405", "401", "404", "409", "text"],
)
async def test_a_server_without_a_standalone_stream_is_not_asked_again(said):
    async with answering(classic(saying(reply(500)), on_get=saying(said))) as server:
        async with client_of(server) as client:
            await stop_listening(client)
            assert client.alive
        assert len(server.sent("GET")) == 1


@pytest.mark.covers("CSR-06", "LTR-11")
@pytest.mark.parametrize("cut", [True, False])
async def test_the_stream_is_opened_again_where_it_ended(cut):
    async def on_get(request, writer):
        number = len(server.sent("GET"))
        writer.write(stream_head() + chunk(event(notice(), id=f"g-{number}", retry=0)))
        await writer.drain()
        if number == 3:
            await asyncio.Event().wait()
        if cut:
            writer.close()
            return None
        return b"0\r\n\r\n"

    async with answering(at_stream(on_get)) as server, client_of(server):
        await server.until(lambda sent: len([one for one in sent if one.verb == "GET"]) >= 3)
    assert [one.headers.get("last-event-id") for one in server.sent("GET")] == [None, "g-1", "g-2"]


async def test_a_stream_that_ends_again_and_again_renews_the_log_level_once_in_a_while():
    async def on_get(request, writer):
        return stream(event(id="g-1", retry=0))

    async def on_call(request, writer):
        return reply(200, result(request, {}))

    def levels_set():
        return sum(one.method == "logging/setLevel" for one in server.sent("POST"))

    async with answering(logging_session(on_call, on_get)) as server, client_of(server, on_log=lambda _: None):
        await server.until(lambda _: levels_set() == 2)
        seen = len(server.sent("GET"))
        await server.until(lambda _: len(server.sent("GET")) > seen + 5)
        assert levels_set() == 2


@pytest.mark.covers("CSR-06")
async def test_a_stream_that_cannot_go_on_after_its_last_event_begins_anew():
    async def on_get(request, writer):
        if len(server.sent("GET")) == 1:
            return stream(event(id="g-1", retry=0))
        return reply(400) if "last-event-id" in request.headers else reply(405)

    async with answering(at_stream(on_get)) as server:
        async with client_of(server) as client:
            await stop_listening(client)
        assert ["last-event-id" in one.headers for one in server.sent("GET")] == [False, True, False]


@pytest.mark.covers("CSR-06")
async def test_a_server_that_is_busy_is_asked_for_the_stream_again(monkeypatch):
    monkeypatch.setattr(client_http, "MAX_PAUSE", 0.01)
    monkeypatch.setattr(client_http, "retry_pause", lambda decoder: 0.001)
    answers = [None, reply(503), reply(429), reply(500), reply(405)]

    async def on_get(request, writer):
        answer = answers.pop(0)
        return writer.close() if answer is None else answer

    async with (
        answering(classic(saying(reply(500)), on_get=on_get)) as server,
        client_of(server) as client,
    ):
        await stop_listening(client)
    assert not answers


@pytest.mark.covers("CSR-06", "CHT-24")
async def test_a_stream_whose_session_is_gone_ends_the_connection():
    async def on_get(request, writer):
        return stream(event(id="g", retry=0)) if len(server.sent("GET")) == 1 else reply(404)

    async with answering(at_stream(on_get)) as server:
        client = client_of(server)
        await client.start()
        async with asyncio.timeout(DEADLINE):
            while client.status != "lost":  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await client.stop()
        assert not server.sent("DELETE")


@pytest.mark.covers("CSR-06")
async def test_a_stream_on_which_nothing_comes_for_long_is_opened_again(monkeypatch):
    monkeypatch.setattr("dragoman.transports.web.http.LISTEN_SECONDS", 0.05)
    monkeypatch.setattr(client_http, "retry_pause", lambda decoder: 0.001)
    async with answering(classic(saying(reply(500)), on_get=saying(stream_head()))) as server:
        async with client_of(server) as client:
            await server.until(lambda sent: len([one for one in sent if one.verb == "GET"]) >= 3)
            assert client.alive
        assert len(server.sent("initialize")) == 1


@pytest.mark.covers("CSR-06")
@pytest.mark.parametrize("retry", [0, 400_000])
async def test_headers_that_fail_and_pauses_without_end_stop_listening_and_nothing_else(retry, caplog):
    calls = []

    def headers():
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError("no token just now")
        return {}

    on_get = saying(stream(event(id="g", retry=retry)))
    async with answering(classic(fine, on_get=on_get)) as server, client_of(server, headers=headers) as client:
        await stop_listening(client)
        calls.extend([1, 1, 1, 1])
        assert (await client.call_tool("any")).text == "done"


@pytest.mark.covers("CSR-06", "LTR-12")
async def test_closing_does_not_wait_for_a_stream_that_never_begins():
    async def on_get(request, writer):
        await asyncio.Event().wait()

    async with answering(classic(saying(reply(500)), on_get=on_get)) as server:
        client = client_of(server)
        await client.start()
        await server.until(lambda sent: any(one.verb == "GET" for one in sent))
        await asyncio.wait_for(client.stop(), DEADLINE)
        assert len(server.sent("DELETE")) == 1


def notes() -> Server:
    """Return a server that adopts the sessions of any other that was made so."""
    server = Server("notes", store=Memory(), secret="a secret of sixteen")

    @server.resource("note://motto")
    def motto() -> str:
        return "Onwards"

    @server.on_subscribe
    def subscribed(uri: str) -> None:
        assert uri == "note://motto"

    return server


def knows_its_client(server: Server) -> bool:
    """Tell whether a session of a server has subscriptions and a log level."""
    sessions = [member.data for member in server.notifier.members() if hasattr(member, "data")]
    return any(session.subscribed and session.log_level for session in sessions)


@pytest.mark.parametrize("way", ["direct", "through a proxy"])
async def test_subscriptions_and_log_level_are_sent_again_to_a_restarted_server_that_adopts_the_session(way):
    first, second = notes(), notes()
    heard: asyncio.Queue[str] = asyncio.Queue()
    options = {"mode": "handshake", "log_level": "info", "on_log": lambda message: heard.put_nowait(message.data)}
    async with asyncio.timeout(DEADLINE):
        async with serving(first.asgi()) as url:
            client = AsyncClient(url if way == "direct" else Server.proxy(url), **options)
            await client.subscribe("note://motto", heard.put_nowait)
            await client.set_log_level("info")
            first.notify_resource_updated("note://motto")
            assert await heard.get() == "note://motto"
        async with serving(second.asgi(), int(url.split(":")[2].split("/")[0])), client:
            await until(lambda: knows_its_client(second))
            second.notify_resource_updated("note://motto")
            assert await heard.get() == "note://motto"
            second.log("info", "restarted")
            assert await heard.get() == "restarted"
