"""Concurrency: who is served, who waits, who is refused, and that nobody keeps a place."""

import asyncio
import gc

import pytest

from dragoman import AsyncClient, Server
from dragoman.auth import Identity
from dragoman.server.middleware import Concurrency
from dragoman.testing import WirePeer
from scenarios.http_peer import STATELESS, HttpPeer, serve

pytestmark = pytest.mark.covers("MID-02")


class Shop:
    """A server with a tool that waits for its turn to end."""

    def __init__(self, *args, **options):
        self.server = server = Server("shop", secret="a secret of sixteen")
        self.inside: list[str] = []
        self.most = 0
        self.doors: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()
        self.limit = server.middleware(Concurrency(*args, **options))

        @server.tool
        async def visit(name: str, who: str = "") -> str:
            self.inside.append(name)
            self.most = max(self.most, len(self.inside))
            self._changed.set()
            try:
                await self.door(name).wait()
            finally:
                self.inside.remove(name)
                self._changed.set()
            return name

    def door(self, name):
        return self.doors.setdefault(name, asyncio.Event())

    async def until(self, *names):
        """Wait until these are inside, and nobody else."""
        async with asyncio.timeout(60):
            while sorted(self.inside) != sorted(names):
                self._changed.clear()
                await self._changed.wait()

    def waiting(self):
        """Return how many requests wait, at all gates of this loop."""
        return sum(gate._waiting for gates in self.limit._gates.values() for gate in gates.values())


def visit(peer, name, **arguments):
    return peer.start("tools/call", {"name": "visit", "arguments": {"name": name} | arguments})


def text_of(answer):
    return answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_so_many_are_served_at_a_time_and_the_others_in_the_order_in_which_they_came(era):
    shop = Shop(2)
    async with WirePeer(shop.server, era) as peer:
        ids = [visit(peer, name) for name in "abcde"]
        await shop.until("a", "b")
        assert "result" in await peer.request("tools/list")  # what is not limited does not wait
        assert shop.waiting() == 3
        shop.door("b").set()
        await shop.until("a", "c")
        for name in "acde":
            shop.door(name).set()
        assert [text_of(await peer.response(id)) for id in ids] == list("abcde")
    assert shop.most == 2


async def test_a_request_that_finds_the_queue_full_is_refused_at_once():
    shop = Shop(1, max_waiting=1)
    async with WirePeer(shop.server) as peer:
        ids = [visit(peer, name) for name in "abc"]
        refused = await peer.response(ids[2])
        assert refused["error"] == {
            "code": -31029,
            "message": "Too many requests run, and too many wait; try again later",
        }
        shop.door("a").set()
        shop.door("b").set()
        assert [text_of(await peer.response(id)) for id in ids[:2]] == ["a", "b"]


async def test_without_a_queue_a_free_place_is_taken_and_everybody_else_is_refused():
    shop = Shop(1, max_waiting=0)
    async with WirePeer(shop.server) as peer:
        for _ in range(2):
            shop.door("a").clear()
            first = visit(peer, "a")
            await shop.until("a")
            assert "error" in await peer.response(visit(peer, "b"))
            shop.door("a").set()
            assert text_of(await peer.response(first)) == "a"


async def test_who_waits_too_long_is_refused_and_takes_no_place():
    shop = Shop(1, wait=0.02)
    async with WirePeer(shop.server) as peer:
        first = visit(peer, "a")
        refused = await peer.response(visit(peer, "b"))
        assert refused["error"]["message"] == "Too many requests run: no turn within 0.02 seconds"
        shop.door("a").set()
        shop.door("c").set()
        assert text_of(await peer.response(first)) == "a"
        assert text_of(await peer.response(visit(peer, "c"))) == "c"


@pytest.mark.parametrize("victim", ["a", "b"])
async def test_a_request_that_is_cancelled_leaves_its_place(victim):
    shop = Shop(1)
    async with WirePeer(shop.server) as peer:
        ids = {name: visit(peer, name) for name in "abc"}
        await shop.until("a")
        peer.notify("notifications/cancelled", {"requestId": ids[victim]})
        shop.door("a").set()
        await shop.until({"a": "b", "b": "c"}[victim])
        for name in "bc":
            shop.door(name).set()
        assert text_of(await peer.response(ids["c"])) == "c"
    assert (shop.inside, shop.most) == ([], 1)


async def test_a_tool_that_fails_leaves_its_place():
    shop = Shop(1)

    @shop.server.tool
    async def crash() -> str:
        raise LookupError("a mistake")

    async with WirePeer(shop.server) as peer:
        for _ in range(3):
            assert (await peer.request("tools/call", {"name": "crash"}))["result"]["isError"]
            assert "error" in await peer.request("tools/call", {"name": "nobody"})


async def test_each_key_has_places_and_a_queue_of_its_own():
    shop = Shop(3, per_key=1, by=lambda ctx: ctx.arguments.get("who"), max_waiting=1)
    async with WirePeer(shop.server) as peer:
        greedy = [visit(peer, f"a{number}", who="a") for number in range(3)]
        other = visit(peer, "b", who="b")
        nobody = visit(peer, "n")
        await shop.until("a0", "b", "n")
        assert "too many wait" in (await peer.response(greedy[2]))["error"]["message"]
        waiting = visit(peer, "c", who="c")  # there is no place for anybody, but one in the queue of all
        shop.door("b").set()
        await shop.until("a0", "c", "n")
        for name in ("a0", "a1", "c", "n"):
            shop.door(name).set()
        answers = [text_of(await peer.response(id)) for id in (*greedy[:2], other, nobody, waiting)]
    assert answers == ["a0", "a1", "b", "n", "c"]


async def test_a_limit_for_each_principal_needs_no_limit_of_all():
    shop = Shop(per_key=1, max_waiting=0)
    app = serve(shop.server, auth=lambda request: Identity(request.headers["authorization"]))

    def sent(who, name):
        params = {"name": "visit", "arguments": {"name": name}}
        return asyncio.create_task(
            HttpPeer(app, STATELESS).request("tools/call", params, {"authorization": who, "mcp-name": "visit"})
        )

    first, other = sent("ada", "a"), sent("bob", "b")
    await shop.until("a", "b")
    assert (await sent("ada", "c")).json["error"]["code"] == -31029
    shop.door("a").set()
    shop.door("b").set()
    assert [text_of((await one).json) for one in (first, other)] == ["a", "b"]


async def test_gates_that_nobody_uses_are_forgotten():
    shop = Shop(5, per_key=1, by=lambda ctx: ctx.arguments["who"])
    shop.door("x").set()
    async with WirePeer(shop.server) as peer:
        for number in range(50):
            assert text_of(await peer.response(visit(peer, "x", who=f"user {number}"))) == "x"
    gc.collect()
    assert sum(len(gates) for gates in shop.limit._gates.values()) == 0


async def test_a_crowd_is_served_completely_while_some_of_it_leaves():
    shop = Shop(4, per_key=2, by=lambda ctx: ctx.arguments["who"], max_waiting=1000, wait=30)
    async with AsyncClient(shop.server) as client:

        async def visited(number):
            return await client.call_tool("visit", {"name": str(number), "who": str(number % 5)})

        tasks = [asyncio.create_task(visited(number)) for number in range(200)]
        await shop.until("0", "1", "2", "3")
        for task in tasks[::7]:
            task.cancel()
        for number in range(200):
            shop.door(str(number)).set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [
            number % 7 == 0 for number in range(200)
        ]
        assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        assert (await visited(1)).text == "1"
    assert shop.most <= 4


def test_one_middleware_serves_several_loops_one_after_another():
    shop = Shop(1)

    async def visited():
        shop.doors.clear()
        shop.door("a").set()
        async with WirePeer(shop.server) as peer:
            return [text_of(await peer.response(visit(peer, "a"))) for _ in range(2)]

    for _ in range(2):
        shop._changed = asyncio.Event()
        assert asyncio.run(visited()) == ["a", "a"]


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_the_run_of_a_task_waits_for_its_turn_for_as_long_as_it_takes(mode):
    server, inside = Server("kitchen"), []
    # The calls that make the tasks do not count here, because they would wait behind the runs.
    runs = Concurrency(per_key=1, by=lambda ctx: "run" if ctx.task.id else None, wait=0.05, max_waiting=0)
    server.middleware(runs)

    @server.tool(task=True)
    async def bake(number: int) -> str:
        inside.append(number)
        assert len(inside) == 1
        await asyncio.sleep(0.15)  # longer than a request may wait
        inside.remove(number)
        return f"bread {number}"

    async with AsyncClient(server, mode=mode, tasks=True) as client:
        async with asyncio.timeout(60):
            results = await asyncio.gather(*(client.call_tool("bake", {"number": number}) for number in range(4)))
    assert [result.text for result in results] == [f"bread {number}" for number in range(4)]
