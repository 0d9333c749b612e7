"""Which task runs, and who cancelled it."""

import asyncio

import pytest

from dragoman.runtime.tasks import OwnTask, current_task, end, is_being_cancelled, runs_here


async def forever() -> None:
    await asyncio.Event().wait()


async def cancel_itself() -> None:
    loop = asyncio.get_running_loop()
    running = current_task(loop)
    assert running is asyncio.current_task()
    running.cancel()
    await forever()


@pytest.mark.parametrize(("work", "itself"), [(forever, False), (cancel_itself, True)])
def test_a_task_knows_whether_its_own_code_cancelled_it(work, itself):
    async def run() -> bool:
        task = OwnTask(work(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        if not itself:
            task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled_itself

    assert asyncio.run(run()) is itself


def test_a_task_that_is_ended_has_ended_and_is_nobodys_error():
    async def fail_when_cancelled() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            assert is_being_cancelled()
            raise ValueError("nobody looks at this") from None

    async def run() -> None:
        task = asyncio.create_task(fail_when_cancelled())
        await asyncio.sleep(0)
        assert runs_here(task)
        assert not is_being_cancelled()
        await end(task)
        assert task.done()
        assert not runs_here(task)
        assert not runs_here(None)

    asyncio.run(run())
