"""The records of one HTTP exchange."""

from dragoman.compose.tap import http_records
from dragoman.compose.tap.http_records import HttpRecords


class Written(list):
    def write(self, sender, kind, data=b"", head=None, *, exchange=None):
        self.append((sender, kind, data, head, exchange))


def test_a_body_is_recorded_once_when_it_is_whole():
    written = Written()
    records = HttpRecords(written, 3)
    records.request("POST", "/mcp", [("a", "b")], b'{"id":1}')
    records.response(200, [], "application/json")
    records.receive(b'{"id"')
    records.receive(b":1}")
    records.finish()
    records.finish()
    assert [(sender, kind, data) for sender, kind, data, *_ in written] == [
        ("client", "request", b""),
        ("client", "message", b'{"id":1}'),
        ("server", "response", b""),
        ("server", "message", b'{"id":1}'),
    ]
    assert {exchange for *_, exchange in written} == {3}


def test_an_event_is_recorded_as_soon_as_it_is_complete(monkeypatch):
    monkeypatch.setattr(http_records, "MAX_BODY_BYTES", 50)
    written = Written()
    records = HttpRecords(written, 1)
    records.response(200, [], "text/event-stream")
    records.receive(b"id: 1\nda")
    records.receive(b"ta: {}\n\ndata: plain\n\n" + b"data: " + b"x" * 100 + b"\n\n")
    records.note("it ended", failed=True)
    found = [(kind, data, head) for _, kind, data, head, _ in written[1:]]
    assert found[0][:2] == ("message", b"{}")
    assert found[0][2]["id"] == "1"
    assert found[1][:2] == ("text", b"plain")
    assert "too long" in found[2][2]["note"]
    assert found[3] == ("note", b"", {"note": "it ended", "failed": True})
