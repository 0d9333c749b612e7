"""Marks that tools set and wait for, whichever process of a server they run in."""

from __future__ import annotations

import asyncio
import os
import select

SECONDS = 20
KEYS = ("first", "second", "third", "count", "count_blocking", "grown")


class Mark:
    """Is set once and stays so, for this process and those that are forked from it."""

    def __init__(self) -> None:
        # A byte that nobody reads keeps a pipe readable for everyone.
        self._readable, self._writable = os.pipe()

    def set(self) -> None:
        os.write(self._writable, b"x")

    def is_set(self, within: float = 0) -> bool:
        return bool(select.select([self._readable], [], [], within)[0])

    async def wait(self) -> bool:
        """Return whether it is set before the deadline."""
        return await asyncio.to_thread(self.is_set, SECONDS)


def marks() -> dict[str, Mark]:
    """Return a mark for every key; to be called before a server forks."""
    return {key: Mark() for key in KEYS}
