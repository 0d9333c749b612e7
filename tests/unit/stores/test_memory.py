"""The store in the memory of one process."""

import asyncio
import gc
import time

import pytest

from dragoman.errors import StoreFull
from dragoman.stores import Memory, StoreLimits, memory


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock) -> Memory:
    return Memory(clock=clock)


async def test_a_log_keeps_its_newest_event_whatever_its_size(store, monkeypatch):
    monkeypatch.setattr(memory, "MAX_LOG_BYTES", 10)
    log = store.log("stream")
    for number, event in enumerate([b"aaaa", b"bbbb", b"cc"], 1):
        log.append(number, event)
    assert [number for number, _ in await log.after(0)] == [1, 2, 3]
    log.append(4, b"d")
    assert [number for number, _ in await log.after(0)] == [2, 3, 4]
    log.append(5, b"e" * 1000)
    assert [number for number, _ in await log.after(0)] == [5]
    log.append(6, b"f")
    assert [number for number, _ in await log.after(0)] == [6]


async def test_a_log_expires_an_hour_after_its_last_event(store, clock):
    log, other = store.log("stream"), store.log("other")
    log.append(1, b"event")
    clock.time += 3599
    log.append(2, b"event")
    clock.time += 3599
    assert len(await log.after(0)) == 2
    clock.time += 1
    assert await log.after(0) == []
    other.append(1, b"event")
    assert list(store._logs.logs) == ["other"]


async def test_the_logs_have_a_bound_together_and_the_idlest_is_dropped(store, monkeypatch):
    monkeypatch.setattr(memory, "MAX_LOGS_BYTES", 10)
    logs = [store.log(name) for name in "abc"]
    for log in logs:
        log.append(1, b"1234")
    assert [len(await log.after(0)) for log in logs] == [0, 1, 1]
    await logs[1].delete()
    await logs[1].delete()
    logs[0].append(2, b"1234")
    assert [len(await log.after(0)) for log in logs] == [1, 0, 1]


async def test_expired_values_are_dropped_when_the_values_have_doubled(store, clock, monkeypatch):
    monkeypatch.setattr(memory, "MIN_SWEPT", 10)
    store._values._sweep_at = 10
    state = store.state("namespace")
    for number in range(10):
        await state.set(str(number), b"", ttl=1)
    clock.time += 2
    await state.set("new", b"")
    assert list(store._values.entries) == [("namespace", "new")]
    assert await state.delete("new")
    assert store._values.counts == {}


async def test_the_clock_of_the_store_decides_when_a_lease_runs_out(store, clock):
    tasks, others = store.tasks("namespace"), store.tasks("namespace")
    made = await tasks.create("id", b"", owner="ann", lease=30)
    assert (await store.now(), made.created_at) == (1000, 1000)
    clock.time += 29.9
    assert await others.claim(30) is None
    clock.time += 0.1
    claim = await others.claim(30)
    assert (claim.id, claim.token, claim.was_lost) == ("id", 2, True)
    assert not await tasks.renew("id", made.token, 30)


async def test_expired_tasks_make_room_and_wake_those_who_watch_them(store, clock):
    tasks = store.tasks("namespace", limits=StoreLimits(tasks=2, tasks_per_caller=1))
    await tasks.create("one", b"", owner="ann", ttl=10)
    await tasks.create("two", b"", owner="ben")
    with pytest.raises(StoreFull, match="There are 2 tasks already"):
        await tasks.create("three", b"", owner="cid")
    watching = tasks.watch("one")
    await anext(watching)
    clock.time += 10
    await tasks.create("three", b"", owner="cid")
    await asyncio.wait_for(anext(watching), 1)
    assert await tasks.get("one") is None
    with pytest.raises(StoreFull, match="There are 2 tasks already"):
        await tasks.create("four", b"", owner="ann")
    await tasks.finish("two", b"")
    with pytest.raises(StoreFull, match="The caller has 1 tasks already"):
        await store.tasks("namespace", limits=StoreLimits(tasks_per_caller=1)).create("four", b"", owner="ben")
    await watching.aclose()


async def test_the_id_of_an_expired_task_may_be_used_again(store, clock):
    tasks = store.tasks("namespace")
    first = await tasks.create("id", b"1", owner="ann", ttl=10)
    clock.time += 10
    again = await tasks.create("id", b"2", owner="ben")
    assert again.revision > first.revision
    assert await tasks.list("ann") == []


async def test_a_handle_that_is_gone_and_a_watch_that_is_closed_listen_no_more(store):
    tasks, table = store.tasks("namespace"), store._tables["namespace"]
    await tasks.wait(0)
    watching = tasks.watch("id")
    await anext(watching)
    assert table.changes.has_listeners
    await watching.aclose()
    del tasks, watching
    gc.collect()
    assert not table.changes.has_listeners


def test_a_handle_waits_in_the_loop_in_which_it_is_used(store):
    tasks = store.tasks("namespace")

    async def wait(id: str) -> float:
        began = time.monotonic()
        await tasks.wait(3600)
        await store.tasks("namespace").create(id, b"", owner="ann")
        await tasks.wait(3600)
        return time.monotonic() - began

    for id in ("one", "two"):
        assert asyncio.run(asyncio.wait_for(wait(id), 5)) < 5


async def test_a_store_says_what_it_has(store):
    await store.state("namespace").set("key", b"secret")
    store.log("stream").append(1, b"")
    assert repr(store) == "<Memory store: 1 values, 1 logs>"
    await store.close()
    assert await store.state("namespace").get("key")
