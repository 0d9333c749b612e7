"""The keywords of JSON Schema, iteration over subschemas, and readers of single keywords.

The sets below are the only table of keywords in the package. They list which keywords hold subschemas and in which
form, which hold plain values, and to which part of a value a subschema applies. Code that traverses a schema uses
`subschemas`, `with_subschemas` or `objects`. A schema may come from a peer, so it need not be well-formed.

An object under a keyword that is not in the table counts as a subschema, because keywords of other vocabularies may
hold schemas.

Rejected: skipping unknown keywords. References and annotations inside them would be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec

from dragoman.types import Json

NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
"""Keywords whose values are objects: a subschema for each name."""
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose values are lists of subschemas; in older drafts the value of `items` may be a list too."""
SINGLE = frozenset(
    {"not", "if", "then", "else", "propertyNames", "additionalProperties", "unevaluatedProperties"}
    | {"items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"}
)
"""Keywords whose values are subschemas."""
PLAIN = frozenset({"const", "enum", "default", "examples", "dependentRequired"})
"""Keywords whose values are never schemas, even if they are objects."""

IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Keywords whose subschemas apply to the same value as the schema."""
OF_EVERY_MEMBER = frozenset({"patternProperties", "additionalProperties", "unevaluatedProperties"})
"""Keywords whose subschemas may apply to any member of an object."""
OF_ITEMS = frozenset({"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"})
"""Keywords whose subschemas apply to the items of an array."""

CHOICES = ("enum", "const")
COMPOSED = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", *CHOICES})
"""Keywords with which a schema says more than the members, items and limits of one type."""
MEMBERS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "propertyNames"})
"""Keywords about the names and values of members."""
INEXPRESSIBLE = (
    *("not", "propertyNames", "patternProperties", "contains", "minContains", "maxContains", "dependentRequired"),
    *("contentEncoding", "contentMediaType"),
)
"""Keywords that a tree of `inline` holds only as text."""
VARYING = frozenset({"$schema", "$comment", "nullable", "additionalItems", "type", "required", "items", "prefixItems"})
"""Keywords that differ between drafts, or that the APIs of models refuse."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
ANCHORS = ("$anchor", "$dynamicAnchor")

LOWEST = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
HIGHEST = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
LIMITS = LOWEST | HIGHEST | {"multipleOf"}
"""Keywords whose values are numbers."""
OF_TYPE = {
    "object": frozenset({"properties", "required", "additionalProperties", "minProperties", "maxProperties"}),
    "array": frozenset({"items", "minItems", "maxItems", "uniqueItems"}),
    "string": frozenset({"format", "pattern", "minLength", "maxLength"}),
    "number": frozenset({"format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
OF_TYPE["integer"] = OF_TYPE["number"]
"""The keywords that apply to values of one type only."""

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_MAX_INDEX_DIGITS = 9
_ALIASES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean", "list": "array", "dict": "object"}

Place = str | int | None
"""The place of a subschema under its keyword: a name, an index, or None for the only one."""


def subschemas(schema: Json, among: Collection[str] | None = None) -> Iterator[tuple[str, Place, Any]]:
    """Yield the subschemas of a schema (objects and booleans) with keyword and place; `among` limits the keywords."""
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
    unvisited = [held]
    while unvisited:
        part = unvisited.pop()
        if isinstance(part, dict | bool):
            yield part
        elif isinstance(part, list):
            unvisited += part


def with_subschemas(schema: Json, change: Callable[[Json, str, str | None], Any]) -> Json:
    """Return a copy of a schema with each subschema replaced by `change(subschema, keyword, name)`."""

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
    """Yield every object in a JSON value, also those that are no subschemas, because references may lead to them."""
    unvisited = [value]
    while unvisited:
        part = unvisited.pop()
        if isinstance(part, dict):
            yield part
            unvisited += part.values()
        elif isinstance(part, list):
            unvisited += part


class References:
    """The targets of the references within one document."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._anchored: dict[str, Any] | None = None

    def target(self, reference: Any) -> Any:
        """Return the target of a reference, None if it does not exist or is in another document."""
        if not isinstance(reference, str):
            return None
        document, _, fragment = reference.partition("#")
        if document not in ("", _member(self._root, "$id")):
            return None
        if fragment and not fragment.startswith("/"):
            return self._anchors().get(fragment)
        from urllib.parse import unquote  # most schemas do not need it

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
    """Return the member for one token of a JSON pointer, None if there is none."""
    if isinstance(holder, list):
        is_index = token.isdecimal() and len(token) <= _MAX_INDEX_DIGITS and int(token) < len(holder)
        return holder[int(token)] if is_index else None
    return holder.get(token) if isinstance(holder, dict) else None


def mapping(schema: Any, key: str) -> Json:
    """Return the value of a keyword if it is an object, else an empty one."""
    found = schema.get(key) if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def sequence(schema: Json, key: str) -> list[Any]:
    """Return the value of a keyword if it is a list, else an empty one."""
    found = schema.get(key)
    return found if isinstance(found, list) else []


def names_of(schema: Json, key: str) -> list[str]:
    """Return the strings in the list under a keyword, without repetitions."""
    return list(dict.fromkeys(name for name in sequence(schema, key) if isinstance(name, str)))


def types_of(schema: Json) -> list[str] | None:
    """Return the types that a schema names, None if it names none."""
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
    """Return the values of `enum` or `const`, None if the schema has neither."""
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return choices if isinstance(choices, list) else None


def kinds_of(schema: Json) -> list[str] | None:
    """Return the types that a schema allows: those that it names, else those of its choices; None if all."""
    choices = choices_of(schema)
    return types_of(schema) or (None if choices is None else [type_of(choice) for choice in choices])


def items_of(schema: Json) -> tuple[list[Any], Any]:
    """Return the schemas of the first items of an array and the schema of the other items, None if it has none."""
    items = schema.get("items")
    if isinstance(items, list):
        return items, schema.get("additionalItems")
    return sequence(schema, "prefixItems"), items


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal; in JSON, true is not equal to 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the values without repetitions."""
    found: dict[bytes, Any] = {}
    for value in values:
        found.setdefault(msgspec.json.encode(value, order="deterministic"), value)
    return list(found.values())


def shortened(text: str, length: int, ellipsis: str = "…") -> str:
    """Return the beginning of a text that is longer than `length`, with an ellipsis, else the text."""
    return text if len(text) <= length else text[:length] + ellipsis
