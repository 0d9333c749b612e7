"""Compiled JSON Schemas: the validator, and the input and output schemas of tools.

`compile_schema` is the only place that uses jsonschema-rs. It imports the package at the first use, and the package
fetches nothing. The document of an author (`InputSchema`, `OutputSchema`) is kept as it was given and checked at once:
it must be a 2020-12 schema, must not refer to other documents, and must stay within bounds. A document that was derived
from annotations needs no check and is compiled at the first comparison. The schemas of peers are in `peer_schemas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from msgspec import Struct

from dragoman.errors import DefinitionError, ValidationError
from dragoman.schema.walk import COMPOSED, MEMBERS, REFERENCES, mapping, shortened, subschemas
from dragoman.types import Json

MAX_DEPTH = 64
MAX_SUBSCHEMAS = 10_000
MAX_VIOLATIONS = 100
MAX_VIOLATION_LENGTH = 500
MASK = "the value"
"""Replaces a value in a message that must not show it."""
_TYPES = "string, integer, number, boolean, array, object or null"
_TYPE_KEYWORDS = COMPOSED - {"$dynamicRef", "dependentSchemas"} | {"type"}
"""Keywords that may say of which type a value is."""


class Violation(Struct, frozen=True):
    """One part of a value that a schema forbids: its place and the reason."""

    place: Sequence[str | int]
    message: str

    @property
    def path(self) -> str:
        """The place as a path, such as `$.stops[2].name`."""
        return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)

    def __str__(self) -> str:
        place = self.path[1:].removeprefix(".")
        return f"{place}: {self.message}" if place else self.message


def compile_schema(
    schema: Any, *, any_draft: bool = False, formats: bool | None = None, mask: str | None = None
) -> Any:
    """Return a validator for a schema of 2020-12, or with `any_draft` of the draft that it names.

    Raises:
        ValueError: the schema is invalid; the message names the place and the reason.
    """
    import jsonschema_rs

    make = jsonschema_rs.validator_for if any_draft else jsonschema_rs.Draft202012Validator
    try:
        return make(schema, offline=True, validate_formats=formats, mask=mask)
    except jsonschema_rs.ValidationError as error:
        message = error.message
        if error.instance_path and error.instance_path[-1] == "type":
            message = f"{shortened(repr(error.instance), 50, '...')} is no type; use {_TYPES}"
        raise ValueError(str(Violation(error.instance_path, message))) from None


def violations(validator: Any, value: Any, most: int = MAX_VIOLATIONS) -> list[Violation]:
    """Return at most `most` violations of a value, and a remark if there are more."""
    try:
        if validator.is_valid(value):
            return []
        found = list(islice(validator.iter_errors(value), most + 1))
    except ValueError as error:
        return [Violation((), f"The value cannot be compared with the schema: {error}")]
    listed = [Violation(error.instance_path, shortened(error.message, MAX_VIOLATION_LENGTH, "...")) for error in found]
    return listed if len(found) <= most else [*listed[:most], Violation((), "and more")]


def raise_violations(found: Sequence[Violation], opening: str = "") -> None:
    """Raise an error for violations, if there are any.

    Raises:
        ValidationError: there are violations; the message lists all, and `path` is the place of the first.
    """
    if found:
        raise ValidationError(opening + "; ".join(map(str, found)), found[0].path)


class _Schema(Mapping[str, Any]):
    """A JSON Schema 2020-12 document, which can be read like a dict."""

    def __init__(self, document: Json) -> None:
        if not isinstance(document, dict):
            raise DefinitionError(f"A JSON Schema must be an object, not {type(document).__name__}")
        patterns = _checked(document)
        self.document = document
        self._compiled: Any = _compile_document(document)
        if patterns:
            # jsonschema-rs does not check patterns in unused definitions.
            _compile_document({"anyOf": [{"pattern": pattern} for pattern in patterns]})

    @classmethod
    def derived(cls, document: Json) -> Self:
        """Return a schema for a document that was derived from annotations; it is compiled at the first use."""
        schema = cls.__new__(cls)
        schema.document = document
        schema._compiled = None
        return schema

    def __getitem__(self, keyword: str) -> Any:
        return self.document[keyword]

    def __iter__(self) -> Iterator[str]:
        return iter(self.document)

    def __len__(self) -> int:
        return len(self.document)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.document!r})"

    @property
    def _validator(self) -> Any:
        if self._compiled is None:
            self._compiled = _compile_document(self.document)
        return self._compiled


def _compile_document(document: Json, mask: str | None = None) -> Any:
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
        DefinitionError: the document is no JSON Schema 2020-12 of an object, refers to another, or is too large.

    `"type": "object"` is added to a document without `type`, because arguments are always an object.
    """

    def __init__(self, document: Json) -> None:
        super().__init__(document)
        if "type" not in document:
            super().__init__({"type": "object", **document})
        elif document["type"] != "object":
            raise DefinitionError(f'The "type" of an input schema must be "object", not {document["type"]!r}')

    def validate(self, value: object) -> None:
        """Compare arguments with the schema.

        Raises:
            ValidationError: the arguments do not fit; the message lists every place.
        """
        raise_violations(violations(self._validator, value))

    def missing(self, value: object) -> list[str]:
        """Return the names of the required arguments that are missing."""
        given = value if isinstance(value, dict) else {}
        return [name for name in self.document.get("required", ()) if name not in given]


class OutputSchema(_Schema):
    """The schema of a tool's structured result.

    Example:
        schema = OutputSchema({"type": "array", "items": {"type": "integer"}})
        schema.validate_result([1, 2, 3])

    Raises:
        DefinitionError: the document is no JSON Schema 2020-12, refers to another, or is too large.

    `"type": "object"` is added to a document that has `properties`, or another keyword of objects, but no keyword that
    names a type.
    """

    def __init__(self, document: Json) -> None:
        super().__init__(document)
        if document.keys() & MEMBERS and not document.keys() & _TYPE_KEYWORDS:
            super().__init__({"type": "object", **document})

    def misfit(self, value: object) -> ValidationError | None:
        """Return the error for plain JSON that does not fit, without the values themselves; None if it fits."""
        if self._validator.is_valid(value):
            return None
        [found, *_] = violations(_compile_document(self.document, MASK), value, 1)
        return ValidationError(f"{found.path}: {found.message}", found.path)

    def validate_result(self, value: object) -> None:
        """Compare a result, as plain JSON values, with the schema.

        Raises:
            ValidationError: the result does not fit; the message lists every place.
        """
        raise_violations(violations(self._validator, value), "Invalid result: ")


def _checked(document: Json) -> list[str]:
    """Refuse references to other documents and documents beyond the bounds; return the patterns of the document."""
    patterns: list[str] = []
    unvisited: list[tuple[Any, int]] = [(document, 1)]
    seen = 0
    while unvisited:
        schema, depth = unvisited.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise DefinitionError(f"The JSON Schema is nested more than {MAX_DEPTH} levels deep")
        if seen > MAX_SUBSCHEMAS:
            raise DefinitionError(f"The JSON Schema has more than {MAX_SUBSCHEMAS:,} subschemas")
        if isinstance(schema, dict):
            _refuse_outside_references(schema)
            patterns += mapping(schema, "patternProperties")
            patterns += [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
            unvisited.extend((part, depth + 1) for _, _, part in subschemas(schema))
    return patterns


def _refuse_outside_references(schema: Json) -> None:
    for keyword in REFERENCES:
        target = schema.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise DefinitionError(
                f"The {keyword} {target!r} leads outside the JSON Schema;"
                " copy its target into $defs and refer to it as #/$defs/..."
            )
