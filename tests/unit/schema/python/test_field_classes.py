"""Classes of fields, read for their members and described."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, NotRequired, Required, TypedDict, TypeVar

import jsonschema_rs
import pytest
import typing_extensions
from msgspec import Struct, field

from dragoman.errors import ValidationError
from dragoman.schema.python.annotations import Codec
from dragoman.schema.python.field_classes import ClassField, reader_for, resolved_hints, substitute
from dragoman.schema.python.shapes import to_builtins

T = TypeVar("T")


def members_of(kind):
    hints, _ = resolved_hints(kind, {})
    return reader_for(kind)(kind, hints).fields


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
        ClassField("needed", "needed", int),
        ClassField("given", "given", str, False, "x"),
        ClassField("made", "made", list[int], False, []),
        ClassField("computed", "computed", dict[str, int], False, {"a": 1}),
    ]


def test_dataclasses_are_sent_with_what_they_compute():
    @dataclasses.dataclass
    class Data:
        secret: dataclasses.InitVar[str]
        needed: int
        given: str = "x"
        computed: int = dataclasses.field(init=False, default=0)

        def __post_init__(self, secret: str) -> None:
            self.computed = len(secret)

    codec = Codec(Data, "it", for_output=True)
    assert codec.schema == {
        "type": "object",
        "properties": {
            "needed": {"type": "integer"},
            "given": {"type": "string", "default": "x"},
            "computed": {"type": "integer"},
        },
        "required": ["needed"],
    }
    assert to_builtins(Data("abc", 1)) == {"needed": 1, "given": "x", "computed": 3}


def test_structs_have_the_members_of_their_json():
    class Data(Struct, rename="camel", kw_only=True):
        given_name: str = "x"
        needed: int
        made: list[int] = []
        computed: dict[str, int] = field(default_factory=lambda: {"a": 1})

    assert members_of(Data) == [
        ClassField("given_name", "givenName", str, False, "x"),
        ClassField("needed", "needed", int),
        ClassField("made", "made", list[int], False, []),
        ClassField("computed", "computed", dict[str, int], False, {"a": 1}),
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

    assert members_of(Typed) == [ClassField("a", "a", int), ClassField("b", "b", str, False, "x")]
    assert members_of(namedtuple("Untyped", "a b")) == [ClassField("a", "a", Any), ClassField("b", "b", Any)]


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


class Place(NamedTuple):
    path: Path
    mark: int = 1


class Entry(Struct, tag="entry", array_like=True):
    path: Path


class Sealed(Struct, tag=1, forbid_unknown_fields=True):
    path: Path
    note: str = ""


@dataclasses.dataclass
class Boxed(Generic[T]):
    content: T
    path: Path = Path()


@dataclasses.dataclass
class BoxedNumber(Boxed[int]):
    pass


@pytest.mark.parametrize(
    ("kind", "plain", "value"),
    [
        (Place, ["p"], Place(Path("p"))),
        (Entry, ["entry", "p"], Entry(Path("p"))),
        (Sealed, {"type": 1, "path": "p"}, Sealed(Path("p"))),
        (Boxed[int], {"content": 1, "path": "p"}, Boxed(1, Path("p"))),
        (Boxed[list[T]][int], {"content": [1]}, Boxed([1])),
        (BoxedNumber, {"content": 1}, BoxedNumber(1)),
    ],
)
def test_what_msgspec_cannot_decode_is_made_through_a_stand_in(kind, plain, value):
    codec = Codec(kind, "it")
    assert codec.convert(plain) == value
    jsonschema_rs.Draft202012Validator(codec.schema, offline=True).validate(plain)


def test_a_stand_in_is_as_strict_as_the_class():
    with pytest.raises(ValidationError, match="unknown field `more`"):
        Codec(Sealed, "it").convert({"type": 1, "path": "p", "more": 1})


def test_local_names_are_found_only_where_they_are_needed():
    @dataclasses.dataclass
    class Local:
        other: "Elsewhere"  # noqa: F821

    assert resolved_hints(Sealed, {}) == ({"path": Path, "note": str}, False)
    assert resolved_hints(Local, {"Elsewhere": int}) == ({"other": int}, True)
    with pytest.raises(NameError):
        resolved_hints(Local, {})


def test_a_class_without_fields_is_an_object():
    @dataclasses.dataclass
    class Nothing:
        pass

    assert Codec(Nothing, "it").schema == {"type": "object", "properties": {}}


def test_what_has_no_variables_is_not_substituted():
    assert substitute(int, {}) is int
    assert substitute(list[int], {}) == list[int]
    assert substitute(T, {T: int}) is int
    assert substitute(list[T], {T: int}) == list[int]
    assert substitute(Boxed, {T: int}) is Boxed
    assert substitute(T, {}) is T
