"""The one walk over JSON Schema."""

import pytest

from dragoman.schema.walk import (
    LISTED,
    NAMED,
    PLAIN,
    SINGLE,
    References,
    objects,
    subschemas,
    type_of,
    with_subschemas,
)

MARK = {"x-mark": True}


def test_a_keyword_holds_subschemas_in_one_way():
    assert len(NAMED | LISTED | SINGLE | PLAIN) == len(NAMED) + len(LISTED) + len(SINGLE) + len(PLAIN)


@pytest.mark.parametrize("keyword", sorted(NAMED))
def test_named_subschemas_have_their_names(keyword):
    assert list(subschemas({keyword: {"a": MARK, "b": False, "c": ["name", MARK]}})) == [
        (keyword, "a", MARK),
        (keyword, "b", False),
        (keyword, "c", MARK),
    ]
    assert with_subschemas({keyword: {"a": MARK, "c": ["name"]}}, lambda _, word, name: (word, name)) == {
        keyword: {"a": (keyword, "a"), "c": ["name"]}
    }


@pytest.mark.parametrize("keyword", sorted(LISTED | {"items"}))
def test_listed_subschemas_have_their_places(keyword):
    assert list(subschemas({keyword: [MARK, True, 5, [MARK]]})) == [
        (keyword, 0, MARK),
        (keyword, 1, True),
        (keyword, 3, MARK),
    ]
    assert with_subschemas({keyword: [MARK, True, [MARK]]}, lambda *_: 1) == {keyword: [1, True, [1]]}


@pytest.mark.parametrize("keyword", [*sorted(SINGLE), "x-of-others"])
def test_a_single_subschema_stands_alone(keyword):
    assert list(subschemas({keyword: MARK})) == [(keyword, None, MARK)]
    assert with_subschemas({keyword: MARK, "title": "a"}, lambda _, word, name: (word, name)) == {
        keyword: (keyword, None),
        "title": "a",
    }
    assert not list(subschemas({keyword: 5}))


@pytest.mark.parametrize("keyword", sorted(PLAIN))
def test_values_are_no_schemas(keyword):
    schema = {keyword: {"a": MARK, "b": [MARK]}}
    assert not list(subschemas(schema))
    assert with_subschemas(schema, lambda *_: 1) == schema


def test_the_walk_may_be_limited_to_some_keywords():
    assert list(subschemas({"not": MARK, "items": MARK}, ("items", "contains"))) == [("items", None, MARK)]


def test_every_object_is_found_whatever_it_is():
    assert list(objects({"const": [{"a": 1}], "b": {}})) == [{"const": [{"a": 1}], "b": {}}, {}, {"a": 1}]


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", "root"),
        ("#/$defs/a~1b", 1),
        ("#/$defs/c%20d", 2),
        ("#/list/1", 4),
        ("#/list/7", None),
        ("#/list/" + "9" * 5000, None),
        ("#/list/x", None),
        ("#/gone", None),
        ("#here", {"$anchor": "here"}),
        ("#nowhere", None),
        ("other.json#/a", None),
    ],
)
def test_a_reference_leads_to_a_part_of_the_schema_or_nowhere(reference, found):
    root = {"$defs": {"a/b": 1, "c d": 2, "e": {"$anchor": "here"}}, "list": [3, 4]}
    assert References(root).target(reference) == (root if found == "root" else found)


def test_a_reference_may_name_its_own_document_or_an_anchor_anywhere():
    root = {"$id": "x:/a", "properties": {"b": {"$dynamicAnchor": "c"}}}
    references = References(root)
    assert references.target("x:/a") is root
    assert references.target("x:/a#c") is references.target("#c") is root["properties"]["b"]
    assert references.target("x:/b") is references.target("#d") is references.target(5) is None


def test_a_value_has_a_type():
    assert [type_of(value) for value in (None, True, 1, 1.5, "a", [], {})] == [
        "null",
        "boolean",
        "integer",
        "number",
        "string",
        "array",
        "object",
    ]
