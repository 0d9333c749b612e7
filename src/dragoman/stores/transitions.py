"""How a task changes: the decisions that the engines in Python share.

A function takes a task as the engine keeps it, and returns the task as it is to be kept, or None if the change is
refused. The engine gives the time and the new revision, and runs the function and the writing as one step.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.stores.contract import TaskPhase, TaskRecord, TaskSummary
from dragoman.stores.limits import task_bytes
from dragoman.stores.operations import NewTask, TaskChange


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


def created(new: NewTask, *, now: float, revision: int) -> KeptTask:
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


def claimed(task: KeptTask, lease: float, *, now: float, revision: int) -> KeptTask:
    """Give a task to a new holder."""
    return task._replace(phase="running", token=task.token + 1, revision=revision, lease_until=now + lease)


def renewed(task: KeptTask, token: int, lease: float, *, now: float) -> KeptTask | None:
    """Extend the lease of a running task."""
    return task._replace(lease_until=now + lease) if (task.phase, task.token) == ("running", token) else None


def released(task: KeptTask, token: int, *, revision: int) -> KeptTask | None:
    """Give a running task back."""
    is_holder = (task.phase, task.token) == ("running", token)
    return task._replace(phase="ready", lease_until=None, revision=revision) if is_holder else None


def changed(task: KeptTask, change: TaskChange, *, revision: int) -> KeptTask | None:
    """Change the value and the phase of a task that has the expected revision and token."""
    is_expected = change.revision in (None, task.revision) and change.token in (None, task.token)
    if task.phase == "finished" or not is_expected:
        return None
    phase = change.phase or task.phase
    return task._replace(
        value=change.value,
        revision=revision,
        phase=phase,
        expires_at=task.expires_at if change.ttl is None else task.created_at + change.ttl,
        lease_until=task.lease_until if phase == "running" else None,
        summary=task.summary if change.summary is None else change.summary,
    )
