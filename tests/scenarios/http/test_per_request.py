"""One server per request, built from what the request says."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from dragoman import Context, Server, configure, tool
from dragoman.config import PROCESS
from dragoman.server import HttpRequest, asgi
from scenarios.http_peer import DEADLINE, NEWEST, SECRET, STATELESS, HttpPeer, live

VERSIONS = [STATELESS, NEWEST]
LISTEN = {"notifications": {"toolsListChanged": True}}


@tool
async def whoami(ctx: Context) -> str:
    return str(ctx.server_context)


@tool
async def steps(ctx: Context) -> str:
    await ctx.report_progress(1)
    return "there"


def of_user(request: HttpRequest) -> Server:
    return Server("mine", tools=[whoami, steps], server_context=request.headers.get("X-User"), secret=SECRET)


async def of_user_later(request: HttpRequest) -> Server:
    await asyncio.sleep(0)
    return of_user(request)


class Builder:
    """A callable object."""

    async def __call__(self, request: HttpRequest) -> Server:
        return of_user(request)


@pytest.mark.covers("SHT-03")
@pytest.mark.parametrize("factory", [of_user, of_user_later, Builder(), lambda request: of_user_later(request)])
@pytest.mark.parametrize("version", VERSIONS)
async def test_each_request_is_served_by_its_own_server_in_both_eras(factory, version):
    peer = HttpPeer(asgi(factory), version)
    for user in ("Ada", "Grace"):
        answer = await peer.call("whoami", headers={"x-user": user}).end()
        assert answer.status == 200
        assert answer.json["result"]["content"][0]["text"] == user


@pytest.mark.covers("SHT-03", "SHT-24")
async def test_an_earlier_client_is_given_no_session():
    peer = HttpPeer(asgi(of_user), NEWEST)
    assert (await peer.initialize()).status == 200
    assert peer.session is None
    assert (await peer.send("GET").end()).status == 405
    assert (await peer.send("DELETE").end()).status == 405


@pytest.mark.covers("SHT-03")
async def test_the_function_is_given_what_the_request_says():
    requests: list[HttpRequest] = []
    threads: list[threading.Thread] = []

    def build(request: HttpRequest) -> Server:
        requests.append(request)
        threads.append(threading.current_thread())
        return of_user(request)

    peer = HttpPeer(asgi(build, path="/tools"), STATELESS)
    await peer.start("tools/list", headers={"x-user": "Ada"}, path="/tools/").end()
    (request,) = requests
    assert threads != [threading.current_thread()]
    assert (request.method, request.path) == ("POST", "/tools/")
    assert request.headers["X-USER"] == request.headers["x-user"] == "Ada"
    assert request.headers.get("absent") is None
    assert request.scope["server"] == ("127.0.0.1", 8000)


@pytest.mark.covers("SHT-03")
async def test_nothing_is_built_for_a_request_that_is_not_served():
    built: list[HttpRequest] = []

    async def build(request: HttpRequest) -> Server:
        built.append(request)
        return of_user(request)

    peer = HttpPeer(asgi(build), STATELESS)
    assert (await peer.start("tools/list", path="/elsewhere").end()).status == 404
    assert (await peer.start("tools/list", headers={"origin": "https://evil.example"}).end()).status == 403
    assert (await peer.start("tools/list", headers={"host": "evil.example"}).end()).status == 421
    assert not built
    allowing = HttpPeer(asgi(build, allowed_hosts=["a.example"], allowed_origins=["https://b.example"]), STATELESS)
    served = await allowing.start("tools/list", headers={"host": "a.example", "origin": "https://b.example"}).end()
    assert served.status == 200


def failing(request: HttpRequest) -> Any:
    if "x-user" not in request.headers:
        raise LookupError("the secret of the database")
    return of_user(request)


async def failing_later(request: HttpRequest) -> Any:
    return failing(request)


def returning_no_server(request: HttpRequest) -> Any:
    return of_user(request) if "x-user" in request.headers else "a server"


@pytest.mark.covers("SHT-03")
@pytest.mark.parametrize("factory", [failing, failing_later, returning_no_server])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_function_that_fails_is_logged_and_answered_with_500_and_the_next_request_is_served(
    factory, version, caplog
):
    peer = HttpPeer(asgi(factory), version)
    with caplog.at_level(logging.ERROR, "dragoman.server"):
        failed = await peer.call("whoami").end()
    assert failed.status == 500
    assert failed.headers["content-type"] == "application/json"
    assert failed.json == {"jsonrpc": "2.0", "error": {"code": -32603, "message": "Internal error"}}
    (record,) = caplog.records
    assert record.getMessage() == "Unexpected error in the function that builds the server of a request"
    assert record.exc_info is not None
    assert (await peer.call("whoami", headers={"x-user": "Ada"}).end()).status == 200


@pytest.mark.covers("SHT-03")
async def test_a_function_that_fails_is_told_to_the_reporter_of_the_process():
    reports: list[Any] = []
    before = PROCESS.configuration
    configure(exception_reporter=lambda error, info: reports.append((type(error), info)))
    try:
        await HttpPeer(asgi(failing), STATELESS).call("whoami").end()
    finally:
        PROCESS.configuration = before
    assert reports == [(LookupError, {"place": "the function that builds the server of a request"})]


@pytest.mark.covers("SHT-03")
async def test_what_is_said_on_the_way_is_streamed():
    exchange = await HttpPeer(asgi(of_user), STATELESS).call("steps", token="t").end()
    assert exchange.headers["content-type"] == "text/event-stream"
    assert exchange.said[0]["method"] == "notifications/progress"
    assert exchange.said[1]["result"]["content"][0]["text"] == "there"


@pytest.mark.covers("SHT-03")
async def test_subscriptions_of_many_servers_are_told_of_changes_and_end_with_the_application():
    servers: list[Server] = []

    async def build(request: HttpRequest) -> Server:
        servers.append(of_user(request))
        return servers[-1]

    app = asgi(build)
    peer = HttpPeer(app, STATELESS)
    exchanges = [peer.start("subscriptions/listen", LISTEN) for _ in range(3)]
    for exchange in exchanges:
        await exchange.events(1)
    servers[0].notify_tools_list_changed()
    first = exchanges[0]
    assert (await first.events(2))[1].data
    await live(app)
    for exchange in exchanges:
        await exchange.end()
    assert first.said[1]["method"] == "notifications/tools/list_changed"
    assert [len(exchange.said) for exchange in exchanges] == [3, 2, 2]
    assert all("result" in exchange.said[-1] for exchange in exchanges)


async def test_a_client_that_leaves_cancels_its_request():
    began, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    app = asgi(lambda request: Server(tools=[wait]))
    exchange = HttpPeer(app, STATELESS).call("wait")
    await asyncio.wait_for(began.wait(), DEADLINE)
    exchange.leave()
    await asyncio.wait_for(cancelled.wait(), DEADLINE)
    await exchange.end()
    assert exchange.messages == []
