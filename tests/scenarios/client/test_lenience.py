"""Servers that are not quite right, and values that no server can be told."""

import logging

import pytest

from dragoman import AsyncClient, Client, Context, Server, ToolError, ValidationError
from dragoman.client import ServerNotification
from dragoman.errors import InvalidRequest, RpcError
from scenarios.scripted_server import ScriptedServer


@pytest.mark.parametrize("result", [{}, {"structuredContent": {"a": 1}}, {"isError": False, "_meta": {"x": 1}}])
async def test_a_result_without_content_is_read(era, result):
    server = ScriptedServer({"tools/call": result}, stateless=era == "stateless")
    async with AsyncClient(server, mode=era) as client:
        called = await client.call_tool("t")
    assert called.content == []
    assert called.structured == result.get("structuredContent")


async def test_an_error_without_content_says_that_the_tool_failed():
    async with AsyncClient(ScriptedServer({"tools/call": {"isError": True}})) as client:
        assert (await client.call_tool("t", raise_on_error=False)).is_error


async def test_content_that_is_no_list_is_still_refused():
    async with AsyncClient(ScriptedServer({"tools/call": {"content": 3}})) as client:
        with pytest.raises(ValidationError, match="cannot be read"):
            await client.call_tool("t")


async def test_an_id_that_is_echoed_as_text_matches():
    class Echoing(ScriptedServer):
        def answer(self, id, answer):
            super().answer(str(id), answer)

    async with AsyncClient(Echoing({"tools/call": {"content": []}}), mode="handshake", timeout=5) as client:
        assert (await client.call_tool("t")).content == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
async def test_arguments_that_are_no_numbers_are_refused_before_they_are_sent(number):
    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server) as client:
        with pytest.raises(ValidationError, match="no number"):
            await client.call_tool("t", {"points": [{"x": number}]})
        assert (await client.call_tool("t", {"points": [{"x": None}]})).content == []
    assert [params["arguments"] for params in server.sent("tools/call")] == [{"points": [{"x": None}]}]


async def test_a_sampling_handler_that_returns_false_rejects():
    server = ScriptedServer()
    message = {"role": "user", "content": {"type": "text", "text": "hi"}}
    async with AsyncClient(server, mode="handshake", on_sampling=lambda request: False):
        server.say("sampling/createMessage", {"messages": [message], "maxTokens": 5}, id="s")
        answer = await server.until(
            lambda: next((message for message in server.received if message.get("id") == "s"), None)
        )
    assert answer["error"] == {"code": -1, "message": "Sampling request was rejected"}


async def test_roots_that_were_not_declared_are_not_announced():
    undeclared, declared = ScriptedServer(), ScriptedServer()
    async with AsyncClient(undeclared, mode="handshake") as client:
        client.roots.add("/srv")
        await client.ping()
    async with AsyncClient(declared, mode="handshake", roots=["."]) as client:
        client.roots.add("/srv")
        await declared.until(lambda: declared.sent("notifications/roots/list_changed"))
    assert not undeclared.sent("notifications/roots/list_changed")


async def test_progress_is_among_all_notifications(era):
    server, heard = Server("counting"), []

    @server.tool
    async def count(*, ctx: Context) -> str:
        await ctx.report_progress(1, total=2, message="half")
        return "counted"

    async with AsyncClient(server, mode=era, on_notification=heard.append) as client:
        await client.call_tool("count", progress_token="p")
    params = {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
    assert ServerNotification("notifications/progress", params) in heard


def test_a_log_level_that_was_set_reaches_the_logger_without_a_handler(era, caplog):
    caplog.set_level(logging.DEBUG, logger="dragoman.client.server")
    server = Server("complaining")

    @server.tool
    async def complain(*, ctx: Context) -> str:
        await ctx.log("info", "smoke")
        return "complained"

    with Client(server, mode=era) as client:
        client.set_log_level("info")
        client.call_tool("complain")
    assert [record.getMessage() for record in caplog.records if record.name == "dragoman.client.server"] == ["smoke"]


# Servers whose tools can ask only in the handshake era.

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
