"""The metadata of `Annotated`: constraints, descriptions, defaults and aliases.

This module reads metadata by its attributes. So it supports msgspec.Meta, annotated-types and pydantic's `Field`, and
requires only msgspec. A string is a description.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Annotated, Any, cast

from msgspec import UNSET, Meta, Struct

from dragoman.schema.python.defaults import DefaultFactory
from dragoman.schema.python.shapes import Shape, is_accepted
from dragoman.types import Json

_NUMERIC = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS = {
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
_LIMITS = (*_NUMERIC, "min_length", "max_length", "pattern", "tz")


class AnnotatedMetadata(Struct):
    """The metadata of one `Annotated`."""

    limits: dict[str, Any]
    documentation: Json
    default: Any = UNSET
    alias: str | None = None
    foreign: bool = False
    """Whether a limit comes from an object that msgspec does not read."""


def read_metadata(metadata: Iterable[Any]) -> AnnotatedMetadata:
    """Return the metadata of an `Annotated`; later items override earlier ones."""
    found = AnnotatedMetadata({}, {})
    for item in metadata:
        if isinstance(item, str):
            found.documentation["description"] = item
        else:
            _read_limits(item, found)
            _read_documentation(item, found)
        if is_pydantic_field(item):
            _read_field(item, found)
    return found


def _read_limits(item: Any, found: AnnotatedMetadata) -> None:
    for name in _LIMITS:
        value = getattr(item, name, None)
        if value is None or callable(value) or (name == "min_length" and value == 0):
            continue
        if name == "tz" and not isinstance(value, bool):
            continue
        found.limits[name] = value.pattern if isinstance(value, re.Pattern) else value
        found.foreign = found.foreign or not isinstance(item, Meta)


def _read_documentation(item: Any, found: AnnotatedMetadata) -> None:
    for attribute, keyword, kind in _DOCUMENTATION:
        value = getattr(item, attribute, None)
        if isinstance(value, kind):
            found.documentation[keyword] = value
    for attribute in ("extra_json_schema", "json_schema_extra"):
        extra = getattr(item, attribute, None)
        if isinstance(extra, dict):
            found.documentation.update(extra)


_DOCUMENTATION: tuple[tuple[str, str, type], ...] = (
    ("title", "title", str),
    ("documentation", "description", str),
    ("description", "description", str),
    ("examples", "examples", list),
)


def is_pydantic_field(item: Any) -> bool:
    """Tell whether an object is a result of pydantic's `Field(...)`."""
    return type(item).__name__ == "FieldInfo" and _is_of_pydantic(item)


def _is_of_pydantic(item: Any) -> bool:
    return _is_of_pydantic_module(type(item).__module__)


def _is_of_pydantic_module(name: str) -> bool:
    return name.partition(".")[0] == "pydantic"


def _read_field(field: Any, found: AnnotatedMetadata) -> None:
    within = read_metadata(field.metadata)
    found.limits.update(within.limits)
    found.foreign = found.foreign or within.foreign
    if field.default is not ... and type(field.default).__name__ != "PydanticUndefinedType":
        found.default = field.default
    elif field.default_factory is not None:
        found.default = DefaultFactory(field.default_factory)
    if isinstance(field.validation_alias, str):
        found.alias = field.validation_alias


def is_read_by_pydantic(kind: type) -> bool:
    """Tell whether pydantic reads a class."""
    return _has_pydantic_hook(kind) or ("pydantic" in sys.modules and hasattr(kind, "__pydantic_validator__"))


def is_of_pydantic_v1(kind: type) -> bool:
    """Tell whether a class is a model of pydantic v1, installed as itself or as `pydantic.v1`."""
    return not hasattr(kind, "__pydantic_validator__") and any(
        parent.__name__ == "BaseModel" and _is_of_pydantic_module(parent.__module__) for parent in kind.__mro__
    )


def is_for_pydantic(metadata: Iterable[Any]) -> bool:
    """Tell whether metadata needs pydantic: a validator, a discriminator, strictness."""
    return any(
        _field_needs_pydantic(item) if is_pydantic_field(item) else _is_of_pydantic(item) or _has_pydantic_hook(item)
        for item in metadata
    )


def _has_pydantic_hook(item: Any) -> bool:
    return "pydantic" in sys.modules and hasattr(item, "__get_pydantic_core_schema__")


def _field_needs_pydantic(field: Any) -> bool:
    """Tell whether a `Field(...)` has more than limits, a description, a default and an alias."""
    return field.discriminator is not None or any(
        _is_of_pydantic(item) and not vars(item).keys() <= {"pattern"} for item in field.metadata
    )


def constrained(shape: Shape, limits: dict[str, Any], *, partly: bool = False) -> Shape | None:
    """Return a shape with limits, None if they do not apply to its type; with `partly`, some may not apply."""
    numeric = {name: value for name, value in limits.items() if name in _NUMERIC}
    lengths = {name: value for name, value in limits.items() if name not in _NUMERIC}
    groups = [group for group in (numeric, lengths) if group]
    fitting = [(group, kind) for group in groups if (kind := _limited(shape.kind, group)) is not None]
    if not fitting or (len(fitting) < len(groups) and not partly):
        return None
    # msgspec accepts limits of numbers and of lengths in one Meta each, and no type has both.
    group, kind = fitting[0]
    return Shape(
        kind=kind,
        schema=shape.schema | _keywords(shape.schema, group),
        native=False,
        item=shape.item,
        places=shape.places,
    )


def _limited(kind: Any, limits: dict[str, Any]) -> Any:
    try:
        limited = cast("Any", Annotated)[kind, Meta(**limits)]
    except (TypeError, ValueError, re.error):
        return None
    return limited if is_accepted(limited) else None


def _keywords(schema: Json, limits: dict[str, Any]) -> Json:
    # The length of base64 is not the length of the bytes.
    lengths = {} if "contentEncoding" in schema else _LENGTHS.get(schema.get("type", ""), {})
    names = _NUMERIC | lengths
    return {names[name]: value for name, value in limits.items() if name in names}
