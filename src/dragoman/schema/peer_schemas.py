"""JSON Schemas of peers, and a bound on the work of a comparison with one.

A short schema can make a validator take 2^40 paths, if each of its subschemas refers to the next one twice. A validator
cannot be interrupted, and it blocks the loop. So `PeerSchema` first counts the steps of a comparison. The count visits
each pair of a subschema and a part of the value once, even if many paths lead to the pair. A value that needs too many
steps is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.schema import walk
from dragoman.schema.compile import MAX_VIOLATIONS, Violation, violations
from dragoman.types import Json

MAX_STEPS = 5_000_000
"""The bound on steps. A validator executes this number in about a tenth of a second."""
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")


class _TooManyError(Exception):
    """A comparison needs more steps than the bound."""


class PeerSchema:
    """A schema that a peer sent, with its compiled validator.

    Example:
        found = PeerSchema(schema, compile_schema(schema, any_draft=True)).violations(value)
    """

    def __init__(self, schema: Any, validator: Any) -> None:
        self._schema = schema
        self._validator = validator
        self._references = walk.References(schema)
        self._has_nested_ids = False
        """Whether a nested schema has an id, which changes the targets of the references inside it."""
        references = 0
        for part in walk.objects(schema):
            references += sum(name in part for name in walk.REFERENCES)
            references += sum(2 for name in _UNEVALUATED if name in part)
            has_id = any(isinstance(part.get(name), str) for name in ("$id", "id"))
            self._has_nested_ids |= has_id and part is not schema
        # With fewer than two references only one path leads to each subschema.
        self._needs_count = references > 1

    def violations(self, value: Any, most: int = MAX_VIOLATIONS) -> list[Violation] | None:
        """Return the violations of a value, None if the comparison needs too many steps."""
        if self._needs_count and not self.is_within_bound(value):
            return None
        return violations(self._validator, value, most)

    def is_within_bound(self, value: Any) -> bool:
        """Tell whether the comparison with a value needs at most MAX_STEPS steps."""
        if not self._needs_count:
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
        known[key] = total = 1  # also for a subschema that refers to itself
        in_place_factor = 2 if any(name in schema for name in _UNEVALUATED) else 1
        for part in self._in_place(schema):
            total += in_place_factor * self._count(part, value, known)
            _require_few(total)
        for part, member in _below(schema, value):
            total += self._count(part, member, known)
            _require_few(total)
        known[key] = total
        return total

    def _in_place(self, schema: Json) -> Iterator[Any]:
        """Yield the subschemas that apply to the same value as the schema."""
        yield from (part for _, _, part in walk.subschemas(schema, walk.IN_PLACE))
        for reference in [schema[name] for name in walk.REFERENCES if isinstance(schema.get(name), str)]:
            target = self._references.target(reference)
            if target is None or self._has_nested_ids:
                raise _TooManyError  # the number of steps is unknown
            yield target


def _below(schema: Json, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the members and items of a value with the subschemas that apply to them."""
    if isinstance(value, dict):
        named = walk.mapping(schema, "properties")
        yield from ((named[name], value[name]) for name in value if name in named)
        yield from ((part, name) for _, _, part in walk.subschemas(schema, ("propertyNames",)) for name in value)
        for _, _, part in walk.subschemas(schema, walk.OF_EVERY_MEMBER):
            yield from ((part, member) for member in value.values())
    elif isinstance(value, list):
        for _, place, part in walk.subschemas(schema, walk.OF_ITEMS):
            yield from ((part, item) for item in (value[place : place + 1] if isinstance(place, int) else value))


def _require_few(steps: int) -> None:
    if steps > MAX_STEPS:
        raise _TooManyError
