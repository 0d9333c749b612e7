"""The contracts of transports: `Transport` for clients, and `Sink` for the connections of servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

Receive = Callable[[bytes], Awaitable[None] | None]
"""Receives a message. If it returns an awaitable, the transport awaits it before it reads the next message."""


class Transport(Protocol):
    """A connection of a client that carries encoded messages both ways and does not interpret them.

    Example:
        transport = ProcessTransport("python server.py")
        await transport.open(receive, closed)
        await transport.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        await transport.close()
    """

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Connect.

        The transport calls `receive` in the loop with each message: one JSON text without a newline. If `receive`
        returns an awaitable, the transport reads no further message until the awaitable is done. The client returns an
        awaitable while the server does not read the responses to its own requests, and a proxy while its own client
        does not read. The transport calls `closed` once, when the connection ends without a call of `close`.
        """

    async def send(self, message: bytes) -> None:
        """Send one message, and return when more may be sent.

        Raises:
            TransportError: the message cannot be sent.
        """

    async def close(self) -> None:
        """End the connection; may be called more than once, from any task of the loop, in any state."""


class Sink(Protocol):
    """Sends the messages of a server's connection, in the thread of the connection's loop."""

    @property
    def has_room(self) -> bool:
        """Whether few bytes are unwritten."""

    def send(self, message: bytes, /) -> None:
        """Send one encoded message, without its newline; never blocks, and does nothing once the client is gone."""

    async def wait_for_room(self) -> None:
        """Wait until there is room; senders of unbounded messages, such as progress and logs, must call this."""


class FunctionSink:
    """Sends by a plain function, which accepts every message at once.

    Example:
        sink = FunctionSink(messages.append)
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.send = send

    @property
    def has_room(self) -> bool:
        """Always true."""
        return True

    async def wait_for_room(self) -> None:
        """Return at once."""
