"""One event loop in a daemon thread, for callers that block.

Whatever is asynchronous runs there, so that what belongs to a loop stays with one loop however many threads call. It is
started when it is first needed, and anew in a child after fork. Being a daemon it never holds up the exit.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from dragoman.errors import DragomanError

T = TypeVar("T")


class Portal:
    """A loop in a thread, and the way in."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self.thread = threading.Thread(target=self._run, name="dragoman portal", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for what it gives."""
        future = asyncio.run_coroutine_threadsafe(_kept(work), self.loop)
        try:
            result, error = future.result()
        except BaseException:
            future.cancel()
            raise
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


async def _kept(work: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """Keep what would end the loop of everybody from getting into it."""
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


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
