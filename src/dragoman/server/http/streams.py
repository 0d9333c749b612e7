"""The event streams of sessions, which outlive the connections that they are read on, and how much of them is kept.

An `EventStream` is a log of numbered events and at most one reader, which is an exchange. When the connection of the
reader breaks, the log is kept, and a client that comes back with `Last-Event-ID` is sent the events after that number.

The states of a stream say whether an exchange reads it, and whether its last event was added:

    idle      --attach-->  read            --detach-->  idle           events may follow
    idle      --finish-->  finished
    read      --finish-->  finishing                                   the reader is to be sent the last event
    finishing --detach-->  finished        --attach-->  finishing      a client came back for the rest

`SessionStreams` holds the streams of one session, `Retention` those of all sessions in the process. Both have a bound
on the bytes of their events. Beyond it, streams whose every event was delivered are dropped first, then the
undelivered, the oldest of each kind first. The stream that just grew is never dropped, nor one that is being written to
its reader.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from dragoman.protocol import sse
from dragoman.protocol.sse import EventId
from dragoman.protocol.states import Transitions
from dragoman.stores import EventLog, Store
from dragoman.transports.http.exchange import Exchange

RETRY_MILLISECONDS = 1000
END_SECONDS = 1.0
"""How long readers that were let go may take to read their last bytes when the stream is closed."""
MAX_STREAMS = 100
"""The named streams of a session; beyond it, finished ones are forgotten."""
MAX_SESSION_BYTES = 16 * 1024 * 1024
MAX_BYTES = 64 * 1024 * 1024
STREAM_BYTES = 2048
"""The memory that a stream takes beside its events."""

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
    """The events of one request, or the standalone stream of a session, in order.

    `add` numbers an event and keeps it; `flush` writes what the reader has not got yet. So it makes no difference
    whether a reader is there, is slow, or comes back. A stream is named, and can be found by its name, from its first
    event on; most streams never have one.
    """

    state: StreamLife = "idle"
    reader: Exchange | None = None
    sequence = 0
    """The number of the last event; 0 if nothing was ever added."""
    assigned_name = ""
    """The name by which a client can come back, once the stream has one."""
    size = 0
    """How many bytes are kept of the stream."""
    is_listed_undelivered = False
    """Whether `Retention` found the stream undelivered when it looked for one to drop."""

    _written = 0
    _delivered = 0
    _sequence_at_start = 0
    _log: EventLog | None = None
    _released: asyncio.Future[None] | None = None
    _writing: asyncio.Lock | None = None
    _flushing: asyncio.Task[None] | None = None
    _ending: set[asyncio.Task[None]] | None = None

    def __init__(self, store: Store, streams: SessionStreams, *, sends_priming_event: bool) -> None:
        self.streams = streams
        self._store = store
        self._sends_priming_event = sends_priming_event

    @property
    def is_finished(self) -> bool:
        """Whether the last event was added."""
        return self.state in ("finishing", "finished")

    @property
    def name(self) -> str:
        """The name of the stream, which is assigned when it is first asked for."""
        if not self.assigned_name:
            self.assigned_name = self.streams.keep(self)
        return self.assigned_name

    @property
    def is_delivered(self) -> bool:
        """Whether every event was written to a client."""
        return self._delivered == self.sequence

    @property
    def can_be_dropped(self) -> bool:
        """Whether no reader is being written to, or about to be."""
        is_writing = self._writing is not None and self._writing.locked()
        return self.reader is None or (self._written == self.sequence and not is_writing)

    def attach(
        self, exchange: Exchange, after: int | None = None, *, released: asyncio.Future[None] | None = None
    ) -> None:
        """Let an exchange read the events after a number, or from now on; an earlier reader is detached.

        Whoever passes `released` ends the exchange when that is done: on detaching. Else the stream ends the exchange.
        """
        if self.reader is not None:
            self.detach()
        self._written = self.sequence if after is None else min(after, self.sequence)
        if self._sends_priming_event and after is None:
            self._sequence_at_start = self._written
            exchange.opening = self.priming_event
        exchange.on_gone = self.detach
        self.state = STREAM_LIFE[self.state, "attach"]
        self.reader = exchange
        self._released = released
        if exchange.gone:  # `on_gone` is called only once, and was
            self.detach()

    def priming_event(self) -> bytes:
        """Return the first event of a response, whose id lets a client come back before it was sent a message."""
        return sse.priming_event(EventId(self.name, self._sequence_at_start).encode(), RETRY_MILLISECONDS)

    def detach(self) -> None:
        """Let go of the reader, if there is one."""
        reader = self.reader
        if reader is None:
            return
        self.state = STREAM_LIFE[self.state, "detach"]
        self.reader = reader.on_gone = reader.opening = None
        if self._released is not None:
            if not self._released.done():
                self._released.set_result(None)
        elif not reader.ended and not reader.gone:
            if self._ending is None:
                self._ending = set()
            ending = reader.loop.create_task(end_without_response(reader))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def add(self, message: bytes, *, last: bool = False) -> None:
        """Add a message, to be written soon; nothing is added after the last."""
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
        self.streams.grow(self, self.size - before)
        if self.reader is not None and (self._flushing is None or self._flushing.done()):
            self._flushing = self.reader.loop.create_task(self.flush())

    def drop_events(self) -> None:
        """Forget the events that were added until now."""
        self._log = None
        self.size = 0
        self.is_listed_undelivered = False

    async def flush(self) -> None:
        """Write to the reader what it has not got yet; the last message detaches it."""
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
            if self.is_listed_undelivered and self.is_delivered:
                self.streams.mark_delivered(self)

    async def release_client(self) -> None:
        """End the response before its last message, if the priming event told the client how to come back."""
        reader = self.reader
        if self._sends_priming_event and reader is not None:
            await reader.stream(b"")
            await self.flush()
            if self.reader is reader:
                self.detach()

    async def close(self) -> None:
        """Detach the reader, and wait until nothing is written any more."""
        self.detach()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.wait([self._flushing])
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=END_SECONDS)
            for ending in late:
                ending.cancel()


async def end_without_response(exchange: Exchange) -> None:
    """End an exchange whose response is not sent on it.

    The status is never an error: a client that gets 404 concludes that its request did not run, and repeats it.
    """
    await exchange.stream(b"", last=True)


class Retention:
    """The streams of all sessions that have events, and how many bytes they take."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.size = 0
        self.max_bytes = max_bytes
        self.streams: OrderedDict[EventStream, None] = OrderedDict()
        """In the order of their first events."""
        self.undelivered: OrderedDict[EventStream, None] = OrderedDict()
        """Streams that `make_room` found undelivered; each leaves when its client has read it."""

    def make_room(self, newest: EventStream) -> None:
        """Drop other streams than the newest until the rest fits."""
        while self.size > self.max_bytes:
            victim = self._first_delivered(newest) or _first(self.undelivered, newest)
            if victim is None:
                break
            victim.streams.drop(victim)

    def _first_delivered(self, newest: EventStream) -> EventStream | None:
        # Undelivered streams are moved away, so that the next search need not look at them again.
        while (stream := _first(self.streams, newest)) is not None and not stream.is_delivered:
            del self.streams[stream]
            self.undelivered[stream] = None
            stream.is_listed_undelivered = True
        return stream


def _first(streams: Iterable[EventStream], newest: EventStream) -> EventStream | None:
    return next((stream for stream in streams if stream is not newest and stream.can_be_dropped), None)


class SessionStreams:
    """The named streams of one session."""

    def __init__(self, next_id: Callable[[], object], retention: Retention) -> None:
        self.size = 0
        self._next_id = next_id
        self._retention = retention
        self._named: dict[str, EventStream] = {}

    def __iter__(self) -> Iterator[EventStream]:
        return iter(self._named.values())

    def __len__(self) -> int:
        return len(self._named)

    def get(self, name: str) -> EventStream | None:
        """Return the stream of a name, if it is kept."""
        return self._named.get(name)

    def keep(self, stream: EventStream) -> str:
        """Keep a stream, and return its new name; a finished stream is forgotten when there are too many."""
        name = str(self._next_id())
        self._named[name] = stream
        if len(self._named) > MAX_STREAMS:
            finished = [kept for kept in self if kept.is_finished]
            oldest = next((kept for kept in finished if kept.is_delivered), finished[0] if finished else None)
            if oldest is not None:
                self.forget(oldest)
        return name

    def forget(self, stream: EventStream) -> None:
        """Forget a stream: no client can come back to it."""
        if stream.assigned_name:
            self._named.pop(stream.assigned_name, None)
            self._drop_events(stream)

    def drop(self, stream: EventStream) -> None:
        """Drop the events of a stream; a finished stream is forgotten."""
        if stream.is_finished:
            self.forget(stream)
        else:
            self._drop_events(stream)

    def _drop_events(self, stream: EventStream) -> None:
        self._retention.streams.pop(stream, None)
        self._retention.undelivered.pop(stream, None)
        self.size -= stream.size
        self._retention.size -= stream.size
        stream.drop_events()

    def grow(self, stream: EventStream, size: int) -> None:
        """Count the bytes of an event that was added to a stream, and make room for it."""
        retention = self._retention
        self.size += size
        retention.size += size
        if stream.size == size:
            retention.streams[stream] = None
        if self.size > MAX_SESSION_BYTES:
            self._make_room(stream)
        if retention.size > retention.max_bytes:
            retention.make_room(stream)

    def mark_delivered(self, stream: EventStream) -> None:
        """List a stream as delivered that was listed as undelivered."""
        stream.is_listed_undelivered = False
        del self._retention.undelivered[stream]
        self._retention.streams[stream] = None

    def _make_room(self, newest: EventStream) -> None:
        for is_delivered in (True, False):
            for stream in list(self):
                if self.size <= MAX_SESSION_BYTES:
                    return
                is_other = stream is not newest and stream.size > 0 and stream.can_be_dropped
                if is_other and stream.is_delivered is is_delivered:
                    self.drop(stream)

    def close(self) -> None:
        """Forget every stream; events that are added later count for no other session."""
        for stream in list(self):
            self.forget(stream)
        self._retention = Retention()
