"""JSON Schema as data: its keywords, the walk over its subschemas, and what single keywords say.

The sets below are the one table of keywords. They say which keywords hold subschemas and how, which hold plain values,
and to what of a value a subschema applies. Everything that goes through a schema uses `subschemas`,
`with_subschemas` or `objects`. A schema may come from anywhere, so nothing here requires that it is well-formed.

The value of a keyword that is not in the table is taken for a subschema if it is an object: keywords of others may hold
schemas. A walk that knows only the keywords of the specification was rejected, because it would miss references and
annotations there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from dragoman.types import Json

NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
"""Their values are objects: a subschema for each name."""
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Their values are lists of subschemas. So is that of `items` in older drafts."""
SINGLE = frozenset(
    {"not", "if", "then", "else", "propertyNames", "additionalProperties", "unevaluatedProperties"}
    | {"items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"}
)
"""Their values are subschemas."""
PLAIN = frozenset({"const", "enum", "default", "examples", "dependentRequired"})
"""Their values are no schemas, whatever they look like."""

IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Their subschemas apply to the same value as the schema."""
OF_EVERY_MEMBER = frozenset({"patternProperties", "additionalProperties", "unevaluatedProperties"})
"""Their subschemas may apply to any member of an object."""
OF_ITEMS = frozenset({"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"})
"""Their subschemas apply to the items of an array."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
ANCHORS = ("$anchor", "$dynamicAnchor")

LOWEST = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
HIGHEST = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
LIMITS = LOWEST | HIGHEST | {"multipleOf"}
"""Their values are numbers."""
OF_TYPE = {
    "object": frozenset({"properties", "required", "additionalProperties", "minProperties", "maxProperties"}),
    "array": frozenset({"items", "minItems", "maxItems", "uniqueItems"}),
    "string": frozenset({"format", "pattern", "minLength", "maxLength"}),
    "number": frozenset({"format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
OF_TYPE["integer"] = OF_TYPE["number"]
"""What is said of values of one type only."""

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_MAX_INDEX_DIGITS = 9
_ALIASES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean", "list": "array", "dict": "object"}

Place = str | int | None
"""Where under its keyword a subschema stands: at a name, at an index, or alone."""


def subschemas(schema: Json, among: Collection[str] | None = None) -> Iterator[tuple[str, Place, Any]]:
    """Yield the subschemas of a schema, objects and booleans, with their keyword and place; `among` limits keywords."""
    for keyword in schema if among is None else [keyword for keyword in among if keyword in schema]:
        for place, held in _places(keyword, schema[keyword]):
            yield from ((keyword, place, part) for part in _schemas_in(held))


def _places(keyword: str, value: Any) -> Iterable[tuple[Place, Any]]:
    if keyword in PLAIN:
        return ()
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return value.items() if keyword in NAMED else ((None, value),)
    return ()


def _schemas_in(held: Any) -> Iterator[Any]:
    waiting = [held]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict | bool):
            yield part
        elif isinstance(part, list):
            waiting += part


def with_subschemas(schema: Json, change: Callable[[Json, str, str | None], Any]) -> Json:
    """Return a copy of a schema whose subschemas are what `change(subschema, keyword, name)` makes of them."""

    def changed(held: Any, keyword: str, name: str | None) -> Any:
        if isinstance(held, list):
            return [changed(part, keyword, name) for part in held]
        return change(held, keyword, name) if isinstance(held, dict) else held

    copy = dict(schema)
    for keyword, value in schema.items():
        if keyword in NAMED and isinstance(value, dict):
            copy[keyword] = {name: changed(part, keyword, name) for name, part in value.items()}
        elif keyword not in PLAIN:
            copy[keyword] = changed(value, keyword, None)
    return copy


def objects(value: Any) -> Iterator[Json]:
    """Yield every object in a JSON value. In a schema some are no subschemas, but a reference may lead to any."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


class References:
    """What the references within one document point at."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._anchored: dict[str, Any] | None = None

    def target(self, reference: Any) -> Any:
        """Return what a reference points at, and None where it points at nothing or out of the document."""
        if not isinstance(reference, str):
            return None
        document, _, fragment = reference.partition("#")
        if document not in ("", _member(self._root, "$id")):
            return None
        if fragment and not fragment.startswith("/"):
            return self._anchors().get(fragment)
        found = self._root
        for token in unquote(fragment).split("/")[1:]:
            found = _member(found, token.replace("~1", "/").replace("~0", "~"))
        return found

    def _anchors(self) -> dict[str, Any]:
        if self._anchored is None:
            found = [(part.get(keyword), part) for part in objects(self._root) for keyword in ANCHORS]
            self._anchored = {name: part for name, part in found if isinstance(name, str)}
        return self._anchored


def _member(holder: Any, token: str) -> Any:
    """Return what a token of a JSON pointer leads to, None where it leads nowhere."""
    if isinstance(holder, list):
        is_index = token.isdecimal() and len(token) <= _MAX_INDEX_DIGITS and int(token) < len(holder)
        return holder[int(token)] if is_index else None
    return holder.get(token) if isinstance(holder, dict) else None


def mapping(schema: Any, key: str) -> Json:
    """Return an object of a schema, empty where it has none."""
    found = schema.get(key) if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def sequence(schema: Json, key: str) -> list[Any]:
    """Return a list of a schema, empty where it has none."""
    found = schema.get(key)
    return found if isinstance(found, list) else []


def names_of(schema: Json, key: str) -> list[str]:
    """Return a list of names of a schema, each once."""
    return list(dict.fromkeys(name for name in sequence(schema, key) if isinstance(name, str)))


def types_of(schema: Json) -> list[str] | None:
    """Return the types that a schema names, None where it names none."""
    named = schema.get("type")
    words = [word.lower() for word in (named if isinstance(named, list) else [named]) if isinstance(word, str)]
    types = [kind for word in words if (kind := _ALIASES.get(word, word)) in TYPES]
    if types and schema.get("nullable") is True:
        types.append("null")
    return list(dict.fromkeys(types)) or None


def type_of(value: Any) -> str:
    """Return the JSON type of a value."""
    exact = _TYPE_OF.get(type(value))
    return exact or next((name for kind, name in _TYPE_OF.items() if isinstance(value, kind)), "object")


_TYPE_OF = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def choices_of(schema: Json) -> list[Any] | None:
    """Return the values one of which a value must be, None where a schema does not list them."""
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return choices if isinstance(choices, list) else None


def kinds_of(schema: Json) -> list[str] | None:
    """Return the types that a schema has room for: those that it names, else those of its choices; None if all."""
    choices = choices_of(schema)
    return types_of(schema) or (None if choices is None else [type_of(choice) for choice in choices])


def items_of(schema: Json) -> tuple[list[Any], Any]:
    """Return the schemas of the first items of an array and that of the others, None where none is said."""
    items = schema.get("items")
    if isinstance(items, list):
        return items, schema.get("additionalItems")
    return sequence(schema, "prefixItems"), items


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal; True is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return values without those that repeat an earlier one."""
    found: dict[bytes, Any] = {}
    for value in values:
        found.setdefault(msgspec.json.encode(value, order="deterministic"), value)
    return list(found.values())
