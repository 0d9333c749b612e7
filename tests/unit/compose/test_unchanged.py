"""The short way through a proxy: which requests take it, and how it ends."""

import asyncio
import json
import sys
import textwrap
from contextlib import nullcontext
from copy import copy

import pytest

from dragoman import Context, Server
from dragoman.errors import TransportError
from scenarios.proxied_server import HANDSHAKE, everything

DEADLINE = 60
PROGRAM = textwrap.dedent("""
    import json, os, sys

    def say(**message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        sys.stdout.flush()

    waiting, held = None, []
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message["method"], message.get("id"), message.get("params", {})
        name = params.get("name")
        if method == "initialize":
            info = {"name": "scripted", "version": "1"}
            say(id=id, result={"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": info})
        elif method == "notifications/cancelled" and waiting == params["requestId"]:
            say(id=waiting, result={"content": [], "late": True})
            say(method="acme/cancelled", params={"reason": params["reason"]})
        elif id is None:
            continue
        elif name == "wait":
            waiting = id
            say(method="acme/begun", params={})
        elif name == "end" or (method == "resources/read" and not os.path.exists(sys.argv[1])):
            open(sys.argv[1], "w").close()
            sys.exit(3)
        elif name == "hold":
            held.append((id, params))
        elif method == "acme/release":
            for number, (other, its) in enumerate(held):
                about = {"progressToken": its["_meta"]["progressToken"], "progress": number, "message": its["who"]}
                say(method="notifications/progress", params=about)
                say(id=other, result={"content": [], "given": its})
            held.clear()
            say(id=id, result={})
        elif name == "fail":
            say(id=id, error={"code": -32123, "message": "It failed", "data": {"why": [1.0]}})
        elif name == "malformed":
            say(id=id, error="no object")
        else:
            say(id=id, result={"content": [], "given": params})
""")


class Front:
    """A proxy in front of a target, whose client writes and reads messages; it notes which requests were passed."""

    def __init__(self, target, *, passes=True, **options):
        self.proxy = Server.proxy(target, **options)
        self.messages = asyncio.Queue()
        self.passed = []
        make = self.proxy.passing
        self.proxy.passing = (lambda: Noting(make(), self.passed)) if passes else None
        self.last_id = 0
        self._serving = self.proxy.serving()

    def another(self):
        """Return another client of the same proxy."""
        other = copy(self)
        other.messages, other.last_id = asyncio.Queue(), 0
        other._serving = nullcontext()
        return other

    async def __aenter__(self):
        await self._serving.__aenter__()
        self.connection = self.proxy.connect(lambda data: self.messages.put_nowait(json.loads(data)))
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "any", "version": "1"}}
        await self.ask("initialize", **hello)
        self.say(method="notifications/initialized")
        await self.ask("acme/first")  # the connection to the target is there from now on
        self.passed.clear()
        return self

    async def __aexit__(self, *error):
        self.connection.close()
        await self._serving.__aexit__(*error)

    def say(self, **message):
        self.connection.receive(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self, method, **params):
        self.last_id += 1
        self.say(id=self.last_id, method=method, params=params)
        return self.last_id

    async def next(self):
        return await asyncio.wait_for(self.messages.get(), DEADLINE)

    async def ask(self, method, **params):
        id = self.begin(method, **params)
        while (answer := await self.next()).get("id") != id:
            pass
        return {key: value for key, value in answer.items() if key not in ("id", "jsonrpc")}


class Noting:
    """Notes which requests were passed on the short way."""

    def __init__(self, passing, passed):
        self._passing, self._passed = passing, passed

    def pass_on(self, call, keeper):
        if self._passing.pass_on(call, keeper):
            self._passed.append(call.request.method.name)
            return True
        return False


@pytest.fixture
def scripted(tmp_path):
    program = tmp_path / "scripted.py"
    program.write_text(PROGRAM, encoding="utf-8")
    return [sys.executable, str(program), str(tmp_path / "ended")]


async def both_ways(scripted, tmp_path, *asked):
    """Ask the same on the short way and on the plain way; return the answers, and what went the short way."""
    answers = []
    for passes in (True, False):
        (tmp_path / "ended").unlink(missing_ok=True)
        async with Front(scripted, passes=passes) as front:
            answers.append([await front.ask(method, **params) for method, params in asked])
            if passes:
                passed = front.passed
    assert comparable(answers[0]) == comparable(answers[1])
    return answers[0], passed


def comparable(answers):
    """Return answers without what the plain way leaves out: a `_meta` that is null."""
    compared = json.loads(json.dumps(answers))
    for given in [answer.get("result", {}).get("given", {}) for answer in compared]:
        if given.get("_meta", ...) is None:
            del given["_meta"]
    return compared


async def test_a_request_that_does_not_change_goes_the_short_way(scripted, tmp_path):
    meta = {"com.example/x": [1.0], "progressToken": "seven"}
    call = ("tools/call", {"name": "odd", "arguments": {"a": 1e2}, "x-unknown": None, "_meta": meta})
    asked = [call, ("acme/unknown", {"x": 1}), ("tools/call", {"name": "odd", "_meta": None}), ("ping", {})]
    answers, passed = await both_ways(scripted, tmp_path, *asked)
    given = answers[0]["result"]["given"]
    assert given["_meta"].pop("progressToken") != "seven"
    assert given == {**call[1], "_meta": {"com.example/x": [1.0]}}
    assert answers[2]["result"]["given"] == asked[2][1]
    assert passed == ["tools/call", "acme/unknown", "tools/call"]


async def test_progress_finds_the_client_whose_token_others_have_too(scripted):
    async with asyncio.timeout(DEADLINE), Front(scripted) as front, front.another() as other:
        for client in (front, other):
            client.begin("tools/call", name="hold", who=f"client {id(client)}", _meta={"progressToken": 1})
        front.begin("acme/release")
        for client in (front, other):
            told, answer = await client.next(), await client.next()
            assert told["method"] == "notifications/progress"
            assert told["params"]["progressToken"] == 1
            assert told["params"]["message"] == answer["result"]["given"]["who"] == f"client {id(client)}"
    assert front.passed == ["tools/call", "tools/call", "acme/release"]


async def test_progress_of_a_cancelled_call_reaches_no_other_call_with_its_token(scripted):
    async with asyncio.timeout(DEADLINE), Front(scripted) as front, front.another() as other:
        asked = front.begin("tools/call", name="hold", who="secret", _meta={"progressToken": 1})
        front.say(method="notifications/cancelled", params={"requestId": asked})
        other.begin("tools/call", name="hold", who="mine", _meta={"progressToken": 1})
        await front.ask("acme/release")
        told, answer = await other.next(), await other.next()
    assert told["params"]["message"] == answer["result"]["given"]["who"] == "mine"
    assert front.messages.empty()


@pytest.mark.parametrize("tokens", [range(20), list(map(str, range(20))), [2**60 + n for n in range(20)]])
async def test_every_call_hears_of_its_own_progress_under_its_own_token(tokens, scripted):
    async with asyncio.timeout(DEADLINE), Front(scripted) as front:
        asked = [front.begin("tools/call", name="hold", who=str(n), _meta={"progressToken": n}) for n in tokens]
        front.begin("acme/release")
        heard = [await front.next() for _ in range(2 * len(asked))]
    told, answers = heard[::2], heard[1::2]
    assert [one["params"]["progressToken"] for one in told] == list(tokens)
    assert [one["params"]["message"] for one in told] == list(map(str, tokens))
    assert [one["id"] for one in answers] == asked


async def test_a_call_that_failed_and_is_cancelled_before_its_task_begins_ends_once(scripted):
    async with asyncio.timeout(DEADLINE), Front(scripted) as front:
        id = front.begin("tools/call", name="wait", _meta={"progressToken": "mine"})
        assert (await front.next())["method"] == "acme/begun"
        front.connection._running[id].drop.args[1].__self__.settle(TransportError("It was lost"))
        front.say(method="notifications/cancelled", params={"requestId": id})
        again = await front.ask("tools/call", name="odd")
    assert again["result"]["given"] == {"name": "odd"}


async def test_parameters_that_do_not_fit_are_refused_by_the_proxy(scripted, tmp_path):
    asked = [("tools/call", {"name": 7}), ("tools/call", {"name": "odd", "_meta": []}), ("resources/read", {})]
    answers, passed = await both_ways(scripted, tmp_path, *asked)
    assert [answer["error"]["code"] for answer in answers] == [-32602] * 3
    assert passed == []


@pytest.mark.parametrize("name", ["fail", "malformed"])
async def test_an_error_of_the_target_passes_with_code_and_data(name, scripted, tmp_path):
    [answer], passed = await both_ways(scripted, tmp_path, ("tools/call", {"name": name}))
    assert passed == ["tools/call"]
    if name == "fail":
        assert answer == {"error": {"code": -32123, "message": "It failed", "data": {"why": [1.0]}}}


async def test_a_target_that_ends_during_a_call_is_a_clear_error_and_the_next_call_is_served(scripted, tmp_path):
    asked = [("tools/call", {"name": "end"}), ("tools/call", {"name": "odd"})]
    [lost, served], _ = await both_ways(scripted, tmp_path, *asked)
    assert "was lost during the request, which may have been served" in lost["error"]["message"]
    assert served["result"]["given"] == {"name": "odd"}


async def test_a_request_that_may_be_served_twice_is_sent_again_when_the_target_has_ended(scripted, tmp_path):
    [answer], passed = await both_ways(scripted, tmp_path, ("resources/read", {"uri": "config://app"}))
    assert answer["result"]["given"] == {"uri": "config://app"}
    assert passed == ["resources/read"]


@pytest.mark.parametrize("passes", [True, False])
async def test_a_cancelled_call_is_cancelled_at_the_target_and_its_late_answer_is_dropped(passes, scripted):
    async with Front(scripted, passes=passes) as front:
        id = front.begin("tools/call", name="wait")
        assert (await front.next())["method"] == "acme/begun"
        front.say(method="notifications/cancelled", params={"requestId": id, "reason": "too slow"})
        told = await front.next()  # the late answer would come before it
        assert told["method"] == "acme/cancelled"
        assert told["params"] == {"reason": "The client does not wait for it any more"}
        assert (await front.ask("tools/call", name="odd"))["result"]["given"] == {"name": "odd"}
        assert front.passed == (["tools/call", "tools/call"] if passes else [])


async def test_a_client_that_leaves_cancels_its_calls_at_the_target():
    target, ended = Server("target"), asyncio.Event()

    @target.tool
    async def wait(ctx: Context) -> str:
        try:
            await ctx.report_progress(1)
            return str(await asyncio.Event().wait())
        finally:
            ended.set()

    front = Front(target)
    async with front:
        front.begin("tools/call", name="wait", _meta={"progressToken": 1})
        assert (await front.next())["method"] == "notifications/progress"
    await asyncio.wait_for(ended.wait(), DEADLINE)
    assert front.passed == ["tools/call"]


async def test_the_end_of_the_input_waits_for_calls_that_the_target_serves():
    target, go = Server("target"), asyncio.Event()

    @target.tool
    async def wait() -> str:
        await go.wait()
        return "done"

    async with Front(target) as front:
        front.begin("tools/call", name="wait")
        front.connection.receive_end()
        draining = asyncio.ensure_future(front.connection.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        go.set()
        await asyncio.wait_for(draining, DEADLINE)
        assert (await front.next())["result"]["content"] == [{"type": "text", "text": "done"}]


async def test_what_others_observe_or_the_proxy_knows_goes_the_plain_way():
    front = Front(everything())
    async with front:
        for method in ("tools/list", "tools/list", "logging/setLevel"):
            await front.ask(method, **({"level": "debug"} if method == "logging/setLevel" else {}))
        assert front.passed == []
        assert "error" in await front.ask("tools/call", name=7)  # the proxy refuses it
        assert front.passed == []
        await front.ask("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert front.passed == ["tools/call"]

        @front.proxy.middleware
        async def noting(ctx: Context, call_next):
            return await call_next()

        await front.ask("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert front.passed == ["tools/call"]


async def test_a_target_of_another_version_is_reached_on_the_plain_way():
    front = Front(everything("2025-06-18"))
    async with front:
        answer = await front.ask("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert answer["result"]["structuredContent"] == {"result": 3}
    assert front.passed == []


class SlowReader:
    """A client at the end of a pipe that stops reading after some messages."""

    is_stdio = True

    def __init__(self, most):
        self.received, self.most = [], most
        self.is_waiting, self.has_read = asyncio.Event(), asyncio.Event()

    @property
    def has_room(self):
        return len(self.received) < self.most or self.has_read.is_set()

    def send(self, message):
        self.received.append(message)

    async def wait_for_room(self):
        self.is_waiting.set()
        await self.has_read.wait()


async def test_a_target_is_not_read_while_the_client_does_not_read(tmp_path):
    count, reader = 20_000, SlowReader(most=100)
    program = tmp_path / "flooding.py"
    flood = 'say(method="acme/flood", params={"text": "x" * 1000})'
    program.write_text(PROGRAM.replace("waiting = id\n", f"[{flood} for _ in range({count})]\n"), encoding="utf-8")
    proxy = Server.proxy([sys.executable, str(program), "none"])
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "any", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    flooded = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait"}}
    async with asyncio.timeout(DEADLINE), proxy.serving():
        connection = proxy.connect(reader)
        connection.receive(json.dumps(begin).encode() + b"\n")
        while not reader.received:  # noqa: ASYNC110 - the sink of a connection is a plain function
            await asyncio.sleep(0)
        connection.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        connection.receive(json.dumps(flooded).encode() + b"\n")
        await reader.is_waiting.wait()
        kept = len(reader.received)
        assert kept < reader.most + 100  # at most what was read at once
        for _ in range(1000):
            await asyncio.sleep(0)
        assert len(reader.received) == kept
        reader.has_read.set()
        while len(reader.received) < count:  # noqa: ASYNC110
            await asyncio.sleep(0)
        connection.close()
