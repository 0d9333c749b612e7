"""Defaults, and which of them schemas list."""

import dataclasses
import datetime as dt
import itertools
import uuid
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from msgspec import UNSET, Raw, Struct

from dragoman.schema.python.annotations import Codec
from dragoman.schema.python.defaults import DefaultFactory, constant_default, with_default
from dragoman.schema.python.signature import Signature

NAMES = ["a"]
counter = itertools.count()


@dataclasses.dataclass
class Options:
    depth: int = 3
    tags: list[str] = dataclasses.field(default_factory=lambda: ["a"])


class Settings(Struct):
    options: Options = msgspec.field(default_factory=Options)


class Model(pydantic.BaseModel):
    depth: int = 3
    tags: list[str] = pydantic.Field(default_factory=lambda: ["a"])


@dataclasses.dataclass
class Stamped:
    id: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)


@dataclasses.dataclass
class Counted:
    number: int = 0

    def __post_init__(self) -> None:
        self.number = next(counter)


@dataclasses.dataclass
class Needy:
    needed: int
    tags: list[str] = dataclasses.field(default_factory=list)


def literal() -> dict[str, int]:
    return {"a": 1}


def enclosed() -> Any:
    value = object()
    return lambda: value


@pytest.mark.parametrize(
    ("factory", "default"),
    [
        (list, []),
        (str, ""),
        (lambda: [1, 2], [1, 2]),
        (lambda: [number for number in (1, 2)], [1, 2]),  # noqa: C416
        (literal, {"a": 1}),
        (Options, Options()),
        (Settings, Settings()),
        (Model, Model()),
    ],
)
def test_constant_factory_gives_its_default(factory, default):
    assert constant_default(factory) == default


@pytest.mark.parametrize(
    "factory",
    [
        uuid.uuid4,
        dt.date.today,
        dt.datetime.now,
        lambda: list(NAMES),
        lambda: [next(counter) for _ in "ab"],
        lambda data: [1],
        enclosed(),
        counter.__next__,
        Stamped,
        Counted,
        Needy,
        object,
    ],
)
def test_factory_that_may_differ_is_not_listed(factory):
    assert constant_default(factory) is UNSET


def test_finding_defaults_has_no_effects():
    before = next(counter)
    for factory in (counter.__next__, Counted, lambda: next(counter)):
        constant_default(factory)
    assert next(counter) == before + 1


@pytest.mark.parametrize(
    ("default", "schema"),
    [
        (3, {"default": 3}),
        (None, {"default": None}),
        (dt.date(2026, 1, 1), {"default": "2026-01-01"}),
        (DefaultFactory(lambda: [1]), {"default": [1]}),
        (DefaultFactory(uuid.uuid4), {}),
        (float("inf"), {}),
        (float("nan"), {}),
        ([1.0, {"a": float("-inf")}], {}),
        (object(), {}),
        (UNSET, {}),
    ],
)
def test_schema_lists_defaults_that_json_can_express(default, schema):
    assert with_default({}, default) == schema


@pytest.mark.parametrize("kind", [Options, Model])
def test_classes_list_the_defaults_of_their_factories(kind):
    properties = Codec(kind, "it").schema["properties"]
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}, "default": ["a"]}


def test_models_list_no_infinite_defaults():
    class Limits(pydantic.BaseModel):
        most: float = float("inf")
        least: float = -1.5

    assert Codec(Limits, "it").schema["properties"] == {
        "most": {"type": "number"},
        "least": {"type": "number", "default": -1.5},
    }


def test_factory_of_a_parameter_makes_a_default_for_each_call():
    def act(
        tags: Annotated[list[str], pydantic.Field(default_factory=lambda: ["a"])],
        id: Annotated[str, pydantic.Field(default_factory=lambda: uuid.uuid4().hex)],
        most: float = float("inf"),
    ) -> None: ...

    signature = Signature.of(act)
    assert signature.input_schema == {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}, "default": ["a"]},
            "id": {"type": "string"},
            "most": {"type": "number"},
        },
    }
    first, second = (signature.bind(Raw(b"{}"))[0] for _ in range(2))
    assert first[0] == second[0] == ["a"]
    assert first[0] is not second[0]
    assert first[1] != second[1]
    assert first[2] == float("inf")
    assert signature.bind_values([])[0][0] == ["a"]
