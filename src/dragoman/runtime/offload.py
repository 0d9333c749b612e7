"""Runs plain functions on daemon threads; callers in any loop await the results.

All jobs wait in one backlog. A worker is in one of these states:

    idle      it waits for its turn to hunt; after a while without a turn it ends
    hunting   it was woken or started for the backlog, and has not looked into it yet: at most one worker hunts
    working   it runs jobs, one after another, until the backlog is empty; then it is idle

Invariant: while a job waits, a worker hunts, or the limit of threads is reached and all of them work. Each side first
publishes (a job in the backlog, a worker in the idle list) and then reads what the other side has published. A hunter
first ends the hunt and then takes a job; if more jobs wait, it starts the next hunt before it runs its own.

A hunter waits for the interpreter lock. So it takes a job in the moment in which a running job blocks, and a job that
sleeps does not delay the jobs behind it. While jobs do not block, one thread runs them all. Rejected: a mailbox for
each worker, which costs every job a change of threads: ten system calls a job in place of one.

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

from dragoman.runtime.tasks import waker

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
    job = submit(functools.partial(_set_outcome, future), function, args, kwargs)
    try:
        return await future
    except asyncio.CancelledError:
        job.drop()
        raise
    finally:
        del future, job  # an exception holds this frame, and the future holds the exception


def submit(
    on_end: Callable[[Any, BaseException | None], None],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Job:
    """Run a plain function on a daemon thread, in a copy of the current context.

    Afterwards this loop calls `on_end` with the result, or with the exception, unless the job was dropped.

    Raises:
        RuntimeError: the system cannot start a thread.
    """
    job = Job(_current_outbox(), on_end, function, args, kwargs)
    _workers.submit(job)
    return job


def _set_outcome(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Outbox:
    """The finished jobs of one loop."""

    __slots__ = ("_finished", "_is_woken", "_wake", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._finished: deque[Job] = deque()
        self._is_woken = False
        self._wake = waker(loop, self._settle)

    def put(self, job: Job) -> None:
        self._finished.append(job)
        if self._is_woken:
            return
        self._is_woken = True
        with suppress(RuntimeError):  # the loop is closed
            self._wake()
        if self.loop.is_closed():
            # This must come first: a job that is put after this line clears the outbox itself.
            self._is_woken = False
            self._finished.clear()

    def _settle(self) -> None:
        # This must come first: a job that is put after this line is either settled below or wakes the loop again.
        self._is_woken = False
        while self._finished:
            job = self._finished.popleft()
            try:
                job.settle()
            except Exception as error:  # the other jobs must be settled too
                message = "The callback of a finished job failed"
                self.loop.call_exception_handler({"message": message, "exception": error})


class Job:
    """One function call and the callback that receives its outcome."""

    __slots__ = (
        "_args",
        "_context",
        "_error",
        "_function",
        "_is_dropped",
        "_kwargs",
        "_on_end",
        "_outbox",
        "_result",
    )

    def __init__(
        self,
        outbox: _Outbox,
        on_end: Callable[[Any, BaseException | None], None],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._context = contextvars.copy_context()
        self._outbox = outbox
        self._on_end = on_end
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._is_dropped = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the function; a worker does this."""
        if self._is_dropped:
            return
        try:
            self._result = self._context.run(self._function, *self._args, **self._kwargs)
        except BaseException as error:
            self._error = error
        finally:
            del self  # the error holds this frame, and the job holds the error

    def deliver(self) -> None:
        """Give the outcome to the loop; a worker does this."""
        self._outbox.put(self)

    def settle(self) -> None:
        """Tell the outcome; the outbox does this in the loop."""
        error, self._error = self._error, None
        if not self._is_dropped:
            self._on_end(self._result, None if error is None else _raisable(error))
        elif isinstance(self._result, CoroutineType):  # nobody will await it
            self._result.close()

    def drop(self) -> None:
        """Do not call the function if it still waits for a thread, and tell no outcome."""
        self._is_dropped = True
        _workers.withdraw(self)


def _raisable(error: BaseException) -> BaseException:
    if not isinstance(error, StopIteration | GeneratorExit):
        return error
    # A future refuses a StopIteration, and a GeneratorExit would close the coroutine that awaits it. A coroutine that
    # raises StopIteration gets the same RuntimeError.
    replacement = RuntimeError(f"function raised {type(error).__name__}")
    replacement.__cause__ = error
    return replacement


class _Worker:
    """One thread."""

    __slots__ = ("_threads", "turn")

    def __init__(self, threads: _Threads) -> None:
        self._threads = threads
        self.turn = threading.Lock()
        """Is released when it is this worker's turn to hunt."""
        self.turn.acquire()

    def run(self) -> None:
        threads = self._threads
        job = threads.end_hunt()
        while True:
            if job is not None:
                job.run()
            # The worker is idle before delivery: a caller that gets its result and submits another job finds it.
            finished, job = job, threads.next_job(self)
            if finished is not None:
                finished.deliver()
                del finished
            if job is None:
                if not threads.wait_for_turn(self):
                    return
                job = threads.end_hunt()


class _Threads:
    """The worker threads, the idle workers, and the backlog of jobs."""

    def __init__(self, max_threads: int, idle_seconds: float) -> None:
        self.max_threads = max_threads
        self.idle_seconds = idle_seconds
        self.reset()

    def reset(self) -> None:
        """Forget all threads and jobs: a forked child has none of its parent's threads."""
        self.count = 0
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._is_hunted = False
        self._backlog: deque[Job] = deque()

    @property
    def busy(self) -> bool:
        return self.count > len(self._idle)

    def submit(self, job: Job) -> None:
        self._backlog.append(job)
        if not self._is_hunted and not self._hunt():
            self.withdraw(job)
            raise RuntimeError("Cannot start a thread: the system's limit of threads or memory is reached")

    def withdraw(self, job: Job) -> None:
        """Remove a job from the backlog, unless a worker has it already."""
        with suppress(ValueError):
            self._backlog.remove(job)

    def end_hunt(self) -> Job | None:
        """Return the oldest job, if a working worker has not taken it; another worker hunts for the rest."""
        self._is_hunted = False
        job = self._pop()
        if self._backlog:
            self._hunt()
        return job

    def next_job(self, worker: _Worker) -> Job | None:
        """Return the oldest job for a working worker, or make the worker idle."""
        job = self._pop()
        if job is None:
            with self._lock:
                self._idle.append(worker)
            if self._backlog:  # a job was submitted while this worker was neither working nor idle
                self._hunt()
        return job

    def wait_for_turn(self, worker: _Worker) -> bool:
        """Wait until an idle worker is to hunt; return False if it ends instead."""
        if worker.turn.acquire(timeout=self.idle_seconds):
            return True
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                self.count -= 1
                return False
        return worker.turn.acquire()

    def _pop(self) -> Job | None:
        try:
            return self._backlog.popleft()
        except IndexError:
            return None

    def _hunt(self) -> bool:
        """Let an idle or a new worker hunt, unless one does or the limit is reached; return whether there is any."""
        with self._lock:
            if self._is_hunted:
                return True
            # The flag is set first: the worker may end its hunt before this thread goes on.
            self._is_hunted = bool(self._idle) or self.count < self.max_threads
            try:
                if self._idle:
                    self._idle.pop().turn.release()
                elif self._is_hunted:
                    self._start()
            except BaseException:  # a KeyboardInterrupt may come anywhere above; two hunters do no harm, none would
                self._is_hunted = False
                raise
            return self.count > 0

    def _start(self) -> None:
        self.count += 1
        try:
            threading.Thread(target=_Worker(self).run, name="dragoman-worker", daemon=True).start()
        except RuntimeError:
            self.count -= 1
            self._is_hunted = False


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
