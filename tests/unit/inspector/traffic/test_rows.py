"""The traffic in memory: pairs, bounds, masks."""

import json
import time

import msgspec
import pytest

from dragoman.errors import InspectorError
from dragoman.inspector.traffic.filter import Filter
from dragoman.inspector.traffic.rows import Traffic


def message(**members):
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def test_a_response_is_joined_with_the_request_of_the_other_side():
    traffic = Traffic()
    ours = traffic.add("s1", "client", "message", message(id=1, method="tools/call"), time=10.0)
    theirs = traffic.add("s1", "server", "message", message(id=1, method="ping"), time=10.1)
    elsewhere = traffic.add("s2", "server", "message", message(id=1, result={}), time=10.2)
    answer = traffic.add("s1", "server", "message", message(id=1, result={}), time=10.5)
    pong = traffic.add("s1", "client", "message", message(id=1, result={}), time=10.6)
    assert (answer.method, answer.ms, elsewhere.method) == ("tools/call", 500.0, None)
    assert (pong.method, pong.ms) == ("ping", 500.0)
    assert traffic.answer_of(ours.number).row is answer
    assert traffic.answer_of(theirs.number).row is pong
    assert traffic.answer_of(answer.number) is None


def test_runs_of_a_tap_do_not_share_ids():
    traffic = Traffic()
    traffic.add("f1", "client", "message", message(id=1, method="ping"), connection="a")
    other = traffic.add("f1", "server", "message", message(id=1, result={}), connection="b")
    assert other.method is None


@pytest.mark.parametrize(
    ("data", "what", "error"),
    [
        (message(method="notifications/x"), "notification", None),
        (message(id=1, method="x"), "request", None),
        (message(id=1, result={"isError": True}), "response", "the tool failed"),
        (message(id=None, error={"code": -32700, "message": "what?"}), "response", "what? (-32700)"),
        (b'[{"jsonrpc":"2.0"}]', "batch", None),
        (b'{"access_token": "x"}', None, None),
        (b"{broken", None, None),
        (b'{"id":' + b"[" * 20_000, None, None),
        (message(id={"a": 1}, method=3), None, None),
    ],
)
def test_a_message_of_any_form_becomes_a_row(data, what, error):
    row = Traffic().add("s1", "server", "message", data)
    assert (row.what, row.error, row.bytes) == (what, error, len(data))


@pytest.mark.parametrize(
    ("kind", "head", "summary", "error"),
    [
        ("request", {"method": "POST", "path": "/mcp?token=x&code=abc"}, "POST /mcp?token=***&code=***", None),
        ("response", {"status": 200}, "status 200", None),
        ("response", {"status": 503}, "status 503", "status 503"),
        ("note", {"note": "begun"}, "begun", None),
        ("note", {"note": "it died", "failed": True}, "it died", "it died"),
    ],
)
def test_heads_and_notes_have_a_summary(kind, head, summary, error):
    row = Traffic().add("s1", "tap", kind, head=head)
    assert (row.summary, row.error) == (summary, error)


def test_the_oldest_records_are_dropped_by_number_and_by_bytes():
    traffic = Traffic(max_records=3, max_bytes=1000)
    for number in range(5):
        traffic.add("s1", "client", "message", message(id=number, method="ping"))
    assert (len(traffic), traffic.dropped, traffic.last) == (3, 2, 5)
    with pytest.raises(InspectorError, match="no record 1"):
        traffic[1]
    traffic.add("s1", "server", "text", b"x" * 2000)
    assert [record.row.kind for record in traffic.records()] == ["text"]


def test_requests_without_a_response_are_forgotten_with_their_records():
    traffic = Traffic(max_records=10)
    for number in range(100):
        traffic.add("s1", "client", "message", message(id=number, method="ping"))
    late = traffic.add("s1", "server", "message", message(id=0, result={}))
    assert late.method is None


def test_secrets_are_masked_when_a_record_leaves():
    traffic = Traffic()
    row = traffic.add("s1", "client", "message", message(id=1, method="x", params={"password": "hunter2"}))
    record = traffic[row.number]
    assert b"hunter2" in record.data
    assert b"hunter2" not in record.masked() + record.as_record().data
    head = {"method": "GET", "path": "/a?code=abc", "headers": [("Authorization", "Bearer abc")]}
    row = traffic.add("s1", "client", "request", head=head)
    masked = traffic[row.number].masked_head()
    assert (masked["headers"], masked["path"]) == ([("Authorization", "Bearer ***")], "/a?code=***")


def test_the_text_and_the_columns_of_a_record_are_searched():
    traffic = Traffic()
    traffic.add("s1", "client", "request", head={"method": "GET", "path": "/Mcp"}, name="shop")
    traffic.add("s2", "server", "text", b"\xff plain")
    assert [one.row.server for one in traffic.records() if Filter("/mcp").matches(one)] == ["s1"]
    assert [one.row.server for one in traffic.records() if Filter("server:shop").matches(one)] == ["s1"]
    traffic.clear("s2")
    assert len(traffic) == 1
    traffic.clear()
    assert len(traffic) == 0


def test_a_record_costs_the_same_when_the_oldest_are_dropped_as_before():
    traffic, data = Traffic(max_records=50_000), message(method="notifications/progress")

    def added():
        began = time.process_time()
        for _ in range(50_000):
            traffic.add("s1", "server", "message", data)
        return time.process_time() - began

    before, *after = [added() for _ in range(4)]
    assert (len(traffic), traffic.dropped, traffic.first) == (50_000, 150_000, 150_001)
    assert min(after) < 3 * before


def test_the_first_number_is_that_of_the_oldest_record():
    traffic = Traffic(max_records=3)
    assert traffic.first == 1
    for place in ("s1", "s2", "s1", "s2"):
        traffic.add(place, "client", "text", b"x")
    assert traffic.first == 2
    traffic.clear("s2")
    assert traffic.first == 3
    for _ in range(3):
        traffic.add("s2", "client", "text", b"x")
    assert ([record.row.number for record in traffic.records()], traffic.first) == ([5, 6, 7], 5)
    traffic.clear()
    assert traffic.first == 8


def test_a_flood_of_requests_that_nobody_answers_costs_as_much_with_each_of_them():
    traffic = Traffic(max_records=5_000)

    def seconds(first):
        began = time.process_time()
        for id in range(first, first + 5_000):
            traffic.add("s1", "server", "message", b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % id)
        return time.process_time() - began

    unhindered = seconds(0)
    assert min(seconds(first) for first in (5_000, 10_000, 15_000)) < 5 * unhindered


def test_neither_rows_nor_spans_have_a_secret_or_a_long_text():
    traffic, secret = Traffic(), "Bearer abcdefghijklmnop"
    traffic.add("s1", "client", "message", message(id=1, method="tools/call", params={"name": f"a {secret}"}))
    error = {"code": 1, "message": f"refused {secret} " + "x" * 100_000}
    traffic.add("s1", "server", "message", message(id=1, error=error))
    rows, spans = [traffic[number].shown() for number in (1, 2)], traffic.spans.all()
    shown = msgspec.json.encode([rows, spans])
    assert b"abcdefgh" not in shown
    assert len(shown) < 3_000
    assert rows[1].error.startswith("refused Bearer *** xx")
    assert spans[0].label == "a Bearer ***"
