"""What a client needs of a transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

Receive = Callable[[bytes], Awaitable[None] | None]
"""Takes a message. What it returns is awaited before the next message is read, unless it is None."""


class Transport(Protocol):
    """A connection that carries messages both ways and does not know what they mean.

    Example:
        transport = Process("python server.py")
        await transport.open(receive, closed)
        await transport.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        await transport.close()
    """

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Connect.

        `receive` is called in the loop with each message: one JSON text, no newline. If it returns an awaitable, the
        server does not take the answers to its requests: read no further message before the awaitable is done.
        `closed` is called once, when the connection ends by itself and not because of `close`.
        """

    async def send(self, message: bytes) -> None:
        """Send one message, and return when more may be sent.

        Raises:
            TransportError: the message cannot be sent.
        """

    async def close(self) -> None:
        """End the connection; may be called more than once, from any task of the loop, in any state."""
