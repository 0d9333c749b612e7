"""Annotations as codecs: what signatures do not show."""

import datetime as dt
import enum
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, LiteralString, NamedTuple, NewType, TypedDict, TypeVar, Union

import annotated_types
import jsonschema_rs
import msgspec
import pydantic
import pytest
from msgspec import UNSET, Meta, Struct, UnsetType
from typing_extensions import TypeAliasType

from dragoman.errors import DefinitionError, ValidationError
from dragoman.schema.python.annotations import (
    AnnotationReader,
    Codec,
    UnresolvedName,
    UnsupportedAnnotation,
    describe,
    with_default,
)

T = TypeVar("T")
INTEGER = {"type": "integer"}


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Line:
    start: Point
    end: Point


@dataclass
class Tree:
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class Hopeless:
    field: "Nowhere"  # noqa: F821


class Plain:
    pass


JSON = TypeAliasType("JSON", Union[dict[str, "JSON"], list["JSON"], int, None])  # noqa: UP007


class Model(pydantic.BaseModel):
    when: dt.date
    doubled: int = 2

    @pydantic.computed_field
    def twice(self) -> int:
        return self.doubled * 2


def codec(annotation, **options):
    return Codec(annotation, "the answer", **options)


def test_a_class_is_described_at_the_root():
    assert codec(Point).schema == {
        "type": "object",
        "properties": {"x": INTEGER, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    }


def test_other_definitions_stay_definitions():
    schema = codec(Line).schema
    assert schema["properties"] == {"start": {"$ref": "#/$defs/Point"}, "end": {"$ref": "#/$defs/Point"}}
    assert list(schema["$defs"]) == ["Point"]


def test_a_recursive_class_is_described_at_the_root_and_as_a_definition():
    schema = codec(Tree).schema
    assert schema["type"] == "object"
    assert list(schema["$defs"]) == ["Tree"]
    jsonschema_rs.Draft202012Validator(schema, offline=True).validate({"children": [{"children": []}]})


def test_what_is_said_of_a_class_stands_beside_it():
    assert codec(Annotated[Point, "Where."]).schema["description"] == "Where."
    assert codec(None).schema == {"type": "null"}
    assert codec(list[Point]).schema["items"] == {"$ref": "#/$defs/Point"}


class Color(enum.Enum):
    RED = "red"


class Ratio(enum.Enum):
    HALF = 0.5
    NONE = None


class Pair(NamedTuple):
    left: int
    right: Path | None = None


class Tagged(Struct, tag="tagged", array_like=True):
    value: int


@dataclass
class Computed:
    given: int
    computed: int = field(init=False, default=2)


Bound = TypeVar("Bound", bound=int)
Constrained = TypeVar("Constrained", int, str)
ANY_OF_TWO = {"anyOf": [INTEGER, {"type": "string"}]}


@pytest.mark.parametrize(
    ("annotation", "schema", "plain", "value"),
    [
        (Bound, INTEGER, 1, 1),
        (Constrained, ANY_OF_TWO, "a", "a"),
        (Iterable[int], {"type": "array", "items": INTEGER}, [1], [1]),
        (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}, [1], {1}),
        (tuple, {"type": "array"}, [1], (1,)),
        (tuple[Path, ...], {"type": "array", "items": {"type": "string", "format": "path"}}, ["p"], (Path("p"),)),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [], ()),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, {"a": 1}, {"a": 1}),
        (
            dict[int, Any],
            {"type": "object", "propertyNames": {"pattern": "^-?[0-9]+$"}},
            {"1": None},
            {1: None},
        ),
        (
            dict[Literal[1, 2], Any],
            {"type": "object", "propertyNames": {"enum": ["1", "2"]}},
            {"1": None},
            {1: None},
        ),
        (
            dict[Color, Any],
            {"type": "object", "propertyNames": {"type": "string", "enum": ["red"]}},
            {"red": 1},
            {Color.RED: 1},
        ),
        (Literal[Color.RED, 1], {"enum": ["red", 1]}, "red", Color.RED),
        (Ratio, {"enum": [0.5, None]}, 0.5, Ratio.HALF),
        (Path | int, {"anyOf": [{"type": "string", "format": "path"}, INTEGER]}, "p", Path("p")),
        (Annotated[int | None, Meta(ge=1)], {"anyOf": [INTEGER | {"minimum": 1}, {"type": "null"}]}, 1, 1),
        (Annotated[int, annotated_types.Ge(1)], INTEGER | {"minimum": 1}, 1, 1),
        (Annotated[Decimal, annotated_types.Ge(1)], None, "1.5", Decimal("1.5")),
        (Annotated[int, pydantic.AfterValidator(str)], INTEGER, 1, "1"),
        (NewType("Id", int), INTEGER, 1, 1),
        (Pair, None, [1, "p"], Pair(1, Path("p"))),
        (Tagged, None, ["tagged", 1], Tagged(1)),
        (Computed, None, {"given": 1, "computed": 5}, Computed(1)),
        (JSON, None, {"a": [1, {}]}, {"a": [1, {}]}),
    ],
)
def test_annotations_have_schemas_and_values(annotation, schema, plain, value):
    found = codec(annotation)
    assert schema is None or found.schema == schema
    assert found.convert(plain) == value
    jsonschema_rs.Draft202012Validator(found.schema, offline=True).validate(plain)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Literal[b"x"], "its values must be"),
        (Annotated[str, Meta(ge=1)], "ge does not apply"),
        (Annotated[Plain, pydantic.AfterValidator(str)], "pydantic says"),
        (list["Nowhere"], "there is no such name; define it above the function, or import it outside"),  # noqa: F821
        (T, "a type variable stands for no type"),
        (dict[str, list[T]], "a type variable stands for no type"),
        (any, "did you mean typing.Any"),
        (list[any], "did you mean typing.Any"),
        (Hopeless, "it names Nowhere: there is no such name; "),
        (Plain, "make it a dataclass"),
    ],
)
def test_a_refusal_says_why(annotation, reason):
    with pytest.raises(DefinitionError, match=reason):
        codec(annotation)


def test_values_are_converted_and_mended():
    assert codec(Point).convert({"x": 1}) == Point(1)
    assert codec(Point).convert({"x": "1"}) == Point(1)
    assert codec(Tree).convert({"children": [{}]}) == Tree([Tree()])


def test_what_does_not_fit_is_listed():
    with pytest.raises(ValidationError) as caught:
        codec(Line).convert({"start": {"y": "?"}})
    assert str(caught.value) == (
        "start.x: Missing required field; start.y: Expected `int`, got `str`; end: Missing required field"
    )
    assert caught.value.path == "start.x"


def test_an_annotation_without_a_json_form_names_its_subject():
    with pytest.raises(DefinitionError, match=r"^the answer: complex has no JSON form: "):
        codec(complex)


@pytest.mark.parametrize(
    "annotation", [OrderedDict[str, int], type[int], complex, range, UnresolvedName("X"), "X", LiteralString]
)
def test_some_annotations_have_no_json_form(annotation):
    with pytest.raises(UnsupportedAnnotation):
        AnnotationReader().shape(annotation)


def test_what_pydantic_returns_is_described_as_it_is_sent():
    assert list(codec(Model).schema["properties"]) == ["when", "doubled"]
    assert list(codec(Model, for_output=True).schema["properties"]) == ["when", "doubled", "twice"]


def test_classes_of_the_same_name_have_definitions_of_their_own():
    def another():
        @dataclass
        class Point:
            z: int

        return Point

    schema = codec(tuple[Point, another(), another()]).schema
    assert [place["$ref"] for place in schema["prefixItems"]] == [
        "#/$defs/Point",
        "#/$defs/Point_2",
        "#/$defs/Point_3",
    ]


def test_models_of_the_same_name_have_definitions_of_their_own():
    def make(kind):
        class Inner(pydantic.BaseModel):
            value: kind

        class Outer(pydantic.BaseModel):
            inner: Inner

        return Outer, Inner

    (first, first_inner), (second, second_inner) = make(int), make(str)
    schema = codec(tuple[first, second, first_inner, second_inner, first]).schema
    assert [place["$ref"] for place in schema["prefixItems"]] == [
        "#/$defs/Outer",
        "#/$defs/Outer_2",
        "#/$defs/Inner",
        "#/$defs/Inner_3",
        "#/$defs/Outer",
    ]
    assert schema["$defs"]["Outer_2"]["properties"]["inner"] == {"$ref": "#/$defs/Inner_2"}
    assert schema["$defs"]["Inner"]["properties"]["value"] == INTEGER
    assert schema["$defs"]["Inner_2"]["properties"]["value"] == {"type": "string"}


def test_a_new_type_of_what_is_rewritten_is_rewritten():
    assert codec(NewType("Place", Path)).convert("p") == Path("p")


def test_an_alias_that_is_used_twice_stays_inline():
    alias = TypeAliasType("Numbers", list[int])
    schema = codec(tuple[alias, alias]).schema
    assert schema["prefixItems"] == [{"type": "array", "items": INTEGER}] * 2
    assert "$defs" not in schema


def test_an_alias_may_use_its_variables_in_any_order():
    key, value = TypeVar("key"), TypeVar("value")
    alias = TypeAliasType("Inverse", dict[value, key], type_params=(key, value))
    assert codec(alias[int, str]).schema == {"type": "object", "additionalProperties": INTEGER}


def test_an_alias_may_recur_through_a_class():
    alias = TypeAliasType("Forest", list["Grove"])

    @dataclass
    class Grove:
        forest: alias

    found = codec(alias, local_names={"Grove": Grove})
    assert found.convert([{"forest": [{"forest": []}]}]) == [Grove([Grove([])])]
    assert found.schema["items"] == {"$ref": "#/$defs/Grove"}
    assert sorted(found.schema["$defs"]) == ["Forest", "Grove"]


def test_two_classes_that_refer_to_each_other_are_read():
    @dataclass
    class Left:
        right: "Right | None"
        path: Path

    @dataclass
    class Right:
        left: "Left | int"

    names = {"Left": Left, "Right": Right}
    found = codec(tuple[Left, Right], local_names=names)
    assert found.convert([{"right": {"left": 1}, "path": "p"}, {"left": {"right": None, "path": "q"}}]) == (
        Left(Right(1), Path("p")),
        Right(Left(None, Path("q"))),
    )


def test_classes_that_refer_to_each_other_in_refused_unions_are_read():
    @dataclass
    class Leaf:
        value: int

    @dataclass
    class Branch:
        parts: "list[Branch | Leaf]"

    found = codec(Branch, local_names={"Branch": Branch, "Leaf": Leaf})
    assert found.convert({"parts": [{"value": 1}, {"parts": []}]}) == Branch([Leaf(1), Branch([])])


def test_local_names_are_found_where_the_call_came_from():
    @dataclass
    class Inner:
        a: int

    @dataclass
    class Outer:
        inner: "Inner"

    assert Codec(Outer, "it").convert({"inner": {"a": 1}}) == Outer(Inner(1))


def test_generic_structs_and_dictionaries_are_filled_in():
    class Page(Struct, Generic[T]):
        items: list[T]
        next: "Page[T] | None" = None

    class Named(TypedDict, Generic[T]):
        value: T

    class Both(Page[int], Generic[T]):
        other: T | None = None

    names = {"Page": Page}
    assert codec(Page[Path], local_names=names).convert({"items": ["p"], "next": {"items": []}}) == Page(
        [Path("p")], Page([])
    )
    assert codec(Named[Path]).convert({"value": "p"}) == {"value": Path("p")}
    assert codec(Both[str], local_names=names).convert({"items": [1], "other": "x"}) == Both([1], None, "x")
    with pytest.raises(ValidationError, match=r"items\[0\]"):
        codec(Both[str], local_names=names).convert({"items": ["x"]})


def test_the_same_type_variable_may_stand_for_two_types():
    @dataclass
    class First(Generic[T]):
        first: T

    @dataclass
    class Second(Generic[T]):
        second: T

    @dataclass
    class Both(First[int], Second[str]):
        pass

    properties = codec(Both).schema["properties"]
    assert (properties["first"], properties["second"]) == (INTEGER, {"type": "string"})


def test_unhashable_metadata_is_no_obstacle():
    @dataclass
    class Box(Generic[T]):
        content: T

    limited = Annotated[int, Meta(ge=1), {"unhashable": True}]
    found = codec(tuple[Box[limited], Box[limited], list[limited]])
    assert found.convert([{"content": 1}, {"content": 2}, [3]]) == (Box(1), Box(2), [3])
    with pytest.raises(ValidationError):
        found.convert([{"content": 0}, {"content": 2}, [3]])


def test_unset_is_not_described_and_stays_possible():
    class Patch(Struct):
        name: str | UnsetType = UNSET
        when: dt.date | str | UnsetType = UNSET

    found = codec(Patch)
    assert found.schema["properties"] == {
        "name": {"type": "string"},
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]},
    }
    assert found.convert({}) == Patch()
    assert found.convert({"when": "2026-01-01"}).when == dt.date(2026, 1, 1)


def test_constraints_reach_what_is_rewritten():
    @dataclass
    class Limited:
        paths: Annotated[list[Path], Meta(max_length=1, description="Few.")]

    found = codec(Limited)
    assert found.convert({"paths": ["p"]}) == Limited([Path("p")])
    assert found.schema["properties"]["paths"] == {
        "type": "array",
        "items": {"type": "string", "format": "path"},
        "maxItems": 1,
        "description": "Few.",
    }
    with pytest.raises(ValidationError, match="paths: Expected `array` of length <= 1"):
        found.convert({"paths": ["p", "q"]})


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[Path, Meta(max_length=3)],
        Annotated[int, Meta(min_length=1)],
        Annotated[Literal["a"], Meta(max_length=3)],
    ],
)
def test_constraints_that_do_not_apply_are_refused(annotation):
    with pytest.raises(UnsupportedAnnotation, match="does not apply to this type"):
        AnnotationReader().shape(annotation)


def test_any_in_a_union_is_tried_last():
    for anything in (object, Any):
        found = codec(Union[anything, Path, Point])  # noqa: UP007
        assert found.convert("p") == Path("p")
        assert found.convert({"x": 1}) == Point(1)
        assert found.convert(5) == 5


@dataclass
class Spot:
    x: int


@pytest.mark.parametrize(
    "annotation", [int, list[Spot], dict[str, Spot | None], Annotated[int, Meta(ge=0)], Spot | list[int]]
)
def test_an_annotation_that_msgspec_decodes_is_the_kind_of_its_shape(annotation):
    shape = AnnotationReader().shape(annotation)
    assert shape.native
    assert shape.kind == annotation


@dataclass
class Further(Point):
    """Inherits a default."""


@dataclass(slots=True)
class Slotted:
    x: int
    y: int = 0


@pytest.mark.parametrize("kind", [Point, Further, Slotted])
def test_a_dataclass_holds_the_defaults_that_were_not_given(kind):
    made = codec(kind).convert({"x": 1})
    assert made == kind(1)
    assert msgspec.json.encode(made) == b'{"x":1,"y":0}'


def test_defaults_without_a_json_form_are_left_out():
    cycle: list[Any] = []
    cycle.append(cycle)
    assert with_default(INTEGER, 5) == {"type": "integer", "default": 5}
    for default in (UNSET, object(), cycle):
        assert with_default(INTEGER, default) == INTEGER


def test_annotations_are_described_as_they_are_written():
    assert describe(Point) == "Point"
    assert describe(list[int]) == "list[int]"
    assert describe(UnresolvedName("Missing")) == "Missing"


def test_unresolved_names_have_attributes_but_no_special_ones():
    missing = UnresolvedName("module")
    assert missing.Context.__name__ == "Context"
    assert missing[int] is missing
    assert not hasattr(missing, "__supertype__")


def test_neither_pydantic_nor_anything_heavy_is_loaded():
    code = (
        "import sys\n"
        "import dragoman.schema.python.signature as signature\n"
        "signature.Signature.of(lambda a, b=1: a)\n"
        "heavy = {'pydantic', 'annotated_types', 'jsonschema_rs', 'dataclasses', 'pathlib', 'asyncio', 'socket'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_flags_are_enumerations():
    class Mode(enum.IntFlag):
        READ = 1
        WRITE = 2

    assert codec(Mode).schema == {"type": "integer", "enum": [1, 2]}
    assert codec(Mode).convert(2) is Mode.WRITE


def test_a_raw_value_stays_encoded():
    shape = AnnotationReader().shape(msgspec.Raw)
    assert shape.schema == {}
    assert msgspec.json.decode(b"[1]", type=shape.kind) == msgspec.Raw(b"[1]")
