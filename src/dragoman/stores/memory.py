"""A store for one process alone."""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable

MOST_EVENTS = 1000
MOST_BYTES = 16 * 1024 * 1024
MOST_VALUES = 100_000


class Memory:
    """Keeps everything in this process; other workers hear of nothing.

    Example:
        app = server.asgi(store=stores.Memory())
    """

    def __init__(self) -> None:
        self._states: dict[str, MemoryState] = {}

    def __repr__(self) -> str:
        return f"<Memory store: {len(self._states)} namespaces>"

    def bus(self, group: str) -> Solitude:  # noqa: ARG002
        """Return a bus that nobody else is on."""
        return Solitude()

    def event_log(self, stream: str) -> MemoryLog:  # noqa: ARG002
        """Return an empty log."""
        return MemoryLog()

    def state(self, namespace: str) -> MemoryState:
        """Return the values of a namespace, which end with this process."""
        return self._states.setdefault(namespace, MemoryState())


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


class MemoryState:
    """Values in a dictionary, bounded in number; the oldest gives way."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, unless there is none or it has expired."""
        expires_at, value = self._values.get(key, (0.0, None))
        return value if expires_at > self._clock() else None

    async def set(self, key: str, value: bytes, *, ttl: float) -> None:
        """Keep a value for so many seconds."""
        self._values[key] = self._clock() + ttl, value
        self._values.move_to_end(key)
        if len(self._values) > MOST_VALUES:
            self._values.popitem(last=False)
