"""Requests to a server over a connection in memory: one exchange for each, and what messages are made of."""

import asyncio
import json
from typing import Any

import pytest

from dragoman import Server, types
from dragoman.testing import WirePeer

DEADLINE = 60
HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
VERSIONS = [*HANDSHAKE_VERSIONS, "2026-07-28"]
EVERY_VERSION = pytest.mark.parametrize("version", VERSIONS)
EVERY_ERA = pytest.mark.parametrize("era", ["handshake", "stateless", "none"])
ENVELOPE = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
"""The `_meta` of a stateless request."""


def ask(server: Server, method: str, params: types.Json | None = None, era: str = "handshake") -> types.Json:
    """Return the response to one request of a new client, and see that nothing else was sent."""

    async def exchange() -> types.Json:
        async with asyncio.timeout(DEADLINE), WirePeer(server, era) as peer:
            response = await peer.request(method, params)
            assert peer.received == []
            return response

    return asyncio.run(exchange())


def call(server: Server, tool: str, /, era: str = "handshake", **arguments: Any) -> types.Json:
    """Return the response to one call of a tool."""
    return ask(server, "tools/call", {"name": tool, "arguments": arguments}, era)


def call_result(server: Server, tool: str, /, era: str = "handshake", **arguments: Any) -> types.Json:
    """Return the result of one call of a tool."""
    return call(server, tool, era, **arguments)["result"]


def text(answer: types.Json) -> str:
    """Return the text with which a call was answered, of the response or of its result."""
    assert "error" not in answer, answer
    return str(answer.get("result", answer)["content"][0]["text"])


def introduction(**changes: Any) -> types.Json:
    """Return the parameters of `initialize`; a change to `...` leaves one out."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
    return {name: value for name, value in {**params, **changes}.items() if value is not ...}


def request(method: str, params: types.Json | None = None, id: Any = 1) -> types.Json:
    """Return the message of a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def encoded(*messages: Any) -> bytes:
    """Return messages as the lines of a connection; bytes stay as they are."""
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in messages)
