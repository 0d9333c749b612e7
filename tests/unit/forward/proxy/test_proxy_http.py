"""A proxy over HTTP, in front of a target over HTTP, in both eras."""

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial

import pytest

from dragoman import Server
from scenarios.proxied_http import DEADLINE, HttpFront, stateless_meta
from scenarios.raw_http import answering, called, classic, event, modern, refusal, reply, result, stream

BATCHING = "2025-03-26"
CALL = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {"progressToken": "mine"}}


ERAS = pytest.mark.parametrize("is_stateless", [False, True], ids=["session", "stateless"])


async def answers_to(is_stateless, on_call, *calls):
    """Send calls through a proxy, and return the answers."""
    async with in_front_of(on_call, is_stateless=is_stateless) as (_, front):
        return [await front.ask("tools/call", params) for params in calls]


@asynccontextmanager
async def in_front_of(on_call, *, is_stateless, **options):
    """Serve a proxy whose connection to its target, which answers calls by a script, is there."""
    script = modern(on_call) if is_stateless else classic(on_call)
    async with answering(script) as raw, HttpFront(raw.url, is_stateless=is_stateless, **options) as front:
        await front.begin()
        yield raw, front


def answer_with(*said):
    """Answer the calls with these in turn, and everything else with a result."""
    left = list(said)

    async def on_call(request, writer):
        if request.method == "tools/call" and left:
            return left.pop(0)(request)
        return reply(200, result(request, called()))

    return on_call


@ERAS
async def test_proxy_forwards_parameters_unchanged(is_stateless):
    async def echo(request, writer):
        params = {key: value for key, value in request.json["params"].items() if key != "_meta"}
        return reply(200, result(request, {"content": [], "given": params, "exact": 1.0}))

    odd = {"name": "odd", "arguments": {"a": 1e2}, "x-unknown": None, "_meta": {"com.example/x": [1.0]}}
    answers = await answers_to(is_stateless, echo, CALL, odd, odd, {"name": "odd", "_meta": None})
    assert answers[1].last["result"]["given"] == {"name": "odd", "arguments": {"a": 1e2}, "x-unknown": None}


@ERAS
@pytest.mark.parametrize(
    "said",
    [
        lambda request: reply(200, result(request, called()), "application/json; charset=utf-8"),
        lambda request: reply(200, result(request, {"content": [], "long": "é" * 40_000})),
        lambda request: reply(200, result(request, {"content": [], "long": "x" * 300_000})),
        lambda request: reply(200, refusal(request.id, -32123, "It failed", {"why": [1.0]})),
        lambda request: reply(200, refusal(..., -32123, "It failed without an id")),
        lambda request: reply(400, refusal(request.id, -32602, "Wrong")),
        lambda request: reply(404, refusal(request.id, -32601, "Method not found")),
        lambda request: reply(403, b"no", "text/plain"),
        lambda request: reply(500, b"<title>Oh</title>", "text/html"),
        lambda request: reply(200, b"<html>", "text/html"),
        lambda request: reply(200, b"no json"),
        lambda request: reply(200, b""),
        lambda request: reply(202, kind=None),
        lambda request: reply(200, result(request, called()), connection="close"),
        lambda request: reply(200, {"jsonrpc": "2.0", "id": 9999, "result": {}}),
        lambda request: reply(200, {"jsonrpc": "2.0", "id": str(request.id), "result": called("by text")}),
        lambda request: stream(event(result(request, called("streamed")))),
        lambda request: stream(event(result(request, called())), end=False),
        lambda request: stream(
            event({"jsonrpc": "2.0", "method": "acme/said", "params": {"x": 1}}),
            event(progress(request, 1)),
            event(progress(request, 2)),
            event(result(request, called("after progress"))),
        ),
        lambda _: b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
async def test_client_gets_a_response_whatever_the_target_answers(said, is_stateless):
    odd, usual = await answers_to(is_stateless, answer_with(said), CALL, CALL)
    assert len({"result", "error"} & odd.last.keys()) == 1
    assert usual.last["result"]["content"] == called()["content"]


def progress(request, number):
    token = request.json["params"]["_meta"]["progressToken"]
    return {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": token, "progress": number},
    }


@ERAS
@pytest.mark.parametrize("cut", [0, 20, -5])
async def test_a_target_that_hangs_up_during_a_call_is_a_clear_error_and_the_next_call_is_served(cut, is_stateless):
    calls = []

    async def hang_up(request, writer):
        calls.append(request.id)
        if request.method == "tools/call" and len(calls) % 2:
            writer.write(reply(200, result(request, called()))[:cut])
            await writer.drain()
            writer.close()
            return None
        return reply(200, result(request, called()))

    async with in_front_of(hang_up, is_stateless=is_stateless) as (_, front):
        calls.clear()
        answer = await front.ask("tools/call", CALL)
        assert "may have been served" in answer.last["error"]["message"]
        assert (await front.ask("tools/call", CALL)).last["result"] == called()
        assert len(calls) == 2


async def test_a_session_that_the_target_has_forgotten_is_begun_again_and_the_call_is_served_once():
    served = []

    async def forget(request, writer):
        if request.method == "tools/call":
            served.append(request.id)
            if len(served) == 2:
                return reply(404, b"gone", "text/plain")
        return reply(200, result(request, called(str(len(served)))))

    async with answering(classic(forget)) as raw, HttpFront(raw.url) as front:
        await front.begin()
        assert [(await front.ask("tools/call", CALL)).last["result"] for _ in range(3)] == [
            called("1"),
            called("3"),
            called("4"),
        ]
        assert len(raw.sent("initialize")) == 2


async def test_a_call_in_flight_is_answered_though_another_finds_the_session_forgotten():
    going = asyncio.Event()

    async def forget(request, writer):
        if request.method == "acme/slow":
            await going.wait()
            return reply(200, result(request, called("slow")))
        if request.method == "acme/gone" and len(raw.sent("acme/gone")) == 1:
            return reply(404, b"gone", "text/plain")
        return reply(200, result(request, called()))

    async with answering(classic(forget)) as raw, HttpFront(raw.url) as front:
        await front.begin()
        reader, writer = await front.connect()
        writer.write(front.encoded(front.request("acme/slow", {})))
        await raw.until(lambda _: raw.sent("acme/slow"))
        await front.ask("acme/more", {})  # opens another connection to the target
        assert (await front.ask("acme/gone", {})).last["result"] == called()
        await asyncio.sleep(0.1)
        going.set()
        assert (await front.read(reader)).last["result"] == called("slow")
        writer.close()


@pytest.mark.parametrize("began", [b"", reply(200, b"x" * 50)[:-20], stream(event("{}"), end=False)])
async def test_a_cancelled_call_is_cancelled_at_the_target_and_its_connection_is_closed(began):
    reached = asyncio.Event()

    async def wait(request, writer):
        if request.method == "tools/call":
            writer.write(began)
            reached.set()
            await asyncio.Event().wait()
        return reply(200, result(request, called()))

    async with answering(classic(wait)) as raw, HttpFront(raw.url) as front:
        await front.begin()
        message = front.request("tools/call", CALL)
        calling = asyncio.ensure_future(front.post(message))
        await asyncio.wait_for(reached.wait(), DEADLINE)
        await asyncio.sleep(0.05)
        reader, writer = await front.connect()
        given = {"requestId": message["id"], "reason": "late"}
        writer.write(front.encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": given}))
        assert (await front.read(reader)).status == 202
        assert ((await calling).status, (await calling).messages) == (202, [])
        [told] = await raw.until(lambda _: raw.sent("notifications/cancelled"))
        assert told.json["params"]["requestId"] == raw.sent("tools/call")[0].id
        assert (await front.ask("acme/again", {})).last["result"] == called()
        writer.close()


async def answer_of_a_call_during_which_the_server_ends(pause, *, is_stateless):
    """Return the answer to a call that passes to a target, which waits before it answers, while the front ends."""

    async def wait(request, writer):
        if request.method == "tools/call":
            await pause()
        return reply(200, result(request, called()))

    async with in_front_of(wait, is_stateless=is_stateless) as (raw, front):
        calling = asyncio.ensure_future(front.ask("tools/call", CALL))
        await raw.until(lambda _: raw.sent("tools/call"))
        await front.stop()
        return (await calling).last


@ERAS
async def test_a_server_that_ends_answers_the_calls_that_its_target_serves(is_stateless):
    answer = await answer_of_a_call_during_which_the_server_ends(asyncio.Event().wait, is_stateless=is_stateless)
    assert "stopped" in answer["error"]["message"]


@ERAS
async def test_a_call_in_flight_is_answered_before_the_server_ends(is_stateless):
    pause = partial(asyncio.sleep, 0.3)
    answer = await answer_of_a_call_during_which_the_server_ends(pause, is_stateless=is_stateless)
    assert answer["result"] == called()


@pytest.mark.parametrize("name", ["add", "plain name", "añadir", "=?base64?x?="])
async def test_the_headers_of_a_stateless_request_name_its_method_and_tool(name):
    seen = []

    async def note(request, writer):
        names = ("mcp-protocol-version", "mcp-method", "mcp-name", "accept", "content-type")
        seen.append([request.headers.get(header) for header in names])
        return reply(200, result(request, called()))

    await answers_to(True, note, {"name": name}, {"name": "other"}, {"name": name})
    first, other, again = [headers for headers in seen if headers[1] == "tools/call"]
    assert first == again != other


async def test_arguments_mirrored_in_headers_are_checked():
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}
    repeated = []

    async def note(request, writer):
        repeated.append(request.headers.get("mcp-param-city"))
        return reply(200, result(request, called()))

    tools = [{"name": "forecast", "inputSchema": schema}, {"name": "other", "inputSchema": {"type": "object"}}]
    async with answering(modern(note, tools=tools)) as raw, HttpFront(raw.url, is_stateless=True) as front:
        await front.begin()
        await front.ask("tools/list", {})
        repeated.clear()
        asked = front.request("tools/call", {"name": "forecast", "arguments": {"city": "Oslo"}})
        reader, writer = await front.connect()
        writer.write(front.encoded(asked, **{"Mcp-Param-City": "Oslo"}))
        assert (await front.read(reader)).last["result"] == called()
        writer.write(front.encoded(asked))
        assert (await front.read(reader)).status == 400
        writer.close()
        await front.ask("tools/call", {"name": "other"})
    assert repeated == ["Oslo", None]


async def test_method_that_no_header_can_carry_is_refused():
    messages = asyncio.Queue()
    async with asyncio.timeout(DEADLINE), answering(modern(answer_with())) as raw:
        proxy = Server.proxy(raw.url)
        async with proxy.serving():
            connection = proxy.connect(lambda data: messages.put_nowait(json.loads(data)))
            answers = []
            for id, method in enumerate(("acme/first", "acme/añadir", "acme/again")):
                params = {"_meta": stateless_meta({})}
                request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
                connection.receive(json.dumps(request).encode() + b"\n")
                answers.append(await messages.get())
            connection.close()
    assert [one["id"] for one in answers] == [0, 1, 2]
    assert answers[1]["error"]["code"] == -32603
    assert answers[2]["result"] == called()
