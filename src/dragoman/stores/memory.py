"""A store in the memory of one process.

Expired values, logs and tasks count as absent. They are dropped when there are twice as many entries as after the last
time, so that a sweep costs a constant time per entry.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Literal, NamedTuple, TypeVar

from dragoman.errors import StoreFull
from dragoman.stores.changes import Changes, Listener
from dragoman.stores.contract import (
    LOG_SECONDS,
    MAX_LOG_BYTES,
    MAX_LOG_EVENTS,
    MAX_LOGS_BYTES,
    Revised,
    TaskSummary,
)
from dragoman.stores.limits import (
    ALONE,
    CountedValue,
    Share,
    StoreLimits,
    TaskUsage,
    ValueUsage,
    value_bytes,
    value_lack,
    value_limits,
)
from dragoman.stores.operations import CheckedState
from dragoman.stores.table import KeptTask, TableTasks, TaskTable

Found = TypeVar("Found")
Counted = TypeVar("Counted", bound=Hashable)
MIN_SWEPT = 1000


class Memory:
    """A store in the memory of this process; other processes do not see its content.

    Example:
        server = Server("shop", store=Memory())

    `limits` are the bytes that the store keeps for a server and its callers. `clock` returns seconds since the epoch;
    it decides leases and expiry.
    """

    reach: Literal["process"] = "process"

    def __init__(self, *, limits: StoreLimits | None = None, clock: Callable[[], float] = time.time) -> None:
        self.limits = limits or StoreLimits()
        self._clock = clock
        self._logs = _Logs(clock)
        self._values = _Values(clock)
        self._tables: dict[str, _MemoryTable] = {}

    def __repr__(self) -> str:
        return f"<Memory store: {len(self._values.entries)} values, {len(self._logs.logs)} logs>"

    def bus(self, group: str) -> MemoryBus:  # noqa: ARG002
        """Return a bus without other processes."""
        return MemoryBus()

    def log(self, stream: str) -> MemoryLog:
        """Return the log of a stream."""
        return MemoryLog(self._logs, stream)

    def state(
        self, namespace: str, *, max_values: int = 100_000, share: Share = ALONE, limits: StoreLimits | None = None
    ) -> MemoryState:
        """Return the values of a namespace."""
        return MemoryState(self._values, namespace, max_values, *value_limits(namespace, share, limits or self.limits))

    def tasks(self, namespace: str, *, limits: StoreLimits | None = None) -> MemoryTasks:
        """Return the tasks of a namespace."""
        table = self._tables.setdefault(namespace, _MemoryTable(self._clock))
        return MemoryTasks(table, limits or self.limits)

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
        return self._logs.after(self._stream, sequence)

    async def delete(self) -> None:
        self._logs.delete(self._stream)


class _Entry(NamedTuple):
    value: bytes
    revision: int
    expires_at: float | None
    share: Share


class _Values:
    """The values of all namespaces, by namespace and key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.entries: dict[tuple[str, str], _Entry] = {}
        self.counts: Counter[str] = Counter()
        """The number of values, by namespace."""
        self.sizes: Counter[Share] = Counter()
        """The bytes of values, by group, and by group and account."""
        self._revisions = itertools.count(1)
        self._sweep_at = MIN_SWEPT

    def get(self, name: tuple[str, str]) -> _Entry | None:
        entry = self.entries.get(name)
        return None if entry is None or self._is_expired(entry) else entry

    def set(
        self,
        name: tuple[str, str],
        value: bytes,
        share: Share,
        expires_at: float | None,
        lack: Callable[[_Entry | None], StoreFull | None],
    ) -> int:
        """Set a value, unless there is no room, of which `lack` decides; expired values make room."""
        problem = lack(self.entries.get(name))
        if problem is not None or len(self.entries) >= self._sweep_at:
            self._sweep()
            problem = lack(self.entries.get(name))
        if problem is not None:
            raise problem
        self.delete(name)
        self.entries[name] = entry = _Entry(value, next(self._revisions), expires_at, share)
        self._count(name, entry, 1)
        return entry.revision

    def _sweep(self) -> None:
        for expired in [name for name, entry in self.entries.items() if self._is_expired(entry)]:
            self.delete(expired)
        self._sweep_at = max(MIN_SWEPT, 2 * len(self.entries))

    def delete(self, name: tuple[str, str]) -> bool:
        entry = self.entries.pop(name, None)
        if entry is None:
            return False
        self._count(name, entry, -1)
        return not self._is_expired(entry)

    def _count(self, name: tuple[str, str], entry: _Entry, sign: int) -> None:
        size = sign * value_bytes(entry.value)
        _add(self.counts, name[0], sign)
        for share in {Share(entry.share.group), entry.share}:
            _add(self.sizes, share, size)

    def _is_expired(self, entry: _Entry) -> bool:
        return entry.expires_at is not None and entry.expires_at <= self.clock()


def _add(counter: Counter[Counted], key: Counted, amount: int) -> None:
    """Add to a counter, and forget it at 0."""
    counter[key] += amount
    if not counter[key]:
        del counter[key]


class MemoryState(CheckedState):
    """The values of one namespace."""

    def __init__(self, values: _Values, namespace: str, max_values: int, share: Share, limits: StoreLimits) -> None:
        self._values = values
        self._namespace = namespace
        self._max_values = max_values
        self._share = share
        self._limits = limits

    async def get(self, key: str) -> Revised | None:
        entry = self._values.get((self._namespace, key))
        return None if entry is None else Revised(entry.value, entry.revision)

    async def _set(self, key: str, value: bytes, expected: int | None, ttl: float | None) -> int | None:
        name, values = (self._namespace, key), self._values
        entry = values.get(name)
        if expected not in (None, 0 if entry is None else entry.revision):
            return None
        expires_at = None if ttl is None else values.clock() + ttl
        counted = CountedValue(value_bytes(value), self._share.account)
        return values.set(name, value, self._share, expires_at, lambda before: self._lack(before, counted))

    def _lack(self, entry: _Entry | None, value: CountedValue) -> StoreFull | None:
        """Return why there is no room for a value that replaces an entry; None if there is."""
        sizes, share = self._values.sizes, self._share
        usage = ValueUsage(self._values.counts[self._namespace], sizes[Share(share.group)], sizes[share])
        before = None if entry is None else CountedValue(value_bytes(entry.value), entry.share.account)
        return value_lack(self._limits, self._max_values, usage, value, before)

    async def delete(self, key: str) -> bool:
        return self._values.delete((self._namespace, key))


class _MemoryTable:
    """The tasks of one namespace in the order of their creation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.changes = Changes()
        self._clock = clock
        self._tasks: dict[str, KeptTask] = {}
        self._counts: Counter[str] = Counter()
        """The number of tasks, by account."""
        self._sizes: Counter[str | None] = Counter()
        """The bytes of tasks, by account; None for all."""
        self._revisions = itertools.count(1)

    @property
    def now(self) -> float:
        return self._clock()

    def next_revision(self) -> int:
        return next(self._revisions)

    def find(self, id: str) -> KeptTask | None:
        task = self._tasks.get(id)
        return None if task is None or task.is_expired(self.now) else task

    def claimable(self) -> KeptTask | None:
        now = self.now
        claimable = (task for task in self._tasks.values() if task.phase == "ready" or task.is_lost(now))
        return next((task for task in claimable if not task.is_expired(now)), None)

    def owned(self, owner: str, after: str | None, limit: int) -> Iterable[TaskSummary]:
        owned = iter([task for task in self._tasks.values() if task.owner == owner and not task.is_expired(self.now)])
        if after is not None:
            # The search leaves the iterator behind the task, or at its end.
            any(task.id == after for task in owned)
        return [task.listed() for task in itertools.islice(owned, limit)]

    def usage(self, account: str) -> TaskUsage:
        return TaskUsage(len(self._tasks), self._counts[account], self._sizes[None], self._sizes[account])

    def add(self, task: KeptTask) -> None:
        self._remove(task.id)
        _add(self._counts, task.account, 1)
        self.keep(task)

    def keep(self, task: KeptTask) -> None:
        before = self._tasks.get(task.id)
        self._tasks[task.id] = task
        self._resize(task.account, task.size - (0 if before is None else before.size))
        self.changes.report([task.id, None] if task.phase == "ready" else [task.id])

    def keep_lease(self, task: KeptTask) -> None:
        self._tasks[task.id] = task

    def sweep(self) -> int:
        expired = [task.id for task in self._tasks.values() if task.is_expired(self.now)]
        for id in expired:
            self._remove(id)
        self.changes.report(expired)
        return len(expired)

    def _remove(self, id: str) -> None:
        task = self._tasks.pop(id, None)
        if task is not None:
            _add(self._counts, task.account, -1)
            self._resize(task.account, -task.size)

    def _resize(self, account: str, amount: int) -> None:
        _add(self._sizes, account, amount)
        _add(self._sizes, None, amount)


class MemoryTasks(TableTasks):
    """The tasks of one namespace."""

    def __init__(self, table: _MemoryTable, limits: StoreLimits) -> None:
        super().__init__(limits)
        self._table = table

    async def _step(
        self,
        work: Callable[[TaskTable], Found],
        missing: Found,  # noqa: ARG002
        *,
        reads: bool = False,  # noqa: ARG002
        size: int | None = None,  # noqa: ARG002
    ) -> Found:
        return work(self._table)

    async def _listen(self, id: str | None) -> Listener:
        return self._table.changes.listen(id)
