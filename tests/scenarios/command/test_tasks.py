"""`dragoman tasks` and what `call` and `chat` show of a task, as real processes."""

import signal
import subprocess

import pytest

from chat.provider import Say
from faults.tasks.crew import until
from scenarios.command_line import (
    DEADLINE,
    chatted,
    chatting,
    dragoman,
    environment,
    serving,
    told,
    words,
    written,
)

KITCHEN = """
    import asyncio
    import sys
    from pathlib import Path
    from dragoman import Context, Server, ToolError
    from dragoman.server import TaskOptions

    server = Server("kitchen")
    TASK = TaskOptions(poll=0.05)

    async def tell(ctx, *messages):
        for number, message in enumerate(messages):
            await ctx.report_progress(number, len(messages), message)
            await asyncio.sleep(0.6)  # longer than the server waits between two status messages

    @server.tool(task=TASK, annotations={"readOnlyHint": True})
    async def brew(ctx: Context, what: str = "tea") -> str:
        await tell(ctx, "heating \\x1b[31mwater", "steeping")
        return f"{what} is ready"

    @server.tool(task=TASK)
    async def spill() -> str:
        raise ToolError("all over the floor")

    @server.tool
    def greet() -> str:
        return "hello"

    @server.tool(task=TASK, annotations={"readOnlyHint": True})
    async def forever(folder: str, ctx: Context) -> str:
        try:
            await tell(ctx, "beginning", "waiting")
            Path(folder, "began").touch()
            await asyncio.Event().wait()
        finally:
            Path(folder, "cancelled").touch()

    if __name__ == "__main__":
        server.run()
"""


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    """A server over HTTP: its URL, and the home of its users."""
    home = tmp_path_factory.mktemp("kitchen")
    with serving(written(home, KITCHEN, "kitchen.py"), home=home) as url:
        yield url, home


@pytest.fixture(params=["handshake", "stateless"])
def mode(request):
    return request.param


@pytest.mark.covers("CMD-40")
def test_a_task_is_started_shown_and_awaited_by_separate_commands(kitchen, mode):
    url, home = kitchen
    given = ["--mode", mode, "--json"]
    started = dragoman("tasks", "start", url, "brew", "what=coffee", *given, home=home)
    assert (started.code, started.err) == (0, "")
    assert started.json["status"] == "working"
    assert (started.json["ttlMs"], started.json["pollIntervalMs"]) == (3_600_000, 50)
    id = started.json["taskId"]
    shown = dragoman("tasks", "get", url, id, *given, home=home)
    assert shown.json["createdAt"] == started.json["createdAt"]
    ended = dragoman("tasks", "result", url, id, "--mode", mode, home=home)
    assert (ended.code, ended.out) == (0, "coffee is ready\n")
    assert "status: steeping" in ended.err.splitlines()
    line = dragoman("tasks", "get", url, id, "--mode", mode, home=home).out
    assert line.startswith(f"{id}  completed  20")


@pytest.mark.covers("CMD-40")
def test_a_task_is_cancelled_and_its_result_is_a_failure(kitchen, mode, tmp_path):
    url, home = kitchen
    given = ["--mode", mode, "--json"]
    id = dragoman("tasks", "start", url, "forever", f"folder={tmp_path}", *given, home=home).json["taskId"]
    until((tmp_path / "began").exists, "the tool has begun")
    cancelled = dragoman("tasks", "cancel", url, id, *given, home=home)
    assert (cancelled.code, cancelled.json["status"]) == (0, "cancelled")
    until((tmp_path / "cancelled").exists, "the tool is cancelled")
    lost = dragoman("tasks", "result", url, id, *given, home=home)
    assert (lost.code, lost.json["error"]["kind"]) == (1, "Cancelled")


@pytest.mark.covers("CMD-40")
def test_a_failed_tool_and_an_unknown_id_have_their_exit_codes(kitchen):
    url, home = kitchen
    id = dragoman("tasks", "start", url, "spill", "--json", home=home).json["taskId"]
    failed = dragoman("tasks", "result", url, id, home=home)
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.splitlines()[-1] == "dragoman: the tool failed: all over the floor"
    unknown = dragoman("tasks", "result", url, "nothing", "--json", home=home)
    assert (unknown.code, unknown.json["error"]["kind"]) == (4, "NotFound")
    assert dragoman("tasks", "get", url, "one", "two", home=home).code == 2


def test_a_tool_that_runs_without_a_task_has_its_result_shown_at_once(kitchen):
    url, home = kitchen
    answered = dragoman("tasks", "start", url, "greet", home=home)
    assert (answered.code, answered.out) == (0, "hello\n")


@pytest.mark.covers("CMD-40")
def test_tasks_are_listed_where_the_server_lists_them(tmp_path):
    script = written(tmp_path, KITCHEN, "kitchen.py")
    given = ["tasks", "list", script, "--mode", "handshake"]
    assert dragoman(*given, "--json", home=tmp_path).json == {"tasks": []}
    id = dragoman("tasks", "start", script, "spill", "--mode", "handshake", "--json", home=tmp_path).json["taskId"]
    assert [task["taskId"] for task in dragoman(*given, "--json", home=tmp_path).json["tasks"]] == [id]
    assert dragoman(*given, home=tmp_path).out.startswith(id)
    unlisted = dragoman("tasks", "list", script, "--mode", "stateless", home=tmp_path)
    assert (unlisted.code, unlisted.out) == (0, "")
    assert "do not list their tasks" in unlisted.err


@pytest.mark.covers("CMD-41")
def test_a_call_shows_what_its_task_does(kitchen, mode):
    url, home = kitchen
    called = dragoman("call", url, "brew", "--mode", mode, home=home)
    assert (called.code, called.out) == (0, "tea is ready\n")
    assert any(line.startswith("progress: ") and line.endswith("steeping") for line in called.err.splitlines())
    assert "\x1b" not in called.err


@pytest.mark.covers("CMD-41")
def test_an_interrupted_call_cancels_its_task(kitchen, mode, tmp_path):
    url, home = kitchen
    shown = tmp_path / "shown"
    with shown.open("wb") as errors:
        given = words("call", url, "forever", f"folder={tmp_path}", "--mode", mode)
        calling = subprocess.Popen(given, env=environment(home), stdout=subprocess.DEVNULL, stderr=errors)
    until(lambda: b"waiting" in shown.read_bytes(), "the call shows what its task does")
    calling.send_signal(signal.SIGINT)
    assert calling.wait(DEADLINE) == 130
    until((tmp_path / "cancelled").exists, "the tool is cancelled")


@pytest.mark.covers("CMD-41")
def test_a_chat_shows_what_a_task_does(kitchen):
    url, home = kitchen
    script = [Say(calls=[("1", "brew", "{}")]), Say("Here you are.")]
    answered, provider = chatted(script, url, "--trusted", url, input="Tea, please.", home=home)
    assert (answered.code, answered.out) == (0, "Here you are.\n")
    assert answered.err.splitlines()[0] == "  brew {}"
    assert "  … brew: steeping" in answered.err.splitlines()
    assert answered.err.splitlines()[-1] == "  = tea is ready"
    assert told(provider.asked[1]) == ["tea is ready"]


@pytest.mark.covers("CMD-41")
def test_an_interrupted_chat_cancels_the_task_and_goes_on(kitchen, tmp_path):
    url, home = kitchen
    call = ("1", "forever", f'{{"folder": "{tmp_path}"}}')
    with chatting([Say(calls=[call]), Say("Another time.")], url, "--trusted", url, home=home) as (chat, _):
        chat.answer("> ", "Wait for ever.\n")
        chat.until("forever: waiting")
        chat.interrupt()
        chat.until("(interrupted)")
        until((tmp_path / "cancelled").exists, "the tool is cancelled")
        chat.answer("> ", "And now?\n")
        chat.until("Another time.")
        chat.quit()
