"""Deliveries: calls of the author's callbacks with notifications of the server.

Each function has a queue. Its calls are made one after the other, in the order of the notifications. No function waits
for another one. An async function is called in the event loop. A plain function is called in a thread, where it may
block and may call a blocking client. An exception of a function is logged and stops nothing.

A request returns after the notifications that came before its answer are delivered. It puts a marker into each queue
and waits until the queues have reached their markers, but only for half a second, so that a slow callback cannot delay
an answer for long. A queue that does not reach a marker in that time is late. No request waits for a late queue. A
request that a callback makes does not wait, because it would wait for itself.

A server may send more notifications than the callbacks can handle. At most 10,000 calls wait, with at most 8 MiB of
messages; beyond that, the oldest call of the longest queue is dropped. Reading from the server never waits for
callbacks, because a callback may itself wait for an answer of the server. A change is not queued twice, because the
waiting call of the callback will find the latest state. Callbacks in the event loop let other tasks run every
few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from dragoman.config import is_async
from dragoman.runtime.callables import invoke
from dragoman.runtime.tasks import is_being_cancelled

MAX_WAITING, MAX_WAITING_BYTES = 10_000, 8 * 1024 * 1024
DELIVERY_SECONDS = 0.5
"""How long an answered request waits for callbacks."""
YIELD_SECONDS = 0.005
CLOSE_SECONDS = 2.0
_logger = logging.getLogger("dragoman.client")
_delivering: ContextVar[tuple[_Queue, ...]] = ContextVar("delivering", default=())
"""The queues whose callbacks run in this context; threads and requests of a blocking client inherit it."""


class _Call(Struct, eq=False):
    args: tuple[Any, ...]
    size: int
    """Bytes of the message that the arguments keep in memory."""
    change: tuple[int, str] | None = None
    """The id of the function and the change, if the call reports a change."""


class _Queue:
    """The waiting calls of one function, in order, with markers between them."""

    def __init__(self, owner: Deliveries, function: Callable[..., Any]) -> None:
        self.owner = owner
        self.function = function
        self.calls: deque[_Call | asyncio.Future[None]] = deque()
        self.size = 0
        self.changes: set[tuple[int, str]] = set()
        """The changes that wait."""
        self.is_late = False
        self.task: asyncio.Task[None] | None = None

    def put(self, call: _Call) -> None:
        self.calls.append(call)
        self.size += call.size
        self.owner.count += 1
        self.owner.size += call.size

    def pop(self) -> _Call:
        """Remove the oldest call, and the markers before it."""
        self.pass_markers()
        call = self.calls.popleft()
        assert isinstance(call, _Call)
        self.size -= call.size
        self.owner.count -= 1
        self.owner.size -= call.size
        if call.change is not None:
            self.changes.discard(call.change)
        return call

    def pass_markers(self) -> None:
        while self.calls and isinstance(marker := self.calls[0], asyncio.Future):
            self.calls.popleft()
            if not marker.done():
                marker.set_result(None)

    def clear(self) -> None:
        self.pass_markers()
        while self.calls:
            self.pop()
            self.pass_markers()


class Deliveries:
    """The waiting calls of all callbacks of one client."""

    def __init__(self, *, shares_loop: bool = False, max_waiting: int = MAX_WAITING) -> None:
        self.shares_loop = shares_loop
        """Whether the event loop is the one of all blocking clients, which a callback's SystemExit must not end."""
        self.queues: dict[Hashable, _Queue] = {}
        """The queues of the functions whose calls wait or run."""
        self.count = self.size = 0
        """How many calls wait, and how many bytes of messages they keep."""
        self._max_waiting = max_waiting
        self._has_warned = False

    def put(self, function: Callable[..., Any], *args: Any, size: int = 0) -> None:
        """Call a function after its waiting calls; `size` is the bytes of the message that the arguments keep."""
        self._put(self._queue(function), _Call(args, size))

    def put_change(self, function: Callable[[str], Any], what: str) -> None:
        """Call a function with a change, unless the same call waits already."""
        queue, change = self._queue(function), (id(function), what)
        if change not in queue.changes:
            queue.changes.add(change)
            self._put(queue, _Call((what,), len(what), change))

    def _queue(self, function: Callable[..., Any]) -> _Queue:
        try:
            queue = self.queues.get(function)
            key: Hashable = function
        except TypeError:  # the function cannot be hashed
            key = id(function)
            queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = _Queue(self, function)
            queue.task = asyncio.get_running_loop().create_task(self._deliver(key, queue))
        return queue

    def _put(self, queue: _Queue, call: _Call) -> None:
        queue.put(call)
        while self.count > self._max_waiting:
            self._drop(max(self.queues.values(), key=lambda queue: len(queue.calls)))
        while self.size > MAX_WAITING_BYTES and self.count > 1:
            self._drop(max(self.queues.values(), key=lambda queue: queue.size))

    def _drop(self, queue: _Queue) -> None:
        queue.pop()
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("Too many notifications wait for their handlers; the oldest are dropped")

    async def _deliver(self, key: Hashable, queue: _Queue) -> None:
        _delivering.set((*_delivering.get(), queue))
        in_loop = is_async(queue.function)
        began = time.monotonic()
        try:
            while True:
                queue.pass_markers()  # a request may have added its marker while this task let others run
                if not queue.calls:
                    break
                await self._run(invoke(queue.function, *queue.pop().args, in_place=in_loop))
                if time.monotonic() - began > YIELD_SECONDS:
                    await asyncio.sleep(0)
                    began = time.monotonic()
        finally:
            queue.clear()
            if self.queues.get(key) is queue:
                del self.queues[key]
            self._has_warned = self._has_warned and bool(self.queues)

    async def _run(self, call: Awaitable[None]) -> None:
        try:
            await call
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            _logger.exception("A handler of notifications failed")
        except BaseException as error:
            # All blocking clients share one loop, so a SystemExit of a callback must not end it.
            if not isinstance(error, Exception) and not self.shares_loop:
                raise
            _logger.exception("A handler of notifications failed")

    async def delivered(self, timeout: float | None = None) -> None:
        """Wait until the calls that wait now are made, for at most half a second; in a callback, return at once."""
        if any(queue.owner is self for queue in _delivering.get()):
            return
        loop = asyncio.get_running_loop()
        markers = {loop.create_future(): queue for queue in self.queues.values() if not queue.is_late}
        for marker, queue in markers.items():
            queue.calls.append(marker)
        if not markers:
            return
        seconds = DELIVERY_SECONDS if timeout is None else min(timeout, DELIVERY_SECONDS)
        _, unreached = await asyncio.wait(markers, timeout=seconds)
        for marker in unreached:
            markers[marker].is_late = True

    async def close(self) -> None:
        """Make no further calls; a callback that closes the client runs to its end."""
        queues, self.queues = list(self.queues.values()), {}
        tasks = []
        for queue in queues:
            queue.clear()
            if queue not in _delivering.get() and queue.task is not None:
                queue.task.cancel()
                tasks.append(queue.task)
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
