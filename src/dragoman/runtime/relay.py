"""Coroutines run one after another in one task, until one of them has to wait.

A task for each of many short coroutines costs more than they do. Here those that come together share a task, which goes
through them as long as none suspends, and makes the next only when the one before has ended. The first that suspends
keeps the task for itself, so that it can be cancelled, and whatever holds on to the current task keeps the right one;
those after it get a task each, and so do the next, until one has not had to wait. Each coroutine has a context of its
own, a copy of that in which it came, as it would have as a task.

What an author ties to the current task (a session of a database by its task, a callback when it is done) may thus be
shared by the calls of one connection, and by nobody else: a relay belongs to one client.
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


class _Runner:
    """What one task runs: coroutines, still to be made, each with the context in which they came."""

    __slots__ = ("began", "pending")

    def __init__(self, context: Context, jobs: Iterator[Job]) -> None:
        self.pending = deque(((context, jobs),))
        self.began = False


class Relay:
    """Runs coroutines in as few tasks as they need.

    Example:
        relay = Relay(asyncio.get_running_loop())
        relay.run(answer(message) for message in messages)
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rested: Callable[[], None] | None = None) -> None:
        """Make one; `rested` is called when a task has run all that it had, and none of it waited."""
        self._loop = loop
        self._rested = rested
        self._together = True
        self._open: _Runner | None = None
        """Whose task takes more."""

    @property
    def is_pending(self) -> bool:
        """Whether some of what was to be run is still to be made."""
        return self._open is not None

    def run(self, jobs: Iterator[Job]) -> None:
        """Run coroutines soon, after those that came before, and each after the one before it; none may raise.

        Up to the first they are made at once, unless others are to be made before.
        """
        if self._open is not None:
            self._open.pending.append((copy_context(), jobs))
        elif self._together:
            first = next(jobs, None)
            if first is not None:
                self._begin(_Runner(copy_context(), chain((first,), jobs)))
        else:
            self._run_apart(copy_context(), jobs)

    def _run_apart(self, context: Context, jobs: Iterator[Job]) -> None:
        while (job := context.run(next, jobs, None)) is not None:
            self._begin(_Runner(context.copy(), iter((job,))))

    def _begin(self, runner: _Runner) -> None:
        # Before the task begins, which may end at once (Python 3.12: eager tasks).
        self._open = runner if self._together else None
        runner.began = False
        self._loop.create_task(self._run(runner)).add_done_callback(partial(self._recover, runner))

    def _recover(self, runner: _Runner, _: asyncio.Task[None]) -> None:
        """Begin anew what a task was to run that was cancelled before it began."""
        if not runner.began:
            self._begin(runner)

    async def _run(self, runner: _Runner) -> None:
        runner.began = True
        task = asyncio.current_task(self._loop)
        assert task is not None
        try:
            await self._steps(task, runner)
        finally:
            self._hand_over(runner)

    @coroutine
    def _steps(self, task: asyncio.Task[Any], runner: _Runner) -> Generator[Any, Any, None]:
        while runner.pending:
            context, jobs = runner.pending[0]
            while (job := context.run(next, jobs, None)) is not None:
                own = context.copy()
                try:
                    awaited = own.run(job.send, None)
                except StopIteration:
                    self._together = True
                else:
                    self._together = False
                    self._hand_over(runner)
                    yield from _rest(own, job, awaited)
                    return
                # A cancellation that came too late for this one is not for the next.
                if task.cancelling():
                    return
            runner.pending.popleft()
        if self._rested is not None:
            self._rested()

    def _hand_over(self, runner: _Runner) -> None:
        if runner.pending and self._together:
            self._begin(runner)
            return
        if self._open is runner:
            self._open = None
        while runner.pending:
            try:
                self._run_apart(*runner.pending.popleft())
            except Exception as error:  # which is no reason to lose the one that waits
                self._loop.call_exception_handler({"message": "A call could not be taken in", "exception": error})


def _rest(context: Context, job: Job, awaited: Any) -> Generator[Any, Any, None]:
    """Go on with a coroutine that waits for something already."""
    while True:
        try:
            sent = yield awaited
        except GeneratorExit:
            context.run(job.close)
            raise
        except BaseException as error:
            step = partial(job.throw, error)
        else:
            step = partial(job.send, sent)
        try:
            awaited = context.run(step)
        except StopIteration:
            return
