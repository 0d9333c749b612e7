"""Shapes of types that pydantic reads: models, its dataclasses and types, and annotations with its validators.

This module does not import pydantic: a program that uses a pydantic type has imported pydantic already.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.schema.python.defaults import constant_default
from dragoman.schema.python.shapes import Problem, Shape, find_non_finite, stand_in_type
from dragoman.schema.walk import SINGLE, with_subschemas
from dragoman.types import Json


def read(annotation: Any, definitions: Json, *, for_output: bool = False) -> Shape:
    """Return the shape of an annotation that pydantic reads, and add the definitions that its schema needs.

    Raises:
        Exception: pydantic cannot read or describe the annotation; any exception of pydantic.
    """
    adapter = sys.modules["pydantic"].TypeAdapter(annotation)
    schema = _hoisted(adapter, definitions, "serialization" if for_output else "validation")

    failure = sys.modules["pydantic"].ValidationError

    def convert(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except failure:
            pass
        try:
            # A strict model accepts dates, tuples and enums only from JSON.
            return adapter.validate_json(msgspec.json.encode(value))
        except failure as error:
            raise ValueError("; ".join(str(_problem(found)) for found in error.errors())) from None

    def find_problems(value: Any) -> list[Problem]:
        try:
            adapter.validate_json(msgspec.json.encode(value))
        except failure as error:
            return [_problem(found) for found in error.errors()]
        return []

    whole = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    names = whole.get("properties")
    return Shape(
        kind=stand_in_type(getattr(annotation, "__name__", "Model"), convert),
        schema=schema,
        native=False,
        fields=None if names is None else {name: Shape(kind=Any, schema={}) for name in names},
        find_problems=find_problems,
    )


def _problem(found: dict[str, Any]) -> Problem:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
    return Problem(path.lstrip("."), found["msg"], missing=found["type"] == "missing")


def _hoisted(adapter: Any, definitions: Json, mode: str) -> Json:
    """Return a schema, and move its `$defs` to `definitions`; if a name is taken there, all names get a number."""
    suffix, number = "", 1
    while True:
        template = f"#/$defs/{{model}}{suffix}"
        document: Json = _tidied(
            adapter.json_schema(mode=mode, ref_template=template, schema_generator=_schema_generator())
        )
        nested = {f"{name}{suffix}": schema for name, schema in document.pop("$defs", {}).items()}
        if all(definitions.get(name, schema) == schema for name, schema in nested.items()):
            definitions.update(nested)
            return document
        number += 1
        suffix = f"_{number}"


@cache
def _schema_generator() -> Any:
    """Return pydantic's generator of schemas, with the defaults of default factories."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def get_default_value(self, schema: Any) -> Any:
            factory = schema.get("default_factory")
            default = UNSET if factory is None else constant_default(factory)
            return super().get_default_value(schema) if default is UNSET else default

    return Generator


def _tidied(schema: Json, keyword: str = "", name: str | None = None) -> Json:
    """Drop the titles that pydantic derives from names, and defaults without JSON form; write `{}` for `true`."""
    title = schema.get("title")
    if keyword != "properties" or name is None or title == _title(name):
        schema = {word: value for word, value in schema.items() if word != "title"}
    schema = {word: {} if value is True and word in SINGLE else value for word, value in schema.items()}
    if find_non_finite(schema.get("default")) is not None:
        del schema["default"]
    return with_subschemas(schema, _tidied)


def _title(name: str) -> str:
    return name.title().replace("_", " ").strip()
