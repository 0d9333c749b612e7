"""Schemas under a view; that they are exact is shown by tests/properties/test_views.py."""

import pytest

from dragoman import Argument
from dragoman.views.findings import Unsupported
from dragoman.views.input_schema import argument_names, takes_further_arguments
from dragoman.views.tool_arguments import ToolArguments


def shown(schema, **arguments):
    tool = ToolArguments("tool", {"type": "object", **schema}, arguments)
    assert tool.findings == []
    return tool.schema


def test_names_change_in_every_part_that_concerns_the_arguments():
    schema = {
        "properties": {"a": {}, "b": {}},
        "allOf": [{"required": ["a"]}],
        "anyOf": [{"properties": {"a": {"const": 1}}}, {"not": {"required": ["b"]}}],
        "dependentRequired": {"b": ["a"]},
        "if": {"$ref": "#/$defs/part"},
        "then": {"dependentSchemas": {"a": {"required": ["b"]}}},
        "$defs": {"part": {"required": ["a"]}},
    }
    assert shown(schema, a=Argument(name="x")) == {
        "type": "object",
        "properties": {"x": {}, "b": {}},
        "allOf": [{"required": ["x"]}],
        "anyOf": [{"properties": {"x": {"const": 1}}}, {"not": {"required": ["b"]}}],
        "dependentRequired": {"b": ["x"]},
        "if": {"allOf": [{"required": ["x"]}]},
        "then": {"dependentSchemas": {"x": {"required": ["b"]}}},
        "additionalProperties": False,
    }


def test_a_recursive_schema_keeps_its_own_names_inside():
    schema = {"properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}}}
    reshaped = shown(schema, name=Argument(name="title"))
    assert reshaped["properties"]["children"]["items"] == {"$ref": "#/$defs/tool"}
    assert reshaped["$defs"]["tool"]["properties"]["name"] == {"type": "string"}
    assert reshaped["$defs"]["tool"]["properties"]["children"]["items"] == {"$ref": "#/$defs/tool"}


def test_definitions_of_arguments_that_are_gone_are_gone_too():
    schema = {
        "properties": {"org": {"$ref": "#/$defs/org"}, "city": {"$ref": "#/$defs/city"}},
        "$defs": {"org": {"enum": ["acme", "secret"]}, "city": {"$ref": "#/$defs/text"}, "text": {"type": "string"}},
    }
    assert shown(schema, org=Argument(fixed="acme"))["$defs"].keys() == {"city", "text"}


def test_a_fixed_value_decides_the_conditions_on_it():
    schema = {
        "properties": {"kind": {}, "text": {}},
        "oneOf": [
            {"properties": {"kind": {"const": "a"}}, "required": ["text"]},
            {"properties": {"kind": {"const": "b"}}},
        ],
    }
    reshaped = shown(schema, kind=Argument(fixed="a"))
    assert reshaped["oneOf"] == [{"properties": {}, "required": ["text"]}, {"properties": {}, "allOf": [{"not": {}}]}]


def test_an_example_of_the_whole_is_left_out():
    assert "examples" not in shown({"properties": {"a": {}}, "examples": [{"a": 1}]}, a=Argument(name="x"))


@pytest.mark.parametrize(
    ("schema", "argument", "problem"),
    [
        ({"properties": {"a": {"$dynamicRef": "#"}}}, Argument(name="x"), "dynamicRef"),
        ({"properties": {"a": {"$ref": "#part"}}, "$defs": {"p": {"$anchor": "part"}}}, Argument(name="x"), "#part"),
        ({"properties": {"a": {}}, "minProperties": 1}, Argument(default=1), "minProperties"),
        ({"properties": {"a": {}}, "anyOf": [{"const": {}}, True]}, Argument(name="x"), "by const"),
        ({"properties": {"a": {}}, "propertyNames": {"maxLength": 1}}, Argument(name="xx"), "use another name"),
        ({"properties": {"a": {}}, "patternProperties": {"^x": {}}}, Argument(name="xx"), "use another name"),
        ({"properties": {"a": {}}, "not": {"properties": {"a": {"const": 1}}}}, Argument(fixed=print), "computed"),
        ({"properties": {"a": {"type": "text"}}}, Argument(name="x"), "not a valid JSON Schema"),
    ],
)
def test_a_schema_that_cannot_be_reshaped_exactly_is_named(schema, argument, problem):
    with pytest.raises(Unsupported, match=problem):
        ToolArguments("tool", {"type": "object", **schema}, {"a": argument})


def test_references_that_branch_too_often_are_refused():
    parts = {f"p{i}": {"allOf": [{"$ref": f"#/$defs/p{i + 1}"}, {"$ref": f"#/$defs/p{i + 1}"}]} for i in range(30)}
    schema = {
        "properties": {"a": {}},
        "allOf": [{"$ref": "#/$defs/p0"}],
        "$defs": {**parts, "p30": {"required": ["a"]}},
    }
    with pytest.raises(Unsupported):
        ToolArguments("tool", {"type": "object", **schema}, {"a": Argument(name="x")})


def test_the_names_of_all_parts_are_arguments():
    schema = {"properties": {"a": {}}, "allOf": [{"$ref": "#/$defs/p"}], "$defs": {"p": {"required": ["b"]}}}
    assert argument_names(schema) == ["a", "b"]
    assert argument_names({"dependentRequired": {"a": ["b"]}, "dependencies": {"c": {}}}) == ["a", "b", "c"]
    assert not takes_further_arguments(schema)
    assert takes_further_arguments({"allOf": [{"additionalProperties": {}}]})
    assert not takes_further_arguments({"additionalProperties": False})
