"""RateLimit: who has to wait, for how long, and what is shared."""

import asyncio

import pytest

from dragoman import AsyncClient, RpcError, Server
from dragoman.auth import Identity
from dragoman.errors import TooManyRequests
from dragoman.server.middleware import RateLimit
from dragoman.stores import Local, Memory, Redis
from dragoman.testing import WirePeer
from redis_server import RedisServer
from redis_store import fresh
from scenarios.http_crew import RUN, Client, crew
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer, serve
from scenarios.task_peer import SECOND, task_peer

pytestmark = pytest.mark.covers("MID-01")
ADD = ("tools/call", {"name": "add", "arguments": {"a": 1}})


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def limited(*limits, **options):
    server = Server(**{"name": "shop", "secret": "a secret of sixteen"} | options)

    @server.tool
    def add(a: int) -> str:
        return str(a + 1)

    for limit in limits:
        server.middleware(limit)
    return server


def wait_of(answer):
    """Return the seconds that a refused request has to wait; None for a request that was served."""
    return answer["error"]["data"]["retryAfter"] if "error" in answer else None


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_bucket_is_emptied_at_once_and_filled_again_in_time(era, clock):
    server = limited(RateLimit(4, seconds=2, clock=clock))
    async with WirePeer(server, era) as peer:
        assert [wait_of(await peer.request(*ADD)) for _ in range(6)] == [None] * 4 + [0.5, 0.5]
        clock.now += 0.4
        assert wait_of(await peer.request(*ADD)) == pytest.approx(0.1)
        clock.now += 0.1
        assert [wait_of(await peer.request(*ADD)) for _ in range(2)] == [None, 0.5]
        clock.now += 3600
        assert [wait_of(await peer.request(*ADD)) for _ in range(5)] == [None] * 4 + [0.5]
        assert "result" in await peer.request("tools/list")


async def test_the_refusal_is_an_error_that_says_what_is_permitted_and_when(clock):
    server = limited(RateLimit(1, seconds=60, burst=2, clock=clock))
    async with AsyncClient(server) as client:
        for _ in range(2):
            await client.call_tool("add", {"a": 1})
        with pytest.raises(RpcError, match="at most 1 requests in 60 seconds; wait 60 seconds") as refused:
            await client.call_tool("add", {"a": 1})
    assert (refused.value.code, refused.value.data) == (TooManyRequests.CODE, {"retryAfter": 60})


async def test_other_middleware_sees_the_refusal_and_its_wait(clock):
    server, seen = limited(), []

    @server.middleware
    async def watch(ctx, call_next):
        try:
            return await call_next()
        except TooManyRequests as error:
            seen.append((error.retry_after, error.label))
            raise

    server.middleware(RateLimit(1, seconds=5, clock=clock))
    async with WirePeer(server) as peer:
        await peer.request(*ADD)
        assert wait_of(await peer.request(*ADD)) == 5
    assert seen == [(5, "too_many_requests")]


@pytest.mark.parametrize("version", [NEWEST, STATELESS])
async def test_each_principal_has_a_bucket_and_a_request_that_is_refused_otherwise_counts(version, clock):
    server = limited(RateLimit(2, seconds=60, clock=clock))
    app = serve(server, auth=lambda request: Identity(request.headers["authorization"]))
    peers = {name: HttpPeer(app, version) for name in ("ada", "bob")}
    for name, peer in peers.items():
        if version == NEWEST:
            introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
            begun = await peer.request("initialize", introduction, {"authorization": name})
            peer.session = begun.headers["mcp-session-id"]

    async def wait(name, tool):
        head = {"authorization": name, "mcp-protocol-version": version, "mcp-name": tool}
        answered = await peers[name].request("tools/call", {"name": tool, "arguments": {"a": 1}}, head)
        return answered.json.get("error", {}).get("data", {}).get("retryAfter")

    assert [await wait("ada", tool) for tool in ("add", "nobody", "add")] == [None, None, 30]
    assert await wait("bob", "add") is None


async def test_a_session_may_have_a_bucket_and_without_one_the_principal_has(clock):
    server = limited(RateLimit(1, seconds=60, by="session", clock=clock))
    app = serve(server)
    for _ in range(2):
        peer = HttpPeer(app, NEWEST)
        await peer.initialize()
        head = {"mcp-protocol-version": NEWEST}
        assert [wait_of((await peer.request(*ADD, head)).json) for _ in range(2)] == [None, 60]
    answers = [(await HttpPeer(app, STATELESS).request(*ADD, {"mcp-name": "add"})).json for _ in range(2)]
    assert [wait_of(answer) for answer in answers] == [None, 60]


async def test_a_function_says_for_whom_a_request_counts_and_none_for_nobody(clock):
    server = limited(RateLimit(1, seconds=60, by=lambda ctx: ctx.arguments.get("who"), clock=clock))
    async with WirePeer(server) as peer:

        async def wait(**who):
            return wait_of(await peer.request("tools/call", {"name": "add", "arguments": {"a": 1} | who}))

        assert [await wait(who="a"), await wait(who="b"), await wait(who="a")] == [None, None, 60]
        assert [await wait() for _ in range(3)] == [None] * 3
        assert (await peer.request("tools/call", {"name": "add", "arguments": {"a": 1, "who": 5}}))["error"] == {
            "code": -32603,
            "message": "Internal error",
        }


async def test_other_methods_may_count_and_limits_add_up(clock):
    slow = RateLimit(3, seconds=3600, methods=["tools/list", "tools/call"], clock=clock)
    server = limited(RateLimit(1, seconds=1, clock=clock), slow)
    async with WirePeer(server) as peer:
        assert [wait_of(await peer.request("tools/list")) for _ in range(2)] == [None, None]
        assert [wait_of(await peer.request(*ADD)) for _ in range(2)] == [None, 1]
        clock.now += 1
        assert wait_of(await peer.request(*ADD)) == 1199


async def test_only_so_many_callers_are_remembered_and_the_one_who_was_here_last_is(clock):
    limit = RateLimit(1, seconds=60, by=lambda ctx: ctx.arguments["who"], max_keys=2, clock=clock)
    server = limited(limit)
    async with WirePeer(server) as peer:

        async def wait(who):
            return wait_of(await peer.request("tools/call", {"name": "add", "arguments": {"a": 1, "who": who}}))

        assert [await wait(who) for who in ("a", "b", "a", "c", "a", "b")] == [None, None, 60, None, 60, None]
    assert len(limit._full_at) == 2


async def test_a_request_that_becomes_a_task_counts_once():
    server = Server("tasks", store=Memory(), secret="a secret of sixteen")

    @server.tool(task=True)
    async def add(a: int) -> int:
        return a + 1

    server.middleware(RateLimit(2, seconds=3600))
    async with task_peer(server, SECOND) as peer:
        for _ in range(2):
            created = await peer.start("add", a=1)
            await peer.until(created["taskId"], "completed")
        assert wait_of(await peer.response("tools/call", name="add", arguments={"a": 1})) is not None


async def test_servers_with_one_store_share_buckets_by_its_clock(clock):
    store = Memory(clock=clock)
    servers = [limited(RateLimit(2, seconds=60, store=True), store=store) for _ in range(2)]
    async with WirePeer(servers[0]) as one, WirePeer(servers[1]) as other:
        waits = [wait_of(await peer.request(*ADD)) for peer in (one, other, one, other)]
        assert waits == [None, None, 30, 30]
        clock.now += 30
        assert [wait_of(await peer.request(*ADD)) for peer in (other, one)] == [None, 30]
        clock.now -= 10_000  # a clock that is set back keeps nobody out for long
        assert wait_of(await one.request(*ADD)) == 30


@pytest.mark.parametrize("engine", ["memory", "local", "redis"])
async def test_new_secret_begins_a_new_count_and_leaves_the_old_one_alone(engine, tmp_path, redis_server):
    stores = {"memory": Memory, "local": lambda: Local(tmp_path), "redis": lambda: Redis(redis_server.url)}
    store, name = stores[engine](), fresh()
    old, new = (
        limited(RateLimit(2, seconds=3600, store=True), name=name, store=store, secret=secret)
        for secret in ("a secret of sixteen", "a new secret of sixteen")
    )
    async with WirePeer(old) as one, WirePeer(new) as other:
        assert [wait_of(await one.request(*ADD)) is None for _ in range(3)] == [True, True, False]
        assert [wait_of(await other.request(*ADD)) is None for _ in range(3)] == [True, True, False]
        assert wait_of(await one.request(*ADD)) is not None
    await store.close()


async def test_a_long_key_and_two_limits_are_kept_apart_in_the_store(clock):
    limits = [RateLimit(n, seconds=60, store=True, by=lambda ctx: "ü" * 5000) for n in (1, 2)]
    server = limited(*limits, store=Memory(clock=clock))
    async with WirePeer(server) as peer:
        assert [wait_of(await peer.request(*ADD)) for _ in range(2)] == [None, 60]
        clock.now += 60
        assert wait_of(await peer.request(*ADD)) is None


async def test_machines_that_share_redis_count_together_and_are_refused_when_it_is_away(tmp_path, caplog):
    with RedisServer(tmp_path) as redis:
        stores = [Redis(redis.url) for _ in range(2)]
        servers = [limited(RateLimit(5, seconds=3600, store=True), store=store) for store in stores]
        async with WirePeer(servers[0]) as one, WirePeer(servers[1]) as other:
            answers = await asyncio.gather(*(peer.request(*ADD) for peer in (one, other) * 10))
            assert sum(wait_of(answer) is None for answer in answers) == 5
            redis.stop()
            away = await one.request(*ADD)
            assert "cannot be reached; try again later" in away["error"]["message"]
        for store in stores:
            await store.close()


SERVER = """
    import os, sys
    from dragoman import Server
    from dragoman.server.middleware import RateLimit

    server = Server("crew")
    server.middleware(RateLimit(10, seconds=3600, store=True))


    @server.tool
    async def pid() -> int:
        return os.getpid()
"""


async def test_workers_that_are_processes_count_together():
    async with crew(workers=3, source=SERVER + RUN) as processes:
        await processes.ready()
        async with Client.of(processes) as client:

            async def is_refused():
                async with client.call("pid") as response:
                    return wait_of(await response.json()) is not None

            assert sum(await asyncio.gather(*(is_refused() for _ in range(30)))) == 20
