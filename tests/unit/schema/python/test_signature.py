"""How functions become schemas and calls: a table of signatures, and what a table cannot show."""

import datetime as dt
import enum
import functools
import inspect
import json
import pickle
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import annotated_types
import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from dragoman.errors import DefinitionError
from dragoman.schema.python.annotations import UnresolvedName
from dragoman.schema.python.shapes import Problem
from dragoman.schema.python.signature import ArgumentsRejected, Signature

if TYPE_CHECKING:
    from somewhere import Missing


T = TypeVar("T")
K = TypeVar("K", bound=str)
N = TypeVar("N", int, float)

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
NUMBER = {"type": "number"}
NULL = {"type": "null"}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Ratio(enum.Enum):
    HALF = 0.5
    AUTO = None
    FULL = True


@dataclass
class Point:
    """A place on the plane.

    Attributes:
        x: To the right.
    """

    x: int
    y: int = 0


@dataclass
class Named:
    name: str
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    value: int
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class MixedTree:
    label: dt.date | str
    parent: "MixedTree | None" = None
    nearest: "list[MixedTree | int]" = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Counted(Box[int]):
    secret: InitVar[str] = ""
    computed: int = field(init=False, default=7)
    revealed: str = field(init=False, default="")

    def __post_init__(self, secret: str) -> None:
        if self.content < 0:
            raise ValueError("there is no negative content")
        self.revealed = secret


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Loose(TypedDict, total=False):
    when: dt.datetime | str
    where: Path


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Located(NamedTuple):
    place: Path
    marks: list[int] = []  # noqa: RUF012


class Circle(Struct, tag="circle"):
    radius: float


class Square(Struct, tag="square", forbid_unknown_fields=True):
    side_length: int = msgspec.field(name="sideLength")


class Folder(Struct, tag=1, tag_field="kind"):
    path: Path
    items: list[str] = []
    note: str | UnsetType = UNSET


class Row3(Struct, array_like=True, tag="row"):
    a: int
    b: Path | None = None


class Owner(BaseModel):
    name: str
    title: str = "Dr"


class Pet(BaseModel):
    """An animal at home."""

    model_config = pydantic.ConfigDict(strict=True)

    born: dt.date
    owners: tuple[Owner, ...] = ()
    parent: "Pet | None" = None


UserId = NewType("UserId", int)
Celsius = TypeAliasType("Celsius", float)
Json = TypeAliasType("Json", Union[dict[str, "Json"], list["Json"], int, str, None])  # noqa: UP007
Twice = TypeAliasType("Twice", tuple[T, T], type_params=(T,))


def no_parameters():
    return locals()


def two_integers(a: int, b: int = 3):
    return locals()


def scalars(text: str, count: int, ratio: float, flag: bool, nothing: None):
    return locals()


def unannotated(first, second=None):
    return locals()


def anything(value: Any, thing: object):
    return locals()


def containers(a: list[int], b: dict[str, float], c: set[str], d: frozenset[int], e: tuple[int, ...]):
    return locals()


def bare_containers(a: list, b: dict, c: set, d: tuple):
    return locals()


def abstract_containers(a: Sequence[int], b: Mapping[str, int], c: Iterable[int]):
    return locals()


def tuples(pair: tuple[int, str], empty: tuple[()], paths: tuple[Path, int]):
    return locals()


def dictionaries(by_number: dict[int, str], by_color: dict[Color, int], by_path: dict[Path, int]):
    return locals()


def binary(data: bytes):
    return locals()


def moments(when: dt.datetime, day: dt.date, hour: dt.time, length: dt.timedelta):
    return locals()


def precise(key: uuid.UUID, price: Decimal):
    return locals()


def paths(where: Path, others: list[Path]):
    return locals()


def literals(tone: Literal["terse", "kind"], level: Literal[1, 2], flag: Literal[True], mixed: Literal[1, "a", None]):
    return locals()


def enumerated_literals(color: Literal[Color.RED], size: Literal[Size.SMALL, "other"]):
    return locals()


def enumerations(color: Color, size: Size):
    return locals()


def unusual_enumerations(ratio: Ratio):
    return locals()


def optionals(a: int | None, b: Optional[str] = None, c: list[int] | None = None):  # noqa: UP045
    return locals()


def implicitly_optional(limit: int = None, point: Point = None):  # noqa: RUF013
    return locals()


def native_unions(a: int | str, b: int | float | list[int]):
    return locals()


def moment_or_text(value: dt.datetime | str):
    return locals()


def enumeration_or_text(value: str | Color):
    return locals()


def integer_or_enumeration(value: Size | int):
    return locals()


def text_or_binary(value: str | bytes):
    return locals()


def two_dataclasses(value: Named | Point | None):
    return locals()


def one_or_many(value: list[Point] | Point):
    return locals()


def two_lists(value: list[int] | list[Color] | dict[str, int] | Point):
    return locals()


def dataclasses_inside(points: list[Point], by_name: dict[str, Point], one: Point = Point(1, 2)):  # noqa: B008
    return locals()


def recursive(tree: Tree):
    return locals()


def recursive_and_mixed(tree: MixedTree):
    return locals()


def generic_dataclasses(number: Box[int], inner: Box[Box[Path]], bare: Box):
    return locals()


def awkward_dataclass(counted: Counted):
    return locals()


def typed_dictionaries(movie: Movie, loose: Loose):
    return locals()


def named_tuples(pair: Pair, located: Located):
    return locals()


def tagged_structs(shape: Circle | Square):
    return locals()


def rewritten_structs(folder: Folder, row: Row3):
    return locals()


def meta_constraints(
    age: Annotated[int, Meta(ge=0, le=150, description="In years.", examples=[3])],
    name: Annotated[str, Meta(min_length=1, max_length=5, pattern="^[a-z]+$")],
    tags: Annotated[list[str], Meta(max_length=2)],
    extra: Annotated[dict[str, int], Meta(min_length=1)],
    when: Annotated[dt.datetime, Meta(tz=True)],
):
    return locals()


def foreign_constraints(
    half: Annotated[float, annotated_types.Interval(gt=0, lt=1)],
    step: Annotated[int, annotated_types.MultipleOf(5)],
    few: Annotated[list[int], annotated_types.Len(0, 2)],
):
    return locals()


def constrained_unions(
    a: Annotated[int | None, Meta(ge=1)],
    b: Annotated[int | str, annotated_types.Ge(1), annotated_types.MaxLen(2)],
    c: Annotated[dt.date | str, annotated_types.MaxLen(10)],
):
    return locals()


def described(a: Annotated[int, "The first."], b: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "B"})]):
    """Do it.

    Args:
        a: Not this one.
        b: The second,
            over two lines.
    """
    return locals()


def new_types(user: UserId, users: list[UserId]):
    return locals()


def aliases(heat: Celsius, pair: Twice[int]):
    return locals()


def recursive_alias(value: Json):
    return locals()


def type_variables(a: T, b: K, c: N):
    return locals()


def positional_only(a: int, b: int = 2, /, c: int = 3):
    return locals()


def keyword_only(a: int, *, b: int, c: str = "c"):
    return locals()


def collects(a: int, **others: int):
    return locals()


def collects_anything(**others):
    return locals()


def mutable_defaults(a: list[int] = [1], b: dict[str, int] = {}, c: Point = Point(5)):  # noqa: B006, B008
    return locals()


def odd_names(from_: str, _b: int, __c: int, self: int, _private: int = 3):
    return locals()


def models(pet: Pet, owner: Owner):
    return locals()


def model_unions(value: Owner | Point | list[Owner]):
    return locals()


def fields(
    a: int = Field(5, ge=0, description="How many."),
    b: Annotated[str, Field(pattern="^x", max_length=3, default="x")] = "x",
    c: str = Field(alias="sea"),
    d: list[int] = Field(default_factory=list),  # noqa: B008
):
    return locals()


def pydantic_types(
    url: pydantic.HttpUrl,
    trimmed: Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)],
    strict: Annotated[int, Field(strict=True)],
):
    return locals()


POINT = {
    "description": "A place on the plane.",
    "type": "object",
    "properties": {"x": {"description": "To the right.", "type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
NAMED = {
    "type": "object",
    "properties": {"name": STRING, "tags": {"type": "array", "items": STRING, "default": []}},
    "required": ["name"],
}
OWNER = {
    "type": "object",
    "properties": {"name": STRING, "title": {"type": "string", "default": "Dr"}},
    "required": ["name"],
}
POINT_REFERENCE = {"$ref": "#/$defs/Point"}


class Row(NamedTuple):
    """A function, its properties (all required unless said), and calls that fit, do not fit and are mended."""

    function: Callable[..., Any]
    properties: dict[str, Any]
    good: tuple[Any, dict[str, Any]]
    bad: tuple[Any, list[str]]
    mended: tuple[Any, dict[str, Any]] | None = None
    required: list[str] | None = None
    definitions: dict[str, Any] | None = None
    others: Any = None


TABLE = [
    Row(no_parameters, {}, ({}, {}), ([], [""]), (None, {})),
    Row(
        two_integers,
        {"a": INTEGER, "b": {"type": "integer", "default": 3}},
        ({"a": 1, "unknown": 0}, {"a": 1, "b": 3}),
        ({"b": "x"}, ["a", "b"]),
        ({"a": "1", "b": 2.0}, {"a": 1, "b": 2}),
        required=["a"],
    ),
    Row(
        scalars,
        {"text": STRING, "count": INTEGER, "ratio": NUMBER, "flag": {"type": "boolean"}, "nothing": NULL},
        (
            {"text": "1", "count": 2, "ratio": 3, "flag": True, "nothing": None},
            {"text": "1", "count": 2, "ratio": 3.0, "flag": True, "nothing": None},
        ),
        (
            {"text": 1, "count": 1.5, "ratio": "x", "flag": 1, "nothing": 0},
            ["text", "count", "ratio", "flag", "nothing"],
        ),
        (
            {"text": "5", "count": "2.0", "ratio": "3.5", "flag": "true", "nothing": "null"},
            {"text": "5", "count": 2, "ratio": 3.5, "flag": True, "nothing": None},
        ),
    ),
    Row(
        unannotated,
        {"first": {}, "second": {"default": None}},
        ({"first": [1, {"a": None}]}, {"first": [1, {"a": None}], "second": None}),
        ({"second": 1}, ["first"]),
        required=["first"],
    ),
    Row(
        anything,
        {"value": {}, "thing": {}},
        ({"value": "5", "thing": {"a": [1]}}, {"value": "5", "thing": {"a": [1]}}),
        ({}, ["value", "thing"]),
    ),
    Row(
        containers,
        {
            "a": {"type": "array", "items": INTEGER},
            "b": {"type": "object", "additionalProperties": NUMBER},
            "c": {"type": "array", "items": STRING, "uniqueItems": True},
            "d": {"type": "array", "items": INTEGER, "uniqueItems": True},
            "e": {"type": "array", "items": INTEGER},
        },
        (
            {"a": [1], "b": {"x": 1.5}, "c": ["p"], "d": [2], "e": [3, 4]},
            {"a": [1], "b": {"x": 1.5}, "c": {"p"}, "d": frozenset({2}), "e": (3, 4)},
        ),
        (
            {"a": [1, "x", 2, "y"], "b": {"p q": "?"}, "c": [1], "d": 5, "e": ["z"]},
            ["a[1]", "a[3]", "b['p q']", "c[0]", "d", "e[0]"],
        ),
        (
            {"a": "[1, 2.0]", "b": '{"x": "1"}', "c": '["5"]', "d": ["2"], "e": [3.0]},
            {"a": [1, 2], "b": {"x": 1.0}, "c": {"5"}, "d": frozenset({2}), "e": (3,)},
        ),
    ),
    Row(
        bare_containers,
        {
            "a": {"type": "array"},
            "b": {"type": "object"},
            "c": {"type": "array", "uniqueItems": True},
            "d": {"type": "array"},
        },
        ({"a": [1], "b": {"x": "y"}, "c": ["z"], "d": [None]}, {"a": [1], "b": {"x": "y"}, "c": {"z"}, "d": (None,)}),
        ({"a": {}, "b": [], "c": 1, "d": "x"}, ["a", "b", "c", "d"]),
        (
            {"a": "[]", "b": "{}", "c": '["1"]', "d": "[1]"},
            {"a": [], "b": {}, "c": {"1"}, "d": (1,)},
        ),
    ),
    Row(
        abstract_containers,
        {
            "a": {"type": "array", "items": INTEGER},
            "b": {"type": "object", "additionalProperties": INTEGER},
            "c": {"type": "array", "items": INTEGER},
        },
        ({"a": [1], "b": {"x": 1}, "c": [2]}, {"a": [1], "b": {"x": 1}, "c": [2]}),
        ({"a": 1, "b": {"x": "?"}, "c": ["?"]}, ["a", "b['x']", "c[0]"]),
        ({"a": ["1"], "b": "{}", "c": "[2]"}, {"a": [1], "b": {}, "c": [2]}),
    ),
    Row(
        tuples,
        {
            "pair": {"type": "array", "items": False, "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, STRING]},
            "empty": {"type": "array", "items": False, "minItems": 0, "maxItems": 0},
            "paths": {
                "type": "array",
                "items": False,
                "minItems": 2,
                "maxItems": 2,
                "prefixItems": [{"type": "string", "format": "path"}, INTEGER],
            },
        },
        (
            {"pair": [1, "a"], "empty": [], "paths": ["p", 2]},
            {"pair": (1, "a"), "empty": (), "paths": (Path("p"), 2)},
        ),
        ({"pair": [1, 2], "empty": [1], "paths": [3, 4]}, ["pair[1]", "empty", "paths[0]"]),
        (
            {"pair": ["1", "5"], "empty": "[]", "paths": ["3", "4"]},
            {"pair": (1, "5"), "empty": (), "paths": (Path("3"), 4)},
        ),
    ),
    Row(
        dictionaries,
        {
            "by_number": {
                "type": "object",
                "propertyNames": {"pattern": "^-?[0-9]+$"},
                "additionalProperties": STRING,
            },
            "by_color": {
                "type": "object",
                "propertyNames": {"type": "string", "enum": ["red", "blue"]},
                "additionalProperties": INTEGER,
            },
            "by_path": {
                "type": "object",
                "propertyNames": {"type": "string", "format": "path"},
                "additionalProperties": INTEGER,
            },
        },
        (
            {"by_number": {"1": "a"}, "by_color": {"red": 1}, "by_path": {"p": 2}},
            {"by_number": {1: "a"}, "by_color": {Color.RED: 1}, "by_path": {Path("p"): 2}},
        ),
        (
            {"by_number": {"x": "a"}, "by_color": {"green": 1}, "by_path": {"p": "?"}},
            ["by_number", "by_color", "by_path['p']"],
        ),
        (
            {"by_number": {"1": "2"}, "by_color": '{"red": 1}', "by_path": {"p": "2"}},
            {"by_number": {1: "2"}, "by_color": {Color.RED: 1}, "by_path": {Path("p"): 2}},
        ),
    ),
    Row(
        binary,
        {"data": {"type": "string", "contentEncoding": "base64"}},
        ({"data": "aGk="}, {"data": b"hi"}),
        ({"data": "?"}, ["data"]),
    ),
    Row(
        moments,
        {
            "when": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "hour": {"type": "string", "format": "time"},
            "length": {"type": "string", "format": "duration"},
        },
        (
            {"when": "2026-07-28T12:00:00Z", "day": "2026-07-28", "hour": "12:00:00", "length": "PT5M"},
            {
                "when": dt.datetime(2026, 7, 28, 12, tzinfo=dt.UTC),
                "day": dt.date(2026, 7, 28),
                "hour": dt.time(12),
                "length": dt.timedelta(minutes=5),
            },
        ),
        ({"when": "soon", "day": 1, "hour": "noon", "length": "long"}, ["when", "day", "hour", "length"]),
    ),
    Row(
        precise,
        {"key": {"type": "string", "format": "uuid"}, "price": {"type": "string", "format": "decimal"}},
        (
            {"key": "00000000-0000-0000-0000-000000000001", "price": "1.10"},
            {"key": uuid.UUID(int=1), "price": Decimal("1.10")},
        ),
        ({"key": "1", "price": "much"}, ["key", "price"]),
    ),
    Row(
        paths,
        {
            "where": {"type": "string", "format": "path"},
            "others": {"type": "array", "items": {"type": "string", "format": "path"}},
        },
        ({"where": "/tmp", "others": ["a"]}, {"where": Path("/tmp"), "others": [Path("a")]}),
        ({"where": 1, "others": ["a", 2]}, ["where", "others[1]"]),
        ({"where": "[1]", "others": '["a"]'}, {"where": Path("[1]"), "others": [Path("a")]}),
    ),
    Row(
        literals,
        {
            "tone": {"type": "string", "enum": ["terse", "kind"]},
            "level": {"type": "integer", "enum": [1, 2]},
            "flag": {"type": "boolean", "enum": [True]},
            "mixed": {"enum": [1, "a", None]},
        },
        (
            {"tone": "kind", "level": 2, "flag": True, "mixed": None},
            {"tone": "kind", "level": 2, "flag": True, "mixed": None},
        ),
        ({"tone": "rude", "level": 3, "flag": False, "mixed": "1"}, ["tone", "level", "flag", "mixed"]),
        (
            {"tone": "kind", "level": "2", "flag": "true", "mixed": "a"},
            {"tone": "kind", "level": 2, "flag": True, "mixed": "a"},
        ),
    ),
    Row(
        enumerated_literals,
        {"color": {"type": "string", "enum": ["red"]}, "size": {"enum": [1, "other"]}},
        ({"color": "red", "size": 1}, {"color": Color.RED, "size": Size.SMALL}),
        ({"color": "blue", "size": [1]}, ["color", "size"]),
    ),
    Row(
        enumerations,
        {"color": {"type": "string", "enum": ["red", "blue"]}, "size": {"type": "integer", "enum": [1, 2]}},
        ({"color": "blue", "size": 2}, {"color": Color.BLUE, "size": Size.LARGE}),
        ({"color": "BLUE", "size": 3}, ["color", "size"]),
        ({"color": "red", "size": "1"}, {"color": Color.RED, "size": Size.SMALL}),
    ),
    Row(
        unusual_enumerations,
        {"ratio": {"enum": [0.5, None, True]}},
        ({"ratio": 0.5}, {"ratio": Ratio.HALF}),
        ({"ratio": 1}, ["ratio"]),
        ({"ratio": "null"}, {"ratio": Ratio.AUTO}),
    ),
    Row(
        optionals,
        {
            "a": {"anyOf": [INTEGER, NULL]},
            "b": {"anyOf": [STRING, NULL], "default": None},
            "c": {"anyOf": [{"type": "array", "items": INTEGER}, NULL], "default": None},
        },
        ({"a": None, "b": "null"}, {"a": None, "b": "null", "c": None}),
        ({"a": "x", "b": 1, "c": [1, "x"]}, ["a", "b", "c[1]"]),
        ({"a": "null", "b": "null", "c": "[1]"}, {"a": None, "b": "null", "c": [1]}),
        required=["a"],
    ),
    Row(
        implicitly_optional,
        {
            "limit": {"anyOf": [INTEGER, NULL], "default": None},
            "point": {"anyOf": [POINT_REFERENCE, NULL], "default": None},
        },
        ({"limit": None}, {"limit": None, "point": None}),
        ({"limit": "x", "point": {}}, ["limit", "point.x"]),
        ({"point": '{"x": 1}'}, {"limit": None, "point": Point(1)}),
        required=[],
        definitions={"Point": POINT},
    ),
    Row(
        native_unions,
        {
            "a": {"anyOf": [INTEGER, STRING]},
            "b": {"anyOf": [INTEGER, NUMBER, {"type": "array", "items": INTEGER}]},
        },
        ({"a": "5", "b": 1.0}, {"a": "5", "b": 1.0}),
        ({"a": 1.5, "b": [1, "?"]}, ["a", "b[1]"]),
        ({"a": "5", "b": "[1]"}, {"a": "5", "b": [1]}),
    ),
    Row(
        moment_or_text,
        {"value": {"anyOf": [{"type": "string", "format": "date-time"}, STRING]}},
        ({"value": "2026-07-28T12:00:00Z"}, {"value": dt.datetime(2026, 7, 28, 12, tzinfo=dt.UTC)}),
        ({"value": 5}, ["value"]),
    ),
    Row(
        enumeration_or_text,
        {"value": {"anyOf": [STRING, {"type": "string", "enum": ["red", "blue"]}]}},
        ({"value": "red"}, {"value": Color.RED}),
        ({"value": None}, ["value"]),
    ),
    Row(
        integer_or_enumeration,
        {"value": {"anyOf": [{"type": "integer", "enum": [1, 2]}, INTEGER]}},
        ({"value": 2}, {"value": Size.LARGE}),
        ({"value": "x"}, ["value"]),
        ({"value": "7"}, {"value": 7}),
    ),
    Row(
        text_or_binary,
        {"value": {"anyOf": [STRING, {"type": "string", "contentEncoding": "base64"}]}},
        ({"value": "test"}, {"value": "test"}),
        ({"value": 1}, ["value"]),
    ),
    Row(
        two_dataclasses,
        {"value": {"anyOf": [{"$ref": "#/$defs/Named"}, POINT_REFERENCE, NULL]}},
        ({"value": {"x": 1}}, {"value": Point(1)}),
        ({"value": {"z": 1}}, ["value"]),
        ({"value": '{"name": "n"}'}, {"value": Named("n")}),
        definitions={"Named": NAMED, "Point": POINT},
    ),
    Row(
        one_or_many,
        {"value": {"anyOf": [{"type": "array", "items": POINT_REFERENCE}, POINT_REFERENCE]}},
        ({"value": [{"x": 1}]}, {"value": [Point(1)]}),
        ({"value": [{"x": 1}, {"x": "?", "y": "?"}]}, ["value[1].x", "value[1].y"]),
        ({"value": {"x": "1"}}, {"value": Point(1)}),
        definitions={"Point": POINT},
    ),
    Row(
        two_lists,
        {
            "value": {
                "anyOf": [
                    {"type": "array", "items": INTEGER},
                    {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
                    {"type": "object", "additionalProperties": INTEGER},
                    POINT_REFERENCE,
                ]
            }
        },
        ({"value": ["red"]}, {"value": [Color.RED]}),
        ({"value": ["green"]}, ["value"]),
        ({"value": '{"x": 1, "z": 2}'}, {"value": {"x": 1, "z": 2}}),
        definitions={"Point": POINT},
    ),
    Row(
        dataclasses_inside,
        {
            "points": {"type": "array", "items": POINT_REFERENCE},
            "by_name": {"type": "object", "additionalProperties": POINT_REFERENCE},
            "one": {"$ref": "#/$defs/Point", "default": {"x": 1, "y": 2}},
        },
        (
            {"points": [{"x": 1}], "by_name": {"a": {"x": 2, "y": 3}}},
            {"points": [Point(1)], "by_name": {"a": Point(2, 3)}, "one": Point(1, 2)},
        ),
        (
            {"points": [{"x": 1}, {}], "by_name": {"a": {"x": "?"}}, "one": {"y": None}},
            ["points[1].x", "by_name['a'].x", "one.x", "one.y"],
        ),
        (
            {"points": '[{"x": "1"}]', "by_name": {}, "one": {"x": 1.0}},
            {"points": [Point(1)], "by_name": {}, "one": Point(1)},
        ),
        required=["points", "by_name"],
        definitions={"Point": POINT},
    ),
    Row(
        recursive,
        {"tree": {"$ref": "#/$defs/Tree"}},
        ({"tree": {"value": 1, "children": [{"value": 2}]}}, {"tree": Tree(1, [Tree(2)])}),
        (
            {"tree": {"value": 1, "children": [{"children": [{}]}]}},
            ["tree.children[0].value"] * 0
            + [
                "tree.children[0].value",
                "tree.children[0].children[0].value",
            ],
        ),
        ({"tree": {"value": 1, "children": [{"value": "2"}]}}, {"tree": Tree(1, [Tree(2)])}),
        definitions={
            "Tree": {
                "type": "object",
                "properties": {
                    "value": INTEGER,
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
                },
                "required": ["value"],
            }
        },
    ),
    Row(
        recursive_and_mixed,
        {"tree": {"$ref": "#/$defs/MixedTree"}},
        (
            {"tree": {"label": "2026-01-01", "parent": {"label": "root"}, "nearest": [3, {"label": "n"}]}},
            {"tree": MixedTree(dt.date(2026, 1, 1), MixedTree("root"), [3, MixedTree("n")])},
        ),
        (
            {"tree": {"label": 1, "parent": {"label": 2}, "nearest": ["x"]}},
            ["tree.label", "tree.parent.label", "tree.nearest[0]"],
        ),
        ({"tree": '{"label": "[1]", "nearest": "[1.0]"}'}, {"tree": MixedTree("[1]", None, [1])}),
        definitions={
            "MixedTree": {
                "type": "object",
                "properties": {
                    "label": {"anyOf": [{"type": "string", "format": "date"}, STRING]},
                    "parent": {"anyOf": [{"$ref": "#/$defs/MixedTree"}, NULL], "default": None},
                    "nearest": {
                        "type": "array",
                        "items": {"anyOf": [{"$ref": "#/$defs/MixedTree"}, INTEGER]},
                        "default": [],
                    },
                },
                "required": ["label"],
            }
        },
    ),
    Row(
        generic_dataclasses,
        {
            "number": {"$ref": "#/$defs/Box_int"},
            "inner": {"$ref": "#/$defs/Box_Box_Path"},
            "bare": {"$ref": "#/$defs/Box"},
        },
        (
            {"number": {"content": 1}, "inner": {"content": {"content": "p"}}, "bare": {"content": None}},
            {"number": Box(1), "inner": Box(Box(Path("p"))), "bare": Box(None)},
        ),
        (
            {"number": {"content": "x"}, "inner": {"content": {}}, "bare": 1},
            ["number.content", "inner.content.content", "bare"],
        ),
        (
            {"number": {"content": "1"}, "inner": '{"content": {"content": "p"}}', "bare": {"content": "1"}},
            {"number": Box(1), "inner": Box(Box(Path("p"))), "bare": Box("1")},
        ),
        definitions={
            "Box_int": {"type": "object", "properties": {"content": INTEGER}, "required": ["content"]},
            "Box_Box_Path": {
                "type": "object",
                "properties": {"content": {"$ref": "#/$defs/Box_Path"}},
                "required": ["content"],
            },
            "Box_Path": {
                "type": "object",
                "properties": {"content": {"type": "string", "format": "path"}},
                "required": ["content"],
            },
            "Box": {"type": "object", "properties": {"content": {}}, "required": ["content"]},
        },
    ),
    Row(
        awkward_dataclass,
        {"counted": {"$ref": "#/$defs/Counted"}},
        (
            {"counted": {"content": 1, "secret": "s", "computed": 9}},
            {"counted": Counted(1, "s")},
        ),
        ({"counted": {"content": -1}}, ["counted"]),
        ({"counted": {"content": "1"}}, {"counted": Counted(1)}),
        definitions={
            "Counted": {
                "type": "object",
                "properties": {"content": INTEGER, "secret": {"type": "string", "default": ""}},
                "required": ["content"],
            }
        },
    ),
    Row(
        typed_dictionaries,
        {"movie": {"$ref": "#/$defs/Movie"}, "loose": {"$ref": "#/$defs/Loose"}},
        (
            {"movie": {"title": "t"}, "loose": {"when": "2026-01-01T00:00:00Z"}},
            {"movie": {"title": "t"}, "loose": {"when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}},
        ),
        (
            {"movie": {"year": "x"}, "loose": {"when": 1, "where": 2}},
            ["movie.title", "movie.year", "loose.when", "loose.where"],
        ),
        (
            {"movie": {"title": "1", "year": "2"}, "loose": '{"where": "p"}'},
            {"movie": {"title": "1", "year": 2}, "loose": {"where": Path("p")}},
        ),
        definitions={
            "Movie": {"type": "object", "properties": {"title": STRING, "year": INTEGER}, "required": ["title"]},
            "Loose": {
                "type": "object",
                "properties": {
                    "when": {"anyOf": [{"type": "string", "format": "date-time"}, STRING]},
                    "where": {"type": "string", "format": "path"},
                },
            },
        },
    ),
    Row(
        named_tuples,
        {"pair": {"$ref": "#/$defs/Pair"}, "located": {"$ref": "#/$defs/Located"}},
        ({"pair": [1], "located": ["p", [1]]}, {"pair": Pair(1), "located": Located(Path("p"), [1])}),
        ({"pair": [1, 2], "located": [3]}, ["pair[1]", "located[0]"]),
        ({"pair": "[1]", "located": ["p"]}, {"pair": Pair(1), "located": Located(Path("p"))}),
        definitions={
            "Pair": {
                "type": "array",
                "prefixItems": [
                    {"description": "left", "type": "integer"},
                    {"description": "right", "type": "string", "default": "r"},
                ],
                "items": False,
                "minItems": 1,
                "maxItems": 2,
            },
            "Located": {
                "type": "array",
                "prefixItems": [
                    {"description": "place", "type": "string", "format": "path"},
                    {"description": "marks", "type": "array", "items": INTEGER, "default": []},
                ],
                "items": False,
                "minItems": 1,
                "maxItems": 2,
            },
        },
    ),
    Row(
        tagged_structs,
        {"shape": {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]}},
        ({"shape": {"type": "square", "sideLength": 2}}, {"shape": Square(2)}),
        ({"shape": {"type": "triangle"}}, ["shape.type"]),
        ({"shape": '{"type": "circle", "radius": 2}'}, {"shape": Circle(2.0)}),
        definitions={
            "Circle": {
                "type": "object",
                "properties": {"type": {"type": "string", "enum": ["circle"]}, "radius": NUMBER},
                "required": ["type", "radius"],
            },
            "Square": {
                "type": "object",
                "properties": {"type": {"type": "string", "enum": ["square"]}, "sideLength": INTEGER},
                "required": ["type", "sideLength"],
                "additionalProperties": False,
            },
        },
    ),
    Row(
        rewritten_structs,
        {"folder": {"$ref": "#/$defs/Folder"}, "row": {"$ref": "#/$defs/Row3"}},
        (
            {"folder": {"kind": 1, "path": "p"}, "row": ["row", 1, "q"]},
            {"folder": Folder(Path("p")), "row": Row3(1, Path("q"))},
        ),
        ({"folder": {"kind": 1, "path": 2, "note": 3}, "row": ["row", "x"]}, ["folder.path", "folder.note", "row[1]"]),
        (
            {"folder": '{"kind": 1, "path": "p", "note": "n"}', "row": ["row", "1"]},
            {"folder": Folder(Path("p"), note="n"), "row": Row3(1)},
        ),
        definitions={
            "Folder": {
                "type": "object",
                "properties": {
                    "kind": {"type": "integer", "enum": [1]},
                    "path": {"type": "string", "format": "path"},
                    "items": {"type": "array", "items": STRING, "default": []},
                    "note": STRING,
                },
                "required": ["kind", "path"],
            },
            "Row3": {
                "type": "array",
                "prefixItems": [
                    {"type": "string", "enum": ["row"]},
                    {"description": "a", "type": "integer"},
                    {"description": "b", "anyOf": [{"type": "string", "format": "path"}, NULL], "default": None},
                ],
                "items": False,
                "minItems": 2,
                "maxItems": 3,
            },
        },
    ),
    Row(
        meta_constraints,
        {
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "description": "In years.", "examples": [3]},
            "name": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"},
            "tags": {"type": "array", "items": STRING, "maxItems": 2},
            "extra": {"type": "object", "additionalProperties": INTEGER, "minProperties": 1},
            "when": {"type": "string", "format": "date-time"},
        },
        (
            {"age": 3, "name": "abc", "tags": ["x"], "extra": {"a": 1}, "when": "2026-01-01T00:00:00Z"},
            {
                "age": 3,
                "name": "abc",
                "tags": ["x"],
                "extra": {"a": 1},
                "when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            },
        ),
        (
            {"age": -1, "name": "ABC", "tags": ["a", "b", "c"], "extra": {}, "when": "2026-01-01T00:00:00"},
            ["age", "name", "tags", "extra", "when"],
        ),
        (
            {"age": "3", "name": "abc", "tags": "[]", "extra": '{"a": 1.0}', "when": "2026-01-01T00:00:00Z"},
            {"age": 3, "name": "abc", "tags": [], "extra": {"a": 1}, "when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
        ),
    ),
    Row(
        foreign_constraints,
        {
            "half": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "step": {"type": "integer", "multipleOf": 5},
            "few": {"type": "array", "items": INTEGER, "maxItems": 2},
        },
        ({"half": 0.5, "step": 10, "few": [1, 2]}, {"half": 0.5, "step": 10, "few": [1, 2]}),
        ({"half": 1, "step": 7, "few": [1, 2, 3]}, ["half", "step", "few"]),
        ({"half": "0.5", "step": 5.0, "few": "[1]"}, {"half": 0.5, "step": 5, "few": [1]}),
    ),
    Row(
        constrained_unions,
        {
            "a": {"anyOf": [{"type": "integer", "minimum": 1}, NULL]},
            "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 2}]},
            "c": {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "maxLength": 10}]},
        },
        ({"a": None, "b": "ab", "c": "2026-01-01"}, {"a": None, "b": "ab", "c": dt.date(2026, 1, 1)}),
        ({"a": 0, "b": "abc", "c": "not so short"}, ["a", "b", "c"]),
        ({"a": "1", "b": 1, "c": "x"}, {"a": 1, "b": 1, "c": "x"}),
    ),
    Row(
        described,
        {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "string", "x-mcp-header": "B", "description": "The second, over two lines."},
        },
        ({"a": 1, "b": "b"}, {"a": 1, "b": "b"}),
        ({"a": None, "b": None}, ["a", "b"]),
        ({"a": "1", "b": "2"}, {"a": 1, "b": "2"}),
    ),
    Row(
        new_types,
        {"user": INTEGER, "users": {"type": "array", "items": INTEGER}},
        ({"user": 1, "users": [2]}, {"user": 1, "users": [2]}),
        ({"user": "x", "users": [1, "x"]}, ["user", "users[1]"]),
        ({"user": "1", "users": "[2]"}, {"user": 1, "users": [2]}),
    ),
    Row(
        aliases,
        {
            "heat": NUMBER,
            "pair": {"type": "array", "items": False, "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, INTEGER]},
        },
        ({"heat": 1.5, "pair": [1, 2]}, {"heat": 1.5, "pair": (1, 2)}),
        ({"heat": "hot", "pair": [1, "x"]}, ["heat", "pair[1]"]),
        ({"heat": "1.5", "pair": ["1", 2.0]}, {"heat": 1.5, "pair": (1, 2)}),
    ),
    Row(
        recursive_alias,
        {"value": {"$ref": "#/$defs/Json"}},
        ({"value": {"a": [1, {"b": None}]}}, {"value": {"a": [1, {"b": None}]}}),
        ({"value": {"a": [1, 1.5]}}, ["value['a'][1]"]),
        definitions={
            "Json": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
                    {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                    INTEGER,
                    STRING,
                    NULL,
                ]
            }
        },
    ),
    Row(
        type_variables,
        {"a": {}, "b": STRING, "c": {"anyOf": [INTEGER, NUMBER]}},
        ({"a": [1], "b": "b", "c": 1.5}, {"a": [1], "b": "b", "c": 1.5}),
        ({"b": 1, "c": "x"}, ["a", "b", "c"]),
        ({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2", "c": 3}),
    ),
    Row(
        positional_only,
        {"a": INTEGER, "b": {"type": "integer", "default": 2}, "c": {"type": "integer", "default": 3}},
        ({"a": 1, "c": 5}, {"a": 1, "b": 2, "c": 5}),
        ({"b": None}, ["a", "b"]),
        ({"a": "1"}, {"a": 1, "b": 2, "c": 3}),
        required=["a"],
    ),
    Row(
        keyword_only,
        {"a": INTEGER, "b": INTEGER, "c": {"type": "string", "default": "c"}},
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": "c"}),
        ({"c": 1}, ["a", "b", "c"]),
        ({"a": "1", "b": "2", "c": "3"}, {"a": 1, "b": 2, "c": "3"}),
        required=["a", "b"],
    ),
    Row(
        collects,
        {"a": INTEGER},
        ({"a": 1, "x": 2}, {"a": 1, "others": {"x": 2}}),
        ({"a": 1, "x": "?", "y": None}, ["x", "y"]),
        ({"a": 1, "x": "2"}, {"a": 1, "others": {"x": 2}}),
        others=INTEGER,
    ),
    Row(
        collects_anything,
        {},
        ({"x": 2, "y": [1]}, {"others": {"x": 2, "y": [1]}}),
        (1, [""]),
        ('{"x": "1"}', {"others": {"x": "1"}}),
    ),
    Row(
        mutable_defaults,
        {
            "a": {"type": "array", "items": INTEGER, "default": [1]},
            "b": {"type": "object", "additionalProperties": INTEGER, "default": {}},
            "c": {"$ref": "#/$defs/Point", "default": {"x": 5, "y": 0}},
        },
        ({}, {"a": [1], "b": {}, "c": Point(5)}),
        ({"a": 1, "b": 1, "c": 1}, ["a", "b", "c"]),
        ({"a": "[2]"}, {"a": [2], "b": {}, "c": Point(5)}),
        required=[],
        definitions={"Point": POINT},
    ),
    Row(
        odd_names,
        {"from_": STRING, "_b": INTEGER, "__c": INTEGER, "self": INTEGER},
        (
            {"from_": "f", "_b": 1, "__c": 2, "self": 3, "_private": 9},
            {"from_": "f", "_b": 1, "__c": 2, "self": 3, "_private": 3},
        ),
        ({"from_": 1}, ["from_", "_b", "__c", "self"]),
        (
            {"from_": "1", "_b": "1", "__c": "2", "self": "3"},
            {"from_": "1", "_b": 1, "__c": 2, "self": 3, "_private": 3},
        ),
    ),
    Row(
        models,
        {"pet": {"$ref": "#/$defs/Pet"}, "owner": {"$ref": "#/$defs/Owner"}},
        (
            {"pet": {"born": "2026-01-01", "owners": [{"name": "n"}]}, "owner": {"name": "o"}},
            {"pet": Pet(born=dt.date(2026, 1, 1), owners=(Owner(name="n"),)), "owner": Owner(name="o")},
        ),
        (
            {"pet": {"born": "soon", "owners": [{}]}, "owner": {"name": 1}},
            ["pet.born", "pet.owners[0].name", "owner.name"],
        ),
        (
            {"pet": '{"born": "2026-01-01"}', "owner": {"name": "1"}},
            {"pet": Pet(born=dt.date(2026, 1, 1)), "owner": Owner(name="1")},
        ),
        definitions={
            "Owner": OWNER,
            "Pet": {
                "description": "An animal at home.",
                "type": "object",
                "properties": {
                    "born": {"type": "string", "format": "date"},
                    "owners": {"type": "array", "items": {"$ref": "#/$defs/Owner"}, "default": []},
                    "parent": {"anyOf": [{"$ref": "#/$defs/Pet"}, NULL], "default": None},
                },
                "required": ["born"],
            },
        },
    ),
    Row(
        model_unions,
        {
            "value": {
                "anyOf": [
                    {"$ref": "#/$defs/Owner"},
                    POINT_REFERENCE,
                    {"type": "array", "items": {"$ref": "#/$defs/Owner"}},
                ]
            }
        },
        ({"value": {"x": 1}}, {"value": Point(1)}),
        ({"value": [{"name": "n"}, {"title": 3}]}, ["value[1].name", "value[1].title"]),
        ({"value": '[{"name": "n"}]'}, {"value": [Owner(name="n")]}),
        definitions={"Owner": OWNER, "Point": POINT},
    ),
    Row(
        fields,
        {
            "a": {"type": "integer", "minimum": 0, "description": "How many.", "default": 5},
            "b": {"type": "string", "pattern": "^x", "maxLength": 3, "default": "x"},
            "sea": STRING,
            "d": {"type": "array", "items": INTEGER, "default": []},
        },
        ({"sea": "s"}, {"a": 5, "b": "x", "c": "s", "d": []}),
        ({"a": -1, "b": "y", "c": "s"}, ["a", "b", "sea"]),
        ({"a": "7", "sea": "8"}, {"a": 7, "b": "x", "c": "8", "d": []}),
        required=["sea"],
    ),
    Row(
        pydantic_types,
        {
            "url": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
            "trimmed": {"type": "string", "minLength": 1},
            "strict": INTEGER,
        },
        (
            {"url": "https://example.com", "trimmed": " a ", "strict": 1},
            {"url": pydantic.HttpUrl("https://example.com"), "trimmed": "a", "strict": 1},
        ),
        ({"url": "?", "trimmed": " ", "strict": "x"}, ["url", "trimmed", "strict"]),
        (
            {"url": "https://example.com", "trimmed": "5", "strict": "1"},
            {"url": pydantic.HttpUrl("https://example.com"), "trimmed": "5", "strict": 1},
        ),
    ),
]


def schema_of(row):
    schema = {"type": "object", "properties": row.properties}
    required = list(row.properties) if row.required is None else row.required
    if required:
        schema["required"] = required
    if row.others is not None:
        schema["additionalProperties"] = row.others
    if row.definitions is not None:
        schema["$defs"] = row.definitions
    return schema


def call(function, arguments, signature=None):
    positional, keywords = (signature or Signature.of(function)).bind(Raw(json.dumps(arguments).encode()))
    return function(*positional, **keywords)


def typed(value):
    """Tell values apart that Python takes for equal."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    return type(value), value


by_function = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.function.__name__)


def test_the_table_is_long_enough():
    assert len(TABLE) >= 40


@by_function
def test_a_function_has_the_schema_that_its_annotations_say(row):
    assert Signature.of(row.function).input_schema == schema_of(row)


@by_function
def test_a_schema_is_valid_and_accepts_the_good_call(row):
    schema = Signature.of(row.function).input_schema
    validator = jsonschema_rs.Draft202012Validator(schema, offline=True)
    assert validator.is_valid(row.good[0])


@by_function
def test_a_call_that_fits_gives_the_function_its_values(row):
    arguments, received = row.good
    assert typed(call(row.function, arguments)) == typed(received)


@by_function
def test_a_call_that_does_not_fit_names_every_place(row):
    arguments, paths = row.bad
    for _ in range(2):
        with pytest.raises(ArgumentsRejected) as caught:
            call(row.function, arguments)
        assert [problem.path for problem in caught.value.problems] == paths
        assert all(problem.reason for problem in caught.value.problems)


@pytest.mark.parametrize("row", [row for row in TABLE if row.mended], ids=lambda row: row.function.__name__)
def test_a_call_that_plainly_means_something_is_mended(row):
    arguments, received = row.mended
    assert typed(call(row.function, arguments)) == typed(received)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["1", "[1]", "{}", "null", '{"x": 1}', "2026-01-01", "red"]),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(
            st.sampled_from(["x", "y", "name", "value", "content", "label", "type", "1"]), parts, max_size=3
        )
    ),
    max_leaves=8,
)
LAX = {"binary", "moments", "precise", "pydantic_types", "models", "awkward_dataclass", "bare_containers"}
"""Functions that refuse more than JSON Schema can say."""


@st.composite
def calls(draw):
    row = draw(st.sampled_from(TABLE))
    arguments = dict(draw(st.sampled_from([row.good[0], row.bad[0]])) or {}) if row.properties else {}
    for name in draw(st.lists(st.sampled_from([*row.properties, "another"]), max_size=3)):
        arguments[name] = draw(VALUES)
    return row, arguments


@given(calls())
def test_any_arguments_are_bound_or_rejected_and_what_the_schema_accepts_is_bound(made):
    row, arguments = made
    signature = Signature.of(row.function)
    try:
        call(row.function, arguments, signature)
    except ArgumentsRejected:
        fits = jsonschema_rs.Draft202012Validator(signature.input_schema, offline=True).is_valid(arguments)
        assert not fits or row.function.__name__ in LAX or "format" in str(signature.input_schema)


# What a table cannot show


def test_parameters_tell_name_need_description_and_schema():
    """Prompts are listed by them."""

    def review(code: str, tone: Literal["terse", "kind"] = "kind"):
        """Review.

        Args:
            code: What to review.
        """

    code, tone = Signature.of(review).parameters
    assert (code.name, code.required, code.description) == ("code", True, "What to review.")
    assert (tone.name, tone.required, tone.description) == ("tone", False, None)
    assert tone.schema == {"type": "string", "enum": ["terse", "kind"], "default": "kind"}


def test_no_arguments_and_null_are_an_empty_object():
    signature = Signature.of(lambda a=1: a)
    for arguments in (UNSET, None, Raw(b"{}"), Raw(b"null")):
        assert signature.bind(arguments, None) == ((1,), {})


def test_defaults_are_the_very_objects():
    default = [Point(1)]

    def function(points: list[Point] = default, where: Path = Path("x"), *, sentinel: Any = UNSET):
        return points, sentinel

    (points, where), keywords = Signature.of(function).bind(None)
    assert points is default
    assert where == Path("x")
    assert keywords == {"sentinel": UNSET}
    assert Signature.of(function).input_schema["properties"]["sentinel"] == {}


def test_a_default_without_a_json_form_is_not_shown():
    def function(a: Any = object()):  # noqa: B008
        return a

    signature = Signature.of(function)
    assert signature.input_schema == {"type": "object", "properties": {"a": {}}}
    assert signature.bind(None)[0] == (inspect.signature(function).parameters["a"].default,)


def test_a_message_says_what_is_missing_and_what_is_wrong():
    def function(a: int, b: int, c: int): ...

    with pytest.raises(ArgumentsRejected) as caught:
        Signature.of(function).bind(Raw(b'{"c": "x"}'))
    assert str(caught.value) == "Missing required arguments: a, b. Invalid arguments: c: Expected `int`, got `str`"
    assert caught.value.problems == (
        Problem("a", "Missing required field", missing=True),
        Problem("b", "Missing required field", missing=True),
        Problem("c", "Expected `int`, got `str`"),
    )
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_arguments_that_are_no_object_are_refused():
    with pytest.raises(ArgumentsRejected, match=r"^Invalid arguments: Expected `object`, got `array`$"):
        Signature.of(two_integers).bind(Raw(b"[]"))


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"first": ',
        b'{"first": "\xff"}',
        b'{"first": 1' + b"0" * 5000 + b"}",
        b'{"first": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"other": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
    ids=["truncated", "no Unicode", "huge number", "deep", "deep and ignored"],
)
def test_arguments_that_cannot_be_read_are_refused(arguments):
    with pytest.raises(ArgumentsRejected, match="The arguments cannot be read: "):
        Signature.of(unannotated).bind(Raw(arguments))


def test_no_more_problems_are_listed_than_anyone_reads():
    def function(numbers: list[int]): ...

    with pytest.raises(ArgumentsRejected) as caught:
        Signature.of(function).bind(Raw(json.dumps({"numbers": ["x"] * 1000}).encode()))
    assert len(caught.value.problems) == 100


def test_large_arguments_are_not_looked_through():
    def function(numbers: list[int]): ...

    signature = Signature.of(function)
    large = json.dumps({"numbers": list(range(100_000))}).encode()
    assert signature.bind(Raw(large)) == ((list(range(100_000)),), {})
    with pytest.raises(ArgumentsRejected) as caught:
        signature.bind(Raw(large.replace(b" 3,", b' "3",')))
    assert caught.value.problems == (Problem("numbers[3]", "Expected `int`, got `str`"),)


def test_what_only_the_decoder_refuses_is_still_placed():
    @dataclass
    class Fickle:
        value: int
        attempts = 0

        def __post_init__(self) -> None:
            Fickle.attempts += 1
            if Fickle.attempts <= 2:
                raise ValueError("not yet")

    def function(fickle: Fickle): ...

    with pytest.raises(ArgumentsRejected) as caught:
        Signature.of(function).bind(Raw(b'{"fickle": {"value": 1}}'))
    assert caught.value.problems == (Problem("fickle", "not yet"),)


def test_a_decimal_may_be_limited_where_pydantic_knows_how():
    def function(price: Annotated[Decimal, Field(ge=0)]): ...

    signature = Signature.of(function)
    assert signature.bind(Raw(b'{"price": "1.5"}')) == ((Decimal("1.5"),), {})
    with pytest.raises(ArgumentsRejected, match="price: Input should be greater than or equal to 0"):
        signature.bind(Raw(b'{"price": -1}'))


def test_the_nearest_of_several_models_is_chosen():
    class Small(BaseModel):
        a: int

    class Large(BaseModel):
        a: int
        b: int

    def function(value: Small | Large):
        return value

    assert call(function, {"value": {"a": 1, "b": 2}}) == Large(a=1, b=2)
    assert call(function, {"value": {"a": 1}}) == Small(a=1)


# What clients do not give


def given_by_the_server(parameter, *, is_async):
    if parameter.annotation is dt.date:
        return lambda call: f"{call} on {is_async}"
    if parameter.annotation is dt.time:
        raise DefinitionError("there is no time")
    return None


def test_what_has_a_source_is_given_at_its_position_or_by_its_name_and_not_offered():
    def function(first: dt.date, a: int, second: dt.date, /, b: int = 2, *, third: dt.date, c: int = 3): ...

    signature = Signature.of(function, source_of=given_by_the_server)
    made = "the call on False"
    assert signature.bind(Raw(b'{"a": 1}'), "the call") == ((made, 1, made, 2), {"third": made, "c": 3})
    assert list(signature.input_schema["properties"]) == ["a", "b", "c"]


def test_what_a_source_refuses_is_refused_by_name():
    def function(moment: dt.time): ...

    with pytest.raises(DefinitionError, match=r"function\(\) cannot be served .* 'moment': there is no time"):
        Signature.of(function, source_of=given_by_the_server)


def test_values_are_given_by_position_as_many_as_a_function_takes():
    def function(a, day: dt.date, b=[], *, c="kept"): ...  # noqa: B006

    signature = Signature.of(function, source_of=given_by_the_server)
    made = "None on False"
    assert signature.bind_values((1, 2, 3, 4)) == ((1, made, 2), {"c": 3})
    assert signature.bind_values((1,)) == ((1, made, []), {"c": "kept"})
    with pytest.raises(TypeError, match=r"function\(\) needs more values than the 0 that there are"):
        signature.bind_values(())


# What can be called


async def asynchronous(a: int) -> str: ...


class Callables:
    """Things to call."""

    def __call__(self, a: int) -> str:
        return f"{a}"

    def method(self, a: int) -> str:
        """Return the text."""
        return f"{a}"

    async def coroutine(self, a: int) -> str: ...

    @classmethod
    def of_class(cls, a: int) -> str:
        return f"{a}"

    @staticmethod
    def static(a: int) -> str:
        return f"{a}"


class AsyncCallable:
    async def __call__(self, a: int) -> str: ...


class Built:
    """Made of a number."""

    def __init__(self, a: int) -> None:
        self.a = a


def passing_on(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (two_integers, False),
        (asynchronous, True),
        (Callables(), False),
        (Callables().method, False),
        (Callables().coroutine, True),
        (Callables.of_class, False),
        (Callables.static, False),
        (AsyncCallable(), True),
        (functools.partial(two_integers, b=1), False),
        (functools.partial(asynchronous), True),
        (functools.partial(AsyncCallable()), True),
        (functools.partial(functools.partial(Callables().coroutine)), True),
        (passing_on(two_integers), False),
        (passing_on(asynchronous), True),
        (Built, False),
    ],
)
def test_all_that_can_be_called_has_a_signature(function, is_async):
    signature = Signature.of(function)
    assert signature.is_async is is_async
    assert signature.parameters[0].name == "a"
    assert signature.parameters[0].schema == INTEGER
    assert signature.bind(Raw(b'{"a": 1}'))[0][0] == 1


def test_what_a_partial_has_fixed_is_not_offered():
    def function(key: str, a: int, b: int = 2, c: int = 3):
        """Use a key."""
        return key, a, b, c

    fixed = functools.partial(function, "secret", b=5)
    signature = Signature.of(fixed)
    assert list(signature.input_schema["properties"]) == ["a", "c"]
    assert call(fixed, {"a": 1, "b": 9}) == ("secret", 1, 5, 3)
    assert signature.description == "Use a key."


def test_nothing_that_no_client_may_give_is_collected():
    class Service:
        def method(self, key: str, a: int, /, b: int = 0, *, ctx: dt.date, _cache: int = 5, **others: Any):
            return self, key, a, b, ctx, _cache, others

    service = Service()
    function = functools.partial(service.method, "secret", b=1)
    given = {"self": 0, "key": 0, "a": 2, "b": 0, "ctx": 0, "_cache": 0, "others": 3}
    positional, keywords = Signature.of(function, source_of=given_by_the_server).bind(
        Raw(json.dumps(given).encode()), "the call"
    )
    assert function(*positional, **keywords) == (service, "secret", 2, 1, "the call on False", 5, {"others": 3})


@pytest.mark.parametrize(
    ("function", "description"),
    [
        (two_integers, None),
        (described, "Do it."),
        (Callables(), "Things to call."),
        (Callables().method, "Return the text."),
        (functools.partial(two_integers), None),
        (Built, "Made of a number."),
        (passing_on(described), "Do it."),
    ],
)
def test_the_description_is_what_the_author_wrote(function, description):
    assert Signature.of(function).description == description


def test_the_return_annotation_is_resolved():
    def local() -> "Point": ...
    def hidden_away() -> "Missing": ...
    def nothing() -> None: ...

    assert Signature.of(asynchronous).returns is str
    assert Signature.of(local).returns is Point
    assert Signature.of(nothing).returns is type(None)
    assert Signature.of(two_integers).returns is UNSET
    assert isinstance(Signature.of(hidden_away).returns, UnresolvedName)
    assert Signature.of(hidden_away).returns.__name__ == "Missing"


def test_it_is_known_whether_anything_is_taken():
    assert Signature.of(collects).takes_any
    assert not Signature.of(two_integers).takes_any


# Names that are found elsewhere


def test_local_names_are_found_where_the_call_came_from():
    @dataclass
    class Inner:
        a: int

    @dataclass
    class Outer:
        inner: "Inner"

    def function(value: "Inner", other: "list[Outer]"):
        return value, other

    assert call(function, {"value": {"a": 1}, "other": []}, Signature.of(function)) == (Inner(1), [])
    found = call(function, {"value": {"a": 1}, "other": [{"inner": {"a": 2}}]}, Signature.of(function))
    assert found == (Inner(1), [Outer(Inner(2))])


def test_local_names_may_be_given():
    def function(value: "Elsewhere"):  # noqa: F821
        return value

    assert call(function, {"value": {"x": 1}}, Signature.of(function, localns={"Elsewhere": Point})) == Point(1)


def test_a_name_that_is_nowhere_is_refused_with_its_remedy():
    def function(value: "list[Missing]"): ...

    with pytest.raises(DefinitionError) as caught:
        Signature.of(function)
    assert str(caught.value) == (
        "test_a_name_that_is_nowhere_is_refused_with_its_remedy.<locals>.function() cannot be served because of its"
        " parameter 'value': Missing cannot be read from JSON: the name is not known at run time;"
        " import it outside `if TYPE_CHECKING:`"
    ).replace("test_a_name_that_is_nowhere_is_refused_with_its_remedy.<locals>.", "")


def test_a_class_whose_fields_name_what_is_nowhere_is_refused():
    @dataclass
    class Broken:
        a: "Missing"

    def function(value: Broken): ...

    with pytest.raises(DefinitionError, match="Broken cannot be read from JSON: name 'Missing' is not defined"):
        Signature.of(function)


def test_annotations_that_cannot_be_evaluated_are_refused():
    def function(value: "int +"): ...  # noqa: F722

    with pytest.raises(DefinitionError, match=r"^The annotations of function\(\) cannot be read: "):
        Signature.of(function)


@pytest.mark.parametrize("error", [NameError("no such luck"), NameError("no such luck", name="int")])
def test_a_name_error_that_no_name_mends_is_refused(error):
    class Unlucky:
        def __getitem__(self, item):
            raise error

    def function(value: "UNLUCKY[int]"): ...  # noqa: F821

    with pytest.raises(DefinitionError, match="no such luck"):
        Signature.of(function, localns={"UNLUCKY": Unlucky()})


# What is refused


class Plain:
    pass


def takes_positions(*args: int): ...


def takes_callable(f: Callable[[int], int]): ...


def takes_plain(p: Plain): ...


def takes_type(t: type[int]): ...


def takes_complex(c: complex): ...


def takes_badly_limited(a: Annotated[str, Meta(ge=1)]): ...


def takes_badly_limited_union(a: Annotated[list[int] | None, Meta(ge=1)]): ...


def takes_after_private(_a: int = 1, b: int = 2, /): ...


def takes_bad_enumeration(a: Literal[b"x"]): ...


class Empty(enum.Enum):
    pass


def takes_empty_enumeration(a: Empty): ...


def takes_unreadable_model(a: Annotated[Plain, pydantic.AfterValidator(id)]): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (takes_positions, "'args': arguments of a client have names"),
        (takes_callable, r"'f': collections.abc.Callable\[\[int\], int\] cannot be read from JSON: use a type"),
        (takes_plain, "'p': Plain cannot be read from JSON: make it a dataclass"),
        (takes_type, r"'t': type\[int\] cannot be read from JSON"),
        (takes_complex, "'c': complex cannot be read from JSON"),
        (takes_badly_limited, "'a': .*ge does not apply to this type"),
        (takes_badly_limited_union, "'a': .*ge does not apply to this type"),
        (takes_after_private, "'b': it takes a position, and follows one that no client gives"),
        (takes_bad_enumeration, "'a': .*its values must be strings, numbers, booleans or None"),
        (takes_empty_enumeration, "'a': Empty .*its values must be strings"),
        (takes_unreadable_model, "'a': .*pydantic says: "),
    ],
)
def test_what_cannot_be_served_is_refused_by_name_and_with_a_remedy(function, message):
    with pytest.raises(DefinitionError, match=rf"^{function.__name__}\(\) cannot be served because of its.*{message}"):
        Signature.of(function)


def test_what_has_no_signature_is_refused():
    with pytest.raises(DefinitionError, match=r"^type cannot be served: .*wrap it in a function"):
        Signature.of(type)


def test_what_msgspec_refuses_after_all_is_refused_by_name():
    class Huge(enum.Enum):
        LARGEST = 2**70

    def function(small: int, huge: list[Huge]): ...

    with pytest.raises(
        DefinitionError, match=r"^function\(\) cannot .* 'huge': list\[.*Huge\] cannot be read from JSON"
    ):
        Signature.of(function)
