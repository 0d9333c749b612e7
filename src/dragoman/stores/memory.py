"""A store for one process alone."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

MOST_EVENTS = 1000
MOST_BYTES = 16 * 1024 * 1024


class Memory:
    """Keeps everything in this process; other workers hear of nothing.

    Example:
        app = server.asgi(store=stores.Memory())
    """

    def bus(self, group: str) -> Solitude:  # noqa: ARG002
        """Return a bus that nobody else is on."""
        return Solitude()

    def event_log(self, stream: str) -> MemoryLog:  # noqa: ARG002
        """Return an empty log."""
        return MemoryLog()


class Solitude:
    """A bus that nobody else is on."""

    def __init__(self) -> None:
        self.name = os.urandom(4).hex()

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Return at once: nobody will be heard."""

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:  # noqa: ARG002
        """Return at once: nobody replies."""
        return []

    async def close(self) -> None:
        """Do nothing."""


class MemoryLog:
    """Events in a queue, bounded in number and in bytes; the newest is kept whatever its size."""

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._events: deque[tuple[int, bytes]] = deque()
        self.size = 0
        self._most_events = most_events
        self._most_bytes = most_bytes

    def append(self, sequence: int, event: bytes) -> None:
        """Keep an event, and as many before it as there is room for."""
        self._events.append((sequence, event))
        self.size += len(event)
        while len(self._events) > 1 and (len(self._events) > self._most_events or self.size > self._most_bytes):
            self.size -= len(self._events.popleft()[1])

    async def after(self, sequence: int) -> bytes:
        """Return the events after a sequence that are still kept."""
        return b"".join(event for number, event in self._events if number > sequence)
