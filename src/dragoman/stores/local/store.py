"""`Local`: the store of the processes of one user on one machine. There is nothing to install.

The bus is made of Unix sockets. Logs, values and tasks are in an SQLite database. `docs/stores.md` says what survives.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from dragoman.runtime.user_files import state_folder
from dragoman.stores.limits import ALONE, Share, StoreLimits, value_limits
from dragoman.stores.local.bus import LocalBus
from dragoman.stores.local.folder import LocalFolder
from dragoman.stores.local.log import LocalLog
from dragoman.stores.local.state import LocalState
from dragoman.stores.local.tasks import LocalTasks
from dragoman.stores.memory import MemoryBus

MAX_BYTES = 1024 * 1024 * 1024


class Local:
    """A store for the processes of one user on one machine; the default.

    Example:
        server = Server("shop", store=Local(durable=True))

    What was acknowledged survives the end of the process, and with `durable` the loss of power too; each write then
    waits for the disk. `folder` must be on a disk of this machine; by default it is in the state folder of the user.
    The database has at most `max_bytes`, a quarter of which is for logs. All servers of the user share it; `limits` are
    the bytes that it keeps for each server and its callers. If `max_bytes` is below 1 GiB, the default limits are lower
    in proportion.
    """

    reach: Literal["machine"] = "machine"

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        durable: bool = False,
        max_bytes: int = MAX_BYTES,
        limits: StoreLimits | None = None,
    ) -> None:
        self.limits = limits or _limits_within(max_bytes)
        self._given = None if folder is None else Path(folder)
        self._folder = LocalFolder(self._given, durable=durable, max_bytes=max_bytes)

    def __repr__(self) -> str:
        return f"<Local store in {self._given or state_folder()}>"

    def bus(self, group: str) -> LocalBus | MemoryBus:
        """Return a bus to the processes of a group; without Unix sockets, a bus without other processes."""
        if not hasattr(asyncio.get_running_loop(), "create_unix_server"):
            return MemoryBus()
        return LocalBus(self._given, group)

    def log(self, stream: str) -> LocalLog:
        """Return the log of a stream."""
        return LocalLog(self._folder, stream)

    def state(
        self, namespace: str, *, max_values: int = 100_000, share: Share = ALONE, limits: StoreLimits | None = None
    ) -> LocalState:
        """Return the values of a namespace."""
        return LocalState(self._folder, namespace, max_values, *value_limits(namespace, share, limits or self.limits))

    def tasks(self, namespace: str, *, limits: StoreLimits | None = None) -> LocalTasks:
        """Return the tasks of a namespace."""
        return LocalTasks(self._folder, namespace, limits or self.limits)

    async def now(self) -> float:
        """Return the time of this machine."""
        return time.time()

    async def close(self) -> None:
        """Close the database; a later use opens it again."""
        await self._folder.close()


def _limits_within(max_bytes: int) -> StoreLimits:
    """Return the default limits, which leave room for a second server in a database of any size."""
    limits = StoreLimits()
    lowered = {
        name: max(1, getattr(limits, name) * max_bytes // MAX_BYTES)
        for name in ("task_bytes", "task_bytes_per_caller", "state_bytes", "state_bytes_per_caller")
    }
    return replace(limits, **lowered) if max_bytes < MAX_BYTES else limits
