"""Servers whose tools can ask only in the handshake era."""

import pytest

from dragoman import AsyncClient, ToolError
from dragoman.errors import InvalidRequest, RpcError
from scenarios.scripted_server import ScriptedServer

REFUSALS = [
    "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.",
    "Server-to-client requests are not available in this version",
]


def failing(text):
    return {"content": [{"type": "text", "text": text}], "isError": True}


@pytest.mark.parametrize("text", REFUSALS)
async def test_a_tool_that_fails_because_its_server_cannot_ask_advises_the_handshake(text):
    server = ScriptedServer({"tools/call": failing(text)}, stateless=True)
    async with AsyncClient(server) as client:
        with pytest.raises(ToolError, match='connect with mode="handshake"') as raised:
            await client.call_tool("t")
        assert str(raised.value).startswith(text)
        assert raised.value.result.text == text
    server = ScriptedServer({"tools/call": RpcError(-32600, text)}, stateless=True)
    async with AsyncClient(server) as client:
        with pytest.raises(InvalidRequest, match='connect with mode="handshake"'):
            await client.call_tool("t")


async def test_a_tool_that_asks_in_vain_and_fails_advises_the_handshake():
    server = ScriptedServer(stateless=True)

    def ask(params):
        server.say("elicitation/create", {"message": "?", "requestedSchema": {}}, id="q")
        return failing("The user cannot be asked")

    server.answers["tools/call"] = ask
    async with AsyncClient(server) as client:
        with pytest.raises(ToolError, match='mode="handshake"'):
            await client.call_tool("t")
        server.answers["tools/call"] = failing("No such city")
        with pytest.raises(ToolError, match=r"^No such city$"):
            await client.call_tool("t")


async def test_other_failures_and_the_handshake_era_get_no_such_advice():
    async with AsyncClient(ScriptedServer({"tools/call": failing(REFUSALS[0])})) as client:
        with pytest.raises(ToolError) as raised:
            await client.call_tool("t")
    assert "mode=" not in str(raised.value)
    async with AsyncClient(ScriptedServer({"tools/call": RpcError(-32602, "No")}, stateless=True)) as client:
        with pytest.raises(RpcError, match=r"^No$"):
            await client.call_tool("t")
