import asyncio
import contextvars
import gc
import io
import logging
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections import deque

import pytest
import uvloop

from dragoman.runtime import offload as room
from dragoman.runtime.offload import offload
from unit.loops import in_each_loop

DEADLINE = 60


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request):
    async def within_deadline(coroutine):
        async with asyncio.timeout(DEADLINE):
            return await coroutine

    return lambda coroutine: request.param(within_deadline(coroutine))


@pytest.fixture
def workers(monkeypatch):
    """Return a function that replaces the workers of the process."""

    def replace(most=256, idle_seconds=10.0):
        replacement = room._Workers(most, idle_seconds)
        monkeypatch.setattr(room, "_workers", replacement)
        return replacement

    return replace


class Gate:
    """A function that tells when it runs, and runs until it is told to go on."""

    def __init__(self):
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self):
        self.thread = threading.current_thread()
        self.entered.set()
        assert self.opened.wait(DEADLINE)
        return "passed"


async def entered(gate):
    await asyncio.get_running_loop().run_in_executor(None, gate.entered.wait, DEADLINE)


def test_the_result_of_a_function_comes_back(run):
    assert run(offload(lambda *args, **kwargs: (args, kwargs), 1, 2, function=3)) == ((1, 2), {"function": 3})


def test_it_runs_on_a_daemon_thread(run):
    thread = run(offload(threading.current_thread))
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert thread.name == "dragoman-worker"


def test_it_runs_in_a_copy_of_the_context(run):
    variable = contextvars.ContextVar("variable", default="unset")

    def change():
        before = variable.get()
        variable.set("changed")
        return before

    async def main():
        variable.set("outer")
        return await offload(change), variable.get()

    assert run(main()) == ("outer", "outer")


class Refusal(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, Refusal])
def test_an_exception_arrives_with_its_traceback(run, kind):
    def refuse():
        raise kind("no")

    with pytest.raises(kind) as caught:
        run(offload(refuse))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "refuse"


def is_freed(reference):
    """Tell whether an object goes; the thread that had it may still be about to let go of it."""
    ends = time.monotonic() + DEADLINE
    while reference() is not None and time.monotonic() < ends:
        time.sleep(0.001)
    return reference() is None


def test_an_exception_is_freed_without_the_garbage_collector(run):
    def refuse():
        raise Refusal

    async def main():
        try:
            await offload(refuse)
        except Refusal as error:
            return weakref.ref(error)

    gc.disable()
    try:
        assert is_freed(run(main()))
    finally:
        gc.enable()


def test_what_a_function_was_given_is_freed_while_its_thread_is_idle(run):
    class Argument:
        pass

    async def main():
        argument = Argument()
        reference = weakref.ref(argument)
        await offload(id, argument)
        del argument
        return reference

    assert is_freed(run(main()))


def test_stop_iteration_arrives_as_a_cause(run):
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        run(offload(next, iter(())))
    assert isinstance(caught.value.__cause__, StopIteration)


def test_calls_one_after_another_use_one_thread(run, workers):
    threads = workers()

    async def main():
        return {await offload(threading.get_ident) for _ in range(100)}

    assert len(run(main())) == 1
    assert threads.count == 1


@in_each_loop
async def test_calls_at_the_same_time_use_a_thread_each(workers):
    threads = workers()
    barrier = threading.Barrier(20)
    await asyncio.gather(*(offload(barrier.wait, DEADLINE) for _ in range(20)))
    assert threads.count == 20


@in_each_loop
async def test_there_are_never_more_threads_than_the_limit_and_jobs_queue_in_order(workers):
    threads = workers(most=1)
    gate = Gate()
    order = []
    first = asyncio.create_task(offload(gate))
    await entered(gate)
    rest = [asyncio.create_task(offload(order.append, number)) for number in range(50)]
    await asyncio.sleep(0)
    gate.opened.set()
    await asyncio.gather(first, *rest)
    assert order == list(range(50))
    assert threads.count == 1


def test_cancelling_returns_at_once_and_the_late_result_is_dropped_silently(run, workers, caplog):
    workers()
    gate = Gate()

    async def main():
        task = asyncio.create_task(offload(gate))
        await entered(gate)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not gate.opened.is_set()
        gate.opened.set()
        return await offload(lambda: "next")

    with caplog.at_level(logging.DEBUG):
        assert run(main()) == "next"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@in_each_loop
async def test_a_call_that_is_cancelled_while_it_queues_is_never_made(workers):
    threads = workers(most=1)
    gate = Gate()
    made = []
    first = asyncio.create_task(offload(gate))
    await entered(gate)
    second = asyncio.create_task(offload(made.append, "second"))
    third = asyncio.create_task(offload(made.append, "third"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert len(threads._backlog) == 1
    gate.opened.set()
    await asyncio.gather(first, third)
    assert made == ["third"]


def test_a_thread_that_is_idle_ends(run, workers):
    threads = workers(idle_seconds=0.01)
    thread = run(offload(threading.current_thread))
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert threads.count == 0
    assert run(offload(threading.current_thread)) is not thread


def test_no_job_is_lost_between_a_worker_that_ends_and_one_that_starts(run, workers):
    workers(most=2, idle_seconds=0.0)

    async def main():
        return [sum(await asyncio.gather(*(offload(int, 1) for _ in range(3)))) for _ in range(300)]

    assert run(main()) == [3] * 300


@in_each_loop
async def test_a_job_that_blocks_does_not_hold_up_the_jobs_behind_it(workers):
    threads = workers()
    gates = [Gate() for _ in range(5)]
    blocked = [asyncio.create_task(offload(gate)) for gate in gates]
    assert await asyncio.gather(*(offload(int, number) for number in range(500))) == list(range(500))
    for gate in gates:
        await entered(gate)
        gate.opened.set()
    assert await asyncio.gather(*blocked) == ["passed"] * 5
    assert threads.count <= 256


def test_a_worker_that_is_woken_when_its_time_is_over_does_not_end(workers):
    threads = workers(idle_seconds=0.5)
    waits = []

    class WokenLate:
        def acquire(self, timeout=None):
            waits.append(timeout)
            return timeout is None

    threads._wake_ups = WokenLate()
    assert threads._wait()
    assert waits == [0.5, None]


def test_a_worker_that_becomes_idle_takes_what_came_in_that_moment(workers):
    threads = workers(most=1)

    class Late(deque):
        """A backlog into which a job comes just after it was found empty."""

        def popleft(self):
            try:
                return super().popleft()
            finally:
                if came:
                    self.append(came.pop())

    async def main():
        future = asyncio.get_running_loop().create_future()
        came.append(room._Job(future, lambda: "late"))
        await offload(int)
        return await asyncio.wait_for(future, DEADLINE)

    came = []
    threads._backlog = Late()
    assert asyncio.run(main()) == "late"
    assert threads.count == 1


def test_callers_that_cancel_and_threads_that_end_lose_no_job(run, workers):
    threads = workers(most=3, idle_seconds=0.0)

    async def attempt(number):
        work = asyncio.create_task(offload(time.sleep if number % 3 else int, 0))
        if number % 5 == 0:
            await asyncio.sleep(0)
            work.cancel()
        return await asyncio.gather(work, return_exceptions=True)

    async def main():
        for _ in range(20):
            await asyncio.gather(*(attempt(number) for number in range(50)))

    run(main())
    assert threads.count <= 3
    assert not threads._backlog


def test_a_thousand_calls_from_several_loops_all_come_back(run):
    results = []

    async def main(offset):
        numbers = range(offset, offset + 250)
        assert await asyncio.gather(*(offload(int, number) for number in numbers)) == list(numbers)
        results.append(offset)

    threads = [threading.Thread(target=run, args=(main(offset),)) for offset in range(0, 1000, 250)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert sorted(results) == [0, 250, 500, 750]


def test_a_result_for_a_loop_that_is_closed_is_dropped_and_the_thread_lives_on(run, workers):
    threads = workers()
    gate = Gate()

    async def leave():
        task = asyncio.create_task(offload(gate))
        await entered(gate)
        task.cancel()

    run(leave())
    gate.opened.set()
    threads.idle_seconds = 0.01
    assert run(offload(lambda: "alive")) == "alive"
    gate.thread.join(DEADLINE)
    assert not gate.thread.is_alive()


def test_an_interrupt_while_a_worker_is_woken_does_not_stop_the_other_jobs(workers):
    class Interrupted(threading.Semaphore):
        def release(self, n=1):
            raise KeyboardInterrupt

    threads = workers()
    threads._wake_ups = Interrupted(0)
    threads._idle = threads.count = 1
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(offload(int))
    assert asyncio.run(asyncio.wait_for(offload(int, 7), DEADLINE)) == 7


def test_a_system_without_threads_is_an_error(workers, monkeypatch):
    threads = workers()

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="Cannot start a thread"):
        asyncio.run(offload(int))
    assert threads.count == 0
    assert not threads._backlog


def test_a_job_queues_when_the_system_has_no_further_thread(workers, monkeypatch):
    threads = workers()
    gate = Gate()

    def refuse(self):
        raise RuntimeError("can't start new thread")

    async def main():
        first = asyncio.create_task(offload(gate))
        await entered(gate)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            second = asyncio.create_task(offload(int, 2))
            await asyncio.sleep(0)
        gate.opened.set()
        return await asyncio.gather(first, second)

    assert asyncio.run(main()) == ["passed", 2]
    assert threads.count == 1


@pytest.mark.parametrize("busy", [True, False])
def test_the_standard_streams_have_no_lock_at_exit_while_a_function_still_runs(workers, monkeypatch, tmp_path, busy):
    threads = workers()
    threads.count = int(busy)
    with (tmp_path / "text").open("w", encoding="utf-8", errors="replace") as text:
        monkeypatch.setattr(sys, "stdout", text)
        monkeypatch.setattr(sys, "stderr", None)
        text.write("before, ")
        room._unbuffer_standard_streams()
        assert isinstance(sys.stdout.buffer, io.FileIO) == busy
        assert (sys.stdout is text) == (not busy)
        sys.stdout.write("after")
        assert (sys.stdout.encoding, sys.stdout.errors, sys.stderr) == ("utf-8", "replace", None)
    assert (tmp_path / "text").read_text() == "before, after"


def in_fresh_interpreter(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE)


def test_a_forked_child_starts_threads_of_its_own():
    finished = in_fresh_interpreter(
        "import asyncio, os\n"
        "from dragoman.runtime.offload import offload\n"
        "asyncio.run(offload(int))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(asyncio.run(asyncio.wait_for(offload(int, 7), 20)))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert finished.stdout == "7\n"  # later Pythons warn about forking with threads


def test_the_interpreter_does_not_wait_for_a_function_that_is_stuck():
    finished = in_fresh_interpreter(
        "import asyncio, time\n"
        "from dragoman.runtime.offload import offload\n"
        "async def main():\n"
        "    try:\n"
        "        await asyncio.wait_for(offload(time.sleep, 3600), 0.05)\n"
        "    except TimeoutError:\n"
        "        print('left')\n"
        "asyncio.run(main())\n"
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "left\n", "")
