"""Clients whose server dies, hangs, talks nonsense or does not come back; and clients that are stopped midway."""

import asyncio
import os
import signal

import pytest

from dragoman import AsyncClient, ServerCrashed, Timeout, TransportError
from dragoman.client.connect import reconnect
from scenarios.client_peer import NEWEST, STATELESS, Script, scenario, until

# Calls of `hang` are not answered by the first process; what else is asked is, at once.
SERVER = """
TOOLS = [{"name": name, "inputSchema": {"type": "object"}, "annotations": hints} for name, hints in [
    ("write", {}), ("look", {"readOnlyHint": True}), ("put", {"idempotentHint": True}),
]]
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "completions": {},
                "logging": {}}
def answer(m):
    hangs = SPAWNS == 1 and (m.get("params") or {}).get("_meta", {}).get("hang")
    if m["method"] == "server/discover": discovered(m, "2026-07-28", **CAPABILITIES) if STATELESS else error(m, -32601)
    elif m["method"] == "initialize": initialized(m, **CAPABILITIES)
    elif "id" not in m or hangs or m["method"] == "subscriptions/listen": pass
    elif m["method"] == "tools/list": result(m, {"tools": TOOLS})
    elif m["method"] == "tools/call": text(m, f"{m['params']['name']} in life {SPAWNS}")
    elif m["method"] == "resources/read": result(m, {"contents": []})
    elif m["method"] == "prompts/get": result(m, {"messages": []})
    elif m["method"] == "completion/complete": result(m, {"completion": {"values": []}})
    else: result(m, {})
"""
ERAS = pytest.mark.parametrize("stateless", [False, True], ids=["handshake", "stateless"])
HANG = {"hang": True}


def served(tmp_path, *, stateless: bool) -> Script:
    return Script(tmp_path, f"STATELESS = {stateless}\n{SERVER}")


def kill(script: Script) -> None:
    os.kill(script.pids[-1], signal.SIGKILL)


async def outcomes(*calls):
    return await asyncio.gather(*calls, return_exceptions=True)


@pytest.fixture
def brisk(monkeypatch):
    monkeypatch.setattr(reconnect, "FIRST_PAUSE", 0.001)


@pytest.mark.covers("HEAL-01")
@ERAS
@scenario
async def test_a_server_that_was_killed_between_calls_is_started_again_by_the_next(tmp_path, stateless):
    script, again = served(tmp_path, stateless=stateless), []
    async with AsyncClient(script.command, on_reconnect=lambda: again.append(1)) as client:
        assert (await client.call_tool("write")).text == "write in life 1"
        kill(script)
        await until(lambda: client.status == "lost")
        assert not client.alive
        assert (await client.call_tool("write")).text == "write in life 2"
        assert (client.status, client.alive) == ("ready", True)
        assert again == [1]
        assert len(script.pids) == 2


@pytest.mark.covers("HEAL-02", "HEAL-03")
@ERAS
@scenario
async def test_fifty_calls_in_flight_are_met_by_one_new_connection_and_none_runs_twice_that_must_not(
    tmp_path, stateless
):
    script, again = served(tmp_path, stateless=stateless), []
    async with AsyncClient(script.command, trusted=True, on_reconnect=lambda: again.append(1)) as client:
        await client.tools(refresh=True)
        unsafe = [client.call_tool("write", {"n": n}, meta=HANG) for n in range(25)]
        safe = [client.call_tool(name, {"n": n}, meta=HANG) for n in range(10) for name in ("look", "put")]
        safe += [client.call_tool("write", {"n": 100 + n}, meta=HANG, idempotent=True) for n in range(5)]
        before = script.methods.count("tools/call")
        calls = asyncio.create_task(outcomes(*unsafe, *safe))
        await until(lambda: script.methods.count("tools/call") == before + 50)
        kill(script)
        results = await calls
        assert [result.text for result in results[25:]] == [
            *["look in life 2", "put in life 2"] * 10,
            *["write in life 2"] * 5,
        ]
        for error in results[:25]:
            assert isinstance(error, ServerCrashed)
            assert str(error).count("may have been served, and was not repeated") == 1
            assert error.exit_code == -signal.SIGKILL
        assert len({id(error) for error in results[:25]}) == 25
        assert len(script.pids) == 2
        assert again == [1]
    ran = [m["params"]["arguments"]["n"] for m in script.received if m["method"] == "tools/call"]
    assert [ran.count(n) for n in range(10, 25)] == [1] * 15
    assert [ran.count(100 + n) for n in range(5)] == [2] * 5


@pytest.mark.covers("HEAL-03")
@scenario
async def test_what_reads_is_repeated_without_being_told(tmp_path):
    script = served(tmp_path, stateless=False)
    async with AsyncClient(script.command, meta=HANG, mode="handshake") as client:
        reads = [
            client.list_tools(),
            client.read_resource("file:///a"),
            client.get_prompt("p"),
            client.complete({"type": "ref/prompt", "name": "p"}, "a", ""),
            client.ping(),
        ]
        calls = asyncio.create_task(outcomes(*reads))
        await until(lambda: len(script.received) >= 7)
        kill(script)
        assert not [result for result in await calls if isinstance(result, BaseException)]
        assert len(script.pids) == 2


@pytest.mark.covers("HEAL-03")
@scenario
async def test_hints_of_a_server_that_is_not_trusted_do_not_let_a_call_run_twice(tmp_path):
    script = served(tmp_path, stateless=False)
    async with AsyncClient(script.command) as client:
        await client.tools()
        call = asyncio.create_task(
            outcomes(client.call_tool("look", meta=HANG), client.request("x/y", {"_meta": HANG}))
        )
        await script.until_received("x/y")
        kill(script)
        assert all(isinstance(error, ServerCrashed) for error in await call)
        assert script.methods.count("tools/call") == 1


@pytest.mark.covers("HEAL-04")
@scenario
async def test_a_server_that_keeps_dying_is_tried_a_few_times_and_a_later_call_finds_it_well(tmp_path, brisk):
    flag = tmp_path / "ill"
    ill = f"if os.path.exists({str(flag)!r}): sys.stderr.write('out of order'); sys.stderr.flush(); os._exit(7)"
    code = f"{ill}\nSTATELESS = False\n{SERVER}"
    script = Script(tmp_path, code)
    async with AsyncClient(script.command) as client:
        await client.call_tool("write")
        flag.touch()
        kill(script)
        await until(lambda: client.status == "lost")
        errors = await outcomes(*(client.call_tool("write") for _ in range(10)))
        assert {type(error) for error in errors} == {ServerCrashed}
        assert [str(error) for error in errors if "out of order" not in str(error)] == []
        assert client.status == "failed"
        assert 1 + reconnect.MAX_ATTEMPTS <= len(script.pids) <= 1 + 2 * reconnect.MAX_ATTEMPTS
        flag.unlink()
        assert (await client.call_tool("write")).text.startswith("write in life")
        assert client.status == "ready"


@pytest.mark.covers("HEAL-05", "CTM-04")
@ERAS
@scenario
async def test_a_call_that_timed_out_is_never_repeated_and_the_server_is_told(tmp_path, stateless):
    script = served(tmp_path, stateless=stateless)
    async with AsyncClient(script.command) as client:
        with pytest.raises(Timeout, match="tools/call timed out") as caught:
            await client.call_tool("look", meta=HANG, timeout=0.2, idempotent=True)
        notice = await script.until_received("notifications/cancelled")
        assert notice["params"] == {"requestId": caught.value.request_id, "reason": "Request timed out"}
        assert script.methods.count("tools/call") == 1
        assert (await client.call_tool("look")).text == "look in life 1"


@pytest.mark.covers("HEAL-06")
@scenario
async def test_nonsense_between_answers_harms_nothing(tmp_path, caplog):
    code = """
def answer(m):
    if m["method"] == "initialize": return initialized(m, tools={})
    if m["method"] == "server/discover": return error(m, -32601)
    if m["method"] != "tools/call": return
    print("Starting up...", flush=True)
    tell([]), tell("x"), tell(7), tell({}), tell({"id": m["id"]}), tell({"jsonrpc": "2.0", "id": None, "result": {}})
    tell({"jsonrpc": "2.0", "id": 10 ** 6, "result": {}}), tell({"jsonrpc": "2.0", "id": "1", "result": {}})
    tell({"jsonrpc": "2.0", "id": 10 ** 6, "error": {"code": 1, "message": "x"}})
    tell({"jsonrpc": "2.0", "method": "notifications/message", "params": []})
    tell({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "loud"}})
    tell({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "who", "progress": 1}})
    tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    tell({"jsonrpc": "2.0", "method": "notifications/unheard/of", "params": {"x": 1}})
    text(m, "first"), text(m, "second"), error(m, 1)
"""
    script = Script(tmp_path, code)
    async with AsyncClient(script.command) as client:
        assert [(await client.call_tool("x")).text for _ in range(3)] == ["first"] * 3
        assert len(script.pids) == 1


@pytest.mark.covers("HEAL-07")
@scenario
async def test_a_waiter_that_is_cancelled_leaves_the_connection_to_the_others(tmp_path):
    script = Script(
        tmp_path, "def answer(m):\n    if m['method'] == 'initialize': time.sleep(0.3); initialized(m, tools={})"
    )
    client = AsyncClient(script.command, mode="handshake")
    first, second = asyncio.create_task(client.start()), asyncio.create_task(client.start())
    await script.until_received("initialize")
    first.cancel()
    assert await second is client
    assert first.cancelled()
    assert client.protocol_version == NEWEST
    await client.stop()
    assert len(script.pids) == 1


@pytest.mark.covers("HEAL-07")
@scenario
async def test_a_client_may_be_stopped_by_its_own_handler(tmp_path):
    code = """
def answer(m):
    if m["method"] == "initialize": initialized(m, tools={})
    if m["method"] == "tools/call": tell({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}})
"""
    stopped = asyncio.Event()

    async def stop(request):
        await client.stop()
        stopped.set()
        return {}

    client = AsyncClient(Script(tmp_path, code).command, mode="handshake", on_elicitation=stop)
    with pytest.raises(TransportError, match="closed"):
        await client.call_tool("x")
    await asyncio.wait_for(stopped.wait(), 10)
    assert client.status == "stopped"
    await client.stop()


@pytest.mark.covers("HEAL-08")
@scenario
async def test_a_new_connection_is_told_again_what_the_client_wants_to_hear(tmp_path):
    script, updates, again = served(tmp_path, stateless=False), [], []
    options = {"on_log": print, "log_level": "error", "on_resource_updated": updates.append}
    async with AsyncClient(script.command, on_reconnect=lambda: again.append(1), **options) as client:
        await client.subscribe("file:///a")
        await client.set_log_level("info")
        await client.tools()
        first = len(script.received)
        kill(script)
        await until(lambda: again)  # nobody called: who follows a resource is connected again at once
        await client.tools()
        later = [(m["method"], m.get("params", {})) for m in script.received[first:]]
        assert [method for method, _ in later] == [
            "initialize",
            "notifications/initialized",
            "resources/subscribe",
            "logging/setLevel",
            "tools/list",
        ]
        assert later[2][1]["uri"] == "file:///a"
        assert later[3][1]["level"] == "info"
        assert again == [1]
        assert client.status == "ready"


@pytest.mark.covers("HEAL-08")
@scenario
async def test_a_server_that_dies_while_it_is_told_is_tried_again_and_nothing_is_left(tmp_path, brisk):
    code = f"""
def answer(m):
    if m["method"] == "resources/subscribe" and SPAWNS == 2: os._exit(1)
    was_answer(m)
STATELESS = False
{SERVER.replace("def answer", "def was_answer")}"""
    script, again = Script(tmp_path, code), []
    async with AsyncClient(script.command, on_reconnect=lambda: again.append(1)) as client:
        await client.subscribe("file:///a")
        kill(script)
        await until(lambda: again)
        assert (await client.call_tool("write")).text == "write in life 3"
        assert again == [1]


@pytest.mark.covers("HEAL-09")
@scenario
async def test_a_client_serves_one_event_loop_after_the_other(tmp_path):
    script = served(tmp_path, stateless=False)
    client = AsyncClient(script.command)

    def in_a_loop_of_its_own():
        return asyncio.run(client.call_tool("write")).text

    texts = [await asyncio.to_thread(in_a_loop_of_its_own) for _ in range(2)]
    assert texts == ["write in life 1", "write in life 2"]
    await client.stop()


@pytest.mark.covers("HEAL-01")
@scenario
async def test_a_stateless_server_that_was_killed_is_listened_to_again(tmp_path):
    code = f"""
def answer(m):
    if m["method"] == "server/discover": discovered(m, "{STATELESS}", tools={{"listChanged": True}})
    if m["method"] == "tools/list": result(m, {{"resultType": "complete", "tools": []}})
    if m["method"] == "subscriptions/listen":
        tell({{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {{
            "notifications": m["params"]["notifications"],
            "_meta": {{"io.modelcontextprotocol/subscriptionId": m["id"]}}}}}})
"""
    script = Script(tmp_path, code)
    async with AsyncClient(script.command) as client:
        await client.tools()
        await script.until_received("subscriptions/listen")
        kill(script)
        await script.until_received("subscriptions/listen", 2)
        assert len(script.pids) == 2


@pytest.mark.covers("HEAL-03")
@ERAS
@scenario
async def test_what_was_known_of_a_tool_before_its_server_died_makes_no_call_run_twice_after(tmp_path, stateless):
    script = Script(
        tmp_path, f"STATELESS = {stateless}\n{SERVER.replace('text(m,', 'SPAWNS > 1 and os._exit(3) or text(m,')}"
    )
    async with AsyncClient(script.command, trusted=True) as client:
        assert (await client.list_tools()).tools[2].annotations.idempotent_hint
        kill(script)
        await until(lambda: client.status == "lost")
        with pytest.raises(ServerCrashed, match="may have been served"):
            await client.call_tool("put")
        assert len(script.pids) == 2
