"""Decoding that is lenient where the protocol wants it to be.

A value is first decoded straight into its type. Only when that fails is it taken apart and decoded piece by piece: a
content block that does not fit becomes an `UnknownContent`, and an entry of a list that does not fit is left out and
named in `dropped`, so that one malformed tool does not lose the list. The pieces are slices of the JSON text, so that
what stays encoded is kept as it came.
"""

from __future__ import annotations

import re
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType

from dragoman.errors import ValidationError
from dragoman.types.content import Block, UnknownContent
from dragoman.types.memo import Memo

T = TypeVar("T")

_AT = r"(?s) - at `\$(.*)`$"


class Dropped(Struct):
    """An entry that was left out of a list, where it stood and why; `entry` is `Raw` when even that cannot be read."""

    path: str
    reason: str
    entry: Any


def decode(data: bytes | Raw, kind: type[T], dropped: list[Dropped] | None = None) -> T:
    """Decode JSON into a wire type, keeping unknown content and leaving out malformed list entries.

    Example:
        dropped: list[Dropped] = []
        page = decode(b'{"tools": [{"name": 5}]}', ListToolsResult, dropped)

    Raises:
        ValidationError: the data is not JSON, or does not fit the type even so.
    """
    try:
        return cast("T", _read(data, kind, "$", [] if dropped is None else dropped))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValidationError(_unreadable(error)) from None


decoders: Memo[Any, msgspec.json.Decoder[Any]] = Memo(msgspec.json.Decoder)
"""The one strict decoder for each type."""


def _unreadable(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "The JSON is not valid UTF-8"
    return str(error)


def _misfit(error: msgspec.ValidationError, path: str) -> ValidationError:
    """Turn msgspec's message into what is wrong and where, seen from the root."""
    text = str(error)
    if found := re.search(_AT, text):
        text, path = text[: found.start()], path + found[1]
    return ValidationError(f"{text} at {path}", path)


def _read(data: bytes | Raw, kind: Any, path: str, dropped: list[Dropped]) -> Any:
    try:
        return decoders[kind].decode(data)
    except msgspec.ValidationError as error:
        misfit = _misfit(error, path)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _repair_union(data, get_args(kind), path, dropped, misfit)
    if _is_struct(kind):
        return _repair_struct(_parts(data, dict[str, Raw], misfit), kind, path, dropped)
    if origin is list:
        return _repair_list(_parts(data, list[Raw], misfit), get_args(kind)[0], path, dropped)
    if origin is dict:
        return _repair_dict(_parts(data, dict[str, Raw], misfit), get_args(kind)[1], path, dropped)
    raise misfit


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _parts(data: bytes | Raw, kind: type[T], misfit: ValidationError) -> T:
    try:
        return cast("T", decoders[kind].decode(data))
    except msgspec.ValidationError:
        raise misfit from None


def _repair_struct(parts: dict[str, Raw], kind: type[Struct], path: str, dropped: list[Dropped]) -> Struct:
    config = kind.__struct_config__
    if config.tag_field in parts:
        _read(parts[config.tag_field], cast("Any", Literal)[config.tag], f"{path}.{config.tag_field}", dropped)
    fields: dict[str, Any] = {}
    for field in _fields(kind):
        place = f"{path}.{field.encode_name}"
        if field.encode_name in parts:
            fields[field.name] = _read(parts[field.encode_name], field.type, place, dropped)
        elif field.required:
            raise ValidationError(f"Object missing required field at {place}", place)
    return kind(**fields)


@cache
def _fields(kind: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a type, which msgspec works out anew each time that it is asked."""
    return msgspec.structs.fields(kind)


def _repair_list(parts: list[Raw], kind: Any, path: str, dropped: list[Dropped]) -> list[Any]:
    kept: list[Any] = []
    for index, part in enumerate(parts):
        place = f"{path}[{index}]"
        within: list[Dropped] = []
        try:
            kept.append(_read(part, kind, place, within))
        except ValidationError as error:
            dropped.append(Dropped(place, str(error), _plain(part)))
        else:
            dropped += within
    return kept


def _repair_dict(parts: dict[str, Raw], kind: Any, path: str, dropped: list[Dropped]) -> dict[str, Any]:
    return {key: _read(part, kind, f'{path}["{key}"]', dropped) for key, part in parts.items()}


def _repair_union(
    data: bytes | Raw, arms: tuple[Any, ...], path: str, dropped: list[Dropped], misfit: ValidationError
) -> Any:
    tagged = [arm for arm in arms if _is_struct(arm) and arm.__struct_config__.tag]
    parts = _object(data) if tagged else None
    if parts is None:
        others = [arm for arm in arms if arm not in (NoneType, UnsetType, *tagged)]
        if len(others) != 1:
            raise misfit
        return _read(data, others[0], path, dropped)
    known = _known(parts, tagged)
    if issubclass(tagged[0], Block):
        return _repair_block(data, known, path, dropped, misfit)
    if known is None:
        raise misfit
    return _read(data, known, path, dropped)


def _object(data: bytes | Raw) -> dict[str, Raw] | None:
    try:
        return cast("dict[str, Raw]", decoders[dict[str, Raw]].decode(data))
    except msgspec.ValidationError:
        return None


def _known(parts: dict[str, Raw], arms: list[type[Struct]]) -> type[Struct] | None:
    """Return the arm whose tag the object bears."""
    try:
        tag = decoders[str].decode(parts[cast("str", arms[0].__struct_config__.tag_field)])
    except (KeyError, msgspec.ValidationError):
        return None
    return next((arm for arm in arms if arm.__struct_config__.tag == tag), None)


def _repair_block(
    data: bytes | Raw, known: type[Struct] | None, path: str, dropped: list[Dropped], misfit: ValidationError
) -> Any:
    if known is not None:
        within: list[Dropped] = []
        try:
            block = _read(data, known, path, within)
        except ValidationError:
            pass
        else:
            dropped += within
            return block
    return UnknownContent(_parts(data, dict[str, Any], misfit))


def _plain(data: Raw) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return data
