import copy
import json
import re

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import types
from dragoman.client.dialects import (
    for_anthropic,
    for_gemini,
    for_openai,
    restore,
    safe_name,
    to_anthropic,
    to_gemini,
    to_openai,
    tool_names,
)

TREE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {
        "Node": {
            "type": "object",
            "description": "A node.",
            "properties": {
                "name": {"type": "string", "title": "Name"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
            },
            "required": ["name"],
        }
    },
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "required": ["root"],
}
UNION = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "url"}, "url": {"type": "string", "format": "uri"}},
            "required": ["kind", "url"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "file"}, "path": {"type": "string"}, "line": {"type": "integer"}},
            "required": ["kind", "path"],
            "additionalProperties": False,
        },
    ]
}
BOMB = {
    "type": "object",
    "properties": {"bomb": {"$ref": "#/$defs/l0"}},
    "$defs": {
        f"l{level}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/l{level + 1}"} for name in "abcdefgh"},
        }
        for level in range(30)
    }
    | {"l30": {"type": "string"}},
}
NASTY = {
    "nothing": {},
    "only a type": {"type": "object"},
    "null properties": {"type": "object", "properties": None, "required": None},
    "recursive": TREE,
    "recursive at the top": {"type": "object", "properties": {"next": {"$ref": "#"}}},
    "a reference at the top": {"$ref": "#/definitions/Args", "definitions": {"Args": UNION["oneOf"][0]}},
    "a reference to itself": {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
    "a reference that leads nowhere": {"type": "object", "properties": {"a": {"$ref": "#/$defs/Gone"}}},
    "a reference to elsewhere": {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
    "unfolds without end": BOMB,
    "a union at the top": UNION,
    "all of": {
        "type": "object",
        "allOf": [
            {"properties": {"a": {"type": ["string", "integer"]}}, "required": ["a"]},
            {"properties": {"a": {"type": "string", "minLength": 2}, "b": {"type": "number"}}},
        ],
    },
    "optional in pydantic": {
        "type": "object",
        "properties": {"limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}},
    },
    "nullable in OpenAPI": {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}},
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "x",
        "type": "object",
        "properties": {
            "age": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "required": True},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": False},
        },
    },
    "a tuple": {
        "type": "object",
        "properties": {
            "point": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False}
        },
        "required": ["point"],
    },
    "conditions": {
        "type": "object",
        "properties": {"country": {"type": "string"}},
        "if": {"properties": {"country": {"const": "US"}}},
        "then": {"properties": {"zip": {"type": "string"}}, "required": ["zip"]},
        "else": {"properties": {"postcode": {"type": "string"}}},
        "dependentRequired": {"zip": ["country"]},
    },
    "booleans": {
        "type": "object",
        "properties": {"any": True, "none": False, "list": {"type": "array", "items": True}},
        "required": ["any"],
    },
    "a map": {
        "type": "object",
        "properties": {
            "headers": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "propertyNames": {"pattern": "^X"},
            },
            "free": {"type": "object"},
            "patterned": {"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False},
        },
        "additionalProperties": {"type": "integer"},
    },
    "choices": {
        "type": "object",
        "properties": {
            "level": {"enum": [1, 2, 3]},
            "mixed": {"enum": ["auto", 1, None, True]},
            "empty": {"type": "string", "enum": ["", "a"]},
            "maybe": {"type": ["string", "null"], "enum": ["a", None]},
            "object": {"enum": [{"a": 1}, [1]]},
            "titled": {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
            "only": {"const": None},
        },
    },
    "formats": {
        "type": "object",
        "properties": {
            "when": {"type": "string", "format": "date-time"},
            "mail": {"type": "string", "format": "email", "pattern": "(?<=a)b", "maxLength": 80},
            "size": {"type": "integer", "format": "uint8", "multipleOf": 2, "exclusiveMaximum": 9},
            "tags": {"type": "array", "uniqueItems": True, "minItems": 1, "contains": {"const": "x"}},
        },
    },
    "names": {
        "type": "object",
        "properties": {"$filter": {"type": "string"}, "größe in cm": {"type": "number"}, "x" * 70: {"type": "integer"}},
        "required": ["$filter"],
    },
    "needs what it does not name": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
    "types that are none": {
        "type": "object",
        "properties": {"a": {"type": "any"}, "b": {"type": "STRING"}, "c": {"type": "list"}, "d": {"type": []}},
    },
    "no types": {
        "properties": {
            "a": {"properties": {"b": {"minimum": 1}}},
            "c": {"items": {"maxLength": 3}},
            "d": {"description": "Anything."},
        }
    },
    "an array at the top": {"type": "array", "items": {"type": "string"}},
    "descriptions that are none": {"type": "object", "properties": {"a": {"type": "string", "description": 3}}},
    "contradictions": {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"type": "integer"}]}}},
    "a union among unions": {
        "type": "object",
        "properties": {
            "v": {
                "anyOf": [
                    {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {}}}]},
                    {"type": "null"},
                ]
            }
        },
        "anyOf": [{"required": ["v"]}, {"required": ["w"], "properties": {"w": {"type": "boolean"}}}],
    },
}

STRICT_KEYWORDS = {
    "type", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "pattern", "format",
}  # fmt: skip
GEMINI_KEYWORDS = {
    "type", "format", "description", "nullable", "enum", "items", "properties", "required", "anyOf",
}  # fmt: skip


def assert_strict(schema):
    assert schema.keys() <= STRICT_KEYWORDS
    named = schema.get("type")
    assert named or schema["anyOf"]
    if named == "object":
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
    assert "object" not in named or named == "object" if named else True
    if named == "array":
        assert isinstance(schema["items"], dict)
    assert all(value is None or isinstance(value, str | int | float) for value in schema.get("enum", []))
    assert "(?" not in schema.get("pattern", "")
    walk(schema, assert_strict)


def assert_gemini(schema):
    assert schema.keys() <= GEMINI_KEYWORDS
    if "anyOf" in schema:
        assert schema.keys() == {"anyOf"}
        assert len(schema["anyOf"]) > 1
    else:
        assert schema["type"] in ("object", "array", "string", "number", "integer", "boolean")
    if schema.get("type") == "array":
        assert isinstance(schema["items"], dict)
    if "required" in schema:
        assert set(schema["required"]) <= schema["properties"].keys()
    if "enum" in schema:
        assert schema["type"] == "string"
        assert all(isinstance(value, str) and value for value in schema["enum"])
    assert schema.get("format", "date-time") in ("date-time", "int32", "int64", "float", "double")
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in schema.get("properties", {}))
    walk(schema, assert_gemini)


def walk(schema, visit):
    for part in [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]:
        visit(part)
    if "items" in schema:
        visit(schema["items"])


def assert_lenient(schema):
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not schema.keys() & {"$ref", "anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "$schema", "$id"}
    jsonschema_rs.Draft202012Validator(schema, offline=True)
    text = json.dumps(schema)
    for reference in re.findall(r'"\$ref": "#/(\$defs|definitions)/([^"]+)"', text):
        assert reference[1] in schema[reference[0]]
    assert_arrays_have_items(schema)


def assert_arrays_have_items(schema):
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            assert "items" in schema or "maxItems" in schema
        for part in schema.values():
            assert_arrays_have_items(part)


@pytest.mark.covers("LMT-09", "LMT-10")
@pytest.mark.parametrize("name", NASTY)
def test_every_dialect_takes_what_servers_really_send(name):
    schema = copy.deepcopy(NASTY[name])
    assert_strict(for_openai(schema, strict=True))
    assert_gemini(for_gemini(schema))
    assert_lenient(for_openai(schema))
    anthropic = for_anthropic(schema)
    assert_lenient(anthropic)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", key) for key in anthropic["properties"])
    assert schema == NASTY[name]


def test_a_top_that_is_no_object_becomes_one():
    empty = {"type": "object", "properties": {}}
    assert for_openai({"type": "array", "items": {}})["type"] == "object"
    assert for_openai({}) == for_anthropic({}) == for_gemini({}) == empty
    assert for_openai({}, strict=True) == empty | {"required": [], "additionalProperties": False}


def test_definitions_stay_shared_where_the_api_takes_references():
    assert for_openai(TREE) == {key: value for key, value in TREE.items() if key != "$schema"}
    assert for_anthropic(TREE) == for_openai(TREE)


def test_a_cycle_is_cut_and_the_model_is_told():
    node = for_gemini(TREE)["properties"]["root"]
    assert node["properties"]["name"] == {"type": "string", "description": "Name"}
    child = node["properties"]["children"]["items"]
    assert child["type"] == "string"
    assert "same shape as another Node" in child["description"]
    assert "JSON text of an object" in child["description"]
    inlined = for_openai({"allOf": [{"$ref": "#/$defs/Node"}], "$defs": TREE["$defs"]})
    assert inlined["properties"]["children"]["items"]["type"] == "object"


def test_the_variants_of_a_union_at_the_top_become_one_object():
    for schema in (for_openai(UNION), for_anthropic(UNION), for_gemini(UNION)):
        assert schema["properties"].keys() == {"kind", "url", "path", "line"}
        assert schema["required"] == ["kind"]
        assert "kind, url; kind, path" in schema["description"]
    assert for_openai(UNION)["properties"]["kind"] == {"anyOf": [{"enum": ["url"]}, {"enum": ["file"]}]}


def test_strict_makes_every_property_required_and_the_optional_ones_nullable():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2},
            "days": {"type": "integer", "default": 3, "minimum": 1},
            "unit": {"enum": ["C", "F"]},
            "where": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
        "required": ["city"],
    }
    assert for_openai(schema, strict=True) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "minLength: 2"},
            "days": {"type": ["integer", "null"], "minimum": 1, "description": "default: 3"},
            "unit": {"type": ["string", "null"], "enum": ["C", "F", None]},
            "where": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"x": {"type": ["number", "null"]}},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                    {"type": "null"},
                ]
            },
        },
        "required": ["city", "days", "unit", "where"],
        "additionalProperties": False,
    }


def test_gemini_hears_in_words_what_it_has_no_keywords_for():
    properties = for_gemini(NASTY["choices"])["properties"]
    assert properties["level"] == {"type": "integer", "description": "enum: [1,2,3]"}
    assert properties["maybe"] == {"type": "string", "enum": ["a"], "nullable": True}
    assert properties["titled"] == {"type": "string", "enum": ["r", "g"], "description": "r: Red; g: Green"}
    formats = for_gemini(NASTY["formats"])["properties"]
    assert formats["when"] == {"type": "string", "format": "date-time"}
    assert formats["mail"]["description"] == "format: email (pattern: (?<=a)b) (maxLength: 80)"


def test_parts_of_all_of_are_merged():
    assert for_openai(NASTY["all of"]) == {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 2}, "b": {"type": "number"}},
        "required": ["a"],
    }


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
    assert restore(given_, schema) == {"b": None, "c": {}, "e": None}
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
    assert restore({"a": written}, whole) == {"a": meant}


def test_a_variant_that_is_closed_loses_the_nulls_of_the_others():
    given_ = {"kind": "file", "path": "a.txt", "line": None, "url": None}
    assert restore(given_, UNION) == {"kind": "file", "path": "a.txt"}


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
    assert restore({"_-filter": "x", "deep": [{inner: "3"}]}, schema) == {"$filter": "x", "deep": [{"größe in cm": 3}]}


@pytest.mark.parametrize("name", NASTY)
def test_restoring_ends_whatever_the_schema(name):
    hostile = {"a": "[]", "next": {"next": {"next": None}}, "bomb": "{}", "v": "{}", "pair": "[1]", "root": "{"}
    assert isinstance(restore(hostile, NASTY[name]), dict)


def test_restoring_ends_with_unions_that_refer_to_themselves():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"oneOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]}]}},
    }
    assert restore({"a": "x"}, schema) == {"a": "x"}
    assert_gemini(for_gemini(schema))


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


@given(cases())
def test_any_schema_becomes_one_that_each_dialect_takes(case):
    schema, _ = case
    before = copy.deepcopy(schema)
    assert_strict(for_openai(schema, strict=True))
    assert_gemini(for_gemini(schema))
    assert_lenient(for_openai(schema))
    assert_lenient(for_anthropic(schema))
    assert schema == before


@given(cases())
def test_arguments_that_are_valid_stay_as_they_are(case):
    schema, arguments = case
    assert restore(arguments, schema) == arguments


@given(cases())
def test_what_a_model_writes_for_openai_and_anthropic_is_valid_for_the_tool(case):
    schema, arguments = case
    assert is_valid(arguments, for_openai(schema))


@given(cases())
def test_what_a_model_writes_in_strict_mode_comes_back_as_the_tool_wants_it(case):
    schema, arguments = case
    spoken = for_openai(schema, strict=True)
    text = written(arguments, spoken, alias=lambda name: name, fill=True)
    if is_valid(text, spoken):
        restored = restore(text, schema)
        assert is_valid(restored, schema)
        assert agrees(restored, arguments)


@given(cases())
def test_what_a_model_writes_for_gemini_comes_back_as_the_tool_wants_it(case):
    schema, arguments = case
    spoken = as_json_schema(for_gemini(schema))
    text = written(arguments, spoken, alias=alias, fill=False)
    if is_valid(text, spoken):
        restored = restore(text, schema)
        assert is_valid(restored, schema)
        assert agrees(restored, arguments)


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
    restore({"a": "1", "b": None, "c": [{}]}, schema)


@pytest.mark.covers("LMT-08")
@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("forecast", "forecast"),
        ("get.weather/now", "get-weather-now"),
        ("München", "Munchen"),
        ("ﬁnd", "find"),
        ("天気", "tool"),
        ("", "tool"),
        ("2fast", "_2fast"),
        ("-x", "_-x"),
    ],
)
def test_a_name_is_made_of_what_every_api_takes(name, safe):
    assert safe_name(name) == safe


def test_a_name_that_is_too_long_or_taken_is_marked_with_a_hash():
    long = safe_name("x" * 100)
    assert len(long) == 64
    assert long != safe_name("x" * 101)
    assert safe_name("a.b", {"a-b"}) == safe_name("a.b", {"a-b"}) != "a-b"
    taken = set()
    for _ in range(5):
        taken.add(safe_name("a" * 64, taken))
    assert len(taken) == 5


@given(st.lists(st.tuples(st.none() | st.text(max_size=70), st.text(max_size=70)), max_size=8))
def test_names_of_tools_are_safe_and_unique_in_any_case(tools):
    names = tool_names(tools)
    assert len(set(names)) == len(names) == len(tools)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in names)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "a__x", "x.", "x-"])), unique=True), st.data()
)
def test_the_name_of_a_tool_does_not_depend_on_their_order(tools, data):
    named = dict(zip(tools, tool_names(tools), strict=True))
    shuffled = data.draw(st.permutations(tools))
    assert dict(zip(shuffled, tool_names(shuffled), strict=True)) == named


def test_only_tools_that_clash_are_named_with_their_server():
    assert tool_names([("git", "log"), ("web", "search"), ("docs", "search"), (None, "search")]) == [
        "log",
        "web__search",
        "docs__search",
        "search",
    ]


@pytest.mark.covers("LMT-01")
def test_a_tool_is_said_to_each_api_in_its_own_form():
    tool = types.Tool(
        name="get.weather",
        title="Weather",
        input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    )
    plain = tool.input_schema
    assert to_openai(tool) == {
        "type": "function",
        "function": {"name": "get-weather", "description": "Weather", "parameters": plain},
    }
    strict = to_openai(tool, name="w", strict=True)["function"]
    assert strict["strict"] is True
    assert strict["name"] == "w"
    assert strict["parameters"]["additionalProperties"] is False
    assert to_anthropic(tool) == {"name": "get-weather", "description": "Weather", "input_schema": plain}
    assert to_gemini(tool) == {"name": "get-weather", "description": "Weather", "parameters": plain}


def test_a_tool_without_arguments_has_no_parameters_at_gemini():
    assert to_gemini(types.Tool(name="now", input_schema={"type": "object"})) == {"name": "now", "description": ""}


def test_a_long_description_is_cut_where_openai_would_refuse_the_tool():
    tool = types.Tool(name="a", description="x" * 5000, input_schema={"type": "object"})
    assert len(to_openai(tool)["function"]["description"]) == 1024
    assert len(to_anthropic(tool)["description"]) == 5000
