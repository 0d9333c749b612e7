"""A handler that the connection resumes does what one does that a coroutine of the runner awaits."""

import asyncio
import threading
from contextvars import ContextVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import BlockingContext, Configuration, Context, Server, ToolError
from dragoman.testing import WirePeer

DEADLINE = 60
mark: ContextVar[str] = ContextVar("mark", default="unset")


class Shown:
    """A value whose text depends on the context in which it is made."""

    def __str__(self):
        return f"shown, {mark.get()}"


async def later():
    await asyncio.sleep(0)
    return mark.get()


class Acts:
    """What a `def` may do in its thread."""

    def __init__(self):
        self.is_released = threading.Event()

    def value(self, ctx):
        seen = mark.get()
        mark.set("changed")
        return seen

    def object(self, ctx):
        mark.set("changed")
        return [Shown()]

    def awaitable(self, ctx):
        return later()

    def refusal(self, ctx):
        raise ToolError("no")

    def fault(self, ctx):
        mark.set("changed")
        raise ValueError("secret")

    def cancellation(self, ctx):
        raise asyncio.CancelledError

    def stop(self, ctx):
        raise StopIteration

    def leaving(self, ctx):
        raise SystemExit

    def progress(self, ctx):
        ctx.report_progress(1, 2)
        return "reported"

    def question(self, ctx):
        return ctx.elicit("How many?", int).action

    def cancelled(self, ctx):
        assert self.is_released.wait(DEADLINE)
        return "late"


ACTS = [name for name in vars(Acts) if not name.startswith("_")]


async def act_in_loop(acts, what, ctx):
    """Do in a coroutine what `Acts` does in a thread."""
    if what == "question":
        return (await ctx.elicit("How many?", int)).action
    if what == "progress":
        await ctx.report_progress(1, 2)
        return "reported"
    if what == "cancelled":
        return await asyncio.Event().wait()
    return getattr(acts, what)(ctx)


async def heard(era, script, *, is_async, is_resumed):
    """Call a tool for each entry of a script, all at once; return the messages of the server, and what it reported."""
    acts, reports = Acts(), []

    def report(error, info):
        reports.append((type(error).__name__, mark.get()))

    server = Server(configuration=Configuration(exception_reporter=report))

    if is_async:

        @server.tool
        async def act(what: str, number: int, ctx: Context):
            if number % 2:
                await asyncio.sleep(0)
            return await act_in_loop(acts, what, ctx)

    else:

        @server.tool
        def act(what: str, number: int, ctx: BlockingContext):
            return getattr(acts, what)(ctx)

    mark.set("outer")
    async with WirePeer(server, era, capabilities={"elicitation": {"form": {}}}) as peer:
        assert len(peer._connection.resumed_handlers) == 2
        if not is_resumed:
            peer._connection.resumed_handlers = frozenset()
        ids = []
        for number, what in enumerate(script):
            params = {"name": "act", "arguments": {"what": what, "number": number}, "_meta": {"progressToken": number}}
            ids.append(peer.start("tools/call", params, id=f"call {number}"))
            if what == "cancelled":
                await asyncio.sleep(0)
                peer.notify("notifications/cancelled", {"requestId": ids[-1], "reason": "changed my mind"})
        if era == "handshake":
            for _ in range(script.count("question")):
                peer.answer((await peer.receive("elicitation/create"))["id"], {"action": "decline"})
        answered = [await peer.response(id) for id, what in zip(ids, script, strict=True) if what != "cancelled"]
        for answer in answered:
            answer["result"].pop("requestState", None)  # encrypted, and never the same
        acts.is_released.set()
        await peer.request("ping")
        return answered, sorted(map(repr, peer.received)), sorted(reports)


def compare(era, script, *, is_async):
    def run(*, is_resumed):
        async def limited():
            async with asyncio.timeout(DEADLINE):
                return await heard(era, script, is_async=is_async, is_resumed=is_resumed)

        return asyncio.run(limited())

    assert run(is_resumed=True) == run(is_resumed=False)


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@given(st.lists(st.sampled_from(ACTS), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_def_without_a_task_answers_like_one_that_a_task_awaits(era, script):
    compare(era, script, is_async=False)


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@given(st.lists(st.sampled_from(ACTS), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_an_async_def_answers_alike_whoever_awaits_it(era, script):
    compare(era, script, is_async=True)


def test_every_act_is_compared():
    assert len(ACTS) == 11
