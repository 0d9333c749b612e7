import jsonschema_rs
import msgspec
import pytest

from dragoman.protocol.jsonrpc import nests_deeper
from dragoman.schema.inline_refs import MAX_REPEATS, MAX_SUBSCHEMAS, inline_refs
from dragoman.schema.walk import objects

CITY = {"type": "string", "description": "A city."}
NODE = {
    "type": "object",
    "description": "A node.",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node", "description": "What follows."}},
}


@pytest.mark.parametrize(
    ("schema", "inlined"),
    [
        ({"type": "string", "$defs": {"City": CITY}}, {"type": "string", "$defs": {"City": CITY}}),
        ({"properties": {"a": {"$ref": "#/$defs/City"}}, "$defs": {"City": CITY}}, {"properties": {"a": CITY}}),
        ({"items": {"$ref": "#/definitions/City"}, "definitions": {"City": CITY}}, {"items": CITY}),
        ({"$ref": "#/$defs/City", "$schema": "x", "$defs": {"City": CITY}}, {**CITY, "$schema": "x"}),
        (
            {"anyOf": [{"$ref": "#/$defs/City", "description": "Where."}, {"type": "null"}], "$defs": {"City": CITY}},
            {"anyOf": [{"type": "string", "description": "Where."}, {"type": "null"}]},
        ),
        (
            {"items": {"$ref": "#/$defs/City", "minLength": 2, "allOf": [{"maxLength": 9}]}, "$defs": {"City": CITY}},
            {"items": {"minLength": 2, "allOf": [CITY, {"maxLength": 9}]}},
        ),
        (
            {
                "items": {"$ref": "#/$defs/A"},
                "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"items": {"$ref": "#/$defs/C"}}, "C": CITY},
            },
            {"items": {"items": CITY}},
        ),
        (
            {"items": {"$ref": "#here"}, "contains": {"$anchor": "here"}},
            {"items": {"$anchor": "here"}, "contains": {"$anchor": "here"}},
        ),
        ({"items": {"$ref": "#/$defs/Any"}, "$defs": {"Any": True}}, {"items": {}}),
        (
            {
                "oneOf": [{"$ref": "#/$defs/City"}],
                "discriminator": {"propertyName": "kind", "mapping": {"city": "#/$defs/City"}},
                "$defs": {"City": CITY},
            },
            {"oneOf": [CITY]},
        ),
        (
            {"const": {"$ref": "#/$defs/City"}, "$defs": {"City": CITY}},
            {"const": {"$ref": "#/$defs/City"}, "$defs": {"City": CITY}},
        ),
    ],
)
def test_references_become_their_targets(schema, inlined):
    assert inline_refs(schema) == inlined


@pytest.mark.parametrize("reference", ["https://example.com/city.json", "#/$defs/Missing", 7])
def test_reference_without_target_stays_with_the_definitions(reference):
    schema = {"items": {"$ref": reference}, "$defs": {"City": CITY}}
    assert inline_refs(schema) == schema


def test_the_schema_itself_is_unchanged():
    schema = {"items": {"$ref": "#/$defs/Node"}, "$defs": {"Node": NODE}}
    before = msgspec.json.encode(schema)
    inline_refs(schema)
    assert msgspec.json.encode(schema) == before


def test_recursion_is_cut_after_a_few_repeats():
    part = inline_refs({"type": "object", "properties": {"first": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}})
    part = part["properties"]["first"]
    for _ in range(MAX_REPEATS):
        assert part["properties"]["value"] == {"type": "integer"}
        part = part["properties"]["next"]
    assert part == {"type": "object", "description": "What follows."}


def test_recursion_of_something_that_is_no_object_is_cut_to_anything():
    tree = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/Tree"}}]}
    part = inline_refs({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}})
    for _ in range(MAX_REPEATS):
        part = part["anyOf"][1]["items"]
    assert part == {}


def test_reference_to_itself_ends():
    assert inline_refs({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"$ref": "#/$defs/A"}}}) == {"items": {}}


def test_inlined_schema_takes_what_the_schema_takes():
    schema = {"type": "object", "properties": {"first": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}}
    before, after = (jsonschema_rs.Draft202012Validator(one) for one in (schema, inline_refs(schema)))
    for value in ({"first": {"value": 1, "next": {"value": 2}}}, {"first": {"next": {"value": "x"}}}, {"first": 3}):
        assert before.is_valid(value) == after.is_valid(value)


@pytest.mark.parametrize("classes", [12, 40])
def test_many_classes_that_refer_to_each_other_stay_within_the_bounds(classes):
    every = {"type": "object", "properties": {f"p{n}": {"$ref": f"#/$defs/C{n}"} for n in range(classes)}}
    inlined = inline_refs({"$ref": "#/$defs/C0", "$defs": {f"C{n}": every for n in range(classes)}})
    assert len(list(objects(inlined))) < 3 * MAX_SUBSCHEMAS
    assert not any("$ref" in part for part in objects(inlined))


def test_long_cycle_stays_within_the_nesting_of_messages():
    definitions = {
        f"C{n}": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": f"#/$defs/C{(n + 1) % 60}"}}]}
        for n in range(60)
    }
    inlined = inline_refs({"$ref": "#/$defs/C0", "$defs": definitions})
    assert not nests_deeper(msgspec.json.encode(inlined), 110)
