"""Clients that are let in: `Client(url, auth=...)` against a server that wants to know who it is."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from auth.visiting import person
from auth.world import world
from dragoman import AsyncClient, AsyncClients, AuthError, AuthRequired, Client, Server
from dragoman.auth import ClientCredentials, FileStorage

DEADLINE = 60
server = Server("sums")


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@asynccontextmanager
async def guarded(**settings):
    async with world(**settings) as there:
        there.inner = server.handle_json_async
        yield there


@pytest.mark.covers("OAU-37")
@pytest.mark.parametrize("mode", ["handshake", "stateless", "auto"])
async def test_connecting_leads_to_the_login_in_both_eras(mode):
    async with guarded() as there:
        browser, auth = person()
        async with AsyncClient(there.url, auth=auth, mode=mode) as client:
            results = await asyncio.gather(*(client.call_tool("add", {"a": 1, "b": n}) for n in range(10)))
            assert [result.text for result in results] == [str(1 + n) for n in range(10)]
            there.expire_everything()
            results = await asyncio.gather(*(client.call_tool("add", {"a": 2, "b": n}) for n in range(10)))
            assert [result.text for result in results] == [str(2 + n) for n in range(10)]
        assert len(browser.urls) == 1
        assert len(there.forms("refresh_token")) == 1


@pytest.mark.covers("OAU-37")
async def test_a_blocking_client_is_let_in_too(tmp_path):
    def use(url):
        browser, auth = person(storage=FileStorage(tmp_path))
        with Client(url, auth=auth) as client:
            return client.call_tool("add", {"a": 1, "b": 2}).text, len(browser.urls)

    async with guarded() as there:
        first = await asyncio.wait_for(asyncio.to_thread(use, there.url), DEADLINE)
        second = await asyncio.wait_for(asyncio.to_thread(use, there.url), DEADLINE)
        assert (first, second) == (("3", 1), ("3", 0))


@pytest.mark.covers("LCF-03")
async def test_several_servers_of_one_file_that_want_a_login_get_one_each():
    async with guarded() as first, guarded() as second:
        first.clients["one"], second.clients["two"] = {"client_secret": "s"}, {"client_secret": "s"}
        servers = {
            name: {
                "url": there.url,
                "oauth": {"grant_type": "client_credentials", "client_id": name, "client_secret": "s"},
            }
            for name, there in (("one", first), ("two", second))
        }
        async with AsyncClients.from_config({"mcpServers": servers}) as clients:
            assert not clients.errors
            for name in servers:
                assert (await clients[name].call_tool("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.covers("CCR-01")
async def test_a_program_calls_a_tool():
    async with guarded() as there:
        there.clients["reports"] = {"client_secret": "s"}
        async with AsyncClient(there.url, auth=ClientCredentials("reports", "s")) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.covers("OAU-30")
async def test_a_tool_that_needs_more_asks_the_person_again():
    async with guarded(challenge_scope="read") as there:
        browser, auth = person()
        async with AsyncClient(there.url, auth=auth) as client:
            await client.tools()
            there.settings.needed_scopes = frozenset({"write"})
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert browser.asked[-1]["scope"] == "read write"


@pytest.mark.covers("OAU-03")
async def test_a_client_that_is_not_let_in_says_so():
    async with guarded(refuses_always=True) as there:
        browser, auth = person()
        with pytest.raises(AuthRequired):
            async with AsyncClient(there.url, auth=auth) as client:
                await client.tools()
        assert 1 <= len(browser.urls) <= 2


async def test_a_login_that_fails_is_told_to_whoever_connects():
    async with guarded(iss="wrong") as there:
        _, auth = person()
        with pytest.raises(AuthError, match="it is not used"):
            async with AsyncClient(there.url, auth=auth) as client:
                await client.tools()
        assert there.count("/token") == 0
