"""JSON Schemas that an author writes.

A document is kept as it was given. It is checked when it is made: it must be a 2020-12 schema, refer to nothing outside
itself and stay within bounds. The validator is jsonschema-rs, which is loaded only then and never fetches anything.
What was derived from annotations needs no check, and is compiled when a value is first compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeVar

from dragoman.errors import DefinitionError, ValidationError
from dragoman.types import Json

DEEPEST = 64
MOST_SUBSCHEMAS = 10_000
MOST_VIOLATIONS = 100
LONGEST_VIOLATION = 500
_DATA = frozenset({"const", "default", "enum", "examples"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "propertyNames"})
_ROOTS = frozenset({"type", "$ref", "oneOf", "anyOf", "allOf", "not", "if", "const", "enum"})
_REFERENCES = ("$ref", "$dynamicRef")

Self = TypeVar("Self", bound="_Schema")


class _Schema:
    """A JSON Schema 2020-12 document."""

    def __init__(self, document: Json) -> None:
        if not isinstance(document, dict):
            raise DefinitionError(f"A JSON Schema must be an object, not {type(document).__name__}")
        patterns = _checked(document)
        self.document = document
        self._validator: Any = _compiled(document)
        if patterns:
            # jsonschema-rs does not look at patterns in definitions that nothing refers to.
            _compiled({"anyOf": [{"pattern": pattern} for pattern in patterns]})

    @classmethod
    def derived(cls: type[Self], document: Json) -> Self:
        """Take a document that was made from annotations, and compile it when it is first needed."""
        schema = cls.__new__(cls)
        schema.document = document
        schema._validator = None
        return schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.document!r})"

    def _violations(self, value: Any) -> list[tuple[str, str]]:
        if self._validator is None:
            self._validator = _compiled(self.document)
        try:
            found = list(islice(self._validator.iter_errors(value), MOST_VIOLATIONS + 1))
        except ValueError as error:
            return [("", f"The value cannot be compared with the schema: {error}")]
        listed = [(_path(error.instance_path), _shortened(error.message)) for error in found[:MOST_VIOLATIONS]]
        return [*listed, ("", "and more")] if len(found) > MOST_VIOLATIONS else listed

    def _refuse_violations(self, value: Any, opening: str) -> None:
        if violations := self._violations(value):
            listed = "; ".join(f"{path}: {message}" if path else message for path, message in violations)
            raise ValidationError(opening + listed, _rooted(violations[0][0]))


class InputSchema(_Schema):
    """The schema of a tool's arguments.

    Example:
        schema = InputSchema({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
        schema.validate({"city": "Oslo"})

    Raises:
        DefinitionError: it is no JSON Schema 2020-12 of an object, refers to another document, or is too large.
    """

    def __init__(self, document: Json) -> None:
        super().__init__(document)
        if document.get("type") != "object":
            raise DefinitionError('The root of an input schema must be an object: add "type": "object"')

    def validate(self, value: object) -> None:
        """Compare arguments with the schema.

        Raises:
            ValidationError: they do not fit; the message lists every place.
        """
        self._refuse_violations(value, "")

    def missing(self, value: object) -> list[str]:
        """Return the names of the required arguments that are not there."""
        given = value if isinstance(value, dict) else {}
        return [name for name in self.document.get("required", ()) if name not in given]


class OutputSchema(_Schema):
    """The schema of a tool's structured result.

    Example:
        schema = OutputSchema({"type": "array", "items": {"type": "integer"}})
        schema.validate_result([1, 2, 3])

    Raises:
        DefinitionError: it is no JSON Schema 2020-12, refers to another document, or is too large.

    A document that has `properties`, or another keyword of objects, and nothing else that says what it describes gets
    `"type": "object"`.
    """

    def __init__(self, document: Json) -> None:
        super().__init__(document)
        if document.keys() & _OF_OBJECTS and not document.keys() & _ROOTS:
            super().__init__({"type": "object", **document})

    def misfit(self, value: object) -> ValidationError | None:
        """Return how plain JSON values do not fit, without the values themselves, or None if they fit."""
        if self._validator is None:
            self._validator = _compiled(self.document)
        if self._validator.is_valid(value):
            return None
        error = next(_compiled(self.document, mask="the value").iter_errors(value))
        path = _rooted(_path(error.instance_path))
        return ValidationError(f"{path}: {_shortened(error.message)}", path)

    def validate_result(self, value: object) -> None:
        """Compare a result, as plain JSON values, with the schema.

        Raises:
            ValidationError: it does not fit; the message lists every place.
        """
        self._refuse_violations(value, "Invalid result: ")


def _compiled(document: Json, mask: str | None = None) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.Draft202012Validator(document, offline=True, mask=mask)
    except jsonschema_rs.ValidationError as error:
        place = _path(error.instance_path)
        raise DefinitionError(f"Invalid JSON Schema: {place + ': ' if place else ''}{error.message}") from None
    except ValueError as error:
        raise DefinitionError(f"Invalid JSON Schema: {error}") from None


def _checked(document: Json) -> list[str]:
    """Refuse what leads outside the document or is out of bounds, and return the patterns in it."""
    patterns: list[str] = []
    waiting: list[tuple[Any, int]] = [(document, 1)]
    seen = 0
    while waiting:
        schema, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST:
            raise DefinitionError(f"The JSON Schema is nested more than {DEEPEST} levels deep")
        if seen > MOST_SUBSCHEMAS:
            raise DefinitionError(f"The JSON Schema has more than {MOST_SUBSCHEMAS:,} subschemas")
        if isinstance(schema, dict):
            _refuse_outside_references(schema)
            patterns += _patterns(schema)
            waiting.extend((part, depth + 1) for part in _subschemas(schema))
    return patterns


def _refuse_outside_references(schema: Json) -> None:
    for keyword in _REFERENCES:
        target = schema.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise DefinitionError(
                f"The {keyword} {target!r} leads outside the JSON Schema;"
                " copy its target into $defs and refer to it as #/$defs/..."
            )


def _patterns(schema: Json) -> list[str]:
    keys = schema.get("patternProperties")
    found = [schema.get("pattern"), *(keys if isinstance(keys, dict) else ())]
    return [pattern for pattern in found if isinstance(pattern, str)]


def _subschemas(schema: Json) -> Iterator[Any]:
    for keyword, value in schema.items():
        if keyword in _DATA:
            continue
        if isinstance(value, dict) and keyword not in _MAPS:
            yield value
        elif isinstance(value, dict | list):
            parts = value.values() if isinstance(value, dict) else value
            yield from (part for part in parts if isinstance(part, dict | bool | list))


def _path(parts: list[str | int]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.removeprefix(".")


def _rooted(path: str) -> str:
    return f"${path}" if not path or path.startswith("[") else f"$.{path}"


def _shortened(message: str) -> str:
    return message if len(message) <= LONGEST_VIOLATION else message[:LONGEST_VIOLATION] + "..."
