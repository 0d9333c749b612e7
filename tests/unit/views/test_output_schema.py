import jmespath
import jsonschema_rs
import pytest

from dragoman import View
from dragoman.protocol.fields import wrap_output_schema
from dragoman.views.output_schema import shown_output_schema

REPOSITORY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "owner": {"$ref": "#/$defs/owner"}, "tags": {"type": "array"}},
    "required": ["name"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/repository"}},
        "more": {"type": "array", "items": {"$ref": "#/$defs/repository"}},
        "total": {"type": "integer"},
        "first": {"anyOf": [{"$ref": "#/$defs/repository"}, {"type": "null"}]},
        "any": {},
        "all": {"allOf": [{"type": "object"}]},
        "root": {"$ref": "#"},
    },
    "required": ["items", "total", "first"],
    "$defs": {
        "repository": REPOSITORY,
        "owner": {"type": "object", "properties": {"login": {"type": "string"}}, "required": ["login"]},
    },
}
VALUES = [
    {"items": [], "total": 0, "first": None},
    {"items": [{"name": "a"}, {"name": "b", "owner": {"login": "x"}}], "total": 2, "first": {"name": "a"}, "more": []},
    {"items": [{"name": "a", "tags": [1]}], "total": 1, "first": {"name": "a", "owner": {"login": "x"}}},
]


def nullable(schema):
    return {"anyOf": [schema, {"type": "null"}]}


@pytest.mark.parametrize(
    ("pick", "expected"),
    [
        ("total", {"type": "integer"}),
        ("items[].name", {"type": "array", "items": {"type": "string"}}),
        ("items[*].owner.login", {"type": "array", "items": {"type": "string"}}),
        ("more[].name", nullable({"type": "array", "items": {"type": "string"}})),
        ("root.total", nullable({"type": "integer"})),
        ("first.name", nullable({"type": "string"})),
        ("first.owner.login", nullable({"type": "string"})),
        ("items", {"type": "array", "items": {"$ref": "#/$defs/repository"}}),
        (
            "items[].{n: name, t: tags}",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"n": {"type": "string"}, "t": nullable({"type": "array"})},
                    "required": ["n", "t"],
                },
            },
        ),
    ],
)
def test_the_schema_of_what_is_picked_is_told_where_it_is_certain(pick, expected):
    schema = shown_output_schema(View(pick=pick), SCHEMA)
    part = schema["properties"]["result"]
    assert {key: value for key, value in part.items() if key != "$defs"} == rebased(expected)
    for value in VALUES:
        picked = {"result": jmespath.search(pick, value)}
        jsonschema_rs.validate(schema, picked)


def rebased(schema):
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs", "#/properties/result/$defs") if key == "$ref" else rebased(value)
            for key, value in schema.items()
        }
    return [rebased(part) for part in schema] if isinstance(schema, list) else schema


def test_an_object_that_is_picked_has_a_schema_of_its_own():
    schema = shown_output_schema(View(pick="{count: total}"), SCHEMA)
    assert schema["properties"] == {"count": {"type": "integer"}}
    assert schema["required"] == ["count"]


@pytest.mark.parametrize(
    "pick", ["length(items)", "items[0].name", "any", "all.a", "items[].tags[]", "missing", "total.a"]
)
def test_the_schema_of_anything_else_is_unknown(pick):
    found = shown_output_schema(View(pick=pick), SCHEMA)
    for value in VALUES:
        if found is not None:
            jsonschema_rs.validate(found, {"result": jmespath.search(pick, value)})
    assert found is None or pick == "any"


def test_a_wrapped_schema_is_picked_from_as_authors_see_it():
    wrapped = wrap_output_schema(
        {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    )
    assert shown_output_schema(View(pick="[].a"), wrapped)["properties"]["result"]["items"] == {"type": "string"}


def test_without_a_change_the_schema_stays_and_of_a_function_it_is_unknown():
    assert shown_output_schema(View(name="x"), SCHEMA) is SCHEMA
    assert shown_output_schema(View(result=lambda result, ctx: result), SCHEMA) is None
    assert shown_output_schema(View(pick="a"), None) is None
