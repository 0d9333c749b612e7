"""The contracts of a store: `Store`, `Bus`, `EventLog`, `State` and `Tasks`. Implement them for an engine of your own.

A server keeps in its store what must reach beyond one process: messages between workers, the events of streams, small
values, and tasks. The values are bytes that mean nothing to an engine. The server seals them before the engine sees
them (`stores/sealed.py`), so an engine needs no encryption of its own. Namespaces, keys and names of streams are short
texts of letters and digits.

`dragoman.testing.check_store` is the proof that an engine keeps these contracts.

A method that needs the engine raises `StoreUnavailable` if the engine cannot be reached, and never waits for it without
a bound. The engine reconnects by itself, so a later call may succeed. A method that returns has been acknowledged: the
other processes that the store reaches see its effect.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Literal, NamedTuple, Protocol

from dragoman.errors import ValidationError
from dragoman.stores.limits import ALONE, Share, StoreLimits

MAX_LOG_EVENTS = 1000
MAX_LOG_BYTES = 16 * 1024 * 1024
LOG_SECONDS = 3600.0
"""A log expires so many seconds after its last event."""
MAX_LOGS_BYTES = 256 * 1024 * 1024
"""All logs of a store together; beyond it, the store drops the log that was idle for longest."""

MAX_SECONDS = 100 * 365 * 86_400.0
"""The longest time to live and the longest lease; far below what any clock or database can hold."""

Reach = Literal["process", "machine", "network"]
"""How far a store reaches: this process, the processes of one machine, or every machine with the address."""

TaskPhase = Literal["ready", "running", "parked", "finished"]
"""Where a task stands: a worker may claim it; a worker has claimed it; it waits for an answer; it has ended."""


def check_ttl(ttl: float | None) -> None:
    """Check a time to live; every engine does so before it writes anything.

    Raises:
        ValidationError: it is no number, not above 0, or longer than `MAX_SECONDS`.
    """
    if ttl is not None and not (_is_seconds(ttl) and ttl > 0):
        raise ValidationError(f"ttl must be a number of seconds above 0 and at most {MAX_SECONDS:.0f}, or None")


def check_lease(lease: float | None) -> None:
    """Check a lease; every engine does so before it writes anything. A lease of 0 seconds runs out at once.

    Raises:
        ValidationError: it is no number, negative, or longer than `MAX_SECONDS`.
    """
    if lease is not None and not _is_seconds(lease):
        raise ValidationError(f"lease must be a number of seconds from 0 to {MAX_SECONDS:.0f}")


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS


class Bus(Protocol):
    """Carries messages between the processes of one group; a sender does not receive its own messages."""

    @property
    def name(self) -> str:
        """The unique name of this process on the bus: letters and digits."""
        ...

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group. The bus calls `receive` with each message and sends its return value back as the reply.

        Raises:
            StoreUnavailable: the engine cannot be reached now; the bus joins by itself when it can.
        """
        ...

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message to every other process, or to the process `to`, and return the replies that come in time.

        The messages of one sender arrive in the order in which they were published.
        """
        ...

    async def close(self) -> None:
        """Leave the group; may be called more than once."""
        ...


class EventLog(Protocol):
    """The events of one stream, numbered by the stream, for clients that resume it in any process.

    A log has at most about `MAX_LOG_EVENTS` events and `MAX_LOG_BYTES` bytes (twice as many are tolerated), and drops
    its oldest events. It expires `LOG_SECONDS` after its last event.
    """

    def append(self, sequence: int, event: bytes) -> None:
        """Add an event without waiting. Numbers ascend; the events of one turn of the loop are written together."""
        ...

    async def flush(self) -> None:
        """Wait until every appended event is written, so that other processes can read it.

        Raises:
            StoreUnavailable: the events could not be written; they are dropped.
        """
        ...

    async def after(self, sequence: int) -> list[tuple[int, bytes]]:
        """Return the kept events after a number, in order, each with its number; this handle sees what it appended."""
        ...

    async def delete(self) -> None:
        """Delete every event of the log."""
        ...


class Revised(NamedTuple):
    """A value and its revision. Revisions of a key ascend; a key that is deleted and set again gets a new revision."""

    value: bytes
    revision: int


class State(Protocol):
    """Small values by key, each with a time to live. A namespace has at most the number of values that was asked for.

    A value counts `limits.value_bytes` bytes. A write that makes a value larger is refused if its account or its group
    would then exceed the limits; a write that does not is never refused for its size.

    The clock of the store decides when a value expires. A `ttl` that `check_ttl` refuses changes nothing.
    """

    async def get(self, key: str) -> Revised | None:
        """Return the value of a key, unless there is none or it has expired."""
        ...

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Set a value that lives `ttl` seconds, or until it is deleted, and return its revision.

        Raises:
            StoreFull: the key is new and the namespace is full, or there are too many bytes.
        """
        ...

    async def compare_and_set(self, key: str, value: bytes, revision: int, *, ttl: float | None = None) -> int | None:
        """Set a value if the key still has a revision, and return the new one; None if the revision differs.

        The revision 0 stands for a key without a value.

        Raises:
            StoreFull: the key is new and the namespace is full, or there are too many bytes.
        """
        ...

    async def delete(self, key: str) -> bool:
        """Delete a value; tell whether there was one."""
        ...


class TaskRecord(NamedTuple):
    """A task as the store keeps it."""

    id: str
    value: bytes
    revision: int
    """Ascends with each change of the value or the phase; `update` and `finish` name the revision that they change."""
    phase: TaskPhase
    token: int
    """The fencing token of the newest claim; 0 before the first. Tokens of a task ascend and are never reused."""
    created_at: float
    expires_at: float | None
    was_lost: bool = False
    """Whether this record comes from a `claim` that took a running task from a holder whose lease had run out."""
    summary: bytes = b""
    """The part of the task that `list` returns; at most a few kilobytes."""


class TaskSummary(NamedTuple):
    """A task as `list` returns it: without its value, which may be large."""

    id: str
    summary: bytes
    revision: int
    phase: TaskPhase
    created_at: float
    expires_at: float | None


class Tasks(Protocol):
    """The tasks of one server. A task has one holder at a time, which has a lease and a fencing token.

        ready    --claim-->            running    the store makes a new token
        running  --release-->          ready
        running  --lease runs out-->   running    `claim` gives it to another holder, with a new token and `was_lost`
        running  --update-->           parked, running
        parked   --update-->           ready
        any      --finish-->           finished   final: no later change succeeds

    A change with a token that is not the newest is refused, so a holder that was paused cannot overwrite the work of
    its successor. An expired task does not exist any more. The server asks only for the changes that are drawn above,
    so an engine does not compare the phase of an `update` with the one before. A `ttl` that
    `check_ttl` refuses and a `lease` that `check_lease` refuses change nothing.

    A task counts `limits.task_bytes` bytes for its account. A change that makes a task count more is refused if the
    account or the namespace would then exceed the limits. A change that does not is never refused for its size: a task
    can always end with a value of `limits.MIN_TASK_BYTES`.
    """

    async def create(
        self,
        id: str,
        value: bytes,
        *,
        owner: str,
        account: str | None = None,
        summary: bytes = b"",
        ttl: float | None = None,
        lease: float | None = None,
    ) -> TaskRecord:
        """Add a task of an owner; it is ready, or with `lease` seconds already claimed by the caller.

        The owner can list the task. The account, by default the owner, is the one whose limits the task counts for.

        Raises:
            StoreFull: the account, or the namespace, has too many tasks or bytes; expired tasks do not count.
            StoreError: there is a task with this id.
        """
        ...

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; None if there is none, or it has expired."""
        ...

    async def list(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[TaskSummary]:
        """Return the tasks of an owner in the order of their creation, those after the task `after`.

        The list is empty if the owner has no task `after`. The engine reads no values, and not more than `limit` tasks.
        """
        ...

    async def update(
        self,
        id: str,
        value: bytes,
        *,
        revision: int,
        token: int | None = None,
        phase: TaskPhase | None = None,
        summary: bytes | None = None,
        ttl: float | None = None,
    ) -> TaskRecord | None:
        """Change the value of a task, its phase and its summary; return None if that is refused.

        The change is refused if the task has ended or has another revision, or if a given token is not the newest.
        `ttl` sets the time to live anew, counted from the creation of the task.

        Raises:
            StoreFull: the task would count more bytes than there is room for; it stays unchanged.
        """
        ...

    async def claim(self, lease: float) -> TaskRecord | None:
        """Give the caller a ready task, or a running task whose lease has run out, for `lease` seconds."""
        ...

    async def renew(self, id: str, token: int, lease: float) -> bool:
        """Extend a lease to `lease` seconds from now; False if the task is not running, or the token not the newest.

        A holder whose lease ran out keeps the task if nobody else has claimed it.
        """
        ...

    async def release(self, id: str, token: int) -> bool:
        """Give a running task back, so that another holder can claim it at once; False as in `renew`."""
        ...

    async def finish(
        self,
        id: str,
        value: bytes,
        *,
        revision: int | None = None,
        token: int | None = None,
        summary: bytes | None = None,
    ) -> TaskRecord | None:
        """End a task with its last value; refused, with None, as in `update`.

        Raises:
            StoreFull: as in `update`.
        """
        ...

    def watch(self, id: str) -> AsyncGenerator[None, None]:
        """Yield once when the watch has begun, and after each change of the revision of a task.

        Changes in quick succession may yield once, and it may yield without a change. A change that comes while the
        caller is busy is yielded afterwards. The caller closes the generator (`contextlib.aclosing`).
        """
        ...

    async def wait(self, timeout: float) -> None:
        """Return when a task may have become ready, at the latest after `timeout` seconds; may return too early.

        No task is missed between two calls of one handle: the first call returns at once, and a later call returns at
        once if a task became ready since the call before. A lease that runs out wakes nobody.
        """
        ...

    async def sweep(self) -> int:
        """Delete expired tasks and return their number."""
        ...


class Store(Protocol):
    """Makes the buses, logs, states and tasks that the processes of a server share."""

    @property
    def reach(self) -> Reach:
        """How far the store reaches."""
        ...

    def bus(self, group: str) -> Bus:
        """Return a new, unopened bus to the processes that name the same group."""
        ...

    def log(self, stream: str) -> EventLog:
        """Return the log of a stream."""
        ...

    def state(
        self, namespace: str, *, max_values: int = 100_000, share: Share = ALONE, limits: StoreLimits | None = None
    ) -> State:
        """Return the values of a namespace.

        Several namespaces may share a group. A group has at most `limits.state_bytes` bytes, and an account in a group
        `limits.state_bytes_per_caller`. Without an account, only the group is limited, and without a `share`, only the
        number of values. Without `limits`, those of the store hold.
        """
        ...

    def tasks(self, namespace: str, *, limits: StoreLimits | None = None) -> Tasks:
        """Return the tasks of a namespace.

        A namespace has at most `limits.tasks` tasks and `limits.task_bytes` bytes, and an account
        `limits.tasks_per_caller` and `limits.task_bytes_per_caller`. Without `limits`, those of the store hold.
        """
        ...

    async def now(self) -> float:
        """Return the time of the store in seconds since the epoch; this clock decides leases and expiry."""
        ...

    async def close(self) -> None:
        """Release connections, threads and files; a later use opens them again."""
        ...
