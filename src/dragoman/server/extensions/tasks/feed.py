"""`TaskFeed`: notifies the clients of this process of the changes of their tasks.

A client of 2026-07-28 subscribes to tasks. The first notification comes at once, because the task may have changed
before the client subscribed. The watch ends with the task.

A client of 2025-11-25 is notified of the status and the progress of the tasks of its session, without being asked. The
watch begins with the task, with `tasks/result`, and with each answer. It ends when the task ends or waits for an
answer, so that a waiting task costs nothing. The questions of a task are not sent here: they belong to `tasks/result`,
which a client calls when the status is `input_required`. If the tool has `scopes` or `visible`, the notifications are
sent only on the stream of the request that began the watch, because its caller was checked.

The feed watches the task in the store, whichever process changes it.

Rejected: a notification by the process that changes a task. It would be lost with that process, and a process that only
runs tasks has no clients and no bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import StoreUnavailable
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.official.tasks import STATUS_CHANGED, TASK_CHANGED, related
from dragoman.runtime.tasks import cancel_and_wait, keep_until_done
from dragoman.server.extensions.tasks.book import TaskBook
from dragoman.server.extensions.tasks.stored import TaskEntry
from dragoman.server.request.context import Context

if TYPE_CHECKING:
    from dragoman.server.server import Server

MAX_WATCHED = 10_000
"""How many tasks one process watches."""
AWAY_SECONDS = 1.0
"""How long a watch waits for a store that cannot be reached."""
Notify = Callable[[TaskEntry], bool]
"""Notifies of a change, and tells whether the watch ends."""


class TaskFeed:
    """The tasks that the clients of this process and loop are notified of."""

    def __init__(self, server: Server, find_book: Callable[[], TaskBook]) -> None:
        self._server = server
        self._find_book = find_book
        self._watched: dict[Hashable, Notify] = {}
        self._watching: set[asyncio.Task[None]] = set()

    def watch(self, ids: Iterable[str]) -> list[str]:
        """Watch tasks for subscribers, and return the ids of those that this process has room for."""
        return [id for id in ids if self._start(id, id, self._notify_subscribers)]

    def follow(self, ctx: Context, entry: TaskEntry) -> None:
        """Watch a task for the session of a request (2025-11-25), until the task ends or waits for an answer."""
        session = id(ctx.client)  # one object for all requests of a session, which the watch keeps
        self._start((session, entry.id), entry.id, _SessionNotifier(ctx, entry).notify)

    def _start(self, key: Hashable, id: str, notify: Notify) -> bool:
        if key not in self._watched and len(self._watched) < MAX_WATCHED:
            self._watched[key] = notify
            keep_until_done(asyncio.create_task(self._watch(key, id, notify)), self._watching)
        return key in self._watched

    async def close(self) -> None:
        """Watch nothing more."""
        for watching in list(self._watching):
            await cancel_and_wait(watching)

    async def _watch(self, key: Hashable, id: str, notify: Notify) -> None:
        try:
            while True:
                try:
                    return await self._notify_changes(key, id, notify)
                except StoreUnavailable:
                    await asyncio.sleep(AWAY_SECONDS)
        finally:
            self._end(key, notify)

    def _end(self, key: Hashable, notify: Notify) -> None:
        if self._watched.get(key) is notify:
            del self._watched[key]

    async def _notify_changes(self, key: Hashable, id: str, notify: Notify) -> None:
        """Notify of each change until the watch ends or the task has expired."""
        book = self._find_book()
        with suppress(TimeoutError):
            async with aclosing(book.watch(id)) as changes, asyncio.timeout(None) as expiry:
                async for _ in changes:
                    record = await book.tasks.get(id)
                    entry = None if record is None else TaskEntry.read(record)
                    if entry is None or notify(entry):
                        self._end(key, notify)  # at once, because the next watch may begin while this one is closed
                        return
                    expiry.reschedule(await book.expiry(entry.record))

    def _notify_subscribers(self, entry: TaskEntry) -> bool:
        params = msgspec.json.decode(encode(entry.detailed()))
        self._server.notify(TASK_CHANGED, entry.id, params, everywhere=False)
        return entry.task.is_terminal


class _SessionNotifier:
    """Notifies one session of the status and the progress of a task."""

    def __init__(self, ctx: Context, entry: TaskEntry) -> None:
        self._ctx = ctx
        self._known = entry.task.status, entry.task.message
        self._progress = entry.task.progress

    def notify(self, entry: TaskEntry) -> bool:
        """Send what is new, and tell whether nothing is to come before the next answer."""
        task = entry.task
        channel = self._ctx._call.channel
        # Any token of the principal may open the standalone stream, so only the stream of the request carries this.
        send = channel.notify if task.scopes or task.has_visibility else channel.notify_session
        if task.progress is not None and task.progress_token is not None and task.progress != self._progress:
            self._progress = now = task.progress
            # MUST (2025-11-25): a message that belongs to a task names it; its status notification does so by itself.
            meta = Raw(encode(related(entry.id)))
            shown = now.progress, now.total, now.message
            send("notifications/progress", types.ProgressNotificationParams(task.progress_token, *shown, meta=meta))
        if (task.status, task.message) != self._known:
            self._known = task.status, task.message
            send(STATUS_CHANGED, entry.plain())
        return task.is_terminal or task.status == "input_required"
