"""Helpers for asyncio: the origin of a cancellation, the end of a task, and calls into a loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether a loop runs in this thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # no loop runs here
        return False


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: Any) -> None:
    """Call a function in a loop, from any thread: at once if the loop runs here, not at all if it is closed."""
    if is_running_here(loop):
        function(*args)
    else:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(function, *args)


class SelfCancelTask(asyncio.Task[T]):
    """A task that knows whether the code that it runs cancelled it, or other code did."""

    cancelled_itself = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Request the cancellation of the task."""
        if asyncio.current_task(self.get_loop()) is self:
            self.cancelled_itself = True
        return super().cancel(msg)


def start_task(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> SelfCancelTask[T]:
    """Start a task; from Python 3.12 on, its first step runs before this returns."""
    if sys.version_info >= (3, 12):
        return SelfCancelTask(work, loop=loop, eager_start=True)
    return SelfCancelTask(work, loop=loop)


def uncancelled() -> bool:
    """Withdraw one cancellation request of the current task, and tell whether none is left."""
    task = asyncio.current_task()
    return task is not None and not task.uncancel()


def is_pending_here(task: asyncio.Task[T] | None) -> TypeGuard[asyncio.Task[T]]:
    """Tell whether a task is not done and belongs to this loop, so that it can be awaited."""
    return task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()


def is_being_cancelled() -> bool:
    """Tell whether the current task has a cancellation request, so that a CancelledError is meant for it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Mark the exception of a done task as retrieved, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def keep_until_done(task: asyncio.Task[T], tasks: set[asyncio.Task[Any]]) -> asyncio.Task[T]:
    """Keep a reference to a task in a set until the task is done: the loop itself keeps only a weak one."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait until it is done, whatever its outcome."""
    task.cancel()
    await asyncio.wait([task])
    retrieve_exception(task)
