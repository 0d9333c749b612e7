"""A hostile server that asks and tells without end: its client spends little on it, and still serves its user."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from aiohttp import web

from dragoman import AsyncClient, Client, InputNeeded, Timeout, TransportError
from dragoman.client import Decline, Elicitation, Sampling
from dragoman.client.connect import http
from dragoman.transports.process.process import ProcessTransport
from scenarios.client_peer import DEADLINE, NEWEST, STATELESS, Script, Web, descriptors, scenario, tasks, until
from scenarios.scripted_server import ScriptedServer

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is open is counted in /proc")

FLOODING = Path(__file__).parents[2] / "scenarios" / "flooding_server.py"
MANY = 50_000
GRACE = 0.2
MEGABYTE = 1_000_000
SAMPLE = '"sampling/createMessage", "params": {"messages": [], "maxTokens": 5}'
FORM = '"elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}'
KINDS = {
    "ping": '{"jsonrpc": "2.0", "id": %d, "method": "ping"}',
    "unknown": '{"jsonrpc": "2.0", "id": %d, "method": "acme/unknown"}',
    "roots": '{"jsonrpc": "2.0", "id": %d, "method": "roots/list"}',
    "sampling": '{"jsonrpc": "2.0", "id": %d, "method": ' + SAMPLE + "}",
    "elicitation": '{"jsonrpc": "2.0", "id": %d, "method": ' + FORM + "}",
    "invalid": '{"jsonrpc": "2.0", "id": %d, "method": 5}',
}
# `flood(n)` writes n messages of the kind, in at most two seconds.
SERVER = """
import threading
KIND, ANSWERS, LOCK = %r, {}, threading.Lock()
def flood(count, of=None):
    ends = time.monotonic() + 2
    for first in range(0, count, 200):
        if time.monotonic() > ends: return
        lines = "".join((of or KIND) %% (first + n + 1000) + "\\n" for n in range(min(200, count - first))).encode()
        with LOCK:
            while lines: lines = lines[os.write(1, lines):]
def tell(message):
    with LOCK: sys.stdout.write(json.dumps(message) + "\\n"), sys.stdout.flush()
def answer(m):
    if m["method"] == "initialize": initialized(m, tools={})
    elif m["method"] is None: ANSWERS[m["id"]] = m.get("error", {}).get("code", 0); answered(m)
    elif m["method"] == "tools/call": call(m)
def answered(m): pass
"""


def flooding(tmp_path, kind, code):
    return Script(tmp_path, SERVER % KINDS.get(kind, kind) + code).command


def memory() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


class Spent:
    """The most that was spent while a server floods."""

    def __init__(self):
        self._before = descriptors(), memory()
        self.tasks = self.descriptors = self.memory = 0

    async def watch(self):
        while True:
            self.tasks = max(self.tasks, len(tasks()))
            self.descriptors = max(self.descriptors, descriptors() - self._before[0])
            self.memory = max(self.memory, memory() - self._before[1])
            await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def watched(self):
        watching = asyncio.create_task(self.watch())
        try:
            yield self
        finally:
            watching.cancel()


async def forever(request):
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def stopped_quickly(client):
    """Use a client, and see that it stops long before the other side would end."""
    try:
        await client.start()
        yield client
    finally:
        began = time.monotonic()
        await client.stop()
        took = time.monotonic() - began
    assert took < DEADLINE / 3, took


async def counted(client) -> int:
    return sum(json.loads((await client.call_tool("count", timeout=5)).text).values())


# Processes.


@pytest.mark.covers("CSR-13")
@pytest.mark.parametrize("kind", KINDS)
@scenario
async def test_a_server_that_asks_without_reading_the_answers_is_not_read_on(tmp_path, kind):
    code = f"""
def call(m): flood({MANY}); time.sleep({DEADLINE})
"""
    process = ProcessTransport(flooding(tmp_path, kind, code), grace=GRACE)
    options = {"on_sampling": forever, "on_elicitation": forever, "roots": ["/"]}
    async with stopped_quickly(AsyncClient(process, mode="handshake", **options)) as client:
        async with Spent().watched() as spent:
            with pytest.raises(Timeout):
                await asyncio.wait_for(client.call_tool("flood", timeout=0.5), 5)
        assert spent.tasks < 100 + 8 + 10
        assert spent.memory < 30 * MEGABYTE


@pytest.mark.covers("CSR-13")
@scenario
async def test_refusals_that_repeat_what_they_refuse_do_not_fill_the_memory(tmp_path):
    long = '{"jsonrpc": "2.0", "id": "%d' + "x" * 100_000 + '", "method": "' + "x" * 100_000 + '"}'
    code = f"""
def call(m): flood(2000); time.sleep({DEADLINE})
"""
    process = ProcessTransport(flooding(tmp_path, long, code), grace=GRACE)
    async with stopped_quickly(AsyncClient(process, mode="handshake")) as client:
        async with Spent().watched() as spent:
            with pytest.raises(Timeout):
                await client.call_tool("flood", timeout=1)
        assert spent.memory < 40 * MEGABYTE


@pytest.mark.covers("CSR-13", "CSR-14")
@pytest.mark.parametrize("kind", KINDS)
@scenario
async def test_a_call_is_answered_while_the_server_asks_without_end(tmp_path, kind):
    code = """
def call(m):
    if m["params"]["name"] == "flood": threading.Thread(target=flood, args=(4000,), daemon=True).start()
    codes = list(ANSWERS.values())
    text(m, json.dumps({str(code): codes.count(code) for code in codes}))
"""
    handlers = {"on_sampling": forever, "on_elicitation": forever, "roots": ["/"]}
    process = ProcessTransport(flooding(tmp_path, kind, code), grace=GRACE)
    async with stopped_quickly(AsyncClient(process, mode="handshake", **handlers)) as client:
        async with Spent().watched() as spent:
            await client.call_tool("flood", timeout=5)
            expected = 3900 if kind in ("sampling", "elicitation") else 4000
            async with asyncio.timeout(DEADLINE):
                while await counted(client) < expected:
                    pass
        assert spent.tasks < 100 + 8 + 10


@pytest.mark.covers("CSR-14")
@scenario
async def test_questions_that_nobody_answers_keep_no_answer_from_a_call(tmp_path):
    code = """
def call(m): flood(300); text(m, "done")
"""
    asked = []

    async def never(request):
        asked.append(request)
        await asyncio.Event().wait()

    process = ProcessTransport(flooding(tmp_path, "elicitation", code), grace=GRACE)
    async with stopped_quickly(AsyncClient(process, mode="handshake", on_elicitation=never)) as client:
        assert (await client.call_tool("x", timeout=5)).text == "done"
        assert len(asked) == 1


@pytest.mark.covers("CSR-14")
@scenario
async def test_a_call_that_waits_for_a_person_can_still_be_given_up(tmp_path):
    code = """
def call(m): flood(300)
"""
    process = ProcessTransport(flooding(tmp_path, "elicitation", code), grace=GRACE)
    async with stopped_quickly(AsyncClient(process, mode="handshake", on_elicitation=forever)) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await until(lambda: len(tasks()) >= 100)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 1)
        for limit in ({"timeout": 0.2}, {"total_timeout": 0.2}):
            with pytest.raises(Timeout):
                await asyncio.wait_for(client.call_tool("x", **limit), 2)


@pytest.mark.covers("CSR-14")
@scenario
async def test_requests_that_are_answered_at_once_do_not_wind_up_the_clock_of_a_call(tmp_path):
    code = """
def call(m): threading.Thread(target=again, daemon=True).start()
def again():
    for _ in range(2000): flood(5), time.sleep(0.01)
"""
    for kind in ("roots", "unknown"):
        process = ProcessTransport(flooding(tmp_path, kind, code), grace=GRACE)
        async with AsyncClient(process, mode="handshake", roots=["/"]) as client:
            began = time.monotonic()
            with pytest.raises(Timeout):
                await client.call_tool("x", timeout=0.3)
            assert time.monotonic() - began < 10, "the flood takes twice as long"


@pytest.mark.covers("CSR-13")
@scenario
async def test_a_server_that_floods_instead_of_introducing_itself_fails_to_connect_in_time(tmp_path):
    code = f"""
def answer(m): flood({MANY}); time.sleep({DEADLINE})
"""
    client = AsyncClient(
        ProcessTransport(flooding(tmp_path, "ping", code), grace=GRACE), mode="handshake", connect_timeout=0.5
    )
    began = time.monotonic()
    with pytest.raises(Timeout):
        await client.start()
    assert time.monotonic() - began < DEADLINE / 2


@pytest.mark.covers("CSR-16")
@pytest.mark.parametrize("slow", ["in the loop", "awaited"])
@scenario
async def test_a_call_is_answered_while_slow_functions_are_told_without_end(tmp_path, slow):
    log = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "%d"}}'
    code = """
def call(m):
    if m["params"]["name"] == "flood": threading.Thread(target=flood, args=(20000,), daemon=True).start()
    text(m, "done")
"""
    told = {"in the loop": lambda message: time.sleep(0.001), "awaited": lambda message: asyncio.sleep(0.001)}[slow]
    process = ProcessTransport(flooding(tmp_path, log, code), grace=GRACE)
    client = AsyncClient(process, mode="handshake", on_log=told, timeout=10)
    async with stopped_quickly(client), Spent().watched() as spent:
        for name in ("flood", "a", "b"):
            began = time.monotonic()
            assert (await client.call_tool(name)).text == "done"
            assert time.monotonic() - began < 10, "the functions take twice as long"
        assert spent.tasks < 10
        assert spent.memory < 40 * MEGABYTE


@pytest.mark.covers("CSR-15")
def test_a_server_that_asks_and_gives_up_again_and_again_does_not_take_all_threads(tmp_path):
    given_up = '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": %d}}'
    code = f"""
def call(m):
    for id in range(1000, 1200):
        os.write(1, ({KINDS["sampling"]!r} % id + chr(10) + {given_up!r} % id + chr(10)).encode())
    text(m, "done")
"""
    ended, running, most = threading.Event(), 0, 0

    def complete(request):
        nonlocal running, most
        running += 1
        most = max(most, running)
        ended.wait(DEADLINE)
        running -= 1
        return "done"

    process = ProcessTransport(flooding(tmp_path, "ping", code), grace=GRACE)
    with Client(process, mode="handshake", on_sampling=complete) as client:
        assert client.call_tool("x", timeout=5).text == "done"
        assert client.call_tool("x", timeout=5).text == "done"
        assert most <= 8
        ended.set()


@scenario
async def test_a_server_that_ends_as_soon_as_it_is_connected_to_is_not_started_without_end(tmp_path):
    code = """
def answer(m):
    if m["method"] == "initialize": initialized(m, resources={"subscribe": True})
    elif m["method"] == "resources/subscribe":
        result(m, {})
        if SPAWNS > 1: sys.exit()
    elif m["method"] == "resources/read": sys.exit()
"""
    script = Script(tmp_path, code)
    async with stopped_quickly(AsyncClient(ProcessTransport(script.command, grace=GRACE), mode="handshake")) as client:
        await client.subscribe("x:1")
        with contextlib.suppress(TransportError):
            await client.read_resource("x:1")
        await asyncio.sleep(1.5)
        started_first = len(script.pids)
        await asyncio.sleep(1.5)
        assert started_first > 1
        assert len(script.pids) - started_first <= 4  # the pauses have grown by now


# HTTP.


@contextlib.contextmanager
def hostile(*how):
    command = [sys.executable, "-S", "-E", str(FLOODING), *how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield f"http://127.0.0.1:{int(child.stdout.readline())}/mcp"
        finally:
            child.kill()


@pytest.mark.covers("CSR-13", "CSR-14")
@pytest.mark.parametrize("takes", ["prompt", "stall", "unfinished"])
@pytest.mark.parametrize("flooded", ["get", "post", "sse"])
@scenario
async def test_answers_over_http_take_few_connections(flooded, takes):
    with hostile(flooded, takes) as url:
        client = AsyncClient(url, mode="handshake", transport="sse" if flooded == "sse" else "http")
        async with stopped_quickly(client), Spent().watched() as spent:
            call = asyncio.gather(client.call_tool("flood", total_timeout=1), return_exceptions=True)
            # Over 2024-11-05 all answers come on the stream that is flooded.
            if (flooded, takes) != ("sse", "stall"):
                for _ in range(5):
                    assert (await client.call_tool("other", timeout=10)).text == "done"
            [outcome] = await call
            assert not isinstance(outcome, Exception) or isinstance(outcome, Timeout)
            assert spent.tasks < 50
            assert spent.descriptors < 150
            assert spent.memory < 30 * MEGABYTE
            if takes == "stall":
                assert spent.descriptors < 20


@pytest.mark.covers("CSR-13")
@scenario
async def test_a_server_that_never_accepts_an_answer_does_not_hold_its_connection_for_ever(monkeypatch):
    monkeypatch.setattr(http, "ACKNOWLEDGE_SECONDS", 0.1)
    accepted, most = [], 0

    async def answer(m, request):
        nonlocal most
        if m.get("method") == "initialize":
            info = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {}, "protocolVersion": NEWEST}
            return {"jsonrpc": "2.0", "id": m["id"], "result": info}
        if m.get("method") != "tools/call":
            accepted.append(m.get("id"))
            most = max(most, descriptors())
            await asyncio.sleep(0 if "method" in m else DEADLINE)
            return web.Response(status=202)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(20):
            await response.write(b'data: {"jsonrpc": "2.0", "id": %d, "method": "ping"}\n\n' % number)
        await until(lambda: {*range(20)} <= {*accepted})
        await response.write(b'data: {"jsonrpc": "2.0", "id": %d, "result": {"content": []}}\n\n' % m["id"])
        return response

    async with Web(answer).running() as server:
        before = descriptors()
        async with stopped_quickly(AsyncClient(server.url, mode="handshake")) as client:
            await client.call_tool("x", timeout=10)
    assert most - before < 2 * (8 + 5)  # both ends are in this process


# Transports of others.


class Deaf(ScriptedServer):
    """A transport whose server takes no answers, and which may or may not wait for room."""

    def __init__(self, *, waits, **options):
        super().__init__({"tools/call": {"content": []}}, **options)
        self.taken, self._waits = 0, waits

    async def send(self, message):
        if b'"method"' not in message:
            await asyncio.Event().wait()
        await super().send(message)

    async def flood(self, kind, count):
        for number in range(count):
            room = self._receive((KINDS[kind] % number).encode())
            self.taken += 1
            if self._waits and room is not None:
                await room
            if number % 100 == 0:
                await asyncio.sleep(0)


@pytest.mark.covers("CSR-13")
@pytest.mark.parametrize("waits", [True, False], ids=["it waits for room", "it does not wait for room"])
@pytest.mark.parametrize("kind", ["ping", "invalid", "sampling"])
@scenario
async def test_a_transport_of_the_users_own_is_bounded_too(kind, waits, caplog):
    server = Deaf(waits=waits)
    async with stopped_quickly(AsyncClient(server, on_sampling=forever)) as client, Spent().watched() as spent:
        flooding = asyncio.create_task(server.flood(kind, MANY))
        await until(lambda: server.taken >= (100 if waits else MANY))
        await client.call_tool("x", timeout=5)
        assert spent.tasks < (120 if kind == "sampling" else 20)
        assert spent.memory < 30 * MEGABYTE
        assert server.taken < 300 if waits else server.taken == MANY
        assert ("further requests of it are dropped" in caplog.text) != waits
        flooding.cancel()


# Input that a stateless server requires.


def asking(count):
    form = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
    needed = {"resultType": "input_required", "inputRequests": {str(number): form for number in range(count)}}

    def called(params):
        return {"resultType": "complete", "content": []} if "inputResponses" in params else needed

    return ScriptedServer({"tools/call": called}, stateless=True)


@pytest.mark.covers("CSR-17")
@scenario
async def test_thousands_of_questions_in_one_round_are_not_asked():
    asked = []
    async with AsyncClient(asking(5000), on_elicitation=asked.append) as client:
        with pytest.raises(InputNeeded, match="asks 5000 questions at a time, more than max_server_requests=100"):
            await client.call_tool("x")
    assert asked == []


@pytest.mark.covers("CSR-15", "CSR-17")
@pytest.mark.parametrize("most", [1, 8])
@scenario
async def test_the_questions_of_a_round_are_asked_few_at_a_time(most):
    running, seen = 0, []

    async def ask(request):
        nonlocal running
        running += 1
        seen.append(running)
        await asyncio.sleep(0.001)
        running -= 1
        return Decline()

    async with AsyncClient(asking(50), on_elicitation=Elicitation(ask, max_concurrent=most)) as client:
        await client.call_tool("x")
    assert len(seen) == 50
    assert max(seen) == most


@pytest.mark.covers("CSR-17")
@scenario
async def test_a_stateless_server_has_nothing_sampled_by_a_request_of_its_own():
    asked = []
    server = ScriptedServer({"tools/call": {"resultType": "complete", "content": []}}, stateless=True)
    async with AsyncClient(server, protocol_version=STATELESS, on_sampling=asked.append) as client:
        await client.call_tool("x")
        server.say("sampling/createMessage", {"messages": [], "maxTokens": 5}, id="q")
        [refused] = await server.until(lambda: [m for m in server.received if m.get("id") == "q"])
    assert refused["error"]["code"] == -32601
    assert asked == []


@pytest.mark.covers("CSR-13")
@scenario
async def test_requests_with_large_parameters_are_refused_earlier():
    server = ScriptedServer()
    text = {"role": "user", "content": {"type": "text", "text": "x" * 3 * 1024 * 1024}}
    async with AsyncClient(server, on_sampling=forever) as client:
        await client.ping()
        for number in range(7):
            server.say("sampling/createMessage", {"messages": [text], "maxTokens": 5}, id=f"q{number}")
        refused = await server.until(lambda: len(found := [m for m in server.received if "error" in m]) == 2 and found)
    assert [m["id"] for m in refused] == ["q5", "q6"]


@pytest.mark.covers("CSR-15")
@scenario
async def test_how_many_requests_of_a_server_are_under_way_can_be_chosen():
    server = ScriptedServer()
    options = {"on_sampling": Sampling(forever), "max_server_requests": 3}
    async with AsyncClient(server, **options) as client:
        await client.ping()
        for number in range(5):
            server.say("sampling/createMessage", {"messages": [], "maxTokens": 5}, id=f"q{number}")
        refused = await server.until(lambda: len(found := [m for m in server.received if "error" in m]) == 2 and found)
    assert [m["id"] for m in refused] == ["q3", "q4"]
    assert "The client is busy with 3 requests of the server; try again later" in refused[0]["error"]["message"]
