"""Rows for functions of scalars, containers, choices and unions: their schemas and calls."""

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path

from unit.schema.python.signature_samples import (
    INTEGER,
    NAMED,
    NULL,
    NUMBER,
    POINT,
    POINT_REFERENCE,
    STRING,
    Color,
    Named,
    Point,
    Ratio,
    Row,
    Size,
    abstract_containers,
    anything,
    bare_containers,
    binary,
    containers,
    dictionaries,
    enumerated_literals,
    enumeration_or_text,
    enumerations,
    implicitly_optional,
    integer_or_enumeration,
    literals,
    moment_or_text,
    moments,
    native_unions,
    no_parameters,
    one_or_many,
    optionals,
    paths,
    precise,
    scalars,
    text_or_binary,
    tuples,
    two_dataclasses,
    two_integers,
    two_lists,
    unannotated,
    unusual_enumerations,
)

ROWS = [
    Row(no_parameters, {}, ({}, {}), ([], [""]), (None, {})),
    Row(
        two_integers,
        {"a": INTEGER, "b": {"type": "integer", "default": 3}},
        ({"a": 1, "unknown": 0}, {"a": 1, "b": 3}),
        ({"b": "x"}, ["a", "b"]),
        ({"a": "1", "b": 2.0}, {"a": 1, "b": 2}),
        required=["a"],
    ),
    Row(
        scalars,
        {"text": STRING, "count": INTEGER, "ratio": NUMBER, "flag": {"type": "boolean"}, "nothing": NULL},
        (
            {"text": "1", "count": 2, "ratio": 3, "flag": True, "nothing": None},
            {"text": "1", "count": 2, "ratio": 3.0, "flag": True, "nothing": None},
        ),
        (
            {"text": 1, "count": 1.5, "ratio": "x", "flag": 1, "nothing": 0},
            ["text", "count", "ratio", "flag", "nothing"],
        ),
        (
            {"text": "5", "count": "2.0", "ratio": "3.5", "flag": "true", "nothing": "null"},
            {"text": "5", "count": 2, "ratio": 3.5, "flag": True, "nothing": None},
        ),
    ),
    Row(
        unannotated,
        {"first": {}, "second": {"default": None}},
        ({"first": [1, {"a": None}]}, {"first": [1, {"a": None}], "second": None}),
        ({"second": 1}, ["first"]),
        required=["first"],
    ),
    Row(
        anything,
        {"value": {}, "thing": {}},
        ({"value": "5", "thing": {"a": [1]}}, {"value": "5", "thing": {"a": [1]}}),
        ({}, ["value", "thing"]),
    ),
    Row(
        containers,
        {
            "a": {"type": "array", "items": INTEGER},
            "b": {"type": "object", "additionalProperties": NUMBER},
            "c": {"type": "array", "items": STRING, "uniqueItems": True},
            "d": {"type": "array", "items": INTEGER, "uniqueItems": True},
            "e": {"type": "array", "items": INTEGER},
        },
        (
            {"a": [1], "b": {"x": 1.5}, "c": ["p"], "d": [2], "e": [3, 4]},
            {"a": [1], "b": {"x": 1.5}, "c": {"p"}, "d": frozenset({2}), "e": (3, 4)},
        ),
        (
            {"a": [1, "x", 2, "y"], "b": {"p q": "?"}, "c": [1], "d": 5, "e": ["z"]},
            ["a[1]", "a[3]", "b['p q']", "c[0]", "d", "e[0]"],
        ),
        (
            {"a": "[1, 2.0]", "b": '{"x": "1"}', "c": '["5"]', "d": ["2"], "e": [3.0]},
            {"a": [1, 2], "b": {"x": 1.0}, "c": {"5"}, "d": frozenset({2}), "e": (3,)},
        ),
    ),
    Row(
        bare_containers,
        {
            "a": {"type": "array"},
            "b": {"type": "object"},
            "c": {"type": "array", "uniqueItems": True},
            "d": {"type": "array"},
        },
        ({"a": [1], "b": {"x": "y"}, "c": ["z"], "d": [None]}, {"a": [1], "b": {"x": "y"}, "c": {"z"}, "d": (None,)}),
        ({"a": {}, "b": [], "c": 1, "d": "x"}, ["a", "b", "c", "d"]),
        (
            {"a": "[]", "b": "{}", "c": '["1"]', "d": "[1]"},
            {"a": [], "b": {}, "c": {"1"}, "d": (1,)},
        ),
    ),
    Row(
        abstract_containers,
        {
            "a": {"type": "array", "items": INTEGER},
            "b": {"type": "object", "additionalProperties": INTEGER},
            "c": {"type": "array", "items": INTEGER},
        },
        ({"a": [1], "b": {"x": 1}, "c": [2]}, {"a": [1], "b": {"x": 1}, "c": [2]}),
        ({"a": 1, "b": {"x": "?"}, "c": ["?"]}, ["a", "b['x']", "c[0]"]),
        ({"a": ["1"], "b": "{}", "c": "[2]"}, {"a": [1], "b": {}, "c": [2]}),
    ),
    Row(
        tuples,
        {
            "pair": {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, STRING]},
            "empty": {"type": "array", "minItems": 0, "maxItems": 0},
            "paths": {
                "type": "array",
                "minItems": 2,
                "maxItems": 2,
                "prefixItems": [{"type": "string", "format": "path"}, INTEGER],
            },
        },
        (
            {"pair": [1, "a"], "empty": [], "paths": ["p", 2]},
            {"pair": (1, "a"), "empty": (), "paths": (Path("p"), 2)},
        ),
        ({"pair": [1, 2], "empty": [1], "paths": [3, 4]}, ["pair[1]", "empty", "paths[0]"]),
        (
            {"pair": ["1", "5"], "empty": "[]", "paths": ["3", "4"]},
            {"pair": (1, "5"), "empty": (), "paths": (Path("3"), 4)},
        ),
    ),
    Row(
        dictionaries,
        {
            "by_number": {
                "type": "object",
                "propertyNames": {"pattern": "^-?[0-9]+$"},
                "additionalProperties": STRING,
            },
            "by_color": {
                "type": "object",
                "propertyNames": {"type": "string", "enum": ["red", "blue"]},
                "additionalProperties": INTEGER,
            },
            "by_path": {
                "type": "object",
                "propertyNames": {"type": "string", "format": "path"},
                "additionalProperties": INTEGER,
            },
        },
        (
            {"by_number": {"1": "a"}, "by_color": {"red": 1}, "by_path": {"p": 2}},
            {"by_number": {1: "a"}, "by_color": {Color.RED: 1}, "by_path": {Path("p"): 2}},
        ),
        (
            {"by_number": {"x": "a"}, "by_color": {"green": 1}, "by_path": {"p": "?"}},
            ["by_number", "by_color", "by_path['p']"],
        ),
        (
            {"by_number": {"1": "2"}, "by_color": '{"red": 1}', "by_path": {"p": "2"}},
            {"by_number": {1: "2"}, "by_color": {Color.RED: 1}, "by_path": {Path("p"): 2}},
        ),
    ),
    Row(
        binary,
        {"data": {"type": "string", "contentEncoding": "base64"}},
        ({"data": "aGk="}, {"data": b"hi"}),
        ({"data": "?"}, ["data"]),
    ),
    Row(
        moments,
        {
            "when": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "hour": {"type": "string", "format": "time"},
            "length": {"type": "string", "format": "duration"},
        },
        (
            {"when": "2026-07-28T12:00:00Z", "day": "2026-07-28", "hour": "12:00:00", "length": "PT5M"},
            {
                "when": dt.datetime(2026, 7, 28, 12, tzinfo=dt.UTC),
                "day": dt.date(2026, 7, 28),
                "hour": dt.time(12),
                "length": dt.timedelta(minutes=5),
            },
        ),
        ({"when": "soon", "day": 1, "hour": "noon", "length": "long"}, ["when", "day", "hour", "length"]),
    ),
    Row(
        precise,
        {"key": {"type": "string", "format": "uuid"}, "price": {"type": "string", "format": "decimal"}},
        (
            {"key": "00000000-0000-0000-0000-000000000001", "price": "1.10"},
            {"key": uuid.UUID(int=1), "price": Decimal("1.10")},
        ),
        ({"key": "1", "price": "much"}, ["key", "price"]),
    ),
    Row(
        paths,
        {
            "where": {"type": "string", "format": "path"},
            "others": {"type": "array", "items": {"type": "string", "format": "path"}},
        },
        ({"where": "/tmp", "others": ["a"]}, {"where": Path("/tmp"), "others": [Path("a")]}),
        ({"where": 1, "others": ["a", 2]}, ["where", "others[1]"]),
        ({"where": "[1]", "others": '["a"]'}, {"where": Path("[1]"), "others": [Path("a")]}),
    ),
    Row(
        literals,
        {
            "tone": {"type": "string", "enum": ["terse", "kind"]},
            "level": {"type": "integer", "enum": [1, 2]},
            "flag": {"type": "boolean", "enum": [True]},
            "mixed": {"enum": [1, "a", None]},
        },
        (
            {"tone": "kind", "level": 2, "flag": True, "mixed": None},
            {"tone": "kind", "level": 2, "flag": True, "mixed": None},
        ),
        ({"tone": "rude", "level": 3, "flag": False, "mixed": "1"}, ["tone", "level", "flag", "mixed"]),
        (
            {"tone": "kind", "level": "2", "flag": "true", "mixed": "a"},
            {"tone": "kind", "level": 2, "flag": True, "mixed": "a"},
        ),
    ),
    Row(
        enumerated_literals,
        {"color": {"type": "string", "enum": ["red"]}, "size": {"enum": [1, "other"]}},
        ({"color": "red", "size": 1}, {"color": Color.RED, "size": Size.SMALL}),
        ({"color": "blue", "size": [1]}, ["color", "size"]),
    ),
    Row(
        enumerations,
        {"color": {"type": "string", "enum": ["red", "blue"]}, "size": {"type": "integer", "enum": [1, 2]}},
        ({"color": "blue", "size": 2}, {"color": Color.BLUE, "size": Size.LARGE}),
        ({"color": "BLUE", "size": 3}, ["color", "size"]),
        ({"color": "red", "size": "1"}, {"color": Color.RED, "size": Size.SMALL}),
    ),
    Row(
        unusual_enumerations,
        {"ratio": {"enum": [0.5, None, True]}},
        ({"ratio": 0.5}, {"ratio": Ratio.HALF}),
        ({"ratio": 1}, ["ratio"]),
        ({"ratio": "null"}, {"ratio": Ratio.AUTO}),
    ),
    Row(
        optionals,
        {
            "a": {"anyOf": [INTEGER, NULL]},
            "b": {"anyOf": [STRING, NULL], "default": None},
            "c": {"anyOf": [{"type": "array", "items": INTEGER}, NULL], "default": None},
        },
        ({"a": None, "b": "null"}, {"a": None, "b": "null", "c": None}),
        ({"a": "x", "b": 1, "c": [1, "x"]}, ["a", "b", "c[1]"]),
        ({"a": "null", "b": "null", "c": "[1]"}, {"a": None, "b": "null", "c": [1]}),
        required=["a"],
    ),
    Row(
        implicitly_optional,
        {
            "limit": {"anyOf": [INTEGER, NULL], "default": None},
            "point": {"anyOf": [POINT_REFERENCE, NULL], "default": None},
        },
        ({"limit": None}, {"limit": None, "point": None}),
        ({"limit": "x", "point": {}}, ["limit", "point.x"]),
        ({"point": '{"x": 1}'}, {"limit": None, "point": Point(1)}),
        required=[],
        definitions={"Point": POINT},
    ),
    Row(
        native_unions,
        {
            "a": {"anyOf": [INTEGER, STRING]},
            "b": {"anyOf": [INTEGER, NUMBER, {"type": "array", "items": INTEGER}]},
        },
        ({"a": "5", "b": 1.0}, {"a": "5", "b": 1.0}),
        ({"a": 1.5, "b": [1, "?"]}, ["a", "b[1]"]),
        ({"a": "5", "b": "[1]"}, {"a": "5", "b": [1]}),
    ),
    Row(
        moment_or_text,
        {"value": {"anyOf": [{"type": "string", "format": "date-time"}, STRING]}},
        ({"value": "2026-07-28T12:00:00Z"}, {"value": dt.datetime(2026, 7, 28, 12, tzinfo=dt.UTC)}),
        ({"value": 5}, ["value"]),
    ),
    Row(
        enumeration_or_text,
        {"value": {"anyOf": [STRING, {"type": "string", "enum": ["red", "blue"]}]}},
        ({"value": "red"}, {"value": Color.RED}),
        ({"value": None}, ["value"]),
    ),
    Row(
        integer_or_enumeration,
        {"value": {"anyOf": [{"type": "integer", "enum": [1, 2]}, INTEGER]}},
        ({"value": 2}, {"value": Size.LARGE}),
        ({"value": "x"}, ["value"]),
        ({"value": "7"}, {"value": 7}),
    ),
    Row(
        text_or_binary,
        {"value": {"anyOf": [STRING, {"type": "string", "contentEncoding": "base64"}]}},
        ({"value": "test"}, {"value": "test"}),
        ({"value": 1}, ["value"]),
    ),
    Row(
        two_dataclasses,
        {"value": {"anyOf": [{"$ref": "#/$defs/Named"}, POINT_REFERENCE, NULL]}},
        ({"value": {"x": 1}}, {"value": Point(1)}),
        ({"value": {"z": 1}}, ["value"]),
        ({"value": '{"name": "n"}'}, {"value": Named("n")}),
        definitions={"Named": NAMED, "Point": POINT},
    ),
    Row(
        one_or_many,
        {"value": {"anyOf": [{"type": "array", "items": POINT_REFERENCE}, POINT_REFERENCE]}},
        ({"value": [{"x": 1}]}, {"value": [Point(1)]}),
        ({"value": [{"x": 1}, {"x": "?", "y": "?"}]}, ["value[1].x", "value[1].y"]),
        ({"value": {"x": "1"}}, {"value": Point(1)}),
        definitions={"Point": POINT},
    ),
    Row(
        two_lists,
        {
            "value": {
                "anyOf": [
                    {"type": "array", "items": INTEGER},
                    {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
                    {"type": "object", "additionalProperties": INTEGER},
                    POINT_REFERENCE,
                ]
            }
        },
        ({"value": ["red"]}, {"value": [Color.RED]}),
        ({"value": ["green"]}, ["value"]),
        ({"value": '{"x": 1, "z": 2}'}, {"value": {"x": 1, "z": 2}}),
        definitions={"Point": POINT},
    ),
]
