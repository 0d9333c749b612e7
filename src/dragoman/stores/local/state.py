"""The `State` of the store `Local`: values in files, shared by the processes of one user on one machine.

Each value is a file in a folder that only this user may enter. The name of the file is a digest of the key, and its
modification time is the time at which the value expires. A process writes a file under a temporary name and renames
it, so that readers see the whole file or none. No process needs a lock, and a killed process leaves no partial value.
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

MAX_VALUES = 100_000
SWEEP_EVERY = 1_000
"""How many values are written between two sweeps."""
TEMPORARY_SECONDS = 3600.0
"""A temporary file that is older than this belongs to a killed process."""

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
            with self._path_of(key).open("rb") as file:
                return file.read() if os.fstat(file.fileno()).st_mtime > self._clock() else None
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None

    async def set(self, key: str, value: bytes, *, ttl: float) -> None:
        """Keep a value for `ttl` seconds; if the value cannot be written, log one warning."""
        try:
            path, expires_at = self._path_of(key), self._clock() + ttl
            with written_beside(path, value) as temporary:
                os.utime(temporary, (expires_at, expires_at))
                temporary.replace(path)
            if self._written % SWEEP_EVERY == 0:
                await asyncio.to_thread(self._sweep)
        except OSError as error:
            self._warn(error)
        self._written += 1

    def _path_of(self, key: str) -> Path:
        private_folder(self.folder.parent)
        return private_folder(self.folder) / _file_name(key)

    def _sweep(self) -> None:
        """Remove expired values and, beyond MAX_VALUES, the values that expire first."""
        now = self._clock()
        remaining: list[tuple[float, Path]] = []
        for path in self.folder.iterdir():
            with suppress(OSError):
                modified = path.lstat().st_mtime
                if modified <= (now - TEMPORARY_SECONDS if path.name.startswith(".") else now):
                    path.unlink()
                else:
                    remaining.append((modified, path))
        for _, path in sorted(remaining)[: max(0, len(remaining) - MAX_VALUES)]:
            with suppress(OSError):
                path.unlink()

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("What must outlive this process, such as which sessions were ended, is not kept: %s", error)


def _file_name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
