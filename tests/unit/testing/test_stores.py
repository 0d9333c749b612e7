"""The check of stores passes for ours, and finds what is wrong with others."""

import asyncio
import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.errors import StoreError, StoreFull
from dragoman.stores import Memory, StoreLimits, TaskRecord
from dragoman.stores.memory import MemoryLog, MemoryState, MemoryTasks
from dragoman.testing import check_store
from dragoman.testing.stores import check

TTL = 0.05
LONG_TTL = 0.4
"""For engines that are a little early: the check must look in time."""


def parts_of(store: Memory) -> list[bytes]:
    """Everything that a store in memory keeps."""
    texts = [repr(store._values.entries), repr([log.events for log in store._logs.logs.values()])]
    texts += [repr((name, table._tasks)) for name, table in store._tables.items()]
    return [text.encode() for text in texts]


async def test_the_store_in_memory_passes():
    store = Memory()
    await check_store(lambda: store, contents=lambda: parts_of(store), ttl=TTL)


def broken(part: type) -> Memory:
    """An engine in which one part is made of a changed class."""

    class Engine(Memory):
        def log(self, stream):
            return part(self._logs, stream) if issubclass(part, MemoryLog) else super().log(stream)

        def state(self, namespace, **options):
            whole = super().state(namespace, **options)
            parts = whole._values, whole._namespace, whole._max_values, whole._share, whole._limits
            return part(*parts) if issubclass(part, MemoryState) else whole

        def tasks(self, namespace, **options):
            whole = super().tasks(namespace, **options)
            return part(whole._table, whole._limits) if issubclass(part, MemoryTasks) else whole

    return Engine()


BROKEN: list[tuple[type, str]] = []
"""The changed classes, and the promise that each breaks."""


def breaks(promise: str) -> Callable[[type], type]:
    def note(part: type) -> type:
        BROKEN.append((part, promise))
        return part

    return note


# Logs.

kept: dict[str, list[tuple[int, bytes]]] = {}


@breaks("a handle must read the events that it appended")
class Unordered(MemoryLog):
    async def after(self, sequence):
        return sorted(await super().after(sequence), reverse=True)


@breaks("after\\(\\) must return the events after a number")
class Inclusive(MemoryLog):
    async def after(self, sequence):
        return await super().after(sequence - 1 if sequence else 0)


@breaks("every handle must read the flushed events")
class Private(MemoryLog):
    def __init__(self, logs, stream):
        super().__init__(logs, stream + os.urandom(4).hex())


@breaks("each stream must have a log of its own|a new log must be empty|a deleted log must be empty")
class OneForAll(MemoryLog):
    def __init__(self, logs, stream):
        super().__init__(logs, "stream" if stream.startswith("stream") and logs.logs else stream)


@breaks("a log must drop its oldest events")
class Unbounded(MemoryLog):
    def append(self, sequence, event):
        super().append(sequence, event)
        events = kept.setdefault(self._stream, [])
        events.append((sequence, event))

    async def after(self, sequence):
        return [(number, event) for number, event in kept.get(self._stream, []) if number > sequence]

    async def delete(self):
        kept.pop(self._stream, None)


@breaks("events of one turn of the loop must be written in order")
class Short(MemoryLog):
    async def after(self, sequence):
        return (await super().after(sequence))[-50:]


@breaks("a log must drop the oldest events, and no others")
class DropsTheNewest(MemoryLog):
    def append(self, sequence, event):
        if sequence <= 1000:
            super().append(sequence, event)


@breaks("a deleted log must be empty")
class Undeletable(MemoryLog):
    async def delete(self):
        pass


@breaks("an event of 1048576 bytes must be kept whole")
class Cutting(MemoryLog):
    def append(self, sequence, event):
        super().append(sequence, event[:65536])


# Values.


@breaks("a value with a ttl of 0.05 seconds must expire")
class Everlasting(MemoryState):
    async def set(self, key, value, *, ttl=None):
        return await super().set(key, value)


@breaks("must live so long")
class Hasty(MemoryState):
    async def set(self, key, value, *, ttl=None):
        return await super().set(key, value, ttl=ttl and ttl / 2)


@breaks("a value that is set without a ttl must stay")
class KeepsTheLife(MemoryState):
    async def set(self, key, value, *, ttl=None):
        name = self._namespace, key
        entry = self._values.get(name)
        revision = await super().set(key, value, ttl=ttl)
        if entry is not None and ttl is None:
            self._values.entries[name] = self._values.entries[name]._replace(expires_at=entry.expires_at)
        return revision


@breaks("a value must be in one namespace only")
class Crowded(MemoryState):
    def __init__(self, values, namespace, max_values, share, limits):
        super().__init__(values, namespace[:6], 10**6, share, limits)


@breaks("a value must come back byte for byte")
class Forgetful(MemoryState):
    async def set(self, key, value, *, ttl=None):
        revision = await super().set(key, value, ttl=ttl)
        entry = self._values.entries[self._namespace, key]
        self._values.entries[self._namespace, key] = entry._replace(value=entry.value[:10])
        return revision


@breaks("a revision must never be used again, also after delete")
class StartsAnew(MemoryState):
    """Counts the revisions of a key from 1 when it was deleted."""

    async def delete(self, key):
        self._values._revisions = itertools.count(1)
        return await super().delete(key)


@breaks("1000 increments by 20 writers must count 1000")
class Racy(MemoryState):
    async def compare_and_set(self, key, value, revision, *, ttl=None):
        entry = self._values.get((self._namespace, key))
        await asyncio.sleep(0)
        if (0 if entry is None else entry.revision) != revision:
            return None
        return await self.set(key, value, ttl=ttl)


@breaks("compare_and_set\\(\\) must refuse a revision of no value")
class Credulous(MemoryState):
    async def compare_and_set(self, key, value, revision, *, ttl=None):
        return await self.set(key, value, ttl=ttl)


@breaks("set\\(\\) of a new key in a full namespace must raise StoreFull")
class Boundless(MemoryState):
    def __init__(self, values, namespace, max_values, share, limits):
        super().__init__(values, namespace, 10**6, share, limits)


@breaks("set\\(\\) beyond the bytes of its account must raise StoreFull")
class Lavish(MemoryState):
    def __init__(self, values, namespace, max_values, share, limits):
        super().__init__(values, namespace, max_values, share, StoreLimits())


@breaks("set\\(\\) must refuse a ttl of 0")
class Untimely(MemoryState):
    async def set(self, key, value, *, ttl=None):
        return await super().set(key, value, ttl=ttl if ttl is None or 0 < ttl < 10_000 else None)


@breaks("an expired value must not count")
class CountsTheDead(MemoryState):
    async def set(self, key, value, *, ttl=None):
        if self._values.counts[self._namespace] >= self._max_values:
            entry = self._values.entries.get((self._namespace, key))
            if entry is None:
                raise StoreFull("full")
        return await super().set(key, value, ttl=ttl)


@breaks("delete\\(\\) of a key without a value must return False")
class Boastful(MemoryState):
    async def delete(self, key):
        await super().delete(key)
        return True


# Tasks.


@breaks("created with a lease must be running")
class Silent(MemoryTasks):
    async def create(self, id, value, *, owner, ttl=None, lease=None):
        return await super().create(id, value, owner=owner, ttl=ttl)


@breaks("create\\(\\) of an id that exists must raise a StoreError")
class Replacing(MemoryTasks):
    async def create(self, id, value, *, owner, ttl=None, lease=None):
        try:
            return await super().create(id, value, owner=owner, ttl=ttl, lease=lease)
        except StoreError:
            del self._table._tasks[id]
            return await super().create(id, value, owner=owner, ttl=ttl, lease=lease)


@breaks("in the order of their creation|one owner only")
class Talkative(MemoryTasks):
    async def list(self, owner, *, after=None, limit=100):
        return [task.record() for task in self._table._tasks.values()]


@breaks("list\\(\\) must go on after a task")
class Unpaged(MemoryTasks):
    async def list(self, owner, *, after=None, limit=100):
        return await super().list(owner)


@breaks("update\\(\\) with an old revision must be refused")
class Overwriting(MemoryTasks):
    async def update(self, id, value, *, revision, token=None, phase=None, ttl=None):
        found = await self.get(id)
        revision = revision if found is None else found.revision
        return await super().update(id, value, revision=revision, token=token, phase=phase, ttl=ttl)


@breaks("of 20 claims of 3 tasks exactly 3 must succeed")
class TwoHolders(MemoryTasks):
    async def claim(self, lease):
        now = self._table.now
        ready = [task for task in self._table._tasks.values() if task.phase == "ready" or task.is_lost(now)]
        await asyncio.sleep(0)
        for task in ready[:1]:
            held = task.claimed(lease, now=now, revision=self._table.next_revision())
            self._table.keep(held)
            return held.record(was_lost=task.is_lost(now))
        return None


@breaks("tokens must ascend")
class SameToken(MemoryTasks):
    async def claim(self, lease):
        claim = await super().claim(lease)
        if claim is None:
            return None
        self._table._tasks[claim.id] = self._table._tasks[claim.id]._replace(token=1)
        return claim._replace(token=1)


@breaks("update\\(\\) with an old token must be refused, also with the newest revision")
class Unfenced(MemoryTasks):
    """Compares revisions, and no tokens."""

    async def update(self, id, value, *, revision, token=None, **options):
        return await super().update(id, value, revision=revision, **options)


@breaks("finish\\(\\) with an old token must be refused")
class FinishesForAnyone(MemoryTasks):
    async def finish(self, id, value, *, revision=None, token=None, summary=None):
        return await super().finish(id, value, revision=revision, summary=summary)


@breaks("renew\\(\\) with another token must be refused")
class RenewsForAnyone(MemoryTasks):
    async def renew(self, id, token, lease):
        found = await self.get(id)
        return found is not None and found.phase == "running" and await super().renew(id, found.token, lease)


@breaks("release\\(\\) with another token must be refused")
class ReleasesForAnyone(MemoryTasks):
    async def release(self, id, token):
        found = await self.get(id)
        return found is not None and await super().release(id, found.token)


@breaks("a claim after a lost lease must say so")
class NeverLost(MemoryTasks):
    async def claim(self, lease):
        claim = await super().claim(lease)
        return None if claim is None else claim._replace(was_lost=False)


@breaks("whose lease of 0.05 seconds ran out must be claimed by another")
class EndlessLease(MemoryTasks):
    async def claim(self, lease):
        return await super().claim(10_000)


@breaks("a lease of 0.4 seconds must last so long")
class Impatient(MemoryTasks):
    async def claim(self, lease):
        return await super().claim(lease / 4)


@breaks("a task whose lease is renewed in time must not be claimed")
class DeafToRenewal(MemoryTasks):
    async def renew(self, id, token, lease):
        found = await self.get(id)
        return found is not None and (found.phase, found.token) == ("running", token)


@breaks("a parked task must not be claimed")
class ClaimsTheParked(MemoryTasks):
    async def claim(self, lease):
        for task in self._table._tasks.values():
            if task.phase == "parked":
                self._table._tasks[task.id] = task._replace(phase="ready")
        return await super().claim(lease)


@breaks("a finished task is final: finish\\(\\) must be refused")
class NotFinal(MemoryTasks):
    async def finish(self, id, value, *, revision=None, token=None, summary=None):
        task = self._table._tasks.get(id)
        if task is not None and task.phase == "finished":
            self._table._tasks[id] = task._replace(phase="running")
        return await super().finish(id, value, revision=revision, token=token, summary=summary)


@breaks("expire")
class Undying(MemoryTasks):
    async def create(self, id, value, **options):
        record = await super().create(id, value, **options)
        self._table._tasks[id] = self._table._tasks[id]._replace(expires_at=None)
        return record

    async def get(self, id):
        return self._with_expiry(await super().get(id))

    @staticmethod
    def _with_expiry(record: TaskRecord | None) -> TaskRecord | None:
        return None if record is None else record._replace(expires_at=record.created_at + 3600)


@breaks("an owner with limits.tasks_per_caller tasks must raise StoreFull")
class Greedy(MemoryTasks):
    def __init__(self, table, limits):
        super().__init__(table, StoreLimits())


@breaks("create\\(\\) beyond the bytes of its account must raise StoreFull")
class Unmeasured(MemoryTasks):
    def __init__(self, table, limits):
        super().__init__(table, StoreLimits(tasks=limits.tasks, tasks_per_caller=limits.tasks_per_caller))


@breaks("update\\(\\) beyond the bytes of the account must raise StoreFull")
class OnlyMeasuresNewTasks(MemoryTasks):
    async def update(self, id, value, **options):
        limits, self._limits = self._limits, StoreLimits()
        try:
            return await super().update(id, value, **options)
        finally:
            self._limits = limits


@breaks("list\\(\\) must return the summary of each task")
class ListsWithoutSummaries(MemoryTasks):
    async def list(self, owner, **options):
        return [task._replace(summary=b"") for task in await super().list(owner, **options)]


@breaks("claim\\(\\) and renew\\(\\) must refuse -1 seconds")
class ClampsLeases(MemoryTasks):
    async def renew(self, id, token, lease):
        return await super().renew(id, token, lease if 0 <= lease < 10_000 else 10_000)


@breaks("sweep\\(\\) must delete expired tasks only")
class SweepsAll(MemoryTasks):
    async def sweep(self):
        swept = len(self._table._tasks)
        self._table._tasks.clear()
        return swept


@breaks("watch\\(\\) of a task that was changed")
class Blind(MemoryTasks):
    async def watch(self, id):
        yield
        await asyncio.sleep(3600)


@breaks("wait\\(\\) after a task became ready")
class Sleepy(MemoryTasks):
    async def wait(self, timeout):
        if self._ready is None:
            await super().wait(timeout)
        else:
            await asyncio.sleep(timeout)


@breaks("wait\\(\\) after a task became ready")
class MissesWhatCameBefore(MemoryTasks):
    """Hears only what becomes ready while it waits."""

    async def wait(self, timeout):
        if self._ready is not None:
            self._ready.changed.clear()
        await super().wait(timeout)


@pytest.mark.parametrize(("part", "promise"), BROKEN, ids=[part.__name__ for part, _ in BROKEN])
async def test_an_engine_that_breaks_a_promise_is_found(part, promise):
    ttl, store = LONG_TTL if "0.4" in promise or "so long" in promise else TTL, broken(part)
    with pytest.raises(AssertionError, match=promise):
        await check_store(lambda: store, ttl=ttl, timeout=1)


class Hub(Memory):
    """Stores that hear each other in this process, and say that they reach others."""

    reach: Any = "machine"

    def __init__(self, member: type):
        super().__init__()
        self.groups: dict[str, dict[str, Any]] = {}
        self.member = member

    def bus(self, group):
        return self.member(self.groups, group)


class Member:
    """A bus between the stores of this process."""

    def __init__(self, groups, group):
        self.name = os.urandom(4).hex()
        self.groups = groups
        self.members = groups.setdefault(group, {})

    async def open(self, receive):
        self.members[self.name] = receive

    async def publish(self, message, to=None):
        if self.name not in self.members:
            return []
        others = [receive for name, receive in self.members.items() if name != self.name and to in (None, name)]
        return [receive(message) for receive in others]

    async def close(self):
        self.members.pop(self.name, None)


class Echoing(Member):
    async def publish(self, message, to=None):
        return [receive(message) for name, receive in self.members.items() if to in (None, name)]


class Mute(Member):
    async def publish(self, message, to=None):
        await super().publish(message, to)
        return []


class Shouting(Member):
    async def publish(self, message, to=None):
        return await super().publish(message)


class Swapping(Member):
    """Delivers of two messages the second first."""

    async def publish(self, message, to=None):
        if message.isdigit():
            await asyncio.sleep(0.01 * (10 - int(message) % 10))
        return await super().publish(message, to)


class Gossiping(Member):
    async def publish(self, message, to=None):
        replies = await super().publish(message, to)
        for members in self.groups.values():
            for receive in members.values() if members is not self.members else ():
                receive(message)
        return replies


class ClosesOnce(Member):
    async def close(self):
        if self.name in self.members:
            del self.members[self.name]
        else:
            await asyncio.sleep(3600)


class Staying(Member):
    async def close(self):
        pass


@pytest.mark.parametrize(
    ("member", "promise"),
    [
        (Member, "other processes must see a value that was set"),
        (Echoing, "a sender must not|without others must return no replies"),
        (Mute, "must return the reply of every other process"),
        (Shouting, "publish\\(to=\\) must return the reply of that process"),
        (Swapping, "must arrive in the order of publishing"),
        (Gossiping, "a message must stay in its group"),
        (ClosesOnce, "close\\(\\) .*must come to an end"),
        (Staying, "a process that left the group must not be reached"),
    ],
)
async def test_a_bus_that_breaks_a_promise_is_found(member, promise):
    store = Hub(member)
    with pytest.raises(AssertionError, match=promise):
        await check_store(_Stores(store), ttl=TTL, timeout=30 if member is Member else 1)


class _Stores:
    """Gives the same store in this process, and in another process a store of that process."""

    def __init__(self, store: Memory) -> None:
        self.store = store

    def __call__(self) -> Memory:
        return self.store

    def __reduce__(self) -> Any:
        return functools.partial, (Memory,)


async def test_a_store_that_other_processes_cannot_make_is_refused_with_the_remedy():
    store = Hub(Member)
    with pytest.raises(AssertionError, match="a function of a module, or a functools"):
        await check_store(lambda: store, ttl=TTL)


async def test_an_engine_whose_clock_goes_back_is_found():
    times = itertools.count(2_000_000_000, -1)
    with pytest.raises(AssertionError, match="now\\(\\) must not go back"):
        await check_store(lambda: Memory(clock=lambda: float(next(times))))


async def test_handles_with_two_clocks_are_found():
    clocks = iter([lambda: 1000.0, lambda: 2000.0])
    with pytest.raises(AssertionError, match="all handles must have one clock"):
        await check_store(lambda: Memory(clock=next(clocks)))


async def test_a_store_that_is_useless_after_close_is_found():
    class Brittle(Memory):
        async def close(self):
            self._values.entries.clear()

    store = Brittle()
    with pytest.raises(AssertionError, match="a store must be usable after close"):
        await check_store(lambda: store, ttl=TTL)


async def test_plain_text_in_what_an_engine_keeps_is_found(monkeypatch):
    store = Memory()
    monkeypatch.setattr(check, "SealedStore", lambda engine, _: engine)
    with pytest.raises(AssertionError, match="must not hold the plain text"):
        await check_store(lambda: store, contents=lambda: parts_of(store), ttl=TTL)
    monkeypatch.undo()
    with pytest.raises(AssertionError, match="contents\\(\\) must return what the engine keeps"):
        await check_store(lambda: store, contents=list, ttl=TTL)
