"""A server in this process, spoken to without any I/O but through the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from dragoman.errors import ConnectError
from dragoman.transports.contract import FunctionSink, Receive, Sink

CLOSE_SECONDS = 1.0
MOST_AT_ONCE = 64
"""Messages until others have their turn of the loop, which answers that are there at once would keep from them."""


class MemoryConnection(Protocol):
    """The server's end."""

    def receive_message(self, data: bytes) -> None:
        """Take a message of the client."""

    def close(self) -> None:
        """Give up what is still served; nothing is sent any more."""

    async def drain(self) -> None:
        """Wait until nothing is served."""


class MemoryTransport:
    """A transport to a server of this process.

    Example:
        transport = MemoryTransport(server.connect)
    """

    def __init__(self, connect: Callable[[Sink], MemoryConnection]) -> None:
        self._connect = connect
        self._connection: MemoryConnection | None = None
        self._sent = 0

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:  # noqa: ARG002
        """Connect.

        Raises:
            ConnectError: it is connected already.
        """
        if self._connection is not None:
            raise ConnectError("The transport is open already; close it first")
        # What `receive` returns is of no use to a server: its answers are taken at once.
        self._connection = self._connect(FunctionSink(cast("Callable[[bytes], None]", receive)))

    async def send(self, message: bytes) -> None:
        """Hand a message over.

        Raises:
            ConnectError: there is no connection.
        """
        self._sent += 1
        if self._sent % MOST_AT_ONCE == 0:
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
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await connection.drain()
