"""The tasks on Redis: hints, tokens that are never used again, and a server that is full."""

import asyncio
import time
from contextlib import aclosing

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from dragoman.stores.redis import link as links
from redis_proxy import proxied
from redis_server import RedisServer
from redis_store import fresh, until

LONG = 3600.0


async def test_each_ready_task_wakes_one_process_that_waits(redis_server):
    namespace, stores = fresh(), [Redis(redis_server.url) for _ in range(5)]

    async def work(store: Redis) -> list[str]:
        tasks, done = store.tasks(namespace), []
        while True:
            while (claimed := await tasks.claim(LONG)) is None:
                await tasks.wait(LONG)
            if claimed.value == b"stop":
                return done
            done.append(claimed.id)

    working = [asyncio.ensure_future(work(store)) for store in stores[1:]]
    tasks = stores[0].tasks(namespace)
    await until(lambda: redis_store.call(redis_server, "CLIENT", "LIST").count(b"cmd=blpop") == 4)
    began = time.monotonic()
    made = await asyncio.gather(*(tasks.create(fresh(), b"", owner="ann") for _ in range(50)))
    for _ in working:
        await tasks.create(fresh(), b"stop", owner="ann")
    done = await asyncio.gather(*working)
    assert sorted(id for ids in done for id in ids) == sorted(task.id for task in made)
    assert time.monotonic() - began < links.WAIT_SECONDS / 2
    assert redis_store.call(redis_server, "EXISTS", f"dragoman:{{{namespace}}}:tasks:bell") == 0
    for store in stores:
        await store.close()


async def test_a_process_that_stops_waiting_leaves_no_connection_in_the_way(redis_server):
    store, namespace = Redis(redis_server.url), fresh()
    tasks = store.tasks(namespace)
    await tasks.wait(0)
    for _ in range(links.MAX_IDLE + 3):
        waiting = [asyncio.ensure_future(tasks.wait(LONG)) for _ in range(links.MAX_IDLE + 2)]
        await until(lambda: redis_store.call(redis_server, "CLIENT", "LIST").count(b"cmd=blpop") > links.MAX_IDLE)
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        assert all(one.cancelled() for one in waiting)
    await until(lambda: redis_store.call(redis_server, "CLIENT", "LIST").count(b"cmd=blpop") == 0)
    await asyncio.gather(*(tasks.wait(0.01) for _ in range(links.MAX_IDLE + 2)))
    assert len(store._link()._idle) == links.MAX_IDLE
    await tasks.create(fresh(), b"", owner="ann")
    began = time.monotonic()
    await tasks.wait(LONG)
    assert time.monotonic() - began < links.WAIT_SECONDS / 2
    await store.close()


async def test_waiting_ends_with_an_error_when_the_server_is_away(redis_server):
    async with proxied(redis_server) as proxy:
        store = Redis(proxy.url, timeout=0.2)
        tasks = store.tasks(fresh())
        await tasks.wait(0)
        waiting = asyncio.ensure_future(tasks.wait(LONG))
        await until(lambda: b"BLPOP" in proxy.commands)
        proxy.refuses = True
        proxy.cut()
        with pytest.raises(StoreUnavailable):
            await waiting
        with pytest.raises(StoreUnavailable):
            await tasks.wait(LONG)
        await store.close()


async def test_a_watch_yields_after_a_gap_and_ends_with_an_error_when_the_server_stays_away(redis_server):
    direct = Redis(redis_server.url)
    async with proxied(redis_server) as proxy:
        store, namespace = Redis(proxy.url, timeout=0.3), fresh()
        made = await direct.tasks(namespace).create(fresh(), b"", owner="ann")
        async with aclosing(store.tasks(namespace).watch(made.id)) as changes:
            await anext(changes)
            proxy.refuses = True
            proxy.cut()
            await anext(changes)
            await direct.tasks(namespace).finish(made.id, b"done")
            proxy.refuses = False
            await anext(changes)
            found = await store.tasks(namespace).get(made.id)
            assert found is not None
            assert found.phase == "finished"
            proxy.refuses = True
            proxy.cut()
            with pytest.raises(StoreUnavailable):
                async for _ in changes:
                    pass
        await store.close()
    await direct.close()


async def test_a_watch_of_a_store_that_is_closed_ends(redis_server):
    store = Redis(redis_server.url)
    async with aclosing(store.tasks(fresh()).watch(fresh())) as changes:
        await anext(changes)
        ending = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await store.close()
        await ending
        with pytest.raises(StoreUnavailable, match="closed"):
            await anext(changes)


async def test_a_token_is_not_used_again_after_the_server_lost_its_data(tmp_path):
    with RedisServer(tmp_path) as server:
        store = Redis(server.url)
        tasks = store.tasks("names")
        lost = await tasks.create("task", b"", owner="ann", lease=LONG)
        redis_store.call(server, "FLUSHALL")
        assert not await tasks.renew("task", lost.token, LONG)
        await tasks.create("task", b"", owner="ann")
        claimed = await tasks.claim(LONG)
        assert claimed is not None
        assert claimed.token > lost.token
        assert await tasks.finish("task", b"old", token=lost.token) is None
        await store.close()


@pytest.mark.parametrize("id", ["", "a:b", "é\0\n", "\ud800", "x" * 10_000])
async def test_any_text_may_be_asked_for_as_an_id(redis_server, id):
    store = Redis(redis_server.url)
    tasks = store.tasks(fresh())
    assert await tasks.get(id) is None
    assert await tasks.finish(id, b"") is None
    assert not await tasks.renew(id, 1, LONG)
    made = await tasks.create(id, b"value", owner="ann", ttl=LONG)
    assert (made.id, await tasks.get(id)) == (id, made)
    assert [task.id for task in await tasks.list("ann")] == [id]
    await store.close()


async def test_expired_tasks_leave_nothing_behind(redis_server):
    store, namespace = Redis(redis_server.url), fresh()
    tasks = store.tasks(namespace)
    for number in range(20):
        lease = LONG if number % 2 else None
        await tasks.create(f"{number}", b"", owner=f"owner{number % 3}", ttl=0.05, lease=lease)
    swept = 0
    async with asyncio.timeout(60):
        while swept < 20:
            swept += await tasks.sweep()
    keys = redis_store.call(redis_server, "KEYS", f"dragoman:{{{namespace}}}:*")
    assert keys == [f"dragoman:{{{namespace}}}:tasks:last".encode()]
    await store.close()


async def test_a_watch_hears_of_a_task_that_expired_and_was_swept(redis_server):
    store, namespace = Redis(redis_server.url), fresh()
    tasks = store.tasks(namespace)
    made = await tasks.create(fresh(), b"", owner="ann", ttl=0.02)
    async with aclosing(tasks.watch(made.id)) as changes:
        await anext(changes)
        async with asyncio.timeout(60):
            while not await tasks.sweep():
                pass
            await anext(changes)
    assert await tasks.get(made.id) is None
    await store.close()


async def test_a_full_server_lets_holders_renew_release_and_finish_and_gives_out_nothing_new(tmp_path):
    with RedisServer(tmp_path) as server:
        store = Redis(server.url)
        tasks = store.tasks("names")
        held = [await tasks.create(f"{number}", b"", owner="ann", lease=LONG) for number in range(2)]
        waiting = await tasks.create("ready", b"", owner="ann")
        redis_store.call(server, "CONFIG", "SET", "maxmemory", 1)
        before = [await tasks.get(id) for id in ("0", "1", "ready")]
        for refused in (
            tasks.create("new", b"", owner="ann"),
            tasks.claim(LONG),
            tasks.update("ready", b"more", revision=waiting.revision),
        ):
            with pytest.raises(StoreUnavailable, match="is full, and nothing was changed"):
                await refused
        assert [await tasks.get(id) for id in ("0", "1", "ready")] == before
        assert await tasks.get("new") is None
        assert await tasks.renew("0", held[0].token, LONG)
        assert await tasks.release("0", held[0].token)
        assert await tasks.finish("1", b"done", token=held[1].token)
        assert await tasks.sweep() == 0
        await store.close()
