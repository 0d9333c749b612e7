"""A `def` that has no task while its thread runs does what one does that a task awaits."""

import asyncio
import threading
from contextvars import ContextVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import BlockingContext, Configuration, Server, ToolError
from dragoman.server.duplex import DuplexConnection
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


async def heard(era, script, *, has_task):
    """Call a `def` for each entry of a script, all at once; return the messages of the server, and what it reported."""
    acts, reports = Acts(), []

    def report(error, info):
        reports.append((type(error).__name__, mark.get()))

    server = Server(configuration=Configuration(exception_reporter=report))

    @server.tool
    def act(what: str, ctx: BlockingContext):
        return getattr(acts, what)(ctx)

    mark.set("outer")
    async with WirePeer(server, era, capabilities={"elicitation": {"form": {}}}) as peer:
        peer._connection.resumes_handlers = not has_task
        ids = []
        for number, what in enumerate(script):
            params = {"name": "act", "arguments": {"what": what}, "_meta": {"progressToken": number}}
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


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@given(st.lists(st.sampled_from(ACTS), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_def_without_a_task_answers_like_one_that_a_task_awaits(era, script):
    def run(*, has_task):
        async def limited():
            async with asyncio.timeout(DEADLINE):
                return await heard(era, script, has_task=has_task)

        return asyncio.run(limited())

    assert run(has_task=False) == run(has_task=True)


def test_every_act_is_compared_and_the_connection_submits_thread_calls_by_default():
    assert len(ACTS) == 11
    assert DuplexConnection.resumes_handlers
