"""The events of a session's streams, which outlive the connections that they are read by."""

from __future__ import annotations

import asyncio

from dragoman.protocol import sse
from dragoman.protocol.sse import EventId
from dragoman.stores import EventLog, Store
from dragoman.transports.asgi import Exchange

RETRY_MILLISECONDS = 1000


class EventStream:
    """The events of one request, or of none, in order; written to whoever reads them now.

    What is added is kept and numbered; `flush` writes what the reader has not got yet. So it makes no difference
    whether a reader is there, is slow, or comes back: it gets the events after the last number that it has.
    """

    finished = False
    reader: Exchange | None = None

    _sequence = 0
    _written = 0
    _log: EventLog | None = None
    _let_go: asyncio.Future[None] | None = None
    _writing: asyncio.Lock | None = None
    _flushing: asyncio.Task[None] | None = None

    def __init__(self, name: str, store: Store, *, primes: bool) -> None:
        self.name = name
        self._store = store
        self._primes = primes

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever added."""
        return self._sequence == 0

    def attach(self, exchange: Exchange, after: int | None = None) -> asyncio.Future[None]:
        """Let an exchange read what comes after a number, or from now on; whoever read before is done.

        Returns:
            What is done as soon as this reader is let go.
        """
        self.detach()
        self._written = self._sequence if after is None else min(after, self._sequence)
        if self._primes and after is None:
            first = self._written
            exchange.opening = lambda: sse.prime(EventId(self.name, first).encode(), RETRY_MILLISECONDS)
        exchange.on_gone = lambda: self.detach(exchange)
        self.reader = exchange
        let_go = self._let_go = exchange.loop.create_future()
        return let_go

    def detach(self, exchange: Exchange | None = None) -> None:
        """Let go of whoever reads the stream, or of this exchange if it does."""
        reader = self.reader
        if reader is None or (exchange is not None and exchange is not reader):
            return
        self.reader = reader.on_gone = reader.opening = None
        if self._let_go is not None and not self._let_go.done():
            self._let_go.set_result(None)

    def add(self, message: bytes, *, last: bool = False) -> None:
        """Add a message to the stream, to be written soon."""
        self._sequence += 1
        if self._log is None:
            self._log = self._store.event_log(self.name)
        self._log.append(self._sequence, sse.encode(message, id=EventId(self.name, self._sequence).encode()))
        self.finished = last
        if self.reader is not None and (self._flushing is None or self._flushing.done()):
            self._flushing = self.reader.loop.create_task(self.flush())

    async def flush(self) -> None:
        """Write to the reader what it has not got yet; the last message lets it go."""
        if self._log is None:
            return
        if self._writing is None:
            self._writing = asyncio.Lock()
        async with self._writing:
            while self.reader is not None and (self._written < self._sequence or self.finished):
                reader, last, missed = self.reader, self.finished, self._log.after(self._written)
                self._written = self._sequence
                await reader.stream(await missed, last=last)
                if last:
                    self.detach(reader)

    async def let_go(self) -> None:
        """Let the client go without its response, if it was told how to come back for it."""
        reader = self.reader
        if self._primes and reader is not None:
            await reader.stream(b"")
            await self.flush()
            self.detach(reader)

    async def close(self) -> None:
        """Write no more."""
        self.detach()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.wait([self._flushing])
