"""Classes with fields: dataclasses, Structs, TypedDicts and NamedTuples, their fields and their JSON Schema.

In JSON these classes are objects; NamedTuples and Structs with `array_like` are arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from inspect import get_annotations
from typing import (
    Any,
    Generic,
    NotRequired,
    Protocol,
    Required,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import NODEFAULT, UNSET, Struct

from dragoman.schema.python.defaults import constant_default
from dragoman.schema.python.docstrings import parse
from dragoman.schema.python.shapes import Shape, decode_hook
from dragoman.types import Json


class ClassField(Struct, frozen=True):
    """A field: its name in Python and in JSON, its annotation, and its default if JSON has a form for it."""

    name: str
    key: str
    annotation: Any
    required: bool = True
    default: Any = UNSET


class FieldClass(Struct, frozen=True):
    """The fields of a class, and how an instance is built from their values."""

    fields: list[ClassField]
    build: Callable[..., Any]
    options: Mapping[str, Any] = {}
    """Options of the stand-in Struct: a tag, an array, no unknown fields."""
    needs_stand_in: bool = False
    """Whether msgspec would refuse or misread the class."""


Reader = Callable[[Any, dict[str, Any]], FieldClass]


def reader_for(origin: type, *, for_output: bool = False) -> Reader | None:
    """Return the reader of the fields of a class, for input or for output; None if the class has no fields."""
    if issubclass(origin, Struct):
        return _read_struct
    if hasattr(origin, "__dataclass_fields__"):
        return _read_sent_dataclass if for_output else _read_dataclass
    if is_typeddict(origin) or hasattr(origin, "__required_keys__"):
        return _read_typed_dict
    if issubclass(origin, tuple) and hasattr(origin, "_fields"):
        return _read_named_tuple
    return None


def _read_struct(origin: Any, hints: dict[str, Any]) -> FieldClass:
    config = origin.__struct_config__
    names, keys, defaults = origin.__struct_fields__, origin.__struct_encode_fields__, origin.__struct_defaults__
    padded = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
    fields = [
        ClassField(name, key, hints[name], default is NODEFAULT, _struct_default(default))
        for name, key, default in zip(names, keys, padded, strict=True)
    ]
    options = {name: getattr(config, name) for name in ("tag", "tag_field", "array_like", "forbid_unknown_fields")}
    return FieldClass(fields, origin, options)


def _struct_default(default: Any) -> Any:
    factory = getattr(default, "factory", None) if type(default).__name__ == "Factory" else None
    if factory is not None:
        return constant_default(factory)
    return UNSET if default is NODEFAULT else default


def _read_dataclass(origin: Any, hints: dict[str, Any]) -> FieldClass:
    dataclasses = sys.modules["dataclasses"]
    fields: list[ClassField] = []
    needs_stand_in = False
    for field in origin.__dataclass_fields__.values():
        hint = hints[field.name]
        initial_only = isinstance(hint, dataclasses.InitVar)
        if field._field_type is dataclasses._FIELD_CLASSVAR:
            continue
        needs_stand_in = needs_stand_in or initial_only or not field.init
        if field.init:
            has_default = field.default is not dataclasses.MISSING
            # If the default is a class attribute, msgspec does not set it on the instance and so does not encode it.
            needs_stand_in = needs_stand_in or (has_default and getattr(origin, field.name, None) is field.default)
            required = not has_default and field.default_factory is dataclasses.MISSING
            default = field.default if has_default else UNSET
            if not required and not has_default:
                default = constant_default(field.default_factory)
            fields.append(ClassField(field.name, field.name, hint.type if initial_only else hint, required, default))
    return FieldClass(fields, origin, needs_stand_in=needs_stand_in)


def _read_sent_dataclass(origin: Any, hints: dict[str, Any]) -> FieldClass:
    """Read the fields of a dataclass instance for output: without `InitVar`s, and with fields of `init=False`."""
    fields = sys.modules["dataclasses"].fields(origin)
    taken = {field.name: field for field in _read_dataclass(origin, hints).fields}
    computed = {field.name: ClassField(field.name, field.name, hints[field.name], required=False) for field in fields}
    return FieldClass([taken.get(name, field) for name, field in computed.items()], origin)


def _read_typed_dict(origin: Any, hints: dict[str, Any]) -> FieldClass:
    fields = []
    for name, hint in hints.items():
        # Under `from __future__ import annotations` Python 3.11 counts NotRequired keys as required.
        required = name in origin.__required_keys__
        while get_origin(hint) is not None and getattr(get_origin(hint), "_name", "") in _QUALIFIERS:
            required = {Required: True, NotRequired: False}.get(get_origin(hint), required)
            hint = get_args(hint)[0]
        fields.append(ClassField(name, name, hint, required))
    return FieldClass(fields, dict)


_QUALIFIERS = ("Required", "NotRequired", "ReadOnly")


def _read_named_tuple(origin: Any, hints: dict[str, Any]) -> FieldClass:
    defaults = origin._field_defaults
    fields = [
        ClassField(name, name, hints.get(name, Any), name not in defaults, defaults.get(name, UNSET))
        for name in origin._fields
    ]
    return FieldClass(fields, origin, {"array_like": True})


def stand_in_conversion(name: str, found: FieldClass, shapes: list[Shape]) -> Callable[[Any], Any]:
    """Return a conversion for a class that msgspec cannot decode; it decodes a Struct with the same fields first."""
    optional = msgspec.field(default=UNSET)
    pairs = enumerate(zip(found.fields, shapes, strict=True))
    places = [(field, shape, f"field_{index}") for index, (field, shape) in pairs]
    struct = msgspec.defstruct(
        name,
        [(place, shape.kind) if field.required else (place, shape.kind, optional) for field, shape, place in places],
        rename={place: field.key for field, _, place in places},
        kw_only=True,
        **found.options,
    )
    names = [field.name for field in found.fields]

    def convert(value: Any) -> Any:
        values = msgspec.structs.astuple(msgspec.convert(value, struct, dec_hook=decode_hook, str_keys=True))
        return found.build(**{name: part for name, part in zip(names, values, strict=True) if part is not UNSET})

    return convert


def class_schema(origin: Any, found: FieldClass, properties: list[Json]) -> Json:
    """Return the schema of a class whose fields have these schemas."""
    about = parse(_own_documentation(origin))
    described = [
        {"description": about.parameters[field.name], **schema} if field.name in about.parameters else schema
        for field, schema in zip(found.fields, properties, strict=True)
    ]
    head = {"description": about.description} if about.description else {}
    required = [field.key for field in found.fields if field.required]
    if found.options.get("array_like"):
        return _array_document(head, found, described, len(required))
    return head | _object_document(found, described, required)


def _object_document(found: FieldClass, properties: list[Json], required: list[str]) -> Json:
    tag = found.options.get("tag")
    tagged = {found.options["tag_field"]: _constant(tag)} if tag is not None else {}
    by_key = {field.key: schema for field, schema in zip(found.fields, properties, strict=True)}
    schema: Json = {"type": "object", "properties": tagged | by_key}
    if tagged or required:
        schema["required"] = [*tagged, *required]
    if found.options.get("forbid_unknown_fields"):
        schema["additionalProperties"] = False
    return schema


def _array_document(head: Json, found: FieldClass, places: list[Json], required: int) -> Json:
    """Return the schema of an array; descriptions hold the names of its places."""
    tag = found.options.get("tag")
    first = [_constant(tag)] if tag is not None else []
    named = [{"description": field.name} | place for field, place in zip(found.fields, places, strict=True)]
    return head | {
        "type": "array",
        "prefixItems": first + named,
        "minItems": len(first) + required,
        "maxItems": len(first) + len(named),
    }


def _constant(tag: str | int) -> Json:
    return {"type": "string" if isinstance(tag, str) else "integer", "enum": [tag]}


def _own_documentation(origin: Any) -> str | None:
    """Return the author's docstring, None if Python put the signature of the class in its place."""
    text = origin.__dict__.get("__doc__")
    return None if text is None or text.startswith(f"{origin.__name__}(") else text


def resolved_hints(annotation: Any, local_names: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the annotations of a class with its type arguments, and whether local names were needed.

    Raises:
        NameError: a name does not exist at run time.
    """
    origin = get_origin(annotation) or annotation
    is_local = False
    try:
        hints = get_type_hints(origin, include_extras=True)
    except NameError:
        is_local = True
        hints = get_type_hints(origin, localns=dict(local_names), include_extras=True)
    scopes = _scopes(annotation)
    every = {variable: meant for scope in scopes.values() for variable, meant in scope.items()}
    if every:
        hints = {name: substitute(hint, every | _scope_of(name, origin, scopes)) for name, hint in hints.items()}
    return hints, is_local


def _scopes(annotation: Any) -> dict[Any, dict[Any, Any]]:
    """Return the type arguments of each class of a hierarchy."""
    origin = get_origin(annotation) or annotation
    scope = dict(zip(getattr(origin, "__parameters__", ()), get_args(annotation), strict=False))
    scopes = {origin: scope}
    for parent in getattr(origin, "__dict__", {}).get("__orig_bases__", ()):
        if get_origin(parent) not in {None, Generic, Protocol}:
            scopes = _scopes(substitute(parent, scope)) | scopes
    return scopes


def _scope_of(name: str, origin: Any, scopes: dict[Any, dict[Any, Any]]) -> dict[Any, Any]:
    owner = next((parent for parent in origin.__mro__ if name in get_annotations(parent)), origin)
    return scopes.get(owner, {})


def substitute(annotation: Any, meanings: Mapping[Any, Any]) -> Any:
    """Return an annotation with type variables replaced by their meanings."""
    if isinstance(annotation, TypeVar):
        return meanings.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if not variables or (isinstance(annotation, type) and get_origin(annotation) is None):
        return annotation
    return annotation[tuple(meanings.get(variable, variable) for variable in variables)]
