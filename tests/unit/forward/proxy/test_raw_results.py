"""What a proxy changes in results between the eras, and what it reads of them."""

import json
from contextlib import nullcontext

import pytest
from msgspec import Raw

from dragoman import types
from dragoman.errors import HeaderMismatch
from dragoman.forward.proxy.raw_results import (
    check_mirrored,
    fits,
    input_requests,
    is_begun_task,
    split_meta,
    translated,
    with_age,
    with_tools,
    with_versions,
)
from dragoman.protocol.eras import Caller, McpRequest
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.methods import METHODS
from dragoman.protocol.versions import V2024_11_05, V2025_11_25, V2026_07_28

METHOD = {method.name: method for method in METHODS}
INFO = "io.modelcontextprotocol/serverInfo"


def read(raw):
    return json.loads(bytes(raw))


def test_a_result_of_the_same_era_stays_the_same_bytes():
    raw = Raw(b'{"tools" : [ ],"x":1.0}')
    assert translated(raw, V2025_11_25, V2024_11_05, METHOD["tools/list"], None) is raw
    assert translated(raw, V2026_07_28, V2026_07_28, METHOD["tools/list"], None) is raw


def test_a_result_for_a_stateless_client_gets_what_such_results_have():
    info = types.Implementation("front", "1")
    raw = Raw(b'{"tools":[],"_meta":{"a":1}}')
    found = read(translated(raw, V2025_11_25, V2026_07_28, METHOD["tools/list"], info))
    assert found == {
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "tools": [],
        "_meta": {"a": 1, INFO: {"name": "front", "version": "1"}},
    }
    assert "ttlMs" not in read(translated(raw, V2025_11_25, V2026_07_28, METHOD["tools/call"], None))
    assert read(translated(Raw(b"[1]"), V2025_11_25, V2026_07_28, METHOD["ping"], None))["result"] == [1]


def test_a_result_for_a_client_with_a_session_loses_what_only_stateless_results_have():
    raw = Raw(
        json.dumps({"resultType": "complete", "ttlMs": 5, "cacheScope": "public", "x": 1, "_meta": {INFO: {}}}).encode()
    )
    assert read(translated(raw, V2026_07_28, V2025_11_25, METHOD["tools/list"], None)) == {"x": 1}
    assert bytes(translated(Raw(b"7"), V2026_07_28, V2025_11_25, METHOD["ping"], None)) == b"7"


def test_the_age_of_a_list_joins_its_meta():
    assert read(with_age(Raw(b'{"tools":[],"_meta":{"a":1}}'), 7)) == {
        "tools": [],
        "_meta": {"a": 1, "dragoman/age": 7},
    }


@pytest.mark.parametrize("raw", [b"{}", b'{"resultType":"complete"}', b"7", b'{"resultType":5}'])
def test_only_an_input_required_result_has_questions(raw):
    assert input_requests(Raw(raw))[0] is None


def test_the_questions_of_a_result_keep_their_parameters_encoded():
    asked = b'{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}'
    questions, state = input_requests(Raw(asked))
    assert questions["a"].method == "roots/list"
    assert (bytes(questions["a"].params), bytes(state)) == (b"{}", b'"s"')


def test_meta_is_split_from_parameters_of_any_kind():
    params, meta = split_meta(Raw(b'{"a":1.0,"_meta":{"b":2}}'))
    assert ({key: bytes(value) for key, value in params.items()}, bytes(meta["b"])) == ({"a": b"1.0"}, b"2")
    assert split_meta(Raw(b"[1]")) == ({}, {})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"content":[]}', True),
        (b'{"content":[],"resultType":"complete"}', True),
        (b'{"resultType":"input_required"}', False),
        (b'{"content":[{"type":"hologram"}]}', False),
        (b"7", False),
    ],
)
def test_a_result_fits_its_type_if_it_is_complete_and_known(raw, expected):
    assert fits(Raw(raw), types.CallToolResult) is expected


def test_a_task_that_has_begun_is_told_from_a_result_that_speaks_of_tasks():
    asked, plain = (
        McpRequest(1, METHOD["tools/call"], types.CallToolRequestParams(name="x", **task), Caller(V2025_11_25))
        for task in ({"task": Raw(b"{}")}, {})
    )
    assert is_begun_task(asked, Raw(b'{"task":{"taskId":"1"}}'))
    assert not is_begun_task(plain, Raw(b'{"task":{"taskId":"1"}}'))
    assert not is_begun_task(asked, Raw(b'{"content":[{"type":"text","text":"\\"task\\""}]}'))
    assert not is_begun_task(asked, Raw(b'{"structuredContent":{"task":1}}'))


def test_a_discovery_names_other_versions_and_keeps_everything_else():
    raw = Raw(b'{"supportedVersions":["2026-07-28"],"capabilities":{"x":1.0},"resultType":"complete"}')
    changed = b'{"supportedVersions":["b","a"],"capabilities":{"x":1.0},"resultType":"complete"}'
    assert bytes(with_versions(raw, ["b", "a"])) == changed


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [({"region": "eu"}, False), ({"region": "eu", "Region": "us"}, True), ({"region": "eu", "Other": 1}, False)],
)
def test_an_argument_that_a_header_repeats_has_one_spelling(arguments, refused):
    plan = HeaderPlan.of({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
    with pytest.raises(HeaderMismatch, match="another spelling") if refused else nullcontext():
        check_mirrored(plan, json.dumps(arguments).encode(), {"region": "eu"})


@pytest.mark.parametrize(
    ("tools", "shown"),
    [([{"name": "a", "x": 1}, {"name": "b"}, {"name": 3}, 5], [{"name": "a", "x": 1}]), ("odd", []), ([], [])],
)
def test_a_list_keeps_only_the_tools_that_are_shown_with_every_field(tools, shown):
    raw = Raw(json.dumps({"tools": tools, "nextCursor": "2"}).encode())
    assert read(with_tools(raw, {"a", "c"}.__contains__)) == {"tools": shown, "nextCursor": "2"}
