"""The portal: one event loop in a daemon thread, in which blocking callers run coroutines.

All callers share the loop, so that a connection stays on one loop even if many threads call. The portal starts at its
first use. A forked child starts a new portal. A daemon thread never delays the exit. Objects in `kept` are stopped at
the exit.

Rejected: the loop of uvloop. A forked child that exits would close the connections of its parent.

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
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import FrameType
from typing import Any, Generic, TypeVar

from dragoman.errors import Cancelled, DragomanError

T = TypeVar("T")
SLICE_SECONDS = 1.0
EXIT_SECONDS = 3.0
"""The seconds that objects in `kept` have to stop at the exit of the interpreter."""
_logger = logging.getLogger("dragoman.runtime")
_HAS_WARNED = threading.Event()
"""Set when the warning about a blocking call in an event loop was logged."""


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
                _logger.exception("A blocking call raised SystemExit or KeyboardInterrupt; only that call ended")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result; an interrupt of the caller cancels the coroutine.

        Raises:
            DragomanError: the caller is the portal's own thread, which would wait for itself.
            concurrent.futures.CancelledError: the coroutine was cancelled.
        """
        try:
            self.require_other_thread()
        except DragomanError:
            work.close()
            raise
        if not _HAS_WARNED.is_set():
            _warn_in_running_loop()
        call = _InterruptibleCall(work)
        try:
            return outcome(self.start(call.serve()))
        except BaseException:  # an interrupt may come anywhere above
            self.loop.call_soon_threadsafe(call.cancel)
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> Future[tuple[T | None, BaseException | None]]:
        """Run a coroutine in the loop without waiting; pass the future to `outcome`."""
        return asyncio.run_coroutine_threadsafe(_contained(work), self.loop)

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


def _warn_in_running_loop() -> None:
    """Log, once in the process, that a blocking call stops the event loop of its thread.

    A cell of a notebook may block: its loop has nothing else to do, and IPython runs the cell, not a coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        frame = frame.f_back
    if frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "IPython":
        return
    _HAS_WARNED.set()
    place = "" if frame is None else f" in {frame.f_code.co_name}() ({frame.f_code.co_filename}:{frame.f_lineno})"
    _logger.warning(
        "A blocking call%s stops the event loop until it ends, and everything else that the loop does: use the"
        " asynchronous twin, such as AsyncClient for Client, and await its methods",
        place,
    )


class _InterruptibleCall(Generic[T]):
    """A coroutine that a thread waits for. The loop alone changes it."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    async def serve(self) -> T:
        """Await the coroutine, unless its caller was interrupted before."""
        if self._is_cancelled:
            self._work.close()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._work

    def cancel(self) -> None:
        """Cancel the coroutine, if it has not ended."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()


WITHDRAWN = "The question was withdrawn"


class Interrupts:
    """The interrupts of blocking calls by the person at the terminal; they withdraw the questions to this person."""

    def __init__(self) -> None:
        self.count = 0
        self.callbacks: set[Callable[[], None]] = set()
        """Called at each interrupt, to withdraw questions that are being asked."""

    def require_none_since(self, count: int) -> None:
        """Check, before a question is asked, that no interrupt came since it arose, when `count` was noted.

        Raises:
            Cancelled: there was an interrupt.
        """
        if self.count != count:
            raise Cancelled(WITHDRAWN)

    def notify(self) -> None:
        """Note that the person interrupted a blocking call."""
        self.count += 1
        for callback in list(self.callbacks):
            callback()


INTERRUPTS = Interrupts()


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
        except KeyboardInterrupt:
            INTERRUPTS.notify()
            raise


async def _contained(work: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """Return a SystemExit or KeyboardInterrupt as a value, because raising it would stop the shared loop."""
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


_portal: Portal | None = None
_starting = threading.Lock()


def require_threads() -> None:
    """Refuse to work in a process in which greenlets replace threads: they share one thread, and so one event loop.

    Raises:
        DragomanError: gevent or eventlet has replaced threads.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    is_patched = gevent is not None and gevent.is_module_patched("threading")
    if is_patched or (eventlet is not None and eventlet.is_monkey_patched("thread")):
        name = "gevent" if is_patched else "eventlet"
        raise DragomanError(
            f"{name} has replaced Python's threads by greenlets, and dragoman needs threads for its event loop: use"
            " another kind of worker, such as `gunicorn -k gthread --threads 8` for server.wsgi(), or `gunicorn -k"
            " uvicorn_worker.UvicornWorker` for server.asgi()"
        )


def portal() -> Portal:
    """Return the portal of this process, and start it if there is none.

    Raises:
        DragomanError: gevent or eventlet has replaced threads.
    """
    global _portal
    found = _portal
    if found is None or found.process != os.getpid():
        require_threads()
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
        DragomanError: this thread runs a loop, which the call would block; await the asynchronous twin there. Or
            gevent or eventlet has replaced threads.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        work.close()
        raise DragomanError("A blocking call was made inside a running event loop; await its asynchronous twin there")
    try:
        current = portal()
    except DragomanError:
        work.close()
        raise
    return current.run(work)


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
