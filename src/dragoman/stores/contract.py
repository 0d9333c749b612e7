"""The contracts of a store: `Store`, `Bus`, `EventLog` and `State`. Implement them for a database or a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Bus(Protocol):
    """Carries messages between the processes of one group; a sender does not receive its own messages."""

    @property
    def name(self) -> str:
        """The unique name of this process on the bus: letters and digits."""
        ...

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group. The bus calls `receive` with each message and sends its return value back as the reply."""
        ...

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message to every other process, or to the process `to`, and return the replies that come in time."""
        ...

    async def close(self) -> None:
        """Leave the group; may be called more than once."""
        ...


class EventLog(Protocol):
    """The events of one stream, for clients that resume it. The log is bounded and drops its oldest events."""

    @property
    def size(self) -> int:
        """How many bytes of events the log holds in the memory of this process; 0 if it keeps them elsewhere."""
        ...

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event; sequence numbers ascend."""
        ...

    async def after(self, sequence: int) -> bytes:
        """Return the kept events after a sequence number, joined."""
        ...


class State(Protocol):
    """Small values by key. Each value has a time to live and survives restarts. The number of values is bounded."""

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, unless there is none or it has expired."""
        ...

    async def set(self, key: str, value: bytes, *, ttl: float) -> None:
        """Keep a value for `ttl` seconds; other processes see it when this returns."""
        ...


class Store(Protocol):
    """Makes the buses, event logs and states that the workers of a server share."""

    def bus(self, group: str) -> Bus:
        """Return a new, unopened bus to the processes that name the same group."""
        ...

    def event_log(self, stream: str) -> EventLog:
        """Return the empty log of a new stream."""
        ...

    def state(self, namespace: str) -> State:
        """Return the values of a namespace."""
        ...
