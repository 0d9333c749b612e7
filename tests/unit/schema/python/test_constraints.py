"""What `Annotated` says, read by shape."""

import datetime as dt
import re
import sys
from dataclasses import dataclass
from typing import Annotated

import annotated_types
import pydantic
import pytest
import typing_extensions
from msgspec import UNSET, Meta

from dragoman.schema.python.annotations import AnnotationReader, UnsupportedAnnotation
from dragoman.schema.python.constraints import is_for_pydantic, is_pydantic_field, read_metadata
from dragoman.schema.python.defaults import DefaultFactory


@dataclass
class Pattern:
    pattern: object


def test_limits_are_read_from_anything_that_has_them():
    facts = read_metadata([annotated_types.Interval(ge=1, lt=5), annotated_types.Len(0, 3), Pattern(re.compile("x"))])
    assert facts.limits == {"ge": 1, "lt": 5, "max_length": 3, "pattern": "x"}
    assert facts.foreign


def test_what_msgspec_reads_by_itself_is_not_foreign():
    facts = read_metadata([Meta(ge=1, tz=None, title="T", description="D", examples=[2]), "a description"])
    assert facts.limits == {"ge": 1}
    assert facts.documentation == {"title": "T", "description": "a description", "examples": [2]}
    assert not facts.foreign


def test_what_is_no_limit_is_not_taken_for_one():
    assert (
        read_metadata([None, 5, annotated_types.Timezone("UTC"), annotated_types.Predicate(str.islower)]).limits == {}
    )
    assert read_metadata([Pattern(print)]).limits == {}


def test_documentation_objects_are_descriptions():
    assert read_metadata([typing_extensions.Doc("Said.")]).documentation == {"description": "Said."}


def test_fields_give_defaults_and_aliases():
    facts = read_metadata([pydantic.Field(5, alias="other", gt=1, json_schema_extra={"x": 1})])
    assert (facts.default, facts.alias, facts.limits, facts.documentation) == (5, "other", {"gt": 1}, {"x": 1})
    assert read_metadata([pydantic.Field(default_factory=list)]).default == DefaultFactory(list)
    assert read_metadata([pydantic.Field(...)]).default is UNSET
    assert read_metadata([pydantic.Field(validation_alias=pydantic.AliasPath("a", 0))]).alias is None


@pytest.mark.parametrize(
    ("item", "needs"),
    [
        (pydantic.Field(ge=1, pattern="x", description="d"), False),
        (pydantic.Field(strict=True), True),
        (pydantic.Field(max_digits=2), True),
        (pydantic.Field(discriminator="kind"), True),
        (pydantic.StringConstraints(strip_whitespace=True), True),
        (pydantic.AfterValidator(int), True),
        (annotated_types.Ge(1), False),
        ("text", False),
    ],
)
def test_it_is_known_what_only_pydantic_understands(item, needs):
    assert is_for_pydantic([item]) is needs


def test_what_says_how_pydantic_reads_it_is_read_by_pydantic(monkeypatch):
    class Doubled:
        def __get_pydantic_core_schema__(self, source, handler):
            return handler(source)

    assert is_for_pydantic([Doubled()])
    monkeypatch.delitem(sys.modules, "pydantic")
    assert not is_for_pydantic([Doubled()])


def test_only_fields_of_pydantic_are_fields():
    class FieldInfo:
        pass

    assert is_pydantic_field(pydantic.Field(1))
    assert not is_pydantic_field(FieldInfo())


def test_the_length_of_what_is_encoded_is_not_described():
    shape = AnnotationReader().shape(Annotated[bytes, Meta(max_length=2)])
    assert shape.schema == {"type": "string", "contentEncoding": "base64"}
    assert not shape.accepts("aGVsbG8=")


def test_limits_of_another_type_are_refused(monkeypatch):
    monkeypatch.delitem(sys.modules, "pydantic")
    for limit in (annotated_types.Ge(dt.date(2026, 1, 1)), Pattern("("), annotated_types.MinLen(1)):
        with pytest.raises(UnsupportedAnnotation, match="does not apply"):
            AnnotationReader().shape(Annotated[dt.date, limit])
