"""JSON Schemas as trees: without references, conditions, boolean schemas, and compositions other than `anyOf`.

A reference is replaced by its target, the parts of `allOf` are merged, `oneOf` becomes `anyOf`, `const` becomes an
`enum` of one value, and a tuple becomes a list of any of its items. `type` is always a list. Keywords that a tree
cannot express are added to the description as text. A cycle ends in an object of any shape. Size and depth are bounded,
because a schema of a few lines can expand beyond the memory; beyond the bound a schema allows any value.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.schema import walk
from dragoman.types import Json

MAX_NODES = 2_000
MAX_LEVELS = 40
MAX_VARIANTS = 16
MAX_NOTE_LENGTH = 300

_TEXTS = frozenset({"description", "title", "format", "pattern"})


def inline(schema: Any) -> Json:
    """Return a schema as a tree.

    Example:
        inline({"$ref": "#/$defs/City", "$defs": {"City": {"type": "string"}}})  # {"type": ["string"]}
    """
    return _Inliner(schema).node(schema, ())


def is_never(schema: Any) -> bool:
    """Tell whether a schema allows no value at all."""
    return schema is False or (isinstance(schema, dict) and "not" in schema and schema["not"] in ({}, True))


def with_note(schema: Json, words: str) -> Json:
    """Return a schema with a text added to its description."""
    before = schema.get("description")
    return schema | {"description": f"{before} ({words})" if before else words}


def in_words(key: str, value: Any) -> str:
    """Return a keyword and its value as text."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"{key}: {walk.shortened(text, MAX_NOTE_LENGTH)}"


def merge(one: Json, other: Json) -> Json:
    """Return a tree for the values that fit both trees."""
    merged = dict(one)
    for key, value in other.items():
        merged[key] = _merged_keyword(key, merged[key], value) if key in merged else value
    if "type" in one and "type" in other and not merged["type"]:
        return with_note(merged | {"type": one["type"]}, "its types contradict each other")
    if ("additionalProperties" in one) != ("additionalProperties" in other):
        closed, open = (one, other) if "additionalProperties" in one else (other, one)
        if not open.get("properties", {}).keys() <= closed.get("properties", {}).keys():
            del merged["additionalProperties"]  # the keyword would forbid the properties of the other tree
    return merged


def _merged_keyword(key: str, one: Any, other: Any) -> Any:
    if key == "type":
        return common_types(one, other)
    if key == "properties":
        return one | {name: merge(one[name], tree) if name in one else tree for name, tree in other.items()}
    if key == "required":
        return list(dict.fromkeys([*one, *other]))
    if key == "enum":
        return [value for value in one if any(walk.same(value, known) for known in other)] or one
    if key == "items":
        return merge(one, other)
    if key == "anyOf":
        return _combined_variants(one, other)
    if key in walk.LIMITS - {"multipleOf"}:
        return max(one, other) if key in walk.LOWEST else min(one, other)
    if key == "description":
        return one if other in one else f"{one} {other}"
    if key == "additionalProperties":
        return merge(one, other) if isinstance(one, dict) and isinstance(other, dict) else one and other
    return one


def common_types(one: list[str], other: list[str]) -> list[str]:
    """Return the types that are in both lists; every integer is a number."""
    found = [kind for kind in one if kind in other or (kind == "integer" and "number" in other)]
    return found + [kind for kind in other if kind == "integer" and "number" in one and kind not in found]


def _combined_variants(one: list[Json], other: list[Json]) -> list[Json]:
    if len(one) * len(other) > MAX_VARIANTS:
        return one
    return walk.distinct(merge(first, second) for first in one for second in other)


class _Inliner:
    def __init__(self, root: Any) -> None:
        self._references = walk.References(root)
        self._nodes = 0
        self._level = 0

    def node(self, schema: Any, trail: tuple[str, ...]) -> Json:
        """Return the tree of a schema; `trail` lists the references that are being expanded."""
        self._nodes += 1
        if self._nodes > MAX_NODES or self._level > MAX_LEVELS:
            return {"description": "too large to be described here; any value is taken"}
        if not isinstance(schema, dict):
            return {}
        self._level += 1
        try:
            return self._composed(schema, trail)
        finally:
            self._level -= 1

    def _composed(self, schema: Json, trail: tuple[str, ...]) -> Json:
        tree = self._own_keywords(schema, trail)
        for key in walk.REFERENCES:
            if isinstance(reference := schema.get(key), str):
                tree = merge(tree, self._target(reference, trail))
        for part in walk.sequence(schema, "allOf"):
            tree = merge(tree, self.node(part, trail))
        for key in ("anyOf", "oneOf"):
            branches = [self.node(branch, trail) for branch in walk.sequence(schema, key) if not is_never(branch)]
            if branches:
                tree = merge(tree, _any_of(branches))
        return self._conditions(tree, schema, trail)

    def _target(self, reference: str, trail: tuple[str, ...]) -> Json:
        if reference in trail:
            name = reference.rsplit("/", 1)[-1].lstrip("#")
            like = f"another {name}" if name else "the whole"
            return {"type": ["object"], "description": f"nested, of the same shape as {like}"}
        target = self._references.target(reference)
        if target is None:
            return {"description": f"as described by {reference}"}
        return self.node(target, (*trail, reference))

    def _own_keywords(self, schema: Json, trail: tuple[str, ...]) -> Json:
        tree: Json = {key: value for key, value in schema.items() if key in _TEXTS and isinstance(value, str)}
        tree |= {key: value for key, value in schema.items() if key in walk.LIMITS and walk.type_of(value) in _NUMERIC}
        for limit, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if schema.get(limit) is True and bound in tree:
                tree[limit] = tree.pop(bound)
        if types := walk.types_of(schema):
            tree["type"] = types
        if "const" in schema:
            tree["enum"] = [schema["const"]]
        elif enum := walk.sequence(schema, "enum"):
            tree["enum"] = enum
        tree |= {key: schema[key] for key in ("default", "uniqueItems") if key in schema}
        return self._items(self._properties(tree, schema, trail), schema, trail)

    def _properties(self, tree: Json, schema: Json, trail: tuple[str, ...]) -> Json:
        if "properties" in schema:
            properties = walk.mapping(schema, "properties")
            tree["properties"] = {
                name: self.node(value, trail) for name, value in properties.items() if not is_never(value)
            }
        if required := walk.names_of(schema, "required"):
            tree["required"] = required
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            tree["additionalProperties"] = self.node(additional, trail)
        elif isinstance(additional, bool):
            tree["additionalProperties"] = additional or bool(walk.mapping(schema, "patternProperties"))
        return tree

    def _items(self, tree: Json, schema: Json, trail: tuple[str, ...]) -> Json:
        places, rest = walk.items_of(schema)
        if places:
            trees = [self.node(place, trail) for place in places]
            trees += [self.node(rest, trail)] if isinstance(rest, dict) else []
            tree["items"] = _any_of(walk.distinct(trees))
            tree = with_note(tree, in_words("items in this order", places))
        elif isinstance(rest, dict):
            tree["items"] = self.node(rest, trail)
        if rest is False:
            tree["maxItems"] = min(len(places), tree.get("maxItems", len(places)))
        return tree

    def _conditions(self, tree: Json, schema: Json, trail: tuple[str, ...]) -> Json:
        for key in walk.INEXPRESSIBLE:
            if key in schema:
                tree = with_note(tree, in_words(key, schema[key]))
        dependent = walk.mapping(schema, "dependentSchemas") | walk.mapping(schema, "dependencies")
        for name, part in dependent.items():
            tree = with_note(tree, in_words(f"with {name}", part))
        possible = list(dependent.values())
        if "if" in schema and ("then" in schema or "else" in schema):
            tree = with_note(
                tree, "; ".join(in_words(key, schema[key]) for key in ("if", "then", "else") if key in schema)
            )
            possible += [schema.get("then"), schema.get("else")]
        for part in possible:
            found = self.node(part, trail).get("properties", {})
            if found:
                tree["properties"] = found | tree.get("properties", {})
        return tree


_NUMERIC = ("integer", "number")


def _any_of(branches: list[Json]) -> Json:
    """Return a tree for the values that fit one of several trees."""
    if len(branches) == 1:
        return branches[0]
    if all("enum" in branch and branch.keys() <= {"enum", "type", "title", "description"} for branch in branches):
        return _choices(branches)
    return {"anyOf": walk.distinct(branches)}


def _choices(branches: list[Json]) -> Json:
    joined: Json = {"enum": walk.distinct(value for branch in branches for value in branch["enum"])}
    titles = [
        in_words(str(branch["enum"][0]), branch.get("title") or branch["description"])
        for branch in branches
        if branch.get("title") or branch.get("description")
    ]
    if all("type" in branch for branch in branches):
        joined["type"] = list(dict.fromkeys(kind for branch in branches for kind in branch["type"]))
    return with_note(joined, "; ".join(titles)) if titles else joined
