"""How long a client waits: silence, progress, questions of the server, and the whole of a call."""

import asyncio
import sys

import pytest

from dragoman import AsyncClient, Context, Server, ServerCrashed, Timeout
from dragoman.client.options import seconds
from dragoman.transports.process.process import GRACE_SECONDS
from scenarios.client_peer import NEWEST, STATELESS, Script, children, until

FORM = '{"message": "?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}'
HANDSHAKE = """
def answer(m):
    if m["method"] == "initialize": initialized(m, tools={})
    if m["method"] == "tools/call": call(m, m["params"]["_meta"]["progressToken"])
def progress(token, n): tell({"jsonrpc": "2.0", "method": "notifications/progress",
                              "params": {"progressToken": token, "progress": n, "total": 9, "message": "on"}})
"""


def handshaking(tmp_path, call: str) -> Script:
    return Script(tmp_path, f"{HANDSHAKE}{call}")


@pytest.mark.covers("CTM-01")
async def test_progress_starts_the_time_out_again(tmp_path):
    script = handshaking(
        tmp_path, "def call(m, t):\n    for n in range(8): time.sleep(0.15); progress(t, n)\n    text(m, 'ok')"
    )
    seen = []
    async with AsyncClient(script.command, mode="handshake") as client:
        call = client.call_tool("x", timeout=1, on_progress=lambda *told: seen.append(told))
        assert (await call).text == "ok"
        assert seen == [(n, 9, "on") for n in range(8)]


@pytest.mark.covers("CTM-01")
async def test_silence_after_progress_is_a_time_out(tmp_path):
    script = handshaking(tmp_path, "def call(m, t):\n    for n in range(3): progress(t, n)")
    async with AsyncClient(script.command, mode="handshake", timeout=0.3) as client:
        with pytest.raises(Timeout, match=r"the server was silent for 0\.3 seconds") as caught:
            await client.call_tool("x")
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.request_id == script.received[-1]["id"] or await script.until_received(
            "notifications/cancelled"
        )


@pytest.mark.covers("CTM-02")
async def test_the_clock_stands_still_while_the_server_waits_for_an_answer_of_ours(tmp_path):
    call = f"""
def call(m, t): CALLS.append(m); tell({{"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {FORM}}})
CALLS = []
was = answer
def answer(m): text(CALLS[0], str(m["result"]["content"]["n"])) if m.get("id") == "q" else was(m)
"""
    script = handshaking(tmp_path, call)

    async def ask(request):
        await asyncio.sleep(1.5)
        return {"n": 5}

    async with AsyncClient(script.command, mode="handshake", on_elicitation=ask) as client:
        assert (await client.call_tool("x", timeout=0.7)).text == "5"


@pytest.mark.covers("CTM-02")
async def test_the_clock_counts_again_after_our_answer(tmp_path):
    call = f"""
def call(m, t): tell({{"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {FORM}}})
"""
    answered = asyncio.Event()

    async def ask(request):
        await asyncio.sleep(0.5)
        answered.set()
        return {"n": 5}

    script = handshaking(tmp_path, call)
    async with AsyncClient(script.command, mode="handshake", on_elicitation=ask) as client:
        with pytest.raises(Timeout):
            await client.call_tool("x", timeout=0.2)
        assert answered.is_set()


@pytest.mark.covers("CTM-03")
async def test_progress_does_not_start_the_total_time_out_again(tmp_path):
    script = handshaking(tmp_path, "def call(m, t):\n    for n in range(100): time.sleep(0.05); progress(t, n)")
    async with AsyncClient(script.command, mode="handshake") as client:
        with pytest.raises(Timeout, match=r"not answered within 0\.4 seconds") as caught:
            await client.call_tool("x", total_timeout=0.4)
        assert caught.value.request_id == (await script.until_received("tools/call"))["id"]


@pytest.mark.covers("CTM-03")
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_the_total_time_is_that_of_all_rounds_and_of_the_answers_to_them(mode):
    server = Server("asker")
    asked = []

    @server.tool
    async def ask(ctx: Context) -> str:
        for n in range(9):
            await ctx.elicit(f"{n}?", {"type": "object", "properties": {"n": {"type": "integer"}}})
        return "done"

    async def slowly(request):
        asked.append(request)
        await asyncio.sleep(0.15)
        return {"n": 1}

    async with AsyncClient(server, mode=mode, on_elicitation=slowly, total_timeout=0.4, timeout=0.3) as client:
        with pytest.raises(Timeout, match=r"within 0\.4 seconds"):
            await client.call_tool("ask")
        assert 1 <= len(asked) <= 4
        assert (await client.call_tool("ask", total_timeout=30)).text == "done"


@pytest.mark.covers("CTM-03")
async def test_the_total_time_is_also_that_of_connecting(tmp_path):
    script = Script(tmp_path, "def answer(m): pass")
    client = AsyncClient(script.command, mode="handshake", total_timeout=0.3)
    with pytest.raises(Timeout, match="tools/call timed out"):
        await client.request("tools/call")
    await client.stop()


STUBBORN = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"]
"""A server that does not answer, and does not end when its stdin is closed."""


async def test_connect_timeout_does_not_include_the_end_of_the_child():
    loop, others = asyncio.get_running_loop(), children()
    client, began = AsyncClient(STUBBORN, connect_timeout=1), loop.time()
    with pytest.raises(Timeout, match="within 1 seconds"):
        await client.start()
    assert loop.time() - began < 1 + GRACE_SECONDS
    assert children() != others, "the child ends in the background"
    await client.stop()
    assert children() == others


async def test_next_attempt_waits_for_the_child_of_the_last_one(tmp_path):
    script = Script(tmp_path, "def answer(m): time.sleep(600)")
    client = AsyncClient(script.command, connect_timeout=1)
    with pytest.raises(Timeout):
        await client.start()
    with pytest.raises(Timeout):
        await client.start()
    await client.stop()
    assert len(script.pids) == 1  # the first child took longer to end than the second attempt lasted


def test_child_of_a_timed_out_attempt_ends_with_the_loop():
    async def connect() -> None:
        await AsyncClient(STUBBORN, connect_timeout=1).start()

    before = children()
    with pytest.raises(Timeout):
        asyncio.run(connect())
    assert children() == before


@pytest.mark.covers("CTM-05")
async def test_the_environment_says_how_long_to_wait(tmp_path, monkeypatch):
    script = handshaking(tmp_path, "def call(m, t): pass")
    monkeypatch.setenv("DRAGOMAN_TIMEOUT", "0.2")
    async with AsyncClient(script.command, mode="handshake") as client:
        with pytest.raises(Timeout, match=r"for 0\.2 seconds"):
            await client.call_tool("x")
        with pytest.raises(Timeout, match=r"for 0\.1 seconds"):
            await client.call_tool("x", timeout=0.1)
    async with AsyncClient(script.command, mode="handshake", timeout=0.3) as client:
        with pytest.raises(Timeout, match=r"for 0\.3 seconds"):
            await client.call_tool("x")


@pytest.mark.covers("CTM-05")
@pytest.mark.parametrize(("given", "text"), [(0, None), (-1, None), (None, "soon"), (None, "0")])
def test_a_time_that_is_none_is_refused(monkeypatch, given, text):
    if text is not None:
        monkeypatch.setenv("SOME_SECONDS", text)
    with pytest.raises(ValueError, match="seconds"):
        seconds(given, "SOME_SECONDS", 60)


@pytest.mark.covers("CCN-01", "CCN-04", "BEY-11")
@pytest.mark.parametrize("version", [NEWEST, STATELESS])
async def test_a_cancelled_task_cancels_its_request_and_the_late_answer_is_ignored(tmp_path, version):
    code = f"""
def answer(m):
    if m["method"] == "server/discover": discovered(m, "{STATELESS}", tools={{}})
    if m["method"] == "initialize": initialized(m, tools={{}})
    if m["method"] == "tools/call" and m["params"]["name"] == "quick": text(m, "quick")
    if m["method"] == "notifications/cancelled": text({{"id": m["params"]["requestId"]}}, "too late")
"""
    script = Script(tmp_path, code)
    async with AsyncClient(script.command, protocol_version=version) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        sent = await script.until_received("tools/call")
        call.cancel()
        notice = await script.until_received("notifications/cancelled")
        assert notice["params"]["requestId"] == sent["id"]
        await asyncio.wait([call])
        assert call.cancelled()
        assert [(await client.call_tool("quick")).text for _ in range(3)] == ["quick"] * 3
        assert script.methods.count("notifications/cancelled") == 1


@pytest.mark.covers("CCN-04")
async def test_a_call_that_was_answered_is_not_cancelled(tmp_path):
    script = handshaking(tmp_path, "def call(m, t): text(m, 'ok')")
    async with AsyncClient(script.command, mode="handshake", timeout=5) as client:
        for _ in range(20):
            await client.call_tool("x")
    assert "notifications/cancelled" not in script.methods


@pytest.mark.covers("CTM-06")
async def test_a_server_that_dies_fails_all_that_wait_at_once_with_its_last_words(tmp_path):
    call = """
def call(m, t):
    if m["params"]["arguments"]["n"] == 29: sys.stderr.write("Segmentation fault"); sys.stderr.flush(); os._exit(139)
"""
    script = handshaking(tmp_path, call)
    async with AsyncClient(script.command, mode="handshake", timeout=600) as client:
        calls = (client.call_tool("x", {"n": n}) for n in range(30))
        errors = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
        assert {type(error) for error in errors} == {ServerCrashed}
        assert all("Segmentation fault" in str(error) and error.exit_code == 139 for error in errors)
        assert client.status == "lost"


@pytest.mark.covers("LNT-05")
async def test_a_call_may_choose_its_progress_token_again_and_again(tmp_path):
    script = handshaking(tmp_path, "def call(m, t): progress(t, 1); text(m, str(t))")
    seen = []
    async with AsyncClient(script.command, mode="handshake", on_progress=lambda *told: seen.append(told)) as client:
        for token in ("job", 1, "job", 2):
            assert (await client.call_tool("x", progress_token=token)).text == str(token)
    ids = [m["id"] for m in script.received if "id" in m]
    assert len(set(ids)) == len(ids)
    assert len(seen) == 4


@pytest.mark.covers("LNT-05")
async def test_two_calls_at_a_time_cannot_share_a_progress_token(tmp_path):
    script = handshaking(tmp_path, "def call(m, t): pass")
    async with AsyncClient(script.command, mode="handshake") as client:
        first = asyncio.create_task(client.call_tool("x", progress_token="job"))
        await script.until_received("tools/call")
        with pytest.raises(ValueError, match="in use"):
            await client.call_tool("x", progress_token="job")
        first.cancel()
        await asyncio.wait([first])
        await until(lambda: "notifications/cancelled" in script.methods)
