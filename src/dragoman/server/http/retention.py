"""What is kept of the streams of sessions, so that clients can come back to them, and how many bytes that may take.

Each session has a bound, and all sessions of the process together have one. Beyond a bound, streams whose every event
was written to a client go first, and then those that wait for their client; of each kind the oldest goes first. What a
client is reading at the moment is not taken from it, and neither is what was added last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.server.http.streams import EventStream

MOST_STREAMS = 100
MOST_SESSION_BYTES = 16 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
STREAM_BYTES = 2048
"""What a stream takes beside its events."""


class Retention:
    """The streams of all sessions that have events, and how many bytes they take."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.size = 0
        self.most_bytes = most_bytes
        self.streams: OrderedDict[EventStream, SessionStreams] = OrderedDict()
        """In the order of their first events."""
        self.waiting: OrderedDict[EventStream, SessionStreams] = OrderedDict()
        """Streams that were found to wait for their client; a stream leaves when its client has read it."""

    def make_room(self, newest: EventStream) -> None:
        """Drop the events of other streams until those that are left fit."""
        while self.size > self.most_bytes:
            victim = self._first_delivered(newest) or _first(self.waiting, newest)
            if victim is None:
                break
            self._session_of(victim).drop(victim)

    def _first_delivered(self, newest: EventStream) -> EventStream | None:
        # Each stream is found to wait only once, so that the next search need not look at it again.
        while (stream := _first(self.streams, newest)) is not None and not stream.is_delivered:
            self.waiting[stream] = self.streams.pop(stream)
            stream.is_waiting = True
        return stream

    def _session_of(self, stream: EventStream) -> SessionStreams:
        return self.waiting[stream] if stream.is_waiting else self.streams[stream]


def _first(streams: Iterable[EventStream], newest: EventStream) -> EventStream | None:
    return next((stream for stream in streams if stream is not newest and stream.may_go), None)


class SessionStreams:
    """The streams of one session, by their names."""

    def __init__(self, mint: Callable[[], object], whole: Retention) -> None:
        self.size = 0
        self._mint = mint
        self._whole = whole
        self._named: dict[str, EventStream] = {}

    def __iter__(self) -> Iterator[EventStream]:
        return iter(self._named.values())

    def __len__(self) -> int:
        return len(self._named)

    def get(self, name: str) -> EventStream | None:
        """Return the stream of a name, if it is kept."""
        return self._named.get(name)

    def keep(self, stream: EventStream) -> str:
        """Keep a stream, and return its name; a stream that has ended is forgotten when there are too many."""
        name = str(self._mint())
        self._named[name] = stream
        if len(self._named) > MOST_STREAMS:
            ended = [kept for kept in self if kept.is_finished]
            oldest = next((kept for kept in ended if kept.is_delivered), ended[0] if ended else None)
            if oldest is not None:
                self.forget(oldest)
        return name

    def forget(self, stream: EventStream) -> None:
        """Keep a stream no longer: nobody can come back to it."""
        if stream.kept_as:
            self._named.pop(stream.kept_as, None)
            self._let_go(stream)

    def drop(self, stream: EventStream) -> None:
        """Drop the events of a stream; one that has ended is forgotten."""
        if stream.is_finished:
            self.forget(stream)
        else:
            self._let_go(stream)

    def _let_go(self, stream: EventStream) -> None:
        self._whole.streams.pop(stream, None)
        self._whole.waiting.pop(stream, None)
        self.size -= stream.size
        self._whole.size -= stream.size
        stream.drop_events()

    def grown(self, stream: EventStream, size: int) -> None:
        """Note that an event was added to a stream, which takes so many bytes more now."""
        whole = self._whole
        self.size += size
        whole.size += size
        if stream.size == size:
            whole.streams[stream] = self
        if self.size > MOST_SESSION_BYTES:
            self._make_room(stream)
        if whole.size > whole.most_bytes:
            whole.make_room(stream)

    def delivered(self, stream: EventStream) -> None:
        """Note that every event of a stream that waited for its client was written to it."""
        stream.is_waiting = False
        self._whole.streams[stream] = self._whole.waiting.pop(stream)

    def _make_room(self, newest: EventStream) -> None:
        for is_delivered in (True, False):
            for stream in list(self):
                if self.size <= MOST_SESSION_BYTES:
                    return
                if stream is not newest and stream.size and stream.may_go and stream.is_delivered is is_delivered:
                    self.drop(stream)

    def close(self) -> None:
        """Keep nothing; what is added from now on counts for nobody else."""
        for stream in list(self):
            self.forget(stream)
        self._whole = Retention()
