"""`RedisLink`: the connections of one event loop: one for commands, one for subscriptions, and some for waiting."""

from __future__ import annotations

from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.pipeline import Pipeline
from dragoman.stores.redis.subscriptions import Subscriptions

WAIT_SECONDS = 5.0
"""How long a command blocks at most; shorter than the time after which a silent connection is checked."""
MAX_IDLE = 4
"""Connections for waiting that are kept while nobody waits."""


class RedisLink:
    """The connections of one event loop."""

    def __init__(self, address: RedisAddress, limit: float, replicas: int) -> None:
        self.commands = Pipeline(address, limit, replicas)
        self.subscriptions = Subscriptions(address, limit)
        self._address = address
        self._limit = limit
        self._idle: list[Pipeline] = []
        self._waiting: set[Pipeline] = set()

    async def wait_for_element(self, key: str, timeout: float) -> None:
        """Wait until a list has an element, remove the element and return; return at the latest after the time-out.

        Raises:
            StoreUnavailable: the server cannot be reached.
        """
        seconds = min(max(timeout, 0.001), WAIT_SECONDS)  # Redis takes 0 for no limit
        pipeline = self._idle.pop() if self._idle else Pipeline(self._address, self._limit)
        self._waiting.add(pipeline)
        try:
            await pipeline.call("BLPOP", key, f"{seconds:.3f}", limit=seconds + self._limit)
        except BaseException:
            pipeline.drop()
            raise
        finally:
            self._waiting.discard(pipeline)
            if len(self._idle) < MAX_IDLE:
                self._idle.append(pipeline)
            else:
                pipeline.drop()

    async def close(self) -> None:
        """Close all connections."""
        for pipeline in (*self._idle, *self._waiting, self.commands):
            await pipeline.close()
        self._idle.clear()
        await self.subscriptions.close()
