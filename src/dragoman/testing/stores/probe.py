"""`Probe`: two handles of the storage under test, and the limits of time."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman.errors import StoreFull, ValidationError
from dragoman.stores.contract import State, Store, TaskRecord, Tasks
from dragoman.stores.limits import StoreLimits

Checked = TypeVar("Checked")
Check = Callable[["Probe"], Awaitable[None]]
LARGE = 1024 * 1024
LONG = 3600.0
MAX_TTL = 10.0
INVALID_SECONDS = (0, -1, -0.5, True, math.nan, math.inf, -math.inf, 1e308, 2**63, 10**400)
"""Times to live and leases that an engine must refuse before it writes anything."""


class _TooSlowError(Exception):
    """The entry that a check reads may have expired before the check read it."""


class Probe:
    """Two handles of the storage under test."""

    def __init__(self, one: Store, other: Store, ttl: float, timeout: float) -> None:
        self.one = one
        self.other = other
        self.ttl = ttl
        self.timeout = timeout

    async def within(self, what: str, work: Awaitable[Checked]) -> Checked:
        """Wait for an operation, within the limit of time."""
        try:
            return await asyncio.wait_for(work, self.timeout)
        except TimeoutError:
            raise AssertionError(f"{what} must come to an end; it did not within {self.timeout:g} seconds") from None

    async def run(self, check: Check) -> None:
        """Run a check; again with longer lives and leases if the machine or the engine was too slow for these."""
        try:
            await check(self)
        except _TooSlowError:
            assert self.ttl < MAX_TTL, f"an operation must take less than {self.ttl:g} seconds"
            await Probe(self.one, self.other, 4 * self.ttl, self.timeout + 4 * self.ttl).run(check)

    async def require_alive(self, began: float) -> None:
        """End this attempt of the check if what began to live at a time may have expired already."""
        if await self.one.now() - began >= self.ttl:
            raise _TooSlowError

    def states(self) -> tuple[State, State]:
        """Return the values of a new namespace by both handles."""
        namespace = fresh("values")
        return self.one.state(namespace), self.other.state(namespace)

    def tasks(self, limits: StoreLimits | None = None) -> tuple[Tasks, Tasks]:
        """Return the tasks of a new namespace by both handles."""
        namespace = fresh("tasks")
        return self.one.tasks(namespace, limits=limits), self.other.tasks(namespace, limits=limits)

    async def taken_over(self, tasks: Tasks, promise: str) -> TaskRecord:
        """Return a task whose lease has run out, claimed again as soon as that succeeds."""
        heirs: list[TaskRecord] = []

        async def is_taken() -> bool:
            claim = await tasks.claim(LONG)
            heirs.extend([] if claim is None else [claim])
            return claim is not None

        await self.until(promise, is_taken)
        return heirs[0]

    async def until(self, promise: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a condition is true, within the limit of time."""

        async def wait() -> None:
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(self.ttl / 20)

        try:
            await asyncio.wait_for(wait(), self.timeout)
        except TimeoutError:
            raise AssertionError(f"{promise}; it was not so within {self.timeout:g} seconds") from None


def fresh(what: str) -> str:
    """Return a name that no other check uses."""
    return what + os.urandom(8).hex()


async def increment(state: State, key: str, times: int) -> None:
    """Add 1 to a number so many times, against other writers."""
    for _ in range(times):
        done = None
        while done is None:
            found = await state.get(key)
            count, revision = (0, 0) if found is None else (int(found.value), found.revision)
            done = await state.compare_and_set(key, b"%d" % (count + 1), revision)


async def is_invalid(operation: Awaitable[object]) -> bool:
    """Tell whether an operation raises ValidationError."""
    try:
        await operation
    except ValidationError:
        return True
    return False


async def is_full(setting: Awaitable[object]) -> bool:
    """Tell whether an operation raises StoreFull."""
    try:
        await setting
    except StoreFull:
        return True
    return False
