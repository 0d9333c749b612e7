"""Whatever the schema and the view: clients may send exactly what becomes arguments that the tool takes."""

import asyncio
import os

import jsonschema_rs
import msgspec
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from dragoman import Argument, View, types
from dragoman.errors import ToolError
from dragoman.views import ViewedTool
from dragoman.views.input_schema import argument_names, takes_further_arguments

EXAMPLES = settings(
    max_examples=int(os.environ.get("DRAGOMAN_EXAMPLES", "150")),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
NAMES = ["a", "b", "c", "d"]
NEW_NAMES = ["p", "q", "a", "b", "x-p"]
SENT = sorted({*NAMES, *NEW_NAMES, "x-z", "z"})
VALUES = st.sampled_from([0, 1, 2, 7, "x", "y", True, None, [], ["x"], {"a": 1}, {"a": {"a": "x"}}])
DRAFTS = [None, None, "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]

name = st.sampled_from(NAMES)
names = st.lists(name, max_size=2, unique=True)
value_schema = st.sampled_from(
    [
        {},
        True,
        False,
        {"type": "integer"},
        {"type": "integer", "minimum": 1, "maximum": 5},
        {"type": "string", "description": "Text."},
        {"enum": [1, "x", None]},
        {"const": "x"},
        {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "string"}},
        {"$ref": "#"},
        {"$ref": "#/$defs/number"},
        {"anyOf": [{"$ref": "#/$defs/number"}, {"type": "null"}]},
        {"$ref": "#/$defs/root"},
        {"$ref": "#/properties/a"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    ]
)
LEAF = {
    "properties": st.dictionaries(name, value_schema, min_size=1, max_size=3),
    "required": names,
    "dependentRequired": st.dictionaries(name, names, max_size=2),
    "dependencies": st.dictionaries(name, names, max_size=2),
    "additionalProperties": st.sampled_from([True, False, {"type": "integer"}, {"$ref": "#/$defs/number"}]),
    "patternProperties": st.sampled_from([{"^x-": {"type": "integer"}}, {"^[ab]$": {"type": ["integer", "string"]}}]),
    "propertyNames": st.sampled_from([{"maxLength": 1}, {"enum": [*NAMES, *NEW_NAMES]}]),
    "minProperties": st.integers(0, 2),
    "maxProperties": st.integers(1, 4),
    "$ref": st.sampled_from(["#/$defs/part", "#/$defs/other"]),
}


def some(keywords):
    """Schemas with up to two of some keywords; with more, hardly any arguments would fit."""
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=2, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({each: keywords[each] for each in names}))


in_place_leaf = some(LEAF)


def combined(parts):
    several = st.lists(parts, min_size=1, max_size=2)
    keywords = {
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": parts,
        "if": parts,
        "then": parts,
        "else": parts,
        "dependentSchemas": st.dictionaries(name, parts, max_size=1),
        "unevaluatedProperties": st.sampled_from([False, {"type": "integer"}]),
    }
    return st.builds(lambda leaf, further: leaf | further, in_place_leaf, some(keywords))


part = st.recursive(in_place_leaf, combined, max_leaves=3)
DEFINITIONS = {
    "number": {"type": "number"},
    "part": {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
    "other": {"anyOf": [{"required": ["a"]}, {"properties": {"c": {"$ref": "#/$defs/number"}}}]},
    "root": {"type": "object", "properties": {"a": {"$ref": "#"}}},
}


@st.composite
def schemas(draw):
    root = draw(combined(part))
    properties = {each: draw(value_schema) for each in draw(st.lists(name, min_size=1, unique=True))}
    draft = draw(st.sampled_from(DRAFTS))
    dialect = {} if draft is None else {"$schema": draft}
    properties = {"a": {}, **properties, **root.get("properties", {})}
    return {**dialect, **root, "type": "object", "properties": properties, "$defs": DEFINITIONS}


@st.composite
def views(draw):
    arguments = {}
    for each in draw(st.lists(name, min_size=1, unique=True)):
        kind = draw(st.sampled_from(["rename", "fix", "default", "hide", "both", "constrain"]))
        arguments[each] = {
            "rename": lambda: Argument(name=draw(st.sampled_from(NEW_NAMES))),
            "fix": lambda: Argument(fixed=draw(VALUES)),
            "default": lambda: Argument(default=draw(VALUES), description="Of the view."),
            "hide": lambda: Argument(hidden=True),
            "both": lambda: Argument(name=draw(st.sampled_from(NEW_NAMES)), default=draw(VALUES)),
            "constrain": lambda: Argument(schema=draw(st.sampled_from([{"type": "integer"}, {"maximum": 1}]))),
        }[kind]()
    names = [argument.name for argument in arguments.values() if argument.name]
    assume(len(names) == len(set(names)))
    return View(arguments=arguments)


def mapped(arguments, schema, view):
    """Return the tool's arguments by the words of the documentation; None if the view refuses those of the client."""
    visible = {
        each: argument.name or each
        for each, argument in view.arguments.items()
        if not argument.hidden and argument.fixed is msgspec.UNSET
    }
    inner = {shown: each for each, shown in visible.items()}
    if any(each in view.arguments and each not in inner for each in arguments):
        return None
    for each, argument in view.arguments.items():
        sent = arguments.get(visible.get(each))
        limits = argument.schema
        if limits is not None and visible[each] in arguments and not jsonschema_rs.is_valid(limits, sent):
            return None
    result = {inner.get(each, each): value for each, value in arguments.items()}
    for each, argument in view.arguments.items():
        if argument.fixed is not msgspec.UNSET:
            result[each] = argument.fixed
        elif argument.default is not msgspec.UNSET:
            result.setdefault(each, argument.default)
    return result


def validator(schema):
    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except jsonschema_rs.ValidationError:
        return None


@EXAMPLES
@given(schemas(), views(), st.data())
def test_clients_may_send_exactly_what_becomes_arguments_that_the_tool_takes(schema, view, data):
    upstream = validator(schema)
    assume(upstream is not None)
    tool = ViewedTool(types.Tool(name="tool", input_schema=schema), [view])
    event("withheld" if tool.findings else "shown")
    if tool.findings:
        return
    shown = validator(tool.shown.input_schema)
    assert shown is not None
    for _ in range(5):
        arguments = data.draw(st.dictionaries(st.sampled_from(SENT), VALUES, max_size=4))
        expected = mapped(arguments, schema, view)
        is_unknown = not set(arguments) <= set(shown_names(schema, view))
        fits = expected is not None and upstream.is_valid(expected)
        if is_unknown and closes(schema, view):
            fits = False
        assert shown.is_valid(arguments) is fits, (tool.shown.input_schema, arguments, expected)
        if fits:
            received = asyncio.run(tool.arguments(arguments, None))
            assert msgspec.json.decode(received) == expected
        elif expected is None or is_unknown:
            with pytest.raises(ToolError):
                asyncio.run(tool.arguments(arguments, None))


def shown_names(schema, view):
    for each in argument_names(schema):
        argument = view.arguments.get(each, Argument())
        if not argument.hidden and argument.fixed is msgspec.UNSET:
            yield argument.name or each


def closes(schema, view):
    """Tell whether a tool takes no further arguments under a view: one has lost its name, and none is open."""
    has_lost = [
        each
        for each, argument in view.arguments.items()
        if argument.hidden or argument.fixed is not msgspec.UNSET or argument.name not in (None, each)
    ]
    return bool(has_lost) and not takes_further_arguments(schema)
