"""Words to arguments."""

import click
import pytest

from dragoman.cli.arguments import Arguments, split_words


def typed(schema, *words, json_text=None):
    return Arguments(words, json_text).typed({"type": "object", "properties": schema})


@pytest.mark.covers("CMD-03")
@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "12", "12"),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, "a=b", "a=b"),
        ({"type": "integer"}, "-7", -7),
        ({"type": "number"}, "7", 7),
        ({"type": "number"}, "7.50", 7.5),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "On", True),
        ({"type": "boolean"}, "0", False),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["integer", "null"]}, "3", 3),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "3", 3),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "three", "three"),
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, "yes", "yes"),
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, "true", True),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}, "[1]", [1]),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}, "one", "one"),
        ({"type": "array", "items": {"type": "integer"}}, "3", [3]),
        ({"type": "array", "items": {"type": "integer"}}, "[3, 4]", [3, 4]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"$ref": "#/properties/other"}, "2", 2),
        ({}, "2", "2"),
    ],
)
def test_a_value_has_the_type_that_the_schema_names(schema, text, value):
    found = typed({"key": schema, "other": {"type": "integer"}}, f"key={text}")
    assert found == {"key": value}
    assert type(found["key"]) is type(value)


@pytest.mark.covers("CMD-03")
@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "integer"}, "key=1.5"),
        ({"type": "integer"}, "key="),
        ({"type": "number"}, "key=nan"),
        ({"type": "number"}, "key=-Infinity"),
        ({"type": "boolean"}, "key=maybe"),
        ({"type": "object"}, "key=[1]"),
        ({"type": "array", "items": {"type": "integer"}}, "key=one"),
        ({"type": "integer"}, "key:=one"),
    ],
)
def test_a_value_of_another_type_is_refused(schema, word):
    with pytest.raises(click.UsageError):
        typed({"key": schema}, word)


@pytest.mark.covers("CMD-03")
def test_later_words_come_before_earlier_ones_and_lists_grow():
    schema = {"a": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}
    given = typed(
        schema, "a=2", "tags=x", 'tags=["y", "z"]', "new:=[1]", json_text='{"a": 1, "b": null, "tags": ["w"]}'
    )
    assert given == {"a": 2, "b": None, "tags": ["x", "y", "z"], "new": [1]}
    assert typed(schema, "a=1", "a=3") == {"a": 3}


@pytest.mark.covers("CMD-03")
def test_arguments_are_found_where_the_schema_is_one_of_several():
    tree = {"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "boolean"}}}]}
    assert Arguments(["a=1", "b=no"]).typed(tree) == {"a": 1, "b": False}


@pytest.mark.covers("CMD-14")
@pytest.mark.parametrize(
    ("words", "names", "rest"),
    [
        (["tool"], (None, "tool"), []),
        (["tool", "a=1"], (None, "tool"), ["a=1"]),
        (["server", "tool", "a=1", "-"], ("server", "tool"), ["a=1", "-"]),
        (["http://x/mcp?key=1", "tool"], ("http://x/mcp?key=1", "tool"), []),
        (["tool", "@file", "a:=1"], (None, "tool"), ["@file", "a:=1"]),
    ],
)
def test_names_come_before_arguments(words, names, rest):
    assert split_words(words) == (names, rest)


def test_a_person_is_told_of_values_without_a_type_and_of_keys_without_a_parameter():
    arguments = Arguments(["a=1", "b=word", "c=true", "d=[]"])
    assert arguments.typed({"properties": {"a": {}, "b": {}, "c": {"type": "boolean"}}}) == {
        "a": "1",
        "b": "word",
        "c": True,
        "d": "[]",
    }
    assert arguments.remarks == [
        "a has no type, so it is sent as text; to send JSON, write a:=1",
        "the tool has no parameter 'd', and may ignore it",
    ]
