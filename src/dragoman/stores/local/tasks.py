"""`LocalTasks`: the tasks of one namespace in the database of a `Local` store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.stores.changes import Listener
from dragoman.stores.contract import TaskSummary
from dragoman.stores.limits import StoreLimits, TaskUsage
from dragoman.stores.local.folder import LocalFolder
from dragoman.stores.table import KeptTask, TableTasks, TaskTable

if TYPE_CHECKING:
    from dragoman.stores.local.transaction import Transaction

Found = TypeVar("Found")
_TASK = (
    "SELECT id, owner, value, revision, phase, token, created_at, expires_at, lease_until, summary, account FROM tasks"
    " WHERE namespace = ?"
)
"""Selects the fields of `KeptTask`."""
_FIND = _TASK + " AND id = ? AND (expires_at IS NULL OR expires_at > ?)"
_LIST = (
    "SELECT id, summary, revision, phase, created_at, expires_at FROM tasks"
    " WHERE namespace = ? AND owner = ? AND number > ?"
    " AND (expires_at IS NULL OR expires_at > ?) ORDER BY number LIMIT ?"
)
_PLACE = "SELECT number FROM tasks WHERE namespace = ? AND owner = ? AND id = ?"
_LOST = (
    _TASK + " AND phase = 'running' AND lease_until <= ?"
    " AND (expires_at IS NULL OR expires_at > ?) ORDER BY lease_until LIMIT 1"
)
_READY = _TASK + " AND phase = 'ready' AND (expires_at IS NULL OR expires_at > ?) ORDER BY number LIMIT 1"
_INSERT = (
    "INSERT INTO tasks (namespace, id, owner, value, revision, phase, token, created_at, expires_at, lease_until,"
    " summary, account, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE tasks SET value = ?, revision = ?, phase = ?, token = ?, expires_at = ?, lease_until = ?, summary = ?,"
    " size = ? WHERE namespace = ? AND id = ?"
)


class LocalTasks(TableTasks):
    """The tasks of one namespace."""

    def __init__(self, folder: LocalFolder, namespace: str, limits: StoreLimits) -> None:
        super().__init__(limits)
        self._folder = folder
        self._namespace = namespace

    async def _step(
        self, work: Callable[[TaskTable], Found], missing: Found, *, reads: bool = False, size: int | None = None
    ) -> Found:
        def step(transaction: Transaction) -> Found:
            return work(_LocalTable(transaction, self._namespace))

        if size is None:
            return await self._folder.existing(step, missing, writes=not reads)
        return await self._folder.write(step, size=size)

    async def _listen(self, id: str | None) -> Listener:
        database = self._folder.database()
        # The database keeps its bell open while there are listeners, so this one comes first.
        listener = database.changes.listen((self._namespace, id))
        try:
            await database.listen()
        except BaseException:
            listener.close()
            raise
        return listener


class _LocalTable:
    """The tasks of one namespace during a transaction."""

    def __init__(self, transaction: Transaction, namespace: str) -> None:
        self.now = transaction.now
        self.next_revision = transaction.next_revision
        self._transaction = transaction
        self._namespace = namespace

    def find(self, id: str) -> KeptTask | None:
        return _kept(self._transaction.one(_FIND, self._namespace, id, self.now))

    def claimable(self) -> KeptTask | None:
        lost = self._transaction.one(_LOST, self._namespace, self.now, self.now)
        return _kept(lost or self._transaction.one(_READY, self._namespace, self.now))

    def owned(self, owner: str, after: str | None, limit: int) -> Iterable[TaskSummary]:
        place = (0,) if after is None else self._transaction.one(_PLACE, self._namespace, owner, after)
        if place is None:
            return ()
        rows = self._transaction.execute(_LIST, (self._namespace, owner, *place, self.now, limit))
        return [TaskSummary(*row) for row in rows]

    def usage(self, account: str) -> TaskUsage:
        counted = [
            f"{what} {whose}"
            for what in ("tasks", "task bytes")
            for whose in (self._namespace, f"{self._namespace} {account}")
        ]
        return TaskUsage(*self._transaction.counts(*counted))

    def add(self, task: KeptTask) -> None:
        self._transaction.execute("DELETE FROM tasks WHERE namespace = ? AND id = ?", (self._namespace, task.id))
        self._transaction.execute(_INSERT, (self._namespace, *task, task.size))
        self._report(task)

    def keep(self, task: KeptTask) -> None:
        changed = task.value, task.revision, task.phase, task.token, task.expires_at, task.lease_until, task.summary
        self._transaction.execute(_UPDATE, (*changed, task.size, self._namespace, task.id))
        self._report(task)

    def keep_lease(self, task: KeptTask) -> None:
        self._transaction.execute(
            "UPDATE tasks SET lease_until = ? WHERE namespace = ? AND id = ?",
            (task.lease_until, self._namespace, task.id),
        )

    def sweep(self) -> int:
        values = self._namespace, self.now
        expired = "SELECT id FROM tasks WHERE namespace = ? AND expires_at <= ?"
        self._transaction.changed.extend((self._namespace, id) for (id,) in self._transaction.execute(expired, values))
        swept = self._transaction.execute("DELETE FROM tasks WHERE namespace = ? AND expires_at <= ?", values)
        return swept.rowcount

    def _report(self, task: KeptTask) -> None:
        self._transaction.changed.append((self._namespace, task.id))
        if task.phase == "ready":
            self._transaction.changed.append((self._namespace, None))


def _kept(row: tuple[Any, ...] | None) -> KeptTask | None:
    """Return the task of a row."""
    return None if row is None else KeptTask(*row)
