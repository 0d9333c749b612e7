"""An extension of our client against servers that have it by the extension APIs of `mcp` and of fastmcp."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, Client, TransportError, types
from dragoman.client import ClientExtension, ExtendedRequest, ExtensionRow, Method
from interop.client.peers import reachable

ID = "com.example/quotes"
DEADLINE = 60.0
SERVERS = pytest.mark.parametrize("server", ["quotes of mcp", "quotes of fastmcp"])
TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])


class Quotes(ClientExtension):
    rows = (
        ExtensionRow(
            id=ID,
            methods=(Method(name="quotes/accept", result=types.CallToolResult, name_from="quoteId"),),
            result_types={"quote": ("tools/call",)},
        ),
    )

    async def finish(self, request: ExtendedRequest, result: types.Json) -> types.Json:
        return await request.send("quotes/accept", {"quoteId": result["quoteId"]})


@SERVERS
@TRANSPORTS
def test_an_extension_is_negotiated_and_its_result_is_finished(server: str, transport: str, tmp_path: Path) -> None:
    async def use(target: Any) -> None:
        async with asyncio.timeout(DEADLINE), AsyncClient(target, mode="stateless", extensions=[Quotes()]) as client:
            assert client.capabilities.extension(ID) == {"currencies": ["EUR"]}
            assert (await client.call_tool("buy")).text == "accepted q-buy"
        async with asyncio.timeout(DEADLINE), AsyncClient(target, mode="stateless") as client:
            assert (await client.call_tool("buy")).text == "bought without a quote"
        async with asyncio.timeout(DEADLINE), AsyncClient(target, mode="stateless", extensions={ID: {}}) as client:
            with pytest.raises(TransportError, match=f"unknown type 'quote'.*{ID}"):
                await client.call_tool("buy")

    with reachable(server, transport, tmp_path) as target:
        asyncio.run(use(target))


@SERVERS
def test_in_a_handshake_it_is_declared_and_its_method_is_served(server: str, tmp_path: Path) -> None:
    with (
        reachable(server, "stdio", tmp_path) as target,
        Client(target, mode="handshake", extensions=[Quotes()], timeout=DEADLINE) as client,
    ):
        assert client.call_tool("buy").text == "bought without a quote"
        accepted = client.request("quotes/accept", {"quoteId": "q-1"})
        assert accepted["content"][0]["text"] == "accepted q-1"
