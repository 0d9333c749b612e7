"""The values on Redis: what is left behind, and a server that is full or has lost its data."""

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from redis_server import RedisServer
from redis_store import fresh, until


async def test_nothing_of_a_namespace_stays_when_its_values_have_expired(redis_server):
    store, namespace = Redis(redis_server.url), fresh()
    state = store.state(namespace)
    for number in range(3):
        await state.set(f"{number}", b"value", ttl=0.05)
    pattern = f"dragoman:{{{namespace}}}:*"
    await until(lambda: len(redis_store.call(redis_server, "KEYS", pattern)) == 1)
    (counter,) = redis_store.call(redis_server, "KEYS", pattern)
    assert redis_store.call(redis_server, "TTL", counter) > 0
    await state.set("kept", b"value")
    for book in ("entries", "bills", "tallies"):
        assert redis_store.call(redis_server, "TTL", f"dragoman:{{{namespace}}}:values:{book}") == -1
    await state.delete("kept")
    assert redis_store.call(redis_server, "KEYS", f"dragoman:{{{namespace}}}:values:*") == []
    await store.close()


async def test_a_revision_is_not_used_again_after_the_server_lost_its_data(tmp_path):
    with RedisServer(tmp_path) as server:
        store = Redis(server.url)
        state = store.state("names")
        before = [await state.set("key", b"value") for _ in range(3)]
        redis_store.call(server, "FLUSHALL")
        assert await state.set("key", b"value") > before[2] > before[1] > before[0]
        await store.close()


async def test_revisions_ascend_although_the_clock_of_the_server_goes_back(redis_server):
    store, namespace = Redis(redis_server.url), fresh()
    state = store.state(namespace)
    future = 4_000_000_000_000_000
    redis_store.call(redis_server, "SET", f"dragoman:{{{namespace}}}:state:last", future)
    assert [await state.set("key", b"value") for _ in range(3)] == [future + 1, future + 2, future + 3]
    await store.close()


async def test_a_full_server_refuses_values_changes_nothing_and_says_so(tmp_path):
    with RedisServer(tmp_path) as server:
        store = Redis(server.url)
        state = store.state("names")
        before = [await state.set(key, b"before") for key in ("one", "two")]
        redis_store.call(server, "CONFIG", "SET", "maxmemory", 1)
        for setting in (state.set("new", b""), state.set("one", b"after"), state.compare_and_set("new", b"", 0)):
            with pytest.raises(StoreUnavailable, match="is full, and nothing was changed: raise its maxmemory"):
                await setting
        assert await state.get("one") == (b"before", before[0])
        assert await state.get("new") is None
        assert await state.delete("two")
        redis_store.call(server, "CONFIG", "SET", "maxmemory", 0)
        assert await state.set("one", b"after") > before[1]
        await store.close()
