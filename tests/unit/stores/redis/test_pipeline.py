"""The commands of a loop: one write a turn, limits of time, and nothing that is sent twice."""

import asyncio
import time

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from dragoman.stores.redis import pipeline as pipelines
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.connection import RedisConnection
from dragoman.stores.redis.pipeline import Pipeline
from dragoman.stores.redis.scripts import Script
from ports import free_port
from redis_proxy import proxied
from redis_server import RedisServer
from redis_store import fresh, until

LIMIT = 0.3


async def test_the_commands_of_one_turn_leave_in_one_write(redis_server):
    pipeline = Pipeline(RedisAddress(redis_server.url), LIMIT)
    await pipeline.call("PING")
    connection = pipeline._reconnector.connection
    assert connection is not None
    writes: list[bytes] = []
    send, connection.write = connection.write, lambda packed: writes.append(packed) or send(packed)
    assert await asyncio.gather(*(pipeline.call("ECHO", f"{number}") for number in range(50))) == [
        b"%d" % number for number in range(50)
    ]
    assert len(writes) == 1
    await pipeline.close()


async def test_a_server_that_is_not_there_is_an_error_within_the_limit_and_later_at_once():
    port = free_port()
    pipeline = Pipeline(RedisAddress(f"redis://127.0.0.1:{port}"), LIMIT)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=rf"Redis at redis://127\.0\.0\.1:{port} cannot be reached"):
        await pipeline.call("PING")
    assert LIMIT * 0.9 <= time.monotonic() - began < LIMIT + 5
    await until(lambda: pipeline._reconnector.is_away)
    refused = pipeline.send("PING")
    assert refused.done()
    assert "cannot be reached" in str(refused.exception())
    await pipeline.close()


async def test_a_command_waits_for_a_server_that_comes_back_within_the_limit(tmp_path):
    server = RedisServer(tmp_path)
    pipeline = Pipeline(RedisAddress(server.url), 10.0)
    waiting = [asyncio.ensure_future(pipeline.call("INCR", "counter")) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.to_thread(server.start)
    assert await asyncio.gather(*waiting) == list(range(1, 11))
    await asyncio.to_thread(server.stop)
    await until(lambda: pipeline._reconnector.connection is None)
    again = asyncio.ensure_future(pipeline.call("INCR", "counter"))
    await asyncio.sleep(0)
    await asyncio.to_thread(server.start)
    assert await again == 1
    await pipeline.close()
    server.kill()


async def test_a_server_that_does_not_answer_is_given_up_and_its_commands_are_not_sent_again(redis_server):
    name = fresh()
    async with proxied(redis_server) as proxy:
        pipeline = Pipeline(RedisAddress(proxy.url), LIMIT)
        assert await pipeline.call("INCR", name) == 1
        proxy.is_mute = True
        began = time.monotonic()
        outcomes = await asyncio.gather(*(pipeline.call("INCR", name) for _ in range(5)), return_exceptions=True)
        assert time.monotonic() - began < LIMIT + 5
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 5
        assert "did not answer within 0.3 s; the change may have been made" in str(outcomes[0])
        proxy.is_mute = False
        assert await pipeline.call("INCR", name) == 7
        await pipeline.close()


async def test_a_command_that_was_not_sent_is_sent_on_the_next_connection(redis_server):
    name = fresh()
    async with proxied(redis_server) as proxy:
        pipeline = Pipeline(RedisAddress(proxy.url), 5.0)
        await pipeline.call("PING")
        for expected in range(1, 6):
            proxy.cut()
            await until(lambda: pipeline._reconnector.connection is None)
            assert await pipeline.call("INCR", name) == expected
        await pipeline.close()


async def test_a_blocked_loop_does_not_take_the_server_for_silent(redis_server, caplog):
    pipeline = Pipeline(RedisAddress(redis_server.url), LIMIT)
    await pipeline.call("PING")
    waiting = asyncio.ensure_future(pipeline.call("INCR", fresh()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    time.sleep(LIMIT * 2)  # noqa: ASYNC251
    assert await waiting == 1
    assert not caplog.records
    await pipeline.close()


async def test_a_cancelled_caller_leaves_the_others_their_replies(redis_server):
    pipeline = Pipeline(RedisAddress(redis_server.url), LIMIT)
    await pipeline.call("PING")
    unsent = asyncio.ensure_future(pipeline.call("ECHO", "unsent"))
    await asyncio.sleep(0)
    unsent.cancel()
    waiting = [asyncio.ensure_future(pipeline.call("ECHO", f"{number}")) for number in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting[1].cancel()
    assert await asyncio.gather(*waiting, return_exceptions=True) != []
    assert [waiting[0].result(), waiting[2].result()] == [b"0", b"2"]
    assert waiting[1].cancelled()
    await pipeline.close()


@pytest.mark.parametrize("bound", ["MAX_WAITING", "MAX_UNSENT_BYTES"])
async def test_commands_beyond_the_bound_are_refused(monkeypatch, bound):
    monkeypatch.setattr(pipelines, bound, 3 if bound == "MAX_WAITING" else 100)
    pipeline = Pipeline(RedisAddress(f"redis://127.0.0.1:{free_port()}"), LIMIT)
    outcomes = await asyncio.gather(*(pipeline.call("ECHO", "x" * 20) for _ in range(10)), return_exceptions=True)
    assert ["too many commands wait" in str(outcome) for outcome in outcomes].count(True) > 5
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    await pipeline.close()


async def test_closing_fails_what_waits_and_a_later_command_opens_again(redis_server):
    pipeline = Pipeline(RedisAddress(redis_server.url), 5.0)
    waiting = asyncio.ensure_future(pipeline.call("PING"))
    await asyncio.sleep(0)
    await pipeline.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting
    assert await pipeline.call("PING") == b"PONG"
    await pipeline.close()
    await pipeline.close()


async def test_scripts_are_sent_again_to_a_server_that_has_forgotten_them(redis_server):
    state = (store := Redis(redis_server.url)).state(fresh())
    await state.set("key", b"1")
    redis_store.call(redis_server, "SCRIPT", "FLUSH")
    await asyncio.gather(*(state.set("key", b"%d" % number) for number in range(10)))
    found = await state.get("key")
    assert found is not None
    assert found.value == b"9"
    await store.close()


async def test_a_change_counts_when_the_replicas_have_it(tmp_path, redis_server):
    with RedisServer(tmp_path / "master") as master:
        options = ["--replicaof", "127.0.0.1", str(master.port)]
        with RedisServer(tmp_path / "replica", *options) as replica:
            await until(lambda: b"master_link_status:up" in replica.command("INFO", "replication"))
            store = Redis(master.url, replicas=1, timeout=1.0)
            revision = await store.state("names").set("key", b"value")
            found = redis_store.call(replica, "GET", "dragoman:{names}:state:value:key")
            assert found == b"%d:value" % revision
            await store.close()
        store = Redis(master.url, replicas=1, timeout=0.3)
        with pytest.raises(StoreUnavailable, match="made the change, but 0 of 1 replicas are known to have it"):
            await store.state("names").set("key", b"other")
        assert await store.state("names").get("key")
        await store.close()


async def test_the_replicas_are_asked_for_on_the_connection_that_made_the_change(redis_server, monkeypatch):
    pipeline = Pipeline(RedisAddress(redis_server.url), LIMIT, replicas=1)
    call = RedisConnection.call

    async def cut_before(self: RedisConnection, *arguments: str | bytes | int) -> object:
        if arguments[0] == "WAIT":
            self.abort("was cut")
        return await call(self, *arguments)

    monkeypatch.setattr(RedisConnection, "call", cut_before)
    with pytest.raises(StoreUnavailable, match="made the change, but 0 of 1 replicas"):
        await pipeline.change(Script("return redis.call('INCR', KEYS[1])"), 1, fresh())
    await pipeline.close()
