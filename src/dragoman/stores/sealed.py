"""`SealedStore`: wraps the store of a server, so that an engine sees no plain text.

The values of logs, states and tasks are encrypted with the key ring of the server, each for its own purpose: a value
that is copied to another key, stream or task does not open. Messages between machines are encrypted too; those between
the processes of one machine travel through a folder that only their user may enter. Names and keys become digests, so
that an engine may use them in file names and keys.

A value that does not open counts as absent: it is of another key ring, or somebody changed it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Callable

from dragoman.protocol.tokens import NONCE_BYTES, KeyRing
from dragoman.stores.contract import Bus, EventLog, Reach, Revised, State, Store, TaskPhase, TaskRecord, Tasks

_logger = logging.getLogger("dragoman.stores")


class SealedStore:
    """A store whose engine sees no plain text.

    Example:
        store = SealedStore(Redis("redis://localhost"), ring)
    """

    def __init__(self, engine: Store, ring: KeyRing) -> None:
        self.engine = engine
        self._ring = ring

    def __repr__(self) -> str:
        return f"<Sealed {self.engine!r}>"

    @property
    def reach(self) -> Reach:
        """How far the engine reaches."""
        return self.engine.reach

    def bus(self, group: str) -> Bus:
        """Return a bus of the engine; between machines, its messages are encrypted."""
        bus = self.engine.bus(digest(group))
        return SealedBus(bus, _Cipher(self._ring, f"bus {group}")) if self.reach == "network" else bus

    def log(self, stream: str) -> EventLog:
        """Return the log of a stream with encrypted events."""
        return SealedLog(self.engine.log(digest(stream)), _Cipher(self._ring, f"log {stream}"))

    def state(self, namespace: str, *, max_values: int = 100_000) -> State:
        """Return the values of a namespace, which are encrypted."""
        return SealedState(self.engine.state(digest(namespace), max_values=max_values), self._ring, namespace)

    def tasks(self, namespace: str, *, max_tasks: int = 100_000, max_per_owner: int = 10_000) -> Tasks:
        """Return the tasks of a namespace, whose values are encrypted."""
        tasks = self.engine.tasks(digest(namespace), max_tasks=max_tasks, max_per_owner=max_per_owner)
        return SealedTasks(tasks, self._ring, namespace)

    async def now(self) -> float:
        """Return the time of the engine."""
        return await self.engine.now()

    async def close(self) -> None:
        """Close the engine."""
        await self.engine.close()


class _Cipher:
    """Encrypts and decrypts for one purpose."""

    def __init__(self, ring: KeyRing, purpose: str) -> None:
        self._ring = ring
        self._purpose = purpose

    def encrypt(self, value: bytes) -> bytes:
        return self._ring.encrypt(self._purpose, value, os.urandom(NONCE_BYTES))

    def decrypt(self, data: bytes) -> bytes | None:
        value = self._ring.decrypt(self._purpose, data)
        if value is None:
            _logger.warning("A value of the store was not made with the keys of this server, and is ignored")
        return value


class SealedBus:
    """A bus with encrypted messages and replies."""

    def __init__(self, bus: Bus, cipher: _Cipher) -> None:
        self._bus = bus
        self._cipher = cipher

    @property
    def name(self) -> str:
        """The name of this process on the bus."""
        return self._bus.name

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group; messages that do not decrypt get an empty reply."""

        def receive_sealed(data: bytes) -> bytes:
            message = self._cipher.decrypt(data)
            return b"" if message is None else self._cipher.encrypt(receive(message))

        await self._bus.open(receive_sealed)

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message, and return the replies that decrypt."""
        replies = [self._cipher.decrypt(reply) for reply in await self._bus.publish(self._cipher.encrypt(message), to)]
        return [reply for reply in replies if reply is not None]

    async def close(self) -> None:
        """Leave the group."""
        await self._bus.close()


class SealedLog:
    """The log of a stream with encrypted events."""

    def __init__(self, log: EventLog, cipher: _Cipher) -> None:
        self._log = log
        self._cipher = cipher

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event."""
        self._log.append(sequence, self._cipher.encrypt(event))

    async def flush(self) -> None:
        """Wait until every appended event is written."""
        await self._log.flush()

    async def after(self, sequence: int) -> list[tuple[int, bytes]]:
        """Return the kept events after a number."""
        opened = [(number, self._cipher.decrypt(event)) for number, event in await self._log.after(sequence)]
        return [(number, event) for number, event in opened if event is not None]

    async def delete(self) -> None:
        """Delete every event."""
        await self._log.delete()


class SealedState:
    """The values of a namespace, encrypted by key."""

    def __init__(self, state: State, ring: KeyRing, namespace: str) -> None:
        self._state = state
        self._ring = ring
        self._namespace = namespace

    def _cipher(self, key: str) -> _Cipher:
        return _Cipher(self._ring, f"state {len(self._namespace)} {self._namespace} {key}")

    async def get(self, key: str) -> Revised | None:
        """Return the value of a key."""
        kept = await self._state.get(digest(key))
        value = None if kept is None else self._cipher(key).decrypt(kept.value)
        return None if kept is None or value is None else Revised(value, kept.revision)

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Set the value of a key."""
        return await self._state.set(digest(key), self._cipher(key).encrypt(value), ttl=ttl)

    async def compare_and_set(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int | None:
        """Set the value of a key if the key still has a revision."""
        return await self._state.compare_and_set(digest(key), self._cipher(key).encrypt(value), revision, ttl=ttl)

    async def delete(self, key: str) -> bool:
        """Delete the value of a key."""
        return await self._state.delete(digest(key))


class SealedTasks:
    """The tasks of a namespace, with values encrypted by id."""

    def __init__(self, tasks: Tasks, ring: KeyRing, namespace: str) -> None:
        self._tasks = tasks
        self._ring = ring
        self._namespace = namespace

    def _cipher(self, id: str) -> _Cipher:
        return _Cipher(self._ring, f"task {len(self._namespace)} {self._namespace} {id}")

    def _opened(self, record: TaskRecord | None) -> TaskRecord | None:
        value = None if record is None else self._cipher(record.id).decrypt(record.value)
        return None if record is None or value is None else record._replace(value=value)

    async def create(
        self, id: str, value: bytes, *, owner: str, ttl: float | None = None, lease: float | None = None
    ) -> TaskRecord:
        """Add a task."""
        sealed = self._cipher(id).encrypt(value)
        return (await self._tasks.create(id, sealed, owner=digest(owner), ttl=ttl, lease=lease))._replace(value=value)

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task."""
        return self._opened(await self._tasks.get(id))

    async def list(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """Return the tasks of an owner."""
        records = await self._tasks.list(digest(owner), after=after, limit=limit)
        return [opened for record in records if (opened := self._opened(record)) is not None]

    async def update(
        self,
        id: str,
        value: bytes,
        *,
        revision: int,
        token: int | None = None,
        phase: TaskPhase | None = None,
        ttl: float | None = None,
    ) -> TaskRecord | None:
        """Change a task."""
        sealed = self._cipher(id).encrypt(value)
        return self._opened(await self._tasks.update(id, sealed, revision=revision, token=token, phase=phase, ttl=ttl))

    async def claim(self, lease: float) -> TaskRecord | None:
        """Claim a task; one that does not open has no value, so that the caller can give it back."""
        record = await self._tasks.claim(lease)
        return None if record is None else self._opened(record) or record._replace(value=b"")

    async def renew(self, id: str, token: int, lease: float) -> bool:
        """Extend a lease."""
        return await self._tasks.renew(id, token, lease)

    async def release(self, id: str, token: int) -> bool:
        """Give a running task back."""
        return await self._tasks.release(id, token)

    async def finish(
        self, id: str, value: bytes, *, revision: int | None = None, token: int | None = None
    ) -> TaskRecord | None:
        """End a task."""
        sealed = self._cipher(id).encrypt(value)
        return self._opened(await self._tasks.finish(id, sealed, revision=revision, token=token))

    def watch(self, id: str) -> AsyncGenerator[None, None]:
        """Yield after each change of a task."""
        return self._tasks.watch(id)

    async def wait(self, timeout: float) -> None:
        """Wait until a task may have become ready."""
        await self._tasks.wait(timeout)

    async def sweep(self) -> int:
        """Delete expired tasks."""
        return await self._tasks.sweep()


def digest(name: str) -> str:
    """Return a digest of a name: 32 letters and digits."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
