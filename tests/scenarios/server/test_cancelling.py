"""Requests that the client gives up: every kind of handler is told, and nothing more is sent for them."""

import asyncio
import json
import threading
from contextlib import suppress
from typing import Any

import pytest

from dragoman import BlockingContext, Cancelled, Context, Server, types
from dragoman.testing import WirePeer
from scenarios.wire import DEADLINE, encoded, introduction, request, text

ERAS = pytest.mark.parametrize("era", ["none", "2024-11-05", "handshake", "stateless"])
COMPLETE = {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "a", "value": ""}}
FILL = {"ref": {"type": "ref/resource", "uri": "template://{name}"}, "argument": {"name": "name", "value": ""}}
REQUESTS: dict[str, tuple[str, types.Json]] = {
    "tool": ("tools/call", {"name": "tool"}),
    "prompt": ("prompts/get", {"name": "prompt"}),
    "resource": ("resources/read", {"uri": "fixed://one"}),
    "template": ("resources/read", {"uri": "template://one"}),
    "completion of a prompt": ("completion/complete", COMPLETE),
    "completion by the server": ("completion/complete", FILL),
    "custom method": ("acme/work", {}),
    "list of resources": ("resources/list", {}),
    "reader of resources": ("resources/read", {"uri": "any://thing"}),
    "subscribe": ("resources/subscribe", {"uri": "fixed://one"}),
    "unsubscribe": ("resources/unsubscribe", {"uri": "fixed://one"}),
}
HANDSHAKE_ONLY = {"subscribe", "unsubscribe"}
HANDLERS = pytest.mark.parametrize(
    ("era", "handler"),
    [
        *(("handshake", handler) for handler in REQUESTS),
        *(("stateless", handler) for handler in REQUESTS if handler not in HANDSHAKE_ONLY),
    ],
)


def handlers(work: Any, kind: str) -> tuple[Any, Any]:
    """Return functions that do the work with their context, without and with a parameter `name`."""
    if kind == "async":

        async def handle(ctx: Context) -> Any:
            return await work(ctx)

        async def handle_name(name: str, ctx: Context) -> Any:
            return await work(ctx)

        return handle, handle_name

    def handle_blocking(ctx: BlockingContext) -> Any:
        return work(ctx)

    def handle_name_blocking(name: str, ctx: BlockingContext) -> Any:
        return work(ctx)

    return handle_blocking, handle_name_blocking


def served(handler: str, work: Any, kind: str) -> Server:
    """Return a server whose handlers do the work."""
    server = Server()
    handle, handle_name = handlers(work, kind)
    server.tool(name="tool")(handle)
    server.resource("fixed://one")(handle)
    server.resource("template://{name}")(handle_name)
    server.method("acme/work")(handle)
    for register in (server.on_complete, server.on_list_resources, server.on_subscribe, server.on_unsubscribe):
        register(handle)
    if handler == "reader of resources":
        server.on_read_resource(handle)
    if handler == "prompt":
        server.prompt(name="prompt")(handle)
    else:
        server.prompt(name="prompt")(lambda a="": a).complete("a")(handle)
    return server


async def nothing_was_answered(peer: WirePeer, id: Any) -> None:
    """See that nothing is sent for a request, and that its id is free again."""
    assert "result" in await peer.request("tools/list")
    assert peer.received == []
    assert "result" in await peer.request("tools/list", id=id)


# Asynchronous handlers are cancelled as tasks are.


@pytest.mark.covers("CAN-01", "CAN-03", "CAN-04", "BEY-11")
@HANDLERS
@pytest.mark.parametrize("end", ["is cancelled", "returns", "raises", "raises Cancelled"])
async def test_an_asynchronous_handler_is_cancelled_and_nothing_is_answered_however_it_ends(era, end, handler, caplog):
    started, ended = asyncio.Event(), asyncio.Event()
    seen: list[bool] = []

    async def work(ctx: Context) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(ctx.cancelled)
            if end == "returns":
                return None
            if end == "raises":
                raise LookupError("while being cancelled") from None
            if end == "raises Cancelled":
                ctx.raise_if_cancelled()
            raise
        finally:
            ended.set()

    async with WirePeer(served(handler, work, "async"), era) as peer:
        id = peer.start(*REQUESTS[handler])
        await asyncio.wait_for(started.wait(), DEADLINE)
        peer.notify("notifications/cancelled", {"requestId": id, "reason": "tired"})
        await asyncio.wait_for(ended.wait(), DEADLINE)
        await nothing_was_answered(peer, id)
    assert seen == [True]
    # What a handler raises of its own is still a failure that its author wants to know of.
    assert len(caplog.records) == (1 if end == "raises" else 0)


@pytest.mark.covers("CAN-03")
@ERAS
async def test_a_cancelled_handler_whose_inner_wait_is_shielded_ends_and_the_inner_work_goes_on(era):
    server = Server()
    started, ended, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def inner() -> str:
        await release.wait()
        finished.set()
        return "done"

    tasks: list[asyncio.Task[str]] = []

    @server.tool
    async def work() -> str:
        tasks.append(asyncio.ensure_future(inner()))
        started.set()
        try:
            return await asyncio.shield(tasks[0])
        finally:
            ended.set()

    async with WirePeer(server, era) as peer:
        id = peer.start("tools/call", {"name": "work"})
        await asyncio.wait_for(started.wait(), DEADLINE)
        peer.notify("notifications/cancelled", {"requestId": id})
        await asyncio.wait_for(ended.wait(), DEADLINE)
        await nothing_was_answered(peer, id)
        release.set()
        await asyncio.wait_for(finished.wait(), DEADLINE)
        assert await tasks[0] == "done"
        assert peer.received == []


# Blocking handlers are told, and decide themselves.


@pytest.mark.covers("CAN-01", "CAN-02", "CAN-03", "CAN-04", "BEY-11")
@HANDLERS
@pytest.mark.parametrize("end", ["returns", "raises Cancelled", "raises"])
async def test_a_blocking_handler_is_told_and_nothing_is_answered_however_it_ends(era, end, handler, caplog):
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    seen: list[Any] = []

    def work(ctx: BlockingContext) -> Any:
        seen.append(ctx.cancelled)
        started.set()
        assert go_on.wait(DEADLINE)
        seen.append(ctx.cancelled)
        try:
            if end == "raises":
                raise LookupError("after the cancellation")
            if end == "raises Cancelled":
                ctx.raise_if_cancelled()
        except Cancelled as cancelled:
            seen.append(str(cancelled))
            raise
        finally:
            ended.set()

    async with WirePeer(served(handler, work, "thread"), era) as peer:
        id = peer.start(*REQUESTS[handler])
        assert await asyncio.to_thread(started.wait, DEADLINE)
        peer.notify("notifications/cancelled", {"requestId": id})
        go_on.set()
        assert await asyncio.to_thread(ended.wait, DEADLINE)
        await nothing_was_answered(peer, id)
    assert seen[:2] == [False, True]
    assert seen[2:] == ([f"The client cancelled request {id}"] if end == "raises Cancelled" else [])
    assert caplog.records == []


@pytest.mark.covers("CAN-02")
@ERAS
async def test_who_is_not_cancelled_is_not_told_so(era):
    server = Server()

    @server.tool
    async def work(ctx: Context) -> bool:
        ctx.raise_if_cancelled()
        return ctx.cancelled

    async with WirePeer(server, era) as peer:
        response = await peer.request("tools/call", {"name": "work"})
        assert response["result"]["content"][0]["text"] == "false"


# What is sent for a cancelled request: nothing.


@pytest.mark.covers("CAN-03")
@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_progress_and_log_messages_after_the_cancellation_are_not_sent(era, kind):
    server = Server()
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    async def asynchronous(ctx: Context) -> None:
        await ctx.report_progress(1)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.report_progress(2)
            await ctx.emergency("too late")
            ended.set()

    def blocking(ctx: BlockingContext) -> None:
        ctx.report_progress(1)
        started.set()
        assert go_on.wait(DEADLINE)
        for tell in (lambda: ctx.report_progress(2), lambda: ctx.emergency("too late")):
            with suppress(Cancelled):
                tell()
        ended.set()

    server.tool(name="work")(asynchronous if kind == "async" else blocking)
    async with WirePeer(server, era) as peer:
        if era == "handshake":
            await peer.request("logging/setLevel", {"level": "debug"})
        meta = {"progressToken": "token", types.LOG_LEVEL: "debug"}
        id = peer.start("tools/call", {"name": "work", "_meta": meta})
        assert (await peer.receive())["params"]["progress"] == 1
        assert await asyncio.to_thread(started.wait, DEADLINE)
        peer.notify("notifications/cancelled", {"requestId": id})
        go_on.set()
        assert await asyncio.to_thread(ended.wait, DEADLINE)
        await nothing_was_answered(peer, id)


@pytest.mark.covers("CAN-08", "CAN-09", "CAN-11")
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_question_is_given_up_with_the_request_that_asked_it_and_its_late_answer_is_ignored(kind):
    server = Server()
    ended = threading.Event()
    raised: list[type[BaseException]] = []

    async def asynchronous(ctx: Context) -> None:
        try:
            await ctx.list_roots(timeout=DEADLINE)
        except BaseException as error:
            raised.append(type(error))
            raise
        finally:
            ended.set()

    def blocking(ctx: BlockingContext) -> None:
        try:
            ctx.list_roots(timeout=DEADLINE)
        except BaseException as error:
            raised.append(type(error))
            raise
        finally:
            ended.set()

    server.tool(name="work")(asynchronous if kind == "async" else blocking)
    async with WirePeer(server, capabilities={"roots": {}}) as peer:
        id = peer.start("tools/call", {"name": "work"})
        question = await peer.receive("roots/list")
        peer.notify("notifications/cancelled", {"requestId": id})
        assert await asyncio.to_thread(ended.wait, DEADLINE)
        assert (await peer.receive("notifications/cancelled"))["params"]["requestId"] == question["id"]
        peer.answer(question["id"], {"roots": []})
        await nothing_was_answered(peer, id)
    assert raised == [asyncio.CancelledError if kind == "async" else Cancelled]


@pytest.mark.covers("CAN-03")
@ERAS
async def test_only_the_request_that_is_named_is_cancelled(era):
    server = Server()
    started: asyncio.Queue[None] = asyncio.Queue()
    released = asyncio.Event()

    @server.tool
    async def work(number: int) -> int:
        started.put_nowait(None)
        await released.wait()
        return number

    async with WirePeer(server, era) as peer:
        for id in [100, "100", 101]:
            peer.start("tools/call", {"name": "work", "arguments": {"number": int(id)}}, id=id)
            await asyncio.wait_for(started.get(), DEADLINE)
        peer.notify("notifications/cancelled", {"requestId": "100"})
        released.set()
        assert text(await peer.response(100)) == "100"
        assert text(await peer.response(101)) == "101"
        await nothing_was_answered(peer, "100")


# What is ignored.


@pytest.mark.covers("CAN-06")
@pytest.mark.parametrize(
    "params",
    [
        {"requestId": 12345},
        {"requestId": "unknown"},
        {"requestId": 1},
        {"requestId": None},
        {"requestId": {}},
        {"requestId": 1.5},
        {"requestId": True},
        {"requestId": "held-not"},
        {"reason": "no id"},
        {"requestId": "held", "reason": 3},
        {},
        None,
    ],
    ids=repr,
)
@ERAS
async def test_cancelling_what_is_unknown_completed_or_malformed_is_ignored(era, params, caplog):
    server = Server()
    started, released = asyncio.Event(), asyncio.Event()

    @server.tool
    async def work() -> str:
        started.set()
        await released.wait()
        return "done"

    async with WirePeer(server, era) as peer:
        await peer.request("tools/list", id="completed")
        peer.start("tools/call", {"name": "work"}, id="held")
        await asyncio.wait_for(started.wait(), DEADLINE)
        peer.notify("notifications/cancelled", params)
        peer.notify("notifications/cancelled", {"requestId": "completed"})
        released.set()
        assert text(await peer.response("held")) == "done"
        assert peer.received == []
    assert caplog.records == []


@pytest.mark.covers("CAN-06")
@ERAS
async def test_a_second_cancellation_is_ignored(era):
    server = Server()
    started = asyncio.Event()
    interrupted: list[None] = []

    @server.tool
    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.append(None)
            for _ in range(5):
                await asyncio.sleep(0)
            raise

    async with WirePeer(server, era) as peer:
        id = peer.start("tools/call", {"name": "work"})
        await asyncio.wait_for(started.wait(), DEADLINE)
        for _ in range(3):
            peer.notify("notifications/cancelled", {"requestId": id})
        await peer.request("tools/list")
        await nothing_was_answered(peer, "other")
    assert len(interrupted) == 1


@pytest.mark.covers("CAN-01")
@pytest.mark.parametrize("cancel", ["in one go", "when it has ended"])
async def test_a_cancelled_call_that_never_waits_does_not_cancel_the_one_after_it(cancel):
    server = Server()
    released = asyncio.Event()
    sent: list[types.Json] = []

    @server.tool
    async def quick() -> str:
        return "quick"

    @server.tool
    async def patient() -> str:
        await released.wait()
        return "patient"

    def call(id: int, tool: str) -> bytes:
        return encoded(request("tools/call", {"name": tool}, id))

    cancelled = encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    connection = server.connect(lambda data: sent.append(json.loads(data)))
    if cancel == "in one go":
        connection.receive(call(1, "quick") + cancelled + call(2, "patient"))
    else:
        connection.receive(call(1, "quick") + call(2, "patient"))
        await asyncio.sleep(0)
        connection.receive(cancelled)
    for _ in range(5):
        await asyncio.sleep(0)
    released.set()
    await asyncio.wait_for(connection.drain(), DEADLINE)
    # If tasks start eagerly (Python 3.12), the first call has ended before it is cancelled.
    assert [message["id"] for message in sent] in ([2], [1, 2])
    assert sent[-1]["result"]["content"][0]["text"] == "patient"
    connection.close()


async def test_an_answer_that_comes_with_the_end_of_the_input_is_still_taken():
    server = Server()
    sent: list[types.Json] = []

    @server.tool
    async def quick() -> str:
        return "quick"

    @server.tool
    async def asks(ctx: Context) -> str:
        await ctx.ping()
        return "answered"

    connection = server.connect(lambda data: sent.append(json.loads(data)))
    connection.receive(encoded(request("initialize", introduction(), 0)))
    connection.receive(encoded(request("tools/call", {"name": "asks"}, 1)))
    for _ in range(3):
        await asyncio.sleep(0)
    connection.receive(encoded(request("tools/call", {"name": "quick"}, 2)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    connection.receive(encoded(request("tools/call", {"name": "quick"}, 3), answer))
    connection.receive_end()
    await asyncio.wait_for(connection.drain(), DEADLINE)
    answers = {one["id"]: text(one) for one in sent if one["id"] in (1, 2, 3) and "method" not in one}
    assert answers == {1: "answered", 2: "quick", 3: "quick"}
    connection.close()
