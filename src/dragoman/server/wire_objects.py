"""Conversion of structs and plain dicts that authors give, such as icons and annotations, to structs of the wire.

A dict may spell its keys as in Python or as on the wire, at every depth. A key that the struct lacks, or a number
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
"""The fields whose numbers must be from 0 to 1."""


def wire_object(value: Any, kind: type[Wire], what: str, *, is_open: bool = False) -> Wire:
    """Return the struct of a value that is a struct or a plain dict; `what` names the value in errors.

    With `is_open`, a key that the struct lacks is dropped. Without it, such a key is refused.

    Raises:
        DefinitionError: the value does not fit, or has a key that the struct lacks.
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
    """Return the struct of a value as `wire_object` does; None stays None."""
    return None if value is None else wire_object(value, kind, what)


def wire_objects(values: Iterable[Any] | None, kind: type[Wire], what: str) -> list[Wire] | None:
    """Return the structs of several values; None if there are no values."""
    if values is None:
        return None
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise DefinitionError(f"{what} must be in a list, such as [{kind.__name__}(...)], not {type(values).__name__}")
    return [wire_object(value, kind, what) for value in values] or None


def _wire_keys(value: Any, annotation: Any, what: str, is_open: bool) -> Any:  # noqa: FBT001
    """Return the value with the keys of its dicts spelled as on the wire, as deep as the annotation names structs."""
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
    """Return the struct class of a dict: the first class that has no tag or has the tag of the dict."""
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
