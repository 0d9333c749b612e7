"""Requests that something below the client changes: they go to the address of the client, or nowhere."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
from yarl import URL

from auth.world import world
from dragoman import AsyncClient, AuthError, Client, Server
from dragoman.auth import ClientCredentials, MemoryStorage
from dragoman.client import Network
from dragoman.errors import InsecureUrl
from scenarios.raw_http import answering, reply

DEADLINE = 60
server = Server("sums")


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@asynccontextmanager
async def guarded():
    async with world() as there, answering(_steal) as thief:
        there.inner = server.handle_json_async
        there.clients["reports"] = {"client_secret": "s"}
        yield there, thief


def program(**options):
    return ClientCredentials("reports", "s", storage=MemoryStorage(), **options)


async def _steal(_request, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def by_middleware(elsewhere):
    async def rewrite(request, handler):
        request.url = elsewhere
        request.headers["Host"] = elsewhere.authority
        return await handler(request)

    return {"middlewares": (rewrite,)}


def by_connector(elsewhere):
    class Rewriting(aiohttp.TCPConnector):
        async def connect(self, req, *more, **named):
            req.url = elsewhere
            return await super().connect(req, *more, **named)

    return {"connector": Rewriting()}


def by_hiding_connector(elsewhere):
    class Hiding(aiohttp.TCPConnector):
        async def connect(self, req, *more, **named):
            shown, req.url = req.url, elsewhere
            try:
                return await super().connect(req, *more, **named)
            finally:
                req.url = shown

    return {"connector": Hiding()}


def by_subclass(elsewhere):
    class Rewriting(aiohttp.ClientRequest):
        async def send(self, conn):
            return await super().send(conn)

        def update_host(self, url):
            self.url = elsewhere
            super().update_host(elsewhere)

    return {"request_class": Rewriting}


WAYS = [by_middleware, by_connector, by_hiding_connector, by_subclass]


@pytest.mark.covers("CHT-25", "SEC-03")
@pytest.mark.parametrize("change", [lambda url: url.with_path("/other"), lambda url: url.with_query("a=b"), None])
@pytest.mark.parametrize("way", WAYS)
async def test_a_session_that_changes_the_address_sends_nothing(way, change):
    async with guarded() as (there, thief):
        target = URL(there.url)
        elsewhere = URL(thief.url) if change is None else change(target)
        if way is by_hiding_connector and change is not None:
            return  # the connection leads where it should
        async with aiohttp.ClientSession(**way(elsewhere)) as session:
            client = AsyncClient(there.url, auth=program(), network=Network(session=session))
            with pytest.raises(InsecureUrl, match="was changed on its way"):
                await asyncio.wait_for(client.start(), DEADLINE)
            await client.stop()
        assert not there.requests
        assert not thief.requests


@pytest.mark.covers("SEC-03")
async def test_a_bearer_that_was_had_is_not_sent_elsewhere_later():
    async with guarded() as (there, thief):
        rewrites = False

        async def rewrite(request, handler):
            if rewrites:
                request.url = URL(thief.url)
            return await handler(request)

        async with (
            aiohttp.ClientSession(middlewares=(rewrite,)) as session,
            AsyncClient(there.url, auth=program(), network=Network(session=session)) as client,
        ):
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
            rewrites = True
            with pytest.raises(InsecureUrl):
                await asyncio.wait_for(client.call_tool("add", {"a": 1, "b": 2}), DEADLINE)
            rewrites = False
        assert not thief.requests


@pytest.mark.covers("SEC-03")
@pytest.mark.parametrize("way", WAYS)
async def test_a_session_for_the_authorization_server_keeps_to_its_addresses_too(way):
    async with guarded() as (there, thief):
        auth = program(http_client_factory=lambda: aiohttp.ClientSession(**way(URL(thief.url))))
        client = AsyncClient(there.url, auth=auth)
        with pytest.raises(InsecureUrl, match="was changed on its way"):
            await asyncio.wait_for(client.start(), DEADLINE)
        await client.stop()
        assert not thief.requests


@pytest.mark.covers("CHT-01")
async def test_a_middleware_that_leaves_the_address_alone_may_change_the_rest():
    async def add_header(request, handler):
        request.headers["X-Trace"] = "abc"
        return await handler(request)

    async with guarded() as (there, _), aiohttp.ClientSession(middlewares=(add_header,)) as session:
        async with AsyncClient(there.url, auth=program(), network=Network(session=session)) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        posted = [headers for _, path, _, headers in there.requests if path == "/mcp"]
        assert posted
        assert all(headers["X-Trace"] == "abc" for headers in posted)


@pytest.mark.covers("CHT-01")
async def test_a_session_factory_serves_both_clients_and_its_sessions_are_closed():
    made = []

    def make():
        made.append(aiohttp.ClientSession(headers={"X-Mine": "yes"}))
        return made[-1]

    def use(url):
        with Client(url, auth=program(), network=Network(session_factory=make)) as client:
            return client.call_tool("add", {"a": 1, "b": 2}).text

    async with guarded() as (there, _):
        assert await asyncio.wait_for(asyncio.to_thread(use, there.url), DEADLINE) == "3"
        async with AsyncClient(there.url, auth=program(), network=Network(session_factory=make)) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        mine = {path for _, path, _, headers in there.requests if headers.get("X-Mine") == "yes"}
        assert mine == {"/mcp"}, "what is for the MCP server is not for the authorization server"
    assert len(made) == 2
    assert all(session.closed for session in made)


def test_a_network_has_one_way_to_its_session():
    with pytest.raises(ValueError, match="not both"):
        Network(session=object(), session_factory=object)


@pytest.mark.covers("CHT-21")
async def test_the_authorization_server_is_reached_by_the_clients_proxy():
    async def forward(request, writer):
        writer.write(reply(401 if request.verb == "POST" else 404))

    async with world() as there, answering(forward) as proxy:
        client = AsyncClient(there.url, auth=program(), network=Network(proxy=proxy.url))
        with pytest.raises(AuthError):
            await asyncio.wait_for(client.start(), DEADLINE)
        await client.stop()
    assert any(".well-known" in request.path for request in proxy.requests)
    assert not there.requests


async def test_the_authorization_server_is_trusted_by_the_clients_certificates(monkeypatch):
    seen = []
    request = aiohttp.ClientSession._request

    async def noting(self, method, url, **named):
        seen.append((str(url), named.get("ssl")))
        return await request(self, method, url, **named)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", noting)
    context = ssl.create_default_context()
    async with (
        guarded() as (there, _),
        AsyncClient(there.url, auth=program(), network=Network(ssl=context)) as client,
    ):
        await client.tools()
    assert any(url.startswith(there.issuer) for url, _ in seen)
    assert all(given is context for _, given in seen)
