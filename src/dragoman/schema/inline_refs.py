"""JSON Schemas with every `$ref` replaced by its target, for clients that cannot follow references.

The result describes the same values as the schema, except where recursion is cut: on the way to a subschema, the same
reference is followed at most `MAX_REPEATS` times, through at most `MAX_LEVELS` levels, and the result has about
`MAX_SUBSCHEMAS` subschemas at most. Beyond a bound, a reference to an object becomes `{"type": "object"}`, and any
other reference becomes `{}`. References are expanded level by level, so a large schema loses its deepest parts first.

Rejected: the trees of `inline`. They lack keywords that the APIs of models refuse but that other clients read.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dragoman.schema.walk import References, objects, types_of, with_subschemas
from dragoman.types import Json

MAX_REPEATS = 3
MAX_SUBSCHEMAS = 2_000
MAX_LEVELS = 40
"""A level takes up to two levels of JSON, and a message may have 128."""
_DEFINITIONS = frozenset({"$defs", "definitions"})
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that constrain no value: beside a reference, they replace those of its target."""
_ROOT_KEYWORDS = frozenset({"$schema", "$id", "$comment"}) | _DEFINITIONS

Trail = tuple[str, ...]
"""The references that lead to a subschema."""


def inline_refs(schema: Json) -> Json:
    """Return a schema with every reference within the document replaced by its target.

    Example:
        inline_refs({"items": {"$ref": "#/$defs/City"}, "$defs": {"City": {"type": "string"}}})
        # {"items": {"type": "string"}}
    """
    if not any("$ref" in part for part in objects(schema)):
        return schema
    references = References(schema)
    root: Json = {}
    unvisited: deque[tuple[Json, Json, Trail, int]] = deque([(root, schema, (), 0)])
    count = 0
    while unvisited:
        holder, part, trail, level = unvisited.popleft()
        count += 1
        is_full = count + len(unvisited) > MAX_SUBSCHEMAS or level > MAX_LEVELS
        part, trail = _resolved(part, trail, references, is_full=is_full)

        def enqueue(subschema: Json, *_: Any, trail: Trail = trail, level: int = level + 1) -> Json:
            copy: Json = {}
            unvisited.append((copy, subschema, trail, level))
            return copy

        # The mapping of an OpenAPI discriminator refers to definitions too, in plain strings.
        remaining = {key: value for key, value in part.items() if key not in _DEFINITIONS and key != "discriminator"}
        holder.update(with_subschemas(remaining, enqueue))
    if any("$ref" in part for part in objects(root)):
        # A reference without a target within the document may need the definitions.
        root |= {key: schema[key] for key in _DEFINITIONS if key in schema}
    return root


def _resolved(part: Json, trail: Trail, references: References, *, is_full: bool) -> tuple[Json, Trail]:
    """Replace the reference of a subschema by its target; a reference without a target stays."""
    while "$ref" in part:
        reference = part["$ref"]
        target = references.target(reference)
        if target is True:
            target = {}
        if not isinstance(target, dict):
            break
        beside = {key: value for key, value in part.items() if key != "$ref"}
        if is_full or trail.count(reference) >= MAX_REPEATS:
            about = {key: value for key, value in (target | beside).items() if key in _ANNOTATIONS}
            return ({"type": "object"} if types_of(target) == ["object"] else {}) | about, trail
        trail = (*trail, reference)
        if beside.keys() <= _ANNOTATIONS | _ROOT_KEYWORDS:
            part = target | beside
        else:
            part = {**beside, "allOf": [target, *beside.get("allOf", ())]}
    return part, trail
