"""How a recorded conversation is played: what is due when, whose ids are used, and what a miss shows."""

import json

import pytest

from dragoman.errors import SessionFileError
from dragoman.testing.cassettes.tape import Tape


def request(id, method, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id, name, token=None, **arguments):
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return request(id, "tools/call", name=name, arguments=arguments, **meta)


def answer(id, text):
    return {"jsonrpc": "2.0", "id": id, "result": {"text": text}}


def test_an_answer_has_the_id_of_the_request_that_is_played():
    tape = Tape([("client", call(1, "add", a=1)), ("server", answer(1, "one"))])
    assert tape.play(call("x", "add", a=1)) == [answer("x", "one")]
    assert not tape.missing


def test_requests_that_were_in_flight_at_once_may_be_played_one_by_one_and_in_any_order():
    recorded = [
        ("client", call(1, "add", a=1)),
        ("client", call(2, "add", a=2)),
        ("server", answer(2, "two")),
        ("server", answer(1, "one")),
        ("client", call(3, "add", a=3)),
        ("server", answer(3, "three")),
    ]
    tape = Tape(recorded)
    assert tape.play(call(12, "add", a=2)) == [answer(12, "two")]
    assert tape.play(call(11, "add", a=1)) == [answer(11, "one")]
    assert tape.play(call(13, "add", a=3)) == [answer(13, "three")]


def test_the_order_is_that_of_the_recording_unless_any_order_will_do():
    recorded = [
        ("client", call(1, "add", a=1)),
        ("server", answer(1, "one")),
        ("client", call(2, "add", a=2)),
        ("server", answer(2, "two")),
    ]
    (refusal,) = Tape(recorded).play(call(5, "add", a=2))
    assert "is not on the cassette" in refusal["error"]["message"]
    tape = Tape(recorded, "any")
    assert tape.play(call(5, "add", a=2)) == [answer(5, "two")]
    assert tape.play(call(6, "add", a=1)) == [answer(6, "one")]
    (refusal,) = tape.play(call(7, "add", a=1))
    assert "every request was played already" in refusal["error"]["message"]


def test_progress_has_the_token_of_the_request_that_is_played():
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 5}}
    tape = Tape([("client", call(1, "add", token=1)), ("server", progress), ("server", answer(1, "one"))])
    played, _ = tape.play(call(9, "add", token="t"))
    assert played["params"] == {"progressToken": "t", "progress": 5}


def test_a_question_of_the_server_waits_for_its_answer():
    question = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    tape = Tape(
        [
            ("client", call(1, "ask")),
            ("server", question),
            ("client", {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}),
            ("server", {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}),
            ("server", answer(1, "done")),
        ]
    )
    assert tape.play(call(1, "ask")) == [question]
    assert [message.get("method") for message in tape.play({"jsonrpc": "2.0", "id": "q", "result": {}})] == [
        "notifications/message",
        None,
    ]


def test_an_answer_does_not_wait_for_a_question_that_another_request_in_flight_caused():
    question = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    tape = Tape(
        [
            ("client", call(1, "add")),
            ("client", call(2, "ask")),
            ("server", question),
            ("client", {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}),
            ("server", answer(1, "one")),
            ("server", answer(2, "two")),
        ]
    )
    assert tape.play(call(1, "add")) == [answer(1, "one")]
    assert tape.play(call(2, "ask")) == [question]


def test_polls_have_no_order_and_one_more_of_them_gets_the_last_answer_again():
    status = {
        "jsonrpc": "2.0",
        "method": "notifications/tasks/status",
        "params": {"taskId": "t", "status": "completed"},
    }
    tape = Tape(
        [
            ("client", call(1, "bake")),
            ("server", answer(1, "t")),
            ("client", request(2, "tasks/get", taskId="t")),
            ("server", answer(2, "working")),
            ("client", request(3, "tasks/get", taskId="t")),
            ("server", answer(3, "asking")),
            ("client", request(4, "tasks/update", taskId="t")),
            ("server", answer(4, "thanks")),
            ("server", status),
            ("client", request(5, "ping")),
            ("server", answer(5, "pong")),
            ("client", call(6, "add")),
            ("server", answer(6, "six")),
        ]
    )
    tape.play(call(1, "bake"))
    polls = [tape.play(request(n, "tasks/get", taskId="t")) for n in (12, 13, 14)]
    assert polls == [[answer(12, "working")], [answer(13, "asking")], [answer(14, "asking")]]
    assert tape.play(request(15, "tasks/update", taskId="t")) == [answer(15, "thanks"), status]
    assert tape.play(request(16, "tasks/get", taskId="t")) == [answer(16, "asking"), status]
    assert tape.play(call(17, "add")) == [answer(17, "six")]
    assert not tape.missing


def test_a_subscription_may_name_other_tasks_and_its_notifications_have_the_id_of_the_request_that_is_played():
    def listen(id, *tasks):
        return request(id, "subscriptions/listen", notifications={"taskIds": list(tasks)})

    def changed(id):
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        return {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}

    tape = Tape([("client", listen(1, "a", "b")), ("server", changed(1))])
    assert tape.play(listen("x", "a")) == [changed("x")]
    assert tape.play(listen("y", "a", "b")) == []
    assert not tape.missing


def test_a_miss_shows_the_closest_request_of_the_same_method_and_other_versions():
    tape = Tape([("client", request(1, "prompts/list")), ("client", call(2, "add", a=1, b="north"))], "any")
    (refusal,) = tape.play(call(5, "add", a=1, b="south"))
    text = refusal["error"]["message"]
    assert '"north"' in text
    assert '"south"' in text
    assert "prompts/list" not in text
    assert tape.missing == [text]
    other = Tape([("client", request(1, "initialize", protocolVersion="2025-06-18"))])
    (refusal,) = other.play(request(1, "initialize", protocolVersion="2024-11-05"))
    assert "The versions differ: 2024-11-05 and 2025-06-18" in refusal["error"]["message"]


def test_a_probe_that_the_client_does_not_send_is_passed_over():
    recorded = [
        ("client", request(1, "server/discover")),
        ("server", {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}),
        ("client", request(2, "initialize", protocolVersion="2025-06-18", clientInfo={"name": "a"})),
        ("server", answer(2, "hello")),
    ]
    assert Tape(recorded).play(request(1, "initialize", protocolVersion="2025-06-18", clientInfo={"name": "b"})) == [
        answer(1, "hello")
    ]


@pytest.mark.parametrize(
    "text", ["", "{}", "no json", '{"cassette": 2}', '{"cassette": 1}\n{"x": 1}', '{"cassette": 1}\n[]']
)
def test_a_file_that_is_no_cassette_is_refused_by_its_name(tmp_path, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(SessionFileError, match=r"x\.jsonl"):
        Tape.load(path)


def test_a_cassette_is_read_from_its_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [
        {"cassette": 1},
        {"from": "client", "message": call(1, "add")},
        {"from": "server", "message": answer(1, "x")},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert Tape.load(path).play(call(2, "add")) == [answer(2, "x")]
