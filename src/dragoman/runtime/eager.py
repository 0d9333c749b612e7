"""Runs coroutines at once, one after another, in as few tasks as possible.

A task for each short coroutine costs more than the coroutine, and a new task waits for a turn of the loop. So an eager
runner runs the first step of a coroutine as soon as it gets the coroutine. During that step, a task of the runner is
the current task. Each coroutine runs in a copy of the context of the call of `run`, as it would in a task of its own.

A task of the runner is in one of these states:

    spare     created, not started by the loop: the next coroutine runs its first step in this task
    adopted   its coroutine has to wait: from the loop's next turn on the task runs that coroutine, and can be cancelled
    retired   its turn of the loop came and it adopted no coroutine: it ends

Items wait for a turn of the loop in four cases:

- the spare task is older than `MAX_SPARE_SECONDS`, so the loop has had no turn for that long;
- this runner is running a first step;
- the current task is itself in such a first step, so the stack would grow;
- the caller handles an exception, which would become the `__context__` of later exceptions.

Coroutines that do not wait share a task. Objects that an author ties to the current task (a database session, a
callback for its end) may thus be shared by several calls of one client, but not by two clients, because each client has
a runner.

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

from dragoman.runtime.tasks import SelfCancelTask, current_task

Job = Coroutine[Any, Any, None]
Item = TypeVar("Item")

MAX_SPARE_SECONDS = 0.005
_ENDED = object()
# The functions by which task implementations outside of asyncio set the current task.
_enter_task, _leave_task = asyncio._enter_task, asyncio._leave_task


class _RunnerTask(SelfCancelTask[None]):
    """A task whose body knows whether the task was cancelled."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Request the cancellation of the task."""
        body: Any = self.get_coro()
        body.is_cancelled = True
        return super().cancel(msg)


class _TaskBody(Coroutine[Any, Any, None]):
    """The coroutine of a task: it continues an adopted coroutine, or starts the pending items of its runner."""

    __slots__ = (
        *("_awaited", "_context", "_is_future", "_job", "_runner"),
        *("created_at", "has_begun", "is_cancelled", "task"),
    )

    def __init__(self, runner: EagerRunner[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._runner = runner
        self._job: Job | None = None
        self._context: Context | None = None
        self._awaited: Any = None
        self._is_future = False
        self.has_begun = False
        self.is_cancelled = False
        self.created_at = monotonic()
        # Made directly: the loop's task factory may start a task at once (Python 3.12: eager tasks).
        self.task: asyncio.Task[None] = _RunnerTask(self, loop=loop)

    def adopt(self, context: Context, job: Job, awaited: Any) -> None:
        """Continue a coroutine whose first step ended at an awaitable."""
        self._context, self._job, self._awaited = context, job, awaited
        if getattr(awaited, "_asyncio_future_blocking", False):
            # A task clears this mark on a future that it awaits. Other tasks may await the future before this task has
            # its turn, so the mark is cleared here; `_yield_awaited` sets it again.
            awaited._asyncio_future_blocking = False
            self._is_future = True

    def send(self, value: Any) -> Any:
        """Run the next step; the task calls this."""
        if self.has_begun:
            return self._resume("send", value)
        self.has_begun = True
        self._runner.on_turn(self)
        if self._job is None:
            del self.task
            raise StopIteration
        return self._yield_awaited()

    def _yield_awaited(self) -> Any:
        awaited, self._awaited = self._awaited, None
        if self._is_future:
            awaited._asyncio_future_blocking = True
        return awaited

    def throw(self, *error: Any) -> Any:
        """Run the next step with an error; the task calls this when it is cancelled, maybe before its first turn."""
        if not self.has_begun:
            self.has_begun = True
            self._runner.retire(self)
        if self._job is None:
            del self.task
            raise error[0]
        if self._is_future and self._awaited is not None and self._awaited.cancel(*error[0].args):
            # Like a task that is cancelled while it awaits: cancel the awaited future, and let it report that.
            return self._yield_awaited()
        return self._resume("throw", *error)

    def _resume(self, how: str, *args: Any) -> Any:
        assert self._context is not None
        try:
            return self._context.run(getattr(self._job, how), *args)
        except BaseException:
            # The task refers to this body. Without this `del`, the reference cycle would delay the release of both.
            del self.task
            self._job = self._context = self._awaited = None
            raise

    def close(self) -> None:
        """Close the adopted coroutine; the task calls this when its loop is gone."""
        if self._job is not None and self._context is not None:
            self._context.run(self._job.close)

    def __await__(self) -> Any:
        return self


class EagerRunner(Generic[Item]):
    """Runs coroutines in as few tasks as possible.

    Example:
        runner = EagerRunner(asyncio.get_running_loop(), answer)
        runner.run(iter(messages))
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Callable[[Item], Job | None]) -> None:
        """Make a runner; `begin` returns the coroutine of an item, which must not raise, or None if there is none."""
        self._loop = loop
        self._begin = begin
        self._spare: _TaskBody | None = None
        self._pending: deque[tuple[Context, Iterator[Item]]] = deque()
        self._is_running = False
        self._interrupted: asyncio.Task[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        """The current task, during the first step of a coroutine."""

    @property
    def is_pending(self) -> bool:
        """Whether items wait to be begun."""
        return bool(self._pending)

    @property
    def is_idle(self) -> bool:
        """Whether no item waits to be begun, and none is being begun."""
        return not (self._is_running or self._pending)

    def run(self, items: Iterable[Item]) -> None:
        """Begin items one after another, after those of earlier calls.

        Raises:
            Exception: `begin` raised for an item; the items after it do not begin. If this happens in a later turn,
                the loop's exception handler gets the exception.
        """
        spare, current = self._spare, current_task(self._loop)
        if (
            self._is_running
            or (spare is not None and (self._pending or monotonic() - spare.created_at > MAX_SPARE_SECONDS))
            or sys.exception() is not None
            or (current is not None and type(body := current.get_coro()) is _TaskBody and not body.has_begun)
        ):
            self._pending.append((copy_context(), iter(items)))
            self._request_turn()
            return
        self._is_running, self._interrupted = True, current
        try:
            self._begin_each(items)
            if self._pending:
                self._begin_pending()
        finally:
            self._restore_current_task()

    def close(self) -> None:
        """Ignore all pending and later items."""
        self._begin = _ignore

    def _request_turn(self) -> None:
        if self._pending and self._spare is None and not self._is_running:
            self._spare = _TaskBody(self, self._loop)

    def _restore_current_task(self) -> None:
        self._is_running = False
        interrupted, self._interrupted = self._interrupted, None
        if self.task is not None:
            _leave_task(self._loop, self.task)
            self.task = None
            if interrupted is not None:
                _enter_task(self._loop, interrupted)
        if self._pending:
            self._request_turn()

    def _begin_pending(self) -> None:
        while self._pending:
            context, items = self._pending.popleft()
            context.run(self._begin_each, items)

    def _begin_each(self, items: Iterable[Item]) -> None:
        for item in items:
            context = copy_context()
            job = context.run(self._begin, item)
            if job is None:
                continue
            body = self._spare
            if body is None or body.is_cancelled:
                # The cancellation request was meant for the previous coroutine, which had ended already.
                body = self._spare = _TaskBody(self, self._loop)
            if body.task is not self.task:
                before = self.task or self._interrupted
                if before is not None:
                    _leave_task(self._loop, before)
                self.task = body.task
                _enter_task(self._loop, body.task)
            # Unlike `send`, `next` with a default ends without an exception.
            awaited = context.run(next, job.__await__(), _ENDED)
            if awaited is not _ENDED:
                body.adopt(context, job, awaited)
                self._spare = None

    def on_turn(self, body: _TaskBody) -> None:
        """Begin the pending items in the first turn of a task, and retire the task."""
        if self._pending and self._spare is body:
            self._is_running, self._interrupted = True, body.task
            try:
                self._begin_pending()
            except Exception as error:  # the task must go on, because it may have adopted a coroutine
                self._loop.call_exception_handler({"message": "A call could not be taken in", "exception": error})
            finally:
                self._restore_current_task()
                self.retire(body)
        else:
            self.retire(body)

    def retire(self, body: _TaskBody) -> None:
        """Stop using a task as the spare task; pending items get another task."""
        if self._spare is body:
            self._spare = None
            self._request_turn()


def _ignore(_: object) -> None:
    pass
