"""The connections of a loop."""

import asyncio

import pytest

import redis_store
from dragoman.stores import Redis
from redis_server import RedisServer
from redis_store import until


@pytest.mark.parametrize(("policy", "warnings"), [("noeviction", 0), ("allkeys-lru", 1)])
async def test_a_server_that_drops_values_is_warned_of(tmp_path, caplog, policy, warnings):
    with RedisServer(tmp_path, "--maxmemory-policy", policy) as server:
        store = Redis(server.url.replace("//", "//default:@"))
        await store.now()
        await store.now()
        await store.close()
    assert caplog.text.count("set its maxmemory-policy to noeviction, not allkeys-lru") == warnings


async def test_closing_ends_those_who_wait(redis_server):
    store = Redis(redis_server.url)
    tasks = store.tasks(redis_store.fresh())
    await tasks.wait(0)
    waiting = asyncio.ensure_future(tasks.wait(60))
    await until(lambda: redis_store.call(redis_server, "CLIENT", "LIST").count(b"cmd=blpop") == 1)
    await store.close()
    outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
    assert "was closed by this process" in str(outcome)
