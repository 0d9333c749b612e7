"""`StdioBridge`: serves stdin and stdout in front of any target, for hosts that start servers as processes only.

A bridge passes messages on as they are (`passthrough`). It implements the contract of services on stdio, so reading,
writing, signals and the end of the input are those of every server of this package.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from dragoman.errors import ParseError, TransportError
from dragoman.forward.passthrough import LIMITS
from dragoman.protocol.jsonrpc import Invalid, decode, decode_batch, encode_error
from dragoman.protocol.lines import LineDecoder, Oversized
from dragoman.transports.contract import Sink, Transport


class StdioBridge:
    """A service on stdio whose messages go to a transport and come from it.

    Example:
        run_stdio(StdioBridge(Passthrough(endpoint)))
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._connection: _BridgedConnection | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Open the transport, and close it at the end."""
        await self._transport.open(self._received, self._lost)
        try:
            yield
        finally:
            await self._transport.close()

    def connect(self, sink: Sink, /) -> _BridgedConnection:
        """Return the connection of the one client."""
        self._connection = _BridgedConnection(self._transport, sink)
        return self._connection

    def _received(self, message: bytes) -> None:
        if self._connection is not None:
            # A line ends a message on stdio. In JSON, line ends stand between tokens only.
            self._connection.sink.send(message.translate(None, b"\r\n") if b"\n" in message else message)

    def _lost(self, error: Exception | None) -> None:
        """Do nothing: the transport answers the requests that wait, and those that follow, with errors."""


class _BridgedConnection:
    """Sends the lines of the client to the transport, one after the other."""

    def __init__(self, transport: Transport, sink: Sink) -> None:
        self._transport = transport
        self.sink = sink
        self._lines = LineDecoder(LIMITS.message_bytes)
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._sending = asyncio.get_running_loop().create_task(self._send_all())

    def receive(self, chunk: bytes) -> None:
        """Receive a chunk of the client's input."""
        self._add(self._lines.receive(chunk))

    def receive_end(self) -> None:
        """Receive the end of the client's input."""
        self._add(self._lines.finish())

    def _add(self, lines: list[bytes | Oversized]) -> None:
        for line in lines:
            invalid = _invalid(line)
            if invalid is None and not isinstance(line, Oversized):
                self._queue.put_nowait(line)
            elif invalid is not None and invalid.answer:
                self.sink.send(encode_error(invalid.id, invalid.error, null_id=True))

    async def drain(self) -> None:
        """Wait until every line is sent, and every request is answered."""
        await self._queue.join()
        answered = getattr(self._transport, "answered", None)
        if answered is not None:
            await answered()

    def close(self) -> None:
        """Send nothing any more."""
        self._sending.cancel()

    async def _send_all(self) -> None:
        while True:
            line = await self._queue.get()
            with suppress(TransportError):  # a notification that the server did not take has no answer
                await self._transport.send(line)
            self._queue.task_done()


def _invalid(line: bytes | Oversized) -> Invalid | None:
    """Return why a line is no message; HTTP has no answer to such a line."""
    if isinstance(line, Oversized):
        return Invalid(None, ParseError(f"The message has more than {LIMITS.message_bytes} bytes"))
    decoded = decode_batch(line, LIMITS) or decode(line, LIMITS)
    return decoded if isinstance(decoded, Invalid) else None
