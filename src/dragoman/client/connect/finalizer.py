"""The finalizer of a client: closes its connection when the event loop ends, or when the client is garbage-collected.

A task waits in the event loop while there is a connection. `asyncio.run` cancels the tasks of a loop before it closes
the loop; the cancelled task closes the connection while the loop still runs. The task refers to the client's session,
not to the client. So an unreferenced client can be collected, and `weakref.finalize` then cancels the task.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.client.session import ClientSession

_waiting: set[asyncio.Task[None]] = set()


class Finalizer:
    """Stops the session of a client on which `stop` was not called."""

    def __init__(self, client: Any, session: ClientSession) -> None:
        self._client = weakref.ref(client)
        self._session = session
        self._task: asyncio.Task[None] | None = None
        self._released: asyncio.Future[None] | None = None
        session.connections.on_connecting = self._begin

    def _begin(self, connecting: asyncio.Task[Any]) -> None:
        connecting.add_done_callback(self._connected)
        loop = asyncio.get_running_loop()
        client = self._client()
        if client is None or (self._task is not None and self._task.get_loop() is loop):
            return
        self._released = loop.create_future()
        self._task = task = loop.create_task(_stop_when_cancelled(self._session, self._released))
        _waiting.add(task)
        task.add_done_callback(self._ended)
        weakref.finalize(client, _cancel, loop, task, os.getpid()).atexit = False

    def _connected(self, _: asyncio.Task[Any]) -> None:
        if self._session.connections.status == "failed":
            self._release()

    def _release(self) -> None:
        if self._released is not None and not self._released.done():
            self._released.set_result(None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        _waiting.discard(task)
        if self._task is task:
            self._task = None

    async def cancel(self) -> None:
        """End the task; called after the session was stopped."""
        task, self._task = self._task, None
        is_other = task is not asyncio.current_task()
        if task is not None and is_other and task.get_loop() is asyncio.get_running_loop():
            self._release()
            await asyncio.wait([task])


async def _stop_when_cancelled(session: ClientSession, released: asyncio.Future[None]) -> None:
    try:
        await released
    except asyncio.CancelledError:
        if session.connections.status != "stopped":
            await _stop(session)
        raise


async def _stop(session: ClientSession) -> None:
    connection = session.connections.current
    try:
        await session.stop()
    except asyncio.CancelledError:
        # The client was collected just before its loop ended, and the end of the loop cancels this task again.
        if connection is not None:
            await connection.close()
        raise
    finally:
        session.connections.restart()


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], process: int) -> None:
    if process == os.getpid():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)
