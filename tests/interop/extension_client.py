"""A Python client of others uses a server's extension; run in the environment of the peers.

    python extension_client.py (mcp|fastmcp) (handshake|stateless) (stdio COMMAND [ARGUMENT ...] | http URL)

It prints one line of JSON: what the server declared, what became of the extension's method and of a tool that has a
price, and what became of both without the extension.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import anyio
import mcp_types
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim, advertise
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

ID = "com.example/quotes"
MODES = {"handshake": "legacy", "stateless": "auto"}
SECONDS = 30.0
COLOR = {"color": "red"}


class Quote(mcp_types.Result):
    model_config = ConfigDict(extra="allow")

    result_type: Literal["quote"] = "quote"
    tool: str
    price: int


class Named(mcp_types.Request[dict[str, Any], str]):
    name_param: ClassVar[str | None] = "name"


class GetQuote(mcp_types.Request[dict[str, Any], str]):
    name_param: ClassVar[str | None] = "tool"


class Anything(mcp_types.Result):
    model_config = ConfigDict(extra="allow")


class Quotes(ClientExtension):
    """Accepts every price."""

    identifier = ID

    def __init__(self) -> None:
        self.accepted: list[int] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="quote", model=Quote, resolve=self.accept)]

    async def accept(self, quote: Quote, context: ClaimContext) -> mcp_types.CallToolResult:
        self.accepted.append(quote.price)
        params = {"name": context.tool_name, "arguments": COLOR, "acceptedPrice": quote.price}
        return await context.session.send_request(Named(method="tools/call", params=params), mcp_types.CallToolResult)


def refused(error: MCPError) -> list[Any]:
    return [error.error.code, error.error.data]


def declared(client: Any) -> Any:
    return (
        client.server_capabilities.extensions
        if isinstance(client, Client)
        else client.session.server_capabilities.extensions
    )


async def quoted(client: Any) -> Any:
    request = GetQuote(method="quotes/get", params={"tool": "paint"})
    try:
        return (await client.session.send_request(request, Anything)).model_dump()["price"]
    except MCPError as error:
        return refused(error)


async def painted(client: Any) -> Any:
    try:
        options = {} if isinstance(client, Client) else {"raise_on_error": False}
        result = await client.call_tool("paint", COLOR, **options)
    except MCPError as error:
        return refused(error)
    return [result.is_error, result.content[0].text]


def client_of(library: str, era: str, transport: str, where: tuple[str, ...], extensions: list[Any]) -> Any:
    if library == "mcp":
        place: Any = where[0] if transport == "http" else StdioServerParameters(command=where[0], args=list(where[1:]))
        return Client(place, mode=MODES[era], read_timeout_seconds=SECONDS, extensions=extensions)
    import fastmcp
    from fastmcp.client.transports import StdioTransport

    place = where[0] if transport == "http" else StdioTransport(where[0], list(where[1:]))
    return fastmcp.Client(place, mode=MODES[era], timeout=SECONDS, extensions=extensions)


async def main(library: str, era: str, transport: str, *where: str) -> None:
    quotes = Quotes()
    # The client does not declare an extension with further results to a server of the handshake era.
    extension = quotes if era == "stateless" else advertise(ID)
    async with client_of(library, era, transport, where, [extension]) as client:
        saw = {"declared": declared(client), "quoted": await quoted(client)}
        if era == "stateless":
            saw |= {"painted": await painted(client), "accepted": quotes.accepted}
    async with client_of(library, era, transport, where, []) as client:
        saw["without"] = [await quoted(client), await painted(client)]
    sys.stdout.write(json.dumps(saw) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main, *sys.argv[1:])
