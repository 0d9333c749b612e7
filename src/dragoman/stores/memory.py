"""A store in the memory of one process."""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable

MAX_EVENTS = 1000
MAX_BYTES = 16 * 1024 * 1024
MAX_VALUES = 100_000


class Memory:
    """A store in the memory of this process; other workers do not see its content.

    Example:
        app = server.asgi(store=stores.Memory())
    """

    def __init__(self) -> None:
        self._states: dict[str, MemoryState] = {}

    def __repr__(self) -> str:
        return f"<Memory store: {len(self._states)} namespaces>"

    def bus(self, group: str) -> MemoryBus:  # noqa: ARG002
        """Return a bus without other processes."""
        return MemoryBus()

    def event_log(self, stream: str) -> MemoryLog:  # noqa: ARG002
        """Return an empty log."""
        return MemoryLog()

    def state(self, namespace: str) -> MemoryState:
        """Return the values of a namespace; they end with this process."""
        return self._states.setdefault(namespace, MemoryState())


class MemoryBus:
    """A bus without other processes."""

    def __init__(self) -> None:
        self.name = os.urandom(4).hex()

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Do nothing, because no other process sends messages."""

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:  # noqa: ARG002
        """Return no replies."""
        return []

    async def close(self) -> None:
        """Do nothing."""


class MemoryLog:
    """Events in a queue, bounded in number and in bytes; the newest event is always kept."""

    def __init__(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._events: deque[tuple[int, bytes]] = deque()
        self.size = 0
        self._max_events = max_events
        self._max_bytes = max_bytes

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event, and drop the oldest ones beyond the limits."""
        self._events.append((sequence, event))
        self.size += len(event)
        while len(self._events) > 1 and (len(self._events) > self._max_events or self.size > self._max_bytes):
            self.size -= len(self._events.popleft()[1])

    async def after(self, sequence: int) -> bytes:
        """Return the events after a sequence that are still kept."""
        return b"".join(event for number, event in self._events if number > sequence)


class MemoryState:
    """Values in a dictionary. Beyond MAX_VALUES, the oldest value is dropped."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, unless there is none or it has expired."""
        expires_at, value = self._values.get(key, (0.0, None))
        return value if expires_at > self._clock() else None

    async def set(self, key: str, value: bytes, *, ttl: float) -> None:
        """Keep a value for `ttl` seconds."""
        self._values[key] = self._clock() + ttl, value
        self._values.move_to_end(key)
        if len(self._values) > MAX_VALUES:
            self._values.popitem(last=False)
