"""`LocalState`: the values of one namespace in the database of a `Local` store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import StoreFull
from dragoman.stores.contract import Revised
from dragoman.stores.limits import CountedValue, Share, StoreLimits, ValueUsage, value_bytes, value_lack
from dragoman.stores.local.folder import LocalFolder
from dragoman.stores.operations import CheckedState

if TYPE_CHECKING:
    from dragoman.stores.local.transaction import Transaction


class LocalState(CheckedState):
    """The values of one namespace."""

    def __init__(self, folder: LocalFolder, namespace: str, max_values: int, share: Share, limits: StoreLimits) -> None:
        self._folder = folder
        self._namespace = namespace
        self._max_values = max_values
        self._share = share
        self._limits = limits

    async def get(self, key: str) -> Revised | None:
        """Return the value of a key; a look-up does not make a database."""
        return await self._folder.existing(lambda transaction: self._find(transaction, key), None)

    async def _set(self, key: str, value: bytes, expected: int | None, ttl: float | None) -> int | None:
        def work(transaction: Transaction) -> int | None:
            found = self._find(transaction, key)
            if expected not in (None, 0 if found is None else found.revision):
                return None
            return self._write(transaction, key, value, ttl)

        return await self._folder.write(work, size=len(value) + len(key))

    async def delete(self, key: str) -> bool:
        def work(transaction: Transaction) -> bool:
            found = self._find(transaction, key)
            transaction.execute("DELETE FROM state WHERE namespace = ? AND key = ?", (self._namespace, key))
            return found is not None

        return await self._folder.existing(work, missing=False, writes=True)

    def _find(self, transaction: Transaction, key: str) -> Revised | None:
        row = transaction.one(
            "SELECT value, revision FROM state WHERE namespace = ? AND key = ?"
            " AND (expires_at IS NULL OR expires_at > ?)",
            *(self._namespace, key, transaction.now),
        )
        return None if row is None else Revised(*row)

    def _write(self, transaction: Transaction, key: str, value: bytes, ttl: float | None) -> int:
        expires_at = None if ttl is None else transaction.now + ttl
        revision, size = transaction.next_revision(), value_bytes(value)
        self._require_room(transaction, key, size)
        # REPLACE would not run the triggers that count.
        transaction.execute("DELETE FROM state WHERE namespace = ? AND key = ?", (self._namespace, key))
        place = self._namespace, key, self._share.group, self._share.account or ""
        transaction.execute(
            "INSERT INTO state VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*place, size, revision, expires_at, value)
        )
        return revision

    def _require_room(self, transaction: Transaction, key: str, size: int) -> None:
        """Refuse a value that there is no room for; expired values make room.

        Raises:
            StoreFull: there is no room.
        """
        if self._lack(transaction, key, size) is not None:
            transaction.execute(
                'DELETE FROM state WHERE (namespace = ? OR "group" = ?) AND expires_at <= ?',
                (self._namespace, self._share.group, transaction.now),
            )
            lack = self._lack(transaction, key, size)
            if lack is not None:
                raise lack

    def _lack(self, transaction: Transaction, key: str, size: int) -> StoreFull | None:
        row = transaction.one("SELECT size, account FROM state WHERE namespace = ? AND key = ?", self._namespace, key)
        group, account = self._share.group, self._share.account
        usage = ValueUsage(
            transaction.count("values", self._namespace),
            transaction.count("value bytes", group),
            transaction.count("value bytes", group, account or ""),
        )
        before = None if row is None else CountedValue(row[0], row[1] or None)
        return value_lack(self._limits, self._max_values, usage, CountedValue(size, account), before)
