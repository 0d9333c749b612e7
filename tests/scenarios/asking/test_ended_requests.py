"""A context whose request has ended: asking fails at once, and notifications are dropped with a line in the log."""

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from dragoman import AsyncClient, BlockingContext, Context, Server, types
from dragoman.stores import Memory
from scenarios import ended_server
from scenarios.raw_http import serving
from scenarios.task_peer import CARRIERS as TASK_CARRIERS
from scenarios.task_peer import FIRST, SECOND, task_peer

DEADLINE = 60
CAPABILITIES: types.Json = {"elicitation": {}, "sampling": {}, "roots": {}}
Call = Callable[..., Awaitable[str]]
ENDED = "DragomanError: The request has ended (tools/call)"


def ask(request: object) -> str:
    raise AssertionError(f"The client was asked {request!r}")


@contextlib.asynccontextmanager
async def by_client(target: object, mode: str) -> AsyncIterator[Call]:
    options = {"on_elicitation": ask, "on_sampling": ask, "roots": ["file:///home"], "on_log": lambda message: None}
    async with AsyncClient(target, mode=mode, on_progress=lambda *_: None, **options) as client:

        async def call(name: str, **arguments: str) -> str:
            return (await client.call_tool(name, arguments)).text

        yield call


@contextlib.asynccontextmanager
async def connected(carrier: str, mode: str, log: Path) -> AsyncIterator[Call]:
    async with contextlib.AsyncExitStack() as stack:
        if carrier == "stdio":
            yield await stack.enter_async_context(by_client([sys.executable, ended_server.__file__, str(log)], mode))
            return
        server, handler = ended_server.build(), logging.FileHandler(log)
        logging.getLogger("dragoman.server").addHandler(handler)
        stack.callback(handler.close)
        stack.callback(logging.getLogger("dragoman.server").removeHandler, handler)
        if carrier == "memory":
            yield await stack.enter_async_context(by_client(server, mode))
        else:
            url = await stack.enter_async_context(serving(server.asgi()))
            yield await stack.enter_async_context(by_client(url, mode))


EVERY_CARRIER = pytest.mark.parametrize("carrier", ["stdio", "memory", "http"])
EVERY_MODE = pytest.mark.parametrize("mode", ["handshake", "stateless"])


@EVERY_CARRIER
@EVERY_MODE
async def test_asking_on_an_ended_request_raises_at_once(carrier, mode, tmp_path):
    async with asyncio.timeout(DEADLINE), connected(carrier, mode, tmp_path / "log") as call:
        assert await call("keep") == "kept"
        assert await call("keep_blocking") == "kept"
        for what in ended_server.ASKED:
            assert (await call("ask_late", what=what)).startswith(ENDED)
            assert (await call("ask_late_blocking", what=what)).startswith(ENDED)


@EVERY_CARRIER
@EVERY_MODE
async def test_notifications_of_an_ended_request_are_dropped_with_one_log_line(carrier, mode, tmp_path):
    log = tmp_path / "log"
    async with asyncio.timeout(DEADLINE), connected(carrier, mode, log) as call:
        await call("keep")
        await call("keep_blocking")
        assert await call("report_late") == "reported"
        assert await call("report_late_blocking") == "reported"
    lines = [line for line in log.read_text().splitlines() if "was dropped" in line]
    expected = "Progress of tools/call {!r} (request {}) was dropped, because the request has ended"
    assert len(lines) == 2
    for line, name in zip(lines, ["keep", "keep_blocking"], strict=True):
        before, after = expected.format(name, "?").split("?")
        assert line.startswith(before)
        assert after in line


@pytest.mark.parametrize("version", [FIRST, SECOND])
@pytest.mark.parametrize("carrier", TASK_CARRIERS)
async def test_asking_after_the_run_of_a_task_raises(version, carrier):
    server = Server("ended", store=Memory(), secret="a secret of sixteen")
    contexts: list[Context] = []
    blocking_contexts: list[BlockingContext] = []

    @server.tool(name="async", task=True)
    async def keep(ctx: Context) -> str:
        contexts.append(ctx)
        return "kept"

    @server.tool(name="def", task=True)
    def keep_blocking(ctx: BlockingContext) -> str:
        blocking_contexts.append(ctx)
        return "kept"

    async with asyncio.timeout(DEADLINE), task_peer(server, version, carrier) as peer:
        for name in ("async", "def"):
            await peer.outcome((await peer.start(name))["taskId"])
        with pytest.raises(Exception, match="The request has ended"):
            await contexts[0].elicit("Which city?", str)
        with pytest.raises(Exception, match="The request has ended"):
            await asyncio.to_thread(blocking_contexts[0].elicit, "Which city?", str)


def test_blocking_context_of_an_ended_request_needs_no_loop():
    contexts: list[BlockingContext] = []

    def keep(ctx: BlockingContext) -> str:
        contexts.append(ctx)
        return "kept"

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "keep"}}
    asyncio.run(Server("ended", tools=[keep]).handle_async(message))  # the loop of the request is closed afterwards
    with pytest.raises(Exception, match="The request has ended"):
        contexts[0].elicit("Which city?", str)
    contexts[0].report_progress(1)
    contexts[0].close_stream()


@EVERY_MODE
async def test_background_thread_that_outlives_its_request_cannot_ask(mode):
    may_ask, failures = threading.Event(), []

    def tool(ctx: BlockingContext) -> str:
        def ask_later() -> None:
            may_ask.wait(DEADLINE)
            try:
                ctx.list_roots()
            except Exception as error:
                failures.append(str(error))

        thread.append(threading.Thread(target=ask_later, daemon=True))
        thread[0].start()
        return "done"

    thread: list[threading.Thread] = []
    async with asyncio.timeout(DEADLINE), by_client(Server("ended", tools=[tool]), mode) as call:
        assert await call("tool") == "done"
        may_ask.set()
        await asyncio.to_thread(thread[0].join, DEADLINE)
    assert [failure.startswith("The request has ended") for failure in failures] == [True]
