"""`LocalState`: the values of one namespace in the database of a `Local` store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import StoreFull
from dragoman.stores.contract import Revised, check_ttl
from dragoman.stores.limits import Share, StoreLimits, full, value_bytes
from dragoman.stores.local.folder import LocalFolder

if TYPE_CHECKING:
    from dragoman.stores.local.transaction import Transaction


class LocalState:
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

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Set the value of a key."""
        check_ttl(ttl)
        return await self._folder.write(
            lambda transaction: self._set(transaction, key, value, ttl), size=len(value) + len(key)
        )

    async def compare_and_set(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int | None:
        """Set the value of a key if the key still has a revision."""
        check_ttl(ttl)

        def work(transaction: Transaction) -> int | None:
            found = self._find(transaction, key)
            if (0 if found is None else found.revision) != revision:
                return None
            return self._set(transaction, key, value, ttl)

        return await self._folder.write(work, size=len(value) + len(key))

    async def delete(self, key: str) -> bool:
        """Delete the value of a key."""

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

    def _set(self, transaction: Transaction, key: str, value: bytes, ttl: float | None) -> int:
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
        if row is None and transaction.count("values", self._namespace) >= self._max_values:
            return full("values", self._max_values)
        added, limits, share = size - (0 if row is None else row[0]), self._limits, self._share
        if added > 0 and transaction.count("value bytes", share.group) + added > limits.state_bytes:
            return full("bytes", limits.state_bytes)
        if row is not None and row[1] != (share.account or ""):
            added = size
        if added > 0 and share.account is not None:
            before = transaction.count("value bytes", share.group, share.account)
            if before + added > limits.state_bytes_per_caller:
                return full("account bytes", limits.state_bytes_per_caller)
        return None
