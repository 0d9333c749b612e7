"""A Redis server that is restarted, killed, paused, put to sleep, cut off or silent, under load."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

import redis_store
from dragoman.stores import Redis
from faults.stores.store_load import toll, under_load
from redis_proxy import RedisProxy, proxied
from redis_server import KEEPING, RedisServer, debugging

LIMIT = 1.0
_logger = logging.getLogger(__name__)
BOUND = LIMIT + 1.0 + 1.5
"""The limit of a command, the time that a message waits for replies, and what a busy machine adds."""

Fault = Callable[[RedisServer, RedisProxy], Awaitable[None]]


async def restart(server: RedisServer, proxy: RedisProxy) -> None:
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)


async def kill(server: RedisServer, proxy: RedisProxy) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def stay_away(server: RedisServer, proxy: RedisProxy) -> None:
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(2 * LIMIT)
    await asyncio.to_thread(server.start)


async def pause(server: RedisServer, proxy: RedisProxy) -> None:
    assert redis_store.call(server, "CLIENT", "PAUSE", int(2000 * LIMIT)) == b"OK"
    await asyncio.sleep(2 * LIMIT)


async def sleep(server: RedisServer, proxy: RedisProxy) -> None:
    await asyncio.to_thread(redis_store.call, server, "DEBUG", "SLEEP", str(2 * LIMIT))


async def cut(server: RedisServer, proxy: RedisProxy) -> None:
    """Cut connections at any time, and after commands whose replies do not arrive."""
    for number in range(10):
        proxy.is_mute = number % 2 == 0
        await asyncio.sleep(0.05)
        proxy.cut()
        proxy.is_mute = False
        await asyncio.sleep(0.01 * number)


async def swallow_replies(server: RedisServer, proxy: RedisProxy) -> None:
    proxy.is_mute = True
    await asyncio.sleep(1.5 * LIMIT)
    proxy.is_mute = False


async def swallow_commands(server: RedisServer, proxy: RedisProxy) -> None:
    proxy.is_deaf = True
    await asyncio.sleep(1.5 * LIMIT)
    proxy.is_deaf = False


SHORT = [restart, kill, pause, cut, swallow_replies]
LONG = [stay_away, sleep, swallow_commands]


@pytest.mark.parametrize(
    "fault", [*SHORT, *(pytest.param(fault, marks=pytest.mark.e2e) for fault in LONG)], ids=lambda fault: fault.__name__
)
async def test_nothing_is_lost_done_twice_or_left_waiting(tmp_path, fault):
    with RedisServer(tmp_path, *KEEPING, *debugging()) as server:
        async with proxied(server) as proxy:
            group, reports = await under_load(
                [proxy.url, proxy.url, server.url], LIMIT, lambda: fault(server, proxy), seconds=0.2
            )
        store = Redis(server.url, timeout=LIMIT)
        cost = await toll(store, group, reports)
        await store.close()
    _logger.info("%s", cost)
    assert (cost.hung, cost.lost, cost.lost_events, cost.twice) == (0, 0, 0, 0), cost
    assert cost.slowest < BOUND, cost
    assert cost.calls - cost.failed > 50, cost


async def test_a_short_pause_fails_no_call(tmp_path):
    with RedisServer(tmp_path, *KEEPING, *debugging()) as server:

        async def pause_and_sleep() -> None:
            redis_store.call(server, "CLIENT", "PAUSE", 300)
            await asyncio.to_thread(redis_store.call, server, "DEBUG", "SLEEP", "0.3")

        group, reports = await under_load([server.url] * 2, 5.0, pause_and_sleep, seconds=0.1)
        store = Redis(server.url)
        cost = await toll(store, group, reports)
        await store.close()
    assert (cost.failed, cost.hung, cost.lost, cost.lost_events, cost.twice) == (0, 0, 0, 0, 0), cost


async def test_a_full_server_fails_calls_clearly_and_serves_again_when_it_has_room(tmp_path):
    with RedisServer(tmp_path, "--appendonly", "yes", "--maxmemory-policy", "noeviction") as server:

        async def fill() -> None:
            redis_store.call(server, "CONFIG", "SET", "maxmemory", 1)
            await asyncio.sleep(0.5)
            redis_store.call(server, "CONFIG", "SET", "maxmemory", 0)

        group, reports = await under_load([server.url] * 2, LIMIT, fill, seconds=0.2)
        store = Redis(server.url)
        cost = await toll(store, group, reports)
        await store.close()
    assert (cost.hung, cost.lost, cost.lost_events, cost.twice) == (0, 0, 0, 0), cost
    assert cost.failed > 0, cost
