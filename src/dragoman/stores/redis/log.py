"""The `EventLog` of the store `Redis`: a Redis stream, whose ids are the numbers of the events.

The events of one turn of the loop are written together. While they are being written, later events wait, so that they
arrive in order whatever happens to a write. A script bounds the stream in events and bytes, and the bytes of all
streams of the database. It ignores an event whose number is not above that of the last one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.stores.contract import LOG_SECONDS, MAX_LOG_BYTES, MAX_LOG_EVENTS, MAX_LOGS_BYTES
from dragoman.stores.redis.scripts import APPEND, DELETE_LOG

if TYPE_CHECKING:
    from dragoman.stores.redis.link import RedisLink

ALL_LOGS = "dragoman:logs:"
"""The prefix of what the scripts know of all logs."""


class RedisLog:
    """The log of one stream."""

    def __init__(self, link: Callable[[], RedisLink], prefix: str) -> None:
        self._link = link
        self._prefix = prefix
        self._appended: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._is_scheduled = False
        self._writing: asyncio.Future[int] | None = None
        self._failure: BaseException | None = None

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event, to be written at the end of this turn of the loop, or after the write that is under way."""
        self._appended.append((sequence, event))
        self._bytes += len(event)
        while len(self._appended) > 1 and (len(self._appended) > MAX_LOG_EVENTS or self._bytes > MAX_LOG_BYTES):
            self._bytes -= len(self._appended.popleft()[1])
        if not self._is_scheduled and self._writing is None:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_scheduled = False
        if self._appended and self._writing is None:
            events = [part for event in self._appended for part in event]
            self._appended.clear()
            self._bytes = 0
            limits = MAX_LOG_EVENTS, MAX_LOG_BYTES, MAX_LOGS_BYTES, int(LOG_SECONDS)
            self._writing = self._link().commands.send(2, self._prefix, ALL_LOGS, *limits, *events, script=APPEND)
            self._writing.add_done_callback(self._written)

    def _written(self, written: asyncio.Future[int]) -> None:
        self._writing = None
        failure = None if written.cancelled() else written.exception()
        if failure is not None and self._failure is None:
            self._failure = failure
            self._link().warn_of_lost_events(failure)
        self._write()

    async def flush(self) -> None:
        """Wait until every appended event is written."""
        await self._finish_writing()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _finish_writing(self) -> None:
        """Wait for the write that is under way, and for the one that `_written` begins with what waits."""
        self._write()
        for _ in range(2):
            if self._writing is not None:
                await asyncio.wait([self._writing])

    async def after(self, sequence: int) -> list[tuple[int, bytes]]:
        """Return the kept events after a number."""
        await self._finish_writing()
        entries = await self._link().commands.call("XRANGE", f"{self._prefix}events", f"{sequence + 1}-0", "+")
        return [(int(id.partition(b"-")[0]), fields[1]) for id, fields in entries]

    async def delete(self) -> None:
        """Delete every event."""
        await self._finish_writing()
        await self._link().commands.call(2, self._prefix, ALL_LOGS, script=DELETE_LOG)
