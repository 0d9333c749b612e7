"""A client over Streamable HTTP: what comes back, and what it means, over sockets."""

import asyncio
import json

import pytest

from dragoman import AsyncClient, Context, Server
from dragoman.errors import AuthRequired, HttpError, InvalidParams, RpcError, SessionExpired, TransportError
from scenarios.http_peer import DEADLINE, SECRET, serve
from scenarios.raw_http import (
    NEWEST,
    STATELESS,
    answering,
    called,
    classic,
    event,
    fine,
    modern,
    refusal,
    reply,
    result,
    saying,
    serving,
    stream,
)


def client_of(server, mode="stateless", **options) -> AsyncClient:
    return AsyncClient(server.url, mode=mode, timeout=DEADLINE, **options)


async def failed_call(script, mode: str = "stateless", **options) -> Exception:
    """Return what a call raises, after which the client has proved that it lives on."""
    failing = [True]

    async def on_call(request, writer):
        if failing:
            failing.clear()
            return await script(request, writer)
        return reply(200, result(request, called("alive")))

    async with (
        answering((modern if mode == "stateless" else classic)(on_call)) as server,
        client_of(server, mode, **options) as client,
    ):
        with pytest.raises((TransportError, RpcError)) as caught:
            await client.call_tool("any")
        assert (await client.call_tool("any")).text == "alive"
    return caught.value


# Statuses.


@pytest.mark.covers("CHT-05", "LTR-08")
@pytest.mark.parametrize("status", [400, 404, 422])
@pytest.mark.parametrize("id", [1, 999, None, ...], ids=["its id", "another id", "null", "no id"])
async def test_an_error_on_the_exchange_of_a_request_is_its_answer_whatever_id_it_names(status, id):
    error = await failed_call(saying(reply(status, refusal(id, -32602, "No such tool", {"a": 1}))))
    assert isinstance(error, InvalidParams)
    assert (error.message, error.data) == ("No such tool", {"a": 1})


@pytest.mark.covers("CHT-05")
@pytest.mark.parametrize(
    "whole", [lambda said: reply(200, said), lambda said: stream(event(said))], ids=["json", "sse"]
)
async def test_an_error_that_names_no_request_is_the_answer_with_status_200_too(whole):
    error = await failed_call(saying(whole(refusal(None, -32603, "Out of order"))))
    assert (error.code, error.message) == (-32603, "Out of order")


@pytest.mark.covers("CHT-05", "LTR-08")
@pytest.mark.parametrize("status", [400, 404, 405, 408, 422, 425, 429, 500, 502, 503])
async def test_another_status_is_an_http_error_that_quotes_the_server(status):
    error = await failed_call(saying(reply(status, b"Please go away", "text/plain")))
    assert isinstance(error, HttpError)
    assert (error.status, error.body) == (status, b"Please go away")
    assert f"status {status}: Please go away" in str(error)


@pytest.mark.covers("CHT-05")
async def test_an_error_of_the_server_itself_is_no_answer_of_the_protocol():
    error = await failed_call(saying(reply(500, refusal(1, -32603, "Boom"))))
    assert isinstance(error, HttpError)
    assert error.status == 500


@pytest.mark.covers("CHT-05")
@pytest.mark.parametrize(
    ("status", "challenge", "expected"),
    [
        (
            401,
            'Bearer error="invalid_token", error_description="The token has expired"',
            ["The token has expired", "new"],
        ),
        (401, 'Bearer error="invalid_token", error_description="wrong audience."', ["wrong audience; get"]),
        (
            403,
            'Bearer error="insufficient_scope", scope="files:read files:write"',
            ["lacks scopes", "files:read files:write"],
        ),
        (401, 'Bearer error="invalid_token", error_description="no good: mysecrettoken42"', ["left out"]),
        (401, 'Bearer error="invalid_token", error_description="bXlzZWNyZXR0b2tlbjQy"', ["left out"]),
        (401, 'Bearer error="a\tb"', ["refuses the credentials"]),
    ],
)
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_refusal_says_what_the_challenge_says_and_no_secret(status, challenge, expected, transport):
    async with answering(saying(reply(status, b"", www_authenticate=challenge))) as server:
        client = AsyncClient(server.url, auth="mysecrettoken42", transport=transport, mode="handshake")
        with pytest.raises(AuthRequired) as caught:
            await client.start()
        await client.stop()
    assert all(part in str(caught.value) for part in expected)
    assert "mysecrettoken42" not in str(caught.value)
    assert "wants credentials" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.covers("CHT-05", "LTR-08")
@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_that_are_missing_are_asked_for_with_the_challenge(status):
    said = reply(status, b"", www_authenticate='Bearer resource_metadata="x"', WWW_Authenticate="Basic")
    error = await failed_call(saying(said), auth="hidden")
    assert isinstance(error, AuthRequired)
    assert (error.status, error.challenge) == (status, 'Bearer resource_metadata="x", Basic')
    assert "auth=" in str(error)
    assert "hidden" not in str(error)


@pytest.mark.covers("CHT-05", "CHT-22")
@pytest.mark.parametrize("status", [401, 403, 408, 425, 429, 500, 502, 503])
async def test_such_a_status_says_nothing_about_the_era(status):
    async with answering(saying(reply(status))) as server:
        client = client_of(server, "auto")
        with pytest.raises((HttpError, AuthRequired)) as caught:
            await client.start()
        await client.stop()
        assert [one.method for one in server.requests] == ["server/discover"]
    assert caught.value.status == status


@pytest.mark.covers("CHT-05")
@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (reply(202, kind=None), "status 202 and nothing else"),
        (reply(204, kind=None), "status 204 and nothing else"),
        (reply(200), "status 200 and nothing else"),
        (reply(200, b"{nonsense"), "no JSON-RPC message"),
        (reply(200, b"[]"), "no JSON-RPC message"),
        (reply(200, {"hello": "world"}), "no JSON-RPC message"),
        (reply(200, {"jsonrpc": "2.0", "id": 999, "result": {}}), "no answer to it"),
        (reply(200, b"<html>", "text/html"), "is the address right"),
        (stream(event({"jsonrpc": "2.0", "id": 999, "result": {}})), "ended without an answer"),
        (stream(event("{nonsense")), "ended without an answer"),
    ],
)
async def test_what_is_no_answer_is_said_so_and_the_client_lives_on(said, problem, era):
    assert problem in str(await failed_call(saying(said), era))


@pytest.mark.covers("CHT-23")
async def test_garbage_is_not_answered():
    async def script(request, writer):
        return stream(event("{nonsense"), event(result(request, called())))

    async with answering(classic(script)) as server:
        async with client_of(server, "handshake") as client:
            await client.call_tool("any")
        assert [one.method for one in server.sent("POST")] == ["initialize", "notifications/initialized", "tools/call"]


@pytest.mark.covers("CHT-08")
async def test_an_answer_that_comes_twice_counts_once():
    async def script(request, writer):
        return stream(*[event(result(request, called(text))) for text in ("first", "second")])

    async with answering(modern(script)) as server, client_of(server) as client:
        assert (await client.call_tool("any")).text == "first"
        assert (await client.call_tool("any")).text == "first"


@pytest.mark.covers("CHT-08")
async def test_what_comes_before_the_answer_is_told_before_it():
    async def script(request, writer):
        token = request.json["params"]["_meta"]["progressToken"]
        notices = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}}
            for n in range(50)
        ]
        return stream(*map(event, notices), event(result(request, called())), end=False)

    seen: list[float] = []
    async with answering(modern(script)) as server, client_of(server) as client:
        await client.call_tool("any", on_progress=lambda progress, total, message: seen.append(progress))
    assert seen == list(range(50))


@pytest.mark.covers("CHT-10")
async def test_a_stream_is_not_taken_up_again_in_the_stateless_era():
    async with answering(modern(saying(stream(event(id="a-0", retry=0))))) as server:
        async with client_of(server) as client:
            with pytest.raises(TransportError, match="ended without an answer"):
                await client.call_tool("any")
        assert not server.sent("GET")


@pytest.mark.covers("CHT-10")
@pytest.mark.parametrize("session", ["s1", None])
async def test_a_stream_of_a_session_goes_on_with_its_headers(session):
    async def script(request, writer):
        if request.verb == "POST":
            asked.append(request)
            return stream(event(id="a-0", retry=0))
        return stream(event(result(asked[0], called("late"))))

    asked: list = []
    async with answering(classic(script, session=session)) as server:
        async with client_of(server, "handshake", auth="token") as client:
            assert (await client.call_tool("any")).text == "late"
        resumed = next(one for one in server.sent("GET") if "last-event-id" in one.headers)
    assert resumed.headers["last-event-id"] == "a-0"
    assert resumed.headers["accept"] == "text/event-stream"
    assert resumed.headers["authorization"] == "Bearer token"
    assert resumed.headers["mcp-protocol-version"] == NEWEST
    assert resumed.headers.get("mcp-session-id") == session
    assert "content-type" not in resumed.headers


@pytest.mark.covers("CHT-10", "CHT-24")
async def test_a_call_whose_stream_was_lost_with_its_session_is_not_repeated():
    async def script(request, writer):
        return reply(404) if request.verb == "GET" else stream(event(id="a-0", retry=0))

    async with answering(classic(script)) as server:
        async with client_of(server, "handshake") as client:
            with pytest.raises(TransportError, match="may have been served") as caught:
                await client.call_tool("any")
            assert not client.alive
        assert len(server.sent("tools/call")) == 1
        assert not server.sent("DELETE")
    assert not isinstance(caught.value, SessionExpired)


# With our own server.


def greeter() -> Server:
    server = Server("greeter", secret=SECRET)

    @server.tool
    async def greet(name: str) -> str:
        return f"Hello {name}"

    @server.tool
    async def slowly(ctx: Context) -> str:
        await ctx.report_progress(1, total=2, message="half")
        return "done"

    return server


@pytest.mark.covers("CHT-19")
async def test_a_hundred_streamed_calls_share_a_few_connections(era):
    app = serve(greeter())
    clients = set()

    async def counted(scope, receive, send):
        clients.add(tuple(scope.get("client") or ()))
        await app(scope, receive, send)

    seen: list[str] = []
    async with serving(counted) as url, AsyncClient(url, mode=era) as client:
        for _ in range(100):
            result = await client.call_tool("slowly", on_progress=lambda *told: seen.append(told[2]))
            assert result.text == "done"
    assert len(seen) == 100
    assert len(clients) <= 10


@pytest.mark.covers("CHT-04", "CSR-06")
async def test_a_client_talks_to_our_server_over_sockets(era):
    server = greeter()
    changed = asyncio.Event()
    async with (
        serving(serve(server)) as url,
        AsyncClient(url, mode=era, on_list_changed=lambda kind: changed.set()) as client,
    ):
        assert (await client.call_tool("greet", {"name": "Ada"})).text == "Hello Ada"
        assert len(await client.tools()) == 2
        async with asyncio.timeout(DEADLINE):
            while not changed.is_set():
                server.notify_tools_list_changed()
                await asyncio.sleep(0.01)
        assert client.protocol_version == (STATELESS if era == "stateless" else NEWEST)


@pytest.mark.covers("CHT-22")
async def test_a_server_of_each_era_is_found_out():
    async def on_call(request, writer):
        return reply(200, result(request, called(json.dumps(sorted(request.headers)))))

    for script, version in ((modern(on_call), STATELESS), (classic(on_call), NEWEST)):
        async with answering(script) as server, client_of(server, "auto") as client:
            assert client.protocol_version == version
            sent = json.loads((await client.call_tool("any")).text)
            assert ("mcp-session-id" in sent) == (version == NEWEST)


@pytest.mark.covers("LTR-15")
@pytest.mark.parametrize("name", ["http", "streamable", "streamable_http", "streamable-http"])
async def test_the_transport_has_the_names_that_people_know_and_then_no_other_is_tried(name):
    async with answering(modern(fine)) as server, client_of(server, transport=name) as client:
        assert (await client.call_tool("any")).text == "done"
    async with answering(saying(reply(405))) as server:
        client = client_of(server, "handshake", transport=name)
        with pytest.raises(HttpError):
            await client.start()
        await client.stop()
        assert [one.verb for one in server.requests] == ["POST"]
