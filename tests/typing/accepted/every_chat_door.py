"""Every door of a chat, and of what tests use."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import assert_type

from dragoman import AsyncChat, AsyncClient, Chat, Client, Server
from dragoman.chat import ChatToolResult, Delta, Media, Message, ModelOptions, Policy, Reply, Step, ToolCall, ToolSpec
from dragoman.client import Approval, Sampling
from dragoman.testing import ScriptedModel, WirePeer, check_transport, connected
from dragoman.types import TextContent


class Echo:
    name = "echo"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], options: ModelOptions
    ) -> AsyncIterator[Delta]:
        yield Delta(text=f"{messages[-1].text} {len(tools)} {options.max_tokens}")


async def approve(call: Approval) -> bool:
    return call.name != "delete"


def tell(result: ChatToolResult) -> None:
    print(result)


def careful(tool: object, arguments: dict[str, object]) -> bool:
    return "path" in arguments


def blocking(client: Client) -> None:
    chat = Chat(Echo(), temperature=0.5, policy=Policy(deny="*delete*", ask=[careful]), on_approval=approve)
    chat.on_tool_result = tell
    chat.on_tool_call = lambda call: print(call.name)
    assert_type(chat.with_tools(client), Chat)
    chat.with_resource(client.resource_template("logs"), {"date": "2026-07-28"}).with_resource(
        client.resource("readme")
    )
    chat.with_prompt(client.prompt("persona"), arguments={"name": "Jo"}).with_tools(
        *client.tools(), client.tool("forecast")
    )
    chat.with_resources(*client.resources()).with_model("openai:gpt-4.1", api_key="key").with_temperature(None)
    assert_type(chat.ask("Hello", attachments=[(b"png", "image/png"), Media("", "image/png"), TextContent("x")]), Reply)
    chat.ask_prompt(client.prompt("greet"), {"name": "Jo"})
    step: Step = chat.step("And now?")
    while not step.is_last:
        for pending in step.pending:
            chat.approve(pending)
        step = chat.step()
    assert_type(chat.sampler(guard=lambda request: len(request.text) < 10, preferred_model="gpt-4.1"), Sampling)
    client.on_sampling = chat.sampler(preferred_model=Echo())
    client.resource("readme").include(chat)
    for chunk in chat.stream("And tomorrow?", attachments=[Path("notes.txt")]):
        print(chunk.text)
    print(chat.usage.output_tokens, chat.messages[-1].tool_calls)
    calls: list[ToolCall] = chat.messages[-1].tool_calls
    print(calls)


async def asynchronous() -> None:
    model = ScriptedModel("Hello")
    async with AsyncClient(Server("here")) as client:
        chat = AsyncChat(model).with_tools(client, *await client.tools()).with_instructions("Be brief.")
        reply = await chat.ask("Hi")
        async for chunk in chat.stream("And tomorrow?", attachments="photo.png"):
            print(chunk.text, chunk.tool_calls, chunk.tool_results)
        print(str(reply), reply.tool_results, reply.messages)


__all__ = ["WirePeer", "check_transport", "connected"]

if __name__ == "__main__":
    with Client("server.py") as opened:
        blocking(opened)
    asyncio.run(asynchronous())
