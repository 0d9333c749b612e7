"""Calls that wait for approval: listed, answered by their ids, and released when the client stops."""

import asyncio
import threading

import pytest

from dragoman import AsyncClient, Client, Server, ToolError
from scenarios.scripted_server import DEADLINE


def deleting():
    server = Server("files")

    @server.tool
    def delete(path: str) -> str:
        return f"{path} is gone"

    return server


class Asked:
    """A handler that leaves the decision to others, and can be waited for."""

    def __init__(self):
        self.condition = threading.Condition()
        self.calls = []

    def __call__(self, call):
        with self.condition:
            self.calls.append(call)
            self.condition.notify_all()
        return call

    def until(self, count):
        with self.condition:
            assert self.condition.wait_for(lambda: len(self.calls) == count, DEADLINE)


def test_calls_that_wait_are_listed_and_answered_by_their_ids():
    asked = Asked()
    with Client(deleting(), on_approval=asked) as client:
        first = client.start_call("delete", {"path": "/a"})
        asked.until(1)
        second = client.start_call("delete", {"path": "/b"})
        asked.until(2)
        assert [call.arguments["path"] for call in client.approvals] == ["/a", "/b"]
        ids = [call.id for call in client.approvals]
        assert client.approve(ids[0])
        assert client.deny(ids[1], "not /b")
        assert first.result(DEADLINE).text == "/a is gone"
        with pytest.raises(ToolError, match="not /b"):
            second.result(DEADLINE)
        assert client.approvals == []
        assert not client.approve(ids[0])
        assert not client.deny("unknown")


def test_stopping_releases_calls_that_wait_for_approval():
    asked = Asked()
    client = Client(deleting(), on_approval=asked).start()
    waiting = [client.start_call("delete", {"path": str(number)}) for number in range(3)]
    asked.until(3)
    client.stop()
    for call in waiting:
        with pytest.raises(ToolError, match="the client was stopped"):
            call.result(DEADLINE)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_stopping_releases_a_call_whose_handler_still_asks(kind):
    asked, released, closed = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    async def ask(call):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(call.name)

    def ask_plainly(call):
        loop.call_soon_threadsafe(asked.set)
        return released.wait(DEADLINE)

    client = AsyncClient(deleting(), on_approval=ask if kind == "async" else ask_plainly)
    await client.start()
    calling = asyncio.create_task(client.call_tool("delete", {"path": "/a"}))
    await asyncio.wait_for(asked.wait(), DEADLINE)
    await asyncio.wait_for(client.stop(), DEADLINE)
    with pytest.raises(ToolError, match="the client was stopped"):
        await asyncio.wait_for(calling, DEADLINE)
    released.set()
    await asyncio.sleep(0)
    assert closed == (["delete"] if kind == "async" else [])
