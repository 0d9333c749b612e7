from __future__ import annotations

import inspect
import os

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import types
from dragoman.types import Dropped, decode
from schemas.structs import values

STRUCTS = [
    kind
    for kind in (getattr(types, name) for name in types.__all__)
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind is not Dropped
]


@pytest.mark.parametrize("kind", STRUCTS)
@settings(
    max_examples=int(os.environ.get("DRAGOMAN_EXAMPLES", "15")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_decoding_what_was_encoded_gives_the_same_struct(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    struct = data.draw(values(kind))
    dropped: list[Dropped] = []
    again = decode(msgspec.json.encode(struct), kind, dropped)
    assert again == struct
    assert msgspec.json.encode(again) == msgspec.json.encode(struct)
    assert not dropped


@pytest.mark.parametrize("kind", STRUCTS)
def test_no_optional_field_is_sent_unless_it_is_set(kind: type[msgspec.Struct]) -> None:
    required = {field.encode_name: field for field in msgspec.structs.fields(kind) if field.required}
    smallest = kind(**{field.name: None for field in required.values()})
    tag = {kind.__struct_config__.tag_field} - {None}
    assert msgspec.to_builtins(smallest).keys() == required.keys() | tag
