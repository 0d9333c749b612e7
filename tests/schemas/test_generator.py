from __future__ import annotations

from typing import Any

import pytest
from hypothesis import find
from hypothesis.errors import NoSuchExample

from schemas.generator import Generator, Instances

DEFINITIONS: dict[str, dict[str, Any]] = {
    "Tree": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "branches": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "required": ["name"],
    },
    "Fraction": {"type": "number", "minimum": 0, "maximum": 1},
    "Narrowed": {
        "allOf": [
            {"type": "object", "properties": {"code": {"type": "integer"}}, "required": ["code"]},
            {"type": "object", "properties": {"code": {"const": 5}}},
        ]
    },
    "Patterned": {"type": "string", "pattern": "a+"},
}


def sparse(name: str) -> Instances:
    return Generator(DEFINITIONS, complete=False).instances(name)


def complete(name: str) -> Instances:
    return Generator(DEFINITIONS, complete=True).instances(name)


def test_a_sparse_instance_may_lack_what_is_optional() -> None:
    assert find(sparse("Tree"), lambda _: True) == {"name": ""}


def test_a_complete_instance_lacks_nothing_until_it_is_deep() -> None:
    tree = find(complete("Tree"), lambda _: True)
    assert tree == {"name": "", "branches": [{"name": "", "branches": []}]}


@pytest.mark.parametrize("kind", [int, float])
def test_a_number_is_whole_or_a_fraction(kind: type) -> None:
    assert 0 <= find(sparse("Fraction"), lambda number: type(number) is kind) <= 1


def test_a_number_stays_within_its_bounds() -> None:
    with pytest.raises(NoSuchExample):
        find(sparse("Fraction"), lambda number: not 0 <= number <= 1)


def test_the_later_arm_of_a_combination_is_the_narrower() -> None:
    assert find(sparse("Narrowed"), lambda _: True) == {"code": 5}


def test_a_keyword_that_is_not_understood_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="does not understand pattern"):
        sparse("Patterned")
