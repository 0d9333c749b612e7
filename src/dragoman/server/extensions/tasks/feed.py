"""`TaskFeed`: notifies the clients of this process that subscribed to tasks (2026-07-28).

Each process that has such a client watches the task in the store, whichever process changes it. The first notification
comes at once, because the task may have changed before the client subscribed. A watch ends with its task.

Rejected: a notification by the process that changes a task. It would be lost with that process, and a process that only
runs tasks has no clients and no bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import StoreUnavailable
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.official.tasks import TASK_CHANGED
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.server.extensions.tasks.book import TaskBook
from dragoman.server.extensions.tasks.stored import TaskEntry

if TYPE_CHECKING:
    from dragoman.server.server import Server

MAX_WATCHED = 10_000
"""How many tasks one process watches."""
AWAY_SECONDS = 1.0


class TaskFeed:
    """The tasks that clients of this process and loop subscribed to."""

    def __init__(self, server: Server, find_book: Callable[[], TaskBook]) -> None:
        self._server = server
        self._find_book = find_book
        self._watching: dict[str, asyncio.Task[None]] = {}

    def watch(self, ids: Iterable[str]) -> list[str]:
        """Watch tasks, and return the ids of those that this process has room for."""
        accepted = []
        for id in ids:
            if id not in self._watching and len(self._watching) < MAX_WATCHED:
                self._watching[id] = asyncio.create_task(self._watch(id))
            if id in self._watching:
                accepted.append(id)
        return accepted

    async def close(self) -> None:
        """Watch nothing more."""
        for watching in list(self._watching.values()):
            await cancel_and_wait(watching)

    async def _watch(self, id: str) -> None:
        try:
            while True:
                try:
                    return await self._notify_changes(id)
                except StoreUnavailable:
                    await asyncio.sleep(AWAY_SECONDS)
        finally:
            del self._watching[id]

    async def _notify_changes(self, id: str) -> None:
        """Notify of each change until the task has ended or expired."""
        book = self._find_book()
        with suppress(TimeoutError):
            async with aclosing(book.watch(id)) as changes, asyncio.timeout(None) as expiry:
                async for _ in changes:
                    record = await book.tasks.get(id)
                    entry = None if record is None else TaskEntry.read(record)
                    if entry is not None:
                        self._notify(entry)
                    if entry is None or entry.task.is_terminal:
                        return
                    expiry.reschedule(await book.expiry(entry.record))

    def _notify(self, entry: TaskEntry) -> None:
        params = msgspec.json.decode(encode(entry.detailed()))
        self._server.notify(TASK_CHANGED, entry.id, params, everywhere=False)
