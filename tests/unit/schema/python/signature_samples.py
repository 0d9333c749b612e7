"""Functions whose parameters have annotations of every kind, and what a row of the tables says of one."""

import datetime as dt
import enum
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import (
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
import msgspec
import pydantic
from msgspec import UNSET, Meta, Struct, UnsetType
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

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


def type_variables(b: K, c: N):
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
    """A function, its properties (all required unless said), and calls that fit, do not fit and are repaired."""

    function: Callable[..., Any]
    properties: dict[str, Any]
    good: tuple[Any, dict[str, Any]]
    bad: tuple[Any, list[str]]
    repaired: tuple[Any, dict[str, Any]] | None = None
    required: list[str] | None = None
    definitions: dict[str, Any] | None = None
    others: Any = None
