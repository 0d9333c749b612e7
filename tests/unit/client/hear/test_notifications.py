"""Notifications of a server: what reaches the callbacks, and logs."""

import asyncio
import logging

import pytest

from dragoman import AsyncClient, Context, Server
from dragoman.client import LogMessage, ServerNotification
from dragoman.client.hear.notifications import LEVELS, log_locally
from scenarios.http_peer import scenario
from scenarios.scripted_server import DEADLINE, ScriptedServer

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


@pytest.mark.covers("LNT-06")
@scenario
async def test_every_notification_can_be_heard():
    heard = []
    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server, on_notification=heard.append) as client:
        server.say("notifications/acme", {"a": 1})
        server.say("notifications/prompts/list_changed")
        await client.call_tool("t")
    assert heard == [
        ServerNotification("notifications/acme", {"a": 1}),
        ServerNotification("notifications/prompts/list_changed", {}),
    ]


@scenario
async def test_a_notification_that_cannot_be_read_is_a_warning(caplog):
    heard = []
    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server, on_log=heard.append) as client:
        server.say("notifications/message", {"level": "deafening", "data": 1})
        server.say("notifications/message", {"level": "error", "data": 2})
        await client.call_tool("t")
    assert [message.data for message in heard] == [2]
    assert "notifications/message of the server cannot be read" in caplog.text


@pytest.mark.covers("LNT-01", "LNT-02")
@ERAS
@scenario
async def test_log_messages_have_a_level_data_and_a_logger_and_start_at_the_level_that_was_asked_for(era):
    server, heard = Server("complaining"), []

    @server.tool
    async def complain(level: str, *, ctx: Context) -> str:
        await ctx.log(level, {"what": "smoke"}, logger="kitchen")
        return "complained"

    async with AsyncClient(server, mode=era, on_log=heard.append, log_level="error") as client:
        await client.call_tool("complain", {"level": "warning"})
        await client.call_tool("complain", {"level": "error"})
        await client.set_log_level("debug")
        await client.call_tool("complain", {"level": "debug"})
    assert heard == [
        LogMessage("error", {"what": "smoke"}, "kitchen"),
        LogMessage("debug", {"what": "smoke"}, "kitchen"),
    ]


@pytest.mark.covers("LML-03")
@scenario
async def test_the_level_is_asked_for_at_the_start_if_anybody_listens():
    listened, unheard = ScriptedServer(), ScriptedServer()
    async with AsyncClient(listened, on_log=print), AsyncClient(unheard):
        assert listened.sent("logging/setLevel") == [{"level": "warning"}]
        assert not unheard.sent("logging/setLevel")


@pytest.mark.covers("LNT-03", "LNT-04")
@scenario
async def test_without_a_handler_logs_go_to_a_logger_at_a_fitting_level(caplog):
    caplog.set_level(logging.DEBUG, logger="dragoman.client.server")
    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server) as client:
        for level in LEVELS:
            server.say("notifications/message", {"level": level, "data": level, "logger": "kitchen"})
        await client.call_tool("t")
    found = [(record.levelno, record.getMessage()) for record in caplog.records if record.name.endswith(".server")]
    assert found == [(number, f"kitchen: {level}") for level, number in LEVELS.items()]
    assert set(LEVELS.values()) == {10, 20, 30, 40, 50}


def test_a_log_message_without_a_logger_is_logged_plainly(caplog):
    asyncio.run(log_locally(LogMessage("warning", "smoke")))
    assert caplog.messages == ["smoke"]


@pytest.mark.covers("LNT-07", "LCAPS-03")
@scenario
async def test_a_request_that_the_server_takes_back_is_not_answered():
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def ask(request):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    server = ScriptedServer()
    async with AsyncClient(server, on_elicitation=ask):
        schema = {"type": "object", "properties": {}}
        server.say("elicitation/create", {"message": "?", "requestedSchema": schema}, id="q")
        await asyncio.wait_for(asked.wait(), DEADLINE)
        server.say("notifications/cancelled", {"requestId": "q"})
        await asyncio.wait_for(cancelled.wait(), DEADLINE)
        server.say("ping", id="p")
        server.say("acme/unknown", id="u")
        await server.until(lambda: any(message.get("id") == "u" for message in server.received))
    answers = {message["id"]: message for message in server.received if "method" not in message}
    assert "q" not in answers
    assert answers["p"]["result"] == {}
    assert answers["u"]["error"]["code"] == -32601
