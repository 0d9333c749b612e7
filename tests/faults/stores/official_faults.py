"""What happens to Redis, to the servers and to the connections while official clients use a fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from faults.stores.official_clients import RedisFleet


async def restart_redis(ships: RedisFleet, seconds: float) -> None:
    """Stop Redis as an operator does, and start it again."""
    await asyncio.to_thread(ships.redis.stop)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(ships.redis.start)


async def kill_redis(ships: RedisFleet, seconds: float) -> None:
    """Kill Redis, and start it again."""
    await asyncio.to_thread(ships.redis.kill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(ships.redis.start)


async def pause_redis(ships: RedisFleet, seconds: float) -> None:
    """Let Redis answer nobody for a while."""
    assert ships.redis.command("CLIENT", "PAUSE", str(int(seconds * 1000))) == b"+OK\r\n"
    await asyncio.sleep(seconds)


async def sleep_redis(ships: RedisFleet, seconds: float) -> None:
    """Let Redis do nothing for a while, as during a slow command."""
    reply = await asyncio.to_thread(ships.redis.command, "DEBUG", "SLEEP", f"{seconds:.1f}")
    assert reply == b"+OK\r\n"


async def fill_redis(ships: RedisFleet, seconds: float) -> None:
    """Let Redis refuse every write for a while, because its memory is full."""
    assert ships.redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction") == b"+OK\r\n"
    assert ships.redis.command("CONFIG", "SET", "maxmemory", "1") == b"+OK\r\n"
    await asyncio.sleep(seconds)
    assert ships.redis.command("CONFIG", "SET", "maxmemory", "0") == b"+OK\r\n"


async def cut_redis(ships: RedisFleet, seconds: float) -> None:
    """Cut the connections to Redis, and refuse new ones for a while."""
    ships.proxy.refuses = True
    ships.proxy.cut()
    await asyncio.sleep(seconds)
    ships.proxy.refuses = False


async def mute_redis(ships: RedisFleet, seconds: float) -> None:
    """Hold back what Redis answers."""
    ships.proxy.is_mute = True
    await asyncio.sleep(seconds)
    ships.proxy.is_mute = False


async def cut_clients(ships: RedisFleet, seconds: float) -> None:
    """Cut the connections of clients to a server that serves a call, three times."""
    for _ in range(3):
        ships.balancer.cut((await ships.called()).address)
        await asyncio.sleep(seconds / 3)


async def replace_server(ships: RedisFleet, seconds: float) -> None:
    """Kill a server that serves a call, and start another one."""
    await asyncio.sleep(seconds)
    await ships.replace(await ships.called())


Fault = Callable[[RedisFleet, float], Awaitable[None]]
FAULTS: list[Fault] = [
    restart_redis,
    pause_redis,
    sleep_redis,
    fill_redis,
    cut_redis,
    kill_redis,
    mute_redis,
    cut_clients,
    replace_server,
]
