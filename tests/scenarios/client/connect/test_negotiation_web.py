"""How a client finds out what a server speaks over HTTP: statuses and bodies of every kind."""

import asyncio

import pytest
from aiohttp import web

from dragoman import AsyncClient, AuthRequired, Timeout
from dragoman.client.connect import handshake
from dragoman.errors import ConnectError, HeaderMismatch, HttpError, MissingCapability, UnsupportedVersion
from scenarios.client_peer import NEWEST, OLDER, STATELESS, Web, discovered, error, initialized, result, said


def serving(probe):
    """Answer the probe as given, and everything else as a server of the handshake era does."""

    def answer(m, request):
        if m["method"] == "server/discover":
            return probe(m)
        if m["method"] == "initialize":
            return initialized(m)
        return result(m, {}) if "id" in m else web.Response(status=202)

    return Web(answer)


async def spoken(server: Web, **options):
    client = AsyncClient(server.url, transport="http", **options)
    try:
        await client.start()
        return client.protocol_version
    finally:
        await client.stop()


def status(number, probe=None):
    return lambda m: web.json_response(probe(m), status=number) if probe else web.Response(status=number)


@pytest.mark.covers("CLF-12")
@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(lambda m: discovered(m, STATELESS, NEWEST), id="discovered"),
        pytest.param(lambda m: result(m, {"resultType": "complete"}), id="a result type"),
        pytest.param(lambda m: result(m, {"supportedVersions": [STATELESS]}), id="supported versions"),
    ],
)
async def test_a_sign_of_a_stateless_server_is_enough(probe):
    async with serving(probe).running() as server:
        assert await spoken(server) == STATELESS
        assert server.methods == ["server/discover"]
        assert server.headers[0]["MCP-Protocol-Version"] == STATELESS
        assert server.headers[0]["Mcp-Method"] == "server/discover"


@pytest.mark.covers("CLF-12")
@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(lambda m: result(m, {}), id="a result of another shape"),
        pytest.param(lambda m: error(m, -32601), id="an error"),
        pytest.param(lambda m: {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "x"}}, id="null id"),
        pytest.param(status(400, lambda m: error(m, -32600)), id="400 with an error"),
        pytest.param(status(404, lambda m: error(m, -32601)), id="404 with an error"),
        pytest.param(status(400), id="400"),
        pytest.param(status(404), id="404"),
        pytest.param(status(405), id="405"),
        pytest.param(lambda m: web.Response(status=400, text="Bad Request: no session"), id="400 with a text"),
    ],
)
async def test_what_no_stateless_server_says_means_a_handshake(probe):
    async with serving(probe).running() as server:
        assert await spoken(server) == NEWEST
        assert server.methods[:3] == ["server/discover", "initialize", "notifications/initialized"]
        assert "MCP-Protocol-Version" not in server.headers[1]
        assert "Mcp-Session-Id" not in server.headers[1]
        assert server.headers[2]["MCP-Protocol-Version"] == NEWEST


@pytest.mark.covers("CLF-12")
@pytest.mark.parametrize("number", [200, 400])
@pytest.mark.parametrize(("code", "kind"), [(-32020, HeaderMismatch), (-32021, MissingCapability)])
async def test_what_only_a_stateless_server_refuses_is_raised(number, code, kind):
    async with serving(status(number, lambda m: error(m, code))).running() as server:
        with pytest.raises(kind):
            await spoken(server)
        assert server.methods == ["server/discover"]


@pytest.mark.covers("CLF-12")
@pytest.mark.parametrize(
    ("supported", "version", "methods"),
    [
        ([STATELESS], STATELESS, ["server/discover", "server/discover"]),
        ([OLDER], OLDER, ["server/discover", "initialize", "notifications/initialized"]),
        (["2099-01-01"], None, ["server/discover"]),
    ],
)
async def test_a_refused_version_is_corrected_once(supported, version, methods):
    probes = []

    def probe(m):
        probes.append(m)
        if len(probes) > 1:
            return discovered(m, STATELESS)
        return web.json_response(error(m, -32022, {"supported": supported}), status=400)

    async with serving(probe).running() as server:
        if version is None:
            with pytest.raises(UnsupportedVersion):
                await spoken(server)
        else:
            assert await spoken(server) == version
        assert server.methods[: len(methods)] == methods


@pytest.mark.covers("CLF-13")
@pytest.mark.parametrize("number", [500, 502, 503, 504, 429, 302, 401])
async def test_trouble_and_missing_credentials_are_no_verdict(number):
    async with serving(status(number)).running() as server:
        with pytest.raises(AuthRequired if number == 401 else HttpError) as caught:
            await spoken(server)
        assert caught.value.status == number
        assert server.methods == ["server/discover"]
    assert not handshake._handshake_servers


@pytest.mark.covers("CLF-13")
async def test_a_server_that_does_not_answer_or_is_not_there_is_no_verdict(monkeypatch):
    monkeypatch.setattr(handshake, "PROBE_SECONDS", 0.3)

    async def hang(m):
        await asyncio.Event().wait()

    async with serving(hang).running() as server:
        with pytest.raises(Timeout):
            await spoken(server, connect_timeout=1)
        assert server.methods == ["server/discover"]
    with pytest.raises(ConnectError, match="is the server running"):
        await spoken(server)
    assert not handshake._handshake_servers


def changing(refusal, refuses, probe):
    """Serve handshakes, or refuse them by a status while there is something in a list."""

    def answer(m, request):
        if m["method"] == "server/discover":
            return probe(m)
        if m["method"] == "initialize":
            return web.Response(status=refusal) if refuses else initialized(m)
        return web.Response(status=202)

    return answer


@pytest.mark.covers("CLF-10")
async def test_the_era_of_a_known_address_is_kept_until_the_server_contradicts_it():
    learned = []
    answer = changing(400, learned, lambda m: discovered(m, STATELESS) if learned else error(m, -32601))
    async with Web(answer).running() as server:
        assert await spoken(server) == NEWEST
        assert await spoken(server) == NEWEST
        assert server.methods.count("server/discover") == 1
        learned.append(True)
        assert await spoken(server) == STATELESS


@pytest.mark.covers("CLF-10", "CLF-13")
async def test_trouble_at_a_known_address_does_not_change_its_known_era():
    troubled = []
    async with Web(changing(503, troubled, lambda m: error(m, -32601))).running() as server:
        await spoken(server)
        troubled.append(True)
        with pytest.raises(HttpError):
            await spoken(server)
        troubled.clear()
        assert await spoken(server) == NEWEST
        assert server.methods.count("server/discover") == 1


@pytest.mark.covers("CCN-06", "BEY-11")
async def test_a_stateless_request_is_given_up_by_closing_its_stream_and_nothing_is_sent():
    began, gone = asyncio.Event(), asyncio.Event()

    async def answer(m, request):
        if m["method"] == "server/discover":
            return discovered(m, STATELESS, tools={})
        if m["params"]["name"] == "quick":
            return said(m, "ok")
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with Web(answer).running() as server, AsyncClient(server.url) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await asyncio.wait_for(began.wait(), 10)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        await asyncio.wait_for(gone.wait(), 10)
        gone.clear()
        with pytest.raises(Timeout):
            await client.call_tool("slow", timeout=0.2)
        await asyncio.wait_for(gone.wait(), 10)
        assert (await client.call_tool("quick")).text == "ok"
        assert "notifications/cancelled" not in server.methods


@pytest.mark.covers("CCN-01", "CTM-04", "BEY-11")
async def test_a_handshake_request_over_http_that_is_given_up_is_cancelled_by_a_notification():
    told = asyncio.Event()

    async def answer(m, request):
        if m["method"] == "initialize":
            return initialized(m, tools={})
        if m["method"] == "tools/call":
            await asyncio.Event().wait()
        if m["method"] == "notifications/cancelled":
            told.set()
        return web.Response(status=202)

    async with Web(answer).running() as server, AsyncClient(server.url, mode="handshake") as client:
        with pytest.raises(Timeout) as caught:
            await client.call_tool("slow", timeout=0.2)
        await asyncio.wait_for(told.wait(), 10)
        notice = next(m for _, m in server.received if m and m["method"] == "notifications/cancelled")
        assert notice["params"] == {"requestId": caught.value.request_id, "reason": "Request timed out"}
