"""A transport to a server in this process: no I/O, and the same encoded messages as on other transports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Protocol, cast

from dragoman.errors import ConnectError
from dragoman.transports.contract import FunctionSink, Receive, Sink

CLOSE_SECONDS = 1.0
MAX_WITHOUT_YIELD = 64
"""After this many messages `send` yields to the loop, because an immediate answer does not suspend the sender."""


class MemoryConnection(Protocol):
    """The connection of the server, as `MemoryTransport` uses it."""

    def receive_message(self, data: bytes) -> None:
        """Receive a message of the client."""

    def close(self) -> None:
        """Cancel the requests in flight, and send nothing any more."""

    async def drain(self) -> None:
        """Wait until no request is in flight."""


class MemoryTransport:
    """A transport to a server of this process; `serving` makes the context in which the server serves.

    Example:
        transport = MemoryTransport(server.connect, server.serving)
    """

    def __init__(
        self,
        connect: Callable[[Sink], MemoryConnection],
        serving: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._connect = connect
        self._serving = serving
        self._context: AbstractAsyncContextManager[None] = nullcontext()
        self._connection: MemoryConnection | None = None
        self._sent = 0

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:  # noqa: ARG002
        """Connect.

        Raises:
            ConnectError: the transport is connected already, or the server cannot begin to serve.
        """
        if self._connection is not None:
            raise ConnectError("The transport is open already; close it first")
        self._context = self._serving()
        try:
            await self._context.__aenter__()
        except Exception as error:
            raise ConnectError(f"The server of this process cannot begin to serve: {error}") from error
        # The result of `receive` is not used: a server in this process does not wait for room.
        self._connection = self._connect(FunctionSink(cast("Callable[[bytes], None]", receive)))

    async def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            ConnectError: there is no connection.
        """
        self._sent += 1
        if self._sent % MAX_WITHOUT_YIELD == 0:
            await asyncio.sleep(0)
        connection = self._connection
        if connection is None:
            raise ConnectError("The transport to the server of this process is not open")
        connection.receive_message(message)

    async def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await connection.drain()
            finally:
                await self._context.__aexit__(None, None, None)
