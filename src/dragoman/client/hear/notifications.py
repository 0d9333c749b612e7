"""What the server tells a client without being asked, given to the author's functions.

Each function has a lane: its calls are made one after the other, in the order in which things happened. No function
waits for another one. An async function is called in the loop. A plain function is called in a thread, where it may
block, and may call a blocking client; calls that are due together are made in one go. A function that raises is
reported and harms nothing.

A request returns after what was told before its answer. It puts a mark behind what is due in each lane, and waits
until the marks are reached, but only for a moment: what was answered in time is returned in time. A lane that did not
reach a mark within that moment is late, and no request waits for it until it has caught up. A request that is made by
one of these functions does not wait, since it would wait for itself.

A server may tell more than the functions can take. At most 10,000 calls are due, with at most 8 MiB of messages; beyond
that the oldest call of the longest lane is dropped. Reading never waits for the functions, since one of them may itself
wait for an answer of the server. A change that is due already is not told again: whoever is told looks at the state of
that moment. Functions that are called in the loop let others have their turn every few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from inspect import isawaitable, iscoroutine
from typing import Any

from msgspec import Struct

from dragoman import types
from dragoman.config import is_async
from dragoman.runtime.callables import invoke
from dragoman.runtime.offload import offload
from dragoman.runtime.tasks import is_being_cancelled

MOST_WAITING = 10_000
WAITING_BYTES = 8 * 1024 * 1024
MOMENT_SECONDS = 0.5
"""How long a request that was answered waits for the functions."""
MOST_AT_ONCE, AT_ONCE_BYTES = 100, 64 * 1024
"""How much is taken to a thread in one go; what was taken is not dropped any more."""
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


_inside: ContextVar[tuple[_Lane, ...]] = ContextVar("the lanes whose functions the code runs inside of", default=())
"""Also seen in the threads that an author's function runs in, and in what it asks of a blocking client."""


class LogMessage(Struct, frozen=True):
    """A log message of a server."""

    level: types.LoggingLevel
    data: Any
    logger: str | None = None


class ServerNotification(Struct, frozen=True):
    """Any notification of a server: its method, and its parameters as they came."""

    method: str
    params: types.Json


def log_here(message: LogMessage) -> None:
    """Pass a server's log message on to the logger `dragoman.client.server`."""
    _server_logger.log(LEVELS[message.level], "%s%s", f"{message.logger}: " if message.logger else "", message.data)


class _Due(Struct, eq=False):
    """A call of one of the author's functions."""

    given: tuple[Any, ...]
    size: int
    """How many bytes of a message it keeps."""
    change: tuple[int, str] | None = None
    """Whom it tells of a change, and of which."""


class _Lane:
    """The calls of one function that are due, in order, with marks between them."""

    def __init__(self, owner: Deliveries, function: Callable[..., Any]) -> None:
        self.owner = owner
        self.function = function
        self.runs_in_loop = function is log_here or is_async(function)
        self.due: deque[_Due | asyncio.Future[None]] = deque()
        self.size = 0
        self.changes: set[tuple[int, str]] = set()
        """The changes that are due."""
        self.is_late = False
        self.task: asyncio.Task[None] | None = None

    def put(self, due: _Due) -> None:
        """Let a call be due."""
        self.due.append(due)
        self.size += due.size
        self.owner.count += 1
        self.owner.size += due.size

    def take(self) -> _Due:
        """Take out the call that is due first; the marks before it are reached."""
        while isinstance(due := self.due.popleft(), asyncio.Future):
            _reach(due)
        self.size -= due.size
        self.owner.count -= 1
        self.owner.size -= due.size
        if due.change is not None:
            self.changes.discard(due.change)
        return due

    def has_call(self) -> bool:
        """Tell whether a call is due before the next mark."""
        return bool(self.due) and not isinstance(self.due[0], asyncio.Future)

    def reach_marks(self) -> None:
        """Let go those who wait for what was delivered."""
        while self.due and isinstance(mark := self.due[0], asyncio.Future):
            self.due.popleft()
            _reach(mark)

    def clear(self) -> None:
        """Have nothing due, and keep nobody waiting."""
        self.reach_marks()
        while self.due:
            self.take()
            self.reach_marks()


class _ThreadBatch:
    """Calls of a plain function that are made in a thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.calls: deque[tuple[Any, ...]] = deque()
        self._function = function
        self._promised: deque[Awaitable[Any]] = deque()
        self._is_given_up = False

    async def make(self) -> None:
        """Make the calls, up to one that returns something to be awaited, and await that."""
        await offload(self._make_each)
        if self._promised:
            await self._promised.popleft()

    def _make_each(self) -> None:
        while self.calls and not self._promised:
            try:
                given = self.calls.popleft()
            except IndexError:  # given up just now
                break
            try:
                result = self._function(*given)
            except (Exception, asyncio.CancelledError):
                _logger.exception("A handler of notifications failed")
            else:
                if isawaitable(result):
                    self._promised.append(result)
        if self._is_given_up:
            self._forget_promise()

    def give_up(self) -> None:
        """Make no further call; the one that runs in a thread cannot be ended."""
        self._is_given_up = True
        self.calls.clear()
        self._forget_promise()

    def _forget_promise(self) -> None:
        with suppress(IndexError):
            promised = self._promised.popleft()
            if iscoroutine(promised):
                promised.close()


class Deliveries:
    """The calls of the author's functions that are due."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.shares_loop = False
        """Whether the loop is that of all blocking clients, which no function may end."""
        self.lanes: dict[Hashable, _Lane] = {}
        """Of the functions that have calls due, or under way."""
        self.count = self.size = 0
        """How many calls are due, and how many bytes of messages they keep."""
        self._most = most
        self._has_warned = False

    def put(self, function: Callable[..., Any], *given: Any, size: int = 0) -> None:
        """Let a function be called after its calls that are due; `size` is that of the message that it is told."""
        self._put(self._lane(function), _Due(given, size))

    def put_change(self, function: Callable[[str], Any], what: str) -> None:
        """Let a function be told what has changed, unless it is due to be told so."""
        lane, change = self._lane(function), (id(function), what)
        if change not in lane.changes:
            lane.changes.add(change)
            self._put(lane, _Due((what,), len(what), change))

    def _lane(self, function: Callable[..., Any]) -> _Lane:
        key = _key(function)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = _Lane(self, function)
            lane.task = asyncio.get_running_loop().create_task(self._deliver(key, lane))
        return lane

    def _put(self, lane: _Lane, due: _Due) -> None:
        lane.put(due)
        while self.count > self._most:
            self._drop(max(self.lanes.values(), key=lambda lane: len(lane.due)))
        while self.size > WAITING_BYTES and self.count > 1:
            self._drop(max(self.lanes.values(), key=lambda lane: lane.size))

    def _drop(self, lane: _Lane) -> None:
        lane.take()
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("More notifications wait for their handlers than are kept; the oldest are dropped")

    async def _deliver(self, key: Hashable, lane: _Lane) -> None:
        _inside.set((*_inside.get(), lane))
        began = time.monotonic()
        try:
            while lane.due:
                await (self._call_in_loop(lane) if lane.runs_in_loop else self._call_in_thread(lane))
                lane.reach_marks()
                if time.monotonic() - began > TURN_SECONDS:
                    await asyncio.sleep(0)
                    began = time.monotonic()
        finally:
            lane.clear()
            if self.lanes.get(key) is lane:
                del self.lanes[key]
            self._has_warned = self._has_warned and bool(self.lanes)

    async def _call_in_loop(self, lane: _Lane) -> None:
        await self._made(invoke(lane.function, *lane.take().given, in_place=True))

    async def _call_in_thread(self, lane: _Lane) -> None:
        """Make the calls that are due before the next mark, or many of them."""
        batch, size = _ThreadBatch(lane.function), 0
        while lane.has_call() and len(batch.calls) < MOST_AT_ONCE and size < AT_ONCE_BYTES:
            due = lane.take()
            batch.calls.append(due.given)
            size += due.size
        try:
            while batch.calls:
                await self._made(batch.make())
        finally:
            batch.give_up()

    async def _made(self, call: Awaitable[None]) -> None:
        try:
            await call
        except BaseException as error:
            if not self._survives(error):
                raise
            _logger.exception("A handler of notifications failed")

    def _survives(self, error: BaseException) -> bool:
        """Tell whether those that are due are delivered after such an error."""
        if isinstance(error, asyncio.CancelledError):
            return not is_being_cancelled()
        # The loop of blocking clients is everybody's: who wants to exit does so in a thread of theirs.
        return isinstance(error, Exception) or self.shares_loop

    async def settled(self, seconds: float | None = None) -> None:
        """Wait until what is due now was delivered, but only for a moment, and unless it is a delivery that waits."""
        if any(lane.owner is self for lane in _inside.get()):
            return
        loop = asyncio.get_running_loop()
        marks = {loop.create_future(): lane for lane in self.lanes.values() if not lane.is_late}
        for mark, lane in marks.items():
            lane.due.append(mark)
        if not marks:
            return
        _, unreached = await asyncio.wait(
            marks, timeout=MOMENT_SECONDS if seconds is None else min(seconds, MOMENT_SECONDS)
        )
        for mark in unreached:
            marks[mark].is_late = True

    async def close(self) -> None:
        """Deliver no more; a delivery that closes goes on to its own end."""
        lanes, self.lanes = list(self.lanes.values()), {}
        delivering = []
        for lane in lanes:
            lane.clear()
            if lane not in _inside.get() and lane.task is not None:
                lane.task.cancel()
                delivering.append(lane.task)
        if delivering:
            await asyncio.wait(delivering, timeout=CLOSE_SECONDS)


def _key(function: Callable[..., Any]) -> Hashable:
    """Return what is the same for the same function, also for a method that was looked up twice."""
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function


def _reach(mark: asyncio.Future[None]) -> None:
    if not mark.done():
        mark.set_result(None)
