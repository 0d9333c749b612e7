"""Schemas that values are compared with, whoever wrote them.

There is one compiler, `compiled`: jsonschema-rs, which is loaded when it is first needed and never fetches anything.
The document of an author (`InputSchema`, `OutputSchema`) is kept as it was given. It is checked when it is made: it
must be a 2020-12 schema, refer to nothing outside itself and stay within bounds. What was derived from annotations
needs no check, and is compiled when a value is first compared with it. Schemas of peers are in `branching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Self

from msgspec import Struct

from dragoman.errors import DefinitionError, ValidationError
from dragoman.schema.walk import REFERENCES, mapping, subschemas
from dragoman.types import Json

MAX_DEPTH = 64
MAX_SUBSCHEMAS = 10_000
MAX_VIOLATIONS = 100
MAX_VIOLATION_LENGTH = 500
MASK = "the value"
"""What stands for a value in a message that may not tell it."""
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "propertyNames"})
_ROOTS = frozenset({"type", "$ref", "oneOf", "anyOf", "allOf", "not", "if", "const", "enum"})


class Violation(Struct, frozen=True):
    """One thing that a schema forbids: where in the value, and why."""

    place: Sequence[str | int]
    message: str

    @property
    def path(self) -> str:
        """The place as in `$.stops[2].name`."""
        return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)

    def __str__(self) -> str:
        place = self.path[1:].removeprefix(".")
        return f"{place}: {self.message}" if place else self.message


def compile_schema(
    schema: Any, *, any_draft: bool = False, formats: bool | None = None, mask: str | None = None
) -> Any:
    """Return a validator for a schema of 2020-12, or of the draft that it names.

    Raises:
        ValueError: it is no JSON Schema; the message says where and why.
    """
    import jsonschema_rs

    make = jsonschema_rs.validator_for if any_draft else jsonschema_rs.Draft202012Validator
    try:
        return make(schema, offline=True, validate_formats=formats, mask=mask)
    except jsonschema_rs.ValidationError as error:
        raise ValueError(str(Violation(error.instance_path, error.message))) from None


def violations(validator: Any, value: Any, most: int = MAX_VIOLATIONS) -> list[Violation]:
    """Return what is wrong with a value, up to a bound."""
    try:
        found = [] if validator.is_valid(value) else list(islice(validator.iter_errors(value), most + 1))
    except ValueError as error:
        return [Violation((), f"The value cannot be compared with the schema: {error}")]
    listed = [Violation(error.instance_path, _shortened(error.message)) for error in found[:most]]
    return [*listed, Violation((), "and more")] if len(found) > most else listed


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_VIOLATION_LENGTH else message[:MAX_VIOLATION_LENGTH] + "..."


def raise_violations(found: Sequence[Violation], opening: str = "") -> None:
    """Raise what is wrong with a value, if anything is.

    Raises:
        ValidationError: the message lists every place, and the path is that of the first.
    """
    if found:
        raise ValidationError(opening + "; ".join(map(str, found)), found[0].path)


class _Schema:
    """A JSON Schema 2020-12 document."""

    def __init__(self, document: Json) -> None:
        if not isinstance(document, dict):
            raise DefinitionError(f"A JSON Schema must be an object, not {type(document).__name__}")
        patterns = _checked(document)
        self.document = document
        self._kept: Any = _author_compiled(document)
        if patterns:
            # jsonschema-rs does not look at patterns in definitions that nothing refers to.
            _author_compiled({"anyOf": [{"pattern": pattern} for pattern in patterns]})

    @classmethod
    def derived(cls, document: Json) -> Self:
        """Take a document that was made from annotations, and compile it when it is first needed."""
        schema = cls.__new__(cls)
        schema.document = document
        schema._kept = None
        return schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.document!r})"

    @property
    def _validator(self) -> Any:
        if self._kept is None:
            self._kept = _author_compiled(self.document)
        return self._kept


def _author_compiled(document: Json, mask: str | None = None) -> Any:
    try:
        return compile_schema(document, mask=mask)
    except ValueError as error:
        raise DefinitionError(f"Invalid JSON Schema: {error}") from None


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
        raise_violations(violations(self._validator, value))

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
        if self._validator.is_valid(value):
            return None
        [found, *_] = violations(_author_compiled(self.document, MASK), value, 1)
        return ValidationError(f"{found.path}: {found.message}", found.path)

    def validate_result(self, value: object) -> None:
        """Compare a result, as plain JSON values, with the schema.

        Raises:
            ValidationError: it does not fit; the message lists every place.
        """
        raise_violations(violations(self._validator, value), "Invalid result: ")


def _checked(document: Json) -> list[str]:
    """Refuse what leads outside the document or is out of bounds, and return the patterns in it."""
    patterns: list[str] = []
    waiting: list[tuple[Any, int]] = [(document, 1)]
    seen = 0
    while waiting:
        schema, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise DefinitionError(f"The JSON Schema is nested more than {MAX_DEPTH} levels deep")
        if seen > MAX_SUBSCHEMAS:
            raise DefinitionError(f"The JSON Schema has more than {MAX_SUBSCHEMAS:,} subschemas")
        if isinstance(schema, dict):
            _refuse_outside_references(schema)
            patterns += _patterns(schema)
            waiting.extend((part, depth + 1) for _, _, part in subschemas(schema))
    return patterns


def _refuse_outside_references(schema: Json) -> None:
    for keyword in REFERENCES:
        target = schema.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise DefinitionError(
                f"The {keyword} {target!r} leads outside the JSON Schema;"
                " copy its target into $defs and refer to it as #/$defs/..."
            )


def _patterns(schema: Json) -> list[str]:
    found = [schema.get("pattern"), *mapping(schema, "patternProperties")]
    return [pattern for pattern in found if isinstance(pattern, str)]
