"""A stream says what its tools do while they run, as tasks and as plain calls; leaving it cancels the tasks."""

import asyncio
import threading

import pytest

from dragoman import AsyncChat, AsyncClient, Chat, Client, Context, Server
from dragoman.chat import ChatToolProgress
from dragoman.server import TaskOptions
from dragoman.stores import Memory
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import assert_valid, call

TASK = TaskOptions(poll=0.02)


class Bakery:
    """A server whose tools say what they do, and wait until that was heard."""

    def __init__(self) -> None:
        self.server = Server("bakery", store=Memory(), secret="a secret of sixteen")
        self.server.tool(self.bake, task=TASK)
        self.server.tool(self.slice)
        self.server.tool(self.rise, task=TASK)
        self.was_heard = asyncio.Event()
        self.was_cancelled = asyncio.Event()

    async def bake(self, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "in the oven")
        await self.was_heard.wait()
        return "bread"

    async def slice(self, ctx: Context) -> str:
        await ctx.report_progress(1, 4, "one slice")
        await self.was_heard.wait()
        return "slices"

    async def rise(self, ctx: Context) -> str:
        await ctx.report_progress(1, None, "rising")
        try:
            await asyncio.Event().wait()
        finally:
            self.was_cancelled.set()
        return ""


def messages(chunks):
    return {report.call.name: report.message for chunk in chunks for report in chunk.tool_progress}


@pytest.mark.covers("CHAT-32")
async def test_a_stream_tells_the_status_of_a_task_and_the_progress_of_a_call(era):
    bakery, chunks = Bakery(), []
    async with AsyncClient(bakery.server, mode=era, tasks=True) as client:
        model = ScriptedModel([call("bake"), call("slice")], "Enjoy.")
        async for chunk in AsyncChat(model).with_tools(client).stream("Bread, sliced."):
            chunks.append(chunk)
            if messages(chunks) == {"bake": "in the oven", "slice": "one slice"}:
                bakery.was_heard.set()
        results = [result.text for chunk in chunks for result in chunk.tool_results]
    assert results == ["bread", "slices"]
    sliced = next(one for chunk in chunks for one in chunk.tool_progress if one.call.name == "slice")
    assert sliced == ChatToolProgress(sliced.call, 1, 4, "one slice")


@pytest.mark.covers("CHAT-32")
async def test_the_progress_function_of_the_client_is_called_too(era):
    bakery, heard = Bakery(), []

    def on_progress(progress, total, message):
        heard.append(message)

    async with AsyncClient(bakery.server, mode=era, on_progress=on_progress) as client:
        chat = AsyncChat(ScriptedModel(call("slice"), "Enjoy.")).with_tools(client)
        async for chunk in chat.stream("Slices."):
            if chunk.tool_progress:
                bakery.was_heard.set()
    assert heard == ["one slice"]


@pytest.mark.covers("CHAT-32")
async def test_a_stream_that_is_left_cancels_the_task(era):
    bakery = Bakery()
    async with AsyncClient(bakery.server, mode=era, tasks=True) as client:
        chat = AsyncChat(ScriptedModel(call("rise"), "Later.")).with_tools(client)
        stream = chat.stream("Let it rise.")
        async for chunk in stream:
            if chunk.tool_progress:
                break
        await stream.aclose()
        async with asyncio.timeout(60):
            await bakery.was_cancelled.wait()
        assert_valid(chat.messages)
        assert chat.messages[-1].is_error


@pytest.mark.covers("CHAT-32")
def test_a_blocking_stream_tells_the_status_too_and_steps_need_none(era):
    server, was_heard, told = Server("kitchen", store=Memory(), secret="a secret of sixteen"), threading.Event(), []

    @server.tool(task=TASK)
    async def stir(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "stirring")
        await asyncio.to_thread(was_heard.wait, 20)
        return "stirred"

    with Client(server, mode=era, tasks=True) as client:
        chat = Chat(ScriptedModel(call("stir"), "Good.", call("stir"), "Good.")).with_tools(client)
        for chunk in chat.stream("Stir."):
            told += [report.message for report in chunk.tool_progress]
            if told:
                was_heard.set()
        assert told == ["stirring"]
        chat.step("Stir again.")
        assert [result.text for result in chat.step().tool_results] == ["stirred"]
