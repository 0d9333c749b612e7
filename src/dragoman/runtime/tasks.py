"""Which task is running in a loop, who cancelled it, and how one ends that nobody waits for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")

current_task: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None]

if sys.version_info >= (3, 12):
    current_task = asyncio.current_task
else:
    # Which asyncio looks up by a function that takes four times as long, being written in Python.
    current_task = asyncio.tasks._current_tasks.get  # type: ignore[attr-defined]


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether a loop runs in this thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # none does
        return False


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: Any) -> None:
    """Call a function in a loop, from any thread: at once if the loop runs in this one; never if it is closed."""
    if is_running_here(loop):
        function(*args)
    else:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(function, *args)


class OwnTask(asyncio.Task[T]):
    """A task that knows whether the code that it runs cancelled it, or somebody else did."""

    cancelled_itself = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the task to end, as any task is asked."""
        if current_task(self.get_loop()) is self:
            self.cancelled_itself = True
        return super().cancel(msg)


def uncancelled() -> bool:
    """Take back one cancellation of the current task; tell whether there is no other."""
    task = asyncio.current_task()
    return task is not None and not task.uncancel()


def runs_here(task: asyncio.Task[T] | None) -> TypeGuard[asyncio.Task[T]]:
    """Tell whether a task is under way in this loop; one of another loop cannot be waited for."""
    return task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()


def is_being_cancelled() -> bool:
    """Tell whether somebody cancels the task that is running, so that a cancellation it sees may be its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def look_at(task: asyncio.Future[Any]) -> None:
    """Take note of what a task raised, so that nobody complains of an error that all who waited have left behind."""
    if not task.cancelled():
        task.exception()


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait until it has ended, however it ends."""
    task.cancel()
    await asyncio.wait([task])
    look_at(task)
