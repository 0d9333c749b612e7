"""Schemas of servers that would keep a validator busy for ever."""

import json
import time

import pytest

from dragoman.schema.compile import MASK, compile_schema
from dragoman.schema.peer_schemas import PeerSchema

DEEP = 40


def doubling(keyword="allOf", refer="#/$defs/d{}".format, keep="$defs"):
    """Return a schema each of whose parts refers to the next one twice."""
    parts = {
        f"d{place}": {"$anchor": f"a{place}", keyword: [{"$ref": refer(place + 1)}, {"$ref": refer(place + 1)}]}
        for place in range(DEEP)
    }
    return {keep: {**parts, f"d{DEEP}": {"$anchor": f"a{DEEP}"}}, "$ref": refer(0)}


def nested(value=0, depth=DEEP):
    for _ in range(depth):
        value = {"a": value}
    return value


TWICE = [{"$ref": "#"}, {"$ref": "#"}]
BOMBS = {
    "all": (doubling(), {}),
    "any": (doubling("anyOf"), {}),
    "escaped": (doubling(refer="#/%24defs/d{}".format), {}),
    "anchors": (doubling(refer="#a{}".format), {}),
    "slashes": (doubling(refer="#/a~1b/d{}".format, keep="a/b"), {}),
    "members": ({"properties": {"a": {"allOf": TWICE}}}, nested()),
    "siblings": ({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}, nested()),
    "patterns": ({"patternProperties": {"a": {"$ref": "#"}, "^": {"$ref": "#"}}}, nested()),
    "items": ({"items": {"allOf": TWICE}, "prefixItems": []}, json.loads("[" * DEEP + "]" * DEEP)),
    "names": ({"propertyNames": doubling()["$defs"]["d0"], **doubling(), "$ref": "#/$defs/d40"}, {"a": 1}),
    "a schema inside": ({"$id": "x:/a", "$defs": {"b": {"$id": "x:/b", **doubling()}}, "$ref": "x:/b"}, {}),
    "unevaluated": ({"properties": {"a": {"allOf": [{"$ref": "#"}], "unevaluatedProperties": False}}}, nested()),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_schema_that_takes_for_ever_is_known_at_once(kind):
    began = time.process_time()
    assert not PeerSchema(BOMBS[kind][0], None).is_within_bound(BOMBS[kind][1])
    assert time.process_time() - began < 1


TREE = {"properties": {"left": {"$ref": "#"}, "right": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
TERM = {
    "anyOf": [
        {"properties": {"kind": {"const": kind}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}}
        for kind in ("sum", "product")
    ]
}
SHARED = {
    "$defs": {"place": {"type": "object"}},
    "properties": {name: {"$ref": "#/$defs/place"} for name in ("home", "work")},
    "unevaluatedProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, 1),
        (doubling()["$defs"]["d40"], {}),
        (TREE, {"left": {"left": {}, "right": None}, "right": {"left": {}}}),
        (TERM, {"kind": "sum", "left": {"kind": "product", "left": {}, "right": {}}, "right": {}}),
        (SHARED, {"home": {}, "work": {}}),
        ({"$ref": "#", "allOf": TWICE}, {}),
        ({"items": [{"$ref": "#"}], "additionalItems": {"$ref": "#"}}, [1, [2], [3]]),
        ({"dependentSchemas": {"a": {"$ref": "#/not"}}, "not": {"$ref": "#/if/0"}, "if": [False]}, {"a": 1}),
    ],
)
def test_what_people_write_is_compared(schema, value):
    assert PeerSchema(schema, None).is_within_bound(value)


@pytest.mark.parametrize("reference", [5, "#/nowhere", "#/allOf/x", "#/allOf/9", "elsewhere.json"])
def test_a_reference_that_leads_nowhere_is_not_followed(reference):
    schema = {"allOf": [{"$ref": reference}, {"$ref": "#/allOf"}]}
    assert PeerSchema(schema, None).is_within_bound({}) == (reference == 5)


def compared(schema, value, **options):
    return PeerSchema(schema, compile_schema(schema, **options)).violations(value)


def test_what_a_schema_of_a_peer_forbids_is_listed_with_its_place():
    [found] = compared({"properties": {"a": {"items": {"type": "integer"}}}}, {"a": [1, "x"]})
    assert (found.path, str(found)) == ("$.a[1]", 'a[1]: "x" is not of type "integer"')
    assert compared({"type": "object"}, {}) == []


def test_a_schema_of_a_peer_that_takes_for_ever_is_not_compared():
    assert compared(doubling(), {}) is None


def test_formats_are_compared_and_values_hidden_where_that_is_wanted():
    assert compared({"format": "date"}, "soon") == []
    [found] = compared({"format": "date"}, "soon", formats=True, mask=MASK)
    assert str(found) == 'the value is not a "date"'


def test_the_draft_that_a_schema_names_may_count():
    older = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    assert len(compared(older, ["x"], any_draft=True)) == 1


@pytest.mark.parametrize("options", [{}, {"any_draft": True}])
def test_what_is_no_schema_says_where_and_why(options):
    with pytest.raises(ValueError, match=r"^properties\.a\.type: "):
        compile_schema({"properties": {"a": {"type": "nonsense"}}}, **options)
