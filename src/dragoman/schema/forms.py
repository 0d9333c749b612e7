"""Schemas of elicitation forms: a flat object of strings, numbers, booleans and choices."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, get_type_hints

from dragoman.errors import DefinitionError
from dragoman.schema.walk import OF_TYPE
from dragoman.types import Json

_FORMATS = ("email", "uri", "date", "date-time")
_KEYWORDS: dict[str, frozenset[str]] = {
    "string": OF_TYPE["string"] - {"pattern"} | {"default", "enum", "enumNames", "oneOf"},
    "number": frozenset({"minimum", "maximum", "default"}),
    "integer": frozenset({"minimum", "maximum", "default"}),
    "boolean": frozenset({"default"}),
    "array": OF_TYPE["array"] - {"uniqueItems"} | {"default"},
}
_DOCUMENTATION = frozenset({"type", "title", "description"})


def form_schema(schema: Mapping[str, Any], source: Any = None) -> Json:
    """Return a JSON Schema as a form schema; enumerations of the class `source` give the titles of choices.

    Raises:
        DefinitionError: the schema is not flat, or forms do not support the type of a field.
    """
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise DefinitionError("The schema of a form must be an object with properties")
    definitions = schema.get("$defs", {})
    titled = _enumeration_titles(source)
    form: Json = {
        "type": "object",
        "properties": {
            name: _field(name, _resolved(name, field, definitions), titled.get(name))
            for name, field in properties.items()
        },
    }
    if schema.get("required"):
        form["required"] = list(schema["required"])
    return form


def form_content(form: Json, content: Json) -> Json:
    """Return the content of an accepted form; clients before 2025-11-25 send one choice instead of a list."""
    lists = {name for name, field in form["properties"].items() if field.get("type") == "array"}
    return {name: [value] if name in lists and isinstance(value, str) else value for name, value in content.items()}


def _resolved(name: str, field: Any, definitions: Mapping[str, Any]) -> Json:
    """Resolve the reference of a field, and reduce an optional field to its arm that is not null."""
    if not isinstance(field, Mapping):
        raise DefinitionError(f"The form field {name!r} must be a JSON Schema, not {field!r}")
    words = {key: value for key, value in field.items() if key not in ("$ref", "anyOf")}
    if "$ref" in field:
        return {**_resolved(name, definitions.get(str(field["$ref"]).rpartition("/")[2], {}), definitions), **words}
    choices = field.get("anyOf", ())
    arms = [arm for arm in choices if not (isinstance(arm, Mapping) and arm.get("type") == "null")]
    if len(arms) == 1 < len(choices):
        return {
            **_resolved(name, arms[0], definitions),
            **{word: value for word, value in words.items() if value is not None},
        }
    items = field.get("items")
    if isinstance(items, Mapping):
        return {**field, "items": _resolved(name, items, definitions)}
    return dict(field)


def _field(name: str, field: Json, titles: dict[Any, str] | None) -> Json:
    if "enum" in field and "type" not in field:
        field = {"type": "string", **field}
    kind = field.get("type")
    if not isinstance(kind, str) or kind not in _KEYWORDS or not _are_strings(field.get("enum", ())):
        raise DefinitionError(
            f"The form field {name!r} must be text, a number, a boolean, a choice of texts or a list of such choices,"
            f" not {field}"
        )
    if kind == "string" and field.get("format") not in (None, *_FORMATS):
        field = {key: value for key, value in field.items() if key != "format"}
    kept = {key: value for key, value in field.items() if key in _DOCUMENTATION | _KEYWORDS[kind]}
    if kind == "array":
        return _multiple_choice(name, kept, titles)
    if titles and "enum" in kept:
        kept["oneOf"] = _options(kept.pop("enum"), titles)
    return kept


def _multiple_choice(name: str, field: Json, titles: dict[Any, str] | None) -> Json:
    items = field.get("items")
    if (
        not isinstance(items, Mapping)
        or not ({"enum", "anyOf"} & set(items))
        or not _are_strings(items.get("enum", ()))
    ):
        raise DefinitionError(
            f"The form field {name!r} is a list, which must be one of choices: give its items an enum"
        )
    if "anyOf" in items:
        return {**field, "items": {"anyOf": items["anyOf"]}}
    if titles:
        return {**field, "items": {"anyOf": _options(items["enum"], titles)}}
    return {**field, "items": {"type": "string", "enum": items["enum"]}}


def _are_strings(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _options(values: list[Any], titles: dict[Any, str]) -> list[Json]:
    return [{"const": value, "title": titles.get(value, str(value))} for value in values]


def _enumeration_titles(source: Any) -> dict[str, dict[Any, str]]:
    """Return the titles of the members, for each field of a class whose annotation is an enumeration."""
    if not isinstance(source, type):
        return {}
    try:
        hints = get_type_hints(source)
    except (NameError, TypeError):
        return {}
    found = {name: _enumeration_in(hint) for name, hint in hints.items()}
    return {
        name: {member.value: member.name.replace("_", " ").capitalize() for member in members}
        for name, members in found.items()
        if members is not None
    }


def _enumeration_in(hint: Any) -> type[enum.Enum] | None:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint
    found = [_enumeration_in(argument) for argument in getattr(hint, "__args__", ())]
    return next((members for members in found if members is not None), None)
