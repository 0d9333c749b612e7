"""Where names and URIs stand in messages."""

import json

import pytest
from msgspec import Raw

from dragoman import types
from dragoman.server.mounting.places import params_about, result_with_uris, subject_of, with_uris

LINK = {"type": "resource_link", "uri": "a", "name": "n"}
EMBEDDED = {"type": "resource", "resource": {"uri": "a", "text": "uri"}}


@pytest.mark.parametrize(
    "message",
    [
        {"content": [LINK, EMBEDDED, {"type": "text", "text": "a"}], "structuredContent": {"uri": "kept"}},
        {"result": {"content": [LINK]}},
        {"contents": [{"uri": "a"}, {"uri": "a"}]},
        {"messages": [{"role": "user", "content": LINK}, {"role": "user", "content": EMBEDDED}]},
        {"uri": "a", "_meta": {"ui": {"resourceUri": "a"}, "ui/resourceUri": "a"}},
        {"uriTemplate": "a", "name": "n"},
        {"skill": {"uri": "a", "resources": [{"uri": "a"}]}},
        {"skill": {"uri": "a", "resources": "dynamic"}},
        {"resources": [{"uri": "a"}]},
        {"content": "a", "contents": None, "uri": 7},
    ],
)
def test_every_uri_of_a_message_is_changed_and_nothing_else(message):
    expected = json.loads(json.dumps(message).replace('"a"', '"b"').replace('"text": "b"', '"text": "a"'))
    if message.get("content") == "a":
        expected = message
    assert with_uris(json.loads(json.dumps(message)), lambda uri: {"a": "b"}[uri]) == expected


def test_a_result_keeps_its_kind():
    given = types.CallToolResult([types.ResourceLink(uri="a", name="n"), types.TextContent("x")])
    changed = result_with_uris(given, str.upper)
    assert (type(changed), changed.content[0].uri, changed.content[1].text) == (types.CallToolResult, "A", "x")
    assert given.content[0].uri == "a"
    assert result_with_uris({"contents": [{"uri": "a"}]}, str.upper) == {"contents": [{"uri": "A"}]}
    raw = result_with_uris(Raw(b'{"contents": [{"uri": "a", "further": [1]}]}'), str.upper)
    assert (type(raw), json.loads(bytes(raw))) == (Raw, {"contents": [{"uri": "A", "further": [1]}]})


def test_a_result_without_a_uri_stays_the_same_object():
    for result in types.CallToolResult([types.TextContent("uri")]), {"a": 1}, Raw(b'{"a": 1}'):
        assert result_with_uris(result, str.upper) is result


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("tools/call", types.CallToolRequestParams("a"), ("a", False)),
        ("resources/read", types.ReadResourceRequestParams("a"), ("a", True)),
        ("completion/complete", {"ref": types.PromptReference("a")}, ("a", False)),
        ("completion/complete", {"ref": types.ResourceTemplateReference("a")}, ("a", True)),
    ],
)
def test_a_request_is_about_a_name_or_a_uri(method, params, expected):
    argument = types.CompletionArgument("x", "")
    given = types.CompleteRequestParams(**params, argument=argument) if isinstance(params, dict) else params
    assert subject_of(method, given) == expected


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("tools/call", b'{"name":"a","arguments":{"n":1.50}}', b'{"name":"b","arguments":{"n":1.50}}'),
        ("resources/read", b'{"uri":"a","_meta":{"x":1}}', b'{"uri":"b","_meta":{"x":1}}'),
        ("completion/complete", b'{"ref":{"type":"t","name":"a"}}', b'{"ref":{"type":"t","name":"b"}}'),
        ("completion/complete", b'{"ref":{"type":"t","uri":"a"}}', b'{"ref":{"type":"t","uri":"b"}}'),
    ],
)
def test_parameters_about_another_subject_are_otherwise_as_they_were_sent(method, params, expected):
    assert bytes(params_about(method, Raw(params), "b")) == expected
