"""The events of a session's streams, which outlive the connections that they are read by.

The states of a stream tell two things: whether an exchange reads it, and whether its last event was added.

    idle      --attach-->  read            --detach-->  idle           events may follow
    idle      --finish-->  finished
    read      --finish-->  finishing                                   the reader is to be given the last event
    finishing --detach-->  finished        --attach-->  finishing      a client came back for the rest
"""

from __future__ import annotations

import asyncio
from typing import Literal

from dragoman.protocol import sse
from dragoman.protocol.sse import EventId
from dragoman.protocol.states import Transitions
from dragoman.server.http.retention import STREAM_BYTES, SessionStreams
from dragoman.stores import EventLog, Store
from dragoman.transports.http.exchange import Exchange

RETRY_MILLISECONDS = 1000
PART_SECONDS = 1.0


StreamLife = Literal["idle", "read", "finishing", "finished"]
STREAM_LIFE: Transitions[StreamLife, Literal["attach", "detach", "finish"]] = Transitions(
    {
        "idle": {"attach": "read", "finish": "finished"},
        "read": {"detach": "idle", "finish": "finishing"},
        "finishing": {"detach": "finished"},
        "finished": {"attach": "finishing"},
    }
)


class EventStream:
    """The events of one request, or of none, in order; written to whoever reads them now.

    What is added is kept and numbered; `flush` writes what the reader has not got yet. So it makes no difference
    whether a reader is there, is slow, or comes back: it gets the events after the last number that it has. Most never
    have an event, and are given no name, by which they could be found.
    """

    state: StreamLife = "idle"
    reader: Exchange | None = None
    sequence = 0
    """The number of the last event; 0 if nothing was ever added."""
    kept_as = ""
    """Its name, once it has one, by which a client can come back to it."""
    size = 0
    """How many bytes are kept of it."""
    is_waiting = False
    """Whether it was found to wait for its client when room was needed."""

    _written = 0
    _delivered = 0
    _first = 0
    _log: EventLog | None = None
    _let_go: asyncio.Future[None] | None = None
    _writing: asyncio.Lock | None = None
    _flushing: asyncio.Task[None] | None = None

    _parting: set[asyncio.Task[None]] | None = None

    def __init__(self, store: Store, streams: SessionStreams, *, primes: bool) -> None:
        self._store = store
        self._streams = streams
        self._primes = primes

    @property
    def is_finished(self) -> bool:
        """Whether the last event was added."""
        return self.state in ("finishing", "finished")

    @property
    def name(self) -> str:
        """What it is called, from when it is first asked for."""
        if not self.kept_as:
            self.kept_as = self._streams.keep(self)
        return self.kept_as

    @property
    def is_delivered(self) -> bool:
        """Whether every event was written to a client."""
        return self._delivered == self.sequence

    @property
    def may_go(self) -> bool:
        """Whether nobody is about to be given its events, or is being given them."""
        is_writing = self._writing is not None and self._writing.locked()
        return self.reader is None or (self._written == self.sequence and not is_writing)

    def attach(
        self, exchange: Exchange, after: int | None = None, *, let_go: asyncio.Future[None] | None = None
    ) -> None:
        """Let an exchange read what comes after a number, or from now on; whoever read before is done.

        `let_go` is done as soon as this reader is let go, for whoever has to end it; without, it is ended here.
        """
        if self.reader is not None:
            self.detach()
        self._written = self.sequence if after is None else min(after, self.sequence)
        if self._primes and after is None:
            self._first = self._written
            exchange.opening = self.opening
        exchange.on_gone = self.detach
        self.state = STREAM_LIFE[self.state, "attach"]
        self.reader = exchange
        self._let_go = let_go
        if exchange.gone:  # and does not tell so again
            self.detach()

    def opening(self) -> bytes:
        """Return the event that tells how to come back."""
        return sse.priming_event(EventId(self.name, self._first).encode(), RETRY_MILLISECONDS)

    def detach(self) -> None:
        """Let go of whoever reads the stream."""
        reader = self.reader
        if reader is None:
            return
        self.state = STREAM_LIFE[self.state, "detach"]
        self.reader = reader.on_gone = reader.opening = None
        if self._let_go is not None:
            if not self._let_go.done():
                self._let_go.set_result(None)
        elif not reader.ended and not reader.gone:
            self._part(reader)

    def _part(self, reader: Exchange) -> None:
        if self._parting is None:
            self._parting = set()
        parting = reader.loop.create_task(part(reader))
        self._parting.add(parting)
        parting.add_done_callback(self._parting.discard)

    def add(self, message: bytes, *, last: bool = False) -> None:
        """Add a message to the stream, to be written soon; nothing follows the last."""
        if self.is_finished:
            return
        self.sequence += 1
        log = self._log
        if log is None:
            log = self._log = self._store.event_log(self.name)
        log.append(self.sequence, sse.encode(message, id=EventId(self.name, self.sequence).encode()))
        if last:
            self.state = STREAM_LIFE[self.state, "finish"]
        before, self.size = self.size, log.size + STREAM_BYTES
        self._streams.grown(self, self.size - before)
        if self.reader is not None and (self._flushing is None or self._flushing.done()):
            self._flushing = self.reader.loop.create_task(self.flush())

    def drop_events(self) -> None:
        """Keep nothing of what was added until now."""
        self._log = None
        self.size = 0
        self.is_waiting = False

    async def flush(self) -> None:
        """Write to the reader what it has not got yet; the last message lets it go."""
        if not self.sequence:
            return
        if self._writing is None:
            self._writing = asyncio.Lock()
        async with self._writing:
            while self.reader is not None and (self._written < self.sequence or self.state == "finishing"):
                reader, last, log = self.reader, self.state == "finishing", self._log
                missed = None if log is None else log.after(self._written)
                self._written = self.sequence
                await reader.stream(b"" if missed is None else await missed, last=last)
                if not reader.gone:
                    self._delivered = self._written
                if last and self.reader is reader:
                    self.detach()
            if self.is_waiting and self._delivered == self.sequence:
                self._streams.delivered(self)

    async def let_go(self) -> None:
        """Let the client go without its response, if it was told how to come back for it."""
        reader = self.reader
        if self._primes and reader is not None:
            await reader.stream(b"")
            await self.flush()
            if self.reader is reader:
                self.detach()

    async def close(self) -> None:
        """Write no more."""
        self.detach()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.wait([self._flushing])
        if self._parting:
            _, late = await asyncio.wait(self._parting, timeout=PART_SECONDS)
            for parting in late:
                parting.cancel()


async def part(exchange: Exchange) -> None:
    """End an exchange that was let go before its response.

    This is never an error status: a client that is told 404 takes its request for one that did not run, and repeats it.
    """
    await exchange.stream(b"", last=True)
