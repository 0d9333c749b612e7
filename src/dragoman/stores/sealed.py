"""`SealedStore`: wraps the store of a server, so that an engine sees no plain text.

The values of logs, states and tasks are encrypted with the key ring of the server, each for its own purpose: a value
that is copied to another key, stream or task does not open. Messages between machines are encrypted too; those between
the processes of one machine travel through a folder that only their user may enter. Names and keys become digests, so
that an engine may use them in file names and keys. The id of a task suffices to read the task if its server has no
`auth`, so the engine gets a digest of it too, and the id itself is in the encrypted summary.

Something that does not open was encrypted with another secret, or somebody changed it. An event or a task then counts
as absent. A value is neither returned nor replaced: with the wrong secret, a server would overwrite what it should have
read.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Callable
from functools import partial

from dragoman.errors import StoreError, StoreUnreadable
from dragoman.protocol.tokens import NONCE_BYTES, KeyRing
from dragoman.stores.contract import (
    Bus,
    EventLog,
    Reach,
    Revised,
    State,
    Store,
    TaskRecord,
    Tasks,
    TaskSummary,
)
from dragoman.stores.limits import ALONE, Share, StoreLimits
from dragoman.stores.operations import CheckedState, CheckedTasks, NewTask, TaskChange

MAX_ATTEMPTS = 100
"""How often `set` tries to replace a value that others change at the same time."""
_ID_LENGTH_BYTES = 4
_logger = logging.getLogger("dragoman.stores")


class SealedStore:
    """A store whose engine sees no plain text.

    Example:
        store = SealedStore(Redis("redis://localhost"), ring)
    """

    def __init__(self, engine: Store, ring: KeyRing) -> None:
        self.engine = engine
        self._cipher = _Cipher(ring)

    def __repr__(self) -> str:
        return f"<Sealed {self.engine!r}>"

    @property
    def reach(self) -> Reach:
        return self.engine.reach

    def bus(self, group: str) -> Bus:
        bus = self.engine.bus(digest(group))
        return SealedBus(bus, self._cipher, f"bus {group}") if self.reach == "network" else bus

    def log(self, stream: str) -> EventLog:
        return SealedLog(self.engine.log(digest(stream)), self._cipher, f"log {stream}")

    def state(
        self, namespace: str, *, max_values: int = 100_000, share: Share = ALONE, limits: StoreLimits | None = None
    ) -> State:
        if share != ALONE:
            share = Share(digest(share.group), None if share.account is None else digest(share.account))
        state = self.engine.state(digest(namespace), max_values=max_values, share=share, limits=limits)
        return SealedState(state, self._cipher, namespace)

    def tasks(self, namespace: str, *, limits: StoreLimits | None = None) -> Tasks:
        tasks = self.engine.tasks(digest(namespace), limits=limits)
        return SealedTasks(tasks, self._cipher, namespace)

    async def now(self) -> float:
        return await self.engine.now()

    async def close(self) -> None:
        await self.engine.close()


class _Cipher:
    """Encrypts and decrypts, each value for its purpose, and warns once of what it cannot decrypt."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._has_warned = False

    def encrypt(self, purpose: str, value: bytes) -> bytes:
        return self._ring.encrypt(purpose, value, os.urandom(NONCE_BYTES))

    def decrypt(self, purpose: str, data: bytes) -> bytes | None:
        value = self._ring.decrypt(purpose, data)
        if value is None and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "The store has data that this server cannot decrypt: it was written with another secret, or changed."
                " All processes of a server need the same secret. To replace a secret, give both:"
                " Server(secret=[new, old])"
            )
        return value


class SealedBus:
    """A bus with encrypted messages and replies."""

    def __init__(self, bus: Bus, cipher: _Cipher, purpose: str) -> None:
        self._bus = bus
        self._encrypt = partial(cipher.encrypt, purpose)
        self._decrypt = partial(cipher.decrypt, purpose)

    @property
    def name(self) -> str:
        return self._bus.name

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group; messages that do not decrypt get an empty reply."""

        def receive_sealed(data: bytes) -> bytes:
            message = self._decrypt(data)
            return b"" if message is None else self._encrypt(receive(message))

        await self._bus.open(receive_sealed)

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message, and return the replies that decrypt."""
        replies = [self._decrypt(reply) for reply in await self._bus.publish(self._encrypt(message), to)]
        return [reply for reply in replies if reply is not None]

    async def close(self) -> None:
        await self._bus.close()


class SealedLog:
    """The log of a stream with encrypted events."""

    def __init__(self, log: EventLog, cipher: _Cipher, purpose: str) -> None:
        self._log = log
        self._encrypt = partial(cipher.encrypt, purpose)
        self._decrypt = partial(cipher.decrypt, purpose)

    def append(self, sequence: int, event: bytes) -> None:
        self._log.append(sequence, self._encrypt(event))

    async def flush(self) -> None:
        await self._log.flush()

    async def after(self, sequence: int) -> list[tuple[int, bytes]]:
        opened = [(number, self._decrypt(event)) for number, event in await self._log.after(sequence)]
        return [(number, event) for number, event in opened if event is not None]

    async def delete(self) -> None:
        await self._log.delete()


class SealedState(CheckedState):
    """The values of a namespace, encrypted by key.

    Every method raises `StoreUnreadable` for a key whose value does not open, and leaves the value alone.
    """

    def __init__(self, state: State, cipher: _Cipher, namespace: str) -> None:
        self._state = state
        self._cipher = cipher
        self._namespace = namespace

    def _purpose(self, key: str) -> str:
        return f"state {len(self._namespace)} {self._namespace} {key}"

    async def get(self, key: str) -> Revised | None:
        kept = await self._state.get(digest(key))
        if kept is None:
            return None
        value = self._cipher.decrypt(self._purpose(key), kept.value)
        if value is None:
            raise StoreUnreadable(
                "The value was written with another secret, or was changed; it is not replaced."
                " Give the server the secret with which it was written, Server(secret=[new, old])"
            )
        return Revised(value, kept.revision)

    async def _set(self, key: str, value: bytes, expected: int | None, ttl: float | None) -> int | None:
        sealed, name = self._cipher.encrypt(self._purpose(key), value), digest(key)
        if expected is not None:
            return await self._state.compare_and_set(name, sealed, expected, ttl=ttl)
        for _ in range(MAX_ATTEMPTS):
            kept = await self.get(key)
            before = 0 if kept is None else kept.revision
            revision = await self._state.compare_and_set(name, sealed, before, ttl=ttl)
            if revision is not None:
                return revision
        raise StoreError(f"The value could not be set: others changed it {MAX_ATTEMPTS} times meanwhile")

    async def delete(self, key: str) -> bool:
        await self.get(key)
        return await self._state.delete(digest(key))


class StoredId(str):
    """The id under which the engine keeps a task that does not open, so that its claim can be given back.

    Ids of clients are never of this class.
    """

    __slots__ = ()


class SealedTasks(CheckedTasks):
    """The tasks of a namespace, with values encrypted by id. The engine knows a digest of each id."""

    def __init__(self, tasks: Tasks, cipher: _Cipher, namespace: str) -> None:
        self._tasks = tasks
        self._cipher = cipher
        self._namespace = namespace

    def _purpose(self, stored_id: str, part: str) -> str:
        return f"task {part} {len(self._namespace)} {self._namespace} {stored_id}"

    def _sealed(self, id: str, value: bytes) -> bytes:
        return self._cipher.encrypt(self._purpose(digest(id), "value"), value)

    def _sealed_summary(self, id: str, summary: bytes) -> bytes:
        name = id.encode("utf-8", "surrogatepass")
        content = len(name).to_bytes(_ID_LENGTH_BYTES, "big") + name + summary
        return self._cipher.encrypt(self._purpose(digest(id), "summary"), content)

    def _opened_summary(self, stored_id: str, summary: bytes) -> tuple[str, bytes] | None:
        """Return the id of a task and its summary."""
        content = self._cipher.decrypt(self._purpose(stored_id, "summary"), summary)
        if content is None:
            return None
        end = _ID_LENGTH_BYTES + int.from_bytes(content[:_ID_LENGTH_BYTES], "big")
        return content[_ID_LENGTH_BYTES:end].decode("utf-8", "surrogatepass"), content[end:]

    def _opened(self, record: TaskRecord | None) -> TaskRecord | None:
        if record is None:
            return None
        opened = self._opened_summary(record.id, record.summary)
        value = None if opened is None else self._cipher.decrypt(self._purpose(record.id, "value"), record.value)
        if opened is None or value is None:
            return None
        return record._replace(id=opened[0], summary=opened[1], value=value)

    async def _create(self, task: NewTask) -> TaskRecord:
        record = await self._tasks.create(
            digest(task.id),
            self._sealed(task.id, task.value),
            owner=digest(task.owner),
            account=digest(task.account),
            summary=self._sealed_summary(task.id, task.summary),
            ttl=task.ttl,
            lease=task.lease,
        )
        return record._replace(id=task.id, value=task.value, summary=task.summary)

    async def get(self, id: str) -> TaskRecord | None:
        return self._opened(await self._tasks.get(digest(id)))

    async def list(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[TaskSummary]:
        last = None if after is None else digest(after)
        summaries = []
        for record in await self._tasks.list(digest(owner), after=last, limit=limit):
            opened = self._opened_summary(record.id, record.summary)
            if opened is not None:
                summaries.append(record._replace(id=opened[0], summary=opened[1]))
        return summaries

    async def _change(self, change: TaskChange) -> TaskRecord | None:
        id, revision, token = digest(change.id), change.revision, change.token
        value = self._sealed(change.id, change.value)
        summary = None if change.summary is None else self._sealed_summary(change.id, change.summary)
        if change.phase == "finished":
            return self._opened(await self._tasks.finish(id, value, revision=revision, token=token, summary=summary))
        assert revision is not None
        return self._opened(
            await self._tasks.update(
                id, value, revision=revision, token=token, phase=change.phase, summary=summary, ttl=change.ttl
            )
        )

    async def _claim(self, lease: float) -> TaskRecord | None:
        """Claim a task; one that does not open has no value, so that the caller can give it back."""
        record = await self._tasks.claim(lease)
        if record is None:
            return None
        return self._opened(record) or record._replace(id=StoredId(record.id), value=b"", summary=b"")

    async def _renew(self, id: str, token: int, lease: float) -> bool:
        return await self._tasks.renew(_stored(id), token, lease)

    async def release(self, id: str, token: int) -> bool:
        return await self._tasks.release(_stored(id), token)

    def watch(self, id: str) -> AsyncGenerator[None, None]:
        return self._tasks.watch(digest(id))

    async def wait(self, timeout: float) -> None:
        await self._tasks.wait(timeout)

    async def sweep(self) -> int:
        return await self._tasks.sweep()


def _stored(id: str) -> str:
    """Return the id under which the engine keeps a task."""
    return str(id) if isinstance(id, StoredId) else digest(id)


def digest(name: str) -> str:
    """Return a digest of a name: 32 letters and digits."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
