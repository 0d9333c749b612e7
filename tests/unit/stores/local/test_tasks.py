"""Tasks in the database."""

import asyncio
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
