"""What a checker knows of what the blocking and the asynchronous client give."""

from typing import Any, Literal, assert_type

from dragoman import AsyncClient, Client
from dragoman.client import AsyncBoundTool, BoundTool, CallResult
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
    with client as entered:
        assert_type(entered, Client)


async def asynchronous(client: AsyncClient) -> None:
    assert_type(await client.call_tool("add", {"a": 1}), CallResult[Any])
    assert_type(await client.tool("add"), AsyncBoundTool)
    async with client as entered:
        assert_type(entered, AsyncClient)
