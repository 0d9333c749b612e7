"""Times and bytes by method."""

import json

from dragoman.inspector.traffic.rows import Traffic
from dragoman.inspector.traffic.statistics import statistics


def test_half_and_all_but_five_percent_of_the_requests_are_not_slower():
    traffic = Traffic()
    for number in range(1, 101):
        request = json.dumps({"id": number, "method": "tools/call"}).encode()
        traffic.add("s1", "client", "message", request, time=1000.0 * number)
        answer = json.dumps({"id": number, "result": {}}).encode()
        traffic.add("s1", "server", "message", answer, time=1000.0 * number + number / 1000)
    traffic.add("s1", "server", "message", b'{"method":"notifications/x"}')
    traffic.add("s1", "server", "stderr", b"started")
    found = statistics(traffic.records())
    [calls, notes] = found["methods"]
    assert (calls.count, round(calls.p50), round(calls.p95), round(calls.max)) == (100, 50, 95, 100)
    assert (notes.count, notes.p50, notes.max) == (1, None, None)
    assert (found["messages"], found["bytes"]) == (201, calls.bytes + notes.bytes + 7)


def test_no_records_have_no_statistics():
    assert statistics([]) == {"methods": [], "bytes": 0, "messages": 0}
