"""Lenient decoding of JSON from a peer.

`decode` first decodes a value directly into its type. If that fails, it decodes the value part by part. A content block
that does not fit becomes an `UnknownContent`. A list entry that does not fit is left out and reported in `dropped`, so
that one malformed tool does not lose the list. The parts are slices of the JSON text, so fields that stay encoded
(`Raw`) keep their bytes.
"""

from __future__ import annotations

import re
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
    """A list entry that was left out: its path, the reason and the entry, which is `Raw` if it cannot be decoded."""

    path: str
    reason: str
    entry: Any


def decode(data: bytes | Raw, kind: type[T], dropped: list[Dropped] | None = None) -> T:
    """Decode JSON into a wire type; unknown content is kept, malformed list entries are left out.

    Example:
        dropped: list[Dropped] = []
        page = decode(b'{"tools": [{"name": 5}]}', ListToolsResult, dropped)

    Raises:
        ValidationError: the data is not JSON, or does not fit the type even without such entries.
    """
    try:
        return cast("T", _read(data, kind, "$", [] if dropped is None else dropped))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValidationError(_unreadable(error)) from None


decoders: Memo[Any, msgspec.json.Decoder[Any]] = Memo(msgspec.json.Decoder)
"""The strict decoder of each type."""
fields_of: Memo[type[Struct], tuple[msgspec.structs.FieldInfo, ...]] = Memo(msgspec.structs.fields)
"""The fields of each type, which msgspec finds anew at each call."""


def _unreadable(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "The JSON is not valid UTF-8"
    return str(error)


def _mismatch(error: msgspec.ValidationError, path: str) -> ValidationError:
    """Return the error of msgspec with its path from the root."""
    text = str(error)
    if found := re.search(_AT, text):
        text, path = text[: found.start()], path + found[1]
    return ValidationError(f"{text} at {path}", path)


def _read(data: bytes | Raw, kind: Any, path: str, dropped: list[Dropped]) -> Any:
    try:
        return decoders[kind].decode(data)
    except msgspec.ValidationError as error:
        mismatch = _mismatch(error, path)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _repair_union(data, get_args(kind), path, dropped, mismatch)
    if _is_struct(kind):
        return _repair_struct(_parts(data, dict[str, Raw], mismatch), kind, path, dropped)
    if origin is list:
        return _repair_list(_parts(data, list[Raw], mismatch), get_args(kind)[0], path, dropped)
    if origin is dict:
        parts = _parts(data, dict[str, Raw], mismatch)
        return {key: _read(part, get_args(kind)[1], f'{path}["{key}"]', dropped) for key, part in parts.items()}
    raise mismatch


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _parts(data: bytes | Raw, kind: type[T], mismatch: ValidationError) -> T:
    try:
        return cast("T", decoders[kind].decode(data))
    except msgspec.ValidationError:
        raise mismatch from None


def _repair_struct(parts: dict[str, Raw], kind: type[Struct], path: str, dropped: list[Dropped]) -> Struct:
    config = kind.__struct_config__
    if config.tag_field in parts:
        _read(parts[config.tag_field], cast("Any", Literal)[config.tag], f"{path}.{config.tag_field}", dropped)
    fields: dict[str, Any] = {}
    for field in fields_of[kind]:
        place = f"{path}.{field.encode_name}"
        if field.encode_name in parts:
            fields[field.name] = _read(parts[field.encode_name], field.type, place, dropped)
        elif field.required:
            raise ValidationError(f"Object missing required field at {place}", place)
    return kind(**fields)


def _repair_list(parts: list[Raw], kind: Any, path: str, dropped: list[Dropped]) -> list[Any]:
    kept: list[Any] = []
    for index, part in enumerate(parts):
        place, before = f"{path}[{index}]", len(dropped)
        try:
            kept.append(_read(part, kind, place, dropped))
        except ValidationError as error:
            dropped[before:] = [Dropped(place, str(error), _plain(part))]
    return kept


def _repair_union(
    data: bytes | Raw, arms: tuple[Any, ...], path: str, dropped: list[Dropped], mismatch: ValidationError
) -> Any:
    tagged = [arm for arm in arms if _is_struct(arm) and arm.__struct_config__.tag]
    parts = _object(data) if tagged else None
    if parts is None:
        others = [arm for arm in arms if arm not in (NoneType, UnsetType, *tagged)]
        if len(others) != 1:
            raise mismatch
        return _read(data, others[0], path, dropped)
    known, before = _known(parts, tagged), len(dropped)
    try:
        if known is None:
            raise mismatch
        return _read(data, known, path, dropped)
    except ValidationError:
        if not issubclass(tagged[0], Block):
            raise
        del dropped[before:]
        return UnknownContent(_parts(data, dict[str, Any], mismatch))


def _object(data: bytes | Raw) -> dict[str, Raw] | None:
    try:
        return cast("dict[str, Raw]", decoders[dict[str, Raw]].decode(data))
    except msgspec.ValidationError:
        return None


def _known(parts: dict[str, Raw], arms: list[type[Struct]]) -> type[Struct] | None:
    """Return the arm of a union whose tag the object has."""
    try:
        tag = decoders[str].decode(parts[cast("str", arms[0].__struct_config__.tag_field)])
    except (KeyError, msgspec.ValidationError):
        return None
    return next((arm for arm in arms if arm.__struct_config__.tag == tag), None)


def _plain(data: Raw) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return data
