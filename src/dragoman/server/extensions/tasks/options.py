"""`TaskOptions`: how a tool runs as a task."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.errors import DefinitionError
from dragoman.stores.contract import MAX_SECONDS

TTL = 3600.0
POLL = 1.0
LEASE = 30.0
SHORTEST_LEASE = 0.1
RETRIES = 10
"""How often a task runs again after its process was lost, if its author gives no number."""


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How a tool runs as a task.

    Example:
        @server.tool(task=TaskOptions(ttl=24 * 3600, retry=True))
        async def report(month: str, ctx: Context) -> str: ...

    `required` refuses clients that cannot use tasks. `ttl` is how many seconds a task and its result are kept, counted
    from the creation of the task; None keeps them without a limit. `poll` is how many seconds a client should wait
    before it asks for the state again. `retry` says whether the tool may run again if the process that ran it was lost:
    True, False, or how often; by default only if its annotations have `idempotentHint`. `begin="later"` runs the tool
    in the foreground until `await ctx.task.begin()`. `lease` is how many seconds after the last sign of life of a
    process another process takes over its task.

    Raises:
        DefinitionError: an option has an invalid value.
    """

    required: bool = False
    ttl: float | None = TTL
    poll: float | None = POLL
    retry: bool | int | None = None
    begin: Literal["now", "later"] = "now"
    lease: float = LEASE

    def __post_init__(self) -> None:
        for name, shortest in (("ttl", 0.001), ("poll", 0.001), ("lease", SHORTEST_LEASE)):
            value = getattr(self, name)
            if not _is_duration(value, shortest) and (value is not None or name == "lease"):
                unlimited = "" if name == "lease" else ", or None"
                raise DefinitionError(
                    f"{name} of a task must be seconds, {shortest:g} to {MAX_SECONDS:.0f}{unlimited}: {value!r}"
                )
        if str(self.begin) not in ("now", "later"):
            raise DefinitionError(f'begin of a task must be "now" or "later", not {self.begin!r}')
        if self.retry is not None and not _is_number(self.retry):
            raise DefinitionError(f"retry of a task must be True, False or a number of times, not {self.retry!r}")

    def retries(self, *, is_idempotent: bool) -> int:
        """Return how often a task may run again after its process was lost."""
        retry = is_idempotent if self.retry is None else self.retry
        if isinstance(retry, bool):
            return RETRIES if retry else 0
        return retry


def task_options(given: Any, tool: str) -> TaskOptions | None:
    """Return the options that an author gave as `task=`; None if the tool does not run as a task.

    Raises:
        DefinitionError: the value is none of those that `task` takes.
    """
    if isinstance(given, TaskOptions):
        return given
    if isinstance(given, bool):
        return TaskOptions() if given else None
    if given == "required":
        return TaskOptions(required=True)
    raise DefinitionError(f'task of the tool {tool!r} must be True, "required" or TaskOptions(...), not {given!r}')


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_duration(value: Any, shortest: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and shortest <= value <= MAX_SECONDS
