"""Types that pydantic reads."""

from typing import Annotated, Literal

import pydantic
import pytest

from dragoman.errors import ValidationError
from dragoman.schema.python import pydantic_types
from dragoman.schema.python.annotations import Codec


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = pydantic.Field(9, title="How many lives")


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    bark_volume: int = pydantic.Field(examples=[3], json_schema_extra={"title": "x"})


def test_titles_that_pydantic_makes_up_are_dropped_and_others_kept():
    assert Codec(Cat, "it").schema == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "const": "cat"},
            "lives": {"type": "integer", "default": 9, "title": "How many lives"},
        },
        "required": ["kind"],
    }


def test_definitions_whose_name_is_taken_are_numbered():
    class Owner(pydantic.BaseModel):
        pets: list[Cat]

    definitions = {"Cat": {"type": "string"}, "Cat_2": {"type": "null"}}
    schema = pydantic_types.read(Owner, definitions).schema
    assert schema["properties"]["pets"]["items"] == {"$ref": "#/$defs/Cat_3"}
    assert definitions["Cat_3"]["required"] == ["kind"]


def test_a_discriminator_chooses_the_model():
    animal = Codec(Annotated[Cat | Dog, pydantic.Field(discriminator="kind")], "it")
    assert animal.convert({"kind": "dog", "bark_volume": 1}) == Dog(kind="dog", bark_volume=1)
    with pytest.raises(ValidationError, match=r"cat\.lives"):
        animal.convert({"kind": "cat", "lives": "x"})


def test_what_fits_has_no_problems():
    shape = pydantic_types.read(Cat, {})
    assert shape.find_problems({"kind": "cat"}) == []


def test_validators_run():
    even = Codec(Annotated[int, pydantic.AfterValidator(lambda value: value * 2)], "it")
    assert even.schema == {"type": "integer"}
    assert even.convert(2) == 4


def test_dataclasses_of_pydantic_are_its_own():
    @pydantic.dataclasses.dataclass
    class Data:
        a: Annotated[int, pydantic.Field(gt=0)]

    codec = Codec(list[Data], "it")
    assert codec.convert([{"a": 1}]) == [Data(1)]
    with pytest.raises(ValidationError, match=r"\[0\].a: Input should be greater than 0"):
        codec.convert([{"a": 0}])


def test_strict_models_take_from_json_what_json_can_say():
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)

        pair: tuple[int, int]

    codec = Codec(Strict, "it")
    assert codec.convert({"pair": [1, 2]}) == Strict(pair=(1, 2))
    with pytest.raises(ValidationError, match=r"pair\[0\]: Input should be a valid integer"):
        codec.convert({"pair": ["x", 2]})
