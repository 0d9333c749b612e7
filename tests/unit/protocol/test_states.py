from __future__ import annotations

from itertools import product
from typing import Literal, get_args

import pytest

from dragoman.protocol.states import Transitions

Door = Literal["open", "shut", "locked"]
Deed = Literal["push", "pull", "lock"]
DOOR: Transitions[Door, Deed] = Transitions(
    {"open": {"push": "shut"}, "shut": {"pull": "open", "lock": "locked"}, "locked": {"lock": "locked"}}
)


@pytest.mark.parametrize(("state", "event"), list(product(get_args(Door), get_args(Deed))))
def test_what_a_table_has_leads_on_and_what_it_lacks_must_not_happen(state: Door, event: Deed) -> None:
    if (state, event) in DOOR:
        assert DOOR[state, event] in get_args(Door)
        return
    with pytest.raises(RuntimeError, match=f"'{event}' must not happen in the state '{state}'"):
        DOOR[state, event]
    assert (state, event) not in DOOR
