"""Coroutines begun at once, one after another, in as few tasks as they need.

A task for each of many short coroutines costs more than they do, and so does the turn of the loop that it waits for.
Here a coroutine is begun where it comes, as if it were in a task: a spare one, made but not begun, which the next
coroutine takes over if this one did not have to wait. One that has to wait keeps the task, which goes on with it in the
loop's next turn, so that it can be cancelled, and whatever holds on to the current task keeps the right one. Each
coroutine has a context of its own, a copy of that in which it came, as it would have as a task.

A spare task that nobody kept ends in the loop's next turn. Until then it tells how long the loop has not had one:
whoever comes after more than a moment waits for it. And so does whoever is called by a coroutine that was itself begun
at once, lest their stacks grow, or while an exception is handled, which would be seen as the cause of theirs.

What an author ties to the current task (a session of a database by its task, a callback when it is done) may thus be
shared by the calls of one connection, and by nobody else: a relay belongs to one client.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from itertools import chain
from typing import Any

Job = Coroutine[Any, Any, None]

MOMENT_SECONDS = 0.005
_ENDED = object()


class _Runner(Coroutine[Any, Any, None]):
    """What a task runs: one coroutine that was begun already and waits, or what came too late to be begun at once."""

    __slots__ = ("_awaited", "_context", "_is_future", "_job", "_relay", "has_begun", "made", "task")

    def __init__(self, relay: Relay, loop: asyncio.AbstractEventLoop) -> None:
        self._relay = relay
        self._job: Job | None = None
        self._context: Context | None = None
        self._awaited: Any = None
        self._is_future = False
        self.has_begun = False
        self.made = loop.time()
        # Not by the loop's factory, which may begin a task at once (Python 3.12: eager tasks).
        self.task: asyncio.Task[None] = asyncio.Task(self, loop=loop)

    def keep(self, context: Context, job: Job, awaited: Any) -> None:
        """Go on with a coroutine that waits for something."""
        self._context, self._job, self._awaited = context, job, awaited
        if getattr(awaited, "_asyncio_future_blocking", False):
            # A task takes this mark off what it waits for; others may wait for the same before ours has its turn.
            awaited._asyncio_future_blocking = False
            self._is_future = True

    def send(self, value: Any) -> Any:
        """Go on, as a task does."""
        if self.has_begun:
            return self._go_on("send", value)
        self.has_begun = True
        self._relay.turn(self)
        if self._job is None:
            del self.task
            raise StopIteration
        return self._wait()

    def _wait(self) -> Any:
        awaited, self._awaited = self._awaited, None
        if self._is_future:
            awaited._asyncio_future_blocking = True
        return awaited

    def throw(self, *error: Any) -> Any:
        """Go on with an error, as a task does that is cancelled, maybe before it has begun."""
        if not self.has_begun:
            self.has_begun = True
            self._relay.retire(self)
        if self._job is None:
            del self.task
            raise error[0]
        if self._is_future and self._awaited is not None and self._awaited.cancel():
            # As when a task is cancelled that waits: what it waits for is, and tells so.
            return self._wait()
        return self._go_on("throw", *error)

    def _go_on(self, how: str, *given: Any) -> Any:
        assert self._context is not None
        try:
            return self._context.run(getattr(self._job, how), *given)
        except BaseException:
            # The task holds on to what it has run, which must not hold on to it.
            del self.task
            self._job = self._context = self._awaited = None
            raise

    def close(self) -> None:
        """End, as a task does whose loop is gone."""
        if self._job is not None and self._context is not None:
            self._context.run(self._job.close)

    def __await__(self) -> Any:
        return self


class Relay:
    """Runs coroutines in as few tasks as they need.

    Example:
        relay = Relay(asyncio.get_running_loop())
        relay.run(answer(message) for message in messages)
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rested: Callable[[], None] | None = None) -> None:
        """Make one; `rested` is called when all that came has been begun."""
        self._loop = loop
        self._rested = rested
        self._spare: _Runner | None = None
        self._pending: deque[tuple[Context, Iterator[Job]]] = deque()
        self._is_running = False
        self.task: asyncio.Task[None] | None = None
        """The task that runs a coroutine, while that begins."""

    @property
    def is_pending(self) -> bool:
        """Whether some of what was to be run is still to be made."""
        return bool(self._pending)

    def run(self, jobs: Iterator[Job]) -> None:
        """Begin coroutines, which must not raise, after those that came before; each is made when the last was begun.

        Raises:
            Exception: one could not be made; those that came with it are not.
        """
        loop, pending = self._loop, self._pending
        pending.append((copy_context(), jobs))
        if self._is_running or self._must_wait():
            return
        outer = current = asyncio.current_task(loop)
        self._is_running = True
        try:
            while pending:
                context, jobs = pending.popleft()
                while (job := context.run(next, jobs, None)) is not None:
                    runner = self._spare
                    if runner is None or _is_cancelled(runner.task):
                        runner = self._spare = _Runner(self, loop)
                    task = runner.task
                    if task is not current:
                        if current is outer and (sys.exc_info()[0] is not None or _is_begun_at_once(outer)):
                            pending.appendleft((context, chain((job,), jobs)))
                            return
                        current = _switch(loop, current, task)
                    self.task = task
                    own = context.copy()
                    # Unlike `send`, this ends without an exception.
                    awaited = own.run(next, job.__await__(), _ENDED)
                    if awaited is not _ENDED:
                        runner.keep(own, job, awaited)
                        self._spare = None
        finally:
            self._is_running = False
            self.task = None
            if current is not outer:
                _switch(loop, current, outer)
            if pending and self._spare is None:
                self._spare = _Runner(self, loop)
        if self._rested is not None:
            self._rested()

    def _must_wait(self) -> bool:
        """Tell whether it is the loop's turn, since there has been none for more than a moment."""
        spare = self._spare
        if spare is None or spare.has_begun:
            return False
        return len(self._pending) > 1 or self._loop.time() - spare.made > MOMENT_SECONDS

    def turn(self, runner: _Runner) -> None:
        """Let a task that was made have its turn of the loop; it is no spare one any more."""
        if self._pending and self._spare is runner:
            try:
                self.run(iter(()))
            except Exception as error:  # which is no reason to lose what the task has begun
                self._loop.call_exception_handler({"message": "A call could not be taken in", "exception": error})
        self.retire(runner)

    def retire(self, runner: _Runner) -> None:
        """Begin nothing more in a task; what is pending has another."""
        if self._spare is runner:
            self._spare = _Runner(self, self._loop) if self._pending else None


def _is_cancelled(task: Any) -> bool:
    """Tell whether a task is to be cancelled: that came too late for one coroutine, and is not for the next."""
    return bool(task.cancelling() or task._must_cancel)


def _is_begun_at_once(task: asyncio.Task[Any] | None) -> bool:
    """Tell whether a task has not had its turn: what it runs, and what that calls, has a stack that would grow."""
    runner: Any = None if task is None else task.get_coro()
    return type(runner) is _Runner and not runner.has_begun


def _switch(
    loop: asyncio.AbstractEventLoop, before: asyncio.Task[Any] | None, after: asyncio.Task[Any] | None
) -> asyncio.Task[Any] | None:
    """Let another task be the current one, by the functions that asyncio has for tasks of others."""
    if before is not None:
        asyncio._leave_task(loop, before)
    if after is not None:
        asyncio._enter_task(loop, after)
    return after
