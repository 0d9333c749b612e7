"""Instances of the definitions of an official schema, as hypothesis strategies.

Only the keywords that these schemas use are understood; any other is refused, so that a new one is noticed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Schema = Mapping[str, Any]
Instances = SearchStrategy[Any]

DEPTH = 12
"""How many objects and arrays may be nested; below that, only what is required is generated."""

RECURSIVE_DEPTH = 3
"""The same for a definition that contains itself."""

OPEN_MEMBERS = frozenset({"_meta", "inputSchema", "outputSchema"})
"""Objects which hold more keys than the schema names, and must keep them."""

CLOSED_MEMBERS = frozenset({"sampling", "elicitation", "roots"})
"""Capabilities that older schemas leave open, but of which only the keys that a later schema names have a meaning."""

_UNDERSTOOD = frozenset(
    (
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "properties",
        "required",
        "type",
    )
)

_ANYTHING: Schema = {}

texts = st.text(max_size=8)


def objects(values: Instances, *, fewest: int = 0) -> Instances:
    """Return objects of up to two members under any key."""
    return st.lists(st.tuples(texts, values), min_size=fewest, max_size=2).map(dict)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
flat_values = scalars | st.lists(scalars, max_size=2) | objects(scalars)
free_values = flat_values | st.lists(flat_values, max_size=2) | objects(flat_values)
free_objects = objects(flat_values)

_FORMATS: dict[str, Instances] = {
    "byte": st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode()),
    "uri": st.builds(
        "{}://{}/{}".format,
        st.sampled_from(["file", "https", "note+private"]),
        st.sampled_from(["", "example.org", "127.0.0.1:8080", "[::1]"]),
        st.text("abc019-._~/", max_size=8),
    ),
    "uri-template": st.sampled_from(["file:///{path}", "note://{+folder}/{name}{?page,size}", "https://example.org/"]),
}


class Generator:
    """Makes instances of the definitions of one schema; a `complete` one leaves out no optional property."""

    def __init__(self, definitions: Mapping[str, Schema], *, complete: bool) -> None:
        self._definitions = definitions
        self._complete = complete
        self._definition = cache(self._build_definition)
        self._recursive = {name for name in definitions if name in self._reached_from(name)}

    def instances(self, name: str) -> Instances:
        """Return a strategy for the instances of a definition."""
        return self._definition(name, DEPTH, "")

    def _build_definition(self, name: str, depth: int, member: str) -> Instances:
        if name in self._recursive:
            depth = min(depth, RECURSIVE_DEPTH)
        return self._build(self._definitions[name], depth, member)

    def _reached_from(self, name: str) -> set[str]:
        reached: set[str] = set()
        ahead = {name}
        while ahead:
            ahead = {other for one in ahead for other in _references(self._definitions[one])} - reached
            reached |= ahead
        return reached

    def _build(self, schema: Schema, depth: int, member: str = "") -> Instances:
        if unknown := schema.keys() - _UNDERSTOOD:
            raise NotImplementedError(f"The generator does not understand {', '.join(sorted(unknown))}")
        if "$ref" in schema:
            return self._definition(_name(schema), depth, member)
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "anyOf" in schema:
            return st.one_of([self._build(arm, depth, member) for arm in schema["anyOf"]])
        if "allOf" in schema:
            return self._object(self._merged(schema["allOf"]), depth, member)
        return self._typed(schema, depth, member)

    def _typed(self, schema: Schema, depth: int, member: str) -> Instances:
        match schema.get("type"):
            case None:
                return free_values
            case list(kinds):
                return st.one_of([self._typed({**schema, "type": kind}, depth, member) for kind in kinds])
            case "object":
                return self._object(schema, depth, member)
            case "array":
                return self._array(schema, depth)
            case "string":
                return _FORMATS[schema["format"]] if "format" in schema else texts
            case kind:
                return _scalar(kind, schema)

    def _array(self, schema: Schema, depth: int) -> Instances:
        fewest, most = schema.get("minItems", 0), schema.get("maxItems", 2)
        if depth <= 0 and fewest == 0:
            return st.builds(list)
        items = self._build(schema.get("items", _ANYTHING), depth - 1)
        return st.lists(items, min_size=max(fewest, int(self._complete)), max_size=max(fewest, min(most, 2)))

    def _object(self, schema: Schema, depth: int, member: str) -> Instances:
        properties = schema.get("properties", {})
        if not properties and member not in CLOSED_MEMBERS:
            return self._map(schema, depth)
        wanted = {key: value for key, value in properties.items() if depth > 0 or key in schema.get("required", ())}
        members = {key: self._build(value, depth - 1, key) for key, value in wanted.items()}
        always = {key: value for key, value in members.items() if self._complete or key in schema.get("required", ())}
        sometimes = {key: value for key, value in members.items() if key not in always}
        named = st.fixed_dictionaries(always, optional=sometimes)
        if member not in OPEN_MEMBERS:
            return named
        return st.tuples(free_objects, named).map(lambda both: _added(both[0], both[1], properties))

    def _map(self, schema: Schema, depth: int) -> Instances:
        values = schema.get("additionalProperties", True)
        if values in (True, _ANYTHING):
            return free_objects
        if depth <= 0:
            return st.builds(dict)
        return objects(self._build(values, depth - 1), fewest=int(self._complete))

    def _merged(self, arms: list[Schema]) -> Schema:
        """Return one schema for all arms; where two name a property, the later one is the narrower."""
        resolved = [self._definitions[_name(arm)] if "$ref" in arm else arm for arm in arms]
        properties = {key: value for arm in resolved for key, value in arm.get("properties", {}).items()}
        required = [key for arm in resolved for key in arm.get("required", ())]
        return {"type": "object", "properties": properties, "required": required}


def _added(unnamed: dict[str, Any], named: dict[str, Any], properties: Schema) -> dict[str, Any]:
    return {key: value for key, value in unnamed.items() if key not in properties} | named


def _references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_references, schema))
    if not isinstance(schema, dict):
        return set()
    here = {_name(schema)} if "$ref" in schema else set()
    return here.union(*map(_references, schema.values()))


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _scalar(kind: str, schema: Schema) -> Instances:
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    integers = st.integers(lowest, highest)
    match kind:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return integers
        case "number":
            return integers | st.floats(lowest, highest, allow_nan=False, allow_infinity=False)
    raise NotImplementedError(f"The generator does not understand the type {kind}")
