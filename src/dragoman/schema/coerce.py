"""Arguments as a tool's schema wants them, of arguments as a model wrote them.

Theory of operation: what fits the schema is left alone. What does not is repaired where the schema says how: JSON text
is parsed where no string is wanted, null is dropped where a property may be absent and not null, and a property has
its name back. To fit here means not to contradict what a schema says of types, choices, names and items, so whatever
is valid fits. The number of steps has a bound, beyond which a value stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.schema.inline import mapping, names_of, resolve, same, sequence, type_of, types_of
from dragoman.schema.naming import property_alias
from dragoman.types import Json

MOST_STEPS = 20_000
MOST_LEVELS = 100


def restore(arguments: Mapping[str, Any], schema: Json) -> Json:
    """Return a model's arguments as the original schema of a tool wants them; what cannot be repaired stays.

    Example:
        schema = {"properties": {"tags": {"type": "array"}, "days": {"type": "integer"}}}
        restore({"tags": '["a", "b"]', "days": None}, schema)  # {"tags": ["a", "b"]}
    """
    restored = _Restorer(schema).whole(dict(arguments))
    return restored if isinstance(restored, dict) else dict(arguments)


class _Restorer:
    def __init__(self, root: Json) -> None:
        self._root = root
        self._steps = 0

    def whole(self, arguments: Json) -> Any:
        """Return arguments as the whole schema wants them."""
        if _has_aliases(self._root):
            arguments = self._named(arguments, self._root, 0)
        return self._value(arguments, self._root, 0)

    def _exhausted(self, level: int) -> bool:
        self._steps += 1
        return self._steps > MOST_STEPS or level > MOST_LEVELS

    def _parts(self, schema: Any) -> list[Json]:
        """Return the schemas all of which a schema stands for: itself, what it refers to, and those of `allOf`."""
        parts: list[Json] = []
        pending = [schema]
        while pending:
            part = pending.pop()
            if part is False:
                parts.append({"enum": []})
            if not isinstance(part, dict) or any(part is known for known in parts):
                continue
            parts.append(part)
            if isinstance(reference := part.get("$ref"), str):
                pending.append(resolve(reference, self._root))
            pending += sequence(part, "allOf")
        return parts

    def _fits(self, value: Any, schema: Any, level: int) -> bool:
        if self._exhausted(level):
            return True
        return all(
            _is_of_type(value, part)
            and self._fits_inside(value, part, level + 1)
            and all(any(self._fits(value, branch, level + 1) for branch in branches) for branches in _unions(part))
            for part in self._parts(schema)
        )

    def _fits_inside(self, value: Any, part: Json, level: int) -> bool:
        if isinstance(value, dict):
            return value.keys() >= set(names_of(part, "required")) and all(
                self._fits(item, _of_property(part, name), level) for name, item in value.items()
            )
        if isinstance(value, list):
            return all(self._fits(item, _of_item(part, place), level) for place, item in enumerate(value))
        return True

    def _admits(self, kind: str, schema: Any, level: int) -> bool:
        """Whether a schema has room for a value of a type."""
        if self._exhausted(level):
            return True
        return all(
            _admits_type(kind, part)
            and all(any(self._admits(kind, branch, level + 1) for branch in branches) for branches in _unions(part))
            for part in self._parts(schema)
        )

    def _value(self, value: Any, schema: Any, level: int) -> Any:
        if self._fits(value, schema, level) or self._exhausted(level):
            return value
        if isinstance(value, str):
            return self._parsed(value, schema, level)
        for part in self._parts(schema):
            if isinstance(value, dict):
                value = self._object(value, part, level + 1)
            elif isinstance(value, list):
                value = [self._value(item, _of_item(part, place), level + 1) for place, item in enumerate(value)]
            for branches in _unions(part):
                value = self._either(value, branches, level + 1)
        return value

    def _parsed(self, text: str, schema: Any, level: int) -> Any:
        try:
            parsed = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return text
        if isinstance(parsed, str):
            return text
        value = self._value(parsed, schema, level + 1)
        wanted = not self._admits("string", schema, level) and self._admits(type_of(parsed), schema, level)
        return value if wanted or self._fits(value, schema, level) else text

    def _object(self, value: Json, part: Json, level: int) -> Json:
        required = names_of(part, "required")
        restored: Json = {}
        for name, item in value.items():
            schema = _of_property(part, name)
            if item is not None or name in required or self._fits(None, schema, level):
                restored[name] = self._value(item, schema, level)
        return restored

    def _either(self, value: Any, branches: list[Any], level: int) -> Any:
        for branch in branches:
            candidate = self._value(value, branch, level)
            if self._fits(candidate, branch, level):
                return candidate
        return value

    def _named(self, value: Any, schema: Any, level: int) -> Any:
        """Return a value whose properties have the names of the schema."""
        if self._exhausted(level):
            return value
        for part in self._parts(schema):
            if isinstance(value, dict):
                properties = mapping(part, "properties")
                names = {property_alias(name): name for name in properties if name not in value}
                value = {name if name in properties else names.get(name, name): item for name, item in value.items()}
                value = {name: self._named(item, _of_property(part, name), level + 1) for name, item in value.items()}
            elif isinstance(value, list):
                value = [self._named(item, _of_item(part, place), level + 1) for place, item in enumerate(value)]
            for branch in [branch for branches in _unions(part) for branch in branches]:
                value = self._named(value, branch, level + 1)
        return value


def _has_aliases(schema: Any) -> bool:
    pending = [schema]
    while pending:
        found = pending.pop()
        if isinstance(found, list):
            pending += found
        elif isinstance(found, dict):
            if any(property_alias(name) != name for name in mapping(found, "properties")):
                return True
            pending += found.values()
    return False


def _unions(part: Json) -> list[list[Any]]:
    return [branches for key in ("anyOf", "oneOf") if (branches := sequence(part, key))]


def _is_of_type(value: Any, part: Json) -> bool:
    if "const" in part and not same(value, part["const"]):
        return False
    enum = part.get("enum")
    if isinstance(enum, list) and not any(same(value, known) for known in enum):
        return False
    named, kind = types_of(part), type_of(value)
    if named is None or kind in named or (kind == "integer" and "number" in named):
        return True
    return "integer" in named and isinstance(value, float) and value.is_integer()


def _admits_type(kind: str, part: Json) -> bool:
    named = types_of(part)
    if named is None and isinstance(enum := part.get("enum", [part["const"]] if "const" in part else None), list):
        named = [type_of(value) for value in enum]
    return named is None or kind in named or (kind in ("integer", "number") and bool({"integer", "number"} & {*named}))


def _of_property(part: Json, name: str) -> Any:
    """Return what a schema says of a property: True if nothing, False if it forbids it."""
    properties = mapping(part, "properties")
    if name in properties:
        return properties[name]
    return True if mapping(part, "patternProperties") else part.get("additionalProperties", True)


def _of_item(part: Json, place: int) -> Any:
    """Return what a schema says of an item of a list."""
    items = part.get("items", True)
    places, rest = (
        (items, part.get("additionalItems", True))
        if isinstance(items, list)
        else (
            sequence(part, "prefixItems"),
            items,
        )
    )
    return places[place] if place < len(places) else rest
