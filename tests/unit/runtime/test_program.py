import _thread
import asyncio
import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.runtime.program import run, until_signal

DEADLINE = 60
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


def test_a_program_runs_to_its_end():
    done = []

    async def program():
        await asyncio.sleep(0)
        done.append(True)

    assert run(program()) is None
    assert done == [True]


@pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_what_a_program_raises_without_having_been_asked_to_end_comes_out(kind):
    async def program():
        raise kind

    with pytest.raises(kind):
        run(program())


def test_a_running_loop_is_refused_with_the_remedy():
    async def program():
        raise AssertionError

    async def main():
        run(program())

    with pytest.raises(RuntimeError, match="await it"):
        asyncio.run(main())


def test_tasks_and_generators_that_are_left_are_ended():
    ended = []

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def generate():
        try:
            yield 1
        finally:
            ended.append("generator")

    kept = []

    async def program():
        kept.append(asyncio.create_task(forever()))
        kept.append(generate())
        await anext(kept[1])

    run(program())
    assert ended == ["task", "generator"]


@SIGNALS
def test_a_signal_cancels_the_program_and_run_returns(number):
    before = signal.getsignal(number)
    ended = []

    async def program():
        signal.raise_signal(number)
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    run(program())
    assert ended == [True]
    assert signal.getsignal(number) is before


@SIGNALS
def test_a_second_signal_interrupts_what_blocks_the_loop(number):
    interrupted = []

    async def program():
        signal.raise_signal(number)
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            interrupted.append(True)
            raise

    run(program())
    assert interrupted == [True]


@pytest.fixture
def insistence(monkeypatch):
    """The threads that wait for the grace to be over, as threads that can be joined."""
    threads = []

    def start(function, args):
        threads.append(threading.Thread(target=function, args=args, daemon=True))
        threads[-1].start()

    monkeypatch.setattr(_thread, "start_new_thread", start)
    return threads


@SIGNALS
def test_what_blocks_the_loop_is_interrupted_when_a_grace_passes_in_which_it_does_not_turn(number, insistence):
    async def program():
        signal.raise_signal(number)
        time.sleep(DEADLINE)  # noqa: ASYNC251

    started = time.monotonic()
    run(program(), grace=0.05)
    assert time.monotonic() - started < DEADLINE


@SIGNALS
def test_an_interrupted_task_is_not_reported(number, insistence, caplog):
    async def blocking():
        signal.raise_signal(number)
        time.sleep(DEADLINE)  # noqa: ASYNC251

    async def program():
        kept = asyncio.create_task(blocking())
        await asyncio.wait([kept])

    run(program(), grace=0.05)
    gc.collect()
    assert caplog.records == []


def test_a_task_that_failed_is_reported(caplog):
    async def fail():
        raise ValueError("nobody looks")

    async def program():
        await asyncio.wait([asyncio.create_task(fail())])

    run(program())
    gc.collect()
    assert [str(record.exc_info[1]) for record in caplog.records] == ["nobody looks"]


@SIGNALS
def test_a_program_that_takes_its_time_without_blocking_the_loop_is_not_interrupted(number, insistence, monkeypatch):
    ended, turns, pause = [], [], time.sleep

    def turned(grace):
        turns.append(grace)
        pause(0.01)

    # The thread that watches the loop sleeps for a grace after each turn that it saw.
    monkeypatch.setattr(time, "sleep", turned)

    async def program():
        signal.raise_signal(number)
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            while len(turns) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            ended.append(True)

    run(program(), grace=DEADLINE)
    assert ended == [True]
    insistence[0].join(DEADLINE)
    assert not insistence[0].is_alive()


@SIGNALS
def test_a_signal_that_is_still_on_its_way_when_the_program_has_ended_does_nothing(number):
    handlers = []

    async def program():
        handlers.append(signal.getsignal(number))

    run(program())
    assert handlers[0](number, None) is None
    assert handlers[0].__self__._interrupt(number) is None
    assert signal.getsignal(number) is not handlers[0]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None], ids=["ignored", "own handler"])
def test_a_handler_of_the_process_is_left_alone(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:

        async def program():
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
            assert signal.getsignal(signal.SIGINT) is handler

        run(program())
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_signals_are_not_touched():
    handlers = []

    async def program():
        handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run, args=(program(),))
    thread.start()
    thread.join(DEADLINE)
    assert handlers == [signal.getsignal(signal.SIGTERM)]


def test_to_thread_runs_on_a_daemon_thread():
    threads = []

    async def program():
        threads.append(await asyncio.to_thread(threading.current_thread))

    run(program())
    assert threads[0].daemon
    assert threads[0].name == "dragoman-worker"


def test_an_executor_that_was_chosen_is_used():
    names = []

    def name():
        return threading.current_thread().name.partition("_")[0]

    async def program():
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(thread_name_prefix="given") as executor:
            names.append(await loop.run_in_executor(executor, name))
        loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="set"))
        names.append(await asyncio.to_thread(name))
        await loop.shutdown_default_executor()

    run(program())
    assert names == ["given", "set"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_coroutine_in_a_running_loop_ends_by_a_signal_and_the_handlers_are_removed(number):
    before, ended = signal.getsignal(number), []

    async def program() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    await until_signal(program())
    assert (ended, signal.getsignal(number) in (before, signal.SIG_DFL, signal.default_int_handler)) == ([True], True)


async def test_a_coroutine_in_a_running_loop_may_end_fail_or_be_cancelled_without_a_signal():
    async def fails() -> None:
        raise ValueError("lost")

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    await until_signal(asyncio.sleep(0))
    with pytest.raises(ValueError, match="lost"):
        await until_signal(fails())
    with pytest.raises(asyncio.CancelledError):
        await until_signal(cancels_itself())
