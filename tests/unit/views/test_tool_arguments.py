"""The arguments of a tool under a view: the schema that clients see, findings, and the way to the tool."""

import asyncio
import json

import pytest
from msgspec import Raw

from dragoman import Argument, ToolError
from dragoman.errors import ValidationError
from dragoman.views.tool_arguments import ToolArguments

SEARCH = {
    "type": "object",
    "properties": {
        "q": {"type": "string", "description": "The query."},
        "org": {"type": "string"},
        "per_page": {"type": "integer", "maximum": 100},
    },
    "required": ["q", "org"],
    "additionalProperties": False,
}


def reshaped(schema=SEARCH, **arguments):
    return ToolArguments("find", schema, arguments)


def inner(tool, sent, context=None):
    raw = Raw(sent.encode()) if isinstance(sent, str) else sent
    return json.loads(bytes(asyncio.run(tool.inner(raw, context))))


VIEW = {
    "q": Argument(name="query", description="Words."),
    "org": Argument(fixed="acme"),
    "per_page": Argument(default=20, schema={"maximum": 50, "minimum": 1}),
}


def test_clients_see_the_arguments_as_the_view_describes_them():
    assert reshaped(**VIEW).schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words."},
            "per_page": {"type": "integer", "maximum": 50, "minimum": 1, "default": 20},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_the_tool_receives_the_arguments_that_it_knows():
    assert inner(reshaped(**VIEW), {"query": "mcp"}) == {"q": "mcp", "org": "acme", "per_page": 20}
    assert inner(reshaped(**VIEW), '{"query": "m\\u0063p", "per_page": 5}') == {
        "q": "mcp",
        "org": "acme",
        "per_page": 5,
    }


def test_two_arguments_may_swap_their_names():
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    tool = reshaped(schema, a=Argument(name="b"), b=Argument(name="a"))
    assert tool.schema["properties"] == {"b": {"type": "string"}, "a": {"type": "integer"}}
    assert tool.schema["required"] == ["b"]
    assert inner(tool, {"a": 1, "b": "x"}) == {"a": "x", "b": 1}


def test_numbers_keep_their_digits():
    tool = reshaped({"properties": {"a": {"type": "number"}, "b": {}}}, a=Argument(name="n"))
    raw = asyncio.run(tool.inner(Raw(b'{"n": 1.10, "b": 123456789012345678901234567890}'), None))
    assert bytes(raw) == b'{"a":1.10,"b":123456789012345678901234567890}'


REFUSED = [
    '{"query": "x", "org": "evil"}',
    '{"query": "x", "\\u006frg": "evil"}',
    '{"query": "x", "ORG": "evil"}',
    '{"query": "x", "o_rg": "evil"}',
    '{"query": "x", "\\uff4frg": "evil"}',
    '{"query": "x", "org": null}',
    '{"query": "x", "q": "y"}',
    '{"query": "x", "Q": "y"}',
    '{"query": "x", "query": "y"}',
    '{"query": "x", "qu\\u0065ry": "y"}',
    '{"query": {"a": 1, "a": 2}}',
    '{"query": "x", "other": 1}',
    '{"query": NaN}',
    '{"query": "x"',
    '["x"]',
    '{"query": 7}',
    '{"query": "x", "per_page": 51}',
    '{"per_page": 5}',
    "\udcff",
    "[" * 100_000,
]


@pytest.mark.parametrize(
    ("sent", "further"),
    [(sent, further) for sent in REFUSED for further in (False, True, {}) if further is False or '"other"' not in sent],
)
def test_arguments_that_the_view_removes_or_forbids_are_refused(sent, further):
    schema = {**SEARCH, "additionalProperties": further}
    raw = Raw(sent.encode(errors="surrogateescape"))
    with pytest.raises(ToolError):
        asyncio.run(reshaped(schema, **VIEW).inner(raw, None))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"query": "x", "org": 1}, "'find' has no argument 'org', and a call that sends it is refused"),
        ({"q": "x"}, "'find' has no argument 'q'; use 'query'"),
        ({"quary": "x"}, "'find' has no argument 'quary'; did you mean 'query'?"),
        ({"query": 1}, "Invalid arguments: query: 1 is not of type"),
        ('{"a": 1, "a": 2}', "The arguments cannot be read: the name 'a' occurs twice"),
    ],
)
def test_a_refusal_says_what_to_send(sent, message):
    with pytest.raises(ToolError) as caught:
        inner(reshaped(**VIEW), sent)
    assert message in str(caught.value)


def test_a_tool_without_a_word_about_further_arguments_takes_none_when_a_view_takes_some_away():
    schema = {key: value for key, value in SEARCH.items() if key != "additionalProperties"}
    assert reshaped(schema, org=Argument(fixed="x")).schema["additionalProperties"] is False
    assert "additionalProperties" not in reshaped(schema, org=Argument(description="x")).schema
    open_schema = reshaped({**schema, "additionalProperties": {}}, org=Argument(fixed="x")).schema
    assert open_schema["propertyNames"] == {"not": {"enum": ["org"]}}


def test_arguments_that_hosts_add_are_dropped():
    assert inner(reshaped(**VIEW), {"query": "x", "sessionId": "1"})["q"] == "x"


def test_values_of_models_are_repaired_as_the_server_does_it():
    assert inner(reshaped(**VIEW), {"query": "x", "per_page": "5"})["per_page"] == 5


def test_a_fixed_value_may_be_computed_of_the_context():
    async def organization(context):
        return context["org"]

    tool = reshaped(org=Argument(fixed=organization))
    assert "org" not in tool.schema["properties"]
    assert inner(tool, {"q": "x"}, {"org": "acme"}) == {"q": "x", "org": "acme"}
    with pytest.raises(ValidationError, match="makes arguments that the tool does not take: org: 7 is not"):
        inner(tool, {"q": "x"}, {"org": 7})


def test_a_hidden_argument_never_reaches_the_tool():
    tool = reshaped(per_page=Argument(hidden=True))
    assert inner(tool, {"q": "x", "org": "y"}) == {"q": "x", "org": "y"}
    with pytest.raises(ToolError):
        inner(tool, {"q": "x", "org": "y", "per_page": 1})


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        ({"query": Argument(name="x")}, "the tool has no argument 'query'; it has q, org, per_page"),
        ({"orgs": Argument(fixed="x")}, "no argument 'orgs'; did you mean 'org'?; it has"),
        ({"q": Argument(hidden=True)}, "requires the argument 'q', which the view hides without a value"),
        ({"org": Argument(fixed=7)}, "the fixed value of 'org' does not fit: 7 is not of type"),
        ({"per_page": Argument(default=1000)}, "the default value of 'per_page' does not fit: 1000 is greater"),
        ({"per_page": Argument(default=20, schema={"maximum": 5})}, "'per_page' does not fit its own schema"),
        ({"q": Argument(name="per_page")}, "the arguments 'q' and 'per_page' would have the same name"),
        ({"q": Argument(schema={"type": "array"})}, "its type is string, and the view demands array"),
    ],
)
def test_a_view_that_does_not_match_the_tool_is_found(arguments, finding):
    [found] = reshaped(**arguments).findings
    assert finding in found
