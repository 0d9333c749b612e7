"""The bytes of HTTP/1.1 requests and the parts that they are parsed to, however the bytes are cut."""

import time

import pytest

from dragoman.transports.http.http1_head import MalformedRequest
from dragoman.transports.http.http1_parser import MAX_FRAMING, MAX_HEAD_BYTES, Http1Parser
from unit.transports.http.http1_peer import CHUNKED, post
from unit.transports.http.test_http1_head import LINE, REFUSED

UPGRADE = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"


def parse(*chunks: bytes) -> list[object]:
    """Return the bodies that were parsed, followed by the status and the reason of a failure, if there is one."""
    parser, bodies, body = Http1Parser(), [], b""
    for chunk in chunks:
        parser.receive(chunk)
        try:
            while (part := parser.next_part()) is not None:
                body = part.data if part.head is not None else body + part.data
                if part.is_last:
                    bodies.append(body)
        except MalformedRequest as failure:
            bodies.append((failure.status, str(failure)))
            assert parser.is_stopped
    return bodies


def parse_in_two(data: bytes, start: int = 1) -> list[object]:
    """Return what the data are parsed to; assert that it is the same wherever the data are cut."""
    bodies = parse(data)
    for cut in range(start, len(data)):
        assert parse(data[:cut], data[cut:]) == bodies, cut
    return bodies


@pytest.mark.parametrize(
    ("data", "bodies"),
    [
        (post(b"ping") + post() + post(b"pong"), [b"ping", b"", b"pong"]),
        (b"\r\n\r\n" + post(b"ping") + b"\r\n" + post(b"pong"), [b"ping", b"pong"]),
        (CHUNKED + b"2\r\npi\r\n2\r\nng\r\n0\r\n\r\n" + post(b"pong"), [b"ping", b"pong"]),
        (CHUNKED + b"000A;name=value\r\n0\r\n\r\n0\r\n\r\n\r\n000;last\r\n\r\n", [b"0\r\n\r\n0\r\n\r\n"]),
        (CHUNKED + b"1 ; a\r\n\n\r\n0\r\nX-Field: 0\r\nX-Other: }\r\n\r\n" + post(), [b"\n", b""]),
        (post(b"ping", headers=UPGRADE) + post(b"then"), [b"ping", b"then"]),
        (CHUNKED[:-2] + UPGRADE.encode() + b"\r\n1\r\na\r\n0\r\n\r\n" + post(b"then"), [b"a", b"then"]),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n" + post(b"then"), [b"", b"then"]),
        (post(b"last", headers="Connection: close\r\n") + post(b"never"), [b"last"]),
        (post(b"last", version="1.0") + b"no request", [b"last"]),
    ],
)
def test_requests_are_the_same_however_they_are_cut(data, bodies):
    assert parse_in_two(data) == bodies
    assert parse(*(bytes([byte]) for byte in data)) == bodies


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize(("head", "problem"), REFUSED)
@pytest.mark.parametrize(
    "before",
    [
        b"",
        post(b"{}"),
        post(b"x\r\n\r\nx"),
        post(b"{}", headers=UPGRADE),
        CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\nX: y\r\n\r\n",
    ],
    ids=["alone", "with a length", "with an empty line", "with an offer", "chunked", "chunked, with an empty line"],
)
def test_malformed_head_is_refused_behind_any_request_however_both_are_cut(before, head, problem):
    *bodies, failure = parse_in_two(before + head + b"\r\n\r\n" + post(b"never"), max(1, len(before) - 8))
    assert len(bodies) == bool(before)
    assert failure == (400, problem)


@pytest.mark.parametrize(
    "chunks",
    [
        *(
            b"zz\r\n",
            b"-5\r\n",
            b"+5\r\n",
            b"0x5\r\n",
            b"\r\n",
            b" 5\r\n",
            b"5 \r\n",
            b"5\n",
            b"5;a\nb\r\n",
            b"5;\0\r\n",
        ),
        *(b"1\r\nab", b"1\r\na\nb", b"1\r\na\n\r\n", b"1\r\na\rb", b"f" * 16 + b"\r\n"),
        *(b"0\r\nno field\r\n", b"0\r\n: a\r\n", b"0\r\nX : a\r\n", b"0\r\nX: a\nY: b\r\n", b"0\r\n X: a\r\n"),
    ],
)
def test_malformed_chunk_or_trailer_is_refused(chunks):
    assert parse_in_two(CHUNKED + chunks + b"0\r\n\r\n" + post(b"never")) == [(400, "")]


@pytest.mark.parametrize(
    "start", [b"\x16\x03\x01\x02\x00\x01", b"post /", b"-POST /", b"{", b"\n", b"\rPOST", b"\r\r\n"]
)
def test_bytes_that_cannot_begin_a_request_are_refused_at_once(start):
    assert parse_in_two(start) == [(400, LINE)]
    assert parse_in_two(b"\r\n" + start + b"\r\n" + post(b"never")) == [(400, LINE)]


@pytest.mark.parametrize("start", [b"POST /", b"POST /mcp HTTP/1.1\r\nHost: a\r\nX-Long: "])
@pytest.mark.parametrize("end", [b"", b" HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_head_has_a_bound_in_bytes(start, end):
    size = MAX_HEAD_BYTES - len(start)
    assert parse(start + b"x" * size) == []
    assert parse(start + b"x" * (size + 1) + end) == [(431, "")]
    assert parse(start, *([b"x" * 1000] * (size // 1000 + 1)), end) == [(431, "")]


@pytest.mark.parametrize(("excess", "bodies"), [(0, [b""]), (1, [(431, "")])])
def test_bound_of_a_head_is_the_same_however_the_head_is_cut(excess, bodies):
    size = MAX_HEAD_BYTES - len(post()) + excess
    assert parse_in_two(post(headers="X: " + "x" * (size - len("X: \r\n")) + "\r\n"), MAX_HEAD_BYTES - 8) == bodies


@pytest.mark.parametrize("start", [b"POST / HTTP/1.1\r\nX: ", CHUNKED + b"1;", CHUNKED + b"0\r\nX: "])
@pytest.mark.parametrize("filler", [b"\r", b"x"])
def test_byte_behind_a_long_unfinished_head_or_line_costs_no_search_of_all_bytes(start, filler):
    def cost(size: int) -> float:
        parser = Http1Parser()
        parser.receive(start + filler * size)
        parser.next_part()
        before = time.process_time()
        for _ in range(1000):
            parser.receive(filler)
            assert parser.next_part() is None
        return time.process_time() - before

    assert cost(126_000) < 20 * cost(1000) + 0.02


@pytest.mark.parametrize(
    ("start", "filler"),
    [(b"1\r\na\r\n0\r\nX-Long: ", b"x" * 1000), (b"1\r\na\r\n0\r\n", b"X: y\r\n"), (b"1;", b"e" * 1000)],
    ids=["field", "fields", "size"],
)
def test_framing_of_a_chunked_body_has_a_bound_in_bytes(start, filler):
    fillers = MAX_HEAD_BYTES // len(filler)
    assert parse(CHUNKED + start, *([filler] * (fillers - 1))) == []
    assert parse(CHUNKED + start, *([filler] * (fillers + MAX_FRAMING))) == [(400, "")]


def test_body_of_many_small_chunks_is_parsed():
    assert parse(CHUNKED, *([b"1\r\na\r\n" * 100] * 1000), b"0\r\n\r\n") == [b"a" * 100_000]


def test_part_has_as_much_of_a_request_as_arrived():
    parser, filler = Http1Parser(), b"\r\n\r\n" * 10_000
    parts = []
    for data in (
        CHUNKED + b"%x\r\n" % (2 * len(filler)),
        filler,
        filler,
        b"\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n" + post(b"c"),
    ):
        parser.receive(data)
        while (part := parser.next_part()) is not None:
            parts.append((part.head is not None, part.data, part.is_last))
    assert parts[0] == (True, b"", False)
    assert parts[1:] == [(False, filler, False), (False, filler, False), (False, b"ab", True), (True, b"c", True)]


def test_requests_wait_as_bytes_until_they_are_asked_for():
    parser = Http1Parser()
    parser.receive(post(b"a") + post(b"b"))
    part = parser.next_part()
    assert part is not None
    assert (part.data, part.is_last) == (b"a", True)
    assert (parser.state, parser.has_unparsed) == ("head", True)
    parser.stop()
    assert (parser.next_part(), parser.has_unparsed) == (None, False)
