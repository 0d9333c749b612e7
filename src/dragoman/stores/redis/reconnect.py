"""`Reconnector`: keeps a connection to Redis open for as long as its owner needs one.

    closed   --open()-->      opening
    opening  --connected-->   open
    opening  --refused-->     pausing     backoff with jitter
    pausing  --time over-->   opening     closed, if nobody needs the connection
    open     --lost-->        pausing     closed, if nobody needs the connection

`is_away` tells that the server was away for longer than the limit of a command: its callers fail at once then, and do
not wait for the next attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dragoman.errors import StoreUnavailable
from dragoman.runtime.backoff import backoff
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.connection import RedisConnection, connect

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0

_logger = logging.getLogger("dragoman.stores")


class Reconnector:
    """Keeps a connection open while `is_needed` returns true.

    `opened` is called with each new connection. `failed` is called with the reason when a connection is lost, and after
    each failed attempt.
    """

    def __init__(
        self,
        address: RedisAddress,
        limit: float,
        *,
        is_needed: Callable[[], bool],
        opened: Callable[[RedisConnection], None],
        failed: Callable[[str], None],
    ) -> None:
        self.connection: RedisConnection | None = None
        self.reason = f"Redis at {address} does not answer"
        self._address = address
        self._limit = limit
        self._is_needed = is_needed
        self._opened = opened
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._away_since: float | None = None
        self._attempts = 0
        self._retry_at = 0.0

    @property
    def is_away(self) -> bool:
        """Whether the server was away for longer than the limit, and the next attempt is not due yet."""
        now = self._loop.time()
        return self._away_since is not None and now - self._away_since >= self._limit and now < self._retry_at

    def open(self) -> None:
        """Open the connection, unless it is open or being opened."""
        if self.connection is None and self._task is None:
            self._task = self._loop.create_task(self._keep_trying())

    async def _keep_trying(self) -> None:
        try:
            while self.connection is None and self._is_needed():
                await asyncio.sleep(self._retry_at - self._loop.time())
                await self._try()
        finally:
            self._task = None

    async def _try(self) -> None:
        try:
            async with asyncio.timeout(self._limit):
                connection = await connect(self._address, self._lost, self._limit)
        except TimeoutError:
            self._fail(f"Redis at {self._address} does not answer")
        except StoreUnavailable as error:
            self._fail(str(error))
        except OSError as error:
            self._fail(f"Redis at {self._address} cannot be reached: {error}")
        else:
            if not connection.is_open:
                self._fail(f"Redis at {self._address} closed the connection")
                return
            if self._away_since is not None:
                _logger.info("The connection to Redis at %s is back", self._address)
            self._away_since, self._attempts = None, 0
            self.connection = connection
            self._opened(connection)

    def _lost(self, reason: str) -> None:
        """Note the end of a connection; one that ends while it is being opened is not the connection yet."""
        if self.connection is not None and not self.connection.is_open:
            self.connection = None
            self._fail(f"Redis at {self._address} {reason}")
            if self._is_needed():
                self.open()

    def _fail(self, reason: str) -> None:
        now = self._loop.time()
        self.reason = reason
        self._retry_at = now + backoff(self._attempts, FIRST_PAUSE, LONGEST_PAUSE)
        self._attempts += 1
        if self._away_since is None:
            self._away_since = now
            _logger.warning("%s; trying again", reason)
        self._failed(reason)

    def drop(self) -> RedisConnection | None:
        """Give up the connection, which is no failure of the server, and return it."""
        dropped, self.connection = self.connection, None
        if dropped is not None:
            dropped.abort("was closed by this process")
        return dropped

    async def close(self) -> None:
        """Close the connection, and stop opening one."""
        if self._task is not None:
            await cancel_and_wait(self._task)
        dropped = self.drop()
        if dropped is not None:
            await dropped.closed.wait()
        self._away_since, self._attempts, self._retry_at = None, 0, 0.0
