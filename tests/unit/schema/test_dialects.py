import copy
import re

import pytest

from chat.dialect_rules import NASTY, TREE, UNION, assert_gemini, assert_lenient, assert_strict
from dragoman import types
from dragoman.schema.dialects import for_anthropic, for_gemini, for_openai, to_anthropic, to_gemini, to_openai


@pytest.mark.covers("LMT-09", "LMT-10")
@pytest.mark.parametrize("name", NASTY)
def test_every_dialect_takes_what_servers_really_send(name):
    schema = copy.deepcopy(NASTY[name])
    assert_strict(for_openai(schema, strict=True))
    assert_gemini(for_gemini(schema))
    assert_lenient(for_openai(schema))
    anthropic = for_anthropic(schema)
    assert_lenient(anthropic)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", key) for key in anthropic["properties"])
    assert schema == NASTY[name]


def test_a_top_that_is_no_object_becomes_one():
    empty = {"type": "object", "properties": {}}
    assert for_openai({"type": "array", "items": {}})["type"] == "object"
    assert for_openai({}) == for_anthropic({}) == for_gemini({}) == empty
    assert for_openai({}, strict=True) == empty | {"required": [], "additionalProperties": False}


def test_definitions_stay_shared_where_the_api_takes_references():
    assert for_openai(TREE) == {key: value for key, value in TREE.items() if key != "$schema"}
    assert for_anthropic(TREE) == for_openai(TREE)


def test_a_cycle_is_cut_and_the_model_is_told():
    node = for_gemini(TREE)["properties"]["root"]
    assert node["properties"]["name"] == {"type": "string", "description": "Name"}
    child = node["properties"]["children"]["items"]
    assert child["type"] == "string"
    assert "same shape as another Node" in child["description"]
    assert "JSON text of an object" in child["description"]
    inlined = for_openai({"allOf": [{"$ref": "#/$defs/Node"}], "$defs": TREE["$defs"]})
    assert inlined["properties"]["children"]["items"]["type"] == "object"


def test_the_variants_of_a_union_at_the_top_become_one_object():
    for schema in (for_openai(UNION), for_anthropic(UNION), for_gemini(UNION)):
        assert schema["properties"].keys() == {"kind", "url", "path", "line"}
        assert schema["required"] == ["kind"]
        assert "kind, url; kind, path" in schema["description"]
    assert for_openai(UNION)["properties"]["kind"] == {"anyOf": [{"enum": ["url"]}, {"enum": ["file"]}]}


def test_strict_makes_every_property_required_and_the_optional_ones_nullable():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2},
            "days": {"type": "integer", "default": 3, "minimum": 1},
            "unit": {"enum": ["C", "F"]},
            "where": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
        "required": ["city"],
    }
    assert for_openai(schema, strict=True) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "minLength: 2"},
            "days": {"type": ["integer", "null"], "minimum": 1, "description": "default: 3"},
            "unit": {"type": ["string", "null"], "enum": ["C", "F", None]},
            "where": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"x": {"type": ["number", "null"]}},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                    {"type": "null"},
                ]
            },
        },
        "required": ["city", "days", "unit", "where"],
        "additionalProperties": False,
    }


def test_gemini_hears_in_words_what_it_has_no_keywords_for():
    properties = for_gemini(NASTY["choices"])["properties"]
    assert properties["level"] == {"type": "integer", "description": "enum: [1,2,3]"}
    assert properties["maybe"] == {"type": "string", "enum": ["a"], "nullable": True}
    assert properties["titled"] == {"type": "string", "enum": ["r", "g"], "description": "r: Red; g: Green"}
    formats = for_gemini(NASTY["formats"])["properties"]
    assert formats["when"] == {"type": "string", "format": "date-time"}
    assert formats["mail"]["description"] == "format: email (pattern: (?<=a)b) (maxLength: 80)"


def test_parts_of_all_of_are_merged():
    assert for_openai(NASTY["all of"]) == {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 2}, "b": {"type": "number"}},
        "required": ["a"],
    }


@pytest.mark.covers("LMT-01")
def test_a_tool_is_said_to_each_api_in_its_own_form():
    tool = types.Tool(
        name="get.weather",
        title="Weather",
        input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    )
    plain = tool.input_schema
    assert to_openai(tool) == {
        "type": "function",
        "function": {"name": "get-weather", "description": "Weather", "parameters": plain},
    }
    strict = to_openai(tool, name="w", strict=True)["function"]
    assert strict["strict"] is True
    assert strict["name"] == "w"
    assert strict["parameters"]["additionalProperties"] is False
    assert to_anthropic(tool) == {"name": "get-weather", "description": "Weather", "input_schema": plain}
    assert to_gemini(tool) == {"name": "get-weather", "description": "Weather", "parameters": plain}


def test_a_tool_without_arguments_has_no_parameters_at_gemini():
    assert to_gemini(types.Tool(name="now", input_schema={"type": "object"})) == {"name": "now", "description": ""}


def test_a_long_description_is_cut_where_openai_would_refuse_the_tool():
    tool = types.Tool(name="a", description="x" * 5000, input_schema={"type": "object"})
    assert len(to_openai(tool)["function"]["description"]) == 1024
    assert len(to_anthropic(tool)["description"]) == 5000
