"""Redis servers of which Sentinels promote another one when the master is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import redis_store
from redis_server import RedisSentinel, RedisServer
from redis_store import until

ACTING = 120.0
"""How long Sentinels may take to act: one that could not run for 2 s, as when a disk is busy, does nothing for 30 s."""


class Sentinels:
    """A master, two replicas, and three Sentinels that watch them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.stack = stack
        self.master = stack.enter_context(RedisServer(folder / "master"))
        options = ["--replicaof", "127.0.0.1", str(self.master.port)]
        self.replicas = [stack.enter_context(RedisServer(folder / f"replica{n}", *options)) for n in range(2)]
        self.sentinels = [
            stack.enter_context(RedisSentinel(folder / f"sentinel{n}", self.master, quorum=2)) for n in range(3)
        ]
        ports = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        self.url = f"redis+sentinel://{ports}/main/0"

    async def promoted(self, before: RedisServer) -> RedisServer:
        """Wait until the Sentinels agree on another master than before, and return it."""
        await until(lambda: len(set(self.named())) == 1 and before.port not in self.named(), ACTING)
        return next(one for one in (self.master, *self.replicas) if one.port in self.named())

    def named(self) -> list[object]:
        """Return the port of the master that each Sentinel names."""
        asked = [redis_store.call(one, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main") for one in self.sentinels]
        return [int(address[1]) if isinstance(address, list) else None for address in asked]

    @staticmethod
    def is_replica(server: RedisServer) -> bool:
        """Tell whether a server is a replica; it closes connections when it becomes one."""
        try:
            return b"role:slave" in server.command("INFO", "replication")
        except OSError:
            return False

    def is_complete(self) -> bool:
        """Tell whether every Sentinel acts, and knows the replicas and the other Sentinels."""
        known = [str(redis_store.call(sentinel, "INFO", "sentinel")) for sentinel in self.sentinels]
        copying = str(redis_store.call(self.master, "INFO", "replication"))
        acting = all("slaves=2,sentinels=3" in one and "sentinel_tilt:0" in one for one in known)
        return acting and copying.count("state=online") == 2


@asynccontextmanager
async def sentinels(folder: Path) -> AsyncIterator[Sentinels]:
    """Run servers and Sentinels."""
    with ExitStack() as stack:
        made = await asyncio.to_thread(Sentinels, folder, stack)
        await until(made.is_complete, ACTING)
        yield made
