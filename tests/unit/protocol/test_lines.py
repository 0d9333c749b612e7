from __future__ import annotations

import tracemalloc

import pytest

from dragoman.protocol.lines import LineDecoder, Oversized, encode


def decode(*chunks: bytes, limit: int = 10) -> list[bytes | Oversized]:
    decoder = LineDecoder(limit)
    return [line for chunk in chunks for line in decoder.receive(chunk)] + decoder.finish()


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"", []),
        (b"one\n", [b"one"]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\r\ntwo\r\n", [b"one", b"two"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"one\ntwo\r", [b"one", b"two"]),
        (b"one\r\r\n", [b"one\r"]),
        (b"one\rtwo\n", [b"one\rtwo"]),
        (b"\n\r\n \t\r\n one \n\n", [b" one "]),
        (b"   ", []),
        (b"a\x0bb\x0cc\x1cd\x85e\n", [b"a\x0bb\x0cc\x1cd\x85e"]),
        ("a\u2028b\n".encode(), ["a\u2028b".encode()]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_only_a_newline_ends_a_line_and_blank_lines_are_dropped(stream: bytes, lines: list[bytes], size: int) -> None:
    assert decode(*(stream[start : start + size] for start in range(0, len(stream), size))) == lines


def test_lines_arrive_as_soon_as_their_newline_does() -> None:
    decoder = LineDecoder(10)
    assert decoder.receive(b"one\ntw") == [b"one"]
    assert decoder.receive(b"") == []
    assert decoder.receive(b"o") == []
    assert decoder.receive(b"\nthree\nf") == [b"two", b"three"]
    assert decoder.finish() == [b"f"]


def test_finishing_makes_the_decoder_ready_for_another_stream() -> None:
    decoder = LineDecoder(4)
    decoder.receive(b"12345")
    assert decoder.finish() == []
    assert decoder.receive(b"one\n") == [b"one"]
    assert decoder.finish() == []


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"1234\n", [b"1234"]),
        (b"1234\r\n", [b"1234"]),
        (b"1234", [b"1234"]),
        (b"1234\r", [b"1234"]),
        (b"12345\n", [Oversized()]),
        (b"12345\r\n", [Oversized()]),
        (b"12345", [Oversized()]),
        (b"1234\r\r\n", [Oversized()]),
        (b"1234\r5\n", [Oversized()]),
        (b"1\n123456789\r\n2\n", [b"1", Oversized(), b"2"]),
        (b"12345\n12345\n12345", [Oversized(), Oversized(), Oversized()]),
        (b"     \n1\n", [Oversized(), b"1"]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 100])
def test_a_line_over_the_limit_is_reported_once_and_the_next_line_survives(
    stream: bytes, lines: list[bytes | Oversized], size: int
) -> None:
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert decode(*chunks, limit=4) == lines


def test_a_line_over_the_limit_is_reported_before_it_ends() -> None:
    decoder = LineDecoder(4)
    assert decoder.receive(b"1234") == []
    assert decoder.receive(b"5") == [Oversized()]
    assert decoder.receive(b"6789") == []
    assert decoder.receive(b"0\nnext\n") == [b"next"]


def test_a_carriage_return_at_the_limit_waits_for_the_byte_after_it() -> None:
    decoder = LineDecoder(4)
    assert decoder.receive(b"1234\r") == []
    assert decoder.receive(b"") == []
    assert decoder.receive(b"\n") == [b"1234"]
    assert decoder.receive(b"1234\r") == []
    assert decoder.receive(b"x") == [Oversized()]


def test_an_endless_line_takes_no_more_memory_than_the_limit_and_a_chunk() -> None:
    decoder = LineDecoder(1 << 20)
    chunk = b"x" * (1 << 16)
    tracemalloc.start()
    try:
        reported = [line for _ in range(1024) for line in decoder.receive(chunk)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reported == [Oversized()]
    assert peak < 3 * (1 << 20)


def test_a_large_line_in_small_chunks_comes_out_whole() -> None:
    line = b"x" * (1 << 24)
    chunks = [line[start : start + (1 << 16)] for start in range(0, len(line), 1 << 16)]
    assert decode(*chunks, b"\n", limit=1 << 24) == [line]


@pytest.mark.parametrize(
    ("message", "line"),
    [(b'{"a":1}', b'{"a":1}\n'), (b'{\n  "a": "x\\n",\r\n "b":\r1}', b'{   "a": "x\\n",   "b": 1}\n')],
)
def test_a_message_is_one_line_even_if_it_was_written_over_several(message, line):
    assert encode(message) == line
    assert LineDecoder(1000).receive(line) == [line[:-1]]
