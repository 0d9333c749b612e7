"""`RedisLink`: the connections of one event loop: one for commands, one for subscriptions, and some for waiting."""

from __future__ import annotations

import asyncio
import logging
import re

from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.channels import RedisChannels
from dragoman.stores.redis.pipeline import Pipeline

WAIT_SECONDS = 5.0
"""How long a command blocks at most; shorter than the time after which a silent connection is checked."""
MAX_IDLE = 4
"""Connections for waiting that are kept while nobody waits."""

WARNING_SECONDS = 60.0
"""A warning that concerns many streams is logged so often."""

_logger = logging.getLogger("dragoman.stores")


class RedisLink:
    """The connections of one event loop."""

    def __init__(self, address: RedisAddress, limit: float, replicas: int) -> None:
        self.commands = Pipeline(address, limit, replicas)
        self.channels = RedisChannels(address, limit)
        self._address = address
        self._limit = limit
        self._idle: list[Pipeline] = []
        self._waiting: set[Pipeline] = set()
        self._warn_again_at = 0.0
        self.commands.send("INFO", "memory").add_done_callback(self._warn_of_eviction)

    def _warn_of_eviction(self, described: asyncio.Future[bytes]) -> None:
        if described.cancelled() or described.exception() is not None:  # a user may have no right to ask
            return
        policy = re.search(rb"maxmemory_policy:(\S+)", described.result())
        if policy is not None and policy[1] != b"noeviction":
            _logger.warning(
                "Redis at %s may drop values and tasks when its memory is full: set its maxmemory-policy to noeviction,"
                " not %s",
                self._address,
                policy[1].decode(),
            )

    def warn_of_lost_events(self, failure: BaseException) -> None:
        """Log that events of streams are lost, once for many streams."""
        now = asyncio.get_running_loop().time()
        if now >= self._warn_again_at:
            self._warn_again_at = now + WARNING_SECONDS
            _logger.warning("Events of streams are lost: %s", failure)

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
        await self.channels.close()
