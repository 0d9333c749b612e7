"""The `State` of the store `Redis`: a key for each value, and a ledger of all values of a group of namespaces.

A value is kept as its revision, a colon, and the value, so that one GET returns both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.stores.contract import Revised
from dragoman.stores.limits import Exceeded, Share, StoreLimits, full, value_bytes
from dragoman.stores.operations import CheckedState
from dragoman.stores.redis.scripts import DELETE_VALUE, SET_VALUE

if TYPE_CHECKING:
    from dragoman.stores.redis.link import RedisLink


class RedisState(CheckedState):
    """The values of one namespace."""

    def __init__(
        self, link: Callable[[], RedisLink], prefix: str, max_values: int, share: Share, limits: StoreLimits
    ) -> None:
        self._link = link
        self._prefix = prefix
        self._ledger = f"dragoman:{{{share.group}}}:values:"
        self._account = share.account or ""
        self._max_values = max_values
        self._limits = limits

    async def get(self, key: str) -> Revised | None:
        kept = await self._link().commands.call("GET", f"{self._prefix}value:{key}")
        if kept is None:
            return None
        revision, _, value = kept.partition(b":")
        return Revised(value, int(revision))

    async def _set(self, key: str, value: bytes, expected: int | None, ttl: float | None) -> int | None:
        limits = self._max_values, self._limits.state_bytes, self._limits.state_bytes_per_caller
        content = key, value, milliseconds(ttl), "" if expected is None else expected
        charge = self._account, value_bytes(value), *limits
        reply = await self._link().commands.change(SET_VALUE, 2, self._prefix, self._ledger, *content, *charge)
        lacks: dict[bytes, tuple[Exceeded, int]] = {
            b"space": ("values", limits[0]),
            b"bytes": ("bytes", limits[1]),
            b"account bytes": ("account bytes", limits[2]),
        }
        if reply in lacks:
            raise full(*lacks[reply])
        return None if reply is None else int(reply)

    async def delete(self, key: str) -> bool:
        return bool(await self._link().commands.change(DELETE_VALUE, 2, self._prefix, self._ledger, key))


def milliseconds(ttl: float | None) -> str:
    """Return a time to live as an argument of the scripts, which cannot undo a write if Redis refuses the time."""
    return "" if ttl is None else str(math.ceil(ttl * 1000))
