"""`LogWriter`: the events of one stream on their way to an engine whose writes take time.

    idle       --append-->   scheduled   the events of one turn of the loop are written together
    scheduled  --write-->    writing     later events wait, so that they arrive in order whatever happens to the write
    writing    --written-->  writing     if events wait; else idle

One task per event was rejected: two writes under way may arrive in any order.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from dragoman.errors import StoreError, StoreUnavailable
from dragoman.stores.contract import MAX_LOG_BYTES, MAX_LOG_EVENTS

WRITE_SECONDS = 15.0
Events = list[tuple[int, bytes]]


class LogWriter(ABC):
    """Writes the events of one stream in order. Of the events that wait, the oldest beyond the limits are dropped."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._writing: asyncio.Future[Any] | None = None
        self._failure: BaseException | None = None

    @abstractmethod
    def _begin_write(self, events: Events) -> asyncio.Future[Any]:
        """Begin to write events, and return the future of the write.

        Raises:
            StoreError: the engine cannot be used.
        """

    @abstractmethod
    def _warn(self, failure: BaseException) -> None:
        """Log that events are lost."""

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event; it is written at the end of this turn of the loop, or after the write that is under way."""
        self._waiting.append((sequence, event))
        self._waiting_bytes += len(event)
        while len(self._waiting) > 1 and (len(self._waiting) > MAX_LOG_EVENTS or self._waiting_bytes > MAX_LOG_BYTES):
            self._waiting_bytes -= len(self._waiting.popleft()[1])
        if not self._is_scheduled and self._writing is None:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_scheduled = False
        if not self._waiting or self._writing is not None:
            return
        events = list(self._waiting)
        self._drop_waiting()
        try:
            self._writing = self._begin_write(events)
        except StoreError as error:
            self._fail(error)
        else:
            self._writing.add_done_callback(self._written)

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0

    def _written(self, writing: asyncio.Future[Any]) -> None:
        self._writing = None
        failure = None if writing.cancelled() else writing.exception()
        if failure is not None:
            self._fail(failure)
        self._write()

    def _fail(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        self._warn(failure)

    async def flush(self) -> None:
        await self._finish_writing()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise StoreUnavailable(f"Events were not written: {failure}") from failure

    async def _finish_writing(self) -> None:
        """Wait for the write that is under way, and for the one that `_written` begins with what waits."""
        self._write()
        for _ in range(2):
            if self._writing is not None:
                done, _waiting = await asyncio.wait([self._writing], timeout=WRITE_SECONDS)
                if not done:
                    raise StoreUnavailable(f"The events were not written within {WRITE_SECONDS:g} seconds")
