"""What a server may ask: the capability that it needs, how it is said, and what its answer means."""

import enum
from dataclasses import dataclass

import pytest
from msgspec import Raw

from dragoman import DefinitionError, Elicit, ElicitResult, ElicitUrl, InputRequired, InvalidParams, ListRoots, Sample
from dragoman.server.request import questions


@dataclass
class Name:
    name: str


ACCEPTED = Raw(b'{"action": "accept", "content": {"name": "Ada"}}')


@pytest.mark.parametrize(
    ("question", "capability", "method"),
    [
        (Elicit("Who?", Name), ("elicitation", "form"), "elicitation/create"),
        (ElicitUrl("Visit", "https://example.com"), ("elicitation", "url"), "elicitation/create"),
        (Sample("Write"), ("sampling",), "sampling/createMessage"),
        (Sample("Write", tools=[]), ("sampling", "tools"), "sampling/createMessage"),
        (Sample("Write", tool_choice={"mode": "none"}), ("sampling", "tools"), "sampling/createMessage"),
        (ListRoots(), ("roots",), "roots/list"),
    ],
)
def test_a_question_knows_its_capability_and_its_method(question, capability, method):
    assert list(question.capabilities) == [capability]
    assert question.method == method


def test_an_accepted_form_is_read_as_its_type():
    assert Elicit("Who?", Name).read(ACCEPTED) == ElicitResult("accept", Name("Ada"))


def test_what_was_declined_has_no_content():
    declined = Raw(b'{"action": "decline", "content": {"name": "Ada"}}')
    assert Elicit("Who?", Name).read(declined) == ElicitResult("decline")


def test_accepting_a_page_has_no_content():
    assert ElicitUrl("Visit", "https://example.com").read(ACCEPTED) == ElicitResult("accept")


def test_a_schema_that_is_given_is_said_verbatim_and_checks_the_answer():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 3}},
        "additionalProperties": False,
    }
    question = Elicit("Who?", schema)
    assert question.request().params.requested_schema == schema
    assert question.read(ACCEPTED).content == {"name": "Ada"}
    with pytest.raises(InvalidParams, match="does not fit the form"):
        question.read(Raw(b'{"action": "accept", "content": {"name": "A"}}'))


def test_a_schema_that_is_none_is_refused():
    with pytest.raises(DefinitionError):
        Elicit("Who?", {"type": "object", "properties": {"name": {"type": "string", "minLength": "three"}}})


def test_an_enum_of_a_class_that_cannot_be_looked_up_is_untitled():
    class Kind(enum.Enum):
        ONE = "1"

    @dataclass
    class Local:
        kind: "Kind"

    field = Elicit("Which?", Local).request().params.requested_schema["properties"]["kind"]
    assert field == {"type": "string", "enum": ["1"]}


def test_what_is_required_knows_every_capability():
    required = InputRequired({"name": Elicit("Who?", Name), "roots": ListRoots()})
    assert required.capabilities == [("elicitation", "form"), ("roots",)]
    assert InputRequired(state=1).capabilities == []


def test_input_that_is_neither_asked_for_nor_kept_is_refused():
    with pytest.raises(DefinitionError, match=r"InputRequired needs questions, such as .*, or a state"):
        InputRequired()


def test_form_of_a_type_is_derived_once(monkeypatch):
    @dataclass
    class Stay:
        nights: int

    first = Elicit("How long?", Stay)
    monkeypatch.setattr(questions, "Codec", pytest.fail)
    again = Elicit("How long, really?", Stay)
    assert again.request().params.requested_schema == first.request().params.requested_schema
