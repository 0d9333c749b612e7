"""`TaskBook`: reads and writes the tasks of a server in its store."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import msgspec

from dragoman.errors import InternalError, InvalidParams, StoreFull, StoreUnavailable
from dragoman.runtime.backoff import backoff
from dragoman.server.extensions.tasks.stored import StoredTask, TaskEntry
from dragoman.stores.contract import Store, TaskPhase, TaskRecord, Tasks

UNKNOWN = "There is no such task, or it has expired"
MAX_RECORD_BYTES = 16 * 1024 * 1024
MAX_ATTEMPTS = 100
"""How often a change is attempted while other processes change the same task."""
WAY_BACK = (0.1, 1.0)
"""The first and the longest wait for a store that cannot be reached."""
T = TypeVar("T")
Edit = Callable[[StoredTask], TaskPhase | None]
"""Changes a task, and returns its new phase; None if there is nothing to change."""


class TaskBook:
    """The tasks of one server."""

    def __init__(self, store: Store, server: str) -> None:
        self._store = store
        self.tasks: Tasks = store.tasks(f"tasks {server}")
        self._ahead: float | None = None
        """How many seconds the clock of the store is ahead of the clock of this process."""

    async def now(self) -> float:
        """Return the time of the store."""
        if self._ahead is None:
            self._ahead = await self._store.now() - time.time()
        return time.time() + self._ahead

    async def create(self, task: StoredTask, *, owner: str, account: str, lease: float | None) -> TaskEntry:
        """Add a task; it is claimed by the caller for `lease` seconds, or by the first process that has room.

        The owner can list the task. The account is the one whose limits it counts for.

        Raises:
            InternalError: there are too many tasks, or they have too many bytes.
        """
        id = secrets.token_hex(20)
        try:
            record = await self.tasks.create(
                *(id, encoded(task)), owner=owner, account=account, summary=task.summary, ttl=task.ttl, lease=lease
            )
        except StoreFull as error:
            raise InternalError(f"No further task can be made now. {error}") from None
        self._ahead = record.created_at - time.time()
        return TaskEntry(record, task)

    async def find(self, id: str, principal: str | None) -> TaskEntry:
        """Return a task of a caller.

        Raises:
            InvalidParams: the caller has no such task; the error is the same for unknown and foreign tasks.
        """
        record = await self.tasks.get(id)
        entry = None if record is None else TaskEntry.read(record)
        if entry is None or entry.task.principal != principal:
            raise InvalidParams(UNKNOWN)
        return entry

    async def change(self, entry: TaskEntry, edit: Edit) -> TaskEntry:
        """Change a task, unless it has ended; other processes may change the task at the same time.

        Raises:
            InvalidParams: the task has expired meanwhile.
            InternalError: the store has no room for the change.
        """
        for _ in range(MAX_ATTEMPTS):
            phase = None if entry.task.is_terminal else edit(entry.task)
            if phase is None:
                return entry
            entry.task.updated_at = await self.now()
            try:
                record = await self.write(entry.id, entry.task, phase, revision=entry.record.revision)
            except StoreFull as error:
                raise InternalError(f"The task cannot be changed now. {error}") from None
            if record is not None:
                return TaskEntry(record, entry.task)
            entry = await self.find(entry.id, entry.task.principal)
        raise InternalError("Too many processes change the task; send the request again")

    async def write(
        self, id: str, task: StoredTask, phase: TaskPhase | None, *, revision: int, token: int | None = None
    ) -> TaskRecord | None:
        """Write a task; the holder of a task ends it whatever its revision is.

        Raises:
            StoreFull: the task is too large, or the store has no room for it.
        """
        value, summary = encoded(task), task.summary
        if phase != "finished":
            return await self.tasks.update(*(id, value), revision=revision, token=token, phase=phase, summary=summary)
        return await self.tasks.finish(
            *(id, value), revision=revision if token is None else None, token=token, summary=summary
        )

    async def expiry(self, record: TaskRecord) -> float | None:
        """Return when a task expires, by the clock of this loop; None: never. No store reports that to all watchers."""
        if record.expires_at is None:
            return None
        return asyncio.get_running_loop().time() + max(0.0, record.expires_at - await self.now())

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the store, again and again while it cannot be reached, and return its answer."""
        attempt = 0
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await asyncio.sleep(backoff(attempt, *WAY_BACK))
                attempt += 1

    def watch(self, id: str) -> AsyncGenerator[None, None]:
        """Yield once at first, and after each change of a task."""
        return self.tasks.watch(id)


def encoded(task: StoredTask) -> bytes:
    """Return the value in which the store keeps a task.

    Raises:
        StoreFull: the arguments, answers and steps of the task are too large.
    """
    value = msgspec.json.encode(task)
    if len(value) > MAX_RECORD_BYTES:
        raise StoreFull(f"The task has {len(value)} bytes of arguments, answers and steps; at most {MAX_RECORD_BYTES}")
    return value
