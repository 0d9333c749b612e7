"""A store in the memory of one process.

Expired values, logs and tasks count as absent. They are dropped when there are twice as many entries as after the last
time, so that a sweep costs a constant time per entry.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from typing import Literal, NamedTuple

from dragoman.errors import StoreError, StoreFull
from dragoman.stores import transitions
from dragoman.stores.changes import Changes, Listener
from dragoman.stores.contract import LOG_SECONDS, MAX_LOG_BYTES, MAX_LOG_EVENTS, Revised, TaskPhase, TaskRecord
from dragoman.stores.transitions import KeptTask

MAX_LOGS_BYTES = 256 * 1024 * 1024
"""All logs together; beyond it, the log that was idle for longest is dropped."""
MIN_SWEPT = 1000


class Memory:
    """A store in the memory of this process; other processes do not see its content.

    Example:
        server = Server("shop", store=Memory())

    `clock` returns seconds since the epoch; it decides leases and expiry.
    """

    reach: Literal["process"] = "process"

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._logs = _Logs(clock)
        self._values = _Values(clock)
        self._namespaces: dict[str, _Namespace] = {}

    def __repr__(self) -> str:
        return f"<Memory store: {len(self._values.entries)} values, {len(self._logs.logs)} logs>"

    def bus(self, group: str) -> MemoryBus:  # noqa: ARG002
        """Return a bus without other processes."""
        return MemoryBus()

    def log(self, stream: str) -> MemoryLog:
        """Return the log of a stream."""
        return MemoryLog(self._logs, stream)

    def state(self, namespace: str, *, max_values: int = 100_000) -> MemoryState:
        """Return the values of a namespace."""
        return MemoryState(self._values, namespace, max_values)

    def tasks(self, namespace: str, *, max_tasks: int = 100_000, max_per_owner: int = 10_000) -> MemoryTasks:
        """Return the tasks of a namespace."""
        kept = self._namespaces.setdefault(namespace, _Namespace(self._clock))
        return MemoryTasks(kept, max_tasks, max_per_owner)

    async def now(self) -> float:
        """Return the time of the clock."""
        return self._clock()

    async def close(self) -> None:
        """Do nothing: the content ends with the object."""


class MemoryBus:
    """A bus without other processes."""

    def __init__(self) -> None:
        self.name = os.urandom(4).hex()

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Do nothing, because no other process sends messages."""

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:  # noqa: ARG002
        """Return no replies."""
        return []

    async def close(self) -> None:
        """Do nothing."""


class _Events:
    """The events of one stream; the newest event is always kept."""

    def __init__(self) -> None:
        self.events: deque[tuple[int, bytes]] = deque()
        self.size = 0
        self.expires_at = 0.0

    def append(self, sequence: int, event: bytes) -> None:
        self.events.append((sequence, event))
        self.size += len(event)
        while len(self.events) > 1 and (len(self.events) > MAX_LOG_EVENTS or self.size > MAX_LOG_BYTES):
            self.size -= len(self.events.popleft()[1])


class _Logs:
    """The logs of a store; the log with the newest event is the last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.logs: OrderedDict[str, _Events] = OrderedDict()
        self._clock = clock
        self._size = 0

    def append(self, stream: str, sequence: int, event: bytes) -> None:
        log = self.logs.setdefault(stream, _Events())
        before = log.size
        log.append(sequence, event)
        log.expires_at = self._clock() + LOG_SECONDS
        self._size += log.size - before
        self.logs.move_to_end(stream)
        while len(self.logs) > 1 and (self._size > MAX_LOGS_BYTES or self._is_expired(next(iter(self.logs.values())))):
            self.delete(next(iter(self.logs)))

    def after(self, stream: str, sequence: int) -> list[tuple[int, bytes]]:
        log = self.logs.get(stream)
        if log is None or self._is_expired(log):
            return []
        return [(number, event) for number, event in log.events if number > sequence]

    def delete(self, stream: str) -> None:
        log = self.logs.pop(stream, None)
        self._size -= 0 if log is None else log.size

    def _is_expired(self, log: _Events) -> bool:
        return log.expires_at <= self._clock()


class MemoryLog:
    """The log of one stream."""

    def __init__(self, logs: _Logs, stream: str) -> None:
        self._logs = logs
        self._stream = stream

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event, and drop the oldest ones beyond the limits."""
        self._logs.append(self._stream, sequence, event)

    async def flush(self) -> None:
        """Do nothing: an event is kept when `append` returns."""

    async def after(self, sequence: int) -> list[tuple[int, bytes]]:
        """Return the kept events after a number."""
        return self._logs.after(self._stream, sequence)

    async def delete(self) -> None:
        """Delete every event."""
        self._logs.delete(self._stream)


class _Entry(NamedTuple):
    value: bytes
    revision: int
    expires_at: float | None


class _Values:
    """The values of all namespaces, by namespace and key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.entries: dict[tuple[str, str], _Entry] = {}
        self.counts: dict[str, int] = {}
        self._revisions = itertools.count(1)
        self._sweep_at = MIN_SWEPT

    def get(self, name: tuple[str, str]) -> _Entry | None:
        entry = self.entries.get(name)
        return None if entry is None or self._is_expired(entry) else entry

    def set(self, name: tuple[str, str], value: bytes, ttl: float | None, max_values: int) -> int:
        if self.get(name) is None:
            self._make_room(name, max_values)
        expires_at = None if ttl is None else self.clock() + ttl
        self.entries[name] = entry = _Entry(value, next(self._revisions), expires_at)
        return entry.revision

    def delete(self, name: tuple[str, str]) -> bool:
        entry = self.entries.pop(name, None)
        if entry is None:
            return False
        self.counts[name[0]] -= 1
        if not self.counts[name[0]]:
            del self.counts[name[0]]
        return not self._is_expired(entry)

    def _make_room(self, name: tuple[str, str], max_values: int) -> None:
        namespace = name[0]
        self.delete(name)
        if self.counts.get(namespace, 0) >= max_values or len(self.entries) >= self._sweep_at:
            for expired in [name for name, entry in self.entries.items() if self._is_expired(entry)]:
                self.delete(expired)
            self._sweep_at = max(MIN_SWEPT, 2 * len(self.entries))
        if self.counts.get(namespace, 0) >= max_values:
            raise StoreFull(f"The namespace has {max_values} values already; delete some, or give them a shorter ttl")
        self.counts[namespace] = self.counts.get(namespace, 0) + 1

    def _is_expired(self, entry: _Entry) -> bool:
        return entry.expires_at is not None and entry.expires_at <= self.clock()


class MemoryState:
    """The values of one namespace."""

    def __init__(self, values: _Values, namespace: str, max_values: int) -> None:
        self._values = values
        self._namespace = namespace
        self._max_values = max_values

    async def get(self, key: str) -> Revised | None:
        """Return the value of a key."""
        entry = self._values.get((self._namespace, key))
        return None if entry is None else Revised(entry.value, entry.revision)

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Set the value of a key."""
        return self._values.set((self._namespace, key), value, ttl, self._max_values)

    async def compare_and_set(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int | None:
        """Set the value of a key if the key still has a revision."""
        entry = self._values.get((self._namespace, key))
        if (0 if entry is None else entry.revision) != revision:
            return None
        return self._values.set((self._namespace, key), value, ttl, self._max_values)

    async def delete(self, key: str) -> bool:
        """Delete the value of a key."""
        return self._values.delete((self._namespace, key))


class _Namespace:
    """The tasks of one namespace in the order of their creation, and who waits for their changes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.tasks: dict[str, KeptTask] = {}
        self.changes = Changes()
        self.revisions = itertools.count(1)

    def find(self, id: str) -> KeptTask | None:
        task = self.tasks.get(id)
        return None if task is None or task.is_expired(self.clock()) else task

    def alive(self) -> list[KeptTask]:
        now = self.clock()
        return [task for task in self.tasks.values() if not task.is_expired(now)]

    def keep(self, task: KeptTask | None) -> KeptTask | None:
        """Keep a changed task, and report the change; None is a refused change."""
        if task is not None:
            self.tasks[task.id] = task
            self.changes.report([task.id, None] if task.phase == "ready" else [task.id])
        return task

    def sweep(self) -> int:
        now = self.clock()
        expired = [id for id, task in self.tasks.items() if task.is_expired(now)]
        for id in expired:
            del self.tasks[id]
        self.changes.report(expired)
        return len(expired)


class MemoryTasks:
    """The tasks of one namespace."""

    def __init__(self, kept: _Namespace, max_tasks: int, max_per_owner: int) -> None:
        self._kept = kept
        self._max_tasks = max_tasks
        self._max_per_owner = max_per_owner
        self._ready: Listener | None = None

    async def create(
        self, id: str, value: bytes, *, owner: str, ttl: float | None = None, lease: float | None = None
    ) -> TaskRecord:
        """Add a task."""
        if self._kept.find(id) is not None:
            raise StoreError(f"There is a task with the id {id} already")
        self._require_room(owner)
        self._kept.tasks.pop(id, None)
        task = transitions.created(
            id, value, owner, ttl, lease, now=self._kept.clock(), revision=next(self._kept.revisions)
        )
        self._kept.keep(task)
        return task.record()

    def _require_room(self, owner: str) -> None:
        if len(self._kept.tasks) >= min(self._max_tasks, self._max_per_owner):
            self._kept.sweep()
        if len(self._kept.tasks) >= self._max_tasks:
            raise StoreFull(f"There are {self._max_tasks} tasks already; wait until some expire")
        if sum(task.owner == owner for task in self._kept.tasks.values()) >= self._max_per_owner:
            raise StoreFull(f"The owner has {self._max_per_owner} tasks already; wait until some expire")

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task."""
        task = self._kept.find(id)
        return None if task is None else task.record()

    async def list(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """Return the tasks of an owner."""
        owned = [task for task in self._kept.alive() if task.owner == owner]
        if after is not None:
            places = [place for place, task in enumerate(owned, 1) if task.id == after]
            owned = owned[places[0] :] if places else []
        return [task.record() for task in owned[:limit]]

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
        return self._change(id, value, phase, revision, token, ttl)

    async def claim(self, lease: float) -> TaskRecord | None:
        """Claim a task."""
        now = self._kept.clock()
        for task in self._kept.alive():
            was_lost = task.is_lost(now)
            if was_lost or task.phase == "ready":
                held = transitions.claimed(task, lease, now=now, revision=next(self._kept.revisions))
                self._kept.keep(held)
                return held.record(was_lost=was_lost)
        return None

    async def renew(self, id: str, token: int, lease: float) -> bool:
        """Extend a lease."""
        task = self._kept.find(id)
        held = None if task is None else transitions.renewed(task, token, lease, now=self._kept.clock())
        if held is not None:
            self._kept.tasks[id] = held
        return held is not None

    async def release(self, id: str, token: int) -> bool:
        """Give a running task back."""
        task = self._kept.find(id)
        given = None if task is None else transitions.released(task, token, revision=next(self._kept.revisions))
        return self._kept.keep(given) is not None

    async def finish(
        self, id: str, value: bytes, *, revision: int | None = None, token: int | None = None
    ) -> TaskRecord | None:
        """End a task."""
        return self._change(id, value, "finished", revision, token, None)

    def _change(
        self,
        id: str,
        value: bytes,
        phase: TaskPhase | None,
        expected: int | None,
        token: int | None,
        ttl: float | None,
    ) -> TaskRecord | None:
        task = self._kept.find(id)
        if task is None:
            return None
        revision = next(self._kept.revisions)
        kept = self._kept.keep(
            transitions.changed(task, value, phase, expected=expected, token=token, revision=revision, ttl=ttl)
        )
        return None if kept is None else kept.record()

    async def watch(self, id: str) -> AsyncGenerator[None, None]:
        """Yield after each change of a task."""
        listener = self._kept.changes.listen(id)
        try:
            while True:
                yield
                await listener.wait()
        finally:
            listener.close()

    async def wait(self, timeout: float) -> None:
        """Wait until a task may have become ready."""
        if self._ready is None or self._ready.loop is not asyncio.get_running_loop():
            self._ready = self._kept.changes.listen(None)
            weakref.finalize(self, self._ready.close)
        else:
            await self._ready.wait(timeout)

    async def sweep(self) -> int:
        """Delete expired tasks."""
        return self._kept.sweep()
