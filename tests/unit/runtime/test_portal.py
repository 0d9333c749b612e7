import asyncio
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.errors import DragomanError
from dragoman.runtime.portal import outcome, portal, run_blocking
from unit.loops import in_a_loop

DEADLINE = 30


async def thread_name():
    return threading.current_thread().name


def test_every_caller_shares_one_loop_in_a_daemon_thread():
    assert run_blocking(thread_name()) == "dragoman portal"
    with ThreadPoolExecutor(8) as threads:
        portals = list(threads.map(lambda _: portal(), range(50), timeout=DEADLINE))
    assert set(portals) == {portal()}
    assert portal().thread.daemon


def test_what_the_coroutine_raises_is_raised():
    async def failing():
        raise LookupError("x")

    with pytest.raises(LookupError, match="x"):
        run_blocking(failing())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_would_end_a_loop_is_raised_to_the_caller_and_the_loop_goes_on(error):
    async def ending():
        raise error

    with pytest.raises(type(error)):
        run_blocking(ending())
    assert run_blocking(thread_name()) == "dragoman portal"


@in_a_loop
async def test_a_call_inside_a_running_loop_is_refused_and_the_coroutine_is_closed():
    with pytest.raises(DragomanError, match="inside a running event loop"):
        run_blocking(thread_name())


def test_a_call_on_the_portal_itself_is_refused():
    async def nested():
        return run_blocking(thread_name())

    with pytest.raises(DragomanError, match="inside a running event loop"):
        run_blocking(nested())


def test_the_portal_may_be_used_where_another_loop_runs():
    async def cell():
        return portal().run(thread_name())

    assert asyncio.run(asyncio.wait_for(cell(), DEADLINE)) == "dragoman portal"


def test_waiting_in_the_portals_own_thread_is_refused_with_a_remedy():
    async def nested():
        return portal().run(thread_name())

    with pytest.raises(DragomanError, match="would wait for itself; await its asynchronous twin there"):
        portal().run(nested())


def test_what_was_started_is_waited_for_later_and_from_any_thread():
    async def number():
        return 3

    started = portal().start(number())
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(outcome, started, DEADLINE).result(DEADLINE) == 3
    assert outcome(started) == 3


def test_a_wait_that_is_too_long_ends_and_the_work_goes_on():
    may_end = asyncio.Event()

    async def work():
        await may_end.wait()
        return "done"

    started = portal().start(work())
    with pytest.raises(TimeoutError):
        outcome(started, 0.01)
    portal().loop.call_soon_threadsafe(may_end.set)
    assert outcome(started, DEADLINE) == "done"


def test_a_wait_of_the_main_thread_outlasts_its_slices(monkeypatch):
    monkeypatch.setattr("dragoman.runtime.portal.SLICE_SECONDS", 0.01)

    async def late():
        await asyncio.sleep(0.05)
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        portal().run(late())


def test_work_whose_caller_was_interrupted_is_cancelled():
    cancelled = threading.Event()
    main = threading.main_thread().ident

    async def work():
        try:
            signal.pthread_kill(main, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    for _ in range(20):
        cancelled.clear()
        with pytest.raises(KeyboardInterrupt):
            portal().run(work())
        assert cancelled.wait(DEADLINE)


def test_a_task_that_exits_does_not_end_the_loop(caplog):
    async def exits():
        raise SystemExit(3)

    ended = threading.Event()

    async def begin():
        task = asyncio.ensure_future(exits())
        task.add_done_callback(lambda task: (task.exception(), ended.set()))

    portal().start(begin())
    assert ended.wait(DEADLINE)
    assert run_blocking(thread_name()) == "dragoman portal"
    assert "ended only its task" in caplog.text


def test_there_is_no_portal_before_one_is_needed():
    program = "from dragoman.runtime.portal import existing_portal, portal\n"
    program += "assert existing_portal() is None\nassert portal() is existing_portal()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=2 * DEADLINE)
