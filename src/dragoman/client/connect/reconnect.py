"""Connections: makes the connection of a client when a request needs one, and replaces a lost connection.

All requests that find no connection wait for the same task, and cancelling a request does not cancel that task. The
first connection gets one attempt. The replacement of a lost connection gets up to six attempts, after pauses that grow
and are randomized. A request is repeated only if the server cannot have served it, or if it is repeatable; never after
a time-out.

A lost connection is closed before a new one is made, because both may use the same transport. Over HTTP, the server may
still answer pending requests although the session has ended, so there the old connection is closed after its last
pending request.

    new --connect--> connecting --succeed--> ready --lose--> lost --connect--> connecting
                     connecting --fail-----> failed --connect--> connecting

`stop` leads from every state to `stopped`, and only `restart` leads from `stopped` to another state, `new`. `abandon`
leads from every state but `stopped` to `new`. An attempt that succeeds while the client is being stopped does
not change the state `stopped`. If the connection was closed and not lost, `connect` leads from `ready` to `connecting`.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct

from dragoman.client.connect.connection import ServerConnection, connection_error
from dragoman.errors import AuthError, ConnectError, HttpError, SessionExpired, Timeout, TooLarge, TransportError
from dragoman.protocol.states import Transitions
from dragoman.runtime.backoff import backoff
from dragoman.runtime.tasks import is_being_cancelled, keep_until_done, retrieve_exception

Status = Literal["new", "connecting", "ready", "lost", "failed", "stopped"]

Step = Literal["connect", "succeed", "fail", "lose", "stop", "restart", "abandon"]
RECONNECTION: Transitions[Status, Step] = Transitions(
    {
        "new": {"connect": "connecting", "stop": "stopped", "abandon": "new"},
        "connecting": {"succeed": "ready", "fail": "failed", "stop": "stopped", "abandon": "new"},
        # `connect` if the connection was closed and not lost.
        "ready": {"lose": "lost", "connect": "connecting", "stop": "stopped", "abandon": "new"},
        "lost": {"connect": "connecting", "stop": "stopped", "abandon": "new"},
        "failed": {"connect": "connecting", "stop": "stopped", "abandon": "new"},
        "stopped": {"restart": "new", "succeed": "stopped", "stop": "stopped", "abandon": "stopped"},
    }
)

MAX_ATTEMPTS = 6
FIRST_PAUSE, MAX_PAUSE = 0.05, 2.0
MAX_REPETITIONS = 2
_NO_RESUMPTION = "; {} cannot resume a response, so give a call that may run twice idempotent=True"
_TRANSIENT = (500, 502, 503, 504)
_logger = logging.getLogger("dragoman.client")


class Failures(Struct):
    """How often one request has failed."""

    unsent: int = 0
    """Failures after which the server cannot have served the request."""
    lost: int = 0
    """Failures after which the server may have served the request."""


class Connections:
    """The one connection of a client.

    `connect` makes a connection. `prepare(connection, is_reconnected)` is awaited before a new connection is used.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[ServerConnection]],
        prepare: Callable[[ServerConnection, bool], Awaitable[None]],
    ) -> None:
        self.status: Status = "new"
        self.max_wait: float | None = None
        """Seconds that a request waits while the client connects in the background; None for no limit."""
        self.on_connecting: Callable[[asyncio.Task[ServerConnection]], None] | None = None
        """Called with each task that connects."""
        self._connect = connect
        self._prepare = prepare
        self.latest: ServerConnection | None = None
        """The newest connection, which may have ended."""
        self._connecting: asyncio.Task[ServerConnection] | None = None
        self._retiring: set[asyncio.Task[Any]] = set()
        self._had_connection = False

    @property
    def current(self) -> ServerConnection | None:
        """The connection, if it is alive."""
        connection = self.latest
        return connection if connection is not None and connection.is_alive else None

    async def connection(self, *, unlimited: bool = False) -> ServerConnection:
        """Return the connection, and connect first if there is none; `unlimited` ignores `max_wait`.

        Raises:
            ConnectError: the client was stopped, or the server cannot be reached.
            Timeout: there is no connection after `max_wait` seconds.
            TransportError: the server does not answer.
            RpcError: the server refuses.
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
            if self.on_connecting is not None:
                self.on_connecting(connecting)
        if self.max_wait is not None and not unlimited:
            await asyncio.wait([connecting], timeout=self.max_wait)
            if not connecting.done():
                raise Timeout(f"There is no connection after {self.max_wait:g} seconds; the client goes on connecting")
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled() and not is_being_cancelled():
                raise ConnectError("The client was stopped while it connected") from None
            raise

    def _connected(self, task: asyncio.Task[ServerConnection]) -> None:
        if self._connecting is task:
            self._connecting = None
        retrieve_exception(task)

    async def _reconnect(self) -> ServerConnection:
        self.status = RECONNECTION[self.status, "connect"]
        try:
            if self.latest is not None:
                await self._close_lost(self.latest)
                self.latest = None
            connection = await self._attempt(MAX_ATTEMPTS if self._had_connection else 1)
        except BaseException:
            if self.status == "connecting":  # neither stopped nor abandoned meanwhile
                self.status = RECONNECTION[self.status, "fail"]
            raise
        self.latest = connection
        self._had_connection = True
        self.status = RECONNECTION[self.status, "succeed"]
        return connection

    async def _close_lost(self, lost: ServerConnection) -> None:
        if not lost.link.is_http:
            await lost.close()
            return
        keep_until_done(asyncio.get_running_loop().create_task(_close_when_drained(lost)), self._retiring)

    async def _attempt(self, attempts: int) -> ServerConnection:
        for attempt in range(1, attempts + 1):
            try:
                return await self._connect_once()
            except (AuthError, Timeout):
                raise
            except TransportError as error:
                if attempt == attempts or (isinstance(error, HttpError) and error.status < 500):
                    raise
                message = "The server cannot be reached (%s); attempt %d of %d follows"
                _logger.info(message, error, attempt + 1, attempts)
            await pause(attempt)
        raise AssertionError("an attempt returns or raises")

    async def _connect_once(self) -> ServerConnection:
        connection = await self._connect()
        try:
            await self._prepare(connection, self._had_connection)
        except BaseException:
            await connection.close()
            raise
        if connection.error is not None:
            await connection.close()
            raise connection_error(connection.error)
        return connection

    async def may_repeat(
        self,
        error: TransportError,
        connection: ServerConnection,
        failures: Failures,
        *,
        is_repeatable: bool | Callable[[], Awaitable[bool]],
    ) -> bool:
        """Tell whether to repeat a request that failed, after a pause if the connection is alive.

        `is_repeatable` says whether the request may be served twice, or asks the server that served it.

        Raises:
            TransportError: the request may have been served, and is not repeatable.
        """
        if isinstance(error, Timeout | AuthError | TooLarge) or self.status == "stopped":
            return False
        if isinstance(error, ConnectError):
            failures.unsent += 1
            may_repeat = failures.unsent < MAX_ATTEMPTS
        else:
            failures.lost += 1
            may_repeat = failures.lost <= MAX_REPETITIONS
            is_transient = not isinstance(error, HttpError) or error.status in _TRANSIENT
            if may_repeat and not isinstance(error, SessionExpired):
                if callable(is_repeatable):
                    is_repeatable = connection.is_alive and await is_repeatable()
                if not (is_repeatable and is_transient):
                    raise _perhaps_served(error, connection) from error.__cause__
        if may_repeat and connection.is_alive:
            await pause(failures.unsent + failures.lost)
        return may_repeat

    def lose(self, connection: ServerConnection) -> bool:
        """Record that a connection was lost; return whether it was the one in use."""
        if connection is not self.latest or self.status != "ready":
            return False
        self.status = RECONNECTION[self.status, "lose"]
        return True

    async def stop(self) -> None:
        """End the connection, or the attempt to make one; return when it has ended."""
        self.status = RECONNECTION[self.status, "stop"]
        tasks = {task for task in (self._connecting, *self._retiring) if task is not None}
        tasks.discard(asyncio.current_task())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
            self.status = RECONNECTION[self.status, "stop"]
        connection = self.latest
        if connection is not None:
            await connection.close()
            if self.latest is connection:
                self.latest = None

    def abandon(self) -> None:
        """Forget a connection whose event loop has ended."""
        self.latest = self._connecting = None
        self._retiring.clear()
        self._had_connection = False
        self.status = RECONNECTION[self.status, "abandon"]

    def restart(self) -> None:
        """Allow a stopped client to connect again."""
        if self.status == "stopped":
            self.status, self._had_connection = RECONNECTION[self.status, "restart"], False


async def pause(attempt: int, longest: float = MAX_PAUSE) -> None:
    """Wait before another attempt: longer each time, and randomized."""
    await asyncio.sleep(backoff(attempt, FIRST_PAUSE, longest))


async def _close_when_drained(lost: ServerConnection) -> None:
    try:
        await lost.drained()
    finally:
        await lost.close()


def _perhaps_served(error: TransportError, connection: ServerConnection) -> TransportError:
    """Return the error with a note that the server may have served the request; an HttpError is returned unchanged."""
    if isinstance(error, HttpError):
        return error
    noted = copy.copy(error)
    text = f"The request may have been served, and was not repeated: {error}"
    if connection.link.is_http and connection.version.stateless:
        text += _NO_RESUMPTION.format(connection.version.name)
    noted.args = (text, *error.args[1:])
    return noted
