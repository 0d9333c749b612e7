"""`Concurrency`: a middleware that serves a number of requests at a time, and lets a number of others wait.

A request passes the gate of its key, if keys are limited, and then the gate of all. A gate has a semaphore and a queue
with a bound. A caller with many requests fills the queue of its own gate, and waits there while others pass.

Semaphores belong to an event loop, so each loop has gates of its own.

Rejected: a count in the store. A process that dies would keep its share for ever, or every request would need a lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from dragoman.errors import DefinitionError, TooManyRequests
from dragoman.server.middleware.selection import (
    TOOL_CALLS,
    RequestKey,
    checked_count,
    checked_key,
    checked_methods,
    checked_number,
    key_of,
)
from dragoman.server.request.context import Context

if TYPE_CHECKING:
    import asyncio

    from dragoman.server.dispatch.middleware import CallNext

MAX_WAITING = 100
WAIT_SECONDS = 10.0


class Concurrency:
    """A middleware that serves at most some requests at a time.

    Example:
        server.middleware(Concurrency(20, per_key=2))

    `limit` is the number of requests at a time, and `per_key` the number for one caller; either may be None. `by` says
    for whom a request counts (see `RequestKey`); a request without a key counts only for `limit`. Further requests wait
    for `wait` seconds. At most `max_waiting` requests wait in the queue of one caller, and at most `max_waiting` in the
    queue of all. A request that finds the queue full, or waits too long, raises `TooManyRequests`. `methods` are the
    methods that are limited, by default `tools/call`. The run of a task counts too, and waits for as long as it takes,
    because its client has an answer already. Each process counts for itself.

    A request that asks the client keeps its place in the handshake era. A request that a handler sends to its own
    server needs a place of its own.

    Raises:
        DefinitionError: an option has an invalid value.
    """

    def __init__(
        self,
        limit: int | None = None,
        *,
        per_key: int | None = None,
        by: RequestKey = "principal",
        max_waiting: int = MAX_WAITING,
        wait: float = WAIT_SECONDS,
        methods: Iterable[str] = TOOL_CALLS,
    ) -> None:
        if limit is None and per_key is None:
            raise DefinitionError("Concurrency needs a limit: Concurrency(20), or Concurrency(per_key=2)")
        self._limit = None if limit is None else checked_count("limit", limit)
        self._per_key = None if per_key is None else checked_count("per_key", per_key)
        self._by = checked_key(by)
        self._max_waiting = checked_count("max_waiting", max_waiting, 0)
        self._wait = checked_number("wait", wait)
        self._methods = checked_methods(methods)
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str | None, _Gate]]
        self._gates = WeakKeyDictionary()
        """The gates that requests use, of each loop: the gate of all by None, and the gates of keys."""

    def __repr__(self) -> str:
        return f"<Concurrency of {self._limit}, {self._per_key} for each key>"

    async def __call__(self, ctx: Context, call_next: CallNext) -> object:
        """Serve a request when it has its turn.

        Raises:
            TooManyRequests: too many requests wait, or it waited too long.
        """
        import asyncio

        if ctx.method not in self._methods:
            return await call_next()
        async with AsyncExitStack() as passed:
            gates = self._gates_of(ctx)
            is_task = ctx.task.id is not None
            try:
                async with asyncio.timeout(None if is_task else self._wait):
                    for gate in gates:
                        await gate.enter(None if is_task else self._max_waiting)
                        passed.callback(gate.leave)
            except TimeoutError:
                raise TooManyRequests(f"Too many requests run: no turn within {self._wait:g} seconds") from None
            return await call_next()

    def _gates_of(self, ctx: Context) -> list[_Gate]:
        """Return the gates of a request, in the order in which the request passes them."""
        import asyncio

        gates = self._gates.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        key = None if self._per_key is None else key_of(ctx, self._by)
        limits: list[tuple[str | None, int | None]] = [(key, self._per_key), (None, self._limit)]
        limited = limits[1:] if key is None else limits
        return [gates.setdefault(name, _Gate(limit)) for name, limit in limited if limit is not None]


class _Gate:
    """Lets a number of requests pass at a time, and a number of others wait."""

    def __init__(self, limit: int) -> None:
        import asyncio

        self._free = asyncio.Semaphore(limit)
        self._waiting = 0

    async def enter(self, max_waiting: int | None) -> None:
        """Wait for a place. With None the wait has no bound, and keeps no request out of the queue."""
        if max_waiting is None:
            await self._free.acquire()
            return
        if self._free.locked() and self._waiting >= max_waiting:
            raise TooManyRequests("Too many requests run, and too many wait; try again later")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1

    def leave(self) -> None:
        self._free.release()
