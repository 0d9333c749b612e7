"""Tasks in the database."""

import asyncio
import gc
import threading
import time

import pytest

from dragoman.errors import StoreFull
from dragoman.stores import Local, StoreLimits


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


async def test_a_claim_whose_caller_was_cancelled_is_given_back(folder):
    store = Local(folder)
    tasks, database = store.tasks("namespace"), store._folder.database()
    await tasks.create("id", b"", owner="ann")
    begun, may_end = threading.Event(), threading.Event()
    holding = asyncio.ensure_future(database.run(lambda transaction: (begun.set(), may_end.wait(10))))
    await asyncio.to_thread(begun.wait, 10)
    claiming = asyncio.ensure_future(tasks.claim(3600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    claiming.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    await holding
    again = await tasks.claim(3600)
    assert (again.id, again.was_lost) == ("id", False)
    cancelled = asyncio.ensure_future(tasks.claim(3600))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await store.close()


async def test_a_lost_task_is_claimed_before_one_that_is_ready(folder):
    store = Local(folder)
    tasks = store.tasks("namespace")
    await tasks.create("ready", b"", owner="ann")
    lost = await tasks.create("lost", b"", owner="ann", lease=0)
    claim = await tasks.claim(30)
    assert (claim.id, claim.was_lost, claim.token) == ("lost", True, lost.token + 1)
    assert (await tasks.claim(30)).id == "ready"
    await store.close()


async def test_tasks_are_counted_by_namespace_and_account(folder):
    store = Local(folder)
    tasks = store.tasks("namespace", limits=StoreLimits(tasks=3, tasks_per_caller=2))
    for id in ("one", "two"):
        await tasks.create(id, b"", owner="ann")
    with pytest.raises(StoreFull, match="The caller has 2 tasks already"):
        await tasks.create("three", b"", owner="ann")
    await tasks.create("three", b"", owner="ben")
    with pytest.raises(StoreFull, match="There are 3 tasks already"):
        await tasks.create("four", b"", owner="cid")
    await store.close()


async def test_another_process_hears_of_a_task_within_milliseconds(folder):
    store, other = Local(folder), Local(folder, durable=True)  # databases of their own, as in two processes
    tasks, others = store.tasks("namespace"), other.tasks("namespace")
    await others.wait(3600)
    times = []
    for number in range(20):
        waiting = asyncio.ensure_future(others.wait(3600))
        await asyncio.sleep(0)
        began = time.perf_counter()
        await tasks.create(str(number), b"", owner="ann")
        await asyncio.wait_for(waiting, 10)
        times.append(time.perf_counter() - began)
    assert sorted(times)[10] < 0.25, times
    await store.close()
    await other.close()


async def test_a_handle_that_is_gone_listens_no_more(folder):
    store = Local(folder)
    tasks = store.tasks("namespace")
    await tasks.wait(0)
    changes = store._folder.database().changes
    assert changes.has_listeners
    del tasks
    gc.collect()
    assert not changes.has_listeners
    await store.close()


def test_a_handle_waits_in_the_loop_in_which_it_is_used(folder):
    store = Local(folder)
    tasks = store.tasks("namespace")

    async def wait(id: str) -> float:
        began = time.monotonic()
        await tasks.wait(3600)
        await tasks.create(id, b"", owner="ann")
        await tasks.wait(3600)
        await store.close()
        return time.monotonic() - began

    for id in ("one", "two"):
        assert asyncio.run(asyncio.wait_for(wait(id), 10)) < 10


async def test_a_new_time_to_live_and_the_same_one_are_kept(folder):
    tasks = Local(folder).tasks("namespace")
    made = await tasks.create("id", b"", owner="owner", ttl=100)
    changed = await tasks.update("id", b"1", revision=made.revision)
    assert changed is not None
    assert changed.expires_at == made.expires_at == made.created_at + 100
    longer = await tasks.update("id", b"2", revision=changed.revision, ttl=200)
    assert longer is not None
    assert await tasks.get("id") == longer
    assert longer.expires_at == made.created_at + 200


async def test_an_expired_task_makes_room_for_one_with_its_id(folder):
    tasks = Local(folder).tasks("namespace", limits=StoreLimits(tasks=2))
    await tasks.create("id", b"old", owner="first", ttl=0.001)
    async with asyncio.timeout(60):
        while await tasks.get("id") is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)
    made = await tasks.create("id", b"new", owner="second", ttl=100)
    assert await tasks.get("id") == made
    assert [task.revision for task in await tasks.list("second")] == [made.revision]
    assert await tasks.list("first") == []
    await tasks.create("other", b"", owner="second")
    with pytest.raises(StoreFull):
        await tasks.create("third", b"", owner="second")
