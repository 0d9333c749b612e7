"""Values of the wire types themselves, as hypothesis strategies: any field of any version together with any other."""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from schemas.generator import Instances, free_values, numbers, objects, texts

_PLAIN: dict[Any, Instances] = {
    Any: free_values,
    Raw: free_values.map(lambda value: Raw(msgspec.json.encode(value))),
    NoneType: st.none(),
    UnsetType: st.just(UNSET),
    bool: st.booleans(),
    int: st.integers(),
    float: numbers,
    str: texts,
}


@cache
def values(kind: Any) -> Instances:
    """Return a strategy for the values of a type that the wire types use."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=2)
    if origin is dict:
        return objects(values(arguments[1]))
    return _structs(kind)


def _structs(kind: type[msgspec.Struct]) -> Instances:
    fields = {field.name: values(field.type) for field in msgspec.structs.fields(kind)}
    return st.fixed_dictionaries(fields).map(lambda members: kind(**members))
