"""The changes that a stateless server tells of: one open request that names what the client wants to hear.

When the wish changes, the request is replaced by one with all of it. When it ends while the connection lives, it is
made again after a pause that grows while it does not last; changes may have been missed meanwhile. A server that
refuses it is not asked again for the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman import types
from dragoman.client.connect.connection import Options, ServerConnection
from dragoman.client.connect.reconnect import pause
from dragoman.errors import AuthError, DragomanError, HttpError, RpcError, Timeout, TransportError

LISTEN = "subscriptions/listen"
LASTING_SECONDS, LONGEST_PAUSE = 5.0, 30.0


class Listening:
    """What one client hears of; `kind` is the type of the filter, to which extensions add fields."""

    def __init__(self, kind: type[types.SubscriptionFilter] = types.SubscriptionFilter) -> None:
        self.kind = kind
        self.wanted = kind()
        self.heard = kind()
        """What the server acknowledged."""
        self.on_gap: Callable[[], Any] | None = None
        """Called when changes may have been missed."""
        self._task: asyncio.Task[None] | None = None
        self._replaced: set[asyncio.Task[None]] = set()
        self._id: types.RequestId | None = None
        self._settled = asyncio.Event()
        self._refusal: DragomanError | None = None

    @property
    def wants_any(self) -> bool:
        """Whether there is anything to hear of."""
        return self.wanted != self.kind()

    def want(self, connection: ServerConnection, **changes: Any) -> None:
        """Want to hear of more, or of less."""
        wanted = msgspec.structs.replace(self.wanted, **changes)
        if wanted != self.wanted or self._task is None:
            self.wanted = wanted
            self.begin(connection)

    def begin(self, connection: ServerConnection) -> None:
        """Listen on a connection to all that is wanted."""
        self._stop()
        if connection.version.stateless and self.wants_any:
            params = {"notifications": msgspec.to_builtins(self.wanted)}
            self._task = asyncio.get_running_loop().create_task(self._listen(connection, params))

    async def _listen(self, connection: ServerConnection, params: types.Json) -> None:
        attempt = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await connection.request(LISTEN, params, Options(on_id=self._begun))
            except (RpcError, AuthError) as error:
                self._refused(error)
                return
            except TransportError as error:
                if isinstance(error, HttpError) and error.status < 500:
                    self._refused(error)
                    return
            self._silence()
            if not connection.is_alive:
                return
            if self.on_gap is not None:
                self.on_gap()
            attempt = 1 if loop.time() - began > LASTING_SECONDS else attempt + 1
            await pause(attempt, LONGEST_PAUSE)

    def _begun(self, id: types.RequestId) -> None:
        self._id = id

    def _refused(self, error: DragomanError) -> None:
        self._silence()
        self._refusal = error
        self._settled.set()

    def _silence(self) -> None:
        self._id = None
        self.heard = self.kind()
        self._settled.clear()

    def acknowledge(self, id: Any, heard: types.SubscriptionFilter) -> None:
        """Note what the server will tell of; what it says of a request that was replaced counts no more."""
        if id is None or id == self._id:
            self.heard = heard
            self._settled.set()

    async def acknowledged(self, timeout: float) -> None:
        """Wait until the server said what it will tell of.

        Raises:
            RpcError: it refused to.
            Timeout: it did not say so in time.
            TransportError: it cannot be reached.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._settled.wait()
        except TimeoutError:
            raise Timeout(f"The server did not acknowledge {LISTEN} within {timeout:g} seconds", self._id) from None
        if self._refusal is not None:
            raise self._refusal

    def _stop(self) -> None:
        task, self._task = self._task, None
        self._silence()
        self._refusal = None
        if task is not None and not task.done():
            task.cancel()
            self._replaced.add(task)
            task.add_done_callback(self._replaced.discard)

    async def replaced(self) -> None:
        """Wait until what was listened to before is listened to no more."""
        if self._replaced:
            await asyncio.wait(list(self._replaced))

    async def close(self) -> None:
        """Listen no more."""
        self._stop()
        await self.replaced()
