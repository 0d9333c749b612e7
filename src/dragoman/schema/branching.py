"""How much work it is to compare a value with a schema that a server wrote.

A short schema can make a validator walk 2^40 ways, by subschemas that refer to the next one twice. A validator cannot
be interrupted, and nothing else runs meanwhile. So the steps are counted before: each pair of a subschema and a part of
the value is looked at once, however many ways lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

MOST_STEPS = 5_000_000
"""What a validator does in about a tenth of a second."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_NAMES = ("$id", "id")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_BY_NAME = ("dependentSchemas", "dependencies")
_OF_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems")
Steps = list[tuple[Any, Any]]


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
        self._named: dict[str, Any] = {}
        self._is_nested = False
        """Whether there may be schemas inside that references start from."""
        references = 0
        for part in _parts(schema):
            references += sum(name in part for name in _REFERENCES) + sum(2 for name in _UNEVALUATED if name in part)
            self._named |= {part[name]: part for name in _ANCHORS if isinstance(part.get(name), str)}
            self._is_nested |= part is not schema and any(isinstance(part.get(name), str) for name in _NAMES)
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
        for part, of in self._in_place(schema, value):
            total += again * self._count(part, of, known)
            _require_few(total)
        for part, of in _below(schema, value):
            total += self._count(part, of, known)
            _require_few(total)
        known[key] = total
        return total

    def _in_place(self, schema: dict[str, Any], value: Any) -> Steps:
        parts = [schema[name] for name in _IN_PLACE if name in schema]
        for name in _IN_PLACE_LISTS:
            parts += _list(schema.get(name))
        for name in _IN_PLACE_BY_NAME:
            parts += _members(schema.get(name)).values()
        parts += [self._target(schema[name]) for name in _REFERENCES if name in schema]
        return [(part, value) for part in parts]

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str):
            return None
        before, _, fragment = reference.partition("#")
        found = self._schema if not fragment or fragment.startswith("/") else self._named.get(fragment)
        for word in unquote(fragment).split("/")[1:]:
            found = _member(found, word.replace("~1", "/").replace("~0", "~"))
        if found is None or self._is_nested or before not in ("", self._schema.get("$id")):
            raise _TooManyError  # nobody knows how many steps it takes
        return found


def _below(schema: dict[str, Any], value: Any) -> Steps:
    """Return the parts of a value with the subschemas that they are compared with."""
    if isinstance(value, dict):
        named = _members(schema.get("properties"))
        steps = [(named[name], value[name]) for name in value if name in named]
        every = [schema[name] for name in _OF_MEMBERS if name in schema]
        every += _members(schema.get("patternProperties")).values()
        names = [(schema["propertyNames"], name) for name in value] if "propertyNames" in schema else []
        return steps + names + [(part, of) for part in every for of in value.values()]
    if isinstance(value, list):
        steps = []
        for name in ("prefixItems", "items"):
            steps += zip(_list(schema.get(name)), value, strict=False)
        return steps + [(schema[name], of) for name in _OF_ITEMS if name in schema for of in value]
    return []


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a schema; some are no subschemas, which does no harm."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _member(holder: Any, word: str) -> Any:
    if isinstance(holder, list):
        return holder[int(word)] if word.isdecimal() and int(word) < len(holder) else None
    return holder.get(word) if isinstance(holder, dict) else None


def _members(holder: Any) -> dict[str, Any]:
    return holder if isinstance(holder, dict) else {}


def _list(holder: Any) -> list[Any]:
    return holder if isinstance(holder, list) else []


def _require_few(steps: int) -> None:
    if steps > MOST_STEPS:
        raise _TooManyError
