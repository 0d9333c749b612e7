"""Which messages belong together."""

import json

from dragoman.inspector.traffic import spans
from dragoman.inspector.traffic.rows import Traffic

STATE = {"resultType": "input_required", "requestState": "a"}


class Conversation:
    def __init__(self):
        self.traffic = Traffic()

    def client(self, exchange=None, **members):
        return self._add("client", exchange, members)

    def server(self, exchange=None, **members):
        return self._add("server", exchange, members)

    def _add(self, sender, exchange, members):
        data = json.dumps({"jsonrpc": "2.0", **members}).encode()
        return self.traffic.add("s1", sender, "message", data, exchange=exchange).span


def test_rounds_of_one_call_are_one_span_and_another_call_is_not():
    said = Conversation()
    first = said.client(id=1, method="tools/call", params={"name": "ask"})
    assert said.server(id=1, result=STATE) == first
    other = said.client(id=2, method="tools/call", params={"name": "add"})
    assert other != first
    again = {"name": "ask", "requestState": "a", "inputResponses": {}}
    assert said.client(id=3, method="tools/call", params=again) == first
    assert said.server(id=3, result={"content": []}) == first
    found = {span.span: span for span in said.traffic.spans.all()}
    assert (found[first].rounds, found[first].messages, found[first].label) == (2, 4, "ask")
    assert (found[first].end is None, found[other].end is None) == (False, True)


def test_polls_of_a_task_belong_to_the_call_that_made_it():
    said = Conversation()
    call = said.client(id=1, method="tools/call", params={"name": "slow"})
    said.server(id=1, result={"task": {"taskId": "t1", "status": "working"}})
    assert said.client(id=2, method="tasks/get", params={"taskId": "t1"}) == call
    assert said.server(id=2, result={"taskId": "t1", "status": "completed"}) == call
    assert said.server(method="notifications/tasks", params={"taskId": "t1"}) == call
    [span] = said.traffic.spans.all()
    assert (span.kind, span.rounds, span.messages) == ("task", 2, 5)


def test_a_task_of_an_earlier_run_has_a_span_of_its_own():
    said = Conversation()
    first = said.client(id=1, method="tasks/get", params={"taskId": "old"})
    assert said.client(id=2, method="tasks/result", params={"taskId": "old"}) == first
    [span] = said.traffic.spans.all()
    assert (span.kind, span.label) == ("task", "old")


def test_progress_and_messages_of_an_exchange_belong_to_their_request():
    said = Conversation()
    call = said.client(exchange=4, id=1, method="tools/call", params={"name": "a", "_meta": {"progressToken": 9}})
    assert said.server(method="notifications/progress", params={"progressToken": 9, "progress": 1}) == call
    assert said.server(exchange=4, method="notifications/message", params={}) == call
    assert said.server(exchange=4, id=8, method="sampling/createMessage", params={}) == call
    assert said.server(exchange=5, method="notifications/message", params={}) is None


def test_notifications_of_a_subscription_belong_to_its_stream():
    said = Conversation()
    stream = said.client(id=5, method="subscriptions/listen", params={})
    meta = {"io.modelcontextprotocol/subscriptionId": 5}
    assert said.server(method="notifications/tools/list_changed", params={"_meta": meta}) == stream
    [span] = said.traffic.spans.all()
    assert (span.kind, span.messages) == ("stream", 2)


def test_a_span_has_the_error_of_its_response():
    said = Conversation()
    said.client(id=1, method="ping")
    said.server(id=1, error={"code": -1, "message": "no"})
    [span] = said.traffic.spans.all()
    assert span.error == "no (-1)"


def test_parts_of_an_unexpected_form_join_nothing():
    said = Conversation()
    said.client(id=1, method="x", params=[1])
    said.client(id=2, method="x", params={"_meta": 3, "taskId": 4, "name": 5})
    said.server(id=1, result="text")
    said.server(id=2, error="text")
    assert [span.messages for span in said.traffic.spans.all()] == [2, 2]


def test_the_oldest_spans_are_dropped(monkeypatch):
    monkeypatch.setattr(spans, "MAX_SPANS", 10)
    monkeypatch.setattr(spans, "MAX_MARKS", 1)
    said = Conversation()
    for number in range(30):
        said.client(id=number, method="ping", params={"_meta": {"progressToken": number}})
        said.server(id=number, result={})
    found = said.traffic.spans.all()
    assert len(found) <= 10
    assert {len(span.marks) for span in found} == {1}
    assert {span.messages for span in found} == {2}
