"""Which task runs, who cancelled it, and how a thread wakes a loop."""

import asyncio
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from dragoman.runtime.tasks import (
    SelfCancelTask,
    call_in_loop,
    cancel_and_wait,
    is_being_cancelled,
    is_pending_here,
    is_running_here,
    keep_until_done,
    waker,
)
from unit.loops import in_a_loop

DEADLINE = 60
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has eventfd")
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


async def forever() -> None:
    await asyncio.Event().wait()


async def cancel_itself() -> None:
    running = asyncio.current_task()
    assert running is not None
    running.cancel()
    await forever()


@pytest.mark.parametrize(("work", "itself"), [(forever, False), (cancel_itself, True)])
def test_a_task_knows_whether_its_own_code_cancelled_it(work, itself):
    async def run() -> bool:
        task = SelfCancelTask(work(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        if not itself:
            task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled_itself

    assert asyncio.run(run()) is itself


@in_a_loop
async def test_a_loop_runs_in_one_thread_alone():
    loop = asyncio.get_running_loop()
    assert is_running_here(loop)
    assert not await asyncio.to_thread(is_running_here, loop)
    other = asyncio.new_event_loop()
    assert not is_running_here(other)
    other.close()


@in_a_loop
async def test_a_task_that_is_ended_has_ended_and_is_nobodys_error():
    async def fail_when_cancelled() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            assert is_being_cancelled()
            raise ValueError("nobody looks at this") from None

    task = asyncio.create_task(fail_when_cancelled())
    await asyncio.sleep(0)
    assert is_pending_here(task)
    assert not is_being_cancelled()
    await cancel_and_wait(task)
    assert task.done()
    assert not is_pending_here(task)
    assert not is_pending_here(None)


def test_a_function_is_called_in_its_loop_at_once_or_soon_and_never_when_that_is_closed():
    called: list[str] = []

    async def call() -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        call_in_loop(loop, called.append, "here")
        assert called == ["here"]
        await asyncio.to_thread(call_in_loop, loop, called.append, "from a thread")
        await asyncio.sleep(0)
        return loop

    call_in_loop(asyncio.run(call()), called.append, "too late")
    assert called == ["here", "from a thread"]


async def test_a_task_is_kept_until_it_is_done():
    kept: set[asyncio.Task[Any]] = set()
    began = asyncio.Event()
    task = keep_until_done(asyncio.get_running_loop().create_task(began.wait()), kept)
    assert kept == {task}
    began.set()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert kept == set()


def descriptors():
    """Return how many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("system", ["linux", "plain"])
@LOOPS
def test_a_loop_that_is_woken_sees_what_was_published_before(system, new_loop, monkeypatch):
    def look():
        seen.extend(published[len(seen) :])
        assert threading.current_thread() is thread
        if len(seen) == 800:
            loop.stop()

    def publish(number):
        for turn in range(100):
            published.append((number, turn))
            wake()

    if system == "plain":
        monkeypatch.setattr("dragoman.runtime.tasks.sys.platform", "other")
    published, seen, loop = [], [], new_loop()
    wake = waker(loop, look)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(publish, range(8), timeout=DEADLINE))
    thread.join(DEADLINE)
    assert seen == published
    loop.close()


@LOOPS
def test_the_function_is_called_after_what_its_thread_scheduled_before(new_loop):
    def schedule():
        for number in range(200):
            loop.call_soon_threadsafe(calls.append, number)
            woken.clear()
            wake()
            assert woken.wait(DEADLINE)
            seen.append(list(calls))
        loop.call_soon_threadsafe(loop.stop)

    calls, seen, woken, loop = [], [], threading.Event(), new_loop()
    wake = waker(loop, woken.set)
    thread = threading.Thread(target=schedule)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join(DEADLINE)
    assert seen == [list(range(number + 1)) for number in range(200)]
    loop.close()


@ON_LINUX
def test_a_closed_loop_leaves_no_descriptor():
    gc.collect()
    before = descriptors()
    loop = asyncio.new_event_loop()
    wake = waker(loop, list)
    loop.close()
    wake()
    assert descriptors() == before


@LOOPS
def test_a_closed_loop_can_be_woken_without_effect(new_loop):
    loop, called = new_loop(), []
    wake = waker(loop, lambda: called.append(None))
    loop.close()
    with suppress(RuntimeError):
        wake()
    assert not called


@ON_LINUX
def test_a_process_without_a_further_descriptor_wakes_its_loop_all_the_same(monkeypatch):
    def refuse(*_):
        raise OSError("Too many open files")

    monkeypatch.setattr(os, "eventfd", refuse)
    loop = asyncio.new_event_loop()
    wake = waker(loop, loop.stop)
    threading.Thread(target=wake).start()
    loop.run_forever()
    loop.close()
