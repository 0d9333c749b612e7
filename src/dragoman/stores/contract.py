"""The contracts of a store; whoever writes one for a database or a broker implements these four."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Bus(Protocol):
    """Carries messages between the processes of one group; no message comes back to its sender."""

    @property
    def name(self) -> str:
        """How others address this process: letters and digits, unlike that of any other."""
        ...

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group: each message is given to `receive`, whose reply goes back to the sender."""
        ...

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message to every other process, or to one, and return the replies of those who gave one in time."""
        ...

    async def close(self) -> None:
        """Leave the group; more than once is harmless."""
        ...


class EventLog(Protocol):
    """The events of one stream, for clients that come back; bounded, so that the oldest give way."""

    @property
    def size(self) -> int:
        """How many bytes of events it holds in the memory of this process; none, if it keeps them elsewhere."""
        ...

    def append(self, sequence: int, event: bytes) -> None:
        """Keep an event; sequences ascend."""
        ...

    async def after(self, sequence: int) -> bytes:
        """Return the events after a sequence that are still kept, one after the other."""
        ...


class State(Protocol):
    """Small values by key, each for a time, which are there when the processes start again; bounded in number."""

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, unless there is none or it has expired."""
        ...

    async def set(self, key: str, value: bytes, *, ttl: float) -> None:
        """Keep a value for so many seconds; when this returns, other processes find it."""
        ...


class Store(Protocol):
    """Where a server's workers keep and share what is not in a session's id."""

    def bus(self, group: str) -> Bus:
        """Return a new, unopened bus to the processes that name the same group."""
        ...

    def event_log(self, stream: str) -> EventLog:
        """Return the empty log of a new stream."""
        ...

    def state(self, namespace: str) -> State:
        """Return the values of those who name the same namespace."""
        ...
