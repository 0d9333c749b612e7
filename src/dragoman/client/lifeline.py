"""What keeps a client connected: one connection at a time, made when it is needed and made anew when it is lost.

However many requests find the connection gone, one attempt is made for all of them: a task that every waiter waits for
and none of them can cancel. The first connection is tried once; one that was lost is tried again a few times, with
growing and scattered pauses. A request is repeated only when the server cannot have served it, or when serving it twice
does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from dragoman.client.connection import Connection
from dragoman.errors import AuthError, ConnectError, HttpError, SessionExpired, Timeout, TransportError

T = TypeVar("T")
Status = Literal["new", "connecting", "ready", "lost", "failed", "stopped"]

MOST_ATTEMPTS = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
MOST_REPETITIONS = 2
_logger = logging.getLogger("dragoman.client")


class Lifeline:
    """The one connection of a client.

    `connect` makes a connection; `welcome` is awaited with each new one before it is used, and told whether it replaces
    one that was lost.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        welcome: Callable[[Connection, bool], Awaitable[None]],
    ) -> None:
        self.status: Status = "new"
        self._connect = connect
        self._welcome = welcome
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._had_one = False

    @property
    def current(self) -> Connection | None:
        """The connection, if it lives."""
        connection = self._connection
        return connection if connection is not None and connection.is_alive else None

    async def connection(self) -> Connection:
        """Return the connection, made now if there is none.

        Raises:
            ConnectError: the client was stopped, or the server cannot be reached.
            TransportError: it does not answer.
            RpcError: it refuses.
        """
        current = self.current
        if current is not None:
            return current
        if self.status == "stopped":
            raise ConnectError("The client was stopped; start() it again")
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._reconnect())
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    def _connected(self, task: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()

    async def _reconnect(self) -> Connection:
        lost, self._connection = self._connection, None
        self.status = "connecting"
        try:
            if lost is not None:
                await lost.close()
            connection = await self._attempt(MOST_ATTEMPTS if self._had_one else 1)
            await self._welcome(connection, self._had_one)
        except BaseException:
            if self.status == "connecting":
                self.status = "failed"
            raise
        self._connection = connection
        self._had_one = True
        self.status = "ready"
        return connection

    async def _attempt(self, most: int) -> Connection:
        for attempt in range(1, most + 1):
            try:
                return await self._connect()
            except AuthError:
                raise
            except TransportError as error:
                if attempt == most or (isinstance(error, HttpError) and error.status < 500):
                    raise
                _logger.info("The server cannot be reached (%s); attempt %d of %d follows", error, attempt + 1, most)
            await pause(attempt)
        raise AssertionError("an attempt returns or raises")

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, is_safe: bool) -> T:
        """Do something with the connection, and do it again if it was lost and no harm is done.

        `is_safe` says that it may be done twice.

        Raises:
            TransportError: it was lost, and cannot be repeated, or was repeated in vain.
        """
        repetitions = 0
        while True:
            connection = await self.connection()
            try:
                return await work(connection)
            except (Timeout, AuthError):
                raise
            except TransportError as error:
                served_nothing = isinstance(error, ConnectError | SessionExpired)
                if self.status == "stopped" or repetitions >= MOST_REPETITIONS:
                    raise
                if not served_nothing and not (is_safe and _may_pass(error)):
                    raise _doubtful(error) from error
            repetitions += 1
            if connection.is_alive:
                await pause(repetitions)

    def lost(self, connection: Connection) -> None:
        """Note that a connection has ended by itself."""
        if connection is self._connection and self.status == "ready":
            self.status = "lost"

    async def stop(self) -> None:
        """End the connection, or the attempt to make one."""
        self.status = "stopped"
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait([connecting])
            if not connecting.cancelled() and connecting.exception() is None:
                self._connection = connecting.result()
        connection, self._connection = self._connection, None
        self.status = "stopped"
        if connection is not None:
            await connection.close()

    def restart(self) -> None:
        """Let a stopped client be started again."""
        if self.status == "stopped":
            self.status, self._had_one = "new", False


async def pause(attempt: int) -> None:
    """Wait before another attempt: longer each time, and scattered."""
    await asyncio.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1.5))  # noqa: S311


def _may_pass(error: TransportError) -> bool:
    """Tell whether the same request may succeed soon."""
    return not isinstance(error, HttpError) or error.status in (500, 502, 503, 504)


def _doubtful(error: TransportError) -> TransportError:
    """Say that nobody knows whether the request was served."""
    if isinstance(error, HttpError):
        return error
    error.args = (f"{error.args[0]}; the request may have been served, and was not repeated", *error.args[1:])
    return error
