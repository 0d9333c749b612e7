"""The `EventLog` of the store `Redis`: a Redis stream, whose ids are the numbers of the events.

A script bounds the stream in events and bytes, and the bytes of all streams of the database. It ignores an event whose
number is not above that of the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.stores.contract import LOG_SECONDS, MAX_LOG_BYTES, MAX_LOG_EVENTS, MAX_LOGS_BYTES
from dragoman.stores.log_writer import Events, LogWriter
from dragoman.stores.redis.scripts import APPEND, DELETE_LOG

if TYPE_CHECKING:
    from dragoman.stores.redis.link import RedisLink

ALL_LOGS = "dragoman:logs:"
"""The prefix of what the scripts know of all logs."""


class RedisLog(LogWriter):
    """The log of one stream."""

    def __init__(self, link: Callable[[], RedisLink], prefix: str) -> None:
        super().__init__()
        self._link = link
        self._prefix = prefix

    def _begin_write(self, events: Events) -> asyncio.Future[int]:
        limits = MAX_LOG_EVENTS, MAX_LOG_BYTES, MAX_LOGS_BYTES, int(LOG_SECONDS)
        parts = (part for event in events for part in event)
        return self._link().commands.send(2, self._prefix, ALL_LOGS, *limits, *parts, script=APPEND)

    def _warn(self, failure: BaseException) -> None:
        self._link().warn_of_lost_events(failure)

    async def after(self, sequence: int) -> Events:
        await self._finish_writing()
        entries = await self._link().commands.call("XRANGE", f"{self._prefix}events", f"{sequence + 1}-0", "+")
        return [(int(id.partition(b"-")[0]), fields[1]) for id, fields in entries]

    async def delete(self) -> None:
        await self._finish_writing()
        await self._link().commands.call(2, self._prefix, ALL_LOGS, script=DELETE_LOG)
