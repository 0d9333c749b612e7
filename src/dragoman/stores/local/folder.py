"""`LocalFolder`: where a `Local` store keeps its database; it loads SQLite only when there is something to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dragoman.errors import StoreUnavailable
from dragoman.runtime.user_files import state_folder

if TYPE_CHECKING:
    from dragoman.stores.local.database import Database
    from dragoman.stores.local.transaction import Transaction

Found = TypeVar("Found")
DATABASE = "store-2.sqlite"
"""The number is the version of the tables, so that processes of two releases do not share a database by mistake."""


class LocalFolder:
    """The folder of a store. Databases of the same folder and the same options are one object in a process."""

    def __init__(self, given: Path | None, *, durable: bool, max_bytes: int) -> None:
        self._given = given
        self._options = durable, max_bytes
        self._opened: Database | None = None

    @cached_property
    def path(self) -> Path:
        """The file of the database."""
        try:
            return (self._given or state_folder() / "store") / DATABASE
        except RuntimeError as error:
            raise StoreUnavailable(f"There is no folder for the store: {error}; set XDG_STATE_HOME") from error

    async def existing(self, work: Callable[[Transaction], Found], missing: Found, *, writes: bool = False) -> Found:
        """Run a function that adds nothing, and return its value; `missing` if there is no database."""
        if not self.path.exists():
            return missing
        return await self.database().run(work, writes=writes)

    async def write(self, work: Callable[[Transaction], Found], *, size: int) -> Found:
        """Run a function that adds so many bytes, and return its value."""
        return await self.database().run(work, writes=True, size=size)

    def database(self) -> Database:
        """Return the database."""
        if self._opened is None:
            try:
                from dragoman.stores.local.database import shared_database
            except ImportError as error:
                raise StoreUnavailable(
                    f"This Python has no SQLite: {error}; install a Python with SQLite, or use Memory()"
                ) from error
            self._opened = shared_database(self.path, *self._options)
        return self._opened

    async def close(self) -> None:
        """Close the database, if it was used."""
        if self._opened is not None:
            await self._opened.close()
