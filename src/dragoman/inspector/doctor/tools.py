"""Finds problems of tool definitions for models, and for the APIs of models."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman import types
from dragoman.schema.compile import compile_schema
from dragoman.schema.dialects import for_openai
from dragoman.schema.inline import inline
from dragoman.schema.naming import MAX_NAME_LENGTH, property_alias, safe_name
from dragoman.schema.walk import COMPOSED, mapping, objects

MAX_DESCRIPTION = 1024
Problem = tuple[str, str]
_ADAPTED = "dragoman adapts it, other hosts may not"


def problems(tool: types.Tool) -> Iterator[Problem]:
    """Yield the problems of a tool, each with its remedy."""
    yield from _name(tool.name)
    if not (tool.description or "").strip():
        yield "it has no description", "say in a sentence what it does, for the model to choose by"
    elif len(tool.description or "") > MAX_DESCRIPTION:
        yield (
            f"its description has more than {MAX_DESCRIPTION} characters, which OpenAI's API refuses",
            "shorten it",
        )
    for place, schema in (("input schema", tool.input_schema), ("output schema", tool.output_schema)):
        if schema is not None:
            yield from _validity(place, schema)
    yield from _dialects(tool.input_schema)


def _name(name: str) -> Iterator[Problem]:
    if safe_name(name) != name:
        remedy = f"use letters, digits, _ and -, at most {MAX_NAME_LENGTH}, as in {safe_name(name)!r}; {_ADAPTED}"
        yield f"the APIs of models refuse the name {name!r}", remedy


def _validity(place: str, schema: types.Json) -> Iterator[Problem]:
    try:
        compile_schema(schema, any_draft=True)
    except ValueError as error:
        yield f"its {place} is no JSON Schema: {' '.join(str(error).split())}", "mend the schema"


def _dialects(schema: types.Json) -> Iterator[Problem]:
    lost = [key for key in schema if key in _REFUSED_AT_TOP and key not in for_openai(schema)]
    if schema.get("type") != "object" or lost:
        what = f"has {', '.join(lost)} at its top" if lost else "is no plain object"
        yield (
            f"its input schema {what}, which OpenAI's and Anthropic's APIs refuse",
            f"make it one object; {_ADAPTED}",
        )
    aliased = [name for name in mapping(inline(schema), "properties") if property_alias(name) != name]
    if aliased:
        yield f"Anthropic's API refuses the argument names {', '.join(map(repr, aliased))}", f"rename them; {_ADAPTED}"
    if any(part.get("type") == "array" and not {"items", "prefixItems"} & part.keys() for part in objects(schema)):
        yield "it takes a list and does not say of what, which OpenAI's API refuses", f"add `items`; {_ADAPTED}"


_REFUSED_AT_TOP = COMPOSED - {"$dynamicRef", "dependentSchemas", "const"}
