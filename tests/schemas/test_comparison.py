from __future__ import annotations

from typing import Any

import pytest

from schemas.comparison import same_json


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), (None, None), ({"a": [1]}, {"a": [1.0]}), ([], []), ({"a": 1, "b": 2}, {"b": 2, "a": 1})],
)
def test_one_value_may_be_written_in_two_ways(left: Any, right: Any) -> None:
    assert same_json(left, right)
    assert same_json(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, True), (0, False), (None, False), ({}, []), ({"a": None}, {}), ([1], [1, 1]), ("1", 1), ([[True]], [[1]])],
)
def test_two_values_are_told_apart(left: Any, right: Any) -> None:
    assert not same_json(left, right)
    assert not same_json(right, left)
