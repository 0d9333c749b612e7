"""What a client needs of a transport, and a server's connection of the way out to its client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Raw

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


class Sink(Protocol):
    """Where a server's connection sends its messages, in the thread of the connection's loop."""

    @property
    def has_room(self) -> bool:
        """Whether little of what was sent is still unwritten."""

    def send(self, message: bytes, /) -> None:
        """Send one encoded message, without its newline; never blocks, and does nothing once the client is gone."""

    def send_parts(self, head: bytes, large: Raw, tail: bytes) -> None:
        """Send one encoded message whose large part, which must not hold a newline, need not be copied."""

    async def room(self) -> None:
        """Wait while there is no room; whoever sends without end, as progress or a log does, must do this."""


class FunctionSink:
    """Sends by a plain function, which takes every message at once.

    Example:
        sink = FunctionSink(messages.append)
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.send = send

    @property
    def has_room(self) -> bool:
        """Whether little of what was sent is still unwritten."""
        return True

    def send_parts(self, head: bytes, large: Raw, tail: bytes) -> None:
        """Send one encoded message that is given in parts."""
        self.send(b"".join((head, large, tail)))

    async def room(self) -> None:
        """Wait for nothing."""
