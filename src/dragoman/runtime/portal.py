"""The portal: one event loop in a daemon thread, in which blocking callers run coroutines.

All callers share the loop, so that a connection stays on one loop even if many threads call. The portal starts at its
first use. A forked child starts a new portal. A daemon thread never delays the exit. Objects in `kept` are stopped at
the exit.

A forked child has a copy of its parent's loop, selector and sockets. Both processes share the selector, so a child that
closed the copies would unregister the parent's sockets. The copies therefore must live as long as the child. Nothing
frees them: the portal's thread does not exist in the child, so the frames of that thread stay in memory. These frames
refer to the portal, and the portal refers to the objects in `kept`.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from dragoman.errors import DragomanError

T = TypeVar("T")
SLICE_SECONDS = 1.0
EXIT_SECONDS = 3.0
"""The seconds that objects in `kept` have to stop at the exit of the interpreter."""
_logger = logging.getLogger("dragoman.runtime")


class Portal:
    """A loop in a thread, and the calls into it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self.kept: set[Any] = set()
        """Objects that must live as long as the loop, also in a forked child; `stop` ends them at the exit."""
        self.thread = threading.Thread(target=self._run, name="dragoman portal", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                _logger.exception("What would have ended the loop of every blocking caller ended only its task")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result; an interrupt of the caller cancels the coroutine.

        Raises:
            DragomanError: the caller is the portal's own thread, which would wait for itself.
        """
        try:
            self.require_other_thread()
        except DragomanError:
            work.close()
            raise
        run = _Run()
        try:
            return outcome(self._start(work, run))
        finally:
            # An interrupt may come anywhere above, even after the work began and before its future is assigned.
            if not run.is_done:
                self.loop.call_soon_threadsafe(run.cancel)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[tuple[T | None, BaseException | None]]:
        """Run a coroutine in the loop without waiting; pass the future to `outcome`."""
        return self._start(work, _Run())

    def _start(self, work: Coroutine[Any, Any, T], run: _Run) -> Future[tuple[T | None, BaseException | None]]:
        return asyncio.run_coroutine_threadsafe(_contained(work, run), self.loop)

    def require_other_thread(self) -> None:
        """Check that the caller may wait for the loop.

        Raises:
            DragomanError: the caller is the portal's own thread, which would wait for itself.
        """
        if threading.get_ident() == self.thread.ident:
            raise DragomanError(
                "A blocking call was made inside the running event loop that serves it, and would wait for itself;"
                " await its asynchronous twin there, or make the function plain"
            )


class _Run:
    """The state of one coroutine: its task, and whether it is done or cancelled."""

    def __init__(self) -> None:
        self.is_done = False
        self.is_cancelled = False
        self.task: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.task is not None:
            self.task.cancel()


def outcome(started: Future[tuple[T | None, BaseException | None]], timeout: float | None = None) -> T:
    """Wait for a coroutine that a portal started, and return its result or raise its exception."""
    is_main = threading.current_thread() is threading.main_thread()
    result, error = _wait_interruptibly(started) if is_main and timeout is None else started.result(timeout)
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _wait_interruptibly(started: Future[T]) -> T:
    """Wait in slices: a signal just before a wait does not interrupt it, and on Windows no signal interrupts a wait."""
    while True:
        try:
            return started.result(SLICE_SECONDS)
        except TimeoutError:
            if started.done():
                return started.result()


async def _contained(work: Coroutine[Any, Any, T], run: _Run) -> tuple[T | None, BaseException | None]:
    """Return a SystemExit or KeyboardInterrupt as a value, because raising it would stop the shared loop."""
    if run.is_cancelled:
        work.close()
        return None, asyncio.CancelledError()
    run.task = asyncio.current_task()
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error
    finally:
        run.is_done = True


_portal: Portal | None = None
_starting = threading.Lock()


def portal() -> Portal:
    """Return the portal of this process, and start it if there is none."""
    global _portal
    found = _portal
    if found is None or found.process != os.getpid():
        with _starting:
            if _portal is None or _portal.process != os.getpid():
                _portal = Portal()
            found = _portal
    return found


def existing_portal() -> Portal | None:
    """Return the portal of this process, if it was started."""
    return _portal if _portal is not None and _portal.process == os.getpid() else None


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the portal and return its result.

    Raises:
        DragomanError: this thread runs a loop, which the call would block; await the asynchronous twin there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return portal().run(work)
    work.close()
    raise DragomanError("A blocking call was made inside a running event loop; await its asynchronous twin there")


async def _stop(kept: list[Any]) -> None:
    await asyncio.wait([asyncio.ensure_future(one.stop()) for one in kept], timeout=EXIT_SECONDS)


def _stop_kept() -> None:
    """Stop the objects that live in the loop; the interpreter would end its thread without asking them."""
    found = existing_portal()
    if found is None or not found.kept:
        return
    try:
        outcome(found.start(_stop(list(found.kept))), EXIT_SECONDS + 1)
    except (TimeoutError, RuntimeError, DragomanError):
        return


def _renew_lock() -> None:
    global _starting
    _starting = threading.Lock()


atexit.register(_stop_kept)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
