"""`CheckedState` and `CheckedTasks`: the methods of the contracts that all engines of this package share.

They check arguments before an engine writes anything, and hand a change over as one value. An engine, and the wrapper
that encrypts for it, only makes the change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from dragoman.stores.contract import TaskPhase, TaskRecord, check_lease, check_ttl


class CheckedState(ABC):
    """The values of one namespace."""

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        check_ttl(ttl)
        revision = await self._set(key, value, None, ttl)
        assert revision is not None
        return revision

    async def compare_and_set(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int | None:
        check_ttl(ttl)
        return await self._set(key, value, revision, ttl)

    @abstractmethod
    async def _set(self, key: str, value: bytes, expected: int | None, ttl: float | None) -> int | None:
        """Set a value if its key has the expected revision, 0 for none; None expects nothing."""


class NewTask(NamedTuple):
    """The arguments of `Tasks.create`."""

    id: str
    value: bytes
    owner: str
    account: str
    summary: bytes
    ttl: float | None
    lease: float | None


class TaskChange(NamedTuple):
    """The arguments of `Tasks.update` and `Tasks.finish`; None for what stays or is not compared."""

    id: str
    value: bytes
    phase: TaskPhase | None
    revision: int | None
    token: int | None
    summary: bytes | None
    ttl: float | None = None


class CheckedTasks(ABC):
    """The tasks of one namespace."""

    async def create(
        self,
        id: str,
        value: bytes,
        *,
        owner: str,
        account: str | None = None,
        summary: bytes = b"",
        ttl: float | None = None,
        lease: float | None = None,
    ) -> TaskRecord:
        check_ttl(ttl)
        check_lease(lease)
        return await self._create(NewTask(id, value, owner, owner if account is None else account, summary, ttl, lease))

    async def update(
        self,
        id: str,
        value: bytes,
        *,
        revision: int,
        token: int | None = None,
        phase: TaskPhase | None = None,
        summary: bytes | None = None,
        ttl: float | None = None,
    ) -> TaskRecord | None:
        check_ttl(ttl)
        return await self._change(TaskChange(id, value, phase, revision, token, summary, ttl))

    async def finish(
        self,
        id: str,
        value: bytes,
        *,
        revision: int | None = None,
        token: int | None = None,
        summary: bytes | None = None,
    ) -> TaskRecord | None:
        return await self._change(TaskChange(id, value, "finished", revision, token, summary))

    async def claim(self, lease: float) -> TaskRecord | None:
        check_lease(lease)
        return await self._claim(lease)

    async def renew(self, id: str, token: int, lease: float) -> bool:
        check_lease(lease)
        return await self._renew(id, token, lease)

    @abstractmethod
    async def _create(self, task: NewTask) -> TaskRecord:
        """Add a task."""

    @abstractmethod
    async def _change(self, change: TaskChange) -> TaskRecord | None:
        """Change or end a task, unless the change is refused."""

    @abstractmethod
    async def _claim(self, lease: float) -> TaskRecord | None:
        """Give the caller a task."""

    @abstractmethod
    async def _renew(self, id: str, token: int, lease: float) -> bool:
        """Extend a lease, unless that is refused."""
