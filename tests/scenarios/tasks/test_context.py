"""What a tool knows of its call when it runs as a task."""

import asyncio
import json

import pytest

from dragoman import Context, Server, types
from dragoman.errors import DragomanError
from dragoman.stores import Memory
from scenarios.task_peer import FIRST, ID, SECOND, polled, task_peer


@pytest.fixture
def server():
    made = Server("tasks", store=Memory(), secret="a secret of sixteen", server_context="of the server")

    @made.tool(task=True)
    async def look(ctx: Context) -> str:
        try:
            state = type(ctx.session_state).__name__
        except DragomanError as error:
            state = str(error)
        return json.dumps([ctx.session_id is not None, ctx.server_context, state])

    return made


async def test_a_task_has_no_session_and_the_context_of_the_server(server):
    async with task_peer(server, FIRST, "http") as peer:
        plain = await peer.request("tools/call", name="look", arguments={})
        assert json.loads(plain["content"][0]["text"]) == [True, "of the server", "HandlerState"]
        outcome = await peer.outcome((await peer.start("look"))["taskId"])
        has_session, context, state = json.loads(outcome["result"]["content"][0]["text"])
        assert (has_session, context) == (False, "of the server")
        assert "use user_state" in state


def test_a_task_does_not_see_what_was_given_for_one_request(server):
    async def ask(method, extensions, **params):
        meta = {types.PROTOCOL_VERSION: SECOND, types.CLIENT_CAPABILITIES: {"extensions": extensions}}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return (await server.handle_async(message, "of this request"))["result"]

    async def look():
        plain = await ask("tools/call", {}, name="look", arguments={})
        assert json.loads(plain["content"][0]["text"])[1] == "of this request"
        task = await ask("tools/call", {ID: {}}, name="look", arguments={})
        ended = await polled(
            lambda: ask("tasks/get", {ID: {}}, taskId=task["taskId"]), lambda one: one["status"] == "completed"
        )
        assert json.loads(ended["result"]["content"][0]["text"])[1] == "of the server"

    asyncio.run(look())  # what runs the tasks ends with the event loop
