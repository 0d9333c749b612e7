"""`KnownTarget`: what a target declared and listed last, for the time in which it is away.

A user sees the same lists with any client, so they are kept for the user and not for the version or the capabilities of
a client. Who is a user is decided by the proxy (`ProxyServer._user`): lists of one user are shown to nobody else if the
target may know its users apart.

    here    requests for lists go to the target
    away    a request failed because the target cannot be reached: the last known lists are the answer, at once, while
            a task in the background repeats the request that was answered so

Any answer of the target leads back to `here`. A request with a connection that is alive goes to the target in any case:
the processes of a command do not end together. A target that refuses the credentials of a user is not away: this user
gets the refusal, and not the lists that are known. `refusal_of` returns the error that a client gets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.connect.reconnect import pause
from dragoman.errors import (
    AuthError,
    ConnectError,
    DragomanError,
    HttpError,
    PaginationLimit,
    RpcError,
    Timeout,
    ToolError,
    TransportError,
)
from dragoman.forward.messages import UNREACHABLE
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import Version
from dragoman.runtime.tasks import cancel_and_wait, keep_until_done
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    from dragoman.client.connect.connection import ServerConnection

T = TypeVar("T")
CONNECT_WAIT = 1.0
"""The seconds for which a request waits for a connection, if the last answer is known or the target is away."""
MAX_USERS = 1000
MAX_PAGES = 100
"""At most this many pages of lists are kept for a user."""
MAX_USER_BYTES, MAX_BYTES = 4 * 1024 * 1024, 64 * 1024 * 1024
"""The greatest size of the pages of a user, and of all users."""
RETRIES, LONGEST_PAUSE = 20, 5.0
"""The background repeats a request this often, which takes more than a minute; the next request begins anew."""
WATCH_PAUSE = 30.0
"""The longest pause after that, if the background does not give up."""
SERVER_FAILED = 500
_logger = logging.getLogger("dragoman.compose")


class TargetWatch(Protocol):
    """Whoever wants to know that a target is back."""

    @property
    def is_watched(self) -> bool:
        """Whether the background must not give up."""

    def target_is_back(self) -> None:
        """Tell clients that the lists of the target may have changed."""


class KnownPage(Struct):
    """A result of the target."""

    raw: Raw
    version: Version
    received_at: float

    @property
    def age(self) -> int:
        """The seconds since the target sent the result."""
        return int(asyncio.get_running_loop().time() - self.received_at)


class TargetDeclaration(Struct):
    """What a target declared when it was connected."""

    raw: Raw
    capabilities: types.ServerCapabilities
    instructions: str | None
    server_info: types.Implementation | None
    discovered: tuple[Raw, Version] | None = None
    """The result of `server/discover`, if the target is stateless."""

    @classmethod
    def of(cls, connection: ServerConnection) -> TargetDeclaration:
        """Return what the target of a connection declared."""
        raw = connection.initialized or Raw(encode(connection.discover_result()))
        return cls(raw, connection.capabilities, connection.instructions, connection.server_info)


class KnownTarget:
    """What one user knows of a target."""

    def __init__(
        self, on_growth: Callable[[], None], watch: TargetWatch | None = None, *, is_shared: bool = True
    ) -> None:
        self.declaration: TargetDeclaration | None = None
        self._is_away = False
        self._watch = watch
        self._is_shared = is_shared
        self._on_growth = on_growth
        self._pages: Recent[Hashable, KnownPage] = Recent(MAX_PAGES)
        self._retrying: set[asyncio.Task[None]] = set()

    @property
    def is_away(self) -> bool:
        """Whether the last attempt to reach the target failed."""
        return self._is_away

    @is_away.setter
    def is_away(self, is_away: bool) -> None:
        is_back, self._is_away = self._is_away and not is_away, is_away
        if is_back and self._watch is not None:
            self._watch.target_is_back()

    @property
    def size(self) -> int:
        """The number of bytes of the pages."""
        return sum(len(page.raw) for page in self._pages.values())

    def page(self, key: Hashable) -> KnownPage | None:
        """Return the last known page of a list."""
        return self._pages.get(key)

    def keep(self, key: Hashable, raw: Raw, version: Version) -> None:
        """Keep a page of a list."""
        self._pages[key] = KnownPage(raw, version, asyncio.get_running_loop().time())
        while self.size > MAX_USER_BYTES:
            del self._pages[next(iter(self._pages))]
        self._on_growth()

    async def latest(
        self,
        fetch: Callable[[float | None], Awaitable[T]],
        last: Callable[[], T] | None,
        *,
        is_connected: bool = False,
        waits: bool = True,
    ) -> T:
        """Return what the target answers now, or the last answer if the target is away.

        `fetch` asks the target; it takes the seconds to wait for a connection, None for no limit. `last` returns the
        last answer; it is None if there is none. `is_connected` says that this request can reach the target, although
        others cannot. Without `waits`, a target that is away gets no time to come back.

        Raises:
            TransportError: the target is away, and there is no last answer.
            DragomanError: the target refuses.
        """
        if self.is_away and last is not None and not is_connected:
            self._retry(fetch)
            return last()
        wait = CONNECT_WAIT if self.is_away or last is not None else None
        if self.is_away and not waits:
            wait = 0.0
        try:
            answer = await fetch(wait)
        except TransportError as error:
            if not is_absence(error):
                raise
            self.is_away = True
            self._retry(fetch)
            if last is None:
                raise
            return last()
        self.is_away = False
        return answer

    async def latest_declaration(
        self, fetch: Callable[[float | None], Awaitable[TargetDeclaration]]
    ) -> TargetDeclaration:
        """Return what the target declares now, or declared last if it is away, as `latest` does."""
        last = self.declaration
        return await self.latest(fetch, None if last is None else lambda: last)

    def _retry(self, fetch: Callable[[float | None], Awaitable[Any]]) -> None:
        if not self._retrying:
            keep_until_done(asyncio.get_running_loop().create_task(self._fetch_again(fetch)), self._retrying)

    async def _fetch_again(self, fetch: Callable[[float | None], Awaitable[Any]]) -> None:
        for attempt in count(1):
            if attempt > RETRIES and not self._is_watched():
                return
            await pause(attempt, LONGEST_PAUSE if attempt <= RETRIES else WATCH_PAUSE)
            try:
                await fetch(None)
            except TransportError as error:
                if is_absence(error):
                    continue
            except DragomanError:
                pass  # the next request of the user gets the refusal
            self.is_away = False
            return

    def _is_watched(self) -> bool:
        """Tell whether to go on for good: not with the credentials of one user, which expire."""
        return self._is_shared and self._watch is not None and self._watch.is_watched

    async def stop(self) -> None:
        """End the repetition of a request."""
        for task in list(self._retrying):
            await cancel_and_wait(task)


class KnownTargets:
    """What each user knows of the target of a proxy; beyond a limit, the users that were absent longest are dropped."""

    def __init__(self, watch: TargetWatch | None = None) -> None:
        self._watch = watch
        self._users: Recent[Hashable, KnownTarget] = Recent(MAX_USERS)

    def of(self, user: Hashable) -> KnownTarget:
        """Return what a user knows."""
        known = self._users[user] = self._users.get(user) or KnownTarget(
            self._limit, self._watch, is_shared=user is None
        )
        return known

    def _limit(self) -> None:
        while sum(known.size for known in self._users.values()) > MAX_BYTES:
            del self._users[next(iter(self._users))]

    async def stop(self) -> None:
        """End what runs in the background."""
        for known in self._users.values():
            await known.stop()


def is_absence(error: TransportError) -> bool:
    """Tell whether an error says that a target cannot be reached, and not that it refuses the request."""
    return not isinstance(error, AuthError) and not (isinstance(error, HttpError) and error.status < SERVER_FAILED)


def refusal_of(error: DragomanError, name: str) -> RpcError | ToolError:
    """Return the error that a client of the proxy gets; an error of the target or of the author passes as it is.

    The details of other errors are logged. They may name addresses and credentials, which clients must not see.
    """
    if isinstance(error, RpcError | ToolError):
        return error
    if isinstance(error, PaginationLimit):
        return RpcError(UNREACHABLE, f"The list of the server behind the proxy {name!r} does not end: {error}")
    _logger.warning("The target of the proxy %r failed: %s", name, error)
    if isinstance(error, AuthError):
        why = "refuses the credentials of the proxy; its log says more"
    elif isinstance(error, Timeout):
        why = "did not answer in time; try again later"
    elif isinstance(error, ConnectError):
        why = "cannot be reached; try again later"
    else:
        why = "was lost during the request, which may have been served"
    return RpcError(UNREACHABLE, f"The server behind the proxy {name!r} {why}")
