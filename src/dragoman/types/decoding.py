"""Decoding that is lenient where the protocol wants it to be.

A value is first decoded straight into its type. Only when that fails is it decoded into plain objects and converted
piece by piece: a content block that does not fit becomes an `UnknownContent`, and an entry of a list that does not fit
is left out and named in `dropped`, so that one malformed tool does not lose the list.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType

from dragoman.errors import ValidationError
from dragoman.types.content import Block, UnknownContent

T = TypeVar("T")

_AT = re.compile(r" - at `\$(.*)`$", re.DOTALL)


class Dropped(Struct):
    """An entry that was left out of a list, where it stood and why."""

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
        return cast("T", decoder(cast("Hashable", kind)).decode(data))
    except msgspec.ValidationError as error:
        misfit = _misfit(error, "$")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValidationError(_unreadable(error)) from None
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise misfit from None
    return cast("T", _convert(value, kind, "$", [] if dropped is None else dropped))


@cache
def decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    """Return the one strict decoder for a type, built when it is first needed."""
    return msgspec.json.Decoder(kind)


def _unreadable(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "The JSON is not valid UTF-8"
    return str(error)


def _misfit(error: msgspec.ValidationError, path: str) -> ValidationError:
    """Turn msgspec's message into what is wrong and where, seen from the root."""
    text = str(error)
    if found := _AT.search(text):
        text, path = text[: found.start()], path + found[1]
    return ValidationError(f"{text} at {path}", path)


def _convert(value: Any, kind: Any, path: str, dropped: list[Dropped]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        misfit = _misfit(error, path)
    if isinstance(value, dict) and _is_struct(kind):
        return _repair_struct(value, kind, path, dropped)
    if isinstance(value, list) and get_origin(kind) is list:
        return _repair_list(value, get_args(kind)[0], path, dropped)
    if get_origin(kind) in (Union, UnionType):
        return _repair_union(value, get_args(kind), path, dropped, misfit)
    raise misfit


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _repair_struct(value: dict[str, Any], kind: type[Struct], path: str, dropped: list[Dropped]) -> Struct:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        place = f"{path}.{field.encode_name}"
        if field.encode_name in value:
            fields[field.name] = _convert(value[field.encode_name], field.type, place, dropped)
        elif field.required:
            raise ValidationError(f"Object missing required field at {place}", place)
    return kind(**fields)


def _repair_list(value: list[Any], kind: Any, path: str, dropped: list[Dropped]) -> list[Any]:
    kept: list[Any] = []
    for index, entry in enumerate(value):
        place = f"{path}[{index}]"
        try:
            kept.append(_convert(entry, kind, place, dropped))
        except ValidationError as error:
            dropped.append(Dropped(place, str(error), entry))
    return kept


def _repair_union(value: Any, arms: tuple[Any, ...], path: str, dropped: list[Dropped], misfit: ValidationError) -> Any:
    blocks = [arm for arm in arms if _is_struct(arm) and issubclass(arm, Block)]
    if isinstance(value, dict) and blocks:
        return _repair_block(value, blocks, path, dropped)
    others = [arm for arm in arms if arm not in (NoneType, UnsetType, *blocks)]
    if len(others) != 1:
        raise misfit
    return _convert(value, others[0], path, dropped)


def _repair_block(value: dict[str, Any], blocks: list[type[Block]], path: str, dropped: list[Dropped]) -> Any:
    known = next((block for block in blocks if block.type == value.get("type")), None)
    if known is not None:
        try:
            return _convert(value, known, path, dropped)
        except ValidationError:
            pass
    return UnknownContent(value)
