from __future__ import annotations

import pytest

from dragoman.protocol.lines import Oversized
from dragoman.protocol.sse import KEEP_ALIVE, Event, EventDecoder, EventId, encode, priming_event


def decode(*chunks: bytes, limit: int = 1000) -> list[Event | Oversized]:
    decoder = EventDecoder(limit)
    return [event for chunk in chunks for event in decoder.receive(chunk)]


def cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b"data: one\n\n", [Event("one")]),
        (b"data: one\r\r", [Event("one")]),
        (b"data: one\r\n\r\n", [Event("one")]),
        (b"data: one\r\n\rdata: two\n\r\n", [Event("one"), Event("two")]),
        (b"data: one\r\rdata: two\r\r\n", [Event("one"), Event("two")]),
        (b"data: one\ndata: two\n\n", [Event("one\ntwo")]),
        (b"data: one\r\ndata: two\r\n\r\n", [Event("one\ntwo")]),
        (b"data\ndata\n\n", [Event("\n")]),
        (b"data:one\n\n", [Event("one")]),
        (b"data:  one \n\n", [Event(" one ")]),
        (b"data: a:b\n\n", [Event("a:b")]),
        (b"data:\n\n", [Event("")]),
        (b"data\n\n", [Event("")]),
        (b": comment\ndata: one\n:\n\n", [Event("one")]),
        (b"event: ping\ndata: one\n\ndata: two\n\n", [Event("one", "ping"), Event("two")]),
        (b"event: ping\nevent:\ndata: one\n\n", [Event("one")]),
        (b"event: ping\n\ndata: one\n\n", [Event("one")]),
        (b"id: 1\ndata: one\n\ndata: two\n\n", [Event("one", id="1"), Event("two")]),
        (b"id\ndata: one\n\n", [Event("one", id="")]),
        (b"id: 1\nid: 2\0\ndata: one\n\n", [Event("one", id="1")]),
        (b"retry: 250\ndata: one\n\n", [Event("one", retry=250)]),
        (b"Data: one\nunknown: two\n data: three\n\n", []),
        (b"\xef\xbb\xbfdata: one\n\n", [Event("one")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: one\n\n", []),
        (b"\xef\xbb\xbf\ndata: one\n\n", [Event("one")]),
        (b"data: one\n\n\xef\xbb\xbfdata: two\n\n", [Event("one")]),
        ("data: d\u00e9j\u00e0 \U0001f600\u2028\x85\n\n".encode(), [Event("d\u00e9j\u00e0 \U0001f600\u2028\x85")]),
        (b"data: \xff\xe2\x82\ndata: \xac\n\n", [Event("\ufffd\ufffd\n\ufffd")]),
        (b"data: a\x0bb\x0cc\n\n", [Event("a\x0bb\x0cc")]),
        (b"data: one\n\ndata: two\n", [Event("one")]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_a_stream_is_read_as_the_standard_says(stream: bytes, events: list[Event], size: int) -> None:
    assert decode(*cut(stream, size)) == events


def test_a_carriage_return_and_a_line_feed_in_two_chunks_end_one_line() -> None:
    decoder = EventDecoder(100)
    assert decoder.receive(b"data: one\r") == []
    assert decoder.receive(b"") == []
    assert decoder.receive(b"\n") == []
    assert decoder.receive(b"data: two\r") == []
    assert decoder.receive(b"\n\r") == [Event("one\ntwo")]
    assert decoder.receive(b"\ndata: three\r\n\r\n") == [Event("three")]


def test_an_event_is_returned_without_waiting_for_the_byte_after_its_carriage_return() -> None:
    assert decode(b"data: one\r\r") == [Event("one")]


@pytest.mark.parametrize("value", [b"", b"x", b"-1", b"1.5", b" 1", b"1234567890", "\u0661".encode()])
def test_a_retry_that_is_not_a_short_number_is_ignored(value: bytes) -> None:
    decoder = EventDecoder(100)
    decoder.receive(b"retry: 5\nretry: %b\ndata: one\n\n" % value)
    assert decoder.retry == 5


def test_the_retry_holds_until_another_arrives() -> None:
    decoder = EventDecoder(100)
    retries = [decoder.retry]
    for chunk in (b"retry: 999999999\n", b"\ndata: one\n\n", b"retry: 1\n"):
        decoder.receive(chunk)
        retries.append(decoder.retry)
    decoder.finish()
    assert [*retries, decoder.retry] == [None, 999999999, 999999999, 1, 1]


def test_the_last_event_id_holds_until_an_event_with_another_ends() -> None:
    decoder = EventDecoder(100)
    assert decoder.last_event_id == ""
    decoder.receive(b"id: 1\ndata: one\n\n")
    assert decoder.last_event_id == "1"
    decoder.receive(b"data: two\n\nid: 2\ndata: three\n")
    assert decoder.last_event_id == "1"
    decoder.receive(b"\n")
    assert decoder.last_event_id == "2"
    decoder.receive(b"id\n\n")
    assert decoder.last_event_id == ""


def test_an_id_without_data_moves_the_last_event_id_and_dispatches_nothing() -> None:
    decoder = EventDecoder(100)
    assert decoder.receive(b"id: 1\n\n") == []
    assert decoder.last_event_id == "1"


def test_finishing_discards_an_incomplete_event_and_its_id() -> None:
    decoder = EventDecoder(100)
    decoder.receive(b"id: 1\ndata: one\n\nid: 2\nevent: ping\ndata: two\ndat")
    decoder.finish()
    assert decoder.last_event_id == "1"
    assert decoder.receive(b"\xef\xbb\xbfdata: three\n\n") == [Event("three")]


def test_finishing_after_a_carriage_return_does_not_swallow_a_line_feed_of_the_next_stream() -> None:
    decoder = EventDecoder(100)
    decoder.receive(b"data: one\r")
    decoder.finish()
    assert decoder.receive(b"\n\xef\xbb\xbfdata: two\n\n") == []


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: 4567890\n\n", [Oversized()]),
        (b"data: 456789\n\n", [Event("456789")]),
        (b"data: 456789\r\n\r\n", [Event("456789")]),
        (b"data: 4567890", [Oversized()]),
        (b"data:5\ndata:5\n\n", [Event("5\n5")]),
        (b"data:5\ndata:56\n\n", [Oversized()]),
        (b"data:5\nnonsense\n\n", [Oversized()]),
        (b":5678\ndata:5\n:5678\n:5678\n\n", [Event("5")]),
        (b":56789012345\n\ndata: one\n\n", [Event("one")]),
        (b":567890123456\ndata: one\n\ndata: two\n\n", [Oversized(), Event("two")]),
        (b"data: 4567890\ndata: 4567890\n:\n\ndata: two\n\n", [Oversized(), Event("two")]),
        (b"data: 4567890\r\n\r\ndata: two\r\n\r\n", [Oversized(), Event("two")]),
        (b"data: 1\n\n" * 3, [Event("1"), Event("1"), Event("1")]),
        (b"data: 4567890\n\n" * 2, [Oversized(), Oversized()]),
        (b"\xef\xbb\xbfdata: 789\n\n", [Event("789")]),
        (b"\xef\xbb\xbfdata: 7890\n\n", [Oversized()]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 12, 13, 1000])
def test_an_event_over_the_limit_is_reported_once_and_the_next_event_survives(
    stream: bytes, events: list[Event | Oversized], size: int
) -> None:
    assert decode(*cut(stream, size), limit=12) == events


def test_an_event_over_the_limit_is_reported_before_it_ends() -> None:
    decoder = EventDecoder(8)
    assert decoder.receive(b"data: 78") == []
    assert decoder.receive(b"9") == [Oversized()]


def test_the_id_read_before_an_event_outgrew_the_limit_still_counts() -> None:
    decoder = EventDecoder(12)
    assert decoder.receive(b"id: 7\ndata: 12345\nid: 8\n\n") == [Oversized()]
    assert decoder.last_event_id == "7"


def test_a_large_event_in_small_chunks_comes_out_whole() -> None:
    text = "x" * (1 << 24)
    assert decode(*cut(f"data: {text}\n\n".encode(), 1 << 16), limit=1 << 25) == [Event(text)]


@pytest.mark.parametrize(
    ("encoded", "stream"),
    [
        (encode(b"{}"), b"event: message\r\ndata: {}\r\n\r\n"),
        (encode(b"{}", event=None), b"data: {}\r\n\r\n"),
        (
            encode(b"{}", id="s-1", event="ping", retry=0),
            b"event: ping\r\nid: s-1\r\nretry: 0\r\ndata: {}\r\n\r\n",
        ),
        (encode(b"a\nb\rc\r\nd", event=None), b"data: a\r\ndata: b\r\ndata: c\r\ndata: d\r\n\r\n"),
        (encode(b"a\n\r\n", event=None), b"data: a\r\ndata: \r\ndata: \r\n\r\n"),
        (encode(b"a\x0bb\xc2\x85", event=None), b"data: a\x0bb\xc2\x85\r\n\r\n"),
        (encode(b"", id="\u00e9", event=None), b"id: \xc3\xa9\r\ndata: \r\n\r\n"),
        (priming_event("s-0", 1500), b"id: s-0\r\nretry: 1500\r\ndata: \r\n\r\n"),
        (priming_event("s-0", None), b"id: s-0\r\ndata: \r\n\r\n"),
        (KEEP_ALIVE, b":\r\n\r\n"),
    ],
)
def test_an_event_is_written_as_fields_and_a_blank_line(encoded: bytes, stream: bytes) -> None:
    assert encoded == stream


def test_a_priming_event_is_returned_and_moves_the_last_event_id() -> None:
    decoder = EventDecoder(100)
    assert decoder.receive(priming_event("s-0", 1500)) == [Event("", id="s-0", retry=1500)]
    assert decoder.last_event_id == "s-0"
    assert decoder.retry == 1500


def test_a_keep_alive_is_no_event() -> None:
    assert decode(KEEP_ALIVE, encode(b"one"), KEEP_ALIVE) == [Event("one")]


@pytest.mark.parametrize("bad", ["a\rb", "a\nb", "a\0b", "\n"])
def test_an_id_or_event_name_that_would_break_the_stream_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"id .* would break the event stream"):
        encode(b"", id=bad)
    with pytest.raises(ValueError, match=r"event .* would break the event stream"):
        encode(b"", event=bad)


@pytest.mark.parametrize("retry", [-1, 10**9])
def test_a_retry_that_a_reader_would_ignore_is_refused(retry: int) -> None:
    with pytest.raises(ValueError, match="would be ignored"):
        encode(b"", retry=retry)


@pytest.mark.parametrize(
    ("event_id", "text"),
    [
        (EventId("s", 0), "s-0"),
        (EventId("4f1c-9", 12), "4f1c-9-12"),
        (EventId("-", 1), "--1"),
        (EventId("!~", 10**18 - 1), "!~-999999999999999999"),
    ],
)
def test_an_event_id_survives_the_wire(event_id: EventId, text: str) -> None:
    assert event_id.encode() == text
    assert EventId.decode(text) == event_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "s",
        "s-",
        "-1",
        "s-x",
        "s--",
        "s-01",
        "s-+1",
        "s-1 ",
        "s-1\n",
        " s-1",
        "s s-1",
        "\u00e9-1",
        "s-\u0661",
        "s-\u00b2",
        "s\0-1",
        "s-1000000000000000000",
        "s-" + "9" * 5000,
        "1-" * 50_000,
    ],
)
def test_a_malformed_event_id_is_none(text: str) -> None:
    assert EventId.decode(text) is None


@pytest.mark.parametrize(
    "event_id", [EventId("", 1), EventId("s s", 1), EventId("\u00e9", 1), EventId("s", -1), EventId("s", 10**18)]
)
def test_an_event_id_that_no_peer_could_send_back_is_refused(event_id: EventId) -> None:
    with pytest.raises(ValueError, match="is not an event id"):
        event_id.encode()
