import asyncio
import concurrent.futures
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from dragoman.errors import DragomanError
from dragoman.runtime.portal import outcome, portal, run_blocking
from unit.loops import in_a_loop

DEADLINE = 60


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
    assert "only that call ended" in caplog.text


def test_there_is_no_portal_before_one_is_needed():
    program = "from dragoman.runtime.portal import existing_portal, portal\n"
    program += "assert existing_portal() is None\nassert portal() is existing_portal()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=2 * DEADLINE)


setting: ContextVar[str] = ContextVar("setting", default="unset")


def test_each_coroutine_runs_in_a_copy_of_its_callers_context():
    async def change():
        seen = setting.get()
        setting.set("changed in the loop")
        await asyncio.sleep(0)
        return seen

    def call(number):
        setting.set(f"of thread {number}")
        return portal().run(change()), setting.get()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(call, range(50), timeout=DEADLINE))
    assert found == [(f"of thread {number}", f"of thread {number}") for number in range(50)]
    assert portal().run(change()) == "unset"


def test_a_signal_handler_may_call_while_the_interrupted_call_waits():
    main, may_end, heard = threading.main_thread().ident, asyncio.Event(), []

    async def work():
        signal.pthread_kill(main, signal.SIGUSR1)
        await may_end.wait()
        return "outer"

    async def end():
        may_end.set()
        return "inner"

    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(portal().run(end())))
    try:
        assert portal().run(work()) == "outer"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == ["inner"]


def test_work_that_is_cancelled_is_reported_to_its_caller():
    async def cancelled():
        asyncio.current_task().cancel()
        await asyncio.Event().wait()

    with pytest.raises(concurrent.futures.CancelledError):
        portal().run(cancelled())


STORM = """
import asyncio, random, signal, threading
from dragoman.runtime import portal as module
from dragoman.runtime.portal import portal

class Interrupted(BaseException):
    pass

def interrupt(*_):
    if interruptible:
        raise Interrupted

async def work():
    for _ in range(random.randrange(3)):
        await asyncio.sleep(0)
    return 1

def calls(count):
    done.append(sum(portal().run(work()) for _ in range(count)))

module.SLICE_SECONDS = 0.05
interruptible, interrupted, done = False, 0, []
signal.signal(signal.SIGALRM, interrupt)
portal().run(work())
threads = [threading.Thread(target=calls, args=(300,)) for _ in range(8)]
for thread in threads:
    thread.start()
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
for _ in range(600):
    try:
        interruptible = True
        portal().run(work())
        interruptible = False
    except Interrupted:
        interruptible = False
        interrupted += 1
signal.setitimer(signal.ITIMER_REAL, 0)
for thread in threads:
    thread.join(30)
assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
assert done == [300] * 8, done
assert portal().run(work()) == 1
print(interrupted)
"""


def test_a_storm_of_interrupts_leaves_no_thread_behind():
    ended = subprocess.run(
        [sys.executable, "-c", STORM], check=False, capture_output=True, text=True, timeout=3 * DEADLINE
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 10
