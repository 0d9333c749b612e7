"""`LocalLog`: the events of one stream in the database of a `Local` store."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dragoman.stores.contract import LOG_SECONDS, MAX_LOG_BYTES, MAX_LOG_EVENTS
from dragoman.stores.local.folder import LocalFolder
from dragoman.stores.log_writer import Events, LogWriter

if TYPE_CHECKING:
    from dragoman.stores.local.transaction import Transaction

_logger = logging.getLogger("dragoman.stores")


class LocalLog(LogWriter):
    """The log of one stream."""

    def __init__(self, folder: LocalFolder, stream: str) -> None:
        super().__init__()
        self._folder = folder
        self._stream = stream
        self._has_warned = False

    def _begin_write(self, events: Events) -> asyncio.Future[Any]:
        size = sum(len(event) for _, event in events)
        database = self._folder.database()
        limit = database.max_bytes // 4
        return database.submit(
            lambda transaction: _append(transaction, self._stream, events, size, limit), writes=True, size=size
        )

    def _warn(self, failure: BaseException) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("Events of a stream cannot be resumed: %s", failure)

    async def after(self, sequence: int) -> Events:
        await self.flush()
        return await self._folder.existing(lambda transaction: _after(transaction, self._stream, sequence), [])

    async def delete(self) -> None:
        self._drop_waiting()
        await self._folder.existing(lambda transaction: _delete(transaction, self._stream), None, writes=True)


def _append(transaction: Transaction, stream: str, events: Events, size: int, limit: int) -> None:
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


def _after(transaction: Transaction, stream: str, sequence: int) -> Events:
    return transaction.execute(
        "SELECT sequence, event FROM events WHERE log = (SELECT number FROM logs WHERE stream = ? AND expires_at > ?)"
        " AND sequence > ? ORDER BY sequence",
        (stream, transaction.now, sequence),
    ).fetchall()


def _delete(transaction: Transaction, stream: str) -> None:
    transaction.delete_logs(transaction.execute("SELECT number FROM logs WHERE stream = ?", (stream,)))
