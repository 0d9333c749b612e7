"""Runs plain functions on daemon threads; callers in any loop await the results.

All jobs wait in one backlog. A worker is in one of these states:

    idle      it waits to be woken; after a while it ends
    woken     it was woken or started for the backlog, and has not looked into it yet: at most one worker is woken
    working   it runs jobs, one after another, until the backlog is empty; then it is idle

Invariant: while a job waits, a worker is woken, or the limit of threads is reached and all of them work. Each side
first publishes (a job in the backlog, an idle worker) and then reads what the other side has published. A woken worker
first gives up that state and then takes a job; if more jobs wait, it wakes the next worker before it runs its own.

A woken worker waits for the interpreter lock. So it takes a job in the moment in which a running job blocks, and a job
that sleeps does not delay the jobs behind it. While jobs do not block, one thread runs them all. Rejected: a worker
woken for each job, as in `ThreadPoolExecutor`, which costs every job a change of threads: a call of a `def` tool over
stdio takes twice as long.

All threads are daemons, so the interpreter never waits for one. Finished jobs return to their loop through an outbox,
which wakes the loop once for all the jobs in it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import FileIO, TextIOWrapper
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

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
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    job = _Job(future, functools.partial(contextvars.copy_context().run, function, *args, **kwargs))
    _workers.submit(job)
    try:
        return await future
    except asyncio.CancelledError:
        _workers.withdraw(job)
        raise
    finally:
        del future, job  # an exception holds this frame, and the future holds the exception


class _Outbox:
    """The finished jobs of one loop, which is woken once for all of them."""

    __slots__ = ("_finished", "_is_woken")

    def __init__(self) -> None:
        self._finished: deque[_Job] = deque()
        self._is_woken = False

    def put(self, job: _Job, loop: asyncio.AbstractEventLoop) -> None:
        self._finished.append(job)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        # This must come first: a job that is put after this line is either settled below or wakes the loop again.
        self._is_woken = False
        while self._finished:
            self._finished.popleft().settle()


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Outbox] = WeakKeyDictionary()


class _Job:
    """One function call and the future that receives its outcome."""

    __slots__ = ("_call", "_error", "_future", "_outbox", "_result")

    def __init__(self, future: asyncio.Future[Any], call: Callable[[], Any]) -> None:
        self._future = future
        self._outbox = _outboxes.setdefault(future.get_loop(), _Outbox())
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the function; a worker does this."""
        if self._future.cancelled():
            return
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        finally:
            del self  # the error holds this frame, and the job holds the error

    def deliver(self) -> None:
        """Give the outcome to the loop; a worker does this."""
        self._outbox.put(self, self._future.get_loop())

    def settle(self) -> None:
        """Tell the outcome to the future; the outbox does this in the loop."""
        error, self._error = self._error, None
        if self._future.cancelled():
            if isinstance(self._result, CoroutineType):  # nobody will await it
                self._result.close()
        elif error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(_raisable(error))


def _raisable(error: BaseException) -> BaseException:
    if not isinstance(error, StopIteration | GeneratorExit):
        return error
    # A future refuses a StopIteration, and a GeneratorExit would close the coroutine that awaits it. A coroutine that
    # raises StopIteration gets the same RuntimeError.
    replacement = RuntimeError(f"function raised {type(error).__name__}")
    replacement.__cause__ = error
    return replacement


class _Workers:
    """The worker threads and the backlog of jobs."""

    def __init__(self, max_threads: int, idle_seconds: float) -> None:
        self.max_threads = max_threads
        self.idle_seconds = idle_seconds
        self.reset()

    def reset(self) -> None:
        """Forget all threads and jobs: a forked child has none of its parent's threads."""
        self.count = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._wake_ups = threading.Semaphore(0)
        self._is_woken = False
        """Whether a worker is woken."""
        self._backlog: deque[_Job] = deque()

    @property
    def busy(self) -> bool:
        return self.count > self._idle

    def submit(self, job: _Job) -> None:
        self._backlog.append(job)
        if not self._is_woken and not self._wake():
            self.withdraw(job)
            raise RuntimeError("Cannot start a thread: the system's limit of threads or memory is reached")

    def withdraw(self, job: _Job) -> None:
        """Remove a job from the backlog, unless a worker has it already."""
        with suppress(ValueError):
            self._backlog.remove(job)

    def _wake(self) -> bool:
        """Wake an idle worker or start a new one, unless one is woken or all work; return whether there is any."""
        with self._lock:
            if self._is_woken:
                return True
            # The flag is set first: the worker may look into the backlog before this thread goes on.
            self._is_woken = bool(self._idle) or self.count < self.max_threads
            try:
                if self._idle:
                    self._idle -= 1
                    self._wake_ups.release()
                elif self._is_woken:
                    self._start()
            except BaseException:  # a KeyboardInterrupt may come anywhere above; two woken workers do no harm
                self._is_woken = False
                raise
            return self.count > 0

    def _start(self) -> None:
        self.count += 1
        try:
            threading.Thread(target=self._work, name="dragoman-worker", daemon=True).start()
        except RuntimeError:
            self.count -= 1
            self._is_woken = False

    def _work(self) -> None:
        job = self._first_job()
        while True:
            if job is not None:
                job.run()
            # The worker is idle before delivery: a caller that gets its result and submits another job finds it.
            finished, job = job, self._next_job()
            if finished is not None:
                finished.deliver()
                del finished
            if job is None:
                if not self._wait():
                    return
                job = self._first_job()

    def _first_job(self) -> _Job | None:
        """Return the oldest job for a woken worker, if no other worker has taken it, and wake a worker for the rest."""
        self._is_woken = False
        job = self._pop()
        if self._backlog:
            self._wake()
        return job

    def _next_job(self) -> _Job | None:
        """Return the oldest job for a working worker, or make the worker idle."""
        job = self._pop()
        if job is None:
            with self._lock:
                self._idle += 1
            if self._backlog:  # a job was submitted while this worker was neither working nor idle
                self._wake()
        return job

    def _pop(self) -> _Job | None:
        try:
            return self._backlog.popleft()
        except IndexError:
            return None

    def _wait(self) -> bool:
        """Wait until an idle worker is woken; return False if it ends instead."""
        if self._wake_ups.acquire(timeout=self.idle_seconds):
            return True
        with self._lock:
            if self._idle:
                self._idle -= 1
                self.count -= 1
                return False
        return self._wake_ups.acquire()


_workers = _Workers(MAX_THREADS, IDLE_SECONDS)


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
