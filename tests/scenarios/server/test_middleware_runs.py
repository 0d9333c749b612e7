"""Middleware that runs the rest of the chain in tasks of its own, and more than once."""

import asyncio

import pytest

from dragoman import BlockingContext, Configuration, Context, Server, ToolError
from dragoman.errors import InvalidRequest
from dragoman.testing import WirePeer
from scenarios.http_peer import STATELESS, HttpPeer, serve

pytestmark = pytest.mark.covers("CFG-18")
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
YES = {"action": "accept", "content": {"sure": True}}


async def in_time(call_next):
    return await asyncio.wait_for(call_next(), 30)


async def in_a_task(call_next):
    return await asyncio.create_task(call_next())


async def gathered(call_next):
    [result] = await asyncio.gather(call_next())
    return result


async def in_a_group(call_next):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(call_next())
    return task.result()


async def shielded(call_next):
    return await asyncio.shield(call_next())


async def twice(call_next):
    await call_next()
    return await call_next()


EVERY_WAY = pytest.mark.parametrize(
    "way", [in_time, in_a_task, gathered, in_a_group, shielded, twice], ids=lambda way: way.__name__
)


def asking(way):
    """Return a server whose tools ask, behind a middleware that runs them so."""
    server = Server("shop", secret="a secret of sixteen")

    @server.tool
    async def book(ctx: Context) -> str:
        first = await ctx.elicit("Really?", SURE)
        second = await ctx.elicit("Really really?", SURE)
        return f"{first.action} {second.action}"

    @server.tool
    def book_blocking(ctx: BlockingContext) -> str:
        return f"{ctx.elicit('Really?', SURE).action} {ctx.elicit('Really really?', SURE).action}"

    @server.tool
    async def book_both(ctx: Context) -> str:
        answers = await asyncio.gather(ctx.elicit("One?", SURE), ctx.elicit("Two?", SURE))
        return " ".join(answer.action for answer in answers)

    @server.middleware
    async def around(ctx, call_next):
        return await way(call_next) if ctx.method == "tools/call" else await call_next()

    return server


async def rounds_of(peer, tool):
    """Answer the questions of a tool; return the keys of each round, and the last result."""
    params, keys = {"name": tool, "arguments": {}}, []
    while True:
        if isinstance(peer, WirePeer):
            answer = await peer.request("tools/call", params)
        else:
            answer = (await peer.request("tools/call", params, {"mcp-name": tool})).json
        result = answer["result"]
        if "inputRequests" not in result:
            return keys, result["content"][0]["text"]
        keys.append(sorted(result["inputRequests"]))
        responses = dict.fromkeys(result["inputRequests"], YES)
        params |= {"inputResponses": responses, "requestState": result["requestState"]}


@EVERY_WAY
@pytest.mark.parametrize("carrier", ["duplex", "http"])
@pytest.mark.parametrize("tool", ["book", "book_blocking", "book_both"])
async def test_a_question_of_the_stateless_era_passes_middleware_that_uses_tasks(way, carrier, tool):
    server = asking(way)
    expected = [["elicit-1", "elicit-2"]] if tool == "book_both" else [["elicit-1"], ["elicit-2"]]
    if carrier == "duplex":
        async with WirePeer(server, "stateless", capabilities={"elicitation": {}}) as peer:
            assert await rounds_of(peer, tool) == (expected, "accept accept")
            assert "result" in await peer.request("tools/list")
    else:
        peer = HttpPeer(serve(server), STATELESS, capabilities={"elicitation": {}})
        assert await rounds_of(peer, tool) == (expected, "accept accept")


@EVERY_WAY
async def test_a_middleware_inside_may_ask_and_the_handler_has_keys_after_its_own(way):
    server = asking(way)

    @server.middleware
    async def approve(ctx, call_next):
        if ctx.method == "tools/call" and not (await ctx.elicit("May it?", SURE)).accepted:
            raise ToolError("No")
        return await call_next()

    async with WirePeer(server, "stateless", capabilities={"elicitation": {}}) as peer:
        keys, text = await rounds_of(peer, "book")
    assert (keys, text) == ([["elicit-1"], ["elicit-2"], ["elicit-3"]], "accept accept")


@EVERY_WAY
async def test_a_middleware_may_ask_after_the_rest_of_the_chain_has_run(way):
    server = Server("shop", secret="a secret of sixteen")

    @server.tool
    async def price() -> str:
        return "nine"

    @server.middleware
    async def confirm(ctx, call_next):
        result = await way(call_next)
        if ctx.method == "tools/call":
            await ctx.elicit("Show it?", SURE)
        return result

    async with WirePeer(server, "stateless", capabilities={"elicitation": {}}) as peer:
        assert await rounds_of(peer, "price") == ([["elicit-1"]], "nine")


async def test_a_handler_that_runs_again_finds_its_answers_and_its_steps():
    server, runs, steps = Server("shop", secret="a secret of sixteen"), [], []

    @server.tool
    async def book(ctx: Context) -> str:
        answer = await ctx.elicit("Really?", SURE)
        number = await ctx.step("number", lambda: steps.append(1) or len(steps))
        runs.append(number)
        if len(runs) == 1:
            raise InvalidRequest("Not yet")
        return f"{answer.action} {number}"

    @server.middleware
    async def again(ctx, call_next):
        try:
            return await call_next()
        except InvalidRequest:
            return await call_next()

    async with WirePeer(server, "stateless", capabilities={"elicitation": {}}) as peer:
        assert await rounds_of(peer, "book") == ([["elicit-1"]], "accept 1")
    assert (runs, steps) == ([1, 1], [1])


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("way", [in_time, in_a_task, gathered, in_a_group], ids=lambda way: way.__name__)
async def test_a_request_that_is_cancelled_ends_its_handler_in_another_task(era, way):
    server, begun, ended = asking(way), asyncio.Event(), []

    @server.tool
    async def sleep(ctx: Context) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(ctx.cancelled)
        return "never"

    async with WirePeer(server, era) as peer:
        id = peer.start("tools/call", {"name": "sleep"})
        await begun.wait()
        peer.notify("notifications/cancelled", {"requestId": id})
        await peer._connection.drain()
        assert ended == [True]
        assert "result" in await peer.request("tools/list")
        assert not peer._waiting[id].done()


@pytest.mark.parametrize("has_middleware", [True, False])
@pytest.mark.parametrize("raised", [LookupError("a mistake"), InvalidRequest("not so"), ToolError("no")])
async def test_a_failure_of_a_notification_is_reported_once_as_it_is(has_middleware, raised):
    reports, seen = [], []
    configuration = Configuration(exception_reporter=lambda error, info: reports.append((error, info)))
    server = Server("shop", configuration=configuration)

    @server.method("acme/fail")
    def fail() -> None:
        raise raised

    async def watch(ctx, call_next):
        try:
            return await call_next()
        except Exception as error:
            seen.append(error)
            raise

    if has_middleware:
        server.middleware(watch)
    async with WirePeer(server) as peer:
        peer.notify("acme/fail")
        await peer._connection.drain()
    assert reports == [(raised, {"notification": "acme/fail"})]
    assert seen == ([raised] if has_middleware else [])
