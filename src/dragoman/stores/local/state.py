"""`LocalState`: the values of one namespace in the database of a `Local` store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import StoreFull
from dragoman.stores.contract import Revised, check_ttl
from dragoman.stores.local.folder import LocalFolder

if TYPE_CHECKING:
    from dragoman.stores.local.transaction import Transaction


class LocalState:
    """The values of one namespace."""

    def __init__(self, folder: LocalFolder, namespace: str, max_values: int) -> None:
        self._folder = folder
        self._namespace = namespace
        self._max_values = max_values

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
        revision = transaction.next_revision()
        changed = transaction.execute(
            "UPDATE state SET value = ?, revision = ?, expires_at = ? WHERE namespace = ? AND key = ?",
            (value, revision, expires_at, self._namespace, key),
        )
        if not changed.rowcount:
            self._require_room(transaction)
            transaction.execute(
                "INSERT INTO state VALUES (?, ?, ?, ?, ?)", (self._namespace, key, value, revision, expires_at)
            )
        return revision

    def _require_room(self, transaction: Transaction) -> None:
        if transaction.count("values", self._namespace) >= self._max_values:
            transaction.execute(
                "DELETE FROM state WHERE namespace = ? AND expires_at <= ?", (self._namespace, transaction.now)
            )
        if transaction.count("values", self._namespace) >= self._max_values:
            raise StoreFull(f"There are {self._max_values} values already; delete some, or give them a shorter ttl")
