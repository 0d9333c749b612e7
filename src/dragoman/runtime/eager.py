"""Runs coroutines at once, one after another, in as few tasks as they need.

A task for each short coroutine costs more than the coroutine, and a new task waits for a turn of the loop. So a relay
takes the first step of a coroutine as soon as the coroutine comes. While it does, a task of the relay is the current
task. Each coroutine has a copy of the context in which it came, as a task would have.

A task of the relay is in one of these states:

    spare     made, not begun: the next coroutine takes its first step in it
    kept      its coroutine has to wait: from the loop's next turn on the task runs that coroutine, and can be cancelled
    retired   its turn of the loop came and no coroutine kept it: it ends

What comes waits for a turn of the loop in four cases: the spare task is older than a moment, so the loop has not had
its turn for that long; a coroutine of this relay is being begun; the current task was itself begun in this way, so
that stacks would grow; an exception is being handled, which would look like the cause of later ones.

Coroutines that do not wait share a task. What an author ties to the current task (a database session, a callback for
its end) may thus be shared by several calls of one client, and never by two clients: each has a relay of its own.

Rejected: `Task(eager_start=True)` of Python 3.12 makes a task for every coroutine. On Python 3.12 and 3.13 a call over
stdio then takes 8 % more instructions.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextvars import Context, copy_context
from time import monotonic
from typing import Any, Generic, TypeVar

from dragoman.runtime.tasks import OwnTask, current_task

Job = Coroutine[Any, Any, None]
Came = TypeVar("Came")

MOMENT_SECONDS = 0.005
_ENDED = object()
# What asyncio has for tasks of others, which tell it themselves that they are the current one.
_enter_task, _leave_task = asyncio._enter_task, asyncio._leave_task


class _Runner(Coroutine[Any, Any, None]):
    """What a task runs: one coroutine that was begun already and waits, or what came too late to be begun at once."""

    __slots__ = ("_awaited", "_context", "_is_future", "_job", "_relay", "has_begun", "made", "task")

    def __init__(self, relay: EagerRunner[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._relay = relay
        self._job: Job | None = None
        self._context: Context | None = None
        self._awaited: Any = None
        self._is_future = False
        self.has_begun = False
        self.made = monotonic()
        # Not by the loop's factory, which may begin a task at once (Python 3.12: eager tasks).
        self.task: asyncio.Task[None] = OwnTask(self, loop=loop)

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
        if self._is_future and self._awaited is not None and self._awaited.cancel(*error[0].args):
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


class EagerRunner(Generic[Came]):
    """Runs coroutines in as few tasks as they need.

    Example:
        relay = EagerRunner(asyncio.get_running_loop(), answer)
        relay.run(iter(messages))
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Callable[[Came], Job | None]) -> None:
        """Make one.

        `begin` makes a coroutine of something that came, or does all that is to be done itself; the coroutine must not
        raise.
        """
        self._loop = loop
        self._begin = begin
        self._spare: _Runner | None = None
        self._pending: deque[tuple[Context, Iterator[Came]]] = deque()
        self._is_running = False
        self._outer: asyncio.Task[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        """The task that runs a coroutine, while that begins."""

    @property
    def is_pending(self) -> bool:
        """Whether some of what came is still to be begun."""
        return bool(self._pending)

    def run(self, came: Iterable[Came]) -> None:
        """Begin what came, after what came before, one after another.

        Raises:
            Exception: one could not be begun; those that came with it are not. What is begun later tells the loop.
        """
        spare, outer = self._spare, current_task(self._loop)
        if (
            self._is_running
            or (spare is not None and (self._pending or monotonic() - spare.made > MOMENT_SECONDS))
            or sys.exception() is not None
            or (outer is not None and type(runner := outer.get_coro()) is _Runner and not runner.has_begun)
        ):
            self._pending.append((copy_context(), iter(came)))
            self._await_turn()
            return
        self._is_running, self._outer = True, outer
        try:
            self._begin_each(came)
            if self._pending:
                self._begin_pending()
        finally:
            self._rest()

    def close(self) -> None:
        """Let all that still comes, or came, come to nothing."""
        self._begin = _nothing

    def _await_turn(self) -> None:
        if self._pending and self._spare is None and not self._is_running:
            self._spare = _Runner(self, self._loop)

    def _rest(self) -> None:
        """Let whoever was the current task be so again."""
        self._is_running = False
        outer, self._outer = self._outer, None
        if self.task is not None:
            _leave_task(self._loop, self.task)
            self.task = None
            if outer is not None:
                _enter_task(self._loop, outer)
        if self._pending:
            self._await_turn()

    def _begin_pending(self) -> None:
        while self._pending:
            context, came = self._pending.popleft()
            context.run(self._begin_each, came)

    def _begin_each(self, came: Iterable[Came]) -> None:
        for one in came:
            context = copy_context()
            job = context.run(self._begin, one)
            if job is None:
                continue
            runner = self._spare
            if runner is None or runner.task._must_cancel:  # type: ignore[attr-defined]
                # Cancelled too late for the last coroutine, and not for the sake of this one.
                runner = self._spare = _Runner(self, self._loop)
            if runner.task is not self.task:
                before = self.task or self._outer
                if before is not None:
                    _leave_task(self._loop, before)
                self.task = runner.task
                _enter_task(self._loop, runner.task)
            # Unlike `send`, this ends without an exception.
            awaited = context.run(next, job.__await__(), _ENDED)
            if awaited is not _ENDED:
                runner.keep(context, job, awaited)
                self._spare = None

    def turn(self, runner: _Runner) -> None:
        """Let a task that was made have its turn of the loop; it is no spare one any more."""
        if self._pending and self._spare is runner:
            self._is_running, self._outer = True, runner.task
            try:
                self._begin_pending()
            except Exception as error:  # which is no reason to lose what the task has begun
                self._loop.call_exception_handler({"message": "A call could not be taken in", "exception": error})
            finally:
                self._rest()
                self.retire(runner)
        else:
            self.retire(runner)

    def retire(self, runner: _Runner) -> None:
        """Begin nothing more in a task; what is pending has another."""
        if self._spare is runner:
            self._spare = None
            self._await_turn()


def _nothing(_: object) -> None:
    """Begin nothing."""
