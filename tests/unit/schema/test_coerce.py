"""What models send, as schemas want it."""

import dataclasses
import datetime as dt
import enum
import time
from typing import Annotated, Literal

import pydantic
import pytest

from chat.dialect_rules import NASTY, UNION, assert_gemini
from dragoman.schema.coerce import coerce, restore_arguments
from dragoman.schema.dialects import for_anthropic, for_gemini
from dragoman.schema.python.annotations import Codec


class Color(enum.Enum):
    RED = "red"
    HALF = 0.5


class Kitten(pydantic.BaseModel):
    kind: Literal["kitten"]


class Puppy(pydantic.BaseModel):
    kind: Literal["puppy"]


class Model(pydantic.BaseModel):
    when: dt.date


@dataclasses.dataclass
class Node:
    value: int
    nodes: "list[Node] | None" = None


@pytest.mark.parametrize(
    ("annotation", "value", "repaired"),
    [
        (int, "5", 5),
        (int, "5.0", 5),
        (int, 5.0, 5),
        (int, 5.5, 5.5),
        (int, 1e300, int(1e300)),
        (float, 5.0, 5.0),
        (float, "5", 5),
        (int | float, 5.0, 5.0),
        (int | None, "5", 5),
        (int | None, "null", None),
        (int | str, "5", "5"),
        (object, "5", "5"),
        (Literal[5, 6], "5", 5),
        (Literal[5, 6], 5.0, 5),
        (Literal[5, "6"], "5", "5"),
        (Literal[5, None], "null", None),
        (Color, "0.5", "0.5"),
        (int, "five", "five"),
        (int, '"5"', '"5"'),
        (int, "[1]", "[1]"),
        (list, "[" * 20_000, "[" * 20_000),
        (list, "[" * 20_000 + "]" * 20_000, "[" * 20_000 + "]" * 20_000),
        (list, "[1]", [1]),
        (list[int], '["1", 2.0]', [1, 2]),
        (tuple[str, int], ["1", "2", "3"], ["1", 2, "3"]),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (dict, {"a": "1"}, {"a": "1"}),
        (list[int] | list[bool], ["true"], [True]),
        (list[int] | list[bool], ["x"], ["x"]),
        (Node, {"value": "1", "nodes": '[{"value": "2"}]', "x": "3"}, {"value": 1, "nodes": [{"value": 2}], "x": "3"}),
        (int, None, None),
        (int, True, True),
        (Model, '{"when": "2026-01-01"}', {"when": "2026-01-01"}),
        (Annotated[Kitten | Puppy, pydantic.Field(discriminator="kind")], "5", "5"),
    ],
)
def test_a_value_is_repaired_where_it_is_plain_what_was_meant(annotation, value, repaired):
    found = coerce(value, Codec(annotation, "a value").schema)
    assert (type(found), found) == (type(repaired), repaired)


def test_what_fits_is_the_very_same_object():
    value = {"a": [1, {"b": "3"}], "c": None}
    schema = {"properties": {"a": {"items": {"anyOf": [{"type": "integer"}, {"type": "object"}]}}}}
    assert coerce(value, schema) is value
    assert restore_arguments(value, schema) == value


def test_a_null_that_no_dialect_forced_stays():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert coerce({"a": None, "b": "1"}, schema) == {"a": None, "b": 1}


def test_values_of_many_levels_are_gone_through_once():
    value, schema = ["1"] * 100, {"type": "array", "items": {"type": "integer"}}
    for _ in range(40):
        value, schema = [value], {"type": "array", "items": schema}
    began = time.thread_time()
    for _ in range(20):
        coerce(value, schema)
    assert time.thread_time() - began < 2


def test_nulls_that_a_dialect_forced_are_dropped_and_those_of_the_schema_kept():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"]},
            "c": {"type": "object", "properties": {"d": {"type": "integer"}}},
            "e": {"type": "integer"},
        },
        "required": ["e"],
    }
    given_ = {"a": None, "b": None, "c": {"d": None}, "e": None}
    assert restore_arguments(given_, schema) == {"b": None, "c": {}, "e": None}
    assert given_ == {"a": None, "b": None, "c": {"d": None}, "e": None}


@pytest.mark.parametrize(
    ("schema", "written", "meant"),
    [
        ({"type": "array", "items": {"type": "string"}}, '["a", "b"]', ["a", "b"]),
        ({"type": "array", "items": {"type": "integer"}}, '["1", 2]', [1, 2]),
        ({"type": "object"}, '{"a": "[1]"}', {"a": "[1]"}),
        ({"type": "object", "properties": {"n": {"type": "number"}}}, '{"n": "2.5"}', {"n": 2.5}),
        ({"type": "integer"}, "5", 5),
        ({"type": "boolean"}, "true", True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, "[]", []),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": 3}, "3", 3),
        ({"$ref": "#/$defs/List"}, "[1]", [1]),
        ({"allOf": [{"type": "array"}]}, "[1]", [1]),
        ({"type": "string"}, "[1]", "[1]"),
        ({"type": ["string", "array"]}, "[1]", "[1]"),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, "{}", "{}"),
        ({"enum": ["a", 1]}, "1", 1),
        ({"type": "string", "enum": ["1"]}, "1", "1"),
        ({}, "[1]", "[1]"),
        (True, "1", "1"),
        (False, "1", "1"),
        ({"type": "integer"}, "five", "five"),
        ({"type": "integer"}, '"5"', '"5"'),
        ({"type": "array"}, "5", "5"),
        ({"type": "array"}, "[" * 50_000, "[" * 50_000),
        ({"type": "integer"}, "\ud800", "\ud800"),
    ],
)
def test_json_text_is_parsed_where_no_string_is_wanted_and_nowhere_else(schema, written, meant):
    whole = {"type": "object", "properties": {"a": schema}, "$defs": {"List": {"type": "array"}}}
    assert restore_arguments({"a": written}, whole) == {"a": meant}


def test_a_variant_that_is_closed_loses_the_nulls_of_the_others():
    given_ = {"kind": "file", "path": "a.txt", "line": None, "url": None}
    assert restore_arguments(given_, UNION) == {"kind": "file", "path": "a.txt"}


def test_properties_have_their_names_back():
    schema = {
        "type": "object",
        "properties": {
            "$filter": {"type": "string"},
            "deep": {"type": "array", "items": {"$ref": "#/$defs/Size"}},
        },
        "$defs": {"Size": {"anyOf": [{"type": "object", "properties": {"größe in cm": {"type": "number"}}}]}},
    }
    asked = for_anthropic(schema)
    assert asked["properties"].keys() == {"_-filter", "deep"}
    [inner] = asked["properties"]["deep"]["items"]["properties"]
    assert restore_arguments({"_-filter": "x", "deep": [{inner: "3"}]}, schema) == {
        "$filter": "x",
        "deep": [{"größe in cm": 3}],
    }


@pytest.mark.parametrize("name", NASTY)
def test_restoring_ends_whatever_the_schema(name):
    hostile = {"a": "[]", "next": {"next": {"next": None}}, "bomb": "{}", "v": "{}", "pair": "[1]", "root": "{"}
    assert isinstance(restore_arguments(hostile, NASTY[name]), dict)


def test_restoring_ends_with_unions_that_refer_to_themselves():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"oneOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]}]}},
    }
    assert restore_arguments({"a": "x"}, schema) == {"a": "x"}
    assert_gemini(for_gemini(schema))
