"""Classes of fields, read for their members and described."""

import dataclasses
from typing import Any, ClassVar, NamedTuple, NotRequired, Required, TypedDict

import typing_extensions
from msgspec import UNSET, Struct, field

from dragoman.server.annotations import Codec
from dragoman.server.records import Member, hints_of, reader_for, substituted


def members_of(kind):
    hints, _ = hints_of(kind, {})
    return reader_for(kind)(kind, hints).members


def test_dataclasses_have_the_members_of_their_constructor():
    @dataclasses.dataclass
    class Data:
        shared: ClassVar[int] = 1
        needed: int
        given: str = "x"
        made: list[int] = dataclasses.field(default_factory=list)
        computed: dict[str, int] = dataclasses.field(default_factory=lambda: {"a": 1})
        inner: int = dataclasses.field(init=False)

    assert members_of(Data) == [
        Member("needed", "needed", int),
        Member("given", "given", str, False, "x"),
        Member("made", "made", list[int], False, []),
        Member("computed", "computed", dict[str, int], False, UNSET),
    ]


def test_structs_have_the_members_of_their_json():
    class Data(Struct, rename="camel", kw_only=True):
        given_name: str = "x"
        needed: int
        made: list[int] = []
        computed: dict[str, int] = field(default_factory=lambda: {"a": 1})

    assert members_of(Data) == [
        Member("given_name", "givenName", str, False, "x"),
        Member("needed", "needed", int),
        Member("made", "made", list[int], False, []),
        Member("computed", "computed", dict[str, int], False, UNSET),
    ]


def test_typed_dictionaries_have_required_and_other_members():
    class Base(TypedDict):
        a: int
        b: NotRequired[int]

    class Data(Base, total=False):
        c: Required[int]
        d: int

    assert [(member.name, member.annotation, member.required) for member in members_of(Data)] == [
        ("a", int, True),
        ("b", int, False),
        ("c", int, True),
        ("d", int, False),
    ]


def test_typed_dictionaries_of_another_make_are_read():
    class Data(typing_extensions.TypedDict):
        a: typing_extensions.ReadOnly[NotRequired[int]]
        b: "NotRequired[int]"

    assert [(member.annotation, member.required) for member in members_of(Data)] == [(int, False), (int, False)]


def test_named_tuples_may_be_without_annotations():
    from collections import namedtuple

    class Typed(NamedTuple):
        a: int
        b: str = "x"

    assert members_of(Typed) == [Member("a", "a", int), Member("b", "b", str, False, "x")]
    assert members_of(namedtuple("Untyped", "a b")) == [Member("a", "a", Any), Member("b", "b", Any)]


def test_other_classes_are_no_records():
    assert reader_for(int) is None
    assert reader_for(tuple) is None
    assert reader_for(dict) is None


def test_fields_are_described_by_the_docstring_of_their_class():
    class Data(Struct):
        """What is known.

        Attributes:
            a: The first.
        """

        a: int
        b: int

    assert Codec(Data, "it").schema == {
        "description": "What is known.",
        "type": "object",
        "properties": {"a": {"description": "The first.", "type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }


def test_a_class_without_fields_is_an_object():
    @dataclasses.dataclass
    class Nothing:
        pass

    assert Codec(Nothing, "it").schema == {"type": "object", "properties": {}}


def test_what_has_no_variables_is_not_substituted():
    assert substituted(int, {}) is int
    assert substituted(list[int], {}) == list[int]
