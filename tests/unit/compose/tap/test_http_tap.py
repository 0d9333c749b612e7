"""A tap in front of a server over HTTP: bodies pass unchanged and at once, ends pass, and messages are recorded."""

import asyncio
import contextlib
import hashlib
import io
import os

import aiohttp
import pytest
from aiohttp import web

from dragoman import AsyncClient, Context, Server
from dragoman.compose.session_file import SessionFile, SessionWriter
from dragoman.compose.tap.faults import Faults
from dragoman.compose.tap.http_tap import HttpTap
from dragoman.errors import DefinitionError
from scenarios.raw_http import serving

DEADLINE = 60


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.mcpsession"


def shop():
    server = Server("shop")

    @server.tool
    async def count(to: int, ctx: Context) -> str:
        for number in range(to):
            await ctx.report_progress(number, to)
        return f"counted to {to}"

    return server


@contextlib.asynccontextmanager
async def tapped(app, path, faults=None):
    with SessionWriter(path) as writer:
        async with serving(app) as url, HttpTap(url, writer, faults) as tap:
            yield tap.url


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_a_client_uses_a_server_through_the_tap_and_its_messages_are_recorded(path, mode):
    progress = []
    async with tapped(shop().asgi(), path) as url, AsyncClient(url, mode=mode) as client:
        result = await client.call_tool("count", {"to": 3}, on_progress=lambda *given: progress.append(given))
        assert result.text == "counted to 3"
    assert len(progress) == 3
    records = list(SessionFile(path).records())
    call = next(r for r in records if r.kind == "message" and (r.message() or {}).get("method") == "tools/call")
    answers = [
        r.message() for r in records if r.sender == "server" and r.kind == "message" and r.exchange == call.exchange
    ]
    assert [answer.get("method", "result") for answer in answers] == ["notifications/progress"] * 3 + ["result"]
    heads = {r.kind: r.head for r in records if r.exchange == call.exchange and r.kind in ("request", "response")}
    assert heads["request"]["method"] == "POST"
    assert heads["response"]["status"] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example.com"}, 421),
        ({"Host": "rebound.example.com:80"}, 421),
        ({"Host": "a host"}, 400),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "localhost"}, 200),
    ],
)
async def test_requests_for_other_hosts_and_from_other_origins_do_not_reach_the_target(path, headers, status):
    seen = []

    async def answer(request):
        seen.append(request.headers.get("Authorization"))
        return web.Response(text="from the target")

    async with (
        target(answer) as url,
        HttpTap(url, SessionWriter(path), authorization=Ticket()) as tap,
        aiohttp.ClientSession() as client,
        client.post(tap.url, data=b"{}", headers=headers) as response,
    ):
        assert response.status == status
        text = await response.text()
    assert seen == (["Bearer mine"] if status == 200 else [])
    assert ("from the target" in text) is (status == 200)


async def test_an_allowed_host_reaches_the_target(path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_ALLOWED_HOSTS", "tap.example.com")

    async def answer(_request):
        return web.Response(text="from the target")

    async with (
        target(answer) as url,
        HttpTap(url, SessionWriter(path)) as tap,
        aiohttp.ClientSession() as client,
        client.get(tap.url, headers={"Host": "tap.example.com"}) as response,
    ):
        assert response.status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_tap_that_logs_in_does_not_listen_to_other_machines(path, host):
    with pytest.raises(DefinitionError, match="whoever reaches it uses the login"):
        HttpTap("https://api.example.com/mcp", SessionWriter(path), host=host, authorization=Ticket())


class Ticket:
    """An authorization with a token that is known already."""

    async def headers(self, method, url):
        return {"Authorization": "Bearer mine"}

    async def challenged(self, status, headers, method, url):
        return False

    async def close(self):
        pass


async def test_bodies_pass_byte_for_byte_as_they_come(path):
    body, seen = os.urandom(2_000_000), []
    go_on = asyncio.Event()

    async def answer(request):
        seen.append((request.method, request.raw_path, await request.read(), request.headers.get("X-Mine")))
        response = web.StreamResponse(status=207, headers={"X-Theirs": "1", "Content-Type": "application/octet-stream"})
        await response.prepare(request)
        await response.write(body[:1000])
        await go_on.wait()
        await response.write(body[1000:])
        return response

    async with (
        target(answer) as url,
        HttpTap(url, SessionWriter(path)) as tap,
        aiohttp.ClientSession() as client,
        client.put(tap.url + "/a%2Fb?c=%20d", data=io.BytesIO(body), headers={"X-Mine": "2"}) as response,
    ):
        first = await response.content.readexactly(1000)
        go_on.set()
        rest = await response.content.read()
        assert (response.status, response.headers["X-Theirs"]) == (207, "1")
    assert hashlib.sha256(first + rest).digest() == hashlib.sha256(body).digest()
    assert seen == [("PUT", "/mcp/a%2Fb?c=%20d", body, "2")]


async def never(request):
    raise AssertionError


@contextlib.asynccontextmanager
async def target(answer):
    application = web.Application(client_max_size=10_000_000)
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


async def test_a_client_that_leaves_ends_the_request_at_the_server(path):
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(request):
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with target(answer) as url, HttpTap(url, SessionWriter(path)) as tap, aiohttp.ClientSession() as client:
        asking = asyncio.ensure_future(client.get(tap.url))
        await began.wait()
        asking.cancel()
        async with asyncio.timeout(DEADLINE):
            await cancelled.wait()


async def test_a_response_that_breaks_off_breaks_off_for_the_client(path):
    async def answer(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: {}\n\n")
        request.transport.abort()
        return response

    async with target(answer) as url, HttpTap(url, SessionWriter(path)) as tap, aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientError):
            async with client.get(tap.url) as response:
                await response.content.read()


async def test_a_server_that_is_away_is_a_502_that_names_it(path):
    async with target(never) as url:
        pass
    with SessionWriter(path) as writer:
        async with HttpTap(url, writer) as tap, aiohttp.ClientSession() as client, client.get(tap.url) as response:
            assert response.status == 502
            assert "cannot be reached" in await response.text()
    assert any("cannot be reached" in record.summary() for record in SessionFile(path).records())


@pytest.mark.parametrize(
    "faults",
    [
        Faults(duplicate=True),
        Faults(garbage=True, at=4),
        Faults(delay=0.01),
        Faults(cut=True, at=4),
        Faults(status=503, at=4),
    ],
)
async def test_our_client_survives_the_faults(path, faults):
    async with (
        asyncio.timeout(DEADLINE),
        tapped(shop().asgi(), path, faults) as url,
        AsyncClient(url, mode="handshake", timeout=5) as client,
    ):
        result = await client.call_tool("count", {"to": 2}, idempotent=True)
    assert result.text == "counted to 2"
    assert len(list(SessionFile(path).records())) > 4


async def test_a_stream_is_cut_in_the_middle_of_the_event_that_is_named(path):
    async def answer(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(1, 4):
            await response.write(b"data: [%d]\r\n\r\n" % number)
        return response

    async with (
        target(answer) as url,
        HttpTap(url, SessionWriter(path), Faults(cut=True, at=2)) as tap,
        aiohttp.ClientSession() as client,
        client.get(tap.url) as response,
    ):
        received = b""
        with contextlib.suppress(aiohttp.ClientError):
            async for chunk in response.content.iter_any():
                received += chunk
    assert received == b"data: [1]\r\n\r\ndata: "


async def test_a_server_that_hangs_up_is_a_502_that_says_so(path):
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")  # to close with unread bytes would reset the connection
        writer.close()

    with SessionWriter(path) as writer:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with (
            server,
            HttpTap(url, writer) as tap,
            aiohttp.ClientSession() as client,
            client.post(tap.url, data=b"{}") as response,
        ):
            assert response.status == 502
            assert (await response.text()).endswith("cannot be reached: Server disconnected")


async def test_long_headers_and_several_cookies_pass_in_both_directions(path):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            head = [(b"x-token", dict(scope["headers"])[b"x-token"]), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": dict(scope["headers"])[b"cookie"]})

    sent = {"X-Token": "t" * 20_000, "Cookie": "a=1; b=2"}
    limits = {"max_field_size": 65536, "cookie_jar": aiohttp.DummyCookieJar()}
    async with (
        tapped(app, path) as url,
        aiohttp.ClientSession(**limits) as client,
        client.get(url, headers=sent) as response,
    ):
        assert response.headers["X-Token"] == sent["X-Token"]
        assert response.headers.getall("Set-Cookie") == ["a=1", "b=2"]
        assert await response.text() == sent["Cookie"]
