"""The `Tasks` of the store `Redis`: a hash for each task, and sorted sets of the ready, running and owned ones.

Each change is a script (`scripts.py`). A list with at most one element, the bell, wakes a process that waits for ready
tasks. A message on the channel of a task wakes those that watch it. Both are hints: who is woken reads the task again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from dragoman.errors import StoreError
from dragoman.stores.contract import TaskRecord, TaskSummary
from dragoman.stores.limits import MIN_TASK_BYTES, Exceeded, StoreLimits, full, task_bytes
from dragoman.stores.operations import CheckedTasks, NewTask, TaskChange
from dragoman.stores.redis.scripts import CHANGE, CLAIM, CREATE, LIST, RELEASE, RENEW, SWEEP
from dragoman.stores.redis.state import milliseconds

if TYPE_CHECKING:
    from dragoman.stores.redis.connection import Reply
    from dragoman.stores.redis.link import RedisLink

FIELDS = ("value", "revision", "phase", "token", "created", "expires", "summary")
SWEPT_AT_ONCE = 1000


class RedisTasks(CheckedTasks):
    """The tasks of one namespace."""

    def __init__(self, link: Callable[[], RedisLink], prefix: str, limits: StoreLimits) -> None:
        self._link = link
        self._prefix = prefix
        self._limits = limits
        self._has_waited = False

    async def _create(self, task: NewTask) -> TaskRecord:
        charge = task.owner, task.account, task_bytes(task.value, task.summary)
        times = milliseconds(task.ttl), _microseconds(task.lease)
        counts = self._limits.tasks, self._limits.tasks_per_caller
        arguments = _name(task.id), task.value, task.summary, *charge, *times, *counts, *self._bytes
        reply = await self._link().commands.change(CREATE, 1, self._prefix, *arguments)
        if reply == b"exists":
            raise StoreError(f"There is a task with the id {task.id} already")
        self._require_room(reply)
        return _record(reply)

    @property
    def _bytes(self) -> tuple[int, int]:
        return self._limits.task_bytes, self._limits.task_bytes_per_caller

    def _require_room(self, reply: Reply) -> None:
        """Raise the error of a script that refused a task for want of room."""
        if not isinstance(reply, bytes):
            return
        lacks: dict[bytes, tuple[Exceeded, int]] = {
            b"entries": ("tasks", self._limits.tasks),
            b"space": ("account tasks", self._limits.tasks_per_caller),
            b"bytes": ("bytes", self._limits.task_bytes),
            b"account bytes": ("account bytes", self._limits.task_bytes_per_caller),
        }
        raise full(*lacks[reply])

    async def get(self, id: str) -> TaskRecord | None:
        fields = await self._link().commands.call("HMGET", self._task(id), *FIELDS)
        return None if fields[0] is None else _record([_name(id), *fields])

    async def list(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[TaskSummary]:
        last = b"" if after is None else _name(after)
        found = await self._link().commands.call(1, self._prefix, owner, last, limit, script=LIST)
        return [_summary(fields) for fields in found]

    async def _change(self, change: TaskChange) -> TaskRecord | None:
        content = change.value, change.summary or b"", int(change.summary is not None)
        expected = ["" if number is None else number for number in (change.revision, change.token)]
        limits = MIN_TASK_BYTES, *self._bytes
        arguments = *content, *expected, change.phase or "", milliseconds(change.ttl), *limits
        reply = await self._link().commands.change(CHANGE, 1, self._prefix, _name(change.id), *arguments)
        self._require_room(reply)
        return None if reply is None else _record(reply)

    async def _claim(self, lease: float) -> TaskRecord | None:
        reply = await self._link().commands.change(CLAIM, 1, self._prefix, _microseconds(lease))
        return None if reply is None else _record(reply[:8])._replace(was_lost=bool(reply[8]))

    async def _renew(self, id: str, token: int, lease: float) -> bool:
        arguments = (self._prefix, _name(id), token, _microseconds(lease))
        return bool(await self._link().commands.change(RENEW, 1, *arguments))

    async def release(self, id: str, token: int) -> bool:
        return bool(await self._link().commands.change(RELEASE, 1, self._prefix, _name(id), token))

    async def watch(self, id: str) -> AsyncGenerator[None, None]:
        """Yield after each change of a task, and when the connection was lost.

        Raises:
            StoreUnavailable: the server cannot be reached for longer than the limit of a command.
        """
        channels, channel = self._link().channels, f"{self._prefix}changed:".encode() + _name(id)
        changed = asyncio.Event()

        def heard(_: bytes | None) -> None:
            changed.set()

        try:
            channels.add(channel, heard)
            await channels.subscribed(channel)
            while True:
                changed.clear()
                yield
                await channels.subscribed(channel)
                await changed.wait()
        finally:
            channels.remove(channel, heard)

    async def wait(self, timeout: float) -> None:
        if self._has_waited:
            await self._link().wait_for_element(f"{self._prefix}bell", timeout)
        self._has_waited = True

    async def sweep(self) -> int:
        total = 0
        while True:
            swept = int(await self._link().commands.call(1, self._prefix, script=SWEEP))
            total += swept
            if swept < SWEPT_AT_ONCE:
                return total

    def _task(self, id: str) -> bytes:
        return f"{self._prefix}task:".encode() + _name(id)


def _name(id: str) -> bytes:
    """Return the bytes of an id; a client may have sent any text as an id."""
    return id.encode("utf-8", "surrogatepass")


def _microseconds(lease: float | None) -> str:
    return "" if lease is None else str(round(lease * 1_000_000))


def _record(fields: list[Any]) -> TaskRecord:
    id, value, revision, phase, token, created, expires, summary = fields
    return TaskRecord(
        id.decode("utf-8", "surrogatepass"),
        value,
        int(revision),
        phase.decode(),
        int(token),
        int(created) / 1_000_000,
        int(expires) / 1000 if expires else None,
        summary=summary,
    )


def _summary(fields: list[Any]) -> TaskSummary:
    id, summary, revision, phase, created, expires = fields
    return TaskSummary(
        id.decode("utf-8", "surrogatepass"),
        summary,
        int(revision),
        phase.decode(),
        int(created) / 1_000_000,
        int(expires) / 1000 if expires else None,
    )
