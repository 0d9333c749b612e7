"""How a task changes: the decisions that the engines in Python share.

A function takes a task as the engine keeps it, and returns the task as it is to be kept, or None if the change is
refused. The engine gives the time and the new revision, and runs the function and the writing as one step.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.stores.contract import TaskPhase, TaskRecord, TaskSummary
from dragoman.stores.limits import task_bytes


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


def created(
    id: str,
    value: bytes,
    owner: str,
    ttl: float | None,
    lease: float | None,
    *,
    now: float,
    revision: int,
    summary: bytes = b"",
    account: str = "",
) -> KeptTask:
    """Return a new task."""
    expires_at = None if ttl is None else now + ttl
    if lease is None:
        return KeptTask(id, owner, value, revision, "ready", 0, now, expires_at, None, summary, account)
    return KeptTask(id, owner, value, revision, "running", 1, now, expires_at, now + lease, summary, account)


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


def changed(
    task: KeptTask,
    value: bytes,
    phase: TaskPhase | None,
    *,
    expected: int | None,
    token: int | None,
    revision: int,
    summary: bytes | None = None,
    ttl: float | None = None,
) -> KeptTask | None:
    """Change the value and the phase of a task that has the expected revision and token; None expects nothing."""
    if task.phase == "finished" or expected not in (None, task.revision) or token not in (None, task.token):
        return None
    phase = phase or task.phase
    return task._replace(
        value=value,
        revision=revision,
        phase=phase,
        expires_at=task.expires_at if ttl is None else task.created_at + ttl,
        lease_until=task.lease_until if phase == "running" else None,
        summary=task.summary if summary is None else summary,
    )
