"""`ResumableStream`: an event stream of a session that a client can resume, and the bounds on the events that are kept.

A `ResumableStream` has a log of numbered events and at most one reader (`StreamReader`). If the connection of the
reader breaks, the log is kept. A client that resumes the stream with `Last-Event-ID` receives the events after that
one.

A stream has four states:

    idle        no exchange reads the stream, and more events may follow
    read        an exchange reads the stream, and more events may follow
    finishing   the last event was added, and an exchange is reading the rest
    finished    the last event was added, and no exchange reads the stream

    idle      --attach-->  read
    idle      --finish-->  finished
    read      --detach-->  idle
    read      --finish-->  finishing
    finishing --detach-->  finished
    finished  --attach-->  finishing

If the store reaches other processes, a stream also has a `StreamLogWriter`, by which a client can resume the stream in
another process (`resumption`).

`StreamTable` holds the streams of one session, and `Retention` those of all sessions of an application. Both bound
the bytes of the kept events. Beyond the bound, delivered streams are dropped first, then undelivered streams, the
oldest first. The stream that just grew is not dropped, and neither is a stream that is being written to its reader.

The alternative is to write an event to the connection and to the log. Here every event goes from the log to the reader,
so that one code path serves a fast reader, a slow reader and a reader that resumes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from dragoman import types
from dragoman.protocol import sse
from dragoman.protocol.states import Transitions
from dragoman.runtime.tasks import keep_until_done
from dragoman.server.http.resumption import SharedLogs, StreamLogWriter, StreamName
from dragoman.server.http.workers import StreamFollowed, StreamState
from dragoman.stores.contract import MAX_LOG_BYTES, MAX_LOG_EVENTS
from dragoman.transports.http.exchange import Exchange

RETRY_MILLISECONDS = 1000
END_SECONDS = 1.0
"""The seconds that detached readers have to read their last bytes when the stream is closed."""
MAX_STREAMS = 100
"""The number of named streams of a session beyond which finished streams are forgotten."""
MAX_SESSION_BYTES = 16 * 1024 * 1024
MAX_BYTES = 64 * 1024 * 1024
STREAM_BYTES = 2048
"""The bytes that a stream counts for beside its events."""

StreamLife = Literal["idle", "read", "finishing", "finished"]
STREAM_LIFE: Transitions[StreamLife, Literal["attach", "detach", "finish"]] = Transitions(
    {
        "idle": {"attach": "read", "finish": "finished"},
        "read": {"detach": "idle", "finish": "finishing"},
        "finishing": {"detach": "finished"},
        "finished": {"attach": "finishing"},
    }
)


class StreamReader:
    """The client that reads an event stream by one HTTP exchange.

    A reader is reading until it is released, once: the client is gone, the server ends, a newer reader has the stream,
    or the last event was sent.
    """

    def __init__(
        self,
        exchange: Exchange,
        stream: ResumableStream | None = None,
        *,
        opening: Callable[[], bytes] | None = None,
        ends_with_server: bool = True,
        start: int = 0,
    ) -> None:
        self.exchange = exchange
        self._stream = stream
        """The stream, if it is one of this process; it is told of the release."""
        self.start = start
        """The number of the event after which the client reads."""
        self.written = start
        """The number of the newest event that was passed to the exchange."""
        self.released: asyncio.Future[None] = exchange.loop.create_future()
        """Is done when the exchange carries no more events of the stream."""
        exchange.opening = opening
        exchange.on_gone = self.release
        exchange.on_ending = self.release if ends_with_server else None
        if exchange.gone:  # `on_gone` is called only once, and that was before this call
            self.release()

    @property
    def is_released(self) -> bool:
        """Whether the exchange carries no more events of the stream."""
        return self.released.done()

    async def send(self, data: bytes, *, last: bool = False) -> None:
        """Send encoded events."""
        await self.exchange.stream(data, last=last)

    def release(self) -> None:
        """End the reading; the exchange stays open until `end` is called."""
        if not self.released.done():
            self.released.set_result(None)
            self.exchange.on_gone = self.exchange.on_ending = self.exchange.opening = None
            if self._stream is not None:
                self._stream.reader_released(self)

    async def wait_released(self) -> None:
        """Wait until the exchange carries no more events; a cancellation of the caller releases nothing."""
        await asyncio.shield(self.released)

    async def end(self) -> None:
        """End an exchange that does not carry the response of its request.

        The status is not an error: a client that receives 404 would conclude that its request did not run, and repeat
        it.
        """
        await self.exchange.stream(b"", last=True)


class RecentEvents:
    """The newest events of a stream in the memory of this process; the newest one is always kept."""

    def __init__(self) -> None:
        self.size = 0
        self._events: deque[bytes] = deque()

    def append(self, event: bytes) -> None:
        """Add an event, and drop the oldest events beyond the limits."""
        self._events.append(event)
        self.size += len(event)
        while len(self._events) > 1 and (len(self._events) > MAX_LOG_EVENTS or self.size > MAX_LOG_BYTES):
            self.size -= len(self._events.popleft())

    def newest(self, count: int) -> list[bytes]:
        """Return the newest events, at most `count`."""
        return [self._events[index] for index in range(-min(count, len(self._events)), 0)]


class ResumableStream:
    """The event stream of one request, or the standalone stream of a session.

    `add` numbers an event and appends it to the log. `flush` writes the events that the reader has not received. Adding
    an event is therefore the same with a fast reader, a slow reader and no reader. A stream gets a name with its first
    event; `StreamTable` finds a stream by its name. Most streams never have an event.
    """

    state: StreamLife = "idle"
    reader: StreamReader | None = None
    sequence = 0
    """The number of the last event; 0 if the stream never had an event."""
    assigned_name = ""
    """The name by which a client resumes the stream; empty if the stream has no name yet."""
    size = 0
    """The number of bytes that the stream counts for; 0 if no events are kept."""
    is_listed_undelivered = False
    """Whether the stream is in `Retention.undelivered`."""

    delivered = 0
    """The number of the newest event that was written to a client."""
    shared: StreamLogWriter | None = None
    """The log of the stream in the store; None if no other process can read it, or the stream has no events."""

    _events: RecentEvents | None = None
    _writing: asyncio.Lock | None = None
    _flushing: asyncio.Task[None] | None = None
    _ending: set[asyncio.Task[None]] | None = None

    def __init__(
        self, streams: StreamTable, *, sends_priming_event: bool, request_id: types.RequestId | None = None
    ) -> None:
        self.streams = streams
        self.request_id = request_id
        """The request whose stream this is; None for a standalone stream."""
        self.sends_priming_event = sends_priming_event

    @property
    def is_finished(self) -> bool:
        """Whether the last event was added."""
        return self.state in ("finishing", "finished")

    @property
    def name(self) -> str:
        """The name of the stream; the first access assigns it."""
        if not self.assigned_name:
            self.assigned_name = self.streams.keep(self)
        return self.assigned_name

    @property
    def is_delivered(self) -> bool:
        """Whether every event was written to a client."""
        return self.delivered == self.sequence

    @property
    def can_be_dropped(self) -> bool:
        """Whether no event is being written, or waits to be written, to a reader."""
        is_writing = self._writing is not None and self._writing.locked()
        return self.reader is None or (self.reader.written == self.sequence and not is_writing)

    def attach(self, exchange: Exchange, after: int | None = None) -> StreamReader:
        """Make an exchange the reader of the events after the number `after`, or of new events; detach an earlier one.

        When the reader is released, its exchange is ended.
        """
        self.detach()
        reader = StreamReader(
            exchange,
            self,
            opening=self.priming_event if self.sends_priming_event else None,
            ends_with_server=self.request_id is None,
            start=self.sequence if after is None else min(after, self.sequence),
        )
        if self.shared is not None:
            self.shared.follower = None
        if not reader.is_released:
            self.state = STREAM_LIFE[self.state, "attach"]
            self.reader = reader
        return reader

    def priming_event(self) -> bytes:
        """Return the first event of a response; its id lets a client resume the stream before the first message.

        A client that resumes a stream receives its own cursor: some clients forget it when they open a stream.
        """
        start = self.sequence if self.reader is None else self.reader.start
        return sse.priming_event(f"{self.name}-{start}", RETRY_MILLISECONDS)

    def detach(self) -> None:
        """Release the reader, if there is one; the stream stays."""
        if self.reader is not None:
            self.reader.release()

    def reader_released(self, reader: StreamReader) -> None:
        """Go on without a reader, and end its exchange."""
        if self.reader is not reader:
            return
        self.state = STREAM_LIFE[self.state, "detach"]
        self.reader = None
        if self.shared is not None:
            self.shared.schedule()
        if not reader.exchange.ended and not reader.exchange.gone:
            if self._ending is None:
                self._ending = set()
            keep_until_done(reader.exchange.loop.create_task(reader.end()), self._ending)

    def add(self, message: bytes, *, last: bool = False) -> None:
        """Add a message as an event, and schedule its writing; a finished stream ignores further messages."""
        if self.is_finished:
            return
        self.sequence += 1
        events = self._events
        if events is None:
            events = self._events = RecentEvents()
        events.append(sse.encode(message, id=f"{self.name}-{self.sequence}"))
        if last:
            self.state = STREAM_LIFE[self.state, "finish"]
        before, self.size = self.size, events.size + STREAM_BYTES
        self.streams.grow(self, self.size - before)
        if self.reader is not None and (self._flushing is None or self._flushing.done()):
            self._flushing = self.reader.exchange.loop.create_task(self.flush())
        shared = self._open_shared()
        if shared is not None:
            shared.schedule()

    def _open_shared(self) -> StreamLogWriter | None:
        if self.shared is None and self.streams.logs is not None:
            self.shared = StreamLogWriter(self, self.streams.logs)
        return self.shared

    def kept_after(self, sequence: int) -> list[bytes]:
        """Return the events after a number that this process keeps."""
        return [] if self._events is None else self._events.newest(self.sequence - sequence)

    def drop_events(self) -> None:
        """Forget the events that were added so far; those that no client received stay in the log of the store."""
        if self.shared is not None:
            self.shared.write(appends_now=True)
        self._events = None
        self.size = 0
        self.is_listed_undelivered = False

    def hand_over(self, message: StreamFollowed) -> StreamState:
        """Let a client read the stream in another process, or reply to the check of a process where it does."""
        shared = self._open_shared()
        follower = message.worker, message.reader
        if shared is None or (message.is_check and shared.follower != follower):
            return StreamState(is_taken=True)
        shared.follower = follower
        self.detach()
        shared.write(appends_now=True)
        return StreamState(sequence=self.sequence, is_finished=self.is_finished)

    async def flush(self) -> None:
        """Write the events that the reader has not received; after the last event, detach the reader."""
        if not self.sequence:
            return
        if self._writing is None:
            self._writing = asyncio.Lock()
        async with self._writing:
            while (reader := self.reader) is not None:
                last = self.state == "finishing"
                if reader.written == self.sequence and not last:
                    break
                missed = self.kept_after(reader.written)
                reader.written = self.sequence
                await reader.send(b"".join(missed), last=last)
                if not reader.exchange.gone:
                    self.delivered = reader.written
                if last:
                    reader.release()
            if self.is_listed_undelivered and self.is_delivered:
                self.streams.mark_delivered(self)

    async def release_client(self) -> None:
        """Detach the reader before the last event, if the client got a priming event and so can resume the stream."""
        reader = self.reader
        if self.sends_priming_event and reader is not None:
            await reader.send(b"")
            await self.flush()
            reader.release()

    async def close(self) -> None:
        """Detach the reader, and wait until all writing has ended."""
        self.detach()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.wait([self._flushing])
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=END_SECONDS)
            for ending in late:
                ending.cancel()
        if self.shared is not None:
            await self.shared.close()


class Retention:
    """The streams with kept events of all sessions, and the sum of their bytes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.size = 0
        self.max_bytes = max_bytes
        self.streams: OrderedDict[ResumableStream, None] = OrderedDict()
        """The streams in the order of their first events, without those in `undelivered`."""
        self.undelivered: OrderedDict[ResumableStream, None] = OrderedDict()
        """The streams that `make_room` found undelivered; `mark_delivered` moves a stream back."""

    def make_room(self, newest: ResumableStream) -> None:
        """Drop streams other than `newest` until the rest fits."""
        while self.size > self.max_bytes:
            victim = self._first_delivered(newest) or _first(self.undelivered, newest)
            if victim is None:
                break
            victim.streams.drop(victim)

    def _first_delivered(self, newest: ResumableStream) -> ResumableStream | None:
        # Undelivered streams are moved to `undelivered`, so that the next search skips them.
        while (stream := _first(self.streams, newest)) is not None and not stream.is_delivered:
            del self.streams[stream]
            self.undelivered[stream] = None
            stream.is_listed_undelivered = True
        return stream


def _first(streams: Iterable[ResumableStream], newest: ResumableStream) -> ResumableStream | None:
    return next((stream for stream in streams if stream is not newest and stream.can_be_dropped), None)


class StreamTable:
    """The named streams of one session."""

    def __init__(
        self,
        next_id: Callable[[], object],
        retention: Retention,
        logs: SharedLogs | None = None,
    ) -> None:
        self.size = 0
        self.logs = logs
        """The logs of the streams in the store; None if no other process could read them."""
        self._next_id = next_id
        self._retention = retention
        self._named: dict[str, ResumableStream] = {}

    def __iter__(self) -> Iterator[ResumableStream]:
        return iter(self._named.values())

    def __len__(self) -> int:
        return len(self._named)

    def get(self, name: str) -> ResumableStream | None:
        """Return the stream of a name; None if it is not kept."""
        return self._named.get(name)

    def keep(self, stream: ResumableStream) -> str:
        """Keep a stream under a new name, and return the name; forget a finished stream if there are too many."""
        name = StreamName.encode(str(self._next_id()), stream.request_id)
        self._named[name] = stream
        if len(self._named) > MAX_STREAMS:
            finished = [kept for kept in self if kept.is_finished]
            oldest = next((kept for kept in finished if kept.is_delivered), finished[0] if finished else None)
            if oldest is not None:
                self.forget(oldest)
        return name

    def forget(self, stream: ResumableStream) -> None:
        """Forget a stream; no client can resume it."""
        if stream.assigned_name:
            self._named.pop(stream.assigned_name, None)
            self._drop_events(stream)

    def drop(self, stream: ResumableStream) -> None:
        """Drop the events of a stream, and forget the stream if it is finished."""
        if stream.is_finished:
            self.forget(stream)
        else:
            self._drop_events(stream)

    def _drop_events(self, stream: ResumableStream) -> None:
        self._retention.streams.pop(stream, None)
        self._retention.undelivered.pop(stream, None)
        self.size -= stream.size
        self._retention.size -= stream.size
        stream.drop_events()

    def grow(self, stream: ResumableStream, size: int) -> None:
        """Count the bytes of an event that was added to a stream, and drop other streams beyond the bounds."""
        retention = self._retention
        self.size += size
        retention.size += size
        if stream.size == size:
            retention.streams[stream] = None
        if self.size > MAX_SESSION_BYTES:
            self._make_room(stream)
        if retention.size > retention.max_bytes:
            retention.make_room(stream)

    def mark_delivered(self, stream: ResumableStream) -> None:
        """Move a stream from `undelivered` back to the streams of `Retention`."""
        stream.is_listed_undelivered = False
        del self._retention.undelivered[stream]
        self._retention.streams[stream] = None

    def _make_room(self, newest: ResumableStream) -> None:
        for is_delivered in (True, False):
            for stream in list(self):
                if self.size <= MAX_SESSION_BYTES:
                    return
                is_other = stream is not newest and stream.size > 0 and stream.can_be_dropped
                if is_other and stream.is_delivered is is_delivered:
                    self.drop(stream)

    def close(self) -> None:
        """Forget every stream; events that are added later do not count for the other sessions."""
        for stream in list(self):
            self.forget(stream)
        self._retention = Retention()
