"""`LocalLog`: the events of one stream in the database of a `Local` store.

The events of one turn of the loop are written together. While a write is under way, further events wait in memory.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dragoman.errors import StoreError, StoreUnavailable
from dragoman.stores.contract import LOG_SECONDS, MAX_LOG_BYTES, MAX_LOG_EVENTS
from dragoman.stores.local.folder import LocalFolder

if TYPE_CHECKING:
    from dragoman.stores.local.transaction import Transaction

WRITE_SECONDS = 15.0
_logger = logging.getLogger("dragoman.stores")


class LocalLog:
    """The log of one stream."""

    def __init__(self, folder: LocalFolder, stream: str) -> None:
        self._folder = folder
        self._stream = stream
        self._waiting: list[tuple[int, bytes]] = []
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._writing: asyncio.Future[Any] | None = None
        self._failure: BaseException | None = None
        self._has_warned = False

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event; it is written at the end of this turn of the loop."""
        self._waiting.append((sequence, event))
        self._waiting_bytes += len(event)
        if len(self._waiting) > 2 * MAX_LOG_EVENTS or self._waiting_bytes > 2 * MAX_LOG_BYTES:
            self._waiting = _newest(self._waiting)
            self._waiting_bytes = _size(self._waiting)
        if not self._is_scheduled and self._writing is None:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_scheduled = False
        if not self._waiting or self._writing is not None:
            return
        events, self._waiting, self._waiting_bytes = _newest(self._waiting), [], 0
        size = _size(events)
        try:
            database = self._folder.database()
        except StoreError as error:
            self._fail(error)
            return
        limit = database.max_bytes // 4
        self._writing = database.submit(
            lambda transaction: _append(transaction, self._stream, events, size, limit), writes=True, size=size
        )
        self._writing.add_done_callback(self._written)

    def _written(self, writing: asyncio.Future[Any]) -> None:
        self._writing = None
        error = writing.exception()
        if error is not None:
            self._fail(error)
        self._write()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("Events of a stream cannot be resumed: %s", error)

    async def flush(self) -> None:
        """Wait until every appended event is written."""
        self._write()
        while self._writing is not None:
            done, _ = await asyncio.wait([self._writing], timeout=WRITE_SECONDS)
            if not done:
                raise StoreUnavailable(f"The events were not written within {WRITE_SECONDS:g} seconds")
        failure, self._failure = self._failure, None
        if failure is not None:
            raise StoreUnavailable(f"Events were not written: {failure}") from failure

    async def after(self, sequence: int) -> list[tuple[int, bytes]]:
        """Return the kept events after a number."""
        await self.flush()
        return await self._folder.existing(lambda transaction: _after(transaction, self._stream, sequence), [])

    async def delete(self) -> None:
        """Delete every event."""
        self._waiting, self._waiting_bytes = [], 0
        await self._folder.existing(lambda transaction: _delete(transaction, self._stream), None, writes=True)


def _newest(events: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the newest events within the bounds of a log, at least one."""
    size = 0
    for place in range(len(events) - 1, -1, -1):
        size += len(events[place][1])
        if size > MAX_LOG_BYTES or len(events) - place > MAX_LOG_EVENTS:
            return events[min(place + 1, len(events) - 1) :]
    return events


def _size(events: list[tuple[int, bytes]]) -> int:
    return sum(len(event) for _, event in events)


def _append(transaction: Transaction, stream: str, events: list[tuple[int, bytes]], size: int, limit: int) -> None:
    expires_at = transaction.now + LOG_SECONDS
    row = transaction.one("SELECT number, events, bytes, expires_at FROM logs WHERE stream = ?", stream)
    if row is not None and row[3] <= transaction.now:
        _delete(transaction, stream)
        row = None
    if row is None:
        made = transaction.execute("INSERT INTO logs VALUES (NULL, ?, 0, 0, ?)", (stream, expires_at))
        row = made.lastrowid, 0, 0
    number, count, total = row[0], row[1] + len(events), row[2] + size
    transaction.executemany(
        "INSERT OR REPLACE INTO events VALUES (?, ?, ?)", [(number, sequence, event) for sequence, event in events]
    )
    if count > MAX_LOG_EVENTS * 5 // 4 or total > MAX_LOG_BYTES * 5 // 4:
        dropped_count, dropped_bytes = _drop_oldest(transaction, number, count, total)
        count, total = count - dropped_count, total - dropped_bytes
    transaction.execute(
        "UPDATE logs SET events = ?, bytes = ?, expires_at = ? WHERE number = ?", (count, total, expires_at, number)
    )
    transaction.add("log bytes", total - row[2])
    while transaction.counter("log bytes") > limit:
        oldest = transaction.one("SELECT number FROM logs WHERE number != ? ORDER BY expires_at LIMIT 1", number)
        if oldest is None:
            break
        transaction.delete_logs([oldest])


def _drop_oldest(transaction: Transaction, number: int, count: int, total: int) -> tuple[int, int]:
    """Delete the oldest events of a log beyond its bounds, but not the newest; return how many, and their bytes."""
    dropped_count = dropped_bytes = last = 0
    rows = transaction.execute("SELECT sequence, length(event) FROM events WHERE log = ? ORDER BY sequence", (number,))
    for sequence, size in rows:
        rest = count - dropped_count
        if rest <= 1 or (rest <= MAX_LOG_EVENTS and total - dropped_bytes <= MAX_LOG_BYTES):
            break
        last, dropped_count, dropped_bytes = sequence, dropped_count + 1, dropped_bytes + size
    transaction.execute("DELETE FROM events WHERE log = ? AND sequence <= ?", (number, last))
    return dropped_count, dropped_bytes


def _after(transaction: Transaction, stream: str, sequence: int) -> list[tuple[int, bytes]]:
    return transaction.execute(
        "SELECT sequence, event FROM events WHERE log = (SELECT number FROM logs WHERE stream = ? AND expires_at > ?)"
        " AND sequence > ? ORDER BY sequence",
        (stream, transaction.now, sequence),
    ).fetchall()


def _delete(transaction: Transaction, stream: str) -> None:
    transaction.delete_logs(transaction.execute("SELECT number FROM logs WHERE stream = ?", (stream,)))
