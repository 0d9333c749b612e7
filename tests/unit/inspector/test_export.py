"""Exports of records that stand for themselves, such as those of a session file."""

import json

import pytest

from dragoman.inspector.export import FORMATS, ExportedCalls
from dragoman.inspector.targets import ServerTarget
from dragoman.inspector.traffic.rows import Traffic


def exported(format, *messages, target=None):
    traffic = Traffic()
    for sender, message in messages:
        traffic.add("f1", sender, "message", json.dumps(message).encode() if isinstance(message, dict) else message)
    return FORMATS[format][2](ExportedCalls(traffic.records(), target))


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


@pytest.mark.parametrize("format", ["python", "pytest", "curl"])
def test_no_secret_of_a_target_is_written(format):
    url = ServerTarget(
        name="x", target="", shown="", url="https://me:abc@example.com/mcp?token=abc", is_authorized=True
    )
    words = ["run", "--token", "abc", "--api-key=abc", "KEEP"]
    entry = ServerTarget(name="x", target={"command": "npx", "args": words, "env": {"KEY": "abc"}}, shown="")
    line = ServerTarget(name="x", target="npx run --token abc", shown="", options={"env": {"KEY": "abc"}})
    command = ServerTarget(name="x", target=["npx", *words], shown="")
    for target in (url, entry, line, command):
        text = exported(format, request("tools/list"), target=target)
        assert "abc" not in text
        if format != "curl":
            compile(text, "exported", "exec")
    if format != "curl":
        made = exported(format, request("tools/list"), target=entry)
        assert (
            "Client(['npx', 'run', '--token', '***', '--api-key=***', 'KEEP'], env={'KEY': os.environ['KEY']})" in made
        )
        assert 'auth=os.environ["DRAGOMAN_TOKEN"]' in exported(format, request("tools/list"), target=url)


@pytest.mark.parametrize("format", ["python", "pytest", "curl"])
def test_a_stream_that_a_client_keeps_open_is_left_out(format):
    text = exported(format, request("subscriptions/listen"), request("tools/list"))
    assert ("subscriptions/listen" in text, "tools/list" in text) == (False, True)


def test_a_call_that_was_refused_is_expected_to_be_refused_again():
    refusal = ("server", {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}})
    call = request("tools/call", name="x", arguments={"long": "a " * 99})
    for format, expected in {"pytest": "with pytest.raises(DragomanError):", "python": "except DragomanError"}.items():
        text = exported(format, call, refusal)
        compile(text, "exported", "exec")
        assert expected in text
