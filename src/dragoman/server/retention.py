"""What is kept of the streams of sessions, so that clients can come back to them, and how many bytes that may take.

Each session has a bound, and all sessions of the process together have one. Beyond a bound, streams whose every event
was written to a client go first, and then those that wait for their client; of each kind the oldest goes first. What a
client is reading at the moment is not taken from it, and neither is what was added last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.server.streams import EventStream

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
        self.delivered: OrderedDict[EventStream, SessionStreams] = OrderedDict()
        """Streams whose every event was written to a client."""
        self.waiting: OrderedDict[EventStream, SessionStreams] = OrderedDict()
        """Streams with events that no client was given yet."""

    def make_room(self, newest: EventStream) -> None:
        """Drop the events of other streams until those that are left fit."""
        for kept in (self.delivered, self.waiting):
            while self.size > self.most_bytes:
                victim = next((stream for stream in kept if stream is not newest and stream.may_go), None)
                if victim is None:
                    break
                kept[victim].drop(victim)


class SessionStreams:
    """The streams of one session, by their names."""

    def __init__(self, mint: Callable[[], str], whole: Retention) -> None:
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
        name = self._mint()
        self._named[name] = stream
        if len(self._named) > MOST_STREAMS:
            ended = [kept for kept in self if kept.finished]
            oldest = next((kept for kept in ended if kept in self._whole.delivered), ended[0] if ended else None)
            if oldest is not None:
                self.forget(oldest)
        return name

    def forget(self, stream: EventStream) -> None:
        """Keep a stream no longer: nobody can come back to it."""
        if stream.is_named:
            self._named.pop(stream.name, None)
            self._let_go(stream)

    def drop(self, stream: EventStream) -> None:
        """Drop the events of a stream; one that has ended is forgotten."""
        if stream.finished:
            self.forget(stream)
        else:
            self._let_go(stream)

    def _let_go(self, stream: EventStream) -> None:
        self._whole.delivered.pop(stream, None)
        self._whole.waiting.pop(stream, None)
        self.size -= stream.size
        self._whole.size -= stream.size
        stream.drop_events()

    def grown(self, stream: EventStream, size: int) -> None:
        """Note that an event was added to a stream, which takes so many bytes more now."""
        whole = self._whole
        self.size += size
        whole.size += size
        whole.delivered.pop(stream, None)
        whole.waiting[stream] = self
        if self.size > MOST_SESSION_BYTES:
            self._make_room(stream)
        if whole.size > whole.most_bytes:
            whole.make_room(stream)

    def delivered(self, stream: EventStream) -> None:
        """Note that every event of a stream was written to a client."""
        if self._whole.waiting.pop(stream, None) is not None:
            self._whole.delivered[stream] = self

    def _make_room(self, newest: EventStream) -> None:
        for kept in (self._whole.delivered, self._whole.waiting):
            for stream in list(self):
                if self.size <= MOST_SESSION_BYTES:
                    return
                if stream in kept and stream is not newest and stream.may_go:
                    self.drop(stream)

    def close(self) -> None:
        """Keep nothing; what is added from now on counts for nobody else."""
        for stream in list(self):
            self.forget(stream)
        self._whole = Retention()
