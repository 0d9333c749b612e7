"""An extension of an author's own, as the documentation shows it: our client with it, and our server with it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman import AsyncClient, Client, RpcError, ToolError
from scenarios.extension.test_server import ID, MODULE, SOURCE, shown
from scenarios.http_crew import crew

RED = {"color": "red"}
MODES = ["stateless", "handshake"]
CARRIERS = ["memory", "stdio", "http"]
DEADLINE = 60


@contextlib.asynccontextmanager
async def target(carrier: str, tmp_path: Any) -> AsyncIterator[Any]:
    """Return where the server of the documentation is found: here, in a child, or in three workers."""
    if carrier == "memory":
        yield shown().server
    elif carrier == "stdio":
        (tmp_path / "quotes.py").write_text(SOURCE, encoding="utf-8")
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from quotes import server; server.run()"
        yield [sys.executable, "-W", "error", "-c", code]
    else:
        async with crew(3, MODULE) as processes:
            await processes.ready()
            yield processes.url


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_quote_is_accepted_and_the_call_ends_with_its_ordinary_result(carrier, mode, tmp_path):
    async with target(carrier, tmp_path) as server:
        buying = shown().Buying(20)
        async with AsyncClient(server, mode=mode, extensions=[buying]) as client:
            assert client.capabilities.extension(ID) == {"currency": "EUR"}
            assert (await client.tool("paint")).extension(ID).price == 12
            assert (await client.tool("raise_prices")).extension(ID) is None
            for _ in range(6):  # whichever worker answers
                assert (await client.call_tool("paint", RED)).text == "The house is red."
            assert (await client.request("quotes/get", {"tool": "paint"}))["price"] == 12


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("carrier", CARRIERS)
async def test_what_a_client_subscribed_to_is_heard_from_whichever_worker(carrier, mode, tmp_path):
    async with target(carrier, tmp_path) as server:
        buying = shown().Buying(20)
        async with AsyncClient(server, mode=mode, extensions=[buying]) as client:
            acknowledged = await client.listen(quoted_tools=["paint", "nothing"])
            await client.call_tool("raise_prices")
            if mode == "handshake":  # a notification about a subject goes to subscribers, which this era has not
                assert acknowledged.quoted_tools is None
                return
            assert acknowledged.quoted_tools == ["paint"]
            async with asyncio.timeout(DEADLINE):
                while not buying.changes:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert [(change["tool"], change["price"]) for change in buying.changes] == [("paint", 15)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("carrier", ["memory", "stdio"])
async def test_a_quote_that_is_too_dear_is_refused_by_the_extension(carrier, mode, tmp_path):
    async with (
        target(carrier, tmp_path) as server,
        AsyncClient(server, mode=mode, extensions=[shown().Buying(5)]) as client,
    ):
        with pytest.raises(ToolError, match="paint costs 12"):
            await client.call_tool("paint", RED)


@pytest.mark.parametrize("mode", MODES)
def test_the_blocking_client_has_it_too(mode):
    with Client(shown().server, mode=mode, extensions=[shown().Buying(20)]) as client:
        assert client.tool("paint").extension(ID).price == 12
        assert client.call_tool("paint", RED).text == "The house is red."


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("carrier", ["memory", "stdio"])
async def test_a_client_that_did_not_declare_it_is_told_what_to_declare(carrier, mode, tmp_path):
    async with target(carrier, tmp_path) as server, AsyncClient(server, mode=mode) as client:
        with pytest.raises(RpcError, match=ID) as refused:
            await client.request("quotes/get", {"tool": "paint"})
        assert refused.value.code == (-32021 if mode == "stateless" else -32603)
