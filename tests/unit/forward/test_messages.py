"""Where names and URIs appear in messages."""

import json

import pytest
from msgspec import Raw

from dragoman import types
from dragoman.forward.messages import (
    listed_plans,
    pages_of,
    raw_object,
    result_with_uris,
    subject_of,
    with_subject,
    with_uris,
)
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.methods import METHODS
from dragoman.protocol.official import apps, skills
from dragoman.protocol.official.tasks import FIRST_OF_SERVERS, SECOND
from dragoman.server.registry import PageCursors

TABLE = ProtocolTable.of([apps.ROW, skills.ROW, FIRST_OF_SERVERS, SECOND])
ROWS = {row.name: row for row in METHODS}
LINK = {"type": "resource_link", "uri": "a", "name": "n"}
EMBEDDED = {"type": "resource", "resource": {"uri": "a", "text": "uri"}}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("tools/call", {"content": [LINK, EMBEDDED, {"type": "text", "text": "a"}], "structuredContent": {"uri": "k"}}),
        ("tools/call", {"content": [], "_meta": {"ui": {"resourceUri": "a"}, "ui/resourceUri": "a"}}),
        ("tasks/result", {"content": [LINK]}),
        ("tasks/get", {"result": {"content": [LINK]}}),
        ("notifications/tasks", {"result": {"content": [EMBEDDED]}}),
        ("resources/read", {"contents": [{"uri": "a"}, {"uri": "a"}]}),
        ("prompts/get", {"messages": [{"role": "user", "content": LINK}, {"role": "user", "content": EMBEDDED}]}),
        ("tools/list", {"name": "n", "_meta": {"ui": {"resourceUri": "a"}, "ui/resourceUri": "a"}}),
        ("skills/get", {"skill": {"uri": "a", "resources": [{"uri": "a"}]}}),
        ("skills/get", {"skill": {"uri": "a", "resources": "dynamic"}}),
        ("resources/directory/read", {"resources": [{"uri": "a"}]}),
        ("notifications/resources/updated", {"uri": "a"}),
        ("tools/call", {"content": 7, "contents": None, "uri": "k"}),
    ],
)
def test_every_uri_that_the_rows_declare_is_changed_and_nothing_else(method, message):
    expected = json.loads(json.dumps(message).replace('"a"', '"b"').replace('"text": "b"', '"text": "a"'))
    assert with_uris(json.loads(json.dumps(message)), TABLE.uris(method), lambda uri: {"a": "b"}[uri]) == expected


def test_a_result_keeps_its_kind():
    given = types.CallToolResult([types.ResourceLink(uri="a", name="n"), types.TextContent("x")])
    changed = result_with_uris(given, TABLE.uris("tools/call"), str.upper)
    assert (type(changed), changed.content[0].uri, changed.content[1].text) == (types.CallToolResult, "A", "x")
    assert given.content[0].uri == "a"
    paths = TABLE.uris("resources/read")
    assert result_with_uris({"contents": [{"uri": "a"}]}, paths, str.upper) == {"contents": [{"uri": "A"}]}
    raw = result_with_uris(Raw(b'{"contents": [{"uri": "a", "further": [1]}]}'), paths, str.upper)
    assert (type(raw), json.loads(bytes(raw))) == (Raw, {"contents": [{"uri": "A", "further": [1]}]})


def test_a_result_without_a_uri_stays_the_same_object():
    for result in types.CallToolResult([types.TextContent("uri")]), {"a": 1}, Raw(b'{"a": 1}'):
        assert result_with_uris(result, TABLE.uris("tools/call"), str.upper) is result
        assert result_with_uris(result, (), str.upper) is result


@pytest.mark.parametrize(
    ("method", "params", "subject", "changed"),
    [
        ("tools/call", b'{"name":"a","arguments":{"n":1.50}}', ("a", False), b'{"name":"b","arguments":{"n":1.50}}'),
        ("resources/read", b'{"uri":"a","_meta":{"x":1}}', ("a", True), b'{"uri":"b","_meta":{"x":1}}'),
        ("completion/complete", b'{"ref":{"type":"t","name":"a"}}', ("a", False), b'{"ref":{"type":"t","name":"b"}}'),
        ("completion/complete", b'{"ref":{"type":"t","uri":"a"}}', ("a", True), b'{"ref":{"type":"t","uri":"b"}}'),
    ],
)
def test_a_request_is_about_a_name_or_a_uri_and_otherwise_stays_as_it_was_sent(method, params, subject, changed):
    assert subject_of(ROWS[method], Raw(params)) == subject
    assert bytes(with_subject(ROWS[method], Raw(params), "b")) == changed


def test_a_request_without_a_name_is_about_nothing():
    assert subject_of(ROWS["ping"], Raw(b"{}")) is None
    assert subject_of(ROWS["tools/call"], Raw(b"[]")) is None


def test_values_that_are_not_objects_have_no_members():
    assert raw_object(b"[1]") == raw_object(b"{") == raw_object(b"[" * 5000) == {}


async def test_pages_are_read_until_a_cursor_comes_back():
    cursors = []

    async def fetch(cursor):
        cursors.append(cursor)
        return Raw(b'{"nextCursor":"b"}' if cursor else b'{"nextCursor":"a"}')

    assert len([page async for page in pages_of(fetch, PageCursors("tools/list"))]) == 3
    assert cursors == [None, "a", "b"]


def test_a_tool_that_cannot_be_read_has_no_headers():
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    tools = [{"name": "route", "inputSchema": schema}, {"name": 5}, 7]
    plans = listed_plans(Raw(json.dumps({"tools": tools}).encode()))
    assert list(plans) == ["route"]
    assert list(plans["route"].build({"region": "north"}).values()) == ["north"]
    assert listed_plans(Raw(b'{"tools": 7}')) == {}
