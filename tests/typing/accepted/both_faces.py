"""What a checker knows of what the blocking and the asynchronous client give."""

from typing import Any, Literal, assert_type

from dragoman import AsyncClient, Client, Clients
from dragoman.client import AsyncBoundTool, BoundPrompt, BoundTool, CallResult, GroupTool, Task
from dragoman.skills import BoundSkill
from dragoman.types import GetPromptResult


def blocking(client: Client) -> None:
    assert_type(client.call_tool("add", {"a": 1}), CallResult[Any])
    assert_type(client.tool("add"), BoundTool)
    assert_type(client.tool("add")(a=1), CallResult[Any])
    assert_type(client.tool("add").call({"a": 1}, timeout=3), CallResult[Any])
    assert_type(client.tools(), list[BoundTool])
    assert_type(client.resource("x").content(), str | bytes)
    assert_type(client.prompt("x").fetch(name="Jo"), GetPromptResult)
    assert_type(client.resource_template("x").fetch(id=3), str | bytes)
    assert_type(client.ping(), bool)
    assert_type(client.start_call("add").result(), CallResult[Any])
    assert_type(client.status, Literal["new", "connecting", "ready", "lost", "failed", "stopped"])
    assert_type(client.tools(refresh=True), list[BoundTool])
    assert_type(client.start(), Client)
    assert_type(client.start_tool("add", {"a": 1}, timeout=3), Task)
    assert_type(client.task("id", tool="add").refresh(), Task)
    assert_type(client.tasks.list(), list[Task])
    assert_type(client.skill("refunds").refresh(), BoundSkill)
    with client as entered:
        assert_type(entered, Client)


def many(clients: Clients) -> None:
    assert_type(clients.tools(["a*"], exclude="b", refresh=True), list[GroupTool])
    assert_type(clients.tool("add").qualified_name, str)
    assert_type(clients.prompts(), list[BoundPrompt])
    assert_type(clients.restart("a"), Clients)


async def asynchronous(client: AsyncClient) -> None:
    assert_type(await client.call_tool("add", {"a": 1}), CallResult[Any])
    assert_type(await client.tool("add"), AsyncBoundTool)
    async with client as entered:
        assert_type(entered, AsyncClient)
