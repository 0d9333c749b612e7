"""What a server over HTTP does with hostile, broken and slow requests: a clear refusal, and the next one is served."""

import asyncio
import json

import pytest

from dragoman import Server
from dragoman.protocol.jsonrpc import Limits
from dragoman.server.http.head import MAX_HEADER_BYTES, Guard
from dragoman.server.http.post import PostService
from dragoman.server.http.sessions import SessionRegistry
from dragoman.transports.http.exchange import Pace
from scenarios.http_peer import BATCHING, NEWEST, STATELESS, Exchange, HttpPeer, live, serve
from scenarios.http_travels import session, text, travels

PAGE = "https://app.example"
OTHER_PAGE = "https://other.example"
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
EXPOSED = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"


def error(code: int, message: str, id: int | None = None, data: object = None) -> dict:
    told = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0"} | ({} if id is None else {"id": id}) | {"error": told}


NO_SESSION = error(-32600, "The session is not known here, or has ended", 1)
NO_TYPE = error(-32600, "The Content-Type must be application/json")
TRUNCATED = error(-32700, "The message is not JSON: Input data was truncated")


@pytest.mark.covers("SHT-47", "SHT-16", "SHT-17", "SHT-18", "SHT-19", "SHT-22")
@pytest.mark.parametrize(
    ("body", "headers", "status", "answer"),
    [
        pytest.param(PING, {"content-type": "text/plain"}, 415, NO_TYPE, id="wrong content type"),
        pytest.param(PING, {"content-type": None}, 415, NO_TYPE, id="no content type"),
        pytest.param(
            PING,
            {"accept": "text/html"},
            406,
            error(-32600, "The Accept header must admit application/json or text/event-stream"),
            id="unacceptable",
        ),
        pytest.param(PING[:-3], {}, 400, TRUNCATED, id="truncated"),
        pytest.param(b"", {}, 400, TRUNCATED, id="empty"),
        pytest.param(
            b" " * 3000, {}, 413, error(-32700, "A message must not have more than 2000 bytes"), id="oversized"
        ),
        pytest.param(
            b"nonsense",
            {},
            400,
            error(-32700, "The message is not JSON: JSON is malformed: invalid character (byte 4)"),
            id="not JSON",
        ),
        pytest.param(
            PING.replace(b"ping", b"\xff"), {}, 400, error(-32700, "The message is not valid UTF-8"), id="not UTF-8"
        ),
        pytest.param(
            b"7",
            {},
            400,
            error(-32600, "A message must be a JSON object; batches exist in 2025-03-26 only"),
            id="no object",
        ),
        pytest.param(
            PING,
            {"mcp-protocol-version": "1999"},
            400,
            error(
                -32022,
                f"Protocol version '1999' is not supported; use one of {', '.join(VERSIONS)}",
                1,
                {"supported": VERSIONS, "requested": "1999"},
            ),
            id="wrong version",
        ),
        pytest.param(
            PING,
            {"mcp-session-id": None},
            400,
            error(-32600, "The header Mcp-Session-Id is missing; initialize first", 1),
            id="no session",
        ),
        pytest.param(PING, {"mcp-session-id": "unknown"}, 404, NO_SESSION, id="unknown session"),
        pytest.param(PING, {"mcp-session-id": "A" * 10_000}, 404, NO_SESSION, id="long session id"),
        pytest.param(PING, {"mcp-session-id": ""}, 404, NO_SESSION, id="empty session id"),
    ],
)
async def test_bad_input_is_refused_clearly_and_the_next_request_is_served(body, headers, status, answer):
    peer = await session(travels(), limits=Limits(message_bytes=2000))
    exchange = await peer.send("POST", body, headers).end()
    assert (exchange.status, exchange.json) == (status, answer)
    assert exchange.headers["content-type"] == "application/json"
    assert (await peer.request("ping")).status == 200


@pytest.mark.covers("SHT-47", "SHT-09", "SHT-39")
@pytest.mark.parametrize("kind", ["forged", "of another server", "replayed after its end"])
async def test_a_session_id_that_is_not_to_be_trusted_is_404(kind):
    peer = await session(travels())
    if kind == "forged":
        peer.session = peer.session[:-1] + ("A" if peer.session[-1] != "A" else "B")
    elif kind == "of another server":
        peer.session = (await session(travels(name="cooking"))).session
    else:
        assert (await peer.send("DELETE").end()).status == 200
    for method, body, answer in (
        ("POST", PING, NO_SESSION),
        ("GET", b"", error(-32600, NO_SESSION["error"]["message"])),
        ("DELETE", b"", error(-32600, NO_SESSION["error"]["message"])),
    ):
        exchange = await peer.send(method, body).end()
        assert (exchange.status, exchange.json) == (404, answer)
    assert (await session_again(peer)).status == 200


async def session_again(peer: HttpPeer) -> Exchange:
    peer.session = None
    await peer.initialize()
    return await peer.request("ping")


@pytest.mark.covers("SHT-47")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("header", ["mcp-session-id", "mcp-protocol-version"])
async def test_a_repeated_header_is_400_in_a_session(method, header):
    peer = await session(travels())
    sent = {"mcp-session-id": peer.session, "mcp-protocol-version": NEWEST}
    lines = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    lines += [(name.encode(), value.encode()) for name, value in [*sent.items(), (header, sent[header])]]
    scope = {"type": "http", "method": method, "path": "/mcp", "headers": lines, "server": ("127.0.0.1", 8000)}
    exchange = await Exchange(peer.app, scope, [PING]).end()
    answer = error(-32600, f"The header {header} is repeated; send it once", 1 if method == "POST" else None)
    assert (exchange.status, exchange.json) == (400, answer)
    assert (await peer.request("ping")).status == 200


@pytest.mark.covers("SHT-28", "SHT-47")
async def test_a_thousand_sessions_of_one_client_are_bounded():
    server = travels()
    app = serve(server, sessions=SessionRegistry(server.dispatcher, max_sessions=100))
    statuses = [(await HttpPeer(app).initialize()).status for _ in range(1000)]
    assert statuses == [200] * 1000
    modern = HttpPeer(app, STATELESS)
    assert (await modern.call("add", {"a": 1, "b": 2}).end()).status == 200
    assert len(server.notifier.members()) == 100


@pytest.mark.covers("SHT-18", "SHT-47")
async def test_a_batch_with_too_many_messages_or_none_is_400():
    peer = await session(travels(), BATCHING)
    for batch in ([json.loads(PING)] * 1001, []):
        exchange = await peer.post(batch).end()
        assert (exchange.status, exchange.json["error"]["code"]) == (400, -32600)
    full = await peer.post([json.loads(PING) | {"id": id} for id in range(1000)]).end()
    assert (full.status, len(full.json)) == (200, 1000)


@pytest.mark.covers("SHT-45")
async def test_headers_of_more_than_64_kilobytes_are_431():
    peer = await session(travels())
    exchange = await peer.send("POST", PING, {"x-much": "a" * MAX_HEADER_BYTES}).end()
    assert exchange.status == 431
    assert exchange.json["error"]["code"] == -32600
    assert f"at most {MAX_HEADER_BYTES} are accepted" in exchange.json["error"]["message"]
    much = await peer.send("POST", PING, {"x-much": "a" * (MAX_HEADER_BYTES - 2000)}).end()
    assert much.status == 200


class Slow(Exchange):
    """A client that does not send the end of its body."""

    async def _receive(self):
        if self._chunks:
            return {"type": "http.request", "body": self._chunks.pop(0), "more_body": True}
        await self._left.wait()
        return {"type": "http.disconnect"}


@pytest.mark.covers("SHT-45")
async def test_a_body_that_does_not_come_is_408_and_the_next_request_is_served():
    peer = await session(travels(), pace=Pace(tick=0.001, read=0.01))
    lines = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": lines, "server": ("127.0.0.1", 8000)}
    exchange = await Slow(peer.app, scope, [PING[:10]]).end()
    answer = error(-32700, "The body did not come within 0.01 seconds")
    assert (exchange.status, exchange.json) == (408, answer)
    assert exchange.headers["connection"] == "close"
    assert (await peer.request("ping")).status == 200


@pytest.mark.covers("SHT-35", "SHT-47")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_a_client_that_goes_away_at_any_point_leaves_the_next_one_served(version, turns, caplog):
    peer = await session(travels()) if version == NEWEST else HttpPeer(serve(travels()), version)
    exchange = peer.call("add", {"a": 1, "b": 2})
    for _ in range(turns):
        await asyncio.sleep(0)
    exchange.leave()
    await exchange.end()
    assert text(await peer.call("add", {"a": 1, "b": 2}).end()) == "3"
    await live(peer.app)
    assert not caplog.records


@pytest.mark.covers("LSN-05")
async def test_too_many_subscriptions_are_503_until_one_ends():
    app = serve(travels(), max_subscriptions=1)
    peer = HttpPeer(app, STATELESS)
    wanted = {"notifications": {"toolsListChanged": True}}
    first = peer.start("subscriptions/listen", wanted, id="first")
    await first.events(1)
    refused = await peer.request("subscriptions/listen", wanted, id=2)
    assert (refused.status, refused.json) == (
        503,
        error(-32603, "There are too many subscriptions; try again later", 2),
    )
    first.leave()
    await first.end()
    third = peer.start("subscriptions/listen", wanted, id="third")
    await third.events(1)
    await live(app)
    await third.end()


@pytest.mark.covers("SHT-23")
@pytest.mark.parametrize("began", [False, True])
async def test_an_unexpected_failure_is_reported_and_500_and_the_next_request_is_served(began, monkeypatch, caplog):
    peer = HttpPeer(serve(travels()), STATELESS)

    async def fail(service, exchange, *_) -> None:
        if began:
            await exchange.stream(b"")
        raise LookupError("nobody's business")

    monkeypatch.setattr(PostService, "serve", fail)
    exchange = await peer.call("add", {"a": 1, "b": 2}).end()
    answer = error(-32603, "Internal error")
    assert (exchange.status, exchange.said if began else exchange.json) == ((200, [answer]) if began else (500, answer))
    assert not exchange.messages[-1].get("more_body")
    assert len(caplog.records) == 1
    assert "nobody's business" in caplog.text
    monkeypatch.undo()
    assert (await peer.call("add", {"a": 1, "b": 2}).end()).status == 200


def pages(*origins: str, server: Server | None = None, **options) -> HttpPeer:
    guard = Guard(allowed_hosts=(), allowed_origins=origins)
    return HttpPeer(serve(server or travels(), guard=guard, **options), STATELESS)


@pytest.mark.covers("SHT-37")
@pytest.mark.parametrize("allowed", [PAGE, "*"])
async def test_a_browser_may_ask_first_for_a_page_of_an_allowed_origin(allowed):
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "mcp-method, x-own"}
    peer = pages(allowed, auth=lambda request: None)
    exchange = await peer.send("OPTIONS", b"", {"origin": PAGE} | asked).end()
    assert (exchange.status, exchange.body) == (204, b"")
    assert exchange.headers["access-control-allow-origin"] == PAGE
    assert exchange.headers["access-control-allow-headers"] == "mcp-method, x-own"
    assert {"GET", "POST", "DELETE"} <= set(exchange.headers["access-control-allow-methods"].split(", "))
    assert "Origin" in exchange.headers["vary"]
    assert "access-control-allow-credentials" not in exchange.headers


@pytest.mark.covers("SHT-37")
@pytest.mark.parametrize("kind", ["json", "stream", "error", "401", "session"])
async def test_a_page_of_an_allowed_origin_may_read_every_answer(kind):
    headers = {"origin": PAGE}
    peer = pages(PAGE, auth=(lambda request: None) if kind == "401" else None)
    if kind == "stream":
        exchange = await peer.request("tools/list", None, headers | {"accept": "text/event-stream"})
        assert exchange.headers["content-type"] == "text/event-stream"
    elif kind == "error":
        exchange = await peer.send("POST", b"{", headers).end()
        assert exchange.status == 400
    elif kind == "session":
        introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
        exchange = await HttpPeer(peer.app).request("initialize", introduction, headers)
        assert exchange.headers["mcp-session-id"]
    else:
        exchange = await peer.request("tools/list", None, headers)
        assert exchange.status == (401 if kind == "401" else 200)
    assert exchange.headers["access-control-allow-origin"] == PAGE
    assert exchange.headers["access-control-expose-headers"] == EXPOSED


@pytest.mark.covers("SHT-37")
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.evil", "http://app.example"])
async def test_a_page_of_another_origin_is_granted_nothing(origin):
    for method in ("OPTIONS", "POST"):
        exchange = await pages(PAGE).send(method, PING, {"origin": origin}).end()
        assert exchange.status == 403
        assert not [name for name in exchange.headers if name.startswith("access-control")]


@pytest.mark.covers("SHT-37")
async def test_who_is_no_page_is_granted_nothing():
    for peer in (pages(PAGE), pages()):
        exchange = await peer.request("tools/list")
        assert exchange.status == 200
        assert not [name for name in exchange.headers if name.startswith("access-control")]
    own = await pages().send("OPTIONS", b"", {"origin": "http://localhost:8000"}).end()
    assert own.status == 405


@pytest.mark.covers("SHT-30")
@pytest.mark.parametrize("process", ["the same", "another"])
@pytest.mark.parametrize(
    ("began", "comes", "expected"),
    [
        (PAGE, PAGE, 200),
        (PAGE, PAGE.upper(), 200),
        (PAGE, None, 200),
        (None, PAGE, 200),
        (PAGE, OTHER_PAGE, 403),
    ],
)
async def test_a_session_belongs_to_the_origin_that_it_began_with(process, began, comes, expected):
    server = travels()
    peer = pages(PAGE, OTHER_PAGE, server=server)
    peer.version = NEWEST
    introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
    begun = await peer.request("initialize", introduction, {"origin": began})
    if process == "another":
        peer = pages(PAGE, OTHER_PAGE, server=travels())
        peer.version = NEWEST
    peer.session = begun.headers["mcp-session-id"]
    answers = [await peer.request("ping", headers={"origin": comes}), await peer.post(NOTE, {"origin": comes}).end()]
    assert [answer.status for answer in answers] == [expected, 202 if expected == 200 else 403]
    stream = peer.send("GET", headers={"origin": comes, "content-type": None})
    await stream.until(lambda exchange: exchange.messages)
    assert stream.status == expected
    stream.leave()
    await stream.end()
    assert (await peer.send("DELETE", headers={"origin": comes}).end()).status == expected
    if expected == 403:
        assert answers[0].json["error"]["message"] == "The session belongs to a page of another origin"
        assert (await peer.request("ping", headers={"origin": began})).status == 200
