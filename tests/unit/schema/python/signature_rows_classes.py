"""Rows for functions of classes, constraints, aliases and pydantic types: their schemas and calls."""

import datetime as dt
from pathlib import Path

import pydantic

from unit.schema.python.signature_samples import (
    INTEGER,
    NULL,
    NUMBER,
    OWNER,
    POINT,
    POINT_REFERENCE,
    STRING,
    Box,
    Circle,
    Counted,
    Folder,
    Located,
    MixedTree,
    Owner,
    Pair,
    Pet,
    Point,
    Row,
    Row3,
    Square,
    Tree,
    aliases,
    awkward_dataclass,
    collects,
    collects_anything,
    constrained_unions,
    dataclasses_inside,
    described,
    fields,
    foreign_constraints,
    generic_dataclasses,
    keyword_only,
    meta_constraints,
    model_unions,
    models,
    mutable_defaults,
    named_tuples,
    new_types,
    odd_names,
    positional_only,
    pydantic_types,
    recursive,
    recursive_alias,
    recursive_and_mixed,
    rewritten_structs,
    tagged_structs,
    type_variables,
    typed_dictionaries,
)

ROWS = [
    Row(
        dataclasses_inside,
        {
            "points": {"type": "array", "items": POINT_REFERENCE},
            "by_name": {"type": "object", "additionalProperties": POINT_REFERENCE},
            "one": {"$ref": "#/$defs/Point", "default": {"x": 1, "y": 2}},
        },
        (
            {"points": [{"x": 1}], "by_name": {"a": {"x": 2, "y": 3}}},
            {"points": [Point(1)], "by_name": {"a": Point(2, 3)}, "one": Point(1, 2)},
        ),
        (
            {"points": [{"x": 1}, {}], "by_name": {"a": {"x": "?"}}, "one": {"y": None}},
            ["points[1].x", "by_name['a'].x", "one.x", "one.y"],
        ),
        (
            {"points": '[{"x": "1"}]', "by_name": {}, "one": {"x": 1.0}},
            {"points": [Point(1)], "by_name": {}, "one": Point(1)},
        ),
        required=["points", "by_name"],
        definitions={"Point": POINT},
    ),
    Row(
        recursive,
        {"tree": {"$ref": "#/$defs/Tree"}},
        ({"tree": {"value": 1, "children": [{"value": 2}]}}, {"tree": Tree(1, [Tree(2)])}),
        (
            {"tree": {"value": 1, "children": [{"children": [{}]}]}},
            ["tree.children[0].value", "tree.children[0].children[0].value"],
        ),
        ({"tree": {"value": 1, "children": [{"value": "2"}]}}, {"tree": Tree(1, [Tree(2)])}),
        definitions={
            "Tree": {
                "type": "object",
                "properties": {
                    "value": INTEGER,
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
                },
                "required": ["value"],
            }
        },
    ),
    Row(
        recursive_and_mixed,
        {"tree": {"$ref": "#/$defs/MixedTree"}},
        (
            {"tree": {"label": "2026-01-01", "parent": {"label": "root"}, "nearest": [3, {"label": "n"}]}},
            {"tree": MixedTree(dt.date(2026, 1, 1), MixedTree("root"), [3, MixedTree("n")])},
        ),
        (
            {"tree": {"label": 1, "parent": {"label": 2}, "nearest": ["x"]}},
            ["tree.label", "tree.parent.label", "tree.nearest[0]"],
        ),
        ({"tree": '{"label": "[1]", "nearest": "[1.0]"}'}, {"tree": MixedTree("[1]", None, [1])}),
        definitions={
            "MixedTree": {
                "type": "object",
                "properties": {
                    "label": {"anyOf": [{"type": "string", "format": "date"}, STRING]},
                    "parent": {"anyOf": [{"$ref": "#/$defs/MixedTree"}, NULL], "default": None},
                    "nearest": {
                        "type": "array",
                        "items": {"anyOf": [{"$ref": "#/$defs/MixedTree"}, INTEGER]},
                        "default": [],
                    },
                },
                "required": ["label"],
            }
        },
    ),
    Row(
        generic_dataclasses,
        {
            "number": {"$ref": "#/$defs/Box_int"},
            "inner": {"$ref": "#/$defs/Box_Box_Path"},
            "bare": {"$ref": "#/$defs/Box"},
        },
        (
            {"number": {"content": 1}, "inner": {"content": {"content": "p"}}, "bare": {"content": None}},
            {"number": Box(1), "inner": Box(Box(Path("p"))), "bare": Box(None)},
        ),
        (
            {"number": {"content": "x"}, "inner": {"content": {}}, "bare": 1},
            ["number.content", "inner.content.content", "bare"],
        ),
        (
            {"number": {"content": "1"}, "inner": '{"content": {"content": "p"}}', "bare": {"content": "1"}},
            {"number": Box(1), "inner": Box(Box(Path("p"))), "bare": Box("1")},
        ),
        definitions={
            "Box_int": {"type": "object", "properties": {"content": INTEGER}, "required": ["content"]},
            "Box_Box_Path": {
                "type": "object",
                "properties": {"content": {"$ref": "#/$defs/Box_Path"}},
                "required": ["content"],
            },
            "Box_Path": {
                "type": "object",
                "properties": {"content": {"type": "string", "format": "path"}},
                "required": ["content"],
            },
            "Box": {"type": "object", "properties": {"content": {}}, "required": ["content"]},
        },
    ),
    Row(
        awkward_dataclass,
        {"counted": {"$ref": "#/$defs/Counted"}},
        (
            {"counted": {"content": 1, "secret": "s", "computed": 9}},
            {"counted": Counted(1, "s")},
        ),
        ({"counted": {"content": -1}}, ["counted"]),
        ({"counted": {"content": "1"}}, {"counted": Counted(1)}),
        definitions={
            "Counted": {
                "type": "object",
                "properties": {"content": INTEGER, "secret": {"type": "string", "default": ""}},
                "required": ["content"],
            }
        },
    ),
    Row(
        typed_dictionaries,
        {"movie": {"$ref": "#/$defs/Movie"}, "loose": {"$ref": "#/$defs/Loose"}},
        (
            {"movie": {"title": "t"}, "loose": {"when": "2026-01-01T00:00:00Z"}},
            {"movie": {"title": "t"}, "loose": {"when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}},
        ),
        (
            {"movie": {"year": "x"}, "loose": {"when": 1, "where": 2}},
            ["movie.title", "movie.year", "loose.when", "loose.where"],
        ),
        (
            {"movie": {"title": "1", "year": "2"}, "loose": '{"where": "p"}'},
            {"movie": {"title": "1", "year": 2}, "loose": {"where": Path("p")}},
        ),
        definitions={
            "Movie": {"type": "object", "properties": {"title": STRING, "year": INTEGER}, "required": ["title"]},
            "Loose": {
                "type": "object",
                "properties": {
                    "when": {"anyOf": [{"type": "string", "format": "date-time"}, STRING]},
                    "where": {"type": "string", "format": "path"},
                },
            },
        },
    ),
    Row(
        named_tuples,
        {"pair": {"$ref": "#/$defs/Pair"}, "located": {"$ref": "#/$defs/Located"}},
        ({"pair": [1], "located": ["p", [1]]}, {"pair": Pair(1), "located": Located(Path("p"), [1])}),
        ({"pair": [1, 2], "located": [3]}, ["pair[1]", "located[0]"]),
        ({"pair": "[1]", "located": ["p"]}, {"pair": Pair(1), "located": Located(Path("p"))}),
        definitions={
            "Pair": {
                "type": "array",
                "prefixItems": [
                    {"description": "left", "type": "integer"},
                    {"description": "right", "type": "string", "default": "r"},
                ],
                "minItems": 1,
                "maxItems": 2,
            },
            "Located": {
                "type": "array",
                "prefixItems": [
                    {"description": "place", "type": "string", "format": "path"},
                    {"description": "marks", "type": "array", "items": INTEGER, "default": []},
                ],
                "minItems": 1,
                "maxItems": 2,
            },
        },
    ),
    Row(
        tagged_structs,
        {"shape": {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]}},
        ({"shape": {"type": "square", "sideLength": 2}}, {"shape": Square(2)}),
        ({"shape": {"type": "triangle"}}, ["shape.type"]),
        ({"shape": '{"type": "circle", "radius": 2}'}, {"shape": Circle(2.0)}),
        definitions={
            "Circle": {
                "type": "object",
                "properties": {"type": {"type": "string", "enum": ["circle"]}, "radius": NUMBER},
                "required": ["type", "radius"],
            },
            "Square": {
                "type": "object",
                "properties": {"type": {"type": "string", "enum": ["square"]}, "sideLength": INTEGER},
                "required": ["type", "sideLength"],
                "additionalProperties": False,
            },
        },
    ),
    Row(
        rewritten_structs,
        {"folder": {"$ref": "#/$defs/Folder"}, "row": {"$ref": "#/$defs/Row3"}},
        (
            {"folder": {"kind": 1, "path": "p"}, "row": ["row", 1, "q"]},
            {"folder": Folder(Path("p")), "row": Row3(1, Path("q"))},
        ),
        ({"folder": {"kind": 1, "path": 2, "note": 3}, "row": ["row", "x"]}, ["folder.path", "folder.note", "row[1]"]),
        (
            {"folder": '{"kind": 1, "path": "p", "note": "n"}', "row": ["row", "1"]},
            {"folder": Folder(Path("p"), note="n"), "row": Row3(1)},
        ),
        definitions={
            "Folder": {
                "type": "object",
                "properties": {
                    "kind": {"type": "integer", "enum": [1]},
                    "path": {"type": "string", "format": "path"},
                    "items": {"type": "array", "items": STRING, "default": []},
                    "note": STRING,
                },
                "required": ["kind", "path"],
            },
            "Row3": {
                "type": "array",
                "prefixItems": [
                    {"type": "string", "enum": ["row"]},
                    {"description": "a", "type": "integer"},
                    {"description": "b", "anyOf": [{"type": "string", "format": "path"}, NULL], "default": None},
                ],
                "minItems": 2,
                "maxItems": 3,
            },
        },
    ),
    Row(
        meta_constraints,
        {
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "description": "In years.", "examples": [3]},
            "name": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"},
            "tags": {"type": "array", "items": STRING, "maxItems": 2},
            "extra": {"type": "object", "additionalProperties": INTEGER, "minProperties": 1},
            "when": {"type": "string", "format": "date-time"},
        },
        (
            {"age": 3, "name": "abc", "tags": ["x"], "extra": {"a": 1}, "when": "2026-01-01T00:00:00Z"},
            {
                "age": 3,
                "name": "abc",
                "tags": ["x"],
                "extra": {"a": 1},
                "when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            },
        ),
        (
            {"age": -1, "name": "ABC", "tags": ["a", "b", "c"], "extra": {}, "when": "2026-01-01T00:00:00"},
            ["age", "name", "tags", "extra", "when"],
        ),
        (
            {"age": "3", "name": "abc", "tags": "[]", "extra": '{"a": 1.0}', "when": "2026-01-01T00:00:00Z"},
            {"age": 3, "name": "abc", "tags": [], "extra": {"a": 1}, "when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
        ),
    ),
    Row(
        foreign_constraints,
        {
            "half": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "step": {"type": "integer", "multipleOf": 5},
            "few": {"type": "array", "items": INTEGER, "maxItems": 2},
        },
        ({"half": 0.5, "step": 10, "few": [1, 2]}, {"half": 0.5, "step": 10, "few": [1, 2]}),
        ({"half": 1, "step": 7, "few": [1, 2, 3]}, ["half", "step", "few"]),
        ({"half": "0.5", "step": 5.0, "few": "[1]"}, {"half": 0.5, "step": 5, "few": [1]}),
    ),
    Row(
        constrained_unions,
        {
            "a": {"anyOf": [{"type": "integer", "minimum": 1}, NULL]},
            "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 2}]},
            "c": {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "maxLength": 10}]},
        },
        ({"a": None, "b": "ab", "c": "2026-01-01"}, {"a": None, "b": "ab", "c": dt.date(2026, 1, 1)}),
        ({"a": 0, "b": "abc", "c": "not so short"}, ["a", "b", "c"]),
        ({"a": "1", "b": 1, "c": "x"}, {"a": 1, "b": 1, "c": "x"}),
    ),
    Row(
        described,
        {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "string", "x-mcp-header": "B", "description": "The second, over two lines."},
        },
        ({"a": 1, "b": "b"}, {"a": 1, "b": "b"}),
        ({"a": None, "b": None}, ["a", "b"]),
        ({"a": "1", "b": "2"}, {"a": 1, "b": "2"}),
    ),
    Row(
        new_types,
        {"user": INTEGER, "users": {"type": "array", "items": INTEGER}},
        ({"user": 1, "users": [2]}, {"user": 1, "users": [2]}),
        ({"user": "x", "users": [1, "x"]}, ["user", "users[1]"]),
        ({"user": "1", "users": "[2]"}, {"user": 1, "users": [2]}),
    ),
    Row(
        aliases,
        {
            "heat": NUMBER,
            "pair": {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, INTEGER]},
        },
        ({"heat": 1.5, "pair": [1, 2]}, {"heat": 1.5, "pair": (1, 2)}),
        ({"heat": "hot", "pair": [1, "x"]}, ["heat", "pair[1]"]),
        ({"heat": "1.5", "pair": ["1", 2.0]}, {"heat": 1.5, "pair": (1, 2)}),
    ),
    Row(
        recursive_alias,
        {"value": {"$ref": "#/$defs/Json"}},
        ({"value": {"a": [1, {"b": None}]}}, {"value": {"a": [1, {"b": None}]}}),
        ({"value": {"a": [1, 1.5]}}, ["value['a'][1]"]),
        definitions={
            "Json": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
                    {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                    INTEGER,
                    STRING,
                    NULL,
                ]
            }
        },
    ),
    Row(
        type_variables,
        {"b": STRING, "c": {"anyOf": [INTEGER, NUMBER]}},
        ({"b": "b", "c": 1.5}, {"b": "b", "c": 1.5}),
        ({"b": 1, "c": "x"}, ["b", "c"]),
        ({"b": "2", "c": "3"}, {"b": "2", "c": 3}),
    ),
    Row(
        positional_only,
        {"a": INTEGER, "b": {"type": "integer", "default": 2}, "c": {"type": "integer", "default": 3}},
        ({"a": 1, "c": 5}, {"a": 1, "b": 2, "c": 5}),
        ({"b": None}, ["a", "b"]),
        ({"a": "1"}, {"a": 1, "b": 2, "c": 3}),
        required=["a"],
    ),
    Row(
        keyword_only,
        {"a": INTEGER, "b": INTEGER, "c": {"type": "string", "default": "c"}},
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": "c"}),
        ({"c": 1}, ["a", "b", "c"]),
        ({"a": "1", "b": "2", "c": "3"}, {"a": 1, "b": 2, "c": "3"}),
        required=["a", "b"],
    ),
    Row(
        collects,
        {"a": INTEGER},
        ({"a": 1, "x": 2}, {"a": 1, "others": {"x": 2}}),
        ({"a": 1, "x": "?", "y": None}, ["x", "y"]),
        ({"a": 1, "x": "2"}, {"a": 1, "others": {"x": 2}}),
        others=INTEGER,
    ),
    Row(
        collects_anything,
        {},
        ({"x": 2, "y": [1]}, {"others": {"x": 2, "y": [1]}}),
        (1, [""]),
        ('{"x": "1"}', {"others": {"x": "1"}}),
    ),
    Row(
        mutable_defaults,
        {
            "a": {"type": "array", "items": INTEGER, "default": [1]},
            "b": {"type": "object", "additionalProperties": INTEGER, "default": {}},
            "c": {"$ref": "#/$defs/Point", "default": {"x": 5, "y": 0}},
        },
        ({}, {"a": [1], "b": {}, "c": Point(5)}),
        ({"a": 1, "b": 1, "c": 1}, ["a", "b", "c"]),
        ({"a": "[2]"}, {"a": [2], "b": {}, "c": Point(5)}),
        required=[],
        definitions={"Point": POINT},
    ),
    Row(
        odd_names,
        {"from_": STRING, "_b": INTEGER, "__c": INTEGER, "self": INTEGER},
        (
            {"from_": "f", "_b": 1, "__c": 2, "self": 3, "_private": 9},
            {"from_": "f", "_b": 1, "__c": 2, "self": 3, "_private": 3},
        ),
        ({"from_": 1}, ["from_", "_b", "__c", "self"]),
        (
            {"from_": "1", "_b": "1", "__c": "2", "self": "3"},
            {"from_": "1", "_b": 1, "__c": 2, "self": 3, "_private": 3},
        ),
    ),
    Row(
        models,
        {"pet": {"$ref": "#/$defs/Pet"}, "owner": {"$ref": "#/$defs/Owner"}},
        (
            {"pet": {"born": "2026-01-01", "owners": [{"name": "n"}]}, "owner": {"name": "o"}},
            {"pet": Pet(born=dt.date(2026, 1, 1), owners=(Owner(name="n"),)), "owner": Owner(name="o")},
        ),
        (
            {"pet": {"born": "soon", "owners": [{}]}, "owner": {"name": 1}},
            ["pet.born", "pet.owners[0].name", "owner.name"],
        ),
        (
            {"pet": '{"born": "2026-01-01"}', "owner": {"name": "1"}},
            {"pet": Pet(born=dt.date(2026, 1, 1)), "owner": Owner(name="1")},
        ),
        definitions={
            "Owner": OWNER,
            "Pet": {
                "description": "An animal at home.",
                "type": "object",
                "properties": {
                    "born": {"type": "string", "format": "date"},
                    "owners": {"type": "array", "items": {"$ref": "#/$defs/Owner"}, "default": []},
                    "parent": {"anyOf": [{"$ref": "#/$defs/Pet"}, NULL], "default": None},
                },
                "required": ["born"],
            },
        },
    ),
    Row(
        model_unions,
        {
            "value": {
                "anyOf": [
                    {"$ref": "#/$defs/Owner"},
                    POINT_REFERENCE,
                    {"type": "array", "items": {"$ref": "#/$defs/Owner"}},
                ]
            }
        },
        ({"value": {"x": 1}}, {"value": Point(1)}),
        ({"value": [{"name": "n"}, {"title": 3}]}, ["value[1].name", "value[1].title"]),
        ({"value": '[{"name": "n"}]'}, {"value": [Owner(name="n")]}),
        definitions={"Owner": OWNER, "Point": POINT},
    ),
    Row(
        fields,
        {
            "a": {"type": "integer", "minimum": 0, "description": "How many.", "default": 5},
            "b": {"type": "string", "pattern": "^x", "maxLength": 3, "default": "x"},
            "sea": STRING,
            "d": {"type": "array", "items": INTEGER, "default": []},
        },
        ({"sea": "s"}, {"a": 5, "b": "x", "c": "s", "d": []}),
        ({"a": -1, "b": "y", "c": "s"}, ["a", "b", "sea"]),
        ({"a": "7", "sea": "8"}, {"a": 7, "b": "x", "c": "8", "d": []}),
        required=["sea"],
    ),
    Row(
        pydantic_types,
        {
            "url": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
            "trimmed": {"type": "string", "minLength": 1},
            "strict": INTEGER,
        },
        (
            {"url": "https://example.com", "trimmed": " a ", "strict": 1},
            {"url": pydantic.HttpUrl("https://example.com"), "trimmed": "a", "strict": 1},
        ),
        ({"url": "?", "trimmed": " ", "strict": "x"}, ["url", "trimmed", "strict"]),
        (
            {"url": "https://example.com", "trimmed": "5", "strict": "1"},
            {"url": pydantic.HttpUrl("https://example.com"), "trimmed": "5", "strict": 1},
        ),
    ),
]
