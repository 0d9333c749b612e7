"""Schemas that a peer wrote, and how much work it is to compare a value with one.

A short schema can make a validator walk 2^40 ways, by subschemas that refer to the next one twice. A validator cannot
be interrupted, and nothing else runs meanwhile. So the steps are counted before: each pair of a subschema and a part of
the value is looked at once, however many ways lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.schema import walk
from dragoman.schema.compile import MAX_VIOLATIONS, Violation, violations
from dragoman.types import Json

MAX_STEPS = 5_000_000
"""What a validator does in about a tenth of a second."""
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")


class _TooManyError(Exception):
    """There are more steps than are taken."""


class Branching:
    """The ways through one schema.

    Example:
        if not Branching(schema).is_bearable(value):
            raise ValidationError("The schema branches too often for this value")
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._references = walk.References(schema)
        self._is_nested = False
        """Whether there may be schemas inside that references start from."""
        references = 0
        for part in walk.objects(schema):
            references += sum(name in part for name in walk.REFERENCES)
            references += sum(2 for name in _UNEVALUATED if name in part)
            self._is_nested |= part is not schema and any(isinstance(part.get(name), str) for name in ("$id", "id"))
        # Without two references no part is come to in two ways.
        self._may_multiply = references > 1

    def is_bearable(self, value: Any) -> bool:
        """Tell whether a validator is done with a value soon."""
        if not self._may_multiply:
            return True
        try:
            self._count(self._schema, value, {})
        except (_TooManyError, RecursionError):
            return False
        return True

    def _count(self, schema: Any, value: Any, known: dict[tuple[int, int], int]) -> int:
        key = id(schema), id(value)
        if not isinstance(schema, dict) or key in known:
            return known.get(key, 1)
        known[key] = total = 1  # also for a subschema that leads to itself
        again = 2 if any(name in schema for name in _UNEVALUATED) else 1
        for part in self._in_place(schema):
            total += again * self._count(part, value, known)
            _require_few(total)
        for part, of in _below(schema, value):
            total += self._count(part, of, known)
            _require_few(total)
        known[key] = total
        return total

    def _in_place(self, schema: Json) -> Iterator[Any]:
        yield from (part for _, _, part in walk.subschemas(schema, walk.IN_PLACE))
        for reference in [schema[name] for name in walk.REFERENCES if isinstance(schema.get(name), str)]:
            found = self._references.target(reference)
            if found is None or self._is_nested:
                raise _TooManyError  # nobody knows how many steps it takes
            yield found


def _below(schema: Json, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of a value with the subschemas that they are compared with."""
    if isinstance(value, dict):
        named = walk.mapping(schema, "properties")
        yield from ((named[name], value[name]) for name in value if name in named)
        yield from ((part, name) for _, _, part in walk.subschemas(schema, ("propertyNames",)) for name in value)
        for _, _, part in walk.subschemas(schema, walk.OF_EVERY_MEMBER):
            yield from ((part, of) for of in value.values())
    elif isinstance(value, list):
        for _, place, part in walk.subschemas(schema, walk.OF_ITEMS):
            yield from ((part, of) for of in (value[place : place + 1] if isinstance(place, int) else value))


def _require_few(steps: int) -> None:
    if steps > MAX_STEPS:
        raise _TooManyError


class PeerSchema:
    """A schema that a peer wrote, and what compares values with it: `compiled(schema)`."""

    def __init__(self, schema: Any, validator: Any) -> None:
        self._validator = validator
        self._branching = Branching(schema)

    def violations(self, value: Any, most: int = MAX_VIOLATIONS) -> list[Violation] | None:
        """Return what is wrong with a value, or None if nobody knows, because the schema branches too often."""
        return violations(self._validator, value, most) if self._branching.is_bearable(value) else None
