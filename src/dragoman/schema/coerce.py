"""What a model sent, as a schema wants it.

Models send text that holds JSON, and 3.0 for 3. A value that fits the schema is left alone. One that does not is
repaired where the schema says how: JSON text is parsed where no string fits, and an integral number becomes an integer
where only integers fit. Arguments for a schema that was put into a dialect (`restore_arguments`) are also what that dialect made
of them: null is dropped where a property may be absent and not null, text is parsed where only what it holds fits, and
a property has its name back.

To fit here means not to contradict what a schema says of types, choices, names and items, so whatever is valid fits.
The number of steps has a bound, beyond which a value stays as it is.

Each value is gone through once for each schema that it may be of: a step returns the repaired value and whether it
fits, and the very same object where nothing was repaired. To ask first whether a value fits, and to repair it then, was
rejected: it goes through each value once for every level above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

import msgspec

from dragoman.schema import walk
from dragoman.types import Json

MAX_STEPS = 200_000
"""What is done in about a quarter of a second."""
MAX_LEVELS = 100


def coerce(value: Any, schema: Any) -> Any:
    """Return a value as a schema wants it; what cannot be repaired stays.

    Example:
        coerce({"days": "3"}, {"properties": {"days": {"type": "integer"}}})  # {"days": 3}
    """
    return _Coercion(schema).value(value, schema, 0)[0]


def restore_arguments(arguments: Mapping[str, Any], schema: Json) -> Json:
    """Return a model's arguments as the original schema of a tool wants them, also where a dialect renamed properties.

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
    """What one schema says by itself: of types, choices, names and items."""

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
        """Return an integral number as an integer where there is room for integers and not for other numbers."""
        is_integral = self._admits_integers_only and isinstance(value, float) and value.is_integer()
        return int(value) if is_integral else value

    def has(self, value: Any) -> bool:
        """Tell whether a value is of the types and choices."""
        if self._choices is not None and not any(walk.same(value, choice) for choice in self._choices):
            return False
        if self._types is None:
            return True
        kind = walk.type_of(value)
        return kind in self._types or (kind == "integer" and "number" in self._types)

    def admits(self, kind: str) -> bool:
        """Tell whether there is room for a value of a type."""
        if self._kinds is None or kind in self._kinds:
            return True
        return kind in ("integer", "number") and not self._kinds.isdisjoint(("integer", "number"))

    def of_property(self, name: str) -> Any:
        """Return what is said of a property: True if nothing, False if it is forbidden."""
        return self.properties.get(name, self._others)

    def of_item(self, place: int) -> Any:
        """Return what is said of an item of a list."""
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
        """Return the schemas all of which a schema stands for: itself, what it refers to, and those of `allOf`."""
        if not isinstance(schema, dict):
            return _NOTHING if schema is False else []
        if (known := self._known.get(id(schema))) is not None:
            return known
        found: dict[int, _Part] = {}
        pending: list[Any] = [schema]
        while pending:
            part = pending.pop()
            if part is False:
                found[id(part)] = _NOTHING[0]
            if isinstance(part, dict) and id(part) not in found:
                found[id(part)] = _Part(part)
                pending += [self._references.target(part.get("$ref")), *walk.sequence(part, "allOf")]
        self._known[id(schema)] = list(found.values())
        return self._known[id(schema)]

    def value(self, value: Any, schema: Any, level: int) -> tuple[Any, bool]:
        """Return a value as a schema wants it, and whether it fits."""
        if self._is_exhausted(level):
            return value, True
        given, fits = value, True
        for part in self._parts(schema):
            value = part.integral(value)
            outcomes = [part.has(value)]
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
        """Return a value as the first branch wants it that it fits: before all, as it is."""
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
        is_wanted = (fits and self._undoes_dialect) or not self._admits("string", schema, level)
        is_meant = is_wanted and (fits or self._admits(walk.type_of(value), schema, level))
        return (value, fits) if is_meant else (text, False)

    def _admits(self, kind: str, schema: Any, level: int) -> bool:
        """Tell whether a schema has room for a value of a type."""
        return self._is_exhausted(level) or all(
            part.admits(kind)
            and all(any(self._admits(kind, branch, level + 1) for branch in branches) for branches in part.unions)
            for part in self._parts(schema)
        )

    def renamed(self, value: Any, schema: Any, alias: Callable[[str], str], level: int) -> Any:
        """Return a value whose properties have the names of the schema again."""
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


_NOTHING = [_Part({"enum": []})]
