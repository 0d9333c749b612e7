"""Exports of records that stand for themselves, such as those of a session file."""

import json

import pytest

from dragoman.inspector.export import FORMATS, ExportedCalls
from dragoman.inspector.inspected import ServerTarget
from dragoman.inspector.traffic.filter import Filter
from dragoman.inspector.traffic.rows import Traffic


def exported(format, *messages, target=None):
    traffic = Traffic()
    for sender, message in messages:
        traffic.add("f1", sender, "message", json.dumps(message).encode() if isinstance(message, dict) else message)
    return FORMATS[format][2](ExportedCalls(list(traffic.matching(Filter())), target))


def request(method, **params):
    return ("client", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


ANSWER = ("server", {"jsonrpc": "2.0", "id": 1, "result": {"value": [1]}})


@pytest.mark.parametrize("format", ["python", "pytest"])
def test_a_program_asks_for_its_target_if_that_is_unknown_and_compiles(format):
    text = exported(format, request("initialize"), request("acme/add", a="'\n\\", _meta={"x": 1}), ANSWER)
    compile(text, "exported", "exec")
    assert "PUT THE URL OR COMMAND OF THE SERVER HERE" in text
    assert "initialize" not in text
    assert "_meta" not in text


def test_a_test_compares_the_result_of_any_method():
    text = exported("pytest", request("acme/add", a=1), ANSWER)
    assert "def test_acme_add_1():" in text
    assert "assert result == {'value': [1]}" in text


def test_a_request_without_a_response_is_only_expected_to_answer():
    text = exported("pytest", request("tools/call", name="add", arguments={}))
    assert "assert result is not None" in text


@pytest.mark.parametrize("name", ["os.system('x')", '"""', "def", "über tool", ""])
def test_a_hostile_name_cannot_leave_its_place(name):
    text = exported("pytest", request("tools/call", name=name, arguments={name: name}))
    compile(text, "exported", "exec")
    assert repr(name) in text


@pytest.mark.parametrize("content", [None, 3, [3], [{"type": "text"}], [{"type": "text", "text": "a\u2028b\n" * 99}]])
def test_content_of_any_form_becomes_a_test_that_compiles(content):
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": content, "structuredContent": {"a": content}}}
    compile(exported("pytest", request("tools/call", name="x"), ("server", answer)), "exported", "exec")


def test_a_program_without_calls_compiles():
    compile(exported("python", ("server", b"[]")), "exported", "exec")


def test_the_target_is_written_without_its_query():
    target = ServerTarget(name="x", target="", shown="", url="https://example.com/mcp?api_key=abc")
    text = exported("python", request("ping"), request("tools/list"), target=target)
    assert "Client('https://example.com/mcp')" in text
    command = ServerTarget(name="x", target={"command": "python", "args": ["a.py"]}, shown="")
    assert "Client(['python', 'a.py'])" in exported("python", request("tools/list"), target=command)


def test_a_cassette_has_messages_alone():
    lines = exported("cassette", request("ping"), ANSWER, ("server", {"access_token": "x"}), ("server", b"{broken"))
    assert [json.loads(line).get("from") for line in lines.splitlines()] == [None, "client", "server"]


def test_har_without_exchanges_is_empty():
    assert json.loads(exported("har", request("ping")))["log"]["entries"] == []
