"""The `State` of the store `Redis`: a key for each value, and a sorted set of the keys of a namespace by their expiry.

A value is kept as its revision, a colon, and the value, so that one GET returns both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.errors import StoreFull
from dragoman.stores.contract import Revised, check_ttl
from dragoman.stores.redis.scripts import DELETE_VALUE, SET_VALUE

if TYPE_CHECKING:
    from dragoman.stores.redis.link import RedisLink


class RedisState:
    """The values of one namespace."""

    def __init__(self, link: Callable[[], RedisLink], prefix: str, max_values: int) -> None:
        self._link = link
        self._prefix = prefix
        self._max_values = max_values

    async def get(self, key: str) -> Revised | None:
        """Return the value of a key."""
        kept = await self._link().commands.call("GET", f"{self._prefix}value:{key}")
        if kept is None:
            return None
        revision, _, value = kept.partition(b":")
        return Revised(value, int(revision))

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Set the value of a key."""
        revision = await self._set(key, value, "", ttl)
        assert revision is not None
        return revision

    async def compare_and_set(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int | None:
        """Set the value of a key if the key still has a revision."""
        return await self._set(key, value, str(revision), ttl)

    async def _set(self, key: str, value: bytes, expected: str, ttl: float | None) -> int | None:
        reply = await self._link().commands.change(
            SET_VALUE, 1, self._prefix, key, value, milliseconds(ttl), self._max_values, expected
        )
        if reply == b"full":
            raise StoreFull(
                f"The namespace has {self._max_values} values already; delete some, or give them a shorter ttl"
            )
        return None if reply is None else int(reply)

    async def delete(self, key: str) -> bool:
        """Delete the value of a key."""
        return bool(await self._link().commands.change(DELETE_VALUE, 1, self._prefix, key))


def milliseconds(ttl: float | None) -> str:
    """Return a time to live as an argument of the scripts, which cannot undo a write if Redis refuses the time."""
    check_ttl(ttl)
    return "" if ttl is None else str(math.ceil(ttl * 1000))
