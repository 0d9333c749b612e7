"""What keeps a client connected: one connection at a time, made when it is needed and made anew when it is lost.

However many requests find the connection gone, one attempt is made for all of them: a task that every waiter waits for
and none of them can cancel. The first connection is tried once; one that was lost is tried again a few times, with
growing and scattered pauses. A request is repeated only when the server cannot have served it, or when serving it twice
does no harm; never after a time-out.

A lost connection is closed before there is a new one, for a transport may be opened again. Over HTTP requests that are
under way may still be answered although the session has ended: there the old connection is closed when they are done.

    new --connect--> connecting --succeed--> ready --lose--> lost --connect--> connecting
                     connecting --fail-----> failed --connect--> connecting

From every state `stop` leads to `stopped`, where only `restart` leads on, to `new`; `abandon` leads to `new` from every
other state. An attempt may still succeed while the client is being stopped.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from dragoman.client.connect.connection import ServerConnection, broken
from dragoman.errors import AuthError, ConnectError, HttpError, SessionExpired, Timeout, TransportError
from dragoman.protocol.states import Transitions
from dragoman.runtime.backoff import backoff

Status = Literal["new", "connecting", "ready", "lost", "failed", "stopped"]

Step = Literal["connect", "succeed", "fail", "lose", "stop", "restart", "abandon"]
RECONNECTION: Transitions[Status, Step] = Transitions(
    {
        "new": {"connect": "connecting", "stop": "stopped", "abandon": "new"},
        "connecting": {"succeed": "ready", "fail": "failed", "stop": "stopped", "abandon": "new"},
        # `connect` where its connection was closed, and nobody lost it.
        "ready": {"lose": "lost", "connect": "connecting", "stop": "stopped", "abandon": "new"},
        "lost": {"connect": "connecting", "stop": "stopped", "abandon": "new"},
        "failed": {"connect": "connecting", "stop": "stopped", "abandon": "new"},
        "stopped": {"restart": "new", "succeed": "stopped", "stop": "stopped", "abandon": "stopped"},
    }
)

MOST_ATTEMPTS = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
MOST_REPETITIONS = 2
_logger = logging.getLogger("dragoman.client")


class Failures(Struct):
    """How often one request has failed."""

    unsent: int = 0
    """The server has not served it for sure."""
    lost: int = 0
    """It may have."""


class Connections:
    """The one connection of a client.

    `connect` makes a connection; `welcome` is awaited with each new one before it is used, and told whether it replaces
    one that was lost.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[ServerConnection]],
        welcome: Callable[[ServerConnection, bool], Awaitable[None]],
    ) -> None:
        self.status: Status = "new"
        self.patience: float | None = None
        """Seconds that a request waits for a connection, which is made on in the background; None for its end."""
        self._connect = connect
        self._welcome = welcome
        self.latest: ServerConnection | None = None
        """The connection that was made last, which may be over."""
        self._connecting: asyncio.Task[ServerConnection] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._had_one = False

    @property
    def current(self) -> ServerConnection | None:
        """The connection, if it lives."""
        connection = self.latest
        return connection if connection is not None and connection.is_alive else None

    async def connection(self, *, is_patient: bool = False) -> ServerConnection:
        """Return the connection, made now if there is none; who is patient waits for it to its end.

        Raises:
            ConnectError: the client was stopped, or the server cannot be reached.
            Timeout: there is none yet.
            TransportError: it does not answer.
            RpcError: it refuses.
        """
        current = self.current
        if current is not None:
            return current
        if self.status == "stopped":
            raise ConnectError("The client was stopped; start() it again")
        connecting = self._connecting
        if connecting is None:
            connecting = self._connecting = asyncio.get_running_loop().create_task(self._reconnect())
            connecting.add_done_callback(self._connected)
        if self.patience is not None and not is_patient:
            await asyncio.wait([connecting], timeout=self.patience)
            if not connecting.done():
                raise Timeout(f"There is no connection after {self.patience:g} seconds; the client goes on connecting")
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if connecting.cancelled() and waiter is not None and not waiter.cancelling():
                raise ConnectError("The client was stopped while it connected") from None
            raise

    def _connected(self, task: asyncio.Task[ServerConnection]) -> None:
        if self._connecting is task:
            self._connecting = None
        if not task.cancelled():
            task.exception()

    async def _reconnect(self) -> ServerConnection:
        self.status = RECONNECTION[self.status, "connect"]
        try:
            if self.latest is not None:
                await self._part(self.latest)
                self.latest = None
            connection = await self._attempt(MOST_ATTEMPTS if self._had_one else 1)
        except BaseException:
            if self.status == "connecting":  # neither stopped nor abandoned meanwhile
                self.status = RECONNECTION[self.status, "fail"]
            raise
        self.latest = connection
        self._had_one = True
        self.status = RECONNECTION[self.status, "succeed"]
        return connection

    async def _part(self, lost: ServerConnection) -> None:
        if not lost.link.is_http:
            await lost.close()
            return
        task = asyncio.get_running_loop().create_task(_retire(lost))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _attempt(self, most: int) -> ServerConnection:
        for attempt in range(1, most + 1):
            try:
                return await self._connect_once()
            except (AuthError, Timeout):
                raise
            except TransportError as error:
                if attempt == most or (isinstance(error, HttpError) and error.status < 500):
                    raise
                _logger.info("The server cannot be reached (%s); attempt %d of %d follows", error, attempt + 1, most)
            await pause(attempt)
        raise AssertionError("an attempt returns or raises")

    async def _connect_once(self) -> ServerConnection:
        connection = await self._connect()
        try:
            await self._welcome(connection, self._had_one)
        except BaseException:
            await connection.close()
            raise
        if connection.error is not None:
            await connection.close()
            raise broken(connection.error)
        return connection

    async def may_repeat(
        self, error: TransportError, connection: ServerConnection, failures: Failures, *, is_safe: bool
    ) -> bool:
        """Tell whether a request that failed is to be made again, after a pause if it would fail at once.

        `is_safe` says that it may be served twice.

        Raises:
            TransportError: it may have been served, and is not to be served twice.
        """
        if isinstance(error, Timeout | AuthError) or self.status == "stopped":
            return False
        if isinstance(error, ConnectError):
            failures.unsent += 1
            may_repeat = failures.unsent < MOST_ATTEMPTS
        else:
            failures.lost += 1
            may_repeat = failures.lost <= MOST_REPETITIONS
            if may_repeat and not isinstance(error, SessionExpired) and not (is_safe and _may_pass(error)):
                raise _doubtful(error) from error.__cause__
        if may_repeat and connection.is_alive:
            await pause(failures.unsent + failures.lost)
        return may_repeat

    def lost(self, connection: ServerConnection) -> bool:
        """Note that a connection has ended by itself; return whether it was the one in use."""
        if connection is not self.latest or self.status != "ready":
            return False
        self.status = RECONNECTION[self.status, "lose"]
        return True

    async def stop(self) -> None:
        """End the connection, or the attempt to make one; return when it has ended, whoever else ends it."""
        self.status = RECONNECTION[self.status, "stop"]
        working = {task for task in (self._connecting, *self._retiring) if task is not None}
        working.discard(asyncio.current_task())
        for task in working:
            task.cancel()
        if working:
            await asyncio.wait(working)
            self.status = RECONNECTION[self.status, "stop"]
        connection = self.latest
        if connection is not None:
            await connection.close()
            if self.latest is connection:
                self.latest = None

    def abandon(self) -> None:
        """Forget a connection whose event loop is gone."""
        self.latest = self._connecting = None
        self._retiring.clear()
        self._had_one = False
        self.status = RECONNECTION[self.status, "abandon"]

    def restart(self) -> None:
        """Let a stopped client be started again."""
        if self.status == "stopped":
            self.status, self._had_one = RECONNECTION[self.status, "restart"], False


async def pause(attempt: int, longest: float = LONGEST_PAUSE) -> None:
    """Wait before another attempt: longer each time, and scattered."""
    await asyncio.sleep(backoff(attempt, FIRST_PAUSE, longest))


async def _retire(lost: ServerConnection) -> None:
    try:
        await lost.drained()
    finally:
        await lost.close()


def _may_pass(error: TransportError) -> bool:
    """Tell whether the same request may succeed soon."""
    return not isinstance(error, HttpError) or error.status in (500, 502, 503, 504)


def _doubtful(error: TransportError) -> TransportError:
    """Say that nobody knows whether the request was served, unless the server said what it did."""
    if isinstance(error, HttpError):
        return error
    doubtful = copy.copy(error)
    doubtful.args = (f"The request may have been served, and was not repeated: {error}", *error.args[1:])
    return doubtful
