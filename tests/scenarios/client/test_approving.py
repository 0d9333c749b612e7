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


def test_denied_call_is_an_error_result_if_errors_do_not_raise():
    def deny(call):
        call.deny("not today")

    with Client(deleting(), on_approval=deny) as client:
        for call in (client.call_tool, client.call_tool_unfinished):
            result = call("delete", {"path": "/a"}, raise_on_error=False)
            assert result.is_error
            assert result.text == "Tool call was cancelled by the client: not today"
        assert client.tool("delete").call({"path": "/a"}, raise_on_error=False).is_error
        assert client.call_tool("delete", {"path": "/a"}, raise_on_error=False, result_type=int).is_error
        with pytest.raises(ToolError, match="not today"):
            client.call_tool("delete", {"path": "/a"})


class Busy:
    """An async approval handler that records how many calls it decides at a time."""

    def __init__(self, together=1):
        self.paths, self.most, self._running, self._barrier = [], 0, 0, asyncio.Barrier(together)

    async def __call__(self, call):
        self.paths.append(call.arguments["path"])
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.wait_for(self._barrier.wait(), DEADLINE)
        self._running -= 1
        return True


@pytest.mark.parametrize("is_parallel", [False, True])
async def test_approvals_are_asked_one_at_a_time_unless_parallel(is_parallel):
    busy = Busy(3 if is_parallel else 1)
    async with AsyncClient(deleting(), on_approval=busy, parallel_approvals=is_parallel) as client:
        await asyncio.gather(*(client.call_tool("delete", {"path": path}) for path in "abc"))
    assert (busy.paths, busy.most) == (["a", "b", "c"], 3 if is_parallel else 1)


async def test_approval_timeout_begins_when_the_handler_is_called():
    asked = asyncio.Event()

    async def ask(call):
        asked.set()
        await asyncio.Event().wait()

    async with AsyncClient(deleting(), on_approval=ask, approval_timeout=0.5) as client:
        first, second = (asyncio.create_task(client.call_tool("delete", {"path": path})) for path in "ab")
        await asyncio.wait_for(asked.wait(), DEADLINE)
        begun = asyncio.get_running_loop().time()
        with pytest.raises(ToolError, match=r"nobody decided within 0\.5 seconds"):
            await asyncio.wait_for(first, DEADLINE)
        with pytest.raises(ToolError, match=r"nobody decided within 0\.5 seconds"):
            await asyncio.wait_for(second, DEADLINE)
        assert asyncio.get_running_loop().time() - begun > 0.9


async def test_plain_handler_that_hangs_does_not_hold_up_later_approvals():
    released = threading.Event()

    def ask(call):
        return released.wait(DEADLINE) if call.arguments["path"] == "a" else True

    try:
        async with AsyncClient(deleting(), on_approval=ask, approval_timeout=0.05) as client:
            with pytest.raises(ToolError, match="nobody decided"):
                await client.call_tool("delete", {"path": "a"})
            assert (await asyncio.wait_for(client.call_tool("delete", {"path": "b"}), DEADLINE)).text == "b is gone"
    finally:
        released.set()


async def test_handler_may_call_a_tool_that_needs_no_further_turn():
    other = deleting()

    async def ask(call):
        async with AsyncClient(other, on_approval=lambda call: True) as inner:
            return "gone" in (await inner.call_tool("delete", {"path": "log"})).text

    async with AsyncClient(deleting(), on_approval=ask) as client:
        assert (await asyncio.wait_for(client.call_tool("delete", {"path": "b"}), DEADLINE)).text == "b is gone"


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
