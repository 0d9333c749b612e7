"""`LocalTasks`: the tasks of one namespace in the database of a `Local` store."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from dragoman.errors import StoreError, StoreFull
from dragoman.stores import transitions
from dragoman.stores.changes import Listener
from dragoman.stores.contract import TaskPhase, TaskRecord
from dragoman.stores.local.folder import LocalFolder
from dragoman.stores.transitions import KeptTask

if TYPE_CHECKING:
    from dragoman.stores.local.transaction import Transaction

_FIND = "SELECT * FROM tasks WHERE namespace = ? AND id = ? AND (expires_at IS NULL OR expires_at > ?)"
_LIST = (
    "SELECT * FROM tasks WHERE namespace = ? AND owner = ? AND number > ?"
    " AND (expires_at IS NULL OR expires_at > ?) ORDER BY number LIMIT ?"
)
_LOST = (
    "SELECT * FROM tasks WHERE namespace = ? AND phase = 'running' AND lease_until <= ?"
    " AND (expires_at IS NULL OR expires_at > ?) ORDER BY lease_until LIMIT 1"
)
_READY = (
    "SELECT * FROM tasks WHERE namespace = ? AND phase = 'ready'"
    " AND (expires_at IS NULL OR expires_at > ?) ORDER BY number LIMIT 1"
)
_UPDATE = (
    "UPDATE tasks SET value = ?, revision = ?, phase = ?, token = ?, expires_at = ?, lease_until = ?"
    " WHERE namespace = ? AND id = ?"
)


def _kept(row: tuple[Any, ...]) -> KeptTask:
    """Return the task of a row, which begins with the number and the namespace."""
    return KeptTask(*row[2:])


class LocalTasks:
    """The tasks of one namespace."""

    def __init__(self, folder: LocalFolder, namespace: str, max_tasks: int, max_per_owner: int) -> None:
        self._folder = folder
        self._namespace = namespace
        self._max_tasks = max_tasks
        self._max_per_owner = max_per_owner
        self._ready: Listener | None = None

    async def create(
        self, id: str, value: bytes, *, owner: str, ttl: float | None = None, lease: float | None = None
    ) -> TaskRecord:
        """Add a task."""

        def work(transaction: Transaction) -> TaskRecord:
            if self._find(transaction, id) is not None:
                raise StoreError(f"There is a task with the id {id} already")
            self._require_room(transaction, owner)
            transaction.execute("DELETE FROM tasks WHERE namespace = ? AND id = ?", (self._namespace, id))
            now, revision = transaction.now, transaction.next_revision()
            task = transitions.created(id, value, owner, ttl, lease, now=now, revision=revision)
            transaction.execute(
                "INSERT INTO tasks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (self._namespace, *task)
            )
            self._report(transaction, task)
            return task.record()

        return await self._folder.write(work, size=len(value))

    def _require_room(self, transaction: Transaction, owner: str) -> None:
        for limit, whose, names in (
            (self._max_tasks, "There are", ("tasks", self._namespace)),
            (self._max_per_owner, "The owner has", ("tasks", self._namespace, owner)),
        ):
            if transaction.count(*names) >= limit:
                self._sweep(transaction)
            if transaction.count(*names) >= limit:
                raise StoreFull(f"{whose} {limit} tasks already; wait until some expire")

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task."""
        task = await self._folder.existing(lambda transaction: self._find(transaction, id), None)
        return None if task is None else task.record()

    async def list(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """Return the tasks of an owner."""

        def work(transaction: Transaction) -> list[TaskRecord]:
            place = (0,)
            if after is not None:
                place = transaction.one(
                    "SELECT number FROM tasks WHERE namespace = ? AND owner = ? AND id = ?",
                    *(self._namespace, owner, after),
                )
                if place is None:
                    return []
            rows = transaction.execute(_LIST, (self._namespace, owner, *place, transaction.now, limit))
            return [_kept(row).record() for row in rows]

        return await self._folder.existing(work, [])

    async def update(
        self,
        id: str,
        value: bytes,
        *,
        revision: int,
        token: int | None = None,
        phase: TaskPhase | None = None,
        ttl: float | None = None,
    ) -> TaskRecord | None:
        """Change a task."""

        def work(transaction: Transaction) -> TaskRecord | None:
            return self._changed(
                transaction,
                id,
                lambda task, new: transitions.changed(
                    task, value, phase, expected=revision, token=token, revision=new, ttl=ttl
                ),
            )

        return await self._folder.write(work, size=len(value))

    async def claim(self, lease: float) -> TaskRecord | None:
        """Claim a task; if the caller is cancelled meanwhile, the task is given back."""
        claiming = asyncio.ensure_future(
            self._folder.existing(lambda transaction: self._claim(transaction, lease), None, writes=True)
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claimed = await claiming
            if claimed is not None:
                await self.release(claimed.id, claimed.token)
            raise

    def _claim(self, transaction: Transaction, lease: float) -> TaskRecord | None:
        now = transaction.now
        row = transaction.one(_LOST, self._namespace, now, now)
        was_lost = row is not None
        row = row or transaction.one(_READY, self._namespace, now)
        if row is None:
            return None
        task = transitions.claimed(_kept(row), lease, now=now, revision=transaction.next_revision())
        self._keep(transaction, task)
        return task.record(was_lost=was_lost)

    async def renew(self, id: str, token: int, lease: float) -> bool:
        """Extend a lease."""

        def work(transaction: Transaction) -> bool:
            task = self._find(transaction, id)
            held = None if task is None else transitions.renewed(task, token, lease, now=transaction.now)
            if held is not None:
                transaction.execute(
                    "UPDATE tasks SET lease_until = ? WHERE namespace = ? AND id = ?",
                    (held.lease_until, self._namespace, id),
                )
            return held is not None

        return await self._folder.existing(work, missing=False, writes=True)

    async def release(self, id: str, token: int) -> bool:
        """Give a running task back."""

        def work(transaction: Transaction) -> bool:
            change = self._changed(transaction, id, lambda task, new: transitions.released(task, token, revision=new))
            return change is not None

        return await self._folder.existing(work, missing=False, writes=True)

    async def finish(
        self, id: str, value: bytes, *, revision: int | None = None, token: int | None = None
    ) -> TaskRecord | None:
        """End a task."""

        def work(transaction: Transaction) -> TaskRecord | None:
            return self._changed(
                transaction,
                id,
                lambda task, new: transitions.changed(
                    task, value, "finished", expected=revision, token=token, revision=new
                ),
            )

        return await self._folder.existing(work, None, writes=True)

    async def watch(self, id: str) -> AsyncGenerator[None, None]:
        """Yield after each change of a task."""
        database = self._folder.database()
        listener = database.changes.listen((self._namespace, id))
        try:
            await database.listen()
            while True:
                yield
                await listener.wait()
        finally:
            listener.close()

    async def wait(self, timeout: float) -> None:
        """Wait until a task may have become ready."""
        if self._ready is None or self._ready.loop is not asyncio.get_running_loop():
            database = self._folder.database()
            self._ready = database.changes.listen((self._namespace, None))
            weakref.finalize(self, self._ready.close)
            await database.listen()
        else:
            await self._ready.wait(timeout)

    async def sweep(self) -> int:
        """Delete expired tasks."""
        return await self._folder.existing(self._sweep, 0, writes=True)

    def _sweep(self, transaction: Transaction) -> int:
        values = self._namespace, transaction.now
        rows = transaction.execute("SELECT id FROM tasks WHERE namespace = ? AND expires_at <= ?", values).fetchall()
        transaction.execute("DELETE FROM tasks WHERE namespace = ? AND expires_at <= ?", values)
        transaction.changed.extend((self._namespace, id) for (id,) in rows)
        return len(rows)

    def _find(self, transaction: Transaction, id: str) -> KeptTask | None:
        row = transaction.one(_FIND, self._namespace, id, transaction.now)
        return None if row is None else _kept(row)

    def _changed(
        self, transaction: Transaction, id: str, change: Callable[[KeptTask, int], KeptTask | None]
    ) -> TaskRecord | None:
        """Change a task, unless there is none or the change is refused."""
        found = self._find(transaction, id)
        task = None if found is None else change(found, transaction.next_revision())
        if task is None:
            return None
        self._keep(transaction, task)
        return task.record()

    def _keep(self, transaction: Transaction, task: KeptTask) -> None:
        changed = task.value, task.revision, task.phase, task.token, task.expires_at, task.lease_until
        transaction.execute(_UPDATE, (*changed, self._namespace, task.id))
        self._report(transaction, task)

    def _report(self, transaction: Transaction, task: KeptTask) -> None:
        transaction.changed.append((self._namespace, task.id))
        if task.phase == "ready":
            transaction.changed.append((self._namespace, None))
