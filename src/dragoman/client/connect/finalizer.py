"""What ends a client that nobody ended: when its loop ends, and when nobody refers to it any more.

A task waits in the loop for as long as there are connections. Whoever ends a loop properly, as `asyncio.run` does,
first cancels the tasks in it; this one then ends the connections, while the loop still runs. It refers to the inside of
the client and not to the client, so that a client which was dropped is collected, and the task is cancelled then.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from dragoman.client.session import ClientSession

T = TypeVar("T")
_waiting: set[asyncio.Task[None]] = set()


class Finalizer:
    """Ends what nobody ended."""

    def __init__(self, owner: Any) -> None:
        self._owner = weakref.ref(owner)
        self._session: ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._released: asyncio.Future[None] | None = None

    def watch(self, session: ClientSession) -> None:
        """Say what is to be ended."""
        self._session = session

    def guarded(self, make: Callable[[], T]) -> Callable[[], T]:
        """Return a maker of connections with which the wait for the end begins."""

        def made() -> T:
            self._begin()
            connecting = asyncio.current_task()
            if connecting is not None:
                connecting.add_done_callback(self._tried)
            return make()

        return made

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        owner = self._owner()
        if owner is None or self._session is None or (self._task is not None and self._task.get_loop() is loop):
            return
        self._released = loop.create_future()
        self._task = task = loop.create_task(_end_in_time(self._session, self._released))
        _waiting.add(task)
        task.add_done_callback(self._ended)
        weakref.finalize(owner, _cancel, loop, task, os.getpid()).atexit = False

    def _tried(self, _: asyncio.Task[Any]) -> None:
        """Wait for nothing where no connection came about."""
        if self._session is not None and self._session.connections.status == "failed":
            self._release()

    def _release(self) -> None:
        if self._released is not None and not self._released.done():
            self._released.set_result(None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        _waiting.discard(task)
        if self._task is task:
            self._task = None

    async def cancel(self) -> None:
        """Wait no more; called after the connections were ended."""
        task, self._task = self._task, None
        is_other = task is not asyncio.current_task()
        if task is not None and is_other and task.get_loop() is asyncio.get_running_loop():
            self._release()
            await asyncio.wait([task])


async def _end_in_time(session: ClientSession, released: asyncio.Future[None]) -> None:
    try:
        await released
    except asyncio.CancelledError:
        if session.connections.status != "stopped":
            await _end(session)
        raise


async def _end(session: ClientSession) -> None:
    connection = session.connections.current
    try:
        await session.stop()
    except asyncio.CancelledError:
        # A client was dropped just before its loop ended, which cancels this task again.
        if connection is not None:
            await connection.close()
        raise
    finally:
        session.connections.restart()


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], process: int) -> None:
    if process == os.getpid():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)
