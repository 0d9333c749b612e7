"""What is wrong with tools."""

import pytest

from dragoman.inspector.doctor.tools import problems
from dragoman.types import Tool

FINE = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {}}}}


def found(schema=FINE, **given):
    tool = Tool(**{"name": "forecast", "description": "Weather for a city.", "input_schema": schema} | given)
    return [problem for problem, _ in problems(tool)]


@pytest.mark.covers("CMD-11")
@pytest.mark.parametrize(
    "schema",
    [
        FINE,
        {"type": "object"},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}]}}},
    ],
)
def test_there_is_nothing_wrong_with_a_usual_tool(schema):
    assert found(schema) == []


@pytest.mark.covers("CMD-11")
@pytest.mark.parametrize(
    ("schema", "given", "sign"),
    [
        (FINE, {"name": "9lives"}, "refuse the name"),
        (FINE, {"name": "x" * 65}, "refuse the name"),
        (FINE, {"description": None}, "no description"),
        (FINE, {"description": "  "}, "no description"),
        ({"$ref": "#/$defs/A", "$defs": {"A": FINE}}, {}, "has $ref at its top"),
        ({"properties": {}}, {}, "is no plain object"),
        (FINE, {"output_schema": {"type": "strong"}}, "output schema is no JSON Schema"),
        ({"type": "object", "properties": {"a b": {}}}, {}, "argument names 'a b'"),
        ({"type": "object", "properties": {"a": {"items": {"type": "array"}}}}, {}, "does not say of what"),
    ],
)
def test_what_models_cannot_use_is_named(schema, given, sign):
    (problem,) = found(schema, **given)
    assert sign in problem
