"""Tables of states: which state follows which, on which event.

A machine names its states and events as literals, which the type checker compares with its table, and keeps its state
in one attribute: looking at it is as quick as a flag. `Enum` was rejected: hashing a member runs Python code at every
step, and states that users see, as the status of a client, are strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeVar

State = TypeVar("State", bound=str)
Step = TypeVar("Step", bound=str)


class Transitions(dict[tuple[State, Step], State]):
    """The state that follows a state on an event, from a row for each state; what no row has must not happen.

    Example:
        LIFE: Transitions[Life, Happening] = Transitions({"open": {"close": "closed"}, "closed": {}})
        self.state = LIFE[self.state, "close"]
    """

    def __init__(self, rows: Mapping[State, Mapping[Step, State]]) -> None:
        super().__init__({(state, event): after for state, row in rows.items() for event, after in row.items()})

    def __missing__(self, key: tuple[State, Step]) -> NoReturn:
        raise RuntimeError(f"{key[1]!r} must not happen in the state {key[0]!r}")
