"""Which task is running in a loop, and who cancelled it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, TypeVar

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
