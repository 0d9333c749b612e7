"""Coroutines run one after another in one task, until one of them has to wait.

A task for each of many short coroutines costs more than they do. Here those that come together share a task, which goes
through them as long as none suspends, and makes the next only when the one before has ended. The first that suspends
keeps the task for itself, so that it can be cancelled, and whatever holds on to the current task keeps the right one;
those after it get a task each, and so do the next, until one has not had to wait. Each finds the context variables as
they were when it was started: one that leaves them changed is the last of its task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import Context, copy_context
from functools import partial
from itertools import chain
from types import coroutine
from typing import Any

Job = Coroutine[Any, Any, None]
Pending = deque[Iterator[Job]]


class Relay:
    """Runs coroutines in as few tasks as they need.

    Example:
        relay = Relay(asyncio.get_running_loop())
        relay.run(answer(message) for message in messages)
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rested: Callable[[], None] | None = None) -> None:
        """Make one; `rested` is called when a task has run all that it had, and none of it waited."""
        self.loop = loop
        self._rested = rested
        self._together = True
        self._open: Pending | None = None
        """What a task will run that takes more of it."""
        self._context = copy_context()

    @property
    def is_pending(self) -> bool:
        """Whether some of what was to be run is still to be made."""
        return self._open is not None

    def run(self, jobs: Iterator[Job]) -> None:
        """Run coroutines soon, after those that came before, and each after the one before it; none may raise.

        Up to the first they are made at once, unless others are to be made before.
        """
        context = copy_context()
        if self._open is not None:
            if _are_equal(context, self._context):
                self._open.append(jobs)
            else:
                self._begin(deque((jobs,)), context)
        elif self._together:
            first = next(jobs, None)
            if first is not None:
                self._begin(deque((chain((first,), jobs),)), context)
        else:
            self._run_apart(jobs, context)

    def _run_apart(self, jobs: Iterator[Job], context: Context) -> None:
        for job in jobs:
            self._begin(deque((iter((job,)),)), context)

    def _begin(self, pending: Pending, context: Context) -> None:
        # Before the task begins, which may end at once (Python 3.12: eager tasks).
        self._open, self._context = (pending if self._together else None), context
        self.loop.create_task(self._run(pending, context), context=context.copy())

    async def _run(self, pending: Pending, context: Context) -> None:
        task = asyncio.current_task(self.loop)
        assert task is not None
        try:
            await self._steps(task, pending, context)
        finally:
            self._hand_over(pending, context)

    @coroutine
    def _steps(self, task: asyncio.Task[Any], pending: Pending, context: Context) -> Generator[Any, Any, None]:
        while pending:
            for job in pending[0]:
                try:
                    awaited = job.send(None)
                except StopIteration:
                    self._together = True
                else:
                    self._together = False
                    self._hand_over(pending, context)
                    yield from _rest(job, awaited)
                    return
                # A cancellation that came too late for this one is not for the next.
                if task.cancelling() or not _are_equal(copy_context(), context):
                    return
            pending.popleft()
        if self._rested is not None:
            self._rested()

    def _hand_over(self, pending: Pending, context: Context) -> None:
        if self._open is pending:
            self._open = None
        if not pending:
            return
        rest = chain.from_iterable(tuple(pending))
        pending.clear()
        if self._together:
            self._begin(deque((rest,)), context)
        else:
            context.copy().run(self._run_apart, rest, context)


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
