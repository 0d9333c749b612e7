import asyncio
import json

import pytest

from dragoman import AsyncClient
from dragoman.errors import AuthRequired, ConnectError, HttpError, SessionExpired, TransportError
from dragoman.protocol.jsonrpc import Limits
from dragoman.transports.web import legacy_sse
from dragoman.transports.web.legacy_sse import LegacySse
from scenarios.http_peer import DEADLINE, scenario
from scenarios.raw_http import (
    END,
    Sent,
    answering,
    called,
    chunk,
    event,
    introduction,
    reply,
    result,
    stream,
    stream_head,
)

OLD = "2024-11-05"


async def no_headers() -> dict[str, str]:
    return {}


async def tokens() -> dict[str, str]:
    return {"authorization": "Bearer token", "accept": "nothing/at-all"}


class OldServer:
    """A server of 2024-11-05: what is posted is answered on the stream."""

    def __init__(self, endpoint: str = "/messages?session=1") -> None:
        self.endpoint = endpoint
        self.stream: asyncio.StreamWriter | None = None
        self.opened = asyncio.Event()

    async def __call__(self, request: Sent, writer: asyncio.StreamWriter) -> bytes | None:
        if request.verb == "GET":
            self.stream = writer
            writer.write(stream_head() + chunk(event(self.endpoint, name="endpoint")))
            self.opened.set()
            await writer.drain()
            await asyncio.Event().wait()
        if request.path == "/mcp":
            return reply(405)
        self.answer(request)
        return reply(202, b"Accepted", "text/plain")

    def answer(self, request: Sent) -> None:
        if request.method == "initialize":
            self.tell(result(request, introduction(OLD)))
        elif request.method == "tools/call":
            self.tell(result(request, called("old")))

    def tell(self, message) -> None:
        assert self.stream is not None
        self.stream.write(chunk(event(message)))

    def end(self) -> None:
        assert self.stream is not None
        self.stream.write(END)
        self.stream.close()


class Ends:
    """Why a transport ended."""

    def __init__(self) -> None:
        self.errors: list[Exception | None] = []
        self.came = asyncio.Event()

    def __call__(self, error: Exception | None) -> None:
        self.errors.append(error)
        self.came.set()


async def opening(said: bytes | None, *, limit: int = 2**22) -> Exception:
    """Return what opening raises."""

    async def script(request, writer):
        if said is None:
            await asyncio.Event().wait()
        return said

    async with answering(script) as server:
        transport = LegacySse(server.url, no_headers, None, Limits(limit, 128))
        with pytest.raises(TransportError) as caught:
            await asyncio.wait_for(transport.open(pytest.fail, pytest.fail), DEADLINE)
        with pytest.raises(ConnectError, match="closed"):
            await transport.send(b"{}")
        await transport.close()
    return caught.value


@pytest.mark.covers("LTR-14")
@pytest.mark.parametrize(
    "endpoint",
    [
        "/messages?session=1",
        "messages?session=1",
        "http://127.0.0.1:{port}/messages?session=1",
        '{"url": "/messages?session=1"}',
        '"/messages?session=1"',
    ],
)
@scenario
async def test_messages_go_where_the_first_event_says(endpoint):
    old = OldServer()
    async with answering(old) as server:
        old.endpoint = endpoint.replace("{port}", str(server.port))
        received: list[bytes] = []
        transport = LegacySse(server.url, tokens)
        await transport.open(received.append, pytest.fail)
        await transport.send(b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}')
        async with asyncio.timeout(DEADLINE):
            while not received:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await transport.close()
        opened, posted = server.requests
    assert json.loads(received[0])["id"] == 7
    assert (opened.path, posted.path) == ("/mcp", "/messages?session=1")
    assert opened.all_headers["accept"] == ["text/event-stream"]
    assert posted.all_headers["content-type"] == ["application/json"]
    assert {one.headers["authorization"] for one in server.requests} == {"Bearer token"}


@pytest.mark.covers("LTR-14", "CHT-25")
@pytest.mark.parametrize(
    "endpoint", ["http://localhost:1/messages", "https://127.0.0.1/x", "//example.com/", "ftp://a/"]
)
@scenario
async def test_another_origin_gets_nothing(endpoint):
    error = await opening(stream(event(endpoint, name="endpoint"), end=False))
    assert isinstance(error, ConnectError)
    assert "another origin" in str(error)


@pytest.mark.covers("LTR-14")
@pytest.mark.parametrize("endpoint", ["http://[", "mailto:me@example.com"])
@scenario
async def test_an_endpoint_that_is_no_address_is_said_so(endpoint):
    assert "no address to post to" in str(await opening(stream(event(endpoint, name="endpoint"), end=False)))


@pytest.mark.covers("LTR-14")
@scenario
async def test_a_stream_that_ends_without_an_endpoint_is_no_connection():
    error = await opening(stream(event({"hello": 1}, name="other")))
    assert isinstance(error, ConnectError)
    assert "did not say where to post to" in str(error)


@pytest.mark.covers("LTR-14")
@pytest.mark.parametrize("said", [stream_head(), None], ids=["no event", "no answer"])
@scenario
async def test_an_endpoint_is_not_waited_for_without_end(said, monkeypatch):
    monkeypatch.setattr(legacy_sse, "ENDPOINT_SECONDS", 0.1)
    error = await opening(said)
    assert isinstance(error, ConnectError)
    assert "does not say where to post to" in str(error)


@pytest.mark.covers("LTR-14")
@scenario
async def test_what_is_no_such_stream_is_said_so():
    for status in (200, 404, 405, 500):
        error = await opening(reply(status, b"{}"))
        assert isinstance(error, HttpError)
        assert error.status == status
    error = await opening(reply(401, b"{}", www_authenticate="Bearer"))
    assert isinstance(error, AuthRequired)
    assert error.challenge == "Bearer"


@pytest.mark.covers("LTR-14", "CHT-16")
@scenario
async def test_the_stream_may_be_moved_within_its_origin():
    old = OldServer()

    async def script(request, writer):
        return reply(307, location="/mcp/") if request.path == "/mcp" else await old(request, writer)

    async with answering(script) as server:
        transport = LegacySse(server.url, no_headers)
        await transport.open(lambda _: None, pytest.fail)
        await transport.close()
    assert [one.path for one in server.requests] == ["/mcp", "/mcp/"]


@pytest.mark.covers("LTR-14")
@pytest.mark.parametrize(("cut", "problem"), [(False, "closed the stream"), (True, "broke")])
@scenario
async def test_the_end_of_the_stream_is_the_end_of_the_connection(cut, problem):
    old, ends = OldServer(), Ends()
    async with answering(old) as server:
        transport = LegacySse(server.url, no_headers)
        await transport.open(pytest.fail, ends)
        old.stream.close() if cut else old.end()
        await asyncio.wait_for(ends.came.wait(), DEADLINE)
        await transport.close()
        await transport.close()
    assert len(ends.errors) == 1
    assert problem in str(ends.errors[0])


@pytest.mark.covers("LTR-14", "CHT-09")
@scenario
async def test_a_message_over_the_limit_ends_the_connection():
    old, ends = OldServer(), Ends()
    async with answering(old) as server:
        transport = LegacySse(server.url, no_headers, None, Limits(4096, 128))
        await transport.open(pytest.fail, ends)
        old.tell("x" * 5000)
        await asyncio.wait_for(ends.came.wait(), DEADLINE)
        await transport.close()
    assert "more than 4096 bytes" in str(ends.errors[0])


@pytest.mark.covers("LTR-14")
@pytest.mark.parametrize(
    ("said", "kind"),
    [(reply(400, b"no", "text/plain"), HttpError), (reply(500), HttpError), (reply(401), AuthRequired)],
)
@scenario
async def test_a_message_that_is_not_taken_is_an_error_of_that_message_alone(said, kind):
    old = OldServer()

    async def script(request, writer):
        return said if request.verb == "POST" else await old(request, writer)

    async with answering(script) as server:
        transport = LegacySse(server.url, no_headers)
        await transport.open(pytest.fail, pytest.fail)
        with pytest.raises(kind) as caught:
            await transport.send(b"{}")
        assert "session=1" not in str(caught.value)
        await transport.close()


@pytest.mark.covers("LTR-14", "CHT-24")
@scenario
async def test_a_stream_that_the_server_does_not_know_any_more_ends_the_connection():
    old, ends = OldServer(), Ends()

    async def script(request, writer):
        return reply(404) if request.verb == "POST" else await old(request, writer)

    async with answering(script) as server:
        transport = LegacySse(server.url, no_headers)
        await transport.open(pytest.fail, ends)
        with pytest.raises(SessionExpired):
            await transport.send(b"{}")
        await transport.close()
    assert isinstance(ends.errors[0], SessionExpired)


@pytest.mark.covers("LTR-14")
@scenario
async def test_closing_while_opening_and_reading_ends_both():
    async def script(request, writer):
        return stream_head()

    async with answering(script) as server:
        transport = LegacySse(server.url, no_headers)
        opening = asyncio.create_task(transport.open(pytest.fail, pytest.fail))
        await server.until(lambda sent: sent)
        async with asyncio.timeout(DEADLINE):
            while transport._reading is None:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await asyncio.wait_for(transport.close(), DEADLINE)
        with pytest.raises(ConnectError, match="was closed"):
            await asyncio.wait_for(opening, DEADLINE)


# As a client sees it.


@pytest.mark.covers("LTR-14", "CHT-22")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
@pytest.mark.parametrize("status", [400, 404, 405])
@scenario
async def test_a_client_falls_back_to_the_old_way(mode, status):
    old = OldServer()

    async def script(request, writer):
        if (request.verb, request.path) == ("POST", "/mcp"):
            return reply(status)
        return await old(request, writer)

    async with answering(script) as server, AsyncClient(server.url, mode=mode, timeout=DEADLINE) as client:
        assert client.protocol_version == OLD
        assert (await client.call_tool("any")).text == "old"


@pytest.mark.covers("CHT-22")
@pytest.mark.parametrize("status", [401, 403, 422, 500])
@scenario
async def test_other_statuses_are_no_reason_to_fall_back(status):
    async def script(request, writer):
        return reply(status)

    async with answering(script) as server:
        client = AsyncClient(server.url, mode="handshake", timeout=DEADLINE)
        with pytest.raises((HttpError, AuthRequired)) as caught:
            await client.start()
        await client.stop()
        assert [one.verb for one in server.requests] == ["POST"]
    assert caught.value.status == status


@pytest.mark.covers("LTR-14", "CHT-22")
@scenario
async def test_a_server_with_neither_way_is_reported_as_the_new_way_saw_it():
    async def script(request, writer):
        return reply(404, b"Not here", "text/plain")

    async with answering(script) as server:
        client = AsyncClient(server.url, mode="handshake", timeout=DEADLINE)
        with pytest.raises(HttpError, match="status 404: Not here"):
            await client.start()
        await client.stop()


@pytest.mark.covers("LTR-14")
@scenario
async def test_a_client_that_is_told_so_goes_the_old_way_at_once():
    async with answering(OldServer()) as server:
        async with AsyncClient(server.url, transport="sse", timeout=DEADLINE) as client:
            assert (await client.call_tool("any")).text == "old"
        assert [one.verb for one in server.requests][:2] == ["GET", "POST"]
        assert not [one for one in server.requests if one.method == "server/discover"]


@pytest.mark.covers("LTR-14")
@scenario
async def test_calls_that_wait_fail_at_once_when_the_stream_ends():
    old = OldServer()

    async def script(request, writer):
        if request.method == "tools/call":
            old.end()
            return reply(202)
        return await old(request, writer)

    async with answering(script) as server:
        client = AsyncClient(server.url, transport="sse", timeout=600)
        await client.start()
        with pytest.raises(TransportError, match="closed the stream"):
            await asyncio.wait_for(client.call_tool("any"), DEADLINE)
        await client.stop()
        assert len(server.sent("tools/call")) == 1
