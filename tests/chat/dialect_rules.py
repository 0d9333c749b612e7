"""Schemas as servers really send them, and the rules of the APIs that must take them."""

import json
import re

import jsonschema_rs

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
