"""Which task runs, and who cancelled it."""

import asyncio
from typing import Any

import pytest

from dragoman.runtime.tasks import (
    SelfCancelTask,
    call_in_loop,
    cancel_and_wait,
    is_being_cancelled,
    is_pending_here,
    is_running_here,
    keep_until_done,
)
from unit.loops import in_a_loop

DEADLINE = 60


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
