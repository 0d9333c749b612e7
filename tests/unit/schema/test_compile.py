"""Schemas that authors write."""

import subprocess
import sys

import pytest

from dragoman.errors import DefinitionError, ValidationError
from dragoman.schema.compile import MAX_DEPTH, MAX_SUBSCHEMAS, InputSchema, OutputSchema

CITY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"city": {"type": "string"}, "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}}},
    "required": ["city"],
    "$defs": {"stop": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    "x-author": {"anything": "goes"},
}


def nested(depth):
    schema = {}
    for _ in range(depth - 1):
        schema = {"items": schema}
    return schema


def test_a_document_is_kept_as_it_was_given():
    document = {**CITY}
    assert InputSchema(document).document is document
    assert document == CITY
    assert repr(OutputSchema({"type": "null"})) == "OutputSchema({'type': 'null'})"


def test_what_fits_is_accepted():
    assert InputSchema(CITY).validate({"city": "Oslo", "stops": [{"name": "a"}], "more": 1}) is None
    assert OutputSchema({"type": "array"}).validate_result([1]) is None


def test_every_violation_is_listed_with_its_place():
    with pytest.raises(ValidationError) as caught:
        InputSchema(CITY).validate({"stops": [{"name": "a"}, {"name": 1}, {}]})
    listed = str(caught.value).split("; ")
    assert sorted(listed) == [
        '"city" is a required property',
        'stops[1].name: 1 is not of type "string"',
        'stops[2]: "name" is a required property',
    ]


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [({"type": "integer"}, "x", "$"), ({"items": {"type": "integer"}}, ["x"], "$[0]")],
)
def test_the_first_place_is_the_path_of_the_error(schema, value, path):
    with pytest.raises(ValidationError, match=r"^Invalid result: ") as caught:
        OutputSchema(schema).validate_result(value)
    assert caught.value.path == path


def test_the_path_of_a_property_starts_at_the_root():
    with pytest.raises(ValidationError) as caught:
        InputSchema({"type": "object", "properties": {"a": {"type": "integer"}}}).validate({"a": "x"})
    assert caught.value.path == "$.a"


def test_no_more_is_said_than_anyone_reads():
    schema = OutputSchema({"items": {"type": "integer"}})
    with pytest.raises(ValidationError) as caught:
        schema.validate_result(["x" * 10_000] * 1000)
    assert str(caught.value).endswith("; and more")
    assert len(str(caught.value)) < 60_000


def test_formats_are_not_enforced():
    assert OutputSchema({"format": "date"}).validate_result("soon") is None


@pytest.mark.parametrize("make", [InputSchema, OutputSchema])
@pytest.mark.parametrize("document", [True, [], "x", None])
def test_a_document_must_be_an_object(make, document):
    with pytest.raises(DefinitionError, match="must be an object, not"):
        make(document)


@pytest.mark.parametrize("document", [{"type": "array"}, {"type": ["object", "null"]}])
def test_input_schema_of_another_type_is_refused(document):
    with pytest.raises(DefinitionError, match='The "type" of an input schema must be "object", not'):
        InputSchema(document)


@pytest.mark.parametrize("document", [{}, {"properties": {"a": {}}}, {"$ref": "#/$defs/A", "$defs": {"A": {}}}])
def test_input_schema_without_a_type_is_that_of_an_object(document):
    assert InputSchema(document) == {"type": "object", **document}


def test_schema_can_be_read_like_a_dict():
    schema = OutputSchema({"type": "object", "properties": {"a": {}}})
    assert (schema["type"], schema.get("required"), len(schema), list(schema)) == (
        "object",
        None,
        2,
        ["type", "properties"],
    )
    assert dict(schema) == schema == schema.document


@pytest.mark.parametrize("document", [{}, {"type": "string"}, {"anyOf": [{"type": "null"}, {"$ref": "#"}]}])
def test_the_root_of_an_output_schema_may_be_anything(document):
    assert OutputSchema(document).document == document


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("target", ["http://example.com/x", "file:///etc/passwd", "other.json", "other.json#/a"])
def test_references_that_lead_outside_are_refused(keyword, target):
    for document in ({keyword: target}, {"properties": {"a": {"anyOf": [{keyword: target}]}}}):
        with pytest.raises(DefinitionError, match=r"leads outside the JSON Schema; copy its target into \$defs"):
            OutputSchema(document)


def test_what_only_looks_like_a_reference_is_accepted():
    document = {
        "properties": {"$ref": {"type": "string"}, "default": {"type": "string"}},
        "default": {"$ref": "http://example.com"},
        "enum": [{"$ref": "http://example.com"}],
    }
    schema = OutputSchema(document)
    assert schema.document is document
    assert schema.validate_result({"$ref": "http://example.com"}) is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "text"}, "Invalid JSON Schema: type: "),
        ({"properties": {"a": {"minimum": "x"}}}, "Invalid JSON Schema: properties.a.minimum: "),
        ({"required": "a"}, "Invalid JSON Schema: required: "),
        ({"items": [{"type": "integer"}]}, "Invalid JSON Schema: items: "),
        ({"pattern": "("}, "Invalid JSON Schema: .*regex"),
        ({"patternProperties": {"(": {}}}, "Invalid JSON Schema: .*regex"),
        ({"$defs": {"unused": {"pattern": "("}}}, "Invalid JSON Schema: .*regex"),
        ({"$defs": {"unused": {"patternProperties": {"(": {}}}}}, "Invalid JSON Schema: .*regex"),
        ({"$ref": "#/$defs/nowhere"}, "Invalid JSON Schema: .*does not exist"),
        ({"default": {1, 2}}, "Invalid JSON Schema: Unsupported type"),
        ({"patternProperties": []}, "Invalid JSON Schema: patternProperties"),
    ],
)
def test_documents_that_are_no_schemas_are_refused(document, message):
    with pytest.raises(DefinitionError, match=message):
        OutputSchema(document)


def test_depth_is_bounded():
    OutputSchema(nested(64))
    with pytest.raises(DefinitionError, match="more than 64 levels"):
        OutputSchema(nested(65))


def test_the_number_of_subschemas_is_bounded():
    OutputSchema({"properties": {str(number): True for number in range(9_999)}})
    with pytest.raises(DefinitionError, match="more than 10,000 subschemas"):
        OutputSchema({"properties": {str(number): True for number in range(10_000)}})


def test_the_dialect_named_in_a_document_is_not_fetched():
    assert OutputSchema({"$schema": "http://example.com/dialect", "type": "integer"}).validate_result(1) is None


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}])
def test_values_that_are_no_json_do_not_fit(value):
    with pytest.raises(ValidationError, match="cannot be compared with the schema"):
        OutputSchema({"properties": {"a": {"type": "integer"}}}).validate_result(value)


def test_values_that_are_too_deep_do_not_fit():
    value = {}
    for _ in range(10_000):
        value = {"a": value}
    with pytest.raises(ValidationError, match="cannot be compared with the schema: Recursion limit"):
        InputSchema({"type": "object", "properties": {"a": {"type": "integer"}}}).validate(value)


def test_missing_arguments_are_known_by_name():
    schema = InputSchema({"type": "object", "required": ["a", "b"]})
    assert schema.missing({"b": None}) == ["a"]
    assert schema.missing({"a": 1, "b": 2}) == []
    assert schema.missing([]) == ["a", "b"]
    assert InputSchema({"type": "object"}).missing({}) == []


def test_a_derived_schema_is_not_checked_until_it_is_used():
    schema = OutputSchema.derived({"type": "integer"})
    with pytest.raises(ValidationError):
        schema.validate_result("x")
    with pytest.raises(DefinitionError):
        OutputSchema.derived({"type": "number of wishes"}).validate_result(1)


def test_a_derived_schema_is_compiled_when_it_is_first_needed():
    code = (
        "import sys\n"
        "from dragoman.schema.compile import OutputSchema\n"
        "schema = OutputSchema.derived({'type': 'integer'})\n"
        "assert 'jsonschema_rs' not in sys.modules\n"
        "schema.validate_result(1)\n"
        "assert 'jsonschema_rs' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_bounds_are_public():
    assert (MAX_DEPTH, MAX_SUBSCHEMAS) == (64, 10_000)
