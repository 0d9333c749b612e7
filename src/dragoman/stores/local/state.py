"""Values that the processes of one user on one machine share, and that are there when they start again.

Each value is a file of its own in a folder that only this user may enter. The file is named by a digest of the key, and
its time of modification is when the value expires. A file is written beside its place and then renamed, so that readers
find it whole or not at all; no process needs a lock, and a process that is killed leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dragoman.runtime.user_files import private_folder, written_beside

MOST_VALUES = 100_000
SWEEP_EVERY = 1_000
"""So many values are written between two sweeps."""
ABANDONED_SECONDS = 3600.0
"""A file that has not got its name after so long never gets it."""

_logger = logging.getLogger("dragoman.stores")


class LocalState:
    """The values of one namespace."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._written = 0
        self._has_warned = False

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, unless there is none or it has expired."""
        try:
            with self._place(key).open("rb") as file:
                return file.read() if os.fstat(file.fileno()).st_mtime > self._clock() else None
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None

    async def set(self, key: str, value: bytes, *, ttl: float) -> None:
        """Keep a value for so many seconds; where that cannot be, there is one warning."""
        try:
            path, expires_at = self._place(key), self._clock() + ttl
            with written_beside(path, value) as unnamed:
                os.utime(unnamed, (expires_at, expires_at))
                unnamed.replace(path)
            if self._written % SWEEP_EVERY == 0:
                await asyncio.to_thread(self._sweep)
        except OSError as error:
            self._warn(error)
        self._written += 1

    def _place(self, key: str) -> Path:
        private_folder(self.folder.parent)
        return private_folder(self.folder) / _named(key)

    def _sweep(self) -> None:
        """Remove what has expired, and of too many values those that expire first."""
        now = self._clock()
        kept: list[tuple[float, Path]] = []
        for path in self.folder.iterdir():
            with suppress(OSError):
                modified = path.lstat().st_mtime
                if modified <= (now - ABANDONED_SECONDS if path.name.startswith(".") else now):
                    path.unlink()
                else:
                    kept.append((modified, path))
        for _, path in sorted(kept)[: max(0, len(kept) - MOST_VALUES)]:
            with suppress(OSError):
                path.unlink()

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("What must outlive this process, such as which sessions were ended, is not kept: %s", error)


def _named(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
