"""The changes that a stateless server tells of: one open request that names what the client wants to hear.

When the wish grows, the request is replaced by one with all of it. When it ends while the connection lives, it is made
again after a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman import types
from dragoman.client.connection import Connection, Options
from dragoman.client.lifeline import pause
from dragoman.errors import RpcError, TransportError

LISTEN = "subscriptions/listen"
MOST_ATTEMPTS = 5


class Listening:
    """What one client hears of."""

    def __init__(self) -> None:
        self.wanted = types.SubscriptionFilter()
        self.heard = types.SubscriptionFilter()
        """What the server acknowledged."""
        self._task: asyncio.Task[None] | None = None
        self._acknowledged = asyncio.Event()
        self.on_gap: Callable[[], Any] | None = None
        """Called when changes may have been missed."""

    def want(self, connection: Connection, **changes: Any) -> None:
        """Want to hear of more, or of less."""
        wanted = msgspec.structs.replace(self.wanted, **changes)
        if wanted != self.wanted or self._task is None:
            self.wanted = wanted
            self.begin(connection)

    def begin(self, connection: Connection) -> None:
        """Listen on a connection to all that is wanted."""
        self._stop()
        if connection.version.stateless and self.wanted != types.SubscriptionFilter():
            self._task = asyncio.get_running_loop().create_task(self._listen(connection))

    async def _listen(self, connection: Connection) -> None:
        params = {"notifications": msgspec.to_builtins(self.wanted)}
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                await connection.request(LISTEN, params, Options())
            except RpcError:
                return
            except TransportError:
                pass
            finally:
                self.heard = types.SubscriptionFilter()
            if not connection.is_alive:
                return
            if self.on_gap is not None:
                self.on_gap()
            await pause(attempt)

    def acknowledge(self, heard: types.SubscriptionFilter) -> None:
        """Note what the server will tell of."""
        self.heard = heard
        self._acknowledged.set()

    async def acknowledged(self, timeout: float) -> None:
        """Wait until the server said what it will tell of, or does not in time."""
        try:
            async with asyncio.timeout(timeout):
                await self._acknowledged.wait()
        except TimeoutError:
            return

    def _stop(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        self.heard = types.SubscriptionFilter()
        self._acknowledged.clear()
        if task is not None:
            task.cancel()
        return task

    async def close(self) -> None:
        """Listen no more."""
        task = self._stop()
        if task is not None:
            await asyncio.wait([task])
