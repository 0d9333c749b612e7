"""`StoreLimits`: how many bytes a store keeps for a server and for each of its callers, and what an entry counts.

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
    """How many bytes a store keeps for each server, and for each caller of a server.

    Example:
        server = Server("shop", store=Local(limits=StoreLimits(task_bytes_per_caller=8 * 1024 * 1024)))

    `task_bytes` limits all tasks of a server with their arguments and results, `state_bytes` all values of
    `ctx.user_state`, and as many bytes again all values of `ctx.session_state`. The limits `..._per_caller` are for one
    caller: a principal, or the network address of a client without one.

    Raises:
        DefinitionError: a limit is not an integer of at least 1.
    """

    task_bytes: int = 256 * MIB
    task_bytes_per_caller: int = 64 * MIB
    state_bytes: int = 64 * MIB
    state_bytes_per_caller: int = 8 * MIB

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if type(limit) is not int or limit < 1:
                raise DefinitionError(f"{name} must be an integer of at least 1, not {limit!r}")


class ValuePlace(NamedTuple):
    """Where values count: for their namespace, for its group, and for an account in the group, if there is one."""

    namespace: str
    group: str
    account: str | None


def value_bytes(value: bytes) -> int:
    """Return how many bytes a value counts."""
    return len(value) + VALUE_OVERHEAD


def task_bytes(value: bytes, summary: bytes) -> int:
    """Return how many bytes a task counts."""
    return max(len(value) + len(summary), MIN_TASK_BYTES)


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
