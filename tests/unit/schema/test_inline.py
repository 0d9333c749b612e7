import pytest

from dragoman.schema.inline import MAX_NODES, inline, merge


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([{"type": "number"}, {"type": "integer"}], {"type": ["integer"]}),
        ([{"type": ["string", "null"]}, {"type": "string"}], {"type": ["string"]}),
        ([{"enum": [1, 2, True]}, {"enum": [2, True, 3]}], {"enum": [2, True]}),
        ([{"enum": [1]}, {"enum": [2]}], {"enum": [1]}),
        ([{"required": ["a"]}, {"required": ["b", "a"]}], {"required": ["a", "b"]}),
        ([{"minimum": 1, "maxLength": 9}, {"minimum": 3, "maxLength": 4}], {"minimum": 3, "maxLength": 4}),
        ([{"items": {"type": "string"}}, {"items": {"minLength": 2}}], {"items": {"type": ["string"], "minLength": 2}}),
        ([{"description": "A."}, {"description": "B."}, {"description": "A."}], {"description": "A. B."}),
        ([{"format": "uri"}, {"format": "email"}], {"format": "uri"}),
        (
            [{"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}],
            {"properties": {"a": {}, "b": {}}},
        ),
        (
            [{"properties": {"a": {}}, "additionalProperties": False}, {"required": ["a"]}],
            {"properties": {"a": {}}, "additionalProperties": False, "required": ["a"]},
        ),
        (
            [{"additionalProperties": {"type": "string"}}, {"additionalProperties": {"minLength": 1}}],
            {"additionalProperties": {"type": ["string"], "minLength": 1}},
        ),
        ([{"additionalProperties": True}, {"additionalProperties": False}], {"additionalProperties": False}),
        (
            [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"minLength": 1}, {"maxLength": 5}]}],
            {
                "anyOf": [
                    {"type": ["string"], "minLength": 1},
                    {"type": ["string"], "maxLength": 5},
                    {"type": ["integer"], "minLength": 1},
                    {"type": ["integer"], "maxLength": 5},
                ]
            },
        ),
    ],
)
def test_what_several_schemas_say_is_said_by_one(parts, whole):
    assert inline({"allOf": parts}) == whole


def test_a_product_of_unions_has_a_bound():
    many = [{"minLength": number} for number in range(9)]
    assert merge({"anyOf": many}, {"anyOf": many}) == {"anyOf": many}


def test_types_that_contradict_each_other_are_told():
    tree = inline({"allOf": [{"type": "string"}, {"type": "integer"}]})
    assert tree["type"] == ["string"]
    assert "its types contradict each other" in tree["description"]


def test_a_cycle_over_several_references_is_cut():
    schema = {
        "$ref": "#/$defs/A",
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
        },
    }
    cut = inline(schema)["properties"]["b"]["properties"]["a"]
    assert cut == {"type": ["object"], "description": "nested, of the same shape as another A"}
    root = inline({"properties": {"a": {"$dynamicRef": "#"}}})
    assert root["properties"]["a"]["properties"]["a"]["description"] == "nested, of the same shape as the whole"


def test_a_schema_that_unfolds_without_end_is_told_up_to_a_bound():
    levels = {f"l{n}": {"properties": {k: {"$ref": f"#/$defs/l{n + 1}"} for k in "abcd"}} for n in range(40)}
    pending, nodes = [inline({"$ref": "#/$defs/l0", "$defs": levels})], 0
    while pending:
        nodes += 1
        pending += pending.pop().get("properties", {}).values()
    assert nodes < 2 * MAX_NODES


def test_branches_that_nothing_fits_are_left_out():
    tree = inline({"anyOf": [False, {"not": {}}, {"type": "string"}], "properties": {"a": False}})
    assert tree == {"type": ["string"], "properties": {}}


def test_titled_choices_become_one_list_of_choices():
    choices = [{"const": 1, "type": "integer", "title": "One"}, {"const": 2, "type": "integer"}]
    assert inline({"oneOf": choices}) == {"enum": [1, 2], "type": ["integer"], "description": "1: One"}


def test_long_conditions_are_told_in_part():
    told = inline({"not": {"enum": ["x" * 1000]}})["description"]
    assert told.startswith('not: {"enum":["xxx')
    assert len(told) < 400
