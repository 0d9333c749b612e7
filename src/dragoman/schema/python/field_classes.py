"""Classes that are JSON objects, or arrays with named places: dataclasses, Structs, TypedDicts and NamedTuples."""

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

from dragoman.schema.python.docstrings import parse
from dragoman.schema.python.shapes import Shape, decode_hook
from dragoman.types import Json

_PLAIN_FACTORIES = (list, dict, set, frozenset, tuple)


class ClassField(Struct, frozen=True):
    """A field: the author's name for it, JSON's, and what it holds when it is left out, if that can be said."""

    name: str
    key: str
    annotation: Any
    required: bool = True
    default: Any = UNSET


class FieldClass(Struct, frozen=True):
    """A class of fields."""

    members: list[ClassField]
    build: Callable[..., Any]
    options: Mapping[str, Any] = {}
    """How the stand-in is configured: a tag, an array, no unknown fields."""
    awkward: bool = False
    """Whether msgspec would refuse or misread the class as it stands."""


Reader = Callable[[Any, dict[str, Any]], FieldClass]


def reader_for(origin: type, *, for_output: bool = False) -> Reader | None:
    """Return what reads the fields of a class, as it is made or as it is sent, or None when it is no record."""
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
    members = [
        ClassField(name, key, hints[name], default is NODEFAULT, _struct_default(default))
        for name, key, default in zip(names, keys, padded, strict=True)
    ]
    options = {name: getattr(config, name) for name in ("tag", "tag_field", "array_like", "forbid_unknown_fields")}
    return FieldClass(members, origin, options)


def _struct_default(default: Any) -> Any:
    factory = getattr(default, "factory", None) if type(default).__name__ == "Factory" else None
    if factory is not None:
        return factory() if factory in _PLAIN_FACTORIES else UNSET
    return UNSET if default is NODEFAULT else default


def _read_dataclass(origin: Any, hints: dict[str, Any]) -> FieldClass:
    fields = sys.modules["dataclasses"]
    members: list[ClassField] = []
    awkward = False
    for field in origin.__dataclass_fields__.values():
        hint = hints[field.name]
        initial_only = isinstance(hint, fields.InitVar)
        if field._field_type is fields._FIELD_CLASSVAR:
            continue
        awkward = awkward or initial_only or not field.init
        if field.init:
            has_default = field.default is not fields.MISSING
            # msgspec leaves such a default to the class, and then does not find it in the object that it encodes.
            awkward = awkward or (has_default and getattr(origin, field.name, None) is field.default)
            required = not has_default and field.default_factory is fields.MISSING
            default = field.default if has_default else UNSET
            if field.default_factory in _PLAIN_FACTORIES:
                default = field.default_factory()
            members.append(ClassField(field.name, field.name, hint.type if initial_only else hint, required, default))
    return FieldClass(members, origin, awkward=awkward)


def _read_sent_dataclass(origin: Any, hints: dict[str, Any]) -> FieldClass:
    """Read what a dataclass holds: not what only its constructor takes, but all that it computes."""
    fields = sys.modules["dataclasses"].fields(origin)
    taken = {member.name: member for member in _read_dataclass(origin, hints).members}
    computed = {field.name: ClassField(field.name, field.name, hints[field.name], required=False) for field in fields}
    return FieldClass([taken.get(name, member) for name, member in computed.items()], origin)


def _read_typed_dict(origin: Any, hints: dict[str, Any]) -> FieldClass:
    members = []
    for name, hint in hints.items():
        # Under `from __future__ import annotations` Python 3.11 counts NotRequired keys as required.
        required = name in origin.__required_keys__
        while get_origin(hint) is not None and getattr(get_origin(hint), "_name", "") in _QUALIFIERS:
            required = {Required: True, NotRequired: False}.get(get_origin(hint), required)
            hint = get_args(hint)[0]
        members.append(ClassField(name, name, hint, required))
    return FieldClass(members, dict)


_QUALIFIERS = ("Required", "NotRequired", "ReadOnly")


def _read_named_tuple(origin: Any, hints: dict[str, Any]) -> FieldClass:
    defaults = origin._field_defaults
    members = [
        ClassField(name, name, hints.get(name, Any), name not in defaults, defaults.get(name, UNSET))
        for name in origin._fields
    ]
    return FieldClass(members, origin, {"array_like": True})


def stand_in_conversion(name: str, record: FieldClass, shapes: list[Shape]) -> Callable[[Any], Any]:
    """Return a conversion for a record that msgspec cannot decode by itself: through a Struct of the fields' shapes."""
    optional = msgspec.field(default=UNSET)
    pairs = enumerate(zip(record.members, shapes, strict=True))
    places = [(member, shape, f"field_{index}") for index, (member, shape) in pairs]
    struct = msgspec.defstruct(
        name,
        [(place, shape.kind) if member.required else (place, shape.kind, optional) for member, shape, place in places],
        rename={place: member.key for member, _, place in places},
        kw_only=True,
        **record.options,
    )
    names = [member.name for member in record.members]

    def convert(value: Any) -> Any:
        values = msgspec.structs.astuple(msgspec.convert(value, struct, dec_hook=decode_hook, str_keys=True))
        return record.build(**{name: part for name, part in zip(names, values, strict=True) if part is not UNSET})

    return convert


def class_schema(origin: Any, record: FieldClass, properties: list[Json]) -> Json:
    """Return the schema of a record whose fields have these schemas."""
    about = parse(_own_documentation(origin))
    described = [
        {"description": about.parameters[member.name], **schema} if member.name in about.parameters else schema
        for member, schema in zip(record.members, properties, strict=True)
    ]
    head = {"description": about.description} if about.description else {}
    required = [member.key for member in record.members if member.required]
    if record.options.get("array_like"):
        return _array_document(head, record, described, len(required))
    return head | _object_document(record, described, required)


def _object_document(record: FieldClass, properties: list[Json], required: list[str]) -> Json:
    tag = record.options.get("tag")
    tagged = {record.options["tag_field"]: _constant(tag)} if tag is not None else {}
    by_key = {member.key: schema for member, schema in zip(record.members, properties, strict=True)}
    schema: Json = {"type": "object", "properties": tagged | by_key}
    if tagged or required:
        schema["required"] = [*tagged, *required]
    if record.options.get("forbid_unknown_fields"):
        schema["additionalProperties"] = False
    return schema


def _array_document(head: Json, record: FieldClass, places: list[Json], required: int) -> Json:
    """Return the schema of an array whose places have names, which only descriptions can tell."""
    tag = record.options.get("tag")
    first = [_constant(tag)] if tag is not None else []
    named = [{"description": member.name} | place for member, place in zip(record.members, places, strict=True)]
    return head | {
        "type": "array",
        "prefixItems": first + named,
        "items": False,
        "minItems": len(first) + required,
        "maxItems": len(first) + len(named),
    }


def _constant(tag: str | int) -> Json:
    return {"type": "string" if isinstance(tag, str) else "integer", "enum": [tag]}


def _own_documentation(origin: Any) -> str | None:
    """Return what the author wrote: dataclasses and NamedTuples write their signature where there is nothing."""
    text = origin.__dict__.get("__doc__")
    return None if text is None or text.startswith(f"{origin.__name__}(") else text


def resolved_hints(annotation: Any, local_names: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the annotations of a class with its type variables filled in, and whether local names were needed.

    Raises:
        NameError: a name is not known at run time.
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
    """Return what the type variables of each class of a hierarchy stand for."""
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
    """Return an annotation with its type variables filled in."""
    if isinstance(annotation, TypeVar):
        return meanings.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if not variables or (isinstance(annotation, type) and get_origin(annotation) is None):
        return annotation
    return annotation[tuple(meanings.get(variable, variable) for variable in variables)]
