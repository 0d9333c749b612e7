"""Whatever the schema: every dialect takes it, and what a model then writes comes back as the tool wants it."""

import copy
import json
import os
import re

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat.dialect_rules import assert_gemini, assert_lenient, assert_strict
from dragoman.schema.coerce import restore_arguments
from dragoman.schema.dialects import for_anthropic, for_gemini, for_openai
from dragoman.schema.naming import safe_name

EXAMPLES = settings(
    max_examples=int(os.environ.get("DRAGOMAN_EXAMPLES", "60")),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

SCALARS = [
    ({"type": "string"}, st.text(max_size=5)),
    ({"type": "string", "minLength": 1, "format": "uri-reference"}, st.just("a")),
    ({"type": "integer"}, st.integers(-(2**40), 2**40)),
    ({"type": "number", "minimum": 0}, st.floats(0.5, 99.5)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "null"}, st.none()),
    ({"type": ["integer", "null"]}, st.none() | st.integers(0, 9)),
    ({"enum": ["a", "b"]}, st.sampled_from(["a", "b"])),
    ({"enum": [1, 2.5]}, st.sampled_from([1, 2.5])),
    ({"const": "x"}, st.just("x")),
    ({"const": 7}, st.just(7)),
    ({}, st.text(max_size=3) | st.booleans()),
    (True, st.integers(0, 9)),
    ({"type": "object"}, st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2)),
    ({"description": "Many.", "type": "array"}, st.lists(st.text(max_size=3), max_size=2)),
]
NAMES = st.sampled_from(["a", "b", "c", "$d", "e f", "ü"])


@st.composite
def pairs(draw, level=0, definitions=None):
    """A schema, and a strategy of what is valid for it."""
    kinds = ["scalar"] if level > 3 else ["scalar", "object", "array", "map", "any", "all", "ref", "tuple", "closed"]
    kind = draw(st.sampled_from(kinds))
    inner = pairs(level + 1, definitions)
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind in ("object", "closed"):
        return draw(objects(level, definitions, closed=kind == "closed"))
    if kind == "any":
        branches = draw(st.lists(inner, min_size=1, max_size=3))
        keyword = draw(st.sampled_from(["anyOf", "anyOf"]))
        return {keyword: [schema for schema, _ in branches]}, st.one_of([values for _, values in branches])
    if kind == "tuple":
        places = draw(st.lists(inner, min_size=1, max_size=2))
        schema = {"type": "array", "prefixItems": [schema for schema, _ in places], "items": False}
        return schema, st.tuples(*[values for _, values in places]).map(list)
    schema, values = draw(inner)
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=2)
    if kind == "map":
        return {"type": "object", "additionalProperties": schema}, st.dictionaries(NAMES, values, max_size=2)
    if kind == "all":
        return {"allOf": [schema], "description": "All."}, values
    name = f"d{len(definitions)}"
    definitions[name] = schema
    return {"$ref": f"#/$defs/{name}"}, values


@st.composite
def objects(draw, level=0, definitions=None, closed=False):
    properties = draw(st.dictionaries(NAMES, pairs(level + 1, definitions), min_size=1, max_size=3))
    required = draw(st.sets(st.sampled_from(sorted(properties))))
    schema = {"type": "object", "properties": {name: schema for name, (schema, _) in properties.items()}}
    if required:
        schema["required"] = sorted(required)
    if closed:
        schema["additionalProperties"] = False
    needed = {name: values for name, (_, values) in properties.items() if name in required}
    optional = {name: values for name, (_, values) in properties.items() if name not in required}
    return schema, st.fixed_dictionaries(needed, optional=optional)


@st.composite
def cases(draw):
    """A schema and arguments that are valid for it."""
    definitions = {}
    schema, values = draw(objects(0, definitions))
    if definitions:
        schema["$defs"] = definitions
    return schema, draw(values)


def is_valid(value, schema):
    return jsonschema_rs.Draft202012Validator(schema, offline=True).is_valid(value)


def as_json_schema(spoken):
    """A schema of Gemini in JSON Schema."""
    if "anyOf" in spoken:
        return {"anyOf": [as_json_schema(part) for part in spoken["anyOf"]]}
    schema = {key: value for key, value in spoken.items() if key != "nullable"}
    if "properties" in spoken:
        schema["properties"] = {name: as_json_schema(part) for name, part in spoken["properties"].items()}
        schema["additionalProperties"] = False
    if "items" in spoken:
        schema["items"] = as_json_schema(spoken["items"])
    return {"anyOf": [schema, {"type": "null"}]} if spoken.get("nullable") else schema


def written(value, schema, *, alias, fill):
    """What a model would write that means a value and obeys a schema; None twice if it has no words for it."""
    for branch in schema.get("anyOf", [schema]):
        if "anyOf" in branch:
            candidate = written(value, branch, alias=alias, fill=fill)
        else:
            candidate = written_plainly(value, branch, alias=alias, fill=fill)
        if is_valid(candidate, branch):
            return candidate
    return value


def written_plainly(value, schema, *, alias, fill):
    named = schema.get("type")
    kinds = named if isinstance(named, list) else [named]
    if isinstance(value, dict) and "object" in kinds:
        known = {alias(name): item for name, item in value.items()}
        said = {
            name: written(known[name], part, alias=alias, fill=fill)
            for name, part in schema["properties"].items()
            if name in known
        }
        missing = {name: None for name in schema["properties"] if name not in known} if fill else {}
        return said | missing | {name: item for name, item in known.items() if name not in schema["properties"]}
    if isinstance(value, list) and "array" in kinds:
        return [written(item, schema["items"], alias=alias, fill=fill) for item in value]
    return json.dumps(value) if isinstance(value, dict) and "string" in kinds else value


def agrees(restored, meant):
    """Whether arguments mean the same: what may be null may be null where it was absent."""
    if isinstance(meant, dict) and isinstance(restored, dict):
        return all(name in restored and agrees(restored[name], item) for name, item in meant.items()) and all(
            restored[name] is None for name in restored.keys() - meant.keys()
        )
    if isinstance(meant, list) and isinstance(restored, list):
        return len(meant) == len(restored) and all(map(agrees, restored, meant))
    if isinstance(meant, dict | list) and isinstance(restored, str):
        return agrees(json.loads(restored), meant)
    return restored == meant


def alias(name):
    return name if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) else safe_name(name)


@EXAMPLES
@given(cases())
def test_any_schema_becomes_one_that_each_dialect_takes(case):
    schema, _ = case
    before = copy.deepcopy(schema)
    assert_strict(for_openai(schema, strict=True))
    assert_gemini(for_gemini(schema))
    assert_lenient(for_openai(schema))
    assert_lenient(for_anthropic(schema))
    assert schema == before


@EXAMPLES
@given(cases())
def test_arguments_that_are_valid_stay_as_they_are(case):
    schema, arguments = case
    assert restore_arguments(arguments, schema) == arguments


@EXAMPLES
@given(cases())
def test_what_a_model_writes_for_openai_and_anthropic_is_valid_for_the_tool(case):
    schema, arguments = case
    assert is_valid(arguments, for_openai(schema))


@EXAMPLES
@given(cases())
def test_what_a_model_writes_in_strict_mode_comes_back_as_the_tool_wants_it(case):
    schema, arguments = case
    spoken = for_openai(schema, strict=True)
    text = written(arguments, spoken, alias=lambda name: name, fill=True)
    if is_valid(text, spoken):
        restored = restore_arguments(text, schema)
        assert is_valid(restored, schema)
        assert agrees(restored, arguments)


@EXAMPLES
@given(cases())
def test_what_a_model_writes_for_gemini_comes_back_as_the_tool_wants_it(case):
    schema, arguments = case
    spoken = as_json_schema(for_gemini(schema))
    text = written(arguments, spoken, alias=alias, fill=False)
    if is_valid(text, spoken):
        restored = restore_arguments(text, schema)
        assert is_valid(restored, schema)
        assert agrees(restored, arguments)


@EXAMPLES
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([
            "type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "required", "enum", "const",
            "additionalProperties", "description", "not", "if", "then", "prefixItems", "minimum", "exclusiveMinimum",
            "format", "pattern", "nullable", "patternProperties", "dependentSchemas", "default", "title", "a",
        ]),
        inner, max_size=4,
    ),
    max_leaves=20,
))  # fmt: skip
def test_what_is_hardly_a_schema_is_made_one(garbage):
    schema = garbage if isinstance(garbage, dict) else {"properties": {"a": garbage}}
    assert_strict(for_openai(schema, strict=True))
    assert_gemini(for_gemini(schema))
    for lenient in (for_openai(schema), for_anthropic(schema)):
        assert lenient["type"] == "object"
        assert isinstance(lenient["properties"], dict)
    restore_arguments({"a": "1", "b": None, "c": [{}]}, schema)
