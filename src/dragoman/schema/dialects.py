"""Tool schemas in the dialects of JSON Schema that the APIs of language models accept.

OpenAI and Anthropic accept nearly every schema whose root is a plain object, so a schema for them is only tidied.
OpenAI's strict mode and Gemini accept a small part of JSON Schema. For them a schema first becomes a tree (`inline`),
which is then written with the keywords of the dialect. Keywords that the dialect lacks are added to the description as
text, and an object of any shape becomes a string with its JSON text. `coerce.restore_arguments` reverts these changes
in the arguments of the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from dragoman import types
from dragoman.schema import walk
from dragoman.schema.inline import common_types, in_words, inline, merge, with_note
from dragoman.schema.naming import property_alias, safe_name
from dragoman.types import Json

MAX_OPENAI_DESCRIPTION = 1024

_DEFINITION = re.compile(r"#(/(\$defs|definitions)/[^/]+)?")


def for_openai(schema: Json, *, strict: bool = False, references: bool = True) -> Json:
    """Return a schema for OpenAI's API and compatible APIs; `strict` is for strict tools.

    Example:
        for_openai({"type": "object"})  # {"type": "object", "properties": {}}

    Without `references` all references are expanded, as some compatible APIs require.
    """
    if strict:
        return _STRICT.object_schema(_as_object(inline(schema)))
    return _lenient(schema if references else _as_object(inline(schema)), _same_name)


def for_anthropic(schema: Json) -> Json:
    """Return a schema for Anthropic's API.

    Example:
        for_anthropic({"anyOf": [{"properties": {"city": {"type": "string"}}}]})["type"]  # "object"
    """
    return _lenient(schema, property_alias)


def for_gemini(schema: Json) -> Json:
    """Return a schema for Gemini's API.

    Example:
        for_gemini({"properties": {"days": {"type": ["integer", "null"]}}})
        # {"type": "object", "properties": {"days": {"type": "integer", "nullable": True}}}
    """
    return _GEMINI.object_schema(_as_object(inline(schema)))


def to_openai(tool: types.Tool, *, name: str | None = None, strict: bool = False) -> Json:
    """Return a tool as an entry of `tools` of OpenAI's chat completions.

    Example:
        client.chat.completions.create(model="gpt-4.1", messages=messages, tools=[to_openai(tool)])
    """
    return openai_function(
        name or safe_name(tool.name), _description(tool), for_openai(tool.input_schema, strict=strict), strict=strict
    )


def openai_function(name: str, description: str, parameters: Json, *, strict: bool = False) -> Json:
    """Return an entry of `tools` of OpenAI's chat completions."""
    if len(description) > MAX_OPENAI_DESCRIPTION:
        description = walk.shortened(description, MAX_OPENAI_DESCRIPTION - 1)
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def to_anthropic(tool: types.Tool, *, name: str | None = None) -> Json:
    """Return a tool as an entry of `tools` of Anthropic's messages.

    Example:
        client.messages.create(model="claude-sonnet-4-5", max_tokens=999, messages=[...], tools=[to_anthropic(tool)])
    """
    name = name or safe_name(tool.name)
    return {"name": name, "description": _description(tool), "input_schema": for_anthropic(tool.input_schema)}


def to_gemini(tool: types.Tool, *, name: str | None = None) -> Json:
    """Return a tool as one of the `function_declarations` of Gemini; a tool without arguments has no `parameters`.

    Example:
        config = {"tools": [{"function_declarations": [to_gemini(tool)]}]}
    """
    declaration: Json = {"name": name or safe_name(tool.name), "description": _description(tool)}
    parameters = for_gemini(tool.input_schema)
    return declaration | ({"parameters": parameters} if parameters["properties"] else {})


def _description(tool: types.Tool) -> str:
    return tool.description or tool.title or ""


def _same_name(name: str) -> str:
    return name


def _lenient(schema: Any, alias: Callable[[str], str]) -> Json:
    """Return a tidied schema with a plain object at its root."""
    if not isinstance(schema, dict) or _must_inline(schema, alias):
        schema = _as_object(inline(schema))
    root = {key: value for key, value in schema.items() if key not in ("nullable", "$id")}
    return _tidy(root | {"type": "object"}, alias)


def _must_inline(schema: Json, alias: Callable[[str], str]) -> bool:
    if walk.COMPOSED & schema.keys():
        return True
    references = walk.References(schema)
    for part in walk.objects(schema):
        reference = part.get("$ref")
        if isinstance(reference, str) and not (
            _DEFINITION.fullmatch(reference) and isinstance(references.target(reference), dict | bool)
        ):
            return True
        if any(alias(name) != name for name in walk.mapping(part, "properties")):
            return True
    return False


def _as_object(tree: Json) -> Json:
    """Return a tree for an object with the properties of all variants; those that all variants require are required."""
    variants = [_as_object(branch) for branch in tree.get("anyOf", []) if _may_be_object(branch)]
    rest = {key: value for key, value in tree.items() if key not in ("anyOf", "enum", "default")}
    rest |= {"type": ["object"], "properties": tree.get("properties", {})}
    if not variants:
        return rest
    found: dict[str, list[Json]] = {}
    for variant in variants:
        for name, value in variant["properties"].items():
            found.setdefault(name, []).append(value)
    joined = {name: _any_of(values) for name, values in found.items()}
    properties = {name: merge(value, joined.pop(name, {})) for name, value in rest["properties"].items()} | joined
    needed = [set(variant.get("required", [])) for variant in variants]
    required = [name for name in properties if name in rest.get("required", []) or all(name in one for one in needed)]
    sets = [", ".join(variant.get("required") or variant["properties"]) or "nothing" for variant in variants]
    rest = {key: value for key, value in rest.items() if key not in ("required", "additionalProperties")}
    rest |= {"properties": properties} | ({"required": required} if required else {})
    return with_note(rest, "give one of these sets of properties: " + "; ".join(sets)) if len(sets) > 1 else rest


def _may_be_object(tree: Json) -> bool:
    return "type" not in tree or "object" in tree["type"]


def _any_of(trees: list[Json]) -> Json:
    different = walk.distinct(trees)
    return different[0] if len(different) == 1 else {"anyOf": different}


def _tidy(schema: Any, alias: Callable[[str], str]) -> Json:
    """Return a schema in the form of 2020-12, with keywords that the APIs require and without those they refuse."""
    if not isinstance(schema, dict):
        return {"not": {}} if schema is False else {}
    tidied: Json = {}
    if named := walk.types_of(schema):
        tidied["type"] = named[0] if len(named) == 1 else named
    for key, value in schema.items():
        if key not in walk.VARYING and (kept := _tidied(key, value, alias)) is not None:
            tidied[key] = kept
    for limit, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(limit), bool):
            del tidied[limit]
            if schema[limit] and bound in tidied:
                tidied[limit] = tidied.pop(bound)
    if required := [alias(name) for name in walk.names_of(schema, "required")]:
        tidied["required"] = required
    if "object" in (named or ()):
        tidied.setdefault("properties", {})
    return _tidy_items(tidied, schema, alias)


def _tidied(key: str, value: Any, alias: Callable[[str], str]) -> Any:
    """Return the tidied value of a keyword, None if the keyword is dropped."""
    if key in walk.NAMED and key != "dependencies":
        rename = alias if key == "properties" else _same_name
        return {rename(name): _tidy(part, alias) for name, part in value.items()} if isinstance(value, dict) else None
    if key in walk.LISTED:
        return [_tidy(part, alias) for part in value] or None if isinstance(value, list) else None
    if key in walk.SINGLE and not (key in walk.OF_EVERY_MEMBER and isinstance(value, bool)):
        return _tidy(value, alias)
    if key == "enum":
        return value if isinstance(value, list) and value else None
    if key in ("description", "title", "format", "pattern", "$ref"):
        return value if isinstance(value, str) else None
    return value


def _tidy_items(tidied: Json, schema: Json, alias: Callable[[str], str]) -> Json:
    places, rest = walk.items_of(schema)
    if places:
        tidied["prefixItems"] = [_tidy(part, alias) for part in places]
    if rest is False and places:
        tidied["maxItems"] = len(places)
    elif rest is not None:
        tidied["items"] = _tidy(rest, alias)
    if "array" in (walk.types_of(schema) or ()):
        tidied.setdefault("items", {})
    return tidied


_SCALARS = ("string", "number", "integer", "boolean")
_ABOUT_TYPES = frozenset().union(*walk.OF_TYPE.values())
_LIMITS = walk.LIMITS | walk.OF_TYPE["string"] | {"uniqueItems", "enum"}
_OF_WHOLE_TREE = ("description", "title", "default")


def _alternatives(tree: Json) -> tuple[list[Json], bool]:
    """Return the alternatives of a tree, each of one type or of any type, and whether null fits too."""
    if branches := tree.get("anyOf"):
        rest = {key: value for key, value in tree.items() if key not in ("anyOf", *_OF_WHOLE_TREE)}
        found = [_alternatives(merge(branch, rest)) for branch in branches]
        return walk.distinct(one for ones, _ in found for one in ones), any(null for _, null in found)
    enum, named = tree.get("enum"), _inferred(tree)
    if named is None:
        return [{key: value for key, value in tree.items() if key not in _ABOUT_TYPES}], True
    null = "null" in named and (enum is None or None in enum)
    ones = [_of_type(tree, kind) for kind in named if kind != "null" and not (kind == "integer" and "number" in named)]
    return [one for one in ones if enum is None or one["enum"]], null


def _inferred(tree: Json) -> list[str] | None:
    if (named := walk.kinds_of(tree)) is not None:
        return list(dict.fromkeys(named))
    found = [kind for kind in ("object", "array", "string", "number") if walk.OF_TYPE[kind] & tree.keys()]
    return found[:1] or None


def _of_type(tree: Json, kind: str) -> Json:
    one = {key: value for key, value in tree.items() if key not in _ABOUT_TYPES or key in walk.OF_TYPE.get(kind, ())}
    if "enum" in one:
        one["enum"] = [value for value in one["enum"] if common_types([walk.type_of(value)], [kind])]
    return one | {"type": kind}


class _Dialect:
    """A dialect that supports a small part of JSON Schema; `strict` is OpenAI's strict mode, otherwise Gemini."""

    def __init__(self, keywords: Collection[str], formats: Collection[str], *, strict: bool) -> None:
        self._keywords = keywords
        self._formats = formats
        self._strict = strict

    def schema(self, tree: Json, *, optional: bool = False) -> Json:
        """Return the schema of a tree."""
        alternatives, null = _alternatives(tree)
        outer = {key: tree[key] for key in _OF_WHOLE_TREE if key in tree}
        undocumented = [_without_documentation_of(tree, one) for one in alternatives]
        schemas = walk.distinct(schema for one in undocumented for schema in self._of_one_type(one))
        null = null or (optional and self._strict)
        if not schemas:
            schemas = [{"type": "null"} if self._strict else {"type": "string", "description": "always null"}]
            null = null and not self._strict
        return self._with_description(self._nullable(schemas, null), outer)

    def object_schema(self, tree: Json) -> Json:
        """Return the schema of a tree that is an object."""
        alias = _same_name if self._strict else property_alias
        required = tree.get("required", [])
        properties = tree.get("properties", {}) | {name: {} for name in required if name not in tree["properties"]}
        schema: Json = {"type": "object"}
        schema["properties"] = {
            alias(name): self.schema(value, optional=name not in required) for name, value in properties.items()
        }
        if self._strict:
            schema |= {"required": list(schema["properties"]), "additionalProperties": False}
        elif required:
            schema["required"] = [alias(name) for name in required]
        return self._with_description(self._with_limits(schema, tree), tree)

    def _of_one_type(self, tree: Json) -> list[Json]:
        """Return the schemas of a tree of one type, or of any type."""
        kind = tree.get("type")
        if kind is None:
            return [
                self._with_description(self._with_limits({"type": scalar}, tree), tree)
                for scalar in ("string", "number", "boolean")
            ]
        if kind == "object":
            return [self._object_or_text(tree)]
        schema: Json = {"type": kind}
        if kind == "array":
            schema["items"] = self.schema(tree.get("items", {}))
        if self._supports_enum(tree):
            schema["enum"] = tree["enum"]
        return [self._with_description(self._with_limits(schema, tree), tree)]

    def _object_or_text(self, tree: Json) -> Json:
        shape = tree.get("properties") or tree.get("required")
        if "enum" not in tree and (shape or (tree.get("additionalProperties") is False and self._strict)):
            return self.object_schema({"properties": {}} | tree)
        text = self._with_description(self._with_limits({"type": "string"}, tree), tree)
        values = tree.get("additionalProperties")
        shape = in_words(", whose values are", self.schema(values)) if isinstance(values, dict) and values else ""
        return with_note(text, f"the JSON text of an object{shape}")

    def _supports_enum(self, tree: Json) -> bool:
        if "enum" not in tree or tree["type"] not in _SCALARS:
            return False
        return self._strict or all(isinstance(value, str) and value for value in tree["enum"])

    def _with_limits(self, schema: Json, tree: Json) -> Json:
        """Return a schema with the limits of a tree, as keywords or as text in the description."""
        for key, value in tree.items():
            if key in _LIMITS and key not in schema:
                if self._supports(key, value):
                    schema[key] = value
                else:
                    schema = with_note(schema, in_words(key, value))
        return schema

    def _supports(self, key: str, value: Any) -> bool:
        if key == "format":
            return value in self._formats
        return key in self._keywords and not (key == "pattern" and "(?" in value)

    def _with_description(self, schema: Json, tree: Json) -> Json:
        """Return a schema with the description and the default of a tree."""
        words = tree.get("description") or tree.get("title")
        if "default" in tree:
            schema = with_note(schema, in_words("default", tree["default"]))
        if not words:
            return schema
        if "anyOf" in schema and not self._strict:
            first, *others = schema["anyOf"]
            return {"anyOf": [self._with_description(first, {"description": words}), *others]}
        limits = schema.get("description")
        return schema | {"description": f"{words} ({limits})" if limits else words}

    def _nullable(self, schemas: list[Json], null: bool) -> Json:  # noqa: FBT001
        if null and not self._strict:
            schemas = [one | {"nullable": True} for one in schemas]
        elif null and len(schemas) == 1 and schemas[0].get("type") in _SCALARS:
            enum = {"enum": [*schemas[0]["enum"], None]} if "enum" in schemas[0] else {}
            return schemas[0] | {"type": [schemas[0]["type"], "null"]} | enum
        elif null:
            schemas = [*schemas, {"type": "null"}]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _without_documentation_of(tree: Json, one: Json) -> Json:
    return {key: value for key, value in one.items() if key not in _OF_WHOLE_TREE or tree.get(key) != value}


_STRICT = _Dialect(
    walk.OF_TYPE["number"] - {"format"} | {"minItems", "maxItems", "pattern"},
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
    strict=True,
)
_GEMINI = _Dialect(frozenset(), {"date-time", "int32", "int64", "float", "double"}, strict=False)
