"""Defaults of parameters and fields, and which of them a JSON Schema lists.

A schema lists the default of a factory only if each call of the factory gives the same value. A factory may count, read
a clock or open a file, so it is not called to find that out: it must be a builtin type, a function that uses no names,
such as `lambda: [1, 2]`, or a class whose own factories are of these kinds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from types import CodeType
from typing import Any

from msgspec import UNSET, Struct

from dragoman.schema.python.shapes import Shape, find_non_finite, to_builtins
from dragoman.types import Json

_WRONG_TYPE = re.compile(r"Expected `[^`]*`, got |Invalid enum value")
"""Errors of msgspec that do not concern a limit."""
_PLAIN_TYPES = (list, dict, set, frozenset, tuple, str, int, float, bool)


class DefaultFactory(Struct, frozen=True):
    """A default that is made for each call."""

    make: Callable[[], Any]


def constant_default(factory: Callable[[], Any]) -> Any:
    """Return the default that a factory makes, UNSET if it may not be the same for each call."""
    try:
        return factory() if _is_constant(factory) else UNSET
    except Exception:
        return UNSET  # the class needs arguments; an instance cannot be made without them later either


def _is_constant(factory: Any) -> bool:
    if isinstance(factory, type):
        inner = list(_inner_factories(factory))
        return factory in _PLAIN_TYPES or (bool(inner) and all(part is None or _is_constant(part) for part in inner))
    code = getattr(factory, "__code__", None)
    return isinstance(code, CodeType) and not code.co_freevars and not _uses_names(code)


def _uses_names(code: CodeType) -> bool:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return bool(code.co_names) or any(map(_uses_names, inner))


def _inner_factories(kind: Any) -> Iterator[Any]:
    """Yield the default factory of each field of a class, None for a field without one; nothing for other classes."""
    if getattr(kind, "__post_init__", None) is not None:
        return
    if issubclass(kind, Struct):
        yield from (getattr(default, "factory", None) for default in kind.__struct_defaults__)
    elif hasattr(kind, "__dataclass_fields__"):
        missing = sys.modules["dataclasses"].MISSING
        factories = (field.default_factory for field in kind.__dataclass_fields__.values())
        yield from (None if factory is missing else factory for factory in factories)
    elif hasattr(kind, "__pydantic_validator__") and getattr(kind, "__pydantic_post_init__", None) is None:
        yield from (field.default_factory for field in kind.model_fields.values())


def misfit_of(default: Any, shape: Shape) -> str | None:
    """Return why a default is not of the type of its annotation, None if it is.

    Limits are not compared, because a default beyond the limits can stand for a missing value. Nor are values that are
    not plain, because they need not be read from JSON.
    """
    value = _plain(default)
    if value is UNSET:
        return None
    if shape.find_problems is not None:
        return None if shape.may_fit(value) else f"Got `{type(default).__name__}`"
    return next((str(problem) for problem in shape.problems(value) if _WRONG_TYPE.match(problem.reason)), None)


def _plain(value: Any) -> Any:
    """Return a value as JSON types, UNSET if a part of it is neither a JSON type nor an enumeration member."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        parts = {str(key): _plain(part) for key, part in value.items()}
        return UNSET if UNSET in parts.values() else parts
    if isinstance(value, list | tuple | set | frozenset):
        items = [_plain(part) for part in value]
        return UNSET if UNSET in items else items
    return UNSET


def with_default(schema: Json, default: Any) -> Json:
    """Return a schema with a default, if there is one and JSON has a form for it."""
    if isinstance(default, DefaultFactory):
        default = constant_default(default.make)
    if default is UNSET:
        return schema
    try:
        value = to_builtins(default)
    except (TypeError, ValueError, RecursionError):
        return schema
    return schema if find_non_finite(value) is not None else {**schema, "default": value}
