"""The shape of an annotation: the type that msgspec decodes, its JSON Schema, and its parts.

msgspec decodes most annotations as they are. For others (two dataclasses in a union, `datetime | str`, a path, a
pydantic model) the shape has a stand-in type: msgspec decodes plain JSON for it and calls `decode_hook`, which calls
the `convert` of the stand-in. The metaclass of a stand-in accepts every isinstance check, because a converted value is
not an instance of the stand-in. The parts of a shape serve only to find all problems of a value that does not fit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import repeat
from math import isfinite
from numbers import Integral, Real
from typing import Annotated, Any, NoReturn, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct

from dragoman.errors import ValidationError
from dragoman.schema.walk import TYPES, kinds_of, type_of
from dragoman.types import Json

MAX_CHOICES = 20
"""The greatest number of choices that a problem lists."""
PLAIN_FORMS = {
    "DataFrame": ('frame.to_dict("records")', "list[dict]"),
    "Series": ("series.to_list()", "list"),
    "ndarray": ("array.tolist()", "list"),
}
"""The plain form of values of pandas, polars and numpy, by the name of their class, and its annotation."""
_AT = r" - at `(?:key` in `)?\$([^`]*)`$"


class Problem(Struct, frozen=True):
    """One problem of a value: its path, such as `items[2].name`, and the reason."""

    path: str
    reason: str
    missing: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class _AcceptsEveryInstance(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True


def stand_in_type(name: str, convert: Callable[[Any], Any] | None = None) -> Any:
    """Return a type that msgspec passes to `decode_hook`; `convert` returns the value of plain JSON."""
    made: Any = _AcceptsEveryInstance(name, (), {})
    made.convert = convert
    return made


def decode_hook(kind: Any, value: Any) -> Any:
    """Convert a value by a stand-in type, for msgspec's `dec_hook`."""
    try:
        return kind.convert(value)
    except msgspec.ValidationError as error:
        # msgspec adds the outer path to a ValueError, and not to its own errors.
        raise ValueError(str(error)) from None


class Shape(Struct, kw_only=True, eq=False):
    """The type, the schema and the parts of an annotation."""

    kind: Any
    """The type that msgspec decodes."""
    schema: Json
    native: bool = True
    """Whether `kind` is the annotation itself."""
    item: Shape | None = None
    """The entries of an array, the values of a mapping, or the members of an object that have no field."""
    places: Sequence[Shape] | None = None
    """The entries of an array with one shape for each place."""
    fields: dict[str, Shape] | None = None
    required: Sequence[str] = ()
    arms: tuple[Shape, ...] = ()
    find_problems: Callable[[Any], list[Problem]] | None = None
    """Finds the problems of a value that pydantic reads, because msgspec cannot find them."""

    def convert(self, value: Any) -> Any:
        """Return the Python value of plain JSON.

        Raises:
            msgspec.ValidationError: the value does not fit.
        """
        try:
            return msgspec.convert(value, self.kind, dec_hook=decode_hook, str_keys=True)
        except TypeError as error:
            # msgspec raises a TypeError only for an unhashable member of a set.
            raise msgspec.ValidationError(str(error)) from None

    def problems(self, value: Any, path: str = "") -> Iterator[Problem]:
        """Yield all problems of plain JSON, in the order of the annotation."""
        try:
            self.convert(value)
        except msgspec.ValidationError as error:
            within = self.problems_within(value, path)
            yield next(within, None) or self._with_choices(problem_of(str(error), path))
            yield from within

    def _with_choices(self, problem: Problem) -> Problem:
        """Add the values to choose from to a problem, if there are a few."""
        choices = self.schema.get("enum", ())
        if not 0 < len(choices) <= MAX_CHOICES:
            return problem
        return Problem(problem.path, f"{problem.reason}; use {' or '.join(map(repr, choices))}")

    def accepts(self, value: Any) -> bool:
        """Tell whether plain JSON fits."""
        try:
            self.convert(value)
        except msgspec.ValidationError:
            return False
        return True

    def problems_within(self, value: Any, path: str) -> Iterator[Problem]:
        """Yield the problems of the parts of a value."""
        if self.find_problems is not None:
            for problem in self.find_problems(value):
                yield Problem(_join(path, problem.path), problem.reason, problem.missing)
        elif self.arms:
            fitting = [arm for arm in self.arms if arm.is_alike(value)]
            if len(fitting) == 1:
                yield from fitting[0].problems(value, path)
        elif isinstance(value, dict) and self.fields is not None:
            yield from self._problems_in_fields(value, path)
        elif not self.may_fit(value):
            return  # an object has no array entries, and an array has no members
        elif isinstance(value, dict) and self.item is not None:
            for key, part in value.items():
                yield from self.item.problems(part, f"{path}[{key!r}]")
        elif isinstance(value, list):
            for index, (part, shape) in enumerate(self._entries(value)):
                yield from shape.problems(part, f"{path}[{index}]")

    def _entries(self, value: list[Any]) -> Iterator[tuple[Any, Shape]]:
        """Return the entries of an array that have a shape, with their shapes."""
        if self.places is not None:
            return zip(value, self.places, strict=False)
        return zip(value, repeat(self.item), strict=False) if self.item is not None else iter(())

    def _problems_in_fields(self, value: Json, path: str) -> Iterator[Problem]:
        assert self.fields is not None
        for key, shape in self.fields.items():
            if key in value:
                yield from shape.problems(value[key], _join(path, key))
            elif key in self.required:
                yield Problem(_join(path, key), "Missing required field", missing=True)
        if self.item is not None:
            for key in [key for key in value if key not in self.fields]:
                yield from self.item.problems(value[key], _join(path, key))

    def is_alike(self, value: Any) -> bool:
        """Tell whether both the value and this shape are objects, or both are arrays."""
        kind = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else None
        return bool(self.schema) and kind in self.json_types()

    def may_fit(self, value: Any) -> bool:
        """Tell whether a value has one of the JSON types that fit."""
        kind, fitting = type_of(value), self.json_types()
        return kind in fitting or (kind == "integer" and "number" in fitting)

    def json_types(self) -> frozenset[str]:
        """Return the JSON types of the values that may fit."""
        if self.arms:
            return frozenset().union(*(arm.json_types() for arm in self.arms))
        if self.fields is not None:
            return frozenset({"object"})
        return frozenset({"array"}) if self.places is not None else _types(self.schema)


def _types(schema: Json) -> frozenset[str]:
    if named := kinds_of(schema):
        return frozenset(named)
    arms = schema.get("anyOf") or schema.get("oneOf")
    return frozenset().union(*map(_types, arms)) if arms else frozenset(TYPES)


def _join(path: str, tail: str) -> str:
    return f"{path}{tail}" if not path or not tail or tail[0] in ".[" else f"{path}.{tail}"


def problem_of(message: str, path: str = "") -> Problem:
    """Return the problem of an error message of msgspec, which may name several places, the innermost first."""
    tail = ""
    while found := re.search(_AT, message):
        message, tail = message[: found.start()], tail + found[1]
    return Problem(_join(path, tail.removeprefix(".")), message)


def first_fit(arms: Sequence[Shape]) -> Callable[[Any], Any]:
    """Return a conversion that tries the arms of a union in order.

    `float` comes after `int`, `str` after all more precise types, then `bytes`, because many words are valid base64,
    then types that accept anything.
    """
    ordered = sorted(arms, key=_precedence)
    by_type: dict[type, list[Shape]] = {}

    def convert(value: Any) -> Any:
        fitting = by_type.get(type(value))
        if fitting is None:
            fitting = by_type[type(value)] = [arm for arm in ordered if arm.may_fit(value)] or ordered
        reasons: list[str] = []
        for arm in _nearest(fitting, value) if isinstance(value, dict) else fitting:
            try:
                return arm.convert(value)
            except msgspec.ValidationError as error:
                reasons.append(re.sub(_AT, r" at \1", str(error)).replace(" at .", " at "))
        raise ValueError("; or ".join(dict.fromkeys(reasons)))

    return convert


def _precedence(arm: Shape) -> int:
    kind = get_args(arm.kind)[0] if get_origin(arm.kind) is Annotated else arm.kind
    return len(_IMPRECISE) if not arm.schema else _IMPRECISE.get(kind, 0)


_IMPRECISE = {float: 1, str: 2, bytes: 3, bytearray: 3}


def _nearest(arms: Sequence[Shape], value: Json) -> list[Shape]:
    """Return the arms sorted by the number of members of the object for which they have no field."""
    return sorted(arms, key=lambda arm: len(value.keys() - arm.fields.keys()) if arm.fields is not None else 0.5)


def value_lookup(members: Iterable[tuple[Any, Any]]) -> Callable[[Any], Any]:
    """Return a conversion from JSON values to members; `1`, `1.0` and `true` are three values."""
    by_value = {(type(value), value): member for value, member in members}

    def convert(value: Any) -> Any:
        if not isinstance(value, list | dict) and (type(value), value) in by_value:
            return by_value[type(value), value]
        raise ValueError(f"Invalid enum value {value!r}")

    return convert


def is_accepted(kind: Any) -> bool:
    """Tell whether msgspec can decode a type."""
    try:
        msgspec.json.Decoder(kind, dec_hook=decode_hook)
    except Exception:
        return False
    return True


def union_of(*kinds: Any) -> Any:
    """Return the union of types that are known only at run time."""
    return cast("Any", Union)[kinds]


def to_builtins(value: Any) -> Any:
    """Return a value as plain JSON values.

    Raises:
        TypeError: JSON has no form for a part of the value.
    """
    return msgspec.to_builtins(value, enc_hook=encode_hook, str_keys=True)


def find_non_finite(value: Any, path: str = "$") -> tuple[str, float] | None:
    """Return the first NaN or infinity in plain JSON values, with its path; JSON has no form for them."""
    if isinstance(value, float):
        return None if isfinite(value) else (path, value)
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        parts = ((f"{path}.{key}", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{path}[{index}]", part) for index, part in enumerate(value))
    return next((place for name, part in parts if (place := find_non_finite(part, name)) is not None), None)


def encode_json(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        TypeError: JSON has no form for a part of the value.
        ValidationError: the value has a NaN or an infinity, which msgspec alone would encode as null.
    """
    data = _encoder.encode(value)
    if b"null" in data and (place := find_non_finite(to_builtins(value))) is not None:
        path, number = place
        raise ValidationError(f"{path} is {number}, which JSON cannot express: use None or text instead", path)
    return data


def encode_hook(value: Any) -> Any:
    """Return an encodable form of a value that msgspec cannot encode, for msgspec's `enc_hook`.

    Raises:
        TypeError: JSON has no form for the value.
    """
    if isinstance(value, Real):  # msgspec takes only the exact types; subclasses and numpy's numbers come here
        return int(value) if isinstance(value, Integral) else float(value)
    if hasattr(type(value), "__get_pydantic_core_schema__") and "pydantic" in sys.modules:
        return _adapter(cast("Hashable", type(value))).dump_python(value, mode="json", by_alias=True)
    if hasattr(type(value), "__fspath__"):
        return value.__fspath__()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | Set):
        return list(value)
    return _refuse(value)


def _refuse(value: Any) -> NoReturn:
    kind = type(value)
    form = PLAIN_FORMS.get(kind.__name__, ("a dataclass, a TypedDict, a Struct, a pydantic model or plain values", ""))[
        0
    ]
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be encoded as JSON; return {form}")


_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


@cache
def _adapter(kind: Hashable) -> Any:
    return sys.modules["pydantic"].TypeAdapter(kind)
