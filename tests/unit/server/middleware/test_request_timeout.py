"""RequestTimeout: what is stopped, what is said, and what is not its business."""

import asyncio
import threading

import pytest

from dragoman import Context, Server, ToolError
from dragoman.server.middleware import RequestTimeout
from dragoman.stores import Memory
from dragoman.testing import WirePeer
from scenarios.http_peer import STATELESS, HttpPeer, serve
from scenarios.task_peer import SECOND, task_peer

pytestmark = pytest.mark.covers("MID-04")
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


class Shop:
    def __init__(self, *, seconds=0.02, **options):
        self.server = server = Server("shop", secret="a secret of sixteen", store=Memory())
        self.ended: list[str] = []
        self.go, self.finished = threading.Event(), threading.Event()

        @server.tool
        async def sleep() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.append("sleep")
            return "never"

        @server.tool
        def block() -> str:
            self.go.wait(30)
            self.ended.append("block")
            self.finished.set()
            return "late"

        @server.tool
        async def own_limit() -> str:
            raise TimeoutError("of the tool")

        @server.resource("docs://slow")
        async def slow() -> str:
            await asyncio.Event().wait()
            return "never"

        server.middleware(RequestTimeout(seconds, **options))


@ERAS
async def test_a_tool_that_takes_too_long_is_cancelled_and_the_model_is_told(era):
    shop = Shop()
    async with WirePeer(shop.server, era) as peer:
        result = (await peer.request("tools/call", {"name": "sleep"}))["result"]
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": "This took longer than 0.02 seconds and was stopped"}]
        assert shop.ended == ["sleep"]
        assert "result" in await peer.request("tools/list")


async def test_over_http_too():
    shop = Shop()
    exchange = await HttpPeer(serve(shop.server), STATELESS).request(
        "tools/call", {"name": "sleep"}, {"mcp-name": "sleep"}
    )
    assert exchange.json["result"]["isError"] is True
    assert shop.ended == ["sleep"]


@ERAS
async def test_a_blocking_tool_is_answered_in_time_and_ends_later(era):
    shop = Shop(seconds=0.5)  # a call that no thread has begun when the time is over is never made
    async with WirePeer(shop.server, era) as peer:
        result = (await peer.request("tools/call", {"name": "block"}))["result"]
        assert (result["isError"], shop.ended) == (True, [])
        shop.go.set()
        assert await asyncio.to_thread(shop.finished.wait, 10)
    assert shop.ended == ["block"]


async def test_other_methods_have_the_limit_only_if_they_are_named():
    shop = Shop(methods=["resources/read"], seconds=0.01)
    async with WirePeer(shop.server) as peer:
        error = (await peer.request("resources/read", {"uri": "docs://slow"}))["error"]
        assert error == {"code": -32603, "message": "This took longer than 0.01 seconds and was stopped"}
        id = peer.start("tools/call", {"name": "sleep"})
        await peer.request("tools/list")
        peer.notify("notifications/cancelled", {"requestId": id})
        await peer.request("tools/list")
    assert shop.ended == ["sleep"]


async def test_a_time_out_of_the_tool_itself_is_not_taken_for_the_limit(caplog):
    async with WirePeer(Shop(seconds=30).server) as peer:
        result = (await peer.request("tools/call", {"name": "own_limit"}))["result"]
    assert result["content"][0]["text"] == "Internal error occurred"
    assert "TimeoutError: of the tool" in caplog.text


async def test_a_time_out_of_another_middleware_is_not_taken_for_the_limit(caplog):
    shop = Shop(seconds=30)

    @shop.server.middleware
    async def impatient(ctx, call_next):
        if ctx.method == "tools/call":
            raise TimeoutError("of the middleware")
        return await call_next()

    async with WirePeer(shop.server) as peer:
        assert (await peer.request("tools/call", {"name": "sleep"}))["error"]["message"] == "Internal error"


async def test_a_question_of_the_stateless_era_is_sent_before_the_limit_and_each_round_has_its_own():
    server = Server("shop", secret="a secret of sixteen")

    @server.tool
    async def name(ctx: Context) -> str:
        answer = await ctx.elicit("Name?", {"type": "object", "properties": {}})
        return answer.action

    server.middleware(RequestTimeout(30))
    async with WirePeer(server, "stateless", capabilities={"elicitation": {}}) as peer:
        asked = (await peer.request("tools/call", {"name": "name"}))["result"]
        [key] = asked["inputRequests"]
        again = {"inputResponses": {key: {"action": "decline"}}, "requestState": asked["requestState"]}
        answered = await peer.request("tools/call", {"name": "name", **again})
    assert answered["result"]["content"][0]["text"] == "decline"


async def test_the_run_of_a_task_is_not_limited():
    server = Server("tasks", store=Memory(), secret="a secret of sixteen")

    @server.tool(task=True)
    async def render() -> str:
        await asyncio.sleep(0.1)  # longer than the limit
        return "done"

    server.middleware(RequestTimeout(0.05))
    async with task_peer(server, SECOND) as peer:
        created = await peer.start("render")
        assert (await peer.outcome(created["taskId"]))["result"]["content"][0]["text"] == "done"


async def test_a_limit_around_a_limit_is_the_shorter_one():
    shop = Shop(seconds=30)
    shop.server.middleware(RequestTimeout(0.01))
    async with WirePeer(shop.server) as peer:
        result = (await peer.request("tools/call", {"name": "sleep"}))["result"]
    assert "0.01 seconds" in result["content"][0]["text"]


async def test_a_tool_that_raises_for_the_model_keeps_its_words():
    shop = Shop(seconds=30)

    @shop.server.tool
    async def refuse() -> str:
        raise ToolError("No such city")

    async with WirePeer(shop.server) as peer:
        result = (await peer.request("tools/call", {"name": "refuse"}))["result"]
    assert result["content"][0]["text"] == "No such city"
