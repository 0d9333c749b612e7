"""Who sends a request over HTTP: the author's check, and what belongs to one principal alone."""

import asyncio
from pathlib import Path

import pytest

from dragoman import Context, Server
from dragoman.server import HttpRequest
from dragoman.server.http.service import HttpService
from dragoman.server.http.sessions import SessionRegistry
from dragoman.server.http.workers import Workers
from dragoman.stores import Local, Store
from dragoman.transports.http.asgi import AsgiApp
from scenarios.http_peer import BATCHING, BRISK, NEWEST, SECRET, STATELESS, Exchange, HttpPeer, live, serve
from scenarios.http_travels import text

INTERNAL = {"jsonrpc": "2.0", "error": {"code": -32603, "message": "Internal error"}}


def by_header(request: HttpRequest) -> str | None:
    return request.headers.get("X-User")


async def by_header_later(request: HttpRequest) -> str | None:
    await asyncio.sleep(0)
    return request.headers.get("x-user")


def failing(request: HttpRequest) -> str:
    raise LookupError("the table of users is at /secret/place")


def forbidding(request: HttpRequest) -> str:
    raise PermissionError("your account is closed")


def unreadable(request: HttpRequest) -> str:
    raise PermissionError(13, "Permission denied", "/secret/place")


def office(store: Store | None = None) -> Server:
    server = Server("office", secret=SECRET, store=store)

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    return server


class User(HttpPeer):
    """A client that says who it is."""

    def __init__(self, app: AsgiApp, user: str | None, version: str = NEWEST) -> None:
        super().__init__(app, version, capabilities={"elicitation": {}})
        self.user = user

    def send(self, method="POST", body=b"", headers=None, **options) -> Exchange:
        return super().send(method, body, {"x-user": self.user} | (headers or {}), **options)


@pytest.mark.covers("SHT-46")
@pytest.mark.parametrize("auth", [by_header, by_header_later])
@pytest.mark.parametrize("version", [STATELESS, NEWEST, BATCHING])
async def test_handlers_know_who_the_client_is(auth, version):
    ann = User(serve(office(), auth=auth), "ann", version)
    if version != STATELESS:
        assert (await ann.initialize()).status == 200
    assert text(await ann.call("whoami").end()) == "ann"
    if version == BATCHING:
        call = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
        (answer,) = (await ann.post([call]).end()).json
        assert answer["result"]["content"][0]["text"] == "ann"


@pytest.mark.covers("SHT-46")
@pytest.mark.parametrize("auth", [by_header, by_header_later])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT"])
@pytest.mark.by_asgi
async def test_nobody_is_401_before_the_body_is_read(auth, method):
    nobody = User(serve(office(), auth=auth), None)
    exchange = await nobody.send(method, [b"one", b"two"]).end()
    assert exchange.status == 401
    assert exchange.headers["www-authenticate"] == "Bearer"
    assert exchange.json == {
        "jsonrpc": "2.0",
        "error": {"code": -32600, "message": "Authorization is required; send the header Authorization"},
    }
    assert method != "POST" or exchange._chunks == [b"one", b"two"]


@pytest.mark.covers("SHT-46")
@pytest.mark.by_asgi
async def test_whom_the_check_forbids_is_403_before_the_body_is_read(caplog):
    exchange = await User(serve(office(), auth=forbidding), "ann").send("POST", [b"one", b"two"]).end()
    assert (exchange.status, exchange.json) == (
        403,
        {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Not permitted: your account is closed"}},
    )
    assert exchange._chunks == [b"one", b"two"]
    assert not caplog.records


@pytest.mark.covers("SHT-46", "SHT-23")
@pytest.mark.parametrize("auth", [failing, unreadable])
async def test_a_check_that_fails_is_reported_once_and_says_nothing(auth, caplog):
    app = serve(office(), auth=auth)
    exchange = await User(app, "ann").send("POST", b"{}").end()
    assert (exchange.status, exchange.json) == (500, INTERNAL)
    assert len(caplog.records) == 1
    assert "/secret/place" in caplog.text


@pytest.mark.covers("SHT-46")
async def test_a_check_may_take_long():
    may_go_on, asked = asyncio.Event(), asyncio.Event()

    async def slow(request: HttpRequest) -> str:
        asked.set()
        await may_go_on.wait()
        return "ann"

    exchange = User(serve(office(), auth=slow), "ann", STATELESS).call("whoami")
    await asked.wait()
    loop = asyncio.get_running_loop()
    late = asyncio.Event()
    loop.call_later(30 * BRISK.tick, late.set)
    await late.wait()
    may_go_on.set()
    assert text(await exchange.end()) == "ann"


@pytest.mark.covers("SHT-46")
async def test_the_check_sees_the_request_and_its_scope():
    seen: list[HttpRequest] = []
    app = serve(office(), auth=lambda request: seen.append(request) or "ann")
    await User(app, "ann", STATELESS).call("whoami").end()
    (request,) = seen
    assert (request.method, request.path, request.headers["Mcp-Method"]) == ("POST", "/mcp", "tools/call")
    assert request.scope["server"] == ("127.0.0.1", 8000)
    assert "X-Nothing" not in request.headers


async def refused_everywhere(thief: User) -> None:
    for exchange in (
        await thief.request("ping"),
        await thief.notify("notifications/initialized"),
        await thief.send("GET").end(),
        await thief.send("DELETE").end(),
        await thief.request("initialize", {}),
    ):
        assert exchange.status == 404
        assert exchange.json["error"]["message"] == "The session is not known here, or has ended"


@pytest.mark.covers("SHT-46", "SHT-09")
@pytest.mark.parametrize("thief", ["bob", "ANN"])
async def test_the_session_of_another_is_404_on_every_worker(tmp_path: Path, thief):
    apps = []
    for _ in range(2):
        server = office(Local(tmp_path))
        workers = Workers(server.dispatcher, joins=True)
        sessions = SessionRegistry(server.dispatcher, workers=workers)
        service = HttpService(server.dispatcher, workers=workers, sessions=sessions, auth=by_header)
        apps.append(AsgiApp(service, pace=BRISK))
    ann = User(apps[0], "ann")
    await ann.initialize()
    bob = User(apps[0], thief)
    bob.session = ann.session
    await refused_everywhere(bob)
    bob.app = apps[1]
    await refused_everywhere(bob)
    ann.app = apps[1]
    assert (await ann.request("ping")).status == 200
    await refused_everywhere(bob)
    for app in apps:
        await live(app)
