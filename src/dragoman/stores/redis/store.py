"""The store `Redis`: the processes of many machines, which share one Redis server."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Literal

from dragoman.errors import ConfigError
from dragoman.stores.limits import ALONE, Share, StoreLimits, value_limits
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.bus import RedisBus
from dragoman.stores.redis.log import RedisLog
from dragoman.stores.redis.state import RedisState
from dragoman.stores.redis.tasks import RedisTasks

if TYPE_CHECKING:
    from dragoman.stores.redis.link import RedisLink

LIMIT_SECONDS = 3.0

_inherited: list[object] = []
"""The connections of the process that this one was forked from. They are kept, because closing them here would disturb
the loop that the parent still uses."""


class Redis:
    """A store for processes on any number of machines, in a Redis server of version 6.2 or later.

    Example:
        server = Server("shop", store=Redis("rediss://shop:password@redis.example:6379/0"), secret=...)

    The URL begins with `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://` or `rediss+sentinel://`
    (`docs/redis.md`). `timeout` is the limit in seconds for one command. `replicas` is the number of replicas that
    must have a change of a value or a task before it counts as made. `limits` are the bytes that the store keeps for a
    server and its callers.

    Raises:
        ConfigError: the URL is invalid, or the extra `redis` is not installed.
    """

    reach: Literal["network"] = "network"

    def __init__(
        self, url: str, *, timeout: float = LIMIT_SECONDS, replicas: int = 0, limits: StoreLimits | None = None
    ) -> None:
        _require_hiredis()
        self.limits = limits or StoreLimits()
        self._address = RedisAddress(url)
        self._timeout = timeout
        self._replicas = replicas
        self._process = os.getpid()
        self._links: dict[asyncio.AbstractEventLoop, RedisLink] = {}

    def __repr__(self) -> str:
        return f"<Redis store at {self._address}>"

    def bus(self, group: str) -> RedisBus:
        """Return a bus to the processes of a group."""
        # Channels do not belong to a database.
        return RedisBus(self._link, f"dragoman:{{{group}}}:bus:{self._address.database}:")

    def log(self, stream: str) -> RedisLog:
        """Return the log of a stream."""
        return RedisLog(self._link, f"dragoman:{{{stream}}}:log:")

    def state(
        self, namespace: str, *, max_values: int = 100_000, share: Share = ALONE, limits: StoreLimits | None = None
    ) -> RedisState:
        """Return the values of a namespace."""
        prefix = f"dragoman:{{{namespace}}}:state:"
        return RedisState(self._link, prefix, max_values, *value_limits(namespace, share, limits or self.limits))

    def tasks(self, namespace: str, *, limits: StoreLimits | None = None) -> RedisTasks:
        """Return the tasks of a namespace."""
        return RedisTasks(self._link, f"dragoman:{{{namespace}}}:tasks:", limits or self.limits)

    async def now(self) -> float:
        """Return the time of the server."""
        seconds, microseconds = await self._link().commands.call("TIME")
        return int(seconds) + int(microseconds) / 1_000_000

    async def close(self) -> None:
        """Close the connections of this loop; a later use opens them again."""
        link = self._links.pop(asyncio.get_running_loop(), None)
        if link is not None and self._process == os.getpid():
            await link.close()

    def _link(self) -> RedisLink:
        """Return the connections of this loop in this process."""
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():
            _inherited.append(self._links)
            self._process, self._links = os.getpid(), {}
        return self._links.get(loop) or self._new_link(loop)

    def _new_link(self, loop: asyncio.AbstractEventLoop) -> RedisLink:
        from dragoman.stores.redis.link import RedisLink

        for ended in [other for other in list(self._links) if other.is_closed()]:
            del self._links[ended]
        self._links[loop] = link = RedisLink(self._address, self._timeout, self._replicas)
        return link


def _require_hiredis() -> None:
    try:
        import hiredis  # noqa: F401
    except ImportError:
        raise ConfigError('The store Redis needs the package hiredis; run: pip install "dragoman[redis]"') from None
