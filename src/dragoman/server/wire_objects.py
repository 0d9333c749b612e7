"""Wire objects that authors give as structs or as plain dicts, such as icons, annotations and capabilities.

A dict may spell its keys as Python does or as the wire does, at every depth. A key that the struct lacks, or a number
outside the bounds of the protocol, raises a DefinitionError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from dragoman import types
from dragoman.errors import DefinitionError

Wire = TypeVar("Wire")
_WITHIN_ONE: dict[type[Struct], tuple[str, ...]] = {
    types.Annotations: ("priority",),
    types.ModelPreferences: ("cost_priority", "speed_priority", "intelligence_priority"),
}
"""The fields whose numbers the protocol bounds by 0 and 1."""


def wire_object(value: Any, kind: type[Wire], what: str, *, is_open: bool = False) -> Wire:
    """Return a wire object that an author gave as such or as a plain dict.

    `is_open` leaves out keys that the object does not have, instead of refusing them.

    Raises:
        DefinitionError: the value does not fit, or has a key that the object does not have.
    """
    if not isinstance(value, dict | kind):
        raise DefinitionError(f"{what} must be a {kind.__name__} or a dict, not {type(value).__name__}")
    try:
        made = msgspec.convert(_wire_keys(msgspec.to_builtins(value), kind, what, is_open), kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise DefinitionError(f"{what}: {error}") from None
    _refuse_out_of_range(made, what)
    return made


def optional_wire_object(value: Any, kind: type[Wire], what: str) -> Wire | None:
    """Return a wire object as `wire_object` does, or None for None."""
    return None if value is None else wire_object(value, kind, what)


def wire_objects(values: Iterable[Any] | None, kind: type[Wire], what: str) -> list[Wire] | None:
    """Return a list of wire objects, or None if there are none."""
    if values is None:
        return None
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise DefinitionError(f"{what} must be in a list, such as [{kind.__name__}(...)], not {type(values).__name__}")
    return [wire_object(value, kind, what) for value in values] or None


def _wire_keys(value: Any, annotation: Any, what: str, is_open: bool) -> Any:  # noqa: FBT001
    """Return a value whose dicts have the keys of the wire, at every depth that the annotation has a type for."""
    members = _union_members(annotation)
    if isinstance(value, list | tuple):
        items = [get_args(member)[0] for member in members if get_origin(member) is list]
        return [_wire_keys(item, items[0], what, is_open) for item in value] if items else value
    kind = _struct_of(value, members) if isinstance(value, dict) else None
    if kind is None:
        return value
    fields = {spelling: field for field in structs.fields(kind) for spelling in (field.name, field.encode_name)}
    tag_field = kind.__struct_config__.tag_field
    renamed: types.Json = {}
    for key, item in value.items():
        if key == tag_field:
            renamed[key] = item
        elif key in fields:
            name = fields[key].encode_name
            renamed[name] = _wire_keys(item, fields[key].type, f"{what}: {name}", is_open)
        elif not is_open:
            names = sorted({field.encode_name for field in fields.values()})
            raise DefinitionError(f"{what} has no {key!r}; it takes {', '.join(names)}")
    return renamed


def _union_members(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [member for argument in get_args(annotation) for member in _union_members(argument)]
    return [annotation]


def _struct_of(value: types.Json, members: list[Any]) -> type[Struct] | None:
    """Return the struct that a dict is: the one with its tag, or the first one without a tag."""
    for member in members:
        if isinstance(member, type) and issubclass(member, Struct):
            config = member.__struct_config__
            if config.tag_field is None or value.get(config.tag_field) == config.tag:
                return member
    return None


def _refuse_out_of_range(value: Any, what: str) -> None:
    if isinstance(value, list):
        for item in value:
            _refuse_out_of_range(item, what)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if name in _WITHIN_ONE.get(type(value), ()) and held is not None and not 0 <= held <= 1:
                raise DefinitionError(f"{what}: {name} must be a number from 0 to 1, not {held!r}")
            _refuse_out_of_range(held, what)
