"""`StoreLimits`: how much a store keeps for a server and for each of its callers, and what an entry counts.

Every engine applies these limits in the step that writes, so that all processes count together.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from dragoman.errors import DefinitionError, StoreFull

MIB = 1024 * 1024
VALUE_OVERHEAD = 256
"""The bytes that a value counts besides its own, so that many small values count too."""
MIN_TASK_BYTES = 2048
"""The bytes that a task counts at least. A task that ends with no more than this always has room."""

Exceeded = Literal["tasks", "account tasks", "values", "bytes", "account bytes"]


class StoreLimits(Struct, frozen=True, kw_only=True):
    """How much a store keeps for each server, and for each caller of a server.

    Example:
        server = Server("shop", store=Local(limits=StoreLimits(task_bytes_per_caller=8 * 1024 * 1024)))

    `tasks` limits the number of tasks of a server, and `task_bytes` the bytes of their arguments and results.
    `state_bytes` limits the bytes of all values of `ctx.user_state`, and again those of `ctx.session_state`. The limits
    that end with `per_caller` are for one caller: a principal, or the network address of a client without one.

    Raises:
        DefinitionError: a limit is not an integer of at least 1.
    """

    tasks: int = 100_000
    tasks_per_caller: int = 10_000
    task_bytes: int = 256 * MIB
    task_bytes_per_caller: int = 64 * MIB
    state_bytes: int = 64 * MIB
    state_bytes_per_caller: int = 8 * MIB

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if type(limit) is not int or limit < 1:
                raise DefinitionError(f"{name} must be an integer of at least 1, not {limit!r}")


class Share(NamedTuple):
    """For whom the bytes of values count: for a group of namespaces, and for an account in the group, if any."""

    group: str
    account: str | None = None


ALONE = Share("")
"""The share of a namespace whose values count for nobody: only their number is limited."""
UNLIMITED = StoreLimits(state_bytes=2**50, state_bytes_per_caller=2**50)


class TaskUsage(NamedTuple):
    """How much all tasks of a namespace use, and those of one account, expired ones included."""

    tasks: int
    account_tasks: int
    bytes: int
    account_bytes: int


class ValueUsage(NamedTuple):
    """How many values a namespace has, and the bytes of its group and of an account, expired values included."""

    values: int
    bytes: int
    account_bytes: int


class CountedValue(NamedTuple):
    """The bytes that a value counts, and its account."""

    bytes: int
    account: str | None


def value_limits(namespace: str, share: Share, limits: StoreLimits) -> tuple[Share, StoreLimits]:
    """Return the share of a namespace, and the limits that hold for it."""
    return (Share(namespace), UNLIMITED) if share == ALONE else (share, limits)


def value_bytes(value: bytes) -> int:
    """Return how many bytes a value counts."""
    return len(value) + VALUE_OVERHEAD


def value_lack(
    limits: StoreLimits, max_values: int, usage: ValueUsage, value: CountedValue, before: CountedValue | None
) -> StoreFull | None:
    """Return the error of a value that there is no room for, in the place of the one before; None if there is room."""
    if before is None and usage.values >= max_values:
        return full("values", max_values)
    added = value.bytes - (0 if before is None else before.bytes)
    if added > 0 and usage.bytes + added > limits.state_bytes:
        return full("bytes", limits.state_bytes)
    if before is not None and before.account != value.account:
        added = value.bytes
    if added > 0 and value.account is not None and usage.account_bytes + added > limits.state_bytes_per_caller:
        return full("account bytes", limits.state_bytes_per_caller)
    return None


def task_bytes(value: bytes, summary: bytes) -> int:
    """Return how many bytes a task counts."""
    return max(len(value) + len(summary), MIN_TASK_BYTES)


def task_lack(limits: StoreLimits, usage: TaskUsage, added_tasks: int, added_bytes: int) -> StoreFull | None:
    """Return the error of a change that adds more than there is room for; None if there is room."""
    if added_tasks and usage.tasks + added_tasks > limits.tasks:
        return full("tasks", limits.tasks)
    if added_tasks and usage.account_tasks + added_tasks > limits.tasks_per_caller:
        return full("account tasks", limits.tasks_per_caller)
    if added_bytes > 0 and usage.bytes + added_bytes > limits.task_bytes:
        return full("bytes", limits.task_bytes)
    if added_bytes > 0 and usage.account_bytes + added_bytes > limits.task_bytes_per_caller:
        return full("account bytes", limits.task_bytes_per_caller)
    return None


def full(exceeded: Exceeded, limit: int) -> StoreFull:
    """Return the error of a write beyond a limit; clients may read it."""
    text = {
        "tasks": f"There are {limit} tasks already; wait until some expire",
        "account tasks": f"The caller has {limit} tasks already; wait until some expire",
        "values": f"There are {limit} values already; delete some, or give them a shorter ttl",
        "bytes": f"The store has no room for this: the server may keep {limit} bytes of it",
        "account bytes": f"The store has no room for this: a caller may keep {limit} bytes of it",
    }
    return StoreFull(text[exceeded])
