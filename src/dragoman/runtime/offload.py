"""Plain functions on daemon threads, awaited from any loop.

Theory of operation: a job goes into the backlog; then jobs and idle workers are matched, the oldest job with the
worker that became idle last, which takes it from a mailbox of its own. When nobody is idle a new worker starts, up to
a limit. A worker that has had no job for a while ends. All are daemons: the interpreter never waits for one.

Jobs share no lock. Each side first publishes (a job into the backlog, a worker onto the idle list) and then looks at
what the other side has published; whoever comes second sees both, so no job waits while a worker is idle. A lock
guards only the number of threads, when one starts or ends.

An outcome returns through the outbox of its loop, which is woken once for all the outcomes that are there.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import FileIO, TextIOWrapper
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

MOST_THREADS = 256
IDLE_SECONDS = 10.0

P = ParamSpec("P")
R = TypeVar("R")


async def offload(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a plain function on a daemon thread, in a copy of the current context, and return its result.

    Example:
        page = await offload(requests.get, "https://example.com", timeout=10)

    Cancelling returns at once: a function that waits for a thread is never called, and one that runs goes on while
    its result is dropped.

    Raises:
        Exception: whatever the function raises; a StopIteration arrives as the cause of a RuntimeError.
        RuntimeError: the system gives out no thread.
    """
    job = _Job(_current_outbox(), function, args, kwargs)
    _workers.submit(job)
    try:
        return await job.future  # type: ignore[no-any-return]
    except asyncio.CancelledError:
        _workers.withdraw(job)
        raise
    finally:
        del job  # an exception holds this frame, and the job holds the exception


class _Outbox:
    """The jobs that have an outcome for one loop."""

    __slots__ = ("_finished", "_waking", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._finished: deque[_Job] = deque()
        self._waking = False

    def put(self, job: _Job) -> None:
        self._finished.append(job)
        if self._waking:
            return
        self._waking = True
        try:
            self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:  # the loop is closed, nobody waits
            self._finished.clear()

    def _settle(self) -> None:
        # Must come first: what is put after this line is either seen below or wakes the loop again.
        self._waking = False
        while self._finished:
            self._finished.popleft().settle()


class _Job:
    """One call, and the future that waits for its outcome."""

    __slots__ = ("_args", "_context", "_error", "_function", "_kwargs", "_outbox", "_result", "future")

    def __init__(
        self, outbox: _Outbox, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.future: asyncio.Future[Any] = outbox.loop.create_future()
        self._context = contextvars.copy_context()
        self._outbox = outbox
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        if self.future.cancelled():
            return
        try:
            self._result = self._context.run(self._function, *self._args, **self._kwargs)
        except BaseException as error:
            self._error = error
        finally:
            del self  # the error holds this frame, and the job holds the error

    def deliver(self) -> None:
        self._outbox.put(self)

    def settle(self) -> None:
        error, self._error = self._error, None
        if self.future.done():
            return
        if error is None:
            self.future.set_result(self._result)
        else:
            self.future.set_exception(_raisable(error))


def _raisable(error: BaseException) -> BaseException:
    if not isinstance(error, StopIteration | GeneratorExit):
        return error
    # A future refuses a StopIteration, and a GeneratorExit would close whoever awaits it; a coroutine that lets a
    # StopIteration out turns it into the same RuntimeError.
    replacement = RuntimeError(f"function raised {type(error).__name__}")
    replacement.__cause__ = error
    return replacement


class _Worker:
    """One thread and its mailbox."""

    __slots__ = ("_workers", "mailbox")

    def __init__(self, workers: _Threads) -> None:
        self._workers = workers
        self.mailbox: SimpleQueue[_Job] = SimpleQueue()

    def run(self) -> None:
        self._workers.offer(self)
        while True:
            try:
                job = self.mailbox.get(timeout=self._workers.idle_seconds)
            except Empty:
                if self._workers.retire(self):
                    return
                continue
            job.run()
            # Offered before the outcome is known, so that whoever waits for it finds this worker idle.
            self._workers.offer(self)
            job.deliver()
            del job


class _Threads:
    """The threads, those that are idle, and the jobs that wait for one."""

    def __init__(self, most: int, idle_seconds: float) -> None:
        self.most = most
        self.idle_seconds = idle_seconds
        self.forget()

    def forget(self) -> None:
        """Be as new: a forked child has none of its parent's threads."""
        self.count = 0
        self._counting = threading.Lock()
        self._idle: list[_Worker] = []
        self._backlog: deque[_Job] = deque()

    @property
    def busy(self) -> bool:
        return self.count > len(self._idle)

    def submit(self, job: _Job) -> None:
        self._backlog.append(job)
        self._match()
        if self._backlog and not self._grow():
            self.withdraw(job)
            raise RuntimeError("Cannot start a thread: the system's limit of threads or memory is reached")

    def withdraw(self, job: _Job) -> None:
        """Take a job back that no worker has taken yet."""
        with suppress(ValueError):
            self._backlog.remove(job)

    def offer(self, worker: _Worker) -> None:
        """Make a worker idle."""
        self._idle.append(worker)
        self._match()

    def retire(self, worker: _Worker) -> bool:
        """Return whether an idle worker may end; it may not when a job is on its way to it."""
        try:
            self._idle.remove(worker)
        except ValueError:
            return False
        with self._counting:
            self.count -= 1
        if self._backlog:  # came when this worker was neither idle nor gone
            self._grow()
        return True

    def _match(self) -> None:
        while self._backlog:
            try:
                worker = self._idle.pop()
            except IndexError:
                return
            try:
                job = self._backlog.popleft()
            except IndexError:
                self._idle.append(worker)
            else:
                worker.mailbox.put(job)

    def _grow(self) -> bool:
        """Start a thread unless there are enough; return whether there is any."""
        with self._counting:
            if self.count >= self.most:
                return True
            self.count += 1
        try:
            threading.Thread(target=_Worker(self).run, name="dragoman-worker", daemon=True).start()
        except RuntimeError:
            with self._counting:
                self.count -= 1
                return self.count > 0
        return True


class _Current(threading.local):
    outbox: _Outbox | None = None


def _current_outbox() -> _Outbox:
    loop = asyncio.get_running_loop()
    outbox = _current.outbox
    if outbox is None or outbox.loop is not loop:
        outbox = _current.outbox = _Outbox(loop)
    return outbox


_current = _Current()
_workers = _Threads(MOST_THREADS, IDLE_SECONDS)


def _unbuffer_standard_streams() -> None:
    """Take the locks out of the exit: a thread that is frozen in a print would keep one, and Python would abort."""
    if not _workers.busy:
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        with suppress(AttributeError, OSError, ValueError):  # absent, replaced, broken or closed
            stream.flush()
            raw = FileIO(stream.fileno(), "w", closefd=False)
            setattr(sys, name, TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True))


atexit.register(_unbuffer_standard_streams)
with suppress(AttributeError):  # Windows does not fork
    os.register_at_fork(after_in_child=_workers.forget)
