"""`TableTasks`: the tasks of an engine in Python. The engine supplies a table, and runs each use of it as one step.

`KeptTask` decides how a task changes: its methods return the task as the engine is to keep it, or None if the change is
refused. The engine gives the time and the new revision. `Memory` and `Local` have tables. An engine whose steps run
elsewhere, such as in Redis, implements `Tasks` by itself.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from dragoman.errors import StoreError
from dragoman.stores.changes import Listener
from dragoman.stores.contract import TaskPhase, TaskRecord, TaskSummary
from dragoman.stores.limits import StoreLimits, TaskUsage, task_bytes, task_lack
from dragoman.stores.operations import CheckedTasks, NewTask, TaskChange

Found = TypeVar("Found")


class KeptTask(NamedTuple):
    """A task, its owner, when its lease runs out, and the account whose limits it counts for."""

    id: str
    owner: str
    value: bytes
    revision: int
    phase: TaskPhase
    token: int
    created_at: float
    expires_at: float | None
    lease_until: float | None
    summary: bytes = b""
    account: str = ""

    @property
    def size(self) -> int:
        """The bytes that the task counts."""
        return task_bytes(self.value, self.summary)

    def record(self, *, was_lost: bool = False) -> TaskRecord:
        """Return what the caller sees of the task."""
        id, _, value, revision, phase, token, created_at, expires_at, _, summary, _ = self
        return TaskRecord(id, value, revision, phase, token, created_at, expires_at, was_lost, summary)

    def listed(self) -> TaskSummary:
        """Return what a list shows of the task."""
        return TaskSummary(self.id, self.summary, self.revision, self.phase, self.created_at, self.expires_at)

    def is_expired(self, now: float) -> bool:
        """Tell whether the time to live is over."""
        return self.expires_at is not None and self.expires_at <= now

    def is_lost(self, now: float) -> bool:
        """Tell whether the task is running, and its lease has run out."""
        return self.phase == "running" and (self.lease_until is None or self.lease_until <= now)

    def claimed(self, lease: float, *, now: float, revision: int) -> KeptTask:
        """Return the task of a new holder."""
        return self._replace(phase="running", token=self.token + 1, revision=revision, lease_until=now + lease)

    def renewed(self, token: int, lease: float, *, now: float) -> KeptTask | None:
        """Return the task with a longer lease, unless the token is not that of the holder."""
        return self._replace(lease_until=now + lease) if self._is_held(token) else None

    def released(self, token: int, *, revision: int) -> KeptTask | None:
        """Return the task ready for another holder, unless the token is not that of the holder."""
        return self._replace(phase="ready", lease_until=None, revision=revision) if self._is_held(token) else None

    def _is_held(self, token: int) -> bool:
        return (self.phase, self.token) == ("running", token)

    def changed(self, change: TaskChange, *, revision: int) -> KeptTask | None:
        """Return the changed task, unless it has ended, or has another revision or token than expected."""
        is_expected = change.revision in (None, self.revision) and change.token in (None, self.token)
        if self.phase == "finished" or not is_expected:
            return None
        phase = change.phase or self.phase
        return self._replace(
            value=change.value,
            revision=revision,
            phase=phase,
            expires_at=self.expires_at if change.ttl is None else self.created_at + change.ttl,
            lease_until=self.lease_until if phase == "running" else None,
            summary=self.summary if change.summary is None else change.summary,
        )


def _created(new: NewTask, *, now: float, revision: int) -> KeptTask:
    """Return a new task."""
    return KeptTask(
        id=new.id,
        owner=new.owner,
        value=new.value,
        revision=revision,
        phase="ready" if new.lease is None else "running",
        token=0 if new.lease is None else 1,
        created_at=now,
        expires_at=None if new.ttl is None else now + new.ttl,
        lease_until=None if new.lease is None else now + new.lease,
        summary=new.summary,
        account=new.account,
    )


class TaskTable(Protocol):
    """The tasks of one namespace during one step."""

    @property
    def now(self) -> float:
        """The time of the store."""
        ...

    def next_revision(self) -> int:
        """Return a revision that no task ever had."""
        ...

    def find(self, id: str) -> KeptTask | None:
        """Return a task that has not expired."""
        ...

    def claimable(self) -> KeptTask | None:
        """Return a task that is ready or lost."""
        ...

    def owned(self, owner: str, after: str | None, limit: int) -> Iterable[TaskSummary]:
        """Return the tasks of an owner after a task."""
        ...

    def usage(self, account: str) -> TaskUsage:
        """Return how much all tasks use, and those of an account."""
        ...

    def add(self, task: KeptTask) -> None:
        """Add a task, in the place of an expired one with its id, and report the change."""
        ...

    def keep(self, task: KeptTask) -> None:
        """Keep a task that was changed, and report the change."""
        ...

    def keep_lease(self, task: KeptTask) -> None:
        """Keep the lease of a task, which is all that was changed."""
        ...

    def sweep(self) -> int:
        """Delete the expired tasks, and return their number."""
        ...


class TableTasks(CheckedTasks):
    """The tasks of one namespace."""

    def __init__(self, limits: StoreLimits) -> None:
        self._limits = limits
        self._ready: Listener | None = None

    @abstractmethod
    async def _step(
        self, work: Callable[[TaskTable], Found], missing: Found, *, reads: bool = False, size: int | None = None
    ) -> Found:
        """Use the table in one step, which only reads, or adds `size` bytes; `missing` if the engine has no content."""

    @abstractmethod
    async def _listen(self, id: str | None) -> Listener:
        """Return a listener to the changes of a task, or to tasks that become ready."""

    async def _create(self, new: NewTask) -> TaskRecord:
        def work(table: TaskTable) -> TaskRecord | None:
            if table.find(new.id) is not None:
                raise StoreError(f"There is a task with the id {new.id} already")
            task = _created(new, now=table.now, revision=table.next_revision())
            self._require_room(table, task.account, added_tasks=1, added_bytes=task.size)
            table.add(task)
            return task.record()

        record = await self._step(work, None, size=len(new.value) + len(new.summary))
        assert record is not None
        return record

    def _require_room(self, table: TaskTable, account: str, *, added_tasks: int, added_bytes: int) -> None:
        """Refuse a change that adds more than there is room for; expired tasks make room.

        Raises:
            StoreFull: there is no room.
        """
        if added_tasks == 0 and added_bytes <= 0:
            return
        if task_lack(self._limits, table.usage(account), added_tasks, added_bytes) is not None:
            table.sweep()
            lack = task_lack(self._limits, table.usage(account), added_tasks, added_bytes)
            if lack is not None:
                raise lack

    async def get(self, id: str) -> TaskRecord | None:
        task = await self._step(lambda table: table.find(id), None, reads=True)
        return None if task is None else task.record()

    async def list(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[TaskSummary]:
        nothing: Iterable[TaskSummary] = ()
        return list(await self._step(lambda table: table.owned(owner, after, limit), nothing, reads=True))

    async def _change(self, change: TaskChange) -> TaskRecord | None:
        # A task may end in the room that the engine reserves.
        size = None if change.phase == "finished" else len(change.value) + len(change.summary or b"")
        return await self._apply(change.id, lambda task, new: task.changed(change, revision=new), size=size)

    async def release(self, id: str, token: int) -> bool:
        released = await self._apply(id, lambda task, new: task.released(token, revision=new))
        return released is not None

    async def _apply(
        self, id: str, change: Callable[[KeptTask, int], KeptTask | None], *, size: int | None = None
    ) -> TaskRecord | None:
        """Change a task, unless there is none or the change is refused."""

        def work(table: TaskTable) -> TaskRecord | None:
            found = table.find(id)
            task = None if found is None else change(found, table.next_revision())
            if found is None or task is None:
                return None
            self._require_room(table, task.account, added_tasks=0, added_bytes=task.size - found.size)
            table.keep(task)
            return task.record()

        return await self._step(work, None, size=size)

    async def _claim(self, lease: float) -> TaskRecord | None:
        """Claim a task; if the caller is cancelled meanwhile, the task is given back."""

        def work(table: TaskTable) -> TaskRecord | None:
            found = table.claimable()
            if found is None:
                return None
            task = found.claimed(lease, now=table.now, revision=table.next_revision())
            table.keep(task)
            return task.record(was_lost=found.is_lost(table.now))

        claiming = asyncio.ensure_future(self._step(work, None))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claimed = await claiming
            if claimed is not None:
                await self.release(claimed.id, claimed.token)
            raise

    async def _renew(self, id: str, token: int, lease: float) -> bool:
        def work(table: TaskTable) -> bool:
            found = table.find(id)
            task = None if found is None else found.renewed(token, lease, now=table.now)
            if task is not None:
                table.keep_lease(task)
            return task is not None

        return await self._step(work, missing=False)

    async def watch(self, id: str) -> AsyncGenerator[None, None]:
        listener = await self._listen(id)
        try:
            while True:
                yield
                await listener.wait()
        finally:
            listener.close()

    async def wait(self, timeout: float) -> None:
        if self._ready is None or self._ready.loop is not asyncio.get_running_loop():
            self._ready = await self._listen(None)
        else:
            await self._ready.wait(timeout)

    async def sweep(self) -> int:
        return await self._step(lambda table: table.sweep(), 0)
