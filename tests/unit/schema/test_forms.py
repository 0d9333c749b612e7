"""The small schemas that a form may be made of."""

import pytest

from dragoman import DefinitionError
from dragoman.schema.forms import form_content, form_schema


def form_of(**properties):
    return form_schema({"type": "object", "properties": properties})["properties"]


@pytest.mark.parametrize("format", ["email", "uri", "date", "date-time"])
def test_the_formats_of_forms_are_kept(format):
    assert form_of(text={"type": "string", "format": format}) == {"text": {"type": "string", "format": format}}


def test_other_formats_and_keywords_are_left_out():
    field = {"type": "string", "format": "uuid", "pattern": "^a", "title": "Text", "minLength": 1}
    assert form_of(text=field) == {"text": {"type": "string", "title": "Text", "minLength": 1}}


def test_references_are_followed():
    schema = {
        "type": "object",
        "properties": {"one": {"$ref": "#/$defs/Kind", "title": "One"}},
        "$defs": {"Kind": {"enum": ["a", "b"]}},
    }
    assert form_schema(schema)["properties"] == {"one": {"type": "string", "enum": ["a", "b"], "title": "One"}}


def test_a_reference_that_leads_nowhere_is_refused_by_the_name_of_its_field():
    with pytest.raises(DefinitionError, match="'one'"):
        form_of(one={"$ref": "#/$defs/Nowhere"})


def test_an_optional_field_is_what_it_is_when_it_is_there():
    field = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None, "title": "Age"}
    assert form_of(age=field) == {"age": {"type": "integer", "minimum": 1, "title": "Age"}}


def test_titled_choices_are_kept():
    options = [{"const": "a", "title": "A"}]
    single, several = {"type": "string", "oneOf": options}, {"type": "array", "items": {"anyOf": options}}
    assert form_of(single=single, several=several) == {"single": single, "several": several}


@pytest.mark.parametrize(
    "field",
    [
        {"type": "array"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"enum": [1, 2]}},
        {"type": "integer", "enum": [1, 2]},
        {"enum": ["a", None]},
        {"type": "null"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {},
    ],
)
def test_what_no_form_can_have_is_refused_by_name(field):
    with pytest.raises(DefinitionError, match="'odd'"):
        form_of(odd=field)


def test_required_fields_are_named_only_if_there_are_any():
    properties = {"a": {"type": "boolean"}}
    assert "required" not in form_schema({"type": "object", "properties": properties, "required": []})
    assert form_schema({"type": "object", "properties": properties, "required": ["a"]})["required"] == ["a"]


def test_one_choice_stands_for_a_list_of_it():
    form = {"properties": {"several": {"type": "array"}, "one": {"type": "string"}}}
    assert form_content(form, {"several": "a", "one": "b", "other": "c"}) == {
        "several": ["a"],
        "one": "b",
        "other": "c",
    }
    assert form_content(form, {"several": ["a", "b"]}) == {"several": ["a", "b"]}
