"""Reads Python annotations as shapes: the type that msgspec decodes, and its JSON Schema.

An `AnnotationReader` reads the annotations of one function. Each part of an annotation becomes a `Shape`. A class
becomes a definition, which all parameters share. msgspec gets the annotations themselves if it can decode every part of
them. Otherwise msgspec gets the types of the shapes, in which stand-in types replace the parts that it cannot decode.

A class may refer to itself. The reader uses a stand-in type for the inner reference, and sets the conversion of this
stand-in type when it has read the whole class.

Rejected: the schemas of `msgspec.json.schema_components`, where msgspec accepts a signature. It refuses 28 of the 55
signatures in the tests, such as unions of two dataclasses, `str | datetime`, `Path` and pydantic models, so this module
is needed anyway. Of the others 13 would change: choices are sorted and lose their type, every class gets a title, and
defaults, formats of times, names of keys and descriptions of fields are lost.
"""

from __future__ import annotations

import builtins
import collections.abc as abstract
import datetime as dt
import decimal
import enum
import re
import sys
import types
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ForwardRef, Literal, NoReturn, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Raw, UnsetType, structs

from dragoman.errors import DefinitionError, ValidationError
from dragoman.schema.coerce import coerce
from dragoman.schema.python import field_classes
from dragoman.schema.python.constraints import (
    AnnotatedMetadata,
    constrained,
    is_for_pydantic,
    is_of_pydantic_v1,
    is_read_by_pydantic,
    read_metadata,
)
from dragoman.schema.python.defaults import with_default
from dragoman.schema.python.shapes import (
    PLAIN_FORMS,
    Shape,
    first_fit,
    is_accepted,
    stand_in_type,
    union_of,
    value_lookup,
)
from dragoman.schema.walk import objects, type_of
from dragoman.types import Json

_LEAVES: dict[Any, Json] = {
    Any: {},
    Raw: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    dt.time: {"type": "string", "format": "time"},
    dt.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "format": "decimal"},
}
_ARRAYS: dict[Any, Any] = {
    list: list,
    set: set,
    frozenset: frozenset,
    abstract.Collection: list,
    abstract.Sequence: list,
    abstract.MutableSequence: list,
    abstract.Set: set,
    abstract.MutableSet: set,
    abstract.Iterable: list,
}
_MAPPINGS = (dict, abstract.Mapping, abstract.MutableMapping)
_USE_ANOTHER = "use a type that has a JSON form"
_SCALARS = (str, int, float, bool, type(None))


class UnsupportedAnnotation(DefinitionError):
    """An annotation that has no JSON form."""

    def __init__(self, annotation: Any, remedy: str) -> None:
        super().__init__(f"{describe(annotation)} has no JSON form: {remedy}")


def describe(annotation: Any) -> str:
    """Return an annotation as an author would write it."""
    return annotation.__qualname__ if isinstance(annotation, type) and not get_args(annotation) else repr(annotation)


class UnresolvedName(type):
    """Stands for a name that does not exist at run time: misspelled, or imported under TYPE_CHECKING."""

    remedy: str

    def __new__(cls, name: str, _known: Iterable[str] = ()) -> UnresolvedName:
        return super().__new__(cls, name, (), {})

    def __init__(cls, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(name, (), {})
        cls.remedy = remedy_for_name(name, known)

    def __getattr__(cls, name: str) -> UnresolvedName:
        if name.startswith("__"):
            raise AttributeError(name)
        return UnresolvedName(name)

    def __getitem__(cls, item: Any) -> UnresolvedName:
        return cls


def remedy_for_name(name: str, known: Iterable[str]) -> str:
    """Return what to do about a name that does not exist at run time; `known` are the names that do."""
    from difflib import get_close_matches

    close = get_close_matches(name, [*known, *vars(builtins), "Any", "Literal", "Optional", "Union"], 1)
    remedy = "define it above the function, or import it outside `if TYPE_CHECKING:`"
    return f"there is no such name; {f'did you mean {close[0]!r}? If not, ' if close else ''}{remedy}"


class AnnotationReader:
    """Reads annotations that share their definitions."""

    def __init__(self, local_names: Mapping[str, Any] | None = None, *, for_output: bool = False) -> None:
        self.definitions: Json = {}
        self._local_names = local_names or {}
        self._for_output = for_output
        self._known: dict[Any, Shape] = {}
        self._recurring: set[Any] = set()
        self._class_depth = 0
        """How many classes are being read; a generic class without type arguments may hold anything."""
        self._readers: dict[Any, Callable[[Any, tuple[Any, ...]], Shape]] = {
            Annotated: self._annotated,
            Union: self._union,
            types.UnionType: self._union,
            Literal: self._literal,
            tuple: self._tuple,
            object: self._anything,
            **dict.fromkeys(_ARRAYS, self._array),
            **dict.fromkeys(_MAPPINGS, self._mapping),
        }

    def shape(self, annotation: Any) -> Shape:
        """Return the shape of an annotation.

        Raises:
            UnsupportedAnnotation: the annotation has no JSON form.
        """
        origin = get_origin(annotation) or annotation
        read = self._readers.get(origin) if _is_hashable(origin) else None
        if read is not None:
            return read(annotation, get_args(annotation))
        if origin is Any or (isinstance(origin, type) and origin in _LEAVES):
            return Shape(kind=annotation, schema=dict(_LEAVES[origin]))
        if isinstance(origin, type) and not isinstance(origin, UnresolvedName):
            return self._class(annotation, origin)
        return self._special(annotation, origin)

    def _anything(self, _annotation: Any, _arguments: tuple[Any, ...]) -> Shape:
        return Shape(kind=Any, schema={}, native=False)

    # Annotations that are no classes

    def _special(self, annotation: Any, origin: Any) -> Shape:
        if isinstance(origin, UnresolvedName):
            _refuse(annotation, origin.remedy)
        if origin is any:
            _refuse(annotation, "it is a function; did you mean typing.Any?")
        if isinstance(origin, str | ForwardRef):
            return self._named(origin)
        if hasattr(origin, "__supertype__"):
            shape = self.shape(origin.__supertype__)
            return structs.replace(shape, kind=annotation) if shape.native else shape
        if hasattr(origin, "__value__"):
            return self._alias(annotation, origin)
        if isinstance(origin, TypeVar):
            return self._variable(annotation)
        return _refuse(annotation, _USE_ANOTHER)

    def _variable(self, annotation: TypeVar) -> Shape:
        meant = union_of(*annotation.__constraints__) if annotation.__constraints__ else annotation.__bound__
        if meant is None and not self._class_depth:
            _refuse(annotation, "a type variable stands for no type; write the type, or typing.Any")
        return structs.replace(self.shape(Any if meant is None else meant), native=False)

    def _alias(self, annotation: Any, origin: Any) -> Shape:
        """Read the value of a type alias. The alias becomes a definition only if it refers to itself."""
        key = _key(annotation)
        if key in self._known:
            self._recurring.add(key)
            return self._known[key]
        name = self._new_name(annotation)
        waiting = self._known[key] = Shape(kind=stand_in_type(name), schema=_reference(name), native=False)
        self._local_names = {origin.__name__: annotation, **self._local_names}
        meanings = dict(zip(origin.__type_params__, get_args(annotation), strict=False))
        shape = self.shape(field_classes.substitute(origin.__value__, meanings))
        waiting.kind.convert = shape.convert
        if key not in self._recurring:
            del self.definitions[name], self._known[key]
            return structs.replace(shape, native=False)
        self.definitions[name] = shape.schema
        waiting.item, waiting.places, waiting.fields = shape.item, shape.places, shape.fields
        waiting.required, waiting.arms = shape.required, shape.arms
        return waiting

    def _named(self, annotation: str | ForwardRef) -> Shape:
        name = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        if name not in self._local_names:
            _refuse(annotation, remedy_for_name(name, self._local_names))
        return self.shape(self._local_names[name])

    # Containers

    def _array(self, annotation: Any, arguments: tuple[Any, ...]) -> Shape:
        origin = get_origin(annotation) or annotation
        container = _ARRAYS[origin]
        item = self.shape(arguments[0] if arguments else Any)
        schema: Json = {"type": "array"} | ({"items": item.schema} if item.schema else {})
        if container is not list:
            schema["uniqueItems"] = True
        native = item.native and origin is not abstract.Iterable
        return Shape(kind=annotation if native else container[item.kind], schema=schema, native=native, item=item)

    def _tuple(self, annotation: Any, arguments: tuple[Any, ...]) -> Shape:
        if not arguments and get_origin(annotation) is None:
            return Shape(kind=annotation, schema={"type": "array"})
        if arguments[1:] == (...,):
            item = self.shape(arguments[0])
            kind = annotation if item.native else tuple[item.kind, ...]  # type: ignore[name-defined]
            return Shape(kind=kind, schema={"type": "array", "items": item.schema}, native=item.native, item=item)
        places = [self.shape(argument) for argument in arguments]
        native = all(place.native for place in places)
        size = len(places)
        schema: Json = {"type": "array", "minItems": size, "maxItems": size}
        if places:
            schema["prefixItems"] = [place.schema for place in places]
        kind = annotation if native else tuple[tuple(place.kind for place in places)]  # type: ignore[misc]
        return Shape(kind=kind, schema=schema, native=native, places=places)

    def _mapping(self, annotation: Any, arguments: tuple[Any, ...]) -> Shape:
        key, value = (self.shape(argument) for argument in arguments or (Any, Any))
        schema: Json = {"type": "object"}
        if names := _property_names(key.schema):
            schema["propertyNames"] = names
        if value.schema:
            schema["additionalProperties"] = value.schema
        native = key.native and value.native
        kind = annotation if native else dict[key.kind, value.kind]  # type: ignore[name-defined]
        return Shape(kind=kind, schema=schema, native=native, item=value)

    # Choices

    def _literal(self, annotation: Any, arguments: tuple[Any, ...]) -> Shape:
        values = [argument.value if isinstance(argument, enum.Enum) else argument for argument in arguments]
        schema = _choices(annotation, values)
        if not any(isinstance(argument, enum.Enum) for argument in arguments):
            return Shape(kind=annotation, schema=schema)
        lookup = value_lookup(zip(values, arguments, strict=True))
        return Shape(kind=stand_in_type("Literal", lookup), schema=schema, native=False)

    def _enumeration(self, annotation: type[enum.Enum]) -> Shape:
        values = [member.value for member in annotation]
        schema = _choices(annotation, values)
        if schema.get("type") in {"string", "integer"}:
            return Shape(kind=annotation, schema=schema)
        lookup = value_lookup(zip(values, annotation, strict=True))
        return Shape(kind=stand_in_type(annotation.__name__, lookup), schema=schema, native=False)

    def _union(self, annotation: Any, arguments: tuple[Any, ...]) -> Shape:
        arms = tuple(self.shape(argument) for argument in arguments if argument is not UnsetType)
        several = len([arm for arm in arms if arm.kind is not type(None)]) > 1
        if all(arm.native for arm in arms) and not (several and not _is_union_accepted(annotation, arms)):
            return Shape(kind=annotation, schema=_any_of(arms), arms=arms)
        return self._joined(arms, may_be_unset=UnsetType in arguments)

    def _joined(self, arms: tuple[Shape, ...], *, may_be_unset: bool = False) -> Shape:
        """Return the union of shapes: decoded by msgspec if it accepts the union, else by the first arm that fits."""
        unset = (UnsetType,) if may_be_unset else ()
        kind = union_of(*(arm.kind for arm in arms), *unset)
        if not _is_union_accepted(kind, arms):
            kind = union_of(stand_in_type("Union", first_fit(arms)), *unset)
        return Shape(kind=kind, schema=_any_of(arms), native=False, arms=arms)

    # Constraints and descriptions

    def _annotated(self, annotation: Any, arguments: tuple[Any, ...]) -> Shape:
        base, *annotated = arguments
        if is_for_pydantic(annotated):
            return self._foreign(annotation)
        metadata = read_metadata(annotated)
        shape = self.shape(base)
        if metadata.limits:
            shape = self._limited(annotation, shape, metadata)
        if shape.native:
            shape = structs.replace(shape, kind=annotation)
        return structs.replace(shape, schema=shape.schema | metadata.documentation)

    def _limited(self, annotation: Any, shape: Shape, metadata: AnnotatedMetadata) -> Shape:
        if shape.arms:
            arms = tuple(constrained(arm, metadata.limits, partly=True) or arm for arm in shape.arms)
            return self._joined(arms) if arms != shape.arms else self._unlimited(annotation, metadata)
        limited = constrained(shape, metadata.limits)
        if limited is None:
            return self._unlimited(annotation, metadata)
        return structs.replace(limited, native=shape.native and not metadata.foreign)

    def _unlimited(self, annotation: Any, metadata: AnnotatedMetadata) -> Shape:
        if metadata.foreign and "pydantic" in sys.modules:
            return self._foreign(annotation)
        return _refuse(annotation, f"{', '.join(metadata.limits)} does not apply to this type")

    # Classes

    def _class(self, annotation: Any, origin: type) -> Shape:
        if issubclass(origin, enum.Enum):
            return self._enumeration(origin)
        if is_read_by_pydantic(origin):
            return self._foreign(annotation)
        if (read := field_classes.reader_for(origin, for_output=self._for_output)) is not None:
            return self._field_class(annotation, origin, read)
        if "pathlib" in sys.modules and issubclass(origin, sys.modules["pathlib"].PurePath):
            stand_in = stand_in_type(origin.__name__, lambda value: cast("Any", origin)(msgspec.convert(value, str)))
            return Shape(kind=stand_in, schema={"type": "string", "format": "path"}, native=False)
        return _refuse(annotation, self._remedy_for_class(origin))

    def _remedy_for_class(self, origin: type) -> str:
        if origin.__module__ in {"builtins", "collections", "collections.abc"}:
            return _USE_ANOTHER
        if is_of_pydantic_v1(origin):
            return "it is a pydantic v1 model; make it a model of pydantic v2 (`from pydantic import BaseModel`)"
        if self._for_output and origin.__name__ in PLAIN_FORMS:
            expression, annotation = PLAIN_FORMS[origin.__name__]
            return f"return {expression}, and annotate it as {annotation}"
        return "make it a dataclass, a TypedDict, a NamedTuple, a msgspec.Struct, an Enum or a pydantic model"

    def _field_class(self, annotation: Any, origin: type, read: field_classes.Reader) -> Shape:
        key = _key(annotation)
        if key in self._known:
            return self._known[key]
        name = self._new_name(annotation)
        shape = self._known[key] = Shape(kind=stand_in_type(name), schema=_reference(name), native=False)
        try:
            hints, is_local = field_classes.resolved_hints(annotation, self._local_names)
        except NameError as error:
            known = getattr(sys.modules.get(origin.__module__), "__dict__", {})
            _refuse(annotation, f"it names {error.name}: {remedy_for_name(error.name or '', known)}")
        found = read(origin, hints)
        self._class_depth += 1
        shapes = [self.shape(field.annotation) for field in found.fields]
        self._class_depth -= 1
        properties = [
            with_default(part.schema, field.default) for field, part in zip(found.fields, shapes, strict=True)
        ]
        self.definitions[name] = field_classes.class_schema(origin, found, properties)
        if found.options.get("array_like"):
            tag = [Shape(kind=Any, schema={})] if found.options.get("tag") is not None else []
            shape.places = tag + shapes
        else:
            shape.fields = {field.key: part for field, part in zip(found.fields, shapes, strict=True)}
            shape.required = [field.key for field in found.fields if field.required]
        if all(part.native for part in shapes) and not (found.needs_stand_in or is_local):
            shape.kind, shape.native = annotation, True
            return shape
        shape.kind.convert = field_classes.stand_in_conversion(name, found, shapes)
        return shape

    def _new_name(self, annotation: Any) -> str:
        """Return an unused name for a definition, and reserve it."""
        name = wanted = _definition_name(annotation)
        number = 2
        while name in self.definitions:
            name, number = f"{wanted}_{number}", number + 1
        self.definitions[name] = {}
        return name

    def _foreign(self, annotation: Any) -> Shape:
        """Return the shape of an annotation that pydantic reads; a model becomes a definition like any other class."""
        from dragoman.schema.python import pydantic_types

        key = _key(annotation)
        if key in self._known:
            return self._known[key]
        try:
            shape = pydantic_types.read(annotation, self.definitions, for_output=self._for_output)
        except Exception as error:
            _refuse(annotation, f"pydantic says: {error}")
        if shape.fields is not None and "$ref" not in shape.schema:
            name = _definition_name(annotation)
            if self.definitions.get(name) != shape.schema:
                name = self._new_name(annotation)
                self.definitions[name] = shape.schema
            shape.schema = _reference(name)
        self._known[key] = shape
        return shape


class Codec:
    """The conversion and the JSON Schema of one annotation.

    Example:
        units = Codec(Literal["metric", "imperial"], "the answer of elicit()")
        units.schema  # {"type": "string", "enum": ["metric", "imperial"]}
        units.convert("metric")

    Raises:
        DefinitionError: the annotation has no JSON form; the message names the subject and the remedy.
    """

    def __init__(
        self, annotation: Any, subject: str, *, local_names: Mapping[str, Any] | None = None, for_output: bool = False
    ) -> None:
        walk = AnnotationReader(caller_names() if local_names is None else local_names, for_output=for_output)
        try:
            self._shape = walk.shape(type(None) if annotation is None else annotation)
        except UnsupportedAnnotation as error:
            raise DefinitionError(f"{subject}: {error}") from None
        self.schema = rooted(self._shape.schema, walk.definitions)

    def convert(self, value: Any, *, repairs: bool = True) -> Any:
        """Return the Python value of plain JSON; with `repairs`, `coerce` first repairs a value that does not fit.

        Raises:
            ValidationError: the value does not fit; the message lists every place.
        """
        try:
            return self._shape.convert(value)
        except msgspec.ValidationError:
            repaired = coerce(value, self.schema) if repairs else value
        try:
            return self._shape.convert(repaired)
        except msgspec.ValidationError:
            problems = list(self._shape.problems(repaired))
        raise ValidationError("; ".join(map(str, problems)), problems[0].path)


def caller_names() -> Mapping[str, Any]:
    """Return the local names of the function that called into dragoman."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "dragoman":
        frame = frame.f_back
    # From Python 3.13 on these are a view, which keeps the frame and all that it refers to.
    return dict(frame.f_locals)


def rooted(schema: Json, definitions: Json) -> Json:
    """Return a schema as a document, with the definitions that it needs."""
    if "$ref" in schema:
        # Versions before 2026-07-28 require the type at the root of an output schema.
        name = schema["$ref"].rpartition("/")[2]
        whole = definitions[name] | {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        if not any(part.get("$ref") == schema["$ref"] for part in objects(definitions)):
            definitions = {other: definition for other, definition in definitions.items() if other != name}
        schema = whole
    return {**schema, "$defs": definitions} if definitions else schema


def _refuse(annotation: Any, remedy: str) -> NoReturn:
    raise UnsupportedAnnotation(annotation, remedy)


def _key(annotation: Any) -> Any:
    return annotation if _is_hashable(annotation) else repr(annotation)


def _is_hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


def _reference(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _definition_name(annotation: Any) -> str:
    origin = get_origin(annotation) or annotation
    arguments = [_definition_name(argument) for argument in get_args(annotation)]
    name = getattr(origin, "__name__", None) or repr(origin)
    return re.sub(r"\W+", "_", "_".join([name, *arguments])).strip("_")


def _any_of(arms: Sequence[Shape]) -> Json:
    return arms[0].schema if len(arms) == 1 else {"anyOf": [arm.schema for arm in arms]}


def _property_names(key: Json) -> Json | None:
    """Return the schema of property names, which are strings in JSON, for a schema of keys; None if all fit."""
    if key.get("type") == "integer":
        return {"enum": [str(value) for value in key["enum"]]} if "enum" in key else {"pattern": "^-?[0-9]+$"}
    return key if key.get("type") == "string" and len(key) > 1 else None


def _is_union_accepted(kind: Any, arms: Sequence[Shape]) -> bool:
    """Tell whether msgspec decodes a union. A union with Any is refused: msgspec would not convert the other arms."""
    return all(arm.schema for arm in arms) and is_accepted(kind)


def _choices(annotation: Any, values: list[Any]) -> Json:
    kinds = {type_of(value) if type(value) in _SCALARS else None for value in values}
    if not kinds or None in kinds:
        _refuse(annotation, "its values must be strings, numbers, booleans or None")
    return ({"type": kinds.pop()} if len(kinds) == 1 else {}) | {"enum": values}
