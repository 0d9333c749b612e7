"""Results as plain JSON, and how the arms of a union are chosen."""

import dataclasses
import datetime as dt
import enum
import json
from collections import OrderedDict, deque
from decimal import Decimal
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec
import pydantic
import pytest

from dragoman.schema.python.annotations import AnnotationReader
from dragoman.schema.python.shapes import Problem, Shape, encode_hook, problem_of, to_builtins, value_lookup


class Color(enum.Enum):
    RED = "red"
    HALF = 0.5


class Pair(NamedTuple):
    a: int
    b: Path


@dataclasses.dataclass
class Held:
    path: Path
    model: object


class Kitten(pydantic.BaseModel):
    kind: Literal["kitten"]


class Puppy(pydantic.BaseModel):
    kind: Literal["puppy"]


class Model(pydantic.BaseModel):
    when: dt.date
    renamed: int = pydantic.Field(1, serialization_alias="other")


@pydantic.dataclasses.dataclass
class PydanticData:
    a: int


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        ("text", "text"),
        (Path("/tmp"), "/tmp"),
        (PurePosixPath("p"), "p"),
        (Model(when=dt.date(2026, 1, 1)), {"when": "2026-01-01", "other": 1}),
        (PydanticData(1), {"a": 1}),
        (pydantic.HttpUrl("https://example.com"), "https://example.com/"),
        ([Color.RED, Color.HALF], ["red", 0.5]),
        (Pair(1, Path("p")), [1, "p"]),
        (Held(Path("p"), Model(when=dt.date(2026, 1, 1))), {"path": "p", "model": {"when": "2026-01-01", "other": 1}}),
        ({1: b"hi", Path("p"): Decimal("1.5")}, {"1": "aGk=", "p": "1.5"}),
        (deque([1, 2]), [1, 2]),
        ({"a": 1}.keys(), ["a"]),
        (MappingProxyType({"a": Path("p")}), {"a": "p"}),
        (OrderedDict(a=1), {"a": 1}),
        (dt.timedelta(minutes=1), "PT60S"),
    ],
)
def test_a_result_has_a_plain_form(value, plain):
    assert json.loads(json.dumps(to_builtins(value))) == plain
    assert json.loads(msgspec.json.encode(value, enc_hook=encode_hook)) == plain


@pytest.mark.parametrize("value", [object(), iter([]), 1j, print])
def test_what_has_no_json_form_says_so(value):
    with pytest.raises(TypeError, match="cannot be encoded as JSON; return a dataclass"):
        to_builtins(value)


def test_a_place_is_taken_off_a_message():
    assert problem_of("Expected `int`") == Problem("", "Expected `int`")
    assert problem_of("No - at `$.b[0]` - at `$[1].a`", "items") == Problem("items[1].a.b[0]", "No")
    assert problem_of("No - at `key` in `$.a`") == Problem("a", "No")
    assert str(problem_of("No - at `$[1]`")) == "[1]: No"
    assert str(problem_of("No")) == "No"


def test_lookup_tells_equal_values_of_different_types_apart():
    find = value_lookup([(1, "integer"), (True, "boolean"), (1.0, "number")])
    assert [find(value) for value in (1, True, 1.0)] == ["integer", "boolean", "number"]
    for value in ("1", [1], {}):
        with pytest.raises(ValueError, match="Invalid enum value"):
            find(value)


def test_a_union_that_nothing_fits_says_why_for_each_arm():
    shape = AnnotationReader().shape(list[dt.date | dt.time])
    with pytest.raises(msgspec.ValidationError) as caught:
        shape.convert(["soon"])
    assert str(caught.value) == "Invalid RFC3339 encoded date; or Invalid RFC3339 encoded time - at `$[0]`"


def test_a_union_says_where_in_an_arm_it_does_not_fit():
    @dataclasses.dataclass
    class A:
        a: int

    @dataclasses.dataclass
    class B:
        b: list[int]

    with pytest.raises(msgspec.ValidationError) as caught:
        AnnotationReader().shape(A | B).convert({"b": ["x"]})
    assert str(caught.value) == ("Expected `int`, got `str` at b[0]; or Object missing required field `a`")


def test_integers_are_kept_apart_from_floats():
    convert = AnnotationReader().shape(float | int | dt.date | str).convert
    assert [type(convert(value)) for value in (1, 1.5, "x", "2026-01-01")] == [int, float, str, dt.date]


def test_what_cannot_be_in_a_set_does_not_fit():
    assert not AnnotationReader().shape(set).accepts([[1]])


@dataclasses.dataclass
class Node:
    value: int
    nodes: "list[Node] | None" = None


@pytest.mark.parametrize(
    ("annotation", "value", "paths"),
    [
        (int, "x", [""]),
        (list[int], ["x", 1, "y"], ["[0]", "[2]"]),
        (tuple[int, int], ["x", "y"], ["[0]", "[1]"]),
        (tuple[int, int], [1], [""]),
        (dict[str, int], {"a b": "x"}, ["['a b']"]),
        (list[int], {"a": "x"}, [""]),
        (dict[str, int], ["x"], [""]),
        (Node, {"nodes": [{"value": "x"}, 5]}, ["value", "nodes[0].value", "nodes[1]"]),
        (Node | list[int], ["x"], ["[0]"]),
        (Node | list[int], "x", [""]),
        (Model, {"when": "x"}, ["when"]),
        (list[Model], [{}], ["[0].when"]),
        (list, 5, [""]),
        (set, [[]], [""]),
    ],
)
def test_every_problem_has_its_place(annotation, value, paths):
    assert [problem.path for problem in AnnotationReader().shape(annotation).problems(value)] == paths


def test_what_a_record_has_no_field_for_may_have_a_shape():
    integer = AnnotationReader().shape(int)
    shape = Shape(kind=dict, schema={"type": "object"}, fields={"a": integer}, required=["a"], item=integer)
    assert [str(problem) for problem in shape.problems_within({"b": "x", "c": 1}, "")] == [
        "a: Missing required field",
        "b: Expected `int`, got `str`",
    ]


def test_a_value_is_accepted_or_not():
    shape = AnnotationReader().shape(dt.date | str)
    assert shape.accepts("x")
    assert not shape.accepts(1)
    assert list(shape.problems("x")) == []
