"""How a client finds out what a server speaks: processes that answer the probe in every way."""

import asyncio

import pytest

from dragoman import AsyncClient, Server, Timeout, TransportError
from dragoman.client.connect import handshake
from dragoman.errors import HeaderMismatch, MissingCapability, ServerCrashed, UnsupportedVersion
from scenarios.client_peer import BATCHING, NEWEST, OLDER, STATELESS, Script, until

INITIALIZE = """
    elif m["method"] == "initialize": initialized(m)
    elif m["method"] == "ping": result(m, {})
"""
BREAKS = "sys.stdin.readline(); os._exit(1)"
"""The reaction of a server that the probe breaks: it ends at the next message."""


@pytest.fixture
def short_probe(monkeypatch):
    """Let the probe wait for an answer for a moment only."""
    assert handshake.PROBE_SECONDS == 5
    monkeypatch.setattr(handshake, "PROBE_SECONDS", 0.2)


def prober(reaction: str, rest: str = INITIALIZE) -> str:
    return f"def answer(m):\n    if m['method'] == 'server/discover': {reaction}\n{rest}"


async def spoken(script: Script, **options) -> str | None:
    client = AsyncClient(script.command, **options)
    try:
        await client.start()
        assert await client.ping()
        return client.protocol_version
    finally:
        await client.stop()


@pytest.mark.covers("CLF-01")
async def test_a_version_in_common_is_spoken_without_a_handshake(tmp_path):
    script = Script(tmp_path, prober(f"discovered(m, '2099-01-01', '{STATELESS}', '{NEWEST}')"))
    assert await spoken(script) == STATELESS
    assert set(script.methods) == {"server/discover"}
    assert len(script.pids) == 1


@pytest.mark.covers("CLF-01")
@pytest.mark.parametrize(
    "reaction",
    [
        pytest.param("error(m, -32601)", id="unknown method"),
        pytest.param("error(m, -32600, 'initialize first')", id="invalid request"),
        pytest.param("error(m, -32602)", id="invalid params"),
        pytest.param("error(m, -32603)", id="internal error"),
        pytest.param("error(m, 0)", id="an error of no meaning"),
        pytest.param("result(m, {})", id="an empty result"),
        pytest.param("result(m, {'tools': []})", id="a result of another shape"),
        pytest.param("result(m, 'yes')", id="a result that is no object"),
        pytest.param("tell({'jsonrpc': '2.0', 'id': m['id'], 'error': 'no'})", id="a malformed error"),
        pytest.param("tell({'id': m['id'], 'result': {}})", id="a message that is no JSON-RPC"),
    ],
)
async def test_a_server_that_does_not_know_the_probe_is_greeted_by_initialize(tmp_path, reaction):
    script = Script(tmp_path, prober(reaction))
    assert await spoken(script) == NEWEST
    assert script.methods[:3] == ["server/discover", "initialize", "notifications/initialized"]
    assert len(script.pids) == 1


@pytest.mark.covers("CLF-06")
@pytest.mark.parametrize("reaction", ["pass", "print('garbage', flush=True)", "tell({'id': 99})"])
async def test_a_probe_that_is_not_answered_in_time_means_a_handshake(tmp_path, short_probe, reaction):
    script = Script(tmp_path, prober(reaction))
    assert await spoken(script) == NEWEST
    assert len(script.pids) == 1
    assert "notifications/cancelled" not in script.methods


@pytest.mark.covers("CLF-01")
@pytest.mark.parametrize("reaction", ["os._exit(3)", "os.close(1), time.sleep(60)"])
async def test_a_server_that_dies_of_the_probe_is_started_again_and_greeted_by_initialize(tmp_path, reaction):
    script = Script(tmp_path, prober(reaction))
    assert await spoken(script) == NEWEST
    assert len(script.pids) == 2
    assert script.methods[:2] == ["server/discover", "initialize"]


@pytest.mark.covers("CLF-01")
async def test_a_server_that_dies_of_everything_is_an_error_with_its_last_words(tmp_path):
    script = Script(tmp_path, "def answer(m): sys.stderr.write('no licence'); sys.stderr.flush(); os._exit(3)")
    with pytest.raises(ServerCrashed, match=r"exit code 3(.|\n)*no licence"):
        await spoken(script)
    assert len(script.pids) == 2


@pytest.mark.covers("CLF-01")
async def test_a_server_that_refuses_our_version_is_probed_once_more_with_its_own(tmp_path):
    code = f"""
def answer(m):
    if m["method"] == "server/discover":
        if PROBES: discovered(m, "{STATELESS}")
        else: PROBES.append(1); error(m, -32022, data={{"supported": ["{STATELESS}", 3], "requested": "x"}})
PROBES = []
"""
    script = Script(tmp_path, code)
    assert await spoken(script) == STATELESS
    assert set(script.methods) == {"server/discover"}


@pytest.mark.covers("CLF-01")
async def test_a_server_that_keeps_refusing_what_it_says_it_speaks_is_an_error(tmp_path):
    reaction = f"error(m, -32022, data={{'supported': ['{STATELESS}', '{NEWEST}']}})"
    script = Script(tmp_path, prober(reaction))
    with pytest.raises(UnsupportedVersion):
        await spoken(script)
    assert script.methods == ["server/discover"] * 2


@pytest.mark.covers("CLF-04")
@pytest.mark.parametrize(
    "reaction", [f"error(m, -32022, data={{'supported': ['{OLDER}']}})", f"discovered(m, '{OLDER}', '2099-01-01')"]
)
async def test_a_server_with_only_an_earlier_version_in_common_is_offered_that_one(tmp_path, reaction):
    script = Script(tmp_path, prober(reaction))
    assert await spoken(script) == OLDER
    assert script.received[1]["params"]["protocolVersion"] == OLDER


@pytest.mark.covers("CLF-01")
@pytest.mark.parametrize("supported", ["['2099-01-01']", "[]", "'all'", "None"])
async def test_a_server_with_no_version_in_common_is_an_error(tmp_path, supported):
    script = Script(tmp_path, prober(f"error(m, -32022, data={{'supported': {supported}}})"))
    with pytest.raises(UnsupportedVersion):
        await spoken(script)
    assert script.methods == ["server/discover"]


@pytest.mark.covers("CLF-01")
@pytest.mark.parametrize(("code", "kind"), [(-32020, HeaderMismatch), (-32021, MissingCapability)])
async def test_an_error_that_only_a_stateless_server_gives_is_raised(tmp_path, code, kind):
    script = Script(tmp_path, prober(f"error(m, {code})"))
    with pytest.raises(kind):
        await spoken(script)
    assert script.methods == ["server/discover"]


@pytest.mark.covers("CLF-02")
@pytest.mark.parametrize(
    ("options", "version"), [({"mode": "handshake"}, NEWEST), ({"protocol_version": OLDER}, OLDER)]
)
async def test_a_client_that_wants_a_handshake_does_not_probe(tmp_path, options, version):
    script = Script(tmp_path, prober("os._exit(1)"))
    assert await spoken(script, **options) == version
    assert script.methods == ["initialize", "notifications/initialized", "ping"]


@pytest.mark.covers("CLF-02", "CLF-03")
@pytest.mark.parametrize("options", [{"mode": "stateless"}, {"protocol_version": STATELESS}])
@pytest.mark.parametrize("reaction", ["error(m, -32601)", "result(m, {})", f"discovered(m, '{NEWEST}')"])
async def test_a_client_that_wants_a_stateless_server_never_falls_back_to_the_handshake(tmp_path, options, reaction):
    script = Script(tmp_path, prober(reaction))
    with pytest.raises(UnsupportedVersion, match="stateless versions only"):
        await spoken(script, **options)
    assert script.methods == ["server/discover"]


@pytest.mark.covers("CLF-03")
async def test_a_client_that_wants_a_stateless_server_raises_its_crash(tmp_path):
    script = Script(tmp_path, prober("os._exit(1)"))
    with pytest.raises(ServerCrashed):
        await spoken(script, mode="stateless")
    assert script.methods == ["server/discover"]


@pytest.mark.covers("CLF-02")
@pytest.mark.parametrize(
    "options",
    [
        {"mode": "handshake", "protocol_version": STATELESS},
        {"mode": "stateless", "protocol_version": NEWEST},
        {"mode": "modern"},
        {"protocol_version": "2099-01-01"},
        {"protocol_version": "newest"},
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_started(tmp_path, options):
    script = Script(tmp_path, prober("os._exit(1)"))
    with pytest.raises(ValueError, match=r"mode|is not available"):
        AsyncClient(script.command, **options)
    assert script.pids == []


@pytest.mark.covers("CLF-10")
async def test_the_era_of_a_known_server_is_not_probed_again(tmp_path):
    script = Script(tmp_path, prober("error(m, -32601)"))
    assert await spoken(script) == NEWEST
    assert await spoken(script) == NEWEST
    assert script.methods.count("server/discover") == 1
    assert script.methods.count("initialize") == 2


@pytest.mark.covers("CLF-10")
@pytest.mark.parametrize(
    "contradiction", [f"error(m, -32022, data={{'supported': ['{STATELESS}']}})", "error(m, -32601)"]
)
async def test_a_server_that_learned_to_do_without_a_handshake_is_probed_again(tmp_path, contradiction):
    code = f"""
def answer(m):
    if m["method"] == "server/discover": error(m, -32601) if SPAWNS == 1 else discovered(m, "{STATELESS}")
    elif m["method"] == "initialize":
        if SPAWNS == 1: initialized(m)
        else: {contradiction}
    elif m["method"] == "ping": result(m, {{}})
"""
    script = Script(tmp_path, code)
    assert await spoken(script) == NEWEST
    assert await spoken(script) == STATELESS


@pytest.mark.covers("CLF-10")
async def test_a_server_that_now_dies_of_initialize_is_probed_at_the_next_attempt(tmp_path):
    code = f"""
def answer(m):
    if m["method"] == "server/discover": error(m, -32601) if SPAWNS == 1 else discovered(m, "{STATELESS}")
    elif m["method"] == "initialize": initialized(m) if SPAWNS == 1 else os._exit(1)
    elif m["method"] == "ping": result(m, {{}})
"""
    script = Script(tmp_path, code)
    assert await spoken(script) == NEWEST
    with pytest.raises(ServerCrashed):
        await spoken(script)
    assert await spoken(script) == STATELESS


@pytest.mark.covers("CLF-11")
@pytest.mark.parametrize("refusal", [f"-32022, data={{'supported': ['{STATELESS}']}}", "-32602"])
async def test_a_slow_stateless_server_that_refuses_initialize_is_probed_once_more(tmp_path, short_probe, refusal):
    code = f"""
PROBES = []
def answer(m):
    if m["method"] == "server/discover":
        PROBES.append(1)
        if len(PROBES) > 1: discovered(m, "{STATELESS}")
    elif m["method"] == "initialize": error(m, {refusal})
"""
    script = Script(tmp_path, code)
    assert await spoken(script) == STATELESS
    assert script.methods[:3] == ["server/discover", "initialize", "server/discover"]


@pytest.mark.covers("CLF-11")
async def test_a_server_that_starts_slowly_is_used_in_the_era_of_its_late_answer(tmp_path, short_probe):
    code = f"""
LATE = []
def answer(m):
    if m["method"] == "server/discover":
        if LATE: discovered(m, "{STATELESS}")
        LATE.append(m)
    elif m["method"] == "initialize": discovered(LATE[0], "{STATELESS}"); initialized(m)
"""
    script = Script(tmp_path, code)
    assert await spoken(script) == STATELESS
    assert script.methods == ["server/discover", "initialize", "server/discover", "server/discover"]
    assert len(script.pids) == 1


@pytest.mark.covers("CLF-11")
async def test_a_slow_server_that_initialize_binds_to_the_handshake_is_started_again_without_it(tmp_path, short_probe):
    code = f"""
LATE = []
BOUND = []
def answer(m):
    if m["method"] == "server/discover":
        LATE.append(m)
        if BOUND: error(m, -32601)
        elif SPAWNS > 1: discovered(m, "{STATELESS}")
    elif m["method"] == "initialize":
        BOUND.append(1)
        discovered(LATE[0], "{STATELESS}")
        initialized(m)
"""
    script = Script(tmp_path, code)
    assert await spoken(script) == STATELESS
    assert len(script.pids) == 2
    assert script.methods.count("initialize") == 1


@pytest.mark.covers("CLF-11")
@pytest.mark.parametrize("late", ["error(LATE[0], -32601)", "tell({'no': 'message'})"])
async def test_a_late_answer_of_the_handshake_era_leaves_the_handshake_to_go_on(tmp_path, short_probe, late):
    code = f"""
LATE = []
def answer(m):
    if m["method"] == "server/discover": LATE.append(m)
    elif m["method"] == "initialize": {late}; initialized(m)
    elif m["method"] == "ping": result(m, {{}})
"""
    assert await spoken(Script(tmp_path, code)) == NEWEST


@pytest.mark.covers("CLF-11")
async def test_a_server_that_the_probe_broke_is_started_again_and_greeted(tmp_path, short_probe):
    script = Script(tmp_path, prober(BREAKS))
    assert await spoken(script) == NEWEST
    assert len(script.pids) == 2
    assert await spoken(script) == NEWEST
    assert len(script.pids) == 3
    assert script.methods.count("server/discover") == 1


@pytest.mark.covers("CLF-11")
async def test_another_process_does_not_probe_a_server_that_the_probe_broke(tmp_path, short_probe):
    refusing = '    elif m["method"] == "initialize" and SPAWNS > 3: error(m, -32602)'
    script = Script(tmp_path, prober(BREAKS, refusing + INITIALIZE))
    assert await spoken(script) == NEWEST
    handshake._handshake_servers.clear()  # as in another process
    assert await spoken(script) == NEWEST
    assert (len(script.pids), script.methods.count("server/discover")) == (3, 1)
    handshake._handshake_servers.clear()
    with pytest.raises(TransportError):  # it contradicts, and is probed again
        await spoken(script, connect_timeout=1)
    assert script.methods.count("server/discover") > 1


@pytest.mark.covers("CLF-11")
async def test_where_nothing_can_be_remembered_a_server_is_used_all_the_same(tmp_path, short_probe, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    script = Script(tmp_path, prober(BREAKS))
    assert await spoken(script) == NEWEST


@pytest.mark.covers("CLF-11")
async def test_a_server_that_ends_each_time_is_started_twice_and_no_more(tmp_path, short_probe):
    script = Script(tmp_path, "def answer(m):\n    sys.stdin.readline()\n    os._exit(7)")
    with pytest.raises(Timeout, match="did not answer initialize"):
        await spoken(script, connect_timeout=1)
    assert len(script.pids) == 2


@pytest.mark.covers("CLF-11")
async def test_a_server_of_one_stateless_version_may_start_slowly(tmp_path, short_probe):
    program = tmp_path / "slow.py"
    program.write_text(
        "import time; time.sleep(0.6)\n"
        "from dragoman import Configuration, Server\n"
        f"Server('slow', configuration=Configuration(protocol_version='{STATELESS}')).run()\n"
    )
    async with AsyncClient(program) as client:
        assert client.protocol_version == STATELESS
        assert await client.ping()


@pytest.mark.covers("CLF-14")
async def test_a_version_that_is_not_spoken_here_ends_the_connection(tmp_path):
    script = Script(
        tmp_path, "def answer(m): initialized(m, '2099-01-01') if m['method'] == 'initialize' else error(m, 1)"
    )
    client = AsyncClient(script.command)
    with pytest.raises(UnsupportedVersion, match=r"chose protocol version '2099-01-01', which this client does not"):
        await client.start()
    assert client.status == "failed"
    assert script.methods == ["server/discover", "initialize"]
    await client.stop()


@pytest.mark.covers("CLF-14")
async def test_a_pinned_version_that_the_server_does_not_take_is_an_error(tmp_path):
    script = Script(tmp_path, f"def answer(m): initialized(m, '{NEWEST}')")
    with pytest.raises(UnsupportedVersion, match=NEWEST):
        await spoken(script, protocol_version=OLDER)


@pytest.mark.covers("CLF-14")
async def test_initialize_that_is_refused_for_its_version_is_made_again_with_one_in_common(tmp_path):
    code = f"""
def answer(m):
    if m["method"] == "initialize":
        good = m["params"]["protocolVersion"] == "{OLDER}"
        initialized(m) if good else error(m, -32022, data={{"supported": ["{OLDER}"]}})
    elif m["method"] == "ping": result(m, {{}})
    elif "id" in m: error(m, -32601)
"""
    assert await spoken(Script(tmp_path, code)) == OLDER


@pytest.mark.covers("CLF-14")
async def test_an_unreadable_answer_to_initialize_is_an_error(tmp_path):
    script = Script(tmp_path, "def answer(m): result(m, {'protocolVersion': 3})")
    with pytest.raises(TransportError, match="answer to initialize cannot be read"):
        await spoken(script, mode="handshake")


@pytest.mark.covers("CLF-14", "CTM-04")
async def test_initialize_that_is_not_answered_is_a_time_out_and_never_cancelled(tmp_path):
    script = Script(tmp_path, "def answer(m): pass")
    with pytest.raises(Timeout, match="connect_timeout") as caught:
        await spoken(script, mode="handshake", connect_timeout=0.3)
    assert caught.value.request_id == script.received[0]["id"]
    assert script.methods == ["initialize"]


@pytest.mark.covers("CLF-01", "BEY-09")
async def test_a_server_of_2025_03_26_may_send_batches(tmp_path):
    code = f"""
def answer(m):
    if isinstance(m, list):
        text(CALL[0], f"{{len(m)}} answers, ids {{sorted(x['id'] for x in m)}}")
    elif m["method"] == "server/discover": error(m, -32601)
    elif m["method"] == "initialize": initialized(m, "{BATCHING}", tools={{}})
    elif m["method"] == "tools/call":
        CALL.append(m)
        progress = {{"progressToken": m["params"]["_meta"]["progressToken"], "progress": 1}}
        tell([
            {{"jsonrpc": "2.0", "id": "a", "method": "ping"}},
            {{"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}},
            {{"jsonrpc": "2.0", "id": "b", "method": "roots/list"}},
        ])
    elif m["method"] == "tools/list": tell([{{"jsonrpc": "2.0", "id": m["id"], "result": {{"tools": []}}}}])
CALL = []
"""
    seen = []
    async with AsyncClient(Script(tmp_path, code).command) as client:
        assert client.protocol_version == BATCHING
        result = await client.call_tool("x", on_progress=lambda progress, total, message: seen.append(progress))
        assert result.text == "2 answers, ids ['a', 'b']"
        assert seen == [1]
        assert await client.tools() == []


@pytest.mark.covers("CLF-08")
async def test_stateless_requests_say_who_asks_and_callers_cannot_say_otherwise(tmp_path):
    code = f"""
def answer(m):
    discovered(m, "{STATELESS}", tools={{}}) if m["method"] == "server/discover" else text(m, "ok")
"""
    script = Script(tmp_path, code)
    meta = {"io.modelcontextprotocol/protocolVersion": "2024-11-05", "tenant": 7}
    async with AsyncClient(script.command, name="me", version="9") as client:
        await client.call_tool("x", meta=meta)
    sent = script.received[-1]["params"]["_meta"]
    assert sent["io.modelcontextprotocol/protocolVersion"] == STATELESS
    assert sent["io.modelcontextprotocol/clientInfo"] == {"name": "me", "version": "9"}
    assert sent["io.modelcontextprotocol/clientCapabilities"] == {}
    assert sent["tenant"] == 7
    assert meta == {"io.modelcontextprotocol/protocolVersion": "2024-11-05", "tenant": 7}


@pytest.mark.covers("CLF-01")
@pytest.mark.parametrize(("mode", "version"), [("auto", STATELESS), ("handshake", NEWEST), ("stateless", STATELESS)])
async def test_a_server_of_this_process_is_used_in_every_mode(mode, version):
    server = Server("sums")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with AsyncClient(server, mode=mode) as client:
        assert client.protocol_version == version
        results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(50)))
        assert [result.text for result in results] == [str(n) for n in range(1, 51)]


@pytest.mark.covers("LML-01", "LML-02", "LML-04", "LML-05")
async def test_a_client_is_started_stopped_and_started_again(tmp_path):
    script = Script(tmp_path, prober("error(m, -32601)"))
    client = AsyncClient(script.command)
    assert (client.status, client.alive, client.protocol_version) == ("new", False, None)
    assert await client.ping()
    assert (client.status, client.alive) == ("ready", True)
    await client.start()
    await client.start()
    assert len(script.pids) == 1
    assert await client.restart() is client
    await until(lambda: len(script.pids) == 2)
    await client.stop()
    await client.stop()
    assert (client.status, client.alive, client.protocol_version) == ("stopped", False, None)
    assert not client.capabilities.tools
    with pytest.raises(TransportError, match="stopped"):
        await client.tools()
