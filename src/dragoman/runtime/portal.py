"""One event loop in a daemon thread, for callers that block.

Whatever is asynchronous runs there, so that what belongs to a loop stays with one loop however many threads call. It is
started when it is first needed, and anew in a child after fork. Being a daemon it never holds up the exit.

A forked child has a copy of its parent's loop, selector and sockets. To clean them up would unregister the parent's
sockets, since a selector is shared across a fork, so the copy must live as long as the child. It does: the frames of a
thread that does not exist in the child are never unwound, and they hold the portal, which holds what is `kept`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from dragoman.errors import DragomanError

T = TypeVar("T")
SLICE_SECONDS = 1.0
_logger = logging.getLogger("dragoman.runtime")


class Portal:
    """A loop in a thread, and the way in."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self.kept: set[Any] = set()
        """What lives as long as the loop does, in a forked child too."""
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
        """Run a coroutine in the loop and wait for what it gives; whoever is interrupted gives it up.

        Raises:
            DragomanError: called in the portal's own thread, which would wait for itself.
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
            # An interruption may come anywhere above, also when the work has begun and its future is not known yet.
            if not run.is_over:
                self.loop.call_soon_threadsafe(run.give_up)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[tuple[T | None, BaseException | None]]:
        """Run a coroutine in the loop without waiting; `outcome` tells what it gave."""
        return self._start(work, _Run())

    def _start(self, work: Coroutine[Any, Any, T], run: _Run) -> Future[tuple[T | None, BaseException | None]]:
        return asyncio.run_coroutine_threadsafe(_kept(work, run), self.loop)

    def require_other_thread(self) -> None:
        """Make sure that the caller may wait.

        Raises:
            DragomanError: it is the portal's own thread, which would wait for itself.
        """
        if threading.get_ident() == self.thread.ident:
            raise DragomanError(
                "A blocking call was made inside the running event loop that serves it, and would wait for itself;"
                " await its asynchronous twin there, or make the function plain"
            )


class _Run:
    """A coroutine that runs, and whether anybody wants it to."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_given_up = False
        self.task: asyncio.Task[Any] | None = None

    def give_up(self) -> None:
        self.is_given_up = True
        if self.task is not None:
            self.task.cancel()


def outcome(started: Future[tuple[T | None, BaseException | None]], timeout: float | None = None) -> T:
    """Wait for what a portal started, and return or raise what it gave."""
    is_main = threading.current_thread() is threading.main_thread()
    result, error = _interruptibly(started) if is_main and timeout is None else started.result(timeout)
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _interruptibly(started: Future[T]) -> T:
    """Wait in slices: a signal that comes just before a wait does not end it, and on Windows none does."""
    while True:
        try:
            return started.result(SLICE_SECONDS)
        except TimeoutError:
            if started.done():
                return started.result()


async def _kept(work: Coroutine[Any, Any, T], run: _Run) -> tuple[T | None, BaseException | None]:
    """Keep what would end the loop of everybody from getting into it."""
    if run.is_given_up:
        work.close()
        return None, asyncio.CancelledError()
    run.task = asyncio.current_task()
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error
    finally:
        run.is_over = True


_portal: Portal | None = None
_starting = threading.Lock()


def portal() -> Portal:
    """Return this process's portal."""
    global _portal
    found = _portal
    if found is None or found.process != os.getpid():
        with _starting:
            if _portal is None or _portal.process != os.getpid():
                _portal = Portal()
            found = _portal
    return found


def existing_portal() -> Portal | None:
    """Return this process's portal if there is one already."""
    return _portal if _portal is not None and _portal.process == os.getpid() else None


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return what it gives, from a thread that has no loop of its own to block.

    Raises:
        DragomanError: called where a loop runs, which it would block; await the asynchronous twin there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return portal().run(work)
    work.close()
    raise DragomanError("A blocking call was made inside a running event loop; await its asynchronous twin there")


def _forget_lock() -> None:
    global _starting
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
