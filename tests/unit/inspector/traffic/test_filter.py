"""The filter of the traffic."""

import pytest

from dragoman.errors import ValidationError
from dragoman.inspector.traffic.filter import Filter
from dragoman.inspector.traffic.rows import Row, TrafficRecord


def record(text="", **columns):
    row = Row(**{"number": 1, "time": 0.0, "server": "", "sender": "client", "kind": "message", "bytes": 0, **columns})
    return TrafficRecord(row, {}, text.encode())


CALL = record('{"city":"Oslo"}', ms=700.0, bytes=12_000, method="tools/call", server="shop", id="7")
FAILED = record("boom", ms=3.0, bytes=10, error="no", method="prompts/get", what="response", kind="text")


@pytest.mark.parametrize(
    ("text", "call", "failed"),
    [
        ("", True, True),
        ("method:tools/*", True, False),
        ("method:tools/* error", False, False),
        ("error", False, True),
        ("-error", True, False),
        (">500ms", True, False),
        ("<500ms", False, True),
        (">0.5s", True, False),
        (">500", True, False),
        ("<1m", True, True),
        (">10kB", True, False),
        ("<1KB", False, True),
        (">1MB", False, False),
        ("<20b", False, True),
        ("oslo", True, False),
        ("OSLO", True, False),
        ('"city":', True, False),
        ('"oslo"', True, False),
        ('-"oslo"', False, True),
        ('"unfinished', False, False),
        ("server:sh* id:7", True, False),
        ("what:response", False, True),
        ("method:", True, True),
        ("kind:message -method:tools/list", True, False),
        ("unknown:column", False, False),
    ],
)
def test_a_row_must_match_every_word(text, call, failed):
    wanted = Filter(text)
    assert (wanted.matches(CALL), wanted.matches(FAILED)) == (call, failed)


def test_a_row_without_a_time_is_neither_quick_nor_slow():
    assert not Filter(">1ms").matches(record())
    assert not Filter("<1ms").matches(record())


def test_a_unit_that_is_unknown_is_refused_with_those_that_are_known():
    with pytest.raises(ValidationError, match="ms, s, m, B, kB or MB"):
        Filter(">5parsecs")
