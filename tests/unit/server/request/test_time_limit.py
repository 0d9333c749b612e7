"""`timeout=` of a tool: plain calls on every carrier in both eras, tools in threads, and tasks."""

import asyncio
import math
import subprocess
import sys
import textwrap
import threading

import pytest

from dragoman import AsyncClient, BlockingContext, Context, DefinitionError, Elicit, InputRequired, Server, Tool
from dragoman.server import TaskOptions
from dragoman.stores import Memory
from scenarios.task_peer import CARRIERS, DECLARED, FIRST, SECOND, task_peer

SHORT = 0.05
STARTED = 0.5  # long enough for a thread to begin on a busy machine
LONG = 20
LATE = f"took longer than {SHORT:g} seconds"
EVERY_ERA = pytest.mark.parametrize("version", [FIRST, SECOND])
EVERY_CARRIER = pytest.mark.parametrize("carrier", CARRIERS)
PLAIN = {**DECLARED, "extensions": {}}


@pytest.fixture
def server():
    return Server("limits", store=Memory(), secret="a secret of sixteen")


def accepted(value):
    return {"action": "accept", "content": {"value": value}}


@EVERY_CARRIER
@EVERY_ERA
async def test_a_tool_that_takes_too_long_is_cancelled_and_the_model_reads_why(server, version, carrier):
    ended = []

    @server.tool(timeout=SHORT)
    async def slow(ctx: Context) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append((ctx.cancelled, ctx.cancel_reason))
        return ""

    @server.tool(timeout=LONG)
    async def quick() -> str:
        return "done"

    async with task_peer(server, version, carrier, PLAIN) as peer:
        result = await peer.request("tools/call", name="slow", arguments={})
        assert result["isError"] is True
        (block,) = result["content"]
        assert block["text"] == f"The tool 'slow' {LATE}; it may have done a part of its work"
        assert ended == [(True, block["text"])]
        result = await peer.request("tools/call", name="quick", arguments={})
        assert (result["content"][0]["text"], result.get("isError")) == ("done", None)


@EVERY_CARRIER
@EVERY_ERA
async def test_a_tool_in_a_thread_is_answered_for_and_its_context_is_cancelled(server, version, carrier):
    noticed = threading.Event()

    @server.tool(timeout=STARTED)
    def slow(ctx: BlockingContext) -> str:
        ctx.on_cancel(noticed.set)
        noticed.wait(LONG)
        return "too late"

    async with task_peer(server, version, carrier, PLAIN) as peer:
        result = await peer.request("tools/call", name="slow", arguments={})
        assert result["isError"] is True
        assert "took longer than 0.5 seconds" in result["content"][0]["text"]
        assert await asyncio.to_thread(noticed.wait, LONG)


async def test_the_time_in_which_questions_wait_does_not_count(server):
    @server.tool(timeout=0.3)
    async def book(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ctx.elicit(text, str)) for text in ("Where?", "When?")]
        return " ".join(one.result().content for one in asked)

    @server.tool(timeout=SHORT)
    async def ask_and_sleep(ctx: Context) -> str:
        await ctx.elicit("Where?", str)
        await asyncio.Event().wait()
        return ""

    async with task_peer(server, FIRST, capabilities=PLAIN) as peer:
        wire = peer.peer
        id = wire.start("tools/call", {"name": "book", "arguments": {}})
        for value in ("Oslo", "May"):
            asked = await wire.receive("elicitation/create")
            await asyncio.sleep(0.35)  # the time of a person
            wire.answer(asked["id"], accepted(value))
        assert (await wire.response(id))["result"]["content"][0]["text"] == "Oslo May"
        id = wire.start("tools/call", {"name": "ask_and_sleep", "arguments": {}})
        wire.answer((await wire.receive("elicitation/create"))["id"], accepted("Oslo"))
        assert LATE in (await wire.response(id))["result"]["content"][0]["text"]


async def test_a_blocking_tool_that_asks_when_its_time_is_over_gets_no_answer(server):
    outcome = asyncio.get_running_loop().create_future()

    @server.tool(timeout=STARTED)
    def book(ctx: BlockingContext) -> str:
        late = threading.Event()
        ctx.on_cancel(late.set)
        late.wait(LONG)
        try:
            ctx.elicit("Where?", str)
        except Exception as error:
            outcome.get_loop().call_soon_threadsafe(outcome.set_result, type(error).__name__)
        return ""

    async with task_peer(server, FIRST, capabilities=PLAIN) as peer:
        result = await peer.request("tools/call", name="book", arguments={})
        assert "took longer than 0.5 seconds" in result["content"][0]["text"]
        assert await asyncio.wait_for(outcome, LONG) == "Cancelled"
        assert [one for one in peer.peer.received if one.get("method")] == []


async def rounds(peer, tool):
    """Call a tool of 2026-07-28, and answer its questions until it has a result."""
    more = {}
    while True:
        result = await peer.request("tools/call", name=tool, arguments={}, **more)
        if result["resultType"] != "input_required":
            return result
        answers = {key: accepted("x") for key in result["inputRequests"]}
        more = {"inputResponses": answers, "requestState": result["requestState"]}


async def test_the_rounds_of_a_request_share_its_time(server):
    runs = []

    @server.tool(timeout=0.5)
    async def many(ctx: Context) -> str:
        runs.append(1)
        await asyncio.sleep(0.2)
        for number in range(9):
            await ctx.elicit(f"{number}?", str)
        return "all"

    @server.tool(timeout=0.5)
    async def explicit(ctx: Context) -> str | InputRequired:
        runs.append(1)
        await asyncio.sleep(0.2)
        return InputRequired({f"q{len(runs)}": Elicit("What?", str)}, state=len(runs))

    async with task_peer(server, SECOND, capabilities=PLAIN) as peer:
        for tool in ("many", "explicit"):
            runs.clear()
            result = await rounds(peer, tool)
            assert "took longer than 0.5 seconds" in result["content"][0]["text"]
            assert len(runs) == 3


async def test_a_tool_may_return_what_it_has_when_its_time_is_over(server):
    @server.tool(timeout=SHORT)
    async def partial() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "a part"
        return ""

    @server.tool(timeout=SHORT)
    async def breaking() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise KeyError("clean-up") from None
        return ""

    async with task_peer(server, FIRST, capabilities=PLAIN) as peer:
        result = await peer.request("tools/call", name="partial", arguments={})
        assert (result["content"][0]["text"], result.get("isError")) == ("a part", None)
        result = await peer.request("tools/call", name="breaking", arguments={})
        assert LATE in result["content"][0]["text"]


async def test_middleware_goes_on_after_a_tool_was_late_and_a_cancelled_call_is_not_late(server):
    seen, began = [], asyncio.Event()

    @server.middleware
    async def note(ctx, call_next):
        result = await call_next()
        await asyncio.sleep(0)
        seen.extend([True] if getattr(result, "is_error", None) else [])
        return result

    @server.tool(timeout=SHORT)
    async def slow() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(2 * SHORT)  # its time ends during the clean-up of a cancelled call
        return ""

    async with task_peer(server, FIRST, capabilities=PLAIN) as peer:
        assert LATE in (await peer.request("tools/call", name="slow", arguments={}))["content"][0]["text"]
        assert seen == [True]
        began.clear()
        id = peer.peer.start("tools/call", {"name": "slow", "arguments": {}})
        await began.wait()
        peer.peer.notify("notifications/cancelled", {"requestId": id})
        assert await peer.request("ping") == {}
    assert [one for one in peer.peer.received if one.get("id") == id] == []


@EVERY_CARRIER
@EVERY_ERA
async def test_a_late_tool_is_answered_if_middleware_runs_it_in_another_task(server, version, carrier):
    @server.middleware
    async def limit(ctx, call_next):
        return await asyncio.wait_for(call_next(), LONG)

    @server.tool(timeout=SHORT)
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    async with task_peer(server, version, carrier, PLAIN) as peer:
        assert LATE in (await peer.request("tools/call", name="slow", arguments={}))["content"][0]["text"]


@EVERY_ERA
async def test_middleware_may_run_a_late_tool_again_and_each_run_has_its_time(server, version):
    cancelled = []

    @server.middleware
    async def retry(ctx, call_next):
        result = await call_next()
        return await call_next() if getattr(result, "is_error", None) else result

    @server.tool(timeout=SHORT)
    async def second(ctx: Context) -> str:
        cancelled.append((ctx.cancelled, ctx.cancel_reason))
        if len(cancelled) == 1:
            await asyncio.Event().wait()
        ctx.raise_if_cancelled()
        return "the second run"

    @server.tool(timeout=SHORT)
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async with task_peer(server, version, capabilities=PLAIN) as peer:
        result = await peer.request("tools/call", name="second", arguments={})
        assert (result["content"][0]["text"], cancelled) == ("the second run", [(False, None), (False, None)])
        assert LATE in (await peer.request("tools/call", name="never", arguments={}))["content"][0]["text"]


@EVERY_ERA
async def test_a_late_tool_is_recorded_as_failed_and_not_as_cancelled(version):
    outcomes = []
    server = Server("limits", store=Memory(), secret="a secret of sixteen", audit=lambda one: outcomes.append(one))

    @server.tool(timeout=SHORT)
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    async with task_peer(server, version, capabilities=PLAIN) as peer:
        await peer.request("tools/call", name="slow", arguments={})
    assert [one["outcome"] for one in outcomes if one["method"] == "tools/call"] == ["tool_error"]


@EVERY_ERA
@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.covers("TKS-20")
async def test_a_task_that_runs_too_long_fails_and_says_so(server, version, kind):
    released = threading.Event()

    @server.tool(name="async", timeout=SHORT, task=True)
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    @server.tool(name="def", timeout=SHORT, task=True)
    def slow_blocking() -> str:
        released.wait(LONG)
        return ""

    async with task_peer(server, version) as peer:
        id = (await peer.start(kind))["taskId"]
        error = (await peer.outcome(id))["error"]
        assert error["code"] == -32603
        assert LATE in error["message"]
        assert (await peer.get(id))["status"] == "failed"
        released.set()


@pytest.mark.covers("TKS-20")
async def test_the_runs_of_a_task_share_its_time_and_waiting_for_people_is_free(server):
    runs = []

    @server.tool(timeout=0.5, task=TaskOptions(retry=True))
    async def many(questions: int, ctx: Context) -> str:
        runs.append(1)
        await asyncio.sleep(0.2)
        for number in range(questions):
            await ctx.elicit(f"{number}?", str)
        return "all"

    async with task_peer(server, SECOND) as peer:
        for questions, status in ((1, "completed"), (9, "failed")):
            runs.clear()
            id = (await peer.start("many", questions=questions))["taskId"]
            while (task := await peer.until(id, "input_required", "completed", "failed"))["status"] == "input_required":
                await asyncio.sleep(0.15)  # the time of a person
                answers = {key: accepted("x") for key in task["inputRequests"]}
                await peer.request("tasks/update", taskId=id, inputResponses=answers)
            assert (task["status"], len(runs)) == (status, 2 if status == "completed" else 3)


async def test_a_real_process_answers_for_a_tool_that_takes_too_long(tmp_path):
    program = tmp_path / "slow.py"
    program.write_text(
        textwrap.dedent("""
            import time
            from dragoman import Server

            server = Server("slow")

            @server.tool(timeout=0.05)
            def sleep() -> str:
                time.sleep(60)
                return ""

            server.run()
        """)
    )
    async with AsyncClient([sys.executable, str(program)]) as client:
        result = await client.call_tool("sleep", raise_on_error=False)
        assert result.is_error
        assert LATE in result.text


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "5"])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(server, value):
    with pytest.raises(DefinitionError, match="timeout of the tool 'tool' must be a number of seconds"):

        @server.tool(timeout=value)
        def tool() -> str:
            return ""


def test_an_inline_tool_has_no_timeout_and_a_class_may_have_one(server):
    with pytest.raises(DefinitionError, match="leave out inline or timeout"):

        @server.tool(timeout=1, inline=True)
        def quick() -> str:
            return ""

    class Slow(Tool):
        timeout = 2.5

        async def call(self) -> str:
            return ""

    server.add_tool(Slow)
    assert server.tools[0].timeout == 2.5


def test_a_server_without_timeouts_does_not_load_what_limits_time():
    program = """
        import sys
        from dragoman import Server

        server = Server("quick")

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b

        params = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answer = server.handle({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        assert answer["result"]["structuredContent"] == {"result": 3}
        print("dragoman.server.request.time_limit" in sys.modules)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
