import asyncio
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import uvloop

from dragoman.runtime.waker import waker

DEADLINE = 60
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has eventfd")
LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


def descriptors():
    """Return how many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


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
        monkeypatch.setattr("dragoman.runtime.waker.sys.platform", "other")
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
def test_a_closed_loop_leaves_no_descriptor_when_no_thread_can_wake_it():
    gc.collect()
    before = descriptors()
    loop = asyncio.new_event_loop()
    wake = waker(loop, list)
    loop.close()
    assert descriptors() == before + 1
    wake()
    del wake
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
