"""Schemas and calls of functions with annotations of every kind, by a table."""

import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.schema.python.signature import ArgumentsRejected, Signature
from unit.schema.python import signature_rows_classes, signature_rows_types

TABLE = [*signature_rows_types.ROWS, *signature_rows_classes.ROWS]


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


@pytest.mark.parametrize("row", [row for row in TABLE if row.repaired], ids=lambda row: row.function.__name__)
def test_a_call_that_plainly_means_something_is_repaired(row):
    arguments, received = row.repaired
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
