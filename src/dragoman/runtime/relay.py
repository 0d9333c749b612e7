"""Coroutines run one after another in one task, until one of them has to wait.

A task for each of many short coroutines costs more than they do. Here those that are started together share a task,
which goes through them as long as none suspends. The first that does keeps the task for itself, so that it can be
cancelled, and whatever holds on to the current task keeps the right one; those after it get a task each, and so do the
next, until one has not had to wait. Each finds the context variables as they were when it was started: one that leaves
them changed is the last of its task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from types import coroutine
from typing import Any

Job = Coroutine[Any, Any, None]


class Relay:
    """Starts coroutines in as few tasks as they need.

    Example:
        relay = Relay(asyncio.get_running_loop())
        relay.start(answer(one))
        relay.start(answer(other))
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._together = True
        self._open: deque[Job] | None = None
        """The jobs of a task that takes more of them."""
        self._context = copy_context()

    def start(self, job: Job) -> None:
        """Run a coroutine soon, after those that were started before; it must not raise."""
        context = copy_context()
        if self._open is not None and _are_equal(context, self._context):
            self._open.append(job)
        else:
            self._begin(deque((job,)), context)

    def _begin(self, jobs: deque[Job], context: Context) -> None:
        # Before the task begins, which may end at once (Python 3.12: eager tasks).
        self._open, self._context = (jobs if self._together else None), context
        self.loop.create_task(self._run(jobs, context), context=context.copy())

    async def _run(self, jobs: deque[Job], context: Context) -> None:
        task = asyncio.current_task(self.loop)
        assert task is not None
        try:
            await self._steps(task, jobs, context)
        finally:
            self._hand_over(jobs, context)

    @coroutine
    def _steps(self, task: asyncio.Task[Any], jobs: deque[Job], context: Context) -> Generator[Any, Any, None]:
        while jobs:
            job = jobs.popleft()
            try:
                awaited = job.send(None)
            except StopIteration:
                self._together = True
            else:
                self._together = False
                self._hand_over(jobs, context)
                yield from _rest(job, awaited)
                return
            # A cancellation that came too late for this one is not for the next.
            if task.cancelling() or not _are_equal(copy_context(), context):
                return

    def _hand_over(self, jobs: deque[Job], context: Context) -> None:
        if self._open is jobs:
            self._open = None
        while jobs:
            if self._together:
                self._begin(deque(jobs), context)
                jobs.clear()
            else:
                self._begin(deque((jobs.popleft(),)), context)


def _rest(job: Job, awaited: Any) -> Generator[Any, Any, None]:
    """Go on with a coroutine that waits for something already."""
    while True:
        try:
            sent = yield awaited
        except GeneratorExit:
            job.close()
            raise
        except BaseException as error:
            step = partial(job.throw, error)
        else:
            step = partial(job.send, sent)
        try:
            awaited = step()
        except StopIteration:
            return


def _are_equal(one: Context, other: Context) -> bool:
    try:
        return one == other
    except Exception:  # values are compared as their authors wrote it
        return False
