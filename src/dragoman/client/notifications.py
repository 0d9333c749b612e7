"""What the server tells a client without being asked, given to the author's functions one after the other.

A function that raises is reported and harms nothing. A plain function of an asynchronous client is called in the loop;
that of a blocking client in a thread, where it may call the client.
"""

from __future__ import annotations

import asyncio
import logging
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


_in_delivery: ContextVar[bool] = ContextVar("inside an author's function that is told of something", default=False)
"""Also seen in the threads that such a function runs in, and in what it asks of a blocking client."""


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


class Deliveries:
    """The calls of the author's functions that are due, in order."""

    def __init__(self) -> None:
        self.threads = False
        """Whether plain functions are called in threads."""
        self._due: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque(maxlen=MOST_WAITING)
        self._delivering: asyncio.Task[None] | None = None

    def put(self, function: Callable[..., Any], *given: Any) -> None:
        """Let a function be called after those that are due."""
        self._due.append((function, given))
        if self._delivering is None:
            self._delivering = asyncio.get_running_loop().create_task(self._deliver())

    async def _deliver(self) -> None:
        _in_delivery.set(True)
        try:
            while self._due:
                function, given = self._due.popleft()
                try:
                    await self._call(function, given)
                except Exception:
                    _logger.exception("A handler of notifications failed")
        finally:
            self._delivering = None

    async def _call(self, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
        in_thread = self.threads and not is_async(function)
        result = await offload(function, *given) if in_thread else function(*given)
        if isawaitable(result):
            await result

    async def settled(self) -> None:
        """Wait until everything that is due was delivered, unless it is a delivery that waits."""
        delivering = self._delivering
        if delivering is not None and not _in_delivery.get():
            await asyncio.shield(delivering)

    async def close(self) -> None:
        """Deliver no more."""
        self._due.clear()
        delivering = self._delivering
        if delivering is not None and not _in_delivery.get():
            delivering.cancel()
            await asyncio.wait([delivering])
