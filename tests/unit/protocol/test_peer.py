import json

import pytest
from msgspec import Raw

from dragoman.errors import InvalidParams, RpcError, ValidationError
from dragoman.protocol import jsonrpc
from dragoman.protocol.jsonrpc import Limits, Notification, Request
from dragoman.protocol.peer import Answered, Peer, PeerReply, Progressed, RequestCancelled, Unmatched
from dragoman.protocol.versions import V2025_03_26, V2025_06_18


def line(**fields) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def call(id, method="tools/call", **fields) -> bytes:
    return line(id=id, method=method, **fields)


def cancelled(id, **fields) -> bytes:
    return line(method="notifications/cancelled", params={"requestId": id, **fields})


def received(peer, chunk):
    return list(peer.events(chunk))


def only(events):
    assert len(events) == 1, events
    return events[0]


def replied(events) -> dict:
    reply = only(events)
    assert isinstance(reply, PeerReply)
    return json.loads(reply.data)


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_a_request_is_served_and_answered_once(peer):
    request = only(received(peer, call(1, "ping")))
    assert isinstance(request, Request)
    assert peer.send_result(1, {}) == b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert peer.send_result(1, {}) is None


def test_a_request_may_be_refused_with_an_error(peer):
    received(peer, call("a"))
    assert json.loads(peer.send_error("a", InvalidParams("no")) or b"")["error"] == {"code": -32602, "message": "no"}


def test_an_unterminated_last_line_is_served_at_the_end_of_the_stream(peer):
    assert received(peer, call(1).rstrip()) == []
    assert isinstance(only(received(peer, None)), Request)
    assert received(peer, None) == []


def test_an_id_in_use_is_refused_and_the_first_request_keeps_it(peer):
    assert peer.refuse_id(1) is None
    received(peer, call(1))
    answer = replied(received(peer, call(1)))
    assert peer.refuse_id(1).message == answer["error"]["message"]
    assert (answer["id"], answer["error"]["code"]) == (1, -32600)
    assert peer.send_result(1, "first") is not None
    assert isinstance(only(received(peer, call(1))), Request)


def test_the_ids_1_and_text_1_are_different(peer):
    assert [type(event) for event in received(peer, call(1) + call("1"))] == [Request, Request]


def test_a_cancelled_request_is_never_answered(peer):
    received(peer, call(1) + call(2))
    assert received(peer, cancelled(1, reason="changed my mind")) == [RequestCancelled(1, "changed my mind")]
    assert peer.send_result(1, "too late") is None
    assert peer.send_error(2, RpcError(1, "x")) is not None


def test_a_cancelled_request_keeps_its_id_until_its_handler_has_ended(peer):
    received(peer, call(1) + cancelled(1))
    assert replied(received(peer, call(1)))["error"]["code"] == -32600
    assert peer.finish(1, None) is None
    assert isinstance(only(received(peer, call(1))), Request)


@pytest.mark.parametrize(
    "notification",
    [
        cancelled(None),
        cancelled(1.5),
        line(method="notifications/cancelled"),
        line(method="notifications/cancelled", params=[1]),
        line(method="notifications/cancelled", params="x"),
    ],
)
def test_malformed_cancellations_are_ignored(peer, notification):
    received(peer, call(1))
    assert received(peer, notification) == []
    assert peer.send_result(1, {}) is not None


@pytest.mark.parametrize("id", [99, "1"])
def test_a_cancellation_of_what_is_not_served_here_matches_nothing(peer, id):
    received(peer, call(1))
    unmatched = only(received(peer, cancelled(id)))
    assert isinstance(unmatched, Unmatched)
    assert isinstance(unmatched.message, Notification)
    assert peer.send_result(1, {}) is not None


def test_a_second_cancellation_says_nothing_new(peer):
    received(peer, call(1) + cancelled(1))
    assert received(peer, cancelled(1)) == []


def test_initialize_cannot_be_cancelled(peer):
    received(peer, call(0, "initialize"))
    assert received(peer, cancelled(0)) == []
    assert peer.send_result(0, {}) is not None


def test_a_notification_is_passed_on_and_never_answered(peer):
    event = only(received(peer, line(method="notifications/initialized")))
    assert isinstance(event, Notification)


def test_our_requests_get_ids_that_are_never_used_twice(peer):
    assert [peer.next_id(), peer.next_id()] == [1, 2]
    named = Peer(make_id="w3-{}".format)
    assert [named.next_id(), named.next_id()] == ["w3-1", "w3-2"]


def test_an_answer_reaches_who_waits_for_it(peer):
    assert peer.send_request(1, "roots/list", {}, "me") == b'{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}'
    peer.send_request(2, "ping", {}, "you")
    answered = only(received(peer, line(id=1, result={"roots": []})))
    assert answered.waiter == "me"
    assert bytes(answered.outcome) == b'{"roots": []}'
    refused = only(received(peer, line(id=2, error={"code": -1, "message": "no"})))
    assert isinstance(refused, Answered)
    assert isinstance(refused.outcome, RpcError)
    assert (refused.waiter, refused.outcome.code) == ("you", -1)
    assert peer.waiting == []


@pytest.mark.parametrize(
    "answer",
    [line(id=1, result={}), line(id="1", result={}), line(error={"code": -1, "message": "?"}), line(id=7, result=1)],
)
def test_repeated_late_and_nameless_answers_match_nobody(peer, answer):
    peer.send_request(1, "ping", {}, "me")
    received(peer, line(id=1, result={}))
    assert isinstance(only(received(peer, answer)), Unmatched)


def test_a_malformed_answer_fails_who_waits_for_it(peer):
    peer.send_request(1, "ping", {}, "me")
    answered = only(received(peer, b'{"id":1,"result":{}}\n'))
    assert (answered.waiter, answered.outcome.code) == ("me", -32603)
    assert "The answer is malformed" in answered.outcome.message


def test_a_malformed_answer_is_not_answered(peer):
    assert received(peer, line(id=1.5, result={})) == []


def test_progress_reaches_who_waits_for_the_request(peer):
    peer.send_request(1, "tools/call", {}, "me")
    event = only(received(peer, line(method="notifications/progress", params={"progressToken": 1, "progress": 0.5})))
    assert isinstance(event, Progressed)
    assert (event.waiter, event.params.progress) == ("me", 0.5)


def test_progress_under_a_token_that_is_no_id_reaches_who_set_it(peer):
    progress = line(method="notifications/progress", params={"progressToken": "mine", "progress": 1})
    assert received(peer, progress) == []
    peer.tokens["mine"] = "me"
    assert only(received(peer, progress)).waiter == "me"


@pytest.mark.parametrize("params", [{"progressToken": 2, "progress": 1}, {"progressToken": 1}, {}, []])
def test_progress_of_nothing_and_malformed_progress_are_ignored(peer, params):
    peer.send_request(1, "tools/call", {}, "me")
    assert received(peer, line(method="notifications/progress", params=params)) == []


def test_giving_up_a_request_tells_the_other_side_and_ignores_its_answer(peer):
    peer.send_request(1, "ping", {}, None)
    assert json.loads(peer.cancel(1, "time is up") or b"") == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "time is up"},
    }
    assert peer.cancel(1) is None
    assert isinstance(only(received(peer, line(id=1, result={}))), Unmatched)


def test_closing_returns_who_still_waits_and_forgets_the_rest(peer):
    received(peer, call(1))
    peer.send_request(1, "ping", {}, "a")
    peer.send_request(2, "ping", {}, "b")
    assert peer.close() == ["a", "b"]
    assert peer.close() == []
    assert peer.waiting == []
    assert peer.send_result(1, {}) is None


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"nope\n", -32700), (b"\xff\n", -32700), (b"[]\n", -32600), (b'{"jsonrpc":"2.0"}\n', -32600)],
)
def test_what_is_no_message_is_answered_and_the_next_one_is_served(peer, data, code):
    refusal, request = received(peer, data + call(1))
    assert isinstance(refusal, PeerReply)
    assert json.loads(refusal.data)["error"]["code"] == code
    assert isinstance(request, Request)


def test_an_endless_line_is_answered_once_and_the_next_line_is_served():
    peer = Peer(Limits(message_bytes=100))
    assert received(peer, b"x" * 50) == []
    answer = replied(received(peer, b"x" * 500))
    assert answer["error"] == {"code": -32700, "message": "A message must not have more than 100 bytes"}
    assert received(peer, b"x" * 500) == []
    assert isinstance(only(received(peer, b"\n" + call(1))), Request)


def test_an_unknown_id_is_null_before_2025_11_25_and_left_out_since(peer):
    assert "id" not in replied(received(peer, b"nope\n"))
    peer.version = V2025_06_18
    assert replied(received(peer, b"nope\n"))["id"] is None


def test_a_result_that_cannot_be_json_leaves_the_request_to_be_answered(peer):
    received(peer, call(1))
    with pytest.raises(ValidationError):
        peer.send_result(1, object())
    assert peer.send_error(1, RpcError(-32603, "Internal error")) is not None


def test_a_request_of_ours_that_cannot_be_json_leaves_nobody_waiting(peer):
    with pytest.raises(ValidationError):
        peer.send_request(1, "x", object(), "me")
    assert peer.waiting == []


def test_ids_pass_over_any_number_of_tokens(peer):
    peer.tokens.update(dict.fromkeys(range(1, 5000)))
    assert peer.next_id() == 5000


def test_a_whole_message_may_come_without_a_line(peer):
    assert isinstance(only(peer.receive_message(call(1).rstrip())), Request)


def batch(*lines: bytes) -> bytes:
    return b"[" + b",".join(part.strip() for part in lines) + b"]\n"


@pytest.fixture
def batching() -> Peer:
    peer = Peer()
    peer.version = V2025_03_26
    return peer


def test_a_whole_batch_may_come_without_a_line(batching):
    events = batching.receive_message(batch(call(1), line(method="x"), call(2)).rstrip())
    assert [type(event) for event in events] == [Request, Notification, Request]


def test_a_batch_is_answered_as_one_message_when_its_last_request_is(batching):
    events = received(batching, batch(call(1), line(method="notifications/initialized"), call(2)))
    assert [type(event) for event in events] == [Request, Notification, Request]
    assert batching.send_result(2, "b") is None
    assert json.loads(batching.send_result(1, "a") or b"") == [
        {"jsonrpc": "2.0", "id": 1, "result": "a"},
        {"jsonrpc": "2.0", "id": 2, "result": "b"},
    ]


def test_a_cancelled_request_is_left_out_of_its_batch(batching):
    received(batching, batch(call(1), call(2)) + cancelled(1))
    assert batching.send_result(1, "a") is None
    assert [answer["id"] for answer in json.loads(batching.send_result(2, "b") or b"")] == [2]


def test_a_batch_whose_requests_were_all_cancelled_is_not_answered(batching):
    received(batching, batch(call(1)) + cancelled(1))
    assert batching.send_result(1, "a") is None


def test_what_is_wrong_in_a_batch_is_answered_with_it(batching):
    events = received(batching, batch(b"5", call(1), call(1), call(0, "initialize")))
    assert [type(event) for event in events] == [Request]
    answers = json.loads(batching.send_result(1, {}) or b"")
    assert [(answer.get("id"), answer.get("error", {}).get("code")) for answer in answers] == [
        (None, -32600),
        (1, None),
        (1, -32600),
        (0, -32600),
    ]


def test_a_batch_of_nothing_but_errors_is_answered_at_once(batching):
    answers = replied(received(batching, batch(b"5", b"{}")))
    assert [answer["error"]["code"] for answer in answers] == [-32600, -32600]


def test_a_batch_of_answers_and_notifications_is_not_answered(batching):
    batching.send_request(1, "ping", {}, "me")
    events = received(batching, batch(line(id=1, result={}), line(method="x"), line(id=1.5, result={})))
    assert [type(event) for event in events] == [Answered, Notification]


def test_a_batch_is_refused_where_the_version_has_none(peer):
    assert replied(received(peer, batch(call(1))))["error"]["code"] == -32600


def test_a_decoded_message_may_be_accepted_directly(peer):
    message = jsonrpc.Request(5, "ping")
    assert peer.accept(message) is message
    assert peer.finish(5, b"encoded already") == b"encoded already"
    assert peer.finish(5, b"again") is None


def test_what_is_done_about_one_message_of_a_chunk_holds_for_the_next(peer):
    seen = []
    for event in peer.events(call(1) + call(1) + line(id=0, method="initialize") + batch(call(2))):
        seen.append(type(event))
        if isinstance(event, Request):
            peer.send_result(event.id, {})
        if isinstance(event, Request) and event.method == "initialize":
            peer.version = V2025_03_26
    assert seen == [Request, Request, Request, Request]


def test_requests_that_nobody_will_answer_are_given_back_and_forgotten(peer):
    received(peer, call(1))
    peer.send_request(1, "ping", {}, "me")
    assert peer.abandon() == ["me"]
    assert peer.abandon() == []
    assert peer.waiting == []
    assert peer.send_result(1, {}) is not None


def test_an_answer_is_matched_whose_id_came_back_as_text():
    peer = Peer()
    first, second = (peer.next_id() for _ in range(2))
    peer.send_request(first, "tools/call", {}, "first")
    peer.send_request(second, "tools/call", {}, "second")
    assert only(received(peer, line(id="1", result={}))) == Answered("first", Raw(b"{}"))
    assert only(received(peer, line(id="2", error={"code": 1, "message": "x"}))).waiter == "second"
    for id in ("1", "x", "", "9" * 5000, "²"):
        assert isinstance(only(received(peer, line(id=id, result={}))), Unmatched)
