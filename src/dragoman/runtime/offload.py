"""Runs plain functions on daemon threads; callers in any loop await the results.

A job goes into the backlog. Then jobs and idle workers are matched: the oldest job goes to the mailbox of the worker
that became idle last. If no worker is idle, a new one starts, up to a limit. A worker that gets no job for a while
ends. All threads are daemons, so the interpreter never waits for one.

Invariant: no job waits while a worker is idle. The invariant needs no lock. Each side first publishes (a job in the
backlog, a worker in the idle list) and then reads what the other side has published. So the side that publishes second
sees both entries and matches them. A lock guards only the number of threads, when a thread starts or ends.

Finished jobs return to their loop through an outbox, which wakes the loop once for all the jobs in it.
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

MAX_THREADS = 256
IDLE_SECONDS = 10.0

P = ParamSpec("P")
R = TypeVar("R")


async def offload(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a plain function on a daemon thread, in a copy of the current context, and return its result.

    Example:
        page = await offload(requests.get, "https://example.com", timeout=10)

    A cancellation takes effect at once. A function that still waits for a thread is never called. A function that runs
    continues, and its result is dropped.

    Raises:
        Exception: any exception of the function; a StopIteration becomes the cause of a RuntimeError.
        RuntimeError: the system cannot start a thread.
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
    """The finished jobs of one loop."""

    __slots__ = ("_finished", "_is_woken", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._finished: deque[_Job] = deque()
        self._is_woken = False

    def put(self, job: _Job) -> None:
        self._finished.append(job)
        if self._is_woken:
            return
        self._is_woken = True
        try:
            self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:  # the loop is closed
            self._finished.clear()

    def _settle(self) -> None:
        # This must come first: a job that is put after this line is either settled below or wakes the loop again.
        self._is_woken = False
        while self._finished:
            self._finished.popleft().settle()


class _Job:
    """One call, and the future of its result."""

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
    # A future refuses a StopIteration, and a GeneratorExit would close the coroutine that awaits it. A coroutine that
    # raises StopIteration gets the same RuntimeError.
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
            # Offer before delivery: a caller that gets its result and submits another job finds this worker idle.
            self._workers.offer(self)
            job.deliver()
            del job


class _Threads:
    """The worker threads, the idle workers, and the backlog of jobs."""

    def __init__(self, max_threads: int, idle_seconds: float) -> None:
        self.max_threads = max_threads
        self.idle_seconds = idle_seconds
        self.reset()

    def reset(self) -> None:
        """Forget all threads and jobs: a forked child has none of its parent's threads."""
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
        """Remove a job from the backlog, unless a worker has it already."""
        with suppress(ValueError):
            self._backlog.remove(job)

    def offer(self, worker: _Worker) -> None:
        """Make a worker idle."""
        self._idle.append(worker)
        self._match()

    def retire(self, worker: _Worker) -> bool:
        """Return whether an idle worker may end; it may not if a job is in its mailbox."""
        try:
            self._idle.remove(worker)
        except ValueError:
            return False
        with self._counting:
            self.count -= 1
        if self._backlog:  # a job was submitted while this worker was neither idle nor ended
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
        """Start a thread, unless the limit is reached; return whether there is any thread."""
        with self._counting:
            if self.count >= self.max_threads:
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
_workers = _Threads(MAX_THREADS, IDLE_SECONDS)


def _unbuffer_standard_streams() -> None:
    """Replace buffered streams at exit: a thread that the exit stops in a print holds their lock, and Python aborts."""
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
    os.register_at_fork(after_in_child=_workers.reset)
