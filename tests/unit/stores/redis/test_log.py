"""The log on Redis: written behind and in order, bounded, expiring."""

import asyncio

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis, Share, log_writer
from dragoman.stores.contract import LOG_SECONDS
from dragoman.stores.redis import log as logs
from redis_proxy import proxied
from redis_server import RedisServer
from redis_store import fresh


async def test_events_stay_in_order_while_earlier_ones_are_being_written(redis_server):
    store = Redis(redis_server.url)
    log = store.log(fresh())
    await store.now()
    redis_store.call(redis_server, "SCRIPT", "FLUSH")  # the first write is sent twice
    for number in range(1, 301):
        log.append(number, b"%d" % number)
        if number % 10 == 0:
            await asyncio.sleep(0)
    await log.flush()
    assert await log.after(0) == [(number, b"%d" % number) for number in range(1, 301)]
    await store.close()


async def test_a_log_is_bounded_in_events_and_bytes_and_keeps_the_newest(redis_server, monkeypatch):
    for limited in (logs, log_writer):
        monkeypatch.setattr(limited, "MAX_LOG_EVENTS", 5)
        monkeypatch.setattr(limited, "MAX_LOG_BYTES", 100)
    store = Redis(redis_server.url)
    log = store.log(fresh())
    for number in range(1, 9):
        log.append(number, b"x")
        await log.flush()
    assert [number for number, _ in await log.after(0)] == [4, 5, 6, 7, 8]
    log.append(9, b"y" * 97)
    await log.flush()
    assert [number for number, _ in await log.after(0)] == [6, 7, 8, 9]
    log.append(10, b"z" * 1000)
    await log.flush()
    assert await log.after(0) == [(10, b"z" * 1000)]
    for number in range(11, 31):
        log.append(number, b"w" * 30)
    assert [number for number, _ in await log.after(0)] == [28, 29, 30]
    await store.close()


async def test_a_log_expires_after_its_last_event(redis_server):
    store, stream = Redis(redis_server.url), fresh()
    log = store.log(stream)
    log.append(1, b"event")
    await log.flush()
    keys = redis_store.call(redis_server, "KEYS", f"dragoman:{{{stream}}}:*")
    assert len(keys) == 1
    for key in keys:
        assert LOG_SECONDS - 5 <= redis_store.call(redis_server, "TTL", key) <= LOG_SECONDS
    await log.delete()
    assert redis_store.call(redis_server, "KEYS", f"dragoman:{{{stream}}}:*") == []
    await store.close()


async def test_a_number_that_was_written_before_is_ignored(redis_server):
    store, stream = Redis(redis_server.url), fresh()
    log = store.log(stream)
    for number, event in ((0, b"zero"), (1, b"one"), (1, b"again"), (0, b"earlier"), (2, b"two")):
        log.append(number, event)
    await log.flush()
    assert await log.after(-1) == [(0, b"zero"), (1, b"one"), (2, b"two")]
    await store.close()


async def test_lost_events_are_told_by_flush_once_and_logged_once(redis_server, caplog):
    async with proxied(redis_server) as proxy:
        store = Redis(proxy.url, timeout=0.2)
        log = store.log(fresh())
        log.append(1, b"kept")
        await log.flush()
        proxy.is_mute = True
        for number in range(2, 5):
            log.append(number, b"may be lost")
            await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="may have been made"):
            await log.flush()
        await log.flush()
        assert caplog.text.count("Events of streams are lost") == 1
        proxy.is_mute = False
        await redis_store.answering(store)
        log.append(5, b"kept")
        await log.flush()
        events = await log.after(0)
        assert [event for number, event in events if number in (1, 5)] == [b"kept", b"kept"]
        await store.close()


async def test_all_logs_together_are_limited_and_the_idle_ones_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_LOGS_BYTES", 10_000)
    with RedisServer(tmp_path) as server:
        store = Redis(server.url)
        streams = [store.log(f"stream{number}") for number in range(6)]
        for log in streams:
            log.append(1, bytes(3000))
            await log.flush()
            streams[0].append(len(await streams[0].after(0)) + 10, b"busy")
            await streams[0].flush()
        assert [bool(await log.after(0)) for log in streams] == [True, False, False, False, True, True]
        assert int(redis_store.call(server, "GET", "dragoman:logs:bytes")) <= 10_000
        for log in streams:
            await log.delete()
        assert redis_store.call(server, "GET", "dragoman:logs:bytes") == b"0"
        assert redis_store.call(server, "KEYS", "*:log:*") == []
        large = store.log("large")
        large.append(1, bytes(20_000))
        assert len(await large.after(0)) == 1, "the newest event of a stream must be kept"
        await store.close()


async def test_full_server_lets_logs_and_values_be_deleted(tmp_path):
    with RedisServer(tmp_path) as server:
        store = Redis(server.url)
        log, state = store.log("stream"), store.state("names", share=Share("group", "ann"))
        log.append(1, b"event")
        await log.flush()
        await state.set("key", b"value")
        redis_store.call(server, "CONFIG", "SET", "maxmemory", 1)
        await log.delete()
        assert await state.delete("key")
        redis_store.call(server, "CONFIG", "SET", "maxmemory", 0)
        assert await log.after(0) == []
        assert redis_store.call(server, "KEYS", "*group*") == []
        assert redis_store.call(server, "GET", "dragoman:logs:bytes") == b"0"
        await store.close()
