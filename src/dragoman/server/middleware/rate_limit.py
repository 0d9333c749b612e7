"""`RateLimit`: a middleware that refuses requests of whoever sends too many.

A caller has a bucket of `burst` tokens, and gets `requests` new ones in `seconds`. A request takes a token. The bucket
is kept as one number, the time at which it is full again: each token that is taken moves this time into the future by
`seconds / requests`, and a request is refused if the time would be further away than the whole bucket takes to fill
(the generic cell rate algorithm). A caller whose time is past has a full bucket and needs no entry.

Rejected: the times of the last requests of each caller. They need memory for each request, and a shared list would be
written anew at each request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dragoman.errors import TooManyRequests
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
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    from dragoman.server.dispatch.middleware import CallNext
    from dragoman.server.request.state import HandlerState

MAX_KEYS = 100_000


class RateLimit:
    """A middleware that refuses a request if its sender sent too many.

    Example:
        server.middleware(RateLimit(60, seconds=60))

    Each caller may send `requests` in `seconds`, and `burst` of them at once, by default all. `by` says for whom a
    request counts (see `RequestKey`). `methods` are the methods that count, by default `tools/call`. A refused request
    raises `TooManyRequests`, and the client receives the seconds to wait as `data.retryAfter`. A request that runs as a
    task counts once.

    Each process counts for itself. With `store=True` all processes with the same first secret count together, by the
    clock of the server's store. After a change of the secret, the count begins anew.
    At most `max_keys` callers are remembered. In memory, the caller that is forgotten first is the one that sent no
    request for longest; a store that is full refuses new callers with `StoreFull`.

    Raises:
        DefinitionError: an option has an invalid value.
    """

    def __init__(
        self,
        requests: float,
        *,
        seconds: float,
        burst: int | None = None,
        by: RequestKey = "principal",
        methods: Iterable[str] = TOOL_CALLS,
        store: bool = False,
        max_keys: int = MAX_KEYS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = checked_number("seconds", seconds) / checked_number("requests", requests)
        size = max(1, math.floor(requests)) if burst is None else checked_count("burst", burst)
        self._window = self._interval * size
        self._by = checked_key(by)
        self._methods = checked_methods(methods)
        self._is_shared = store
        self._max_keys = checked_count("max_keys", max_keys)
        self._clock = clock
        self._full_at: Recent[str, float] = Recent(self._max_keys)
        """The time at which the bucket of each caller is full again."""
        self._text = f"{requests:g} requests in {seconds:g} seconds"

    def __repr__(self) -> str:
        return f"<RateLimit of {self._text}>"

    async def __call__(self, ctx: Context, call_next: CallNext) -> object:
        """Serve a request, or refuse it.

        Raises:
            TooManyRequests: the sender has to wait.
        """
        if ctx.method in self._methods and ctx.task.id is None:
            key = key_of(ctx, self._by)
            if key is not None:
                await (self._take_shared(ctx, key) if self._is_shared else self._take(key))
        return await call_next()

    async def _take(self, key: str) -> None:
        now = self._clock()
        full_at = self._full_at.get(key, now)
        self._full_at[key] = full_at  # the caller becomes the newest, also if it is refused
        self._full_at[key] = self._later(full_at, now)

    async def _take_shared(self, ctx: Context, key: str) -> None:
        from dragoman.server.request.state import HandlerState
        from dragoman.stores.sealed import digest

        server = ctx._call.server
        by = self._by if isinstance(self._by, str) else getattr(self._by, "__qualname__", "")
        name = "\0".join(["rate limit", server.name, self._text, f"{self._window:g}", by, *sorted(self._methods)])
        # Processes with another secret count apart: they cannot read these buckets, and must not empty them.
        name = server.storage.key_ring.digest("rate limit", name.encode())
        buckets = HandlerState(server.storage.store.state(name, max_values=self._max_keys), owner="user")
        try:
            await self._update(buckets, digest(key), await server.storage.store.now())
        except TooManyRequests:
            # Another process may have used a later time than this one, which then counts as too early.
            await self._update(buckets, digest(key), await server.storage.store.now())

    async def _update(self, buckets: HandlerState, key: str, now: float) -> None:
        # A bucket that is full needs no entry, so the entry may expire.
        await buckets.update(key, lambda full_at: self._later(full_at or now, now), float, self._window)

    def _later(self, full_at: float, now: float) -> float:
        """Return the time at which a bucket is full again after one more request.

        Raises:
            TooManyRequests: the bucket is empty.
        """
        # The clock of a store may be set back. An empty bucket never takes longer than the window to fill.
        later = min(max(full_at, now), now + self._window) + self._interval
        wait = later - now - self._window
        if wait > self._interval * 1e-6:
            seconds = math.ceil(round(wait * 1000, 3)) / 1000
            raise TooManyRequests(f"Too many requests: at most {self._text}; wait {seconds:g} seconds", seconds)
        return later
