import pytest

from dragoman import Argument
from dragoman.views.constraints import conflict, customized


@pytest.mark.parametrize(
    ("own", "schema", "expected"),
    [
        ({"type": "integer"}, {"minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"maximum": 100}, {"maximum": 20}, {"maximum": 20}),
        ({"maximum": 10}, {"maximum": 20}, {"maximum": 10}),
        ({"minLength": 1}, {"minLength": 3}, {"minLength": 3}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, {"enum": ["b"]}),
        ({"type": ["string", "null"]}, {"type": "string"}, {"type": "string"}),
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"type": "integer"}, {"type": ["number", "string"]}, {"type": "integer"}),
        ({"pattern": "a"}, {"pattern": "b"}, {"pattern": "a", "allOf": [{"pattern": "b"}]}),
        ({"$ref": "#/$defs/a"}, {"minimum": 1}, {"allOf": [{"$ref": "#/$defs/a"}, {"minimum": 1}]}),
        ({"maximum": 5, "exclusiveMinimum": True}, {"maximum": 4}, None),
        ({"properties": {"a": {}}}, {"properties": {"b": {}}}, None),
        (True, {"minimum": 1}, {"minimum": 1}),
        (False, {"minimum": 1}, {"not": {}, "minimum": 1}),
    ],
)
def test_constraints_join_the_schema_of_the_argument(own, schema, expected):
    assert customized(own, Argument(schema=schema)) == (expected or {**own, "allOf": [schema]})


def test_notes_of_the_view_replace_those_of_the_tool():
    argument = Argument(title="T", description="D", default=1, schema={"examples": [1]})
    own = {"type": "integer", "title": "t", "default": 2}
    assert customized(own, argument) == {
        "type": "integer",
        "title": "T",
        "description": "D",
        "examples": [1],
        "default": 1,
    }
    assert customized(own, Argument(name="x")) is own


def test_types_that_exclude_each_other_are_told():
    assert conflict({"type": "string"}, {"type": "integer"}) == "its type is string, and the view demands integer"
    assert conflict({"type": "number"}, {"type": "integer"}) is None
    assert conflict({"type": "string"}, {"minLength": 1}) is None
    assert conflict(True, {"type": "integer"}) is None
