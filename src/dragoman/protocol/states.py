"""State tables: the next state of a machine, for each state and event.

A machine declares its states and events as `Literal` types and keeps its state in one attribute. The type checker
compares the `Literal` types with the table.

Rejected: `Enum`. The hash of a member runs Python code at every step, and states that users see, such as the status of
a client, are strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeVar

State = TypeVar("State", bound=str)
Step = TypeVar("Step", bound=str)


class Transitions(dict[tuple[State, Step], State]):
    """The next state by (state, event), made from one row for each state; a missing entry raises RuntimeError.

    Example:
        LIFE: Transitions[Life, Happening] = Transitions({"open": {"close": "closed"}, "closed": {}})
        self.state = LIFE[self.state, "close"]
    """

    def __init__(self, rows: Mapping[State, Mapping[Step, State]]) -> None:
        super().__init__({(state, event): after for state, row in rows.items() for event, after in row.items()})

    def __missing__(self, key: tuple[State, Step]) -> NoReturn:
        raise RuntimeError(f"{key[1]!r} must not happen in the state {key[0]!r}")
