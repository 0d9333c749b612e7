"""What the server tells a client without being asked, given to the author's functions one after the other.

A function that raises is reported and harms nothing. A plain function of an asynchronous client is called in the loop;
that of a blocking client in a thread, where it may call the client.

A request returns after what was told before its answer: it puts a mark behind what is due, and waits until the mark is
reached, but no longer than its own time-out. A request that is made by one of these functions does not wait, since it
would wait for itself.

A server may tell more than the functions can take. At most 10,000 calls are due, with at most 8 MiB of messages; beyond
that the oldest are dropped. Reading never waits for the functions, since one of them may itself wait for an answer of
the server. A change that is due already is not told again: whoever is told looks at the state of that moment. Functions
that are called in the loop let others have their turn every few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any

from msgspec import Struct

from dragoman import types
from dragoman.config import is_async
from dragoman.runtime.offload import offload

MOST_WAITING = 10_000
WAITING_BYTES = 8 * 1024 * 1024
TURN_SECONDS = 0.005
CLOSE_SECONDS = 2.0
_logger = logging.getLogger("dragoman.client")
_server_logger = logging.getLogger("dragoman.client.server")

LEVELS: dict[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


_inside: ContextVar[tuple[Deliveries, ...]] = ContextVar("the deliveries that the code runs inside of", default=())
"""Also seen in the threads that an author's function runs in, and in what it asks of a blocking client."""


class LogMessage(Struct, frozen=True):
    """A log message of a server."""

    level: types.LoggingLevel
    data: Any
    logger: str | None = None


class Notification(Struct, frozen=True):
    """Any notification of a server: its method, and its parameters as they came."""

    method: str
    params: types.Json


def log_here(message: LogMessage) -> None:
    """Pass a server's log message on to the logger `dragoman.client.server`."""
    _server_logger.log(LEVELS[message.level], "%s%s", f"{message.logger}: " if message.logger else "", message.data)


class _Due(Struct, eq=False):
    """A call of one of the author's functions."""

    function: Callable[..., Any]
    given: tuple[Any, ...]
    size: int
    """How many bytes of a message it keeps."""
    change: tuple[int, str] | None = None
    """Whom it tells of a change, and of which."""


class Deliveries:
    """The calls of the author's functions that are due, in order."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.threads = False
        """Whether plain functions are called in threads."""
        self._most = most
        self._due: deque[_Due | asyncio.Future[None]] = deque()
        self._size = 0
        self._changes: set[tuple[int, str]] = set()
        """The changes that are due."""
        self.delivering: asyncio.Task[None] | None = None
        """Who delivers; None when all is delivered."""
        self._dropped = 0

    def put(self, function: Callable[..., Any], *given: Any, size: int = 0) -> None:
        """Let a function be called after those that are due; `size` is that of the message that it is told."""
        self._put(_Due(function, given, size))

    def put_change(self, function: Callable[[str], Any], what: str) -> None:
        """Let a function be told what has changed, unless it is due to be told so."""
        change = id(function), what
        if change not in self._changes:
            self._changes.add(change)
            self._put(_Due(function, (what,), len(what), change))

    def _put(self, due: _Due) -> None:
        self._due.append(due)
        self._size += due.size
        while len(self._due) > self._most or (self._size > WAITING_BYTES and len(self._due) > 1):
            self._drop()
        if self.delivering is None or self.delivering.done():
            self.delivering = asyncio.get_running_loop().create_task(self._deliver())

    def _next(self) -> _Due | None:
        """Take out what is due first; None for a mark."""
        due = self._due.popleft()
        if isinstance(due, asyncio.Future):
            _reach(due)
            return None
        self._size -= due.size
        if due.change is not None:
            self._changes.discard(due.change)
        return due

    def _drop(self) -> None:
        if self._next() is None:
            return
        if not self._dropped:
            _logger.warning("More notifications wait for their handlers than are kept; the oldest are dropped")
        self._dropped += 1

    async def _deliver(self) -> None:
        _inside.set((*_inside.get(), self))
        began = time.monotonic()
        while self._due:
            due = self._next()
            if due is None:
                continue
            try:
                await self._call(due.function, due.given)
            except BaseException as error:
                if not self._survives(error):
                    raise
                _logger.exception("A handler of notifications failed")
            if time.monotonic() - began > TURN_SECONDS:
                await asyncio.sleep(0)
                began = time.monotonic()
        self._dropped = 0
        self.delivering = None

    def _survives(self, error: BaseException) -> bool:
        """Tell whether those that are due are delivered after such an error."""
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            return task is not None and not task.cancelling()
        # The loop of blocking clients is everybody's: who wants to exit does so in a thread of theirs.
        return isinstance(error, Exception) or self.threads

    async def _call(self, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
        in_thread = self.threads and not is_async(function)
        result = await offload(function, *given) if in_thread else function(*given)
        if isawaitable(result):
            await result

    @property
    def is_idle(self) -> bool:
        """Whether there is nobody to wait for."""
        return self.delivering is None or self.delivering.done() or self in _inside.get()

    async def settled(self, seconds: float | None = None) -> None:
        """Wait until everything that is due now was delivered, or for some time, unless it is a delivery that waits."""
        if not self.is_idle:
            mark = asyncio.get_running_loop().create_future()
            self._due.append(mark)
            await asyncio.wait([mark], timeout=seconds)

    async def close(self) -> None:
        """Deliver no more; a delivery that closes goes on to its own end."""
        waiting, self._due = self._due, deque()
        self._size = 0
        self._changes.clear()
        for due in waiting:
            if isinstance(due, asyncio.Future):
                _reach(due)
        delivering = self.delivering
        if delivering is not None and not self.is_idle:
            delivering.cancel()
            await asyncio.wait([delivering], timeout=CLOSE_SECONDS)


def _reach(mark: asyncio.Future[None]) -> None:
    if not mark.done():
        mark.set_result(None)
