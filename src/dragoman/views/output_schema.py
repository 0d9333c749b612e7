"""The output schema of what a JMESPath expression picks, if it can be told from the schema of the whole.

A schema is told of fields, lists of them, and objects and lists made of these. Whatever may be missing becomes null, as
JMESPath does it. Any other expression, and a schema that does not say what is at a place, have no schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.protocol.fields import is_wrapped, wrap_output_schema
from dragoman.schema.walk import COMPOSED, References, items_of, kinds_of, mapping, names_of, objects
from dragoman.types import Json
from dragoman.views.view import View, compile_pick

_MAX_REFERENCES = 20
_DEFINITIONS = ("$defs", "definitions")
_IN_DEFINITIONS = ("#/$defs/", "#/definitions/")
_NULL = {"type": "null"}
_COMPOSED = COMPOSED - {"enum", "const", "$ref"}


def shown_output_schema(view: View, schema: Json | None) -> Json | None:
    """Return the output schema that clients see for a tool under a view; None if it has none, or it is not known."""
    if view.result is not None:
        return None
    if view.pick is None or schema is None:
        return schema
    value = mapping(schema, "properties").get("result") if is_wrapped(schema) else schema
    picked = _Picked(schema).schema(compile_pick(view.pick).parsed, value)
    if picked is None:
        return None
    dialect = {key: schema[key] for key in ("$schema", *_DEFINITIONS) if key in schema}
    shown = {**dialect, **picked}
    references = [str(part["$ref"]) for part in objects(shown) if "$ref" in part]
    if not all(reference.startswith(_IN_DEFINITIONS) for reference in references):
        return None
    return shown if shown.get("type") == "object" else wrap_output_schema(shown)


class _Picked:
    """Tells the schemas of the parts of one document; None stands for an unknown schema."""

    def __init__(self, root: Json) -> None:
        self._references = References(root)

    def schema(self, expression: Any, schema: Any) -> Json | None:
        """Return the schema of what an expression picks from the values of a schema."""
        follow = _FOLLOWED.get(expression["type"])
        resolved = self._resolved(schema)
        return None if follow is None or resolved is None else follow(self, expression, resolved)

    def _resolved(self, schema: Any) -> Json | None:
        """Return a schema without a reference at its root, if it says all about its values in one place."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, dict) or schema.keys() & _COMPOSED:
                return None
            if "$ref" not in schema:
                return schema
            schema = self._references.target(schema["$ref"])
        return None

    def _field(self, expression: Any, schema: Json) -> Json | None:
        name = expression["value"]
        part = mapping(schema, "properties").get(name)
        if kinds_of(schema) != ["object"] or not isinstance(part, dict):
            return None
        return part if name in names_of(schema, "required") else _nullable(part)

    def _identity(self, _: Any, schema: Json) -> Json | None:
        return schema

    def _subexpression(self, expression: Any, schema: Json) -> Json | None:
        picked: Json | None = schema
        for part in expression["children"]:
            if picked is None:
                return None
            inner = self.schema(part, _without_null(picked))
            picked = inner if inner is None or _without_null(picked) is picked else _nullable(inner)
        return picked

    def _projection(self, expression: Any, schema: Json) -> Json | None:
        source, element = expression["children"]
        is_flat = source["type"] == "flatten"
        whole = self.schema(source["children"][0] if is_flat else source, schema)
        listed = self._resolved(None if whole is None else _without_null(whole))
        if listed is None or kinds_of(listed) != ["array"]:
            return None
        places, rest = items_of(listed)
        each = self._resolved(rest) if not places else None
        if each is None or (is_flat and "array" in (kinds_of(each) or ["array"])):
            return None
        picked = self.schema(element, each)
        if picked is None:
            return None
        array: Json = {"type": "array", "items": _without_null(picked)}  # a projection leaves null out
        return array if whole is None or _without_null(whole) is whole else _nullable(array)

    def _object(self, expression: Any, schema: Json) -> Json | None:
        members = {pair["value"]: self.schema(pair["children"][0], schema) for pair in expression["children"]}
        if None in members.values():
            return None
        return {"type": "object", "properties": members, "required": list(members)}


def _without_null(schema: Json) -> Json:
    """Return the schema of a value that may be null without null; the same object if there is no null to leave out."""
    branches = schema.get("anyOf")
    is_nullable = schema.keys() - {"title", "description", "default"} == {"anyOf"} and _NULL in (branches or ())
    remaining = [branch for branch in branches or () if branch != _NULL] if is_nullable else []
    return remaining[0] if len(remaining) == 1 and isinstance(remaining[0], dict) else schema


def _nullable(schema: Json) -> Json:
    return schema if _without_null(schema) is not schema else {"anyOf": [schema, _NULL]}


_FOLLOWED: dict[str, Callable[[_Picked, Any, Json], Json | None]] = {
    "field": _Picked._field,
    "identity": _Picked._identity,
    "subexpression": _Picked._subexpression,
    "projection": _Picked._projection,
    "multi_select_dict": _Picked._object,
}
"""The kinds of expressions whose results have a schema, by the names of jmespath."""
