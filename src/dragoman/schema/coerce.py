"""Repair of values that language models send, by the schema that they must fit.

Models send JSON inside strings, and 3.0 for 3. A value that fits its schema is not changed. A value that does not fit
is repaired in two cases: a string is parsed as JSON where no string fits, and an integral number becomes an integer
where only integers fit. `restore_arguments` also reverts the changes of `dialects` to the schema of a tool: null is
dropped where a property may be absent but not null, a string is parsed if only its content fits, and renamed properties
get their names back.

A value fits here if it does not contradict the types, choices, names and items of the schema, so every valid value
fits. The number of steps is bounded; beyond the bound a value is not changed.

Each value is visited once for each schema that applies to it. A step returns two things: the repaired value, or the
same object if nothing was repaired; and whether that value fits.

Rejected: two passes, one that checks and one that repairs. Each value would be visited once for every level above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

import msgspec

from dragoman.schema import walk
from dragoman.types import Json

MAX_STEPS = 200_000
"""The bound on steps. This number takes about a quarter of a second."""
MAX_LEVELS = 100


def coerce(value: Any, schema: Any) -> Any:
    """Return a value, repaired to fit a schema as far as possible.

    Example:
        coerce({"days": "3"}, {"properties": {"days": {"type": "integer"}}})  # {"days": 3}
    """
    return _Coercion(schema).value(value, schema, 0)[0]


def restore_arguments(arguments: Mapping[str, Any], schema: Json) -> Json:
    """Return the arguments of a model, repaired to fit the schema of a tool before a dialect changed it.

    Example:
        schema = {"properties": {"tags": {"type": "array"}, "days": {"type": "integer"}}}
        restore_arguments({"tags": '["a", "b"]', "days": None}, schema)  # {"tags": ["a", "b"]}
    """
    from dragoman.schema.naming import property_alias

    given = dict(arguments)
    coercion = _Coercion(schema, undoes_dialect=True)
    if any(property_alias(name) != name for part in walk.objects(schema) for name in walk.mapping(part, "properties")):
        given = coercion.renamed(given, schema, property_alias, 0)
    restored = coercion.value(given, schema, 0)[0]
    return restored if isinstance(restored, dict) else given


class _Part:
    """The types, choices, properties and items of one schema, without those of referenced schemas."""

    def __init__(self, schema: Json) -> None:
        self._choices, self._types, kinds = walk.choices_of(schema), walk.types_of(schema), walk.kinds_of(schema)
        self._kinds = None if kinds is None else frozenset(kinds)
        self._admits_integers_only = kinds is not None and "integer" in kinds and "number" not in kinds
        self.properties = walk.mapping(schema, "properties")
        self.required = walk.names_of(schema, "required")
        has_patterns = bool(walk.mapping(schema, "patternProperties"))
        self._others = True if has_patterns else schema.get("additionalProperties", True)
        self._items = walk.items_of(schema)
        self.unions = [branches for key in ("anyOf", "oneOf") if (branches := walk.sequence(schema, key))]

    def integral(self, value: Any) -> Any:
        """Return an integral float as an integer if the schema allows integers and no other numbers."""
        is_integral = self._admits_integers_only and isinstance(value, float) and value.is_integer()
        return int(value) if is_integral else value

    def includes(self, value: Any) -> bool:
        """Tell whether a value fits the types and choices."""
        if self._choices is not None and not any(walk.same(value, choice) for choice in self._choices):
            return False
        if self._types is None:
            return True
        kind = walk.type_of(value)
        return kind in self._types or (kind == "integer" and "number" in self._types)

    def admits(self, kind: str) -> bool:
        """Tell whether the schema allows some value of a type."""
        if self._kinds is None or kind in self._kinds:
            return True
        return kind in ("integer", "number") and not self._kinds.isdisjoint(("integer", "number"))

    def of_property(self, name: str) -> Any:
        """Return the schema of a property: True if there is none, False if the property is forbidden."""
        return self.properties.get(name, self._others)

    def of_item(self, place: int) -> Any:
        """Return the schema of an item, None if there is none."""
        places, rest = self._items
        return places[place] if place < len(places) else rest


class _Coercion:
    def __init__(self, root: Any, *, undoes_dialect: bool = False) -> None:
        self._references = walk.References(root)
        self._undoes_dialect = undoes_dialect
        self._steps = 0
        self._known: dict[int, list[_Part]] = {}

    def _is_exhausted(self, level: int) -> bool:
        self._steps += 1
        return self._steps > MAX_STEPS or level > MAX_LEVELS

    def _parts(self, schema: Any) -> list[_Part]:
        """Return the parts that a value must all fit: the schema, its reference, and those of `allOf`."""
        if not isinstance(schema, dict):
            return _NEVER if schema is False else []
        if (known := self._known.get(id(schema))) is not None:
            return known
        found: dict[int, _Part] = {}
        pending: list[Any] = [schema]
        while pending:
            part = pending.pop()
            if part is False:
                found[id(part)] = _NEVER[0]
            if isinstance(part, dict) and id(part) not in found:
                found[id(part)] = _Part(part)
                pending += [self._references.target(part.get("$ref")), *walk.sequence(part, "allOf")]
        self._known[id(schema)] = list(found.values())
        return self._known[id(schema)]

    def value(self, value: Any, schema: Any, level: int) -> tuple[Any, bool]:
        """Return a value, repaired to fit a schema as far as possible, and whether it fits."""
        if self._is_exhausted(level):
            return value, True
        given, fits = value, True
        for part in self._parts(schema):
            value = part.integral(value)
            outcomes = [part.includes(value)]
            if isinstance(value, dict):
                value, is_fitting = self._object(value, part, level + 1)
                outcomes.append(is_fitting)
            elif isinstance(value, list):
                value, is_fitting = self._array(value, part, level + 1)
                outcomes.append(is_fitting)
            for branches in part.unions:
                value, is_fitting = self._either(value, branches, level + 1)
                outcomes.append(is_fitting)
            fits = fits and all(outcomes)
        return self._parsed(given, schema, level) if isinstance(given, str) and not fits else (value, fits)

    def _object(self, value: Json, part: _Part, level: int) -> tuple[Json, bool]:
        fits = all(name in value for name in part.required)
        found: Json = {}
        for name, item in value.items():
            coerced, is_fitting = self.value(item, part.of_property(name), level)
            if item is not None or is_fitting or name in part.required or not self._undoes_dialect:
                found[name] = coerced
                fits = fits and is_fitting
        is_same = len(found) == len(value) and all(found[name] is item for name, item in value.items())
        return value if is_same else found, fits

    def _array(self, value: list[Any], part: _Part, level: int) -> tuple[list[Any], bool]:
        outcomes = [self.value(item, part.of_item(place), level) for place, item in enumerate(value)]
        found = [item for item, _ in outcomes]
        is_same = all(map(is_, found, value))
        return value if is_same else found, all(is_fitting for _, is_fitting in outcomes)

    def _either(self, value: Any, branches: list[Any], level: int) -> tuple[Any, bool]:
        """Return the value unchanged if it fits a branch, else repaired for the first branch that it then fits."""
        fitting = []
        for branch in branches:
            coerced, is_fitting = self.value(value, branch, level)
            if is_fitting and coerced is value:
                return value, True
            fitting += [coerced] if is_fitting else []
        return (fitting[0], True) if fitting else (value, False)

    def _parsed(self, text: str, schema: Any, level: int) -> tuple[Any, bool]:
        try:
            parsed = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return text, False
        if isinstance(parsed, str):
            return text, False
        value, fits = self.value(parsed, schema, level + 1)
        is_allowed = (fits and self._undoes_dialect) or not self._admits("string", schema, level)
        is_parsed = is_allowed and (fits or self._admits(walk.type_of(value), schema, level))
        return (value, fits) if is_parsed else (text, False)

    def _admits(self, kind: str, schema: Any, level: int) -> bool:
        return self._is_exhausted(level) or all(
            part.admits(kind)
            and all(any(self._admits(kind, branch, level + 1) for branch in branches) for branches in part.unions)
            for part in self._parts(schema)
        )

    def renamed(self, value: Any, schema: Any, alias: Callable[[str], str], level: int) -> Any:
        """Return a value with the property names of the schema instead of their aliases."""
        if self._is_exhausted(level):
            return value
        for part in self._parts(schema):
            if isinstance(value, dict):
                names = {alias(name): name for name in part.properties if name not in value}
                value = {name if name in part.properties else names.get(name, name): value[name] for name in value}
                value = {
                    name: self.renamed(item, part.of_property(name), alias, level + 1) for name, item in value.items()
                }
            elif isinstance(value, list):
                value = [self.renamed(item, part.of_item(place), alias, level + 1) for place, item in enumerate(value)]
            for branch in [branch for branches in part.unions for branch in branches]:
                value = self.renamed(value, branch, alias, level + 1)
        return value


_NEVER = [_Part({"enum": []})]
