from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DefinitionError
from dragoman.protocol.lines import LineDecoder, Oversized
from dragoman.protocol.sse import KEEP_ALIVE, Event, EventDecoder, encode
from dragoman.protocol.uritemplate import UriTemplate

LIMIT = 16

quickly = settings(max_examples=200, deadline=None)

fragments = st.sampled_from(
    [
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b" ",
        b"\t",
        b":",
        b"\0",
        b"data",
        b"data: ",
        b"data:x\n\n",
        b"event: ping\n",
        b"id: 7\n",
        b"id: \0\r",
        b"retry: 25\r\n",
        b"retry: 1234567890\n",
        b": comment\n",
        b"\xef\xbb\xbf",
        b"\xef\xbb",
        b"\xbf",
        b"\xff",
        b"\xc2\x85",
        b"\x0b\x0c\x1c",
        "\u00e9\u2028\U0001f600".encode(),
        b"x" * (LIMIT - 1),
        b"x" * LIMIT,
        b"x" * (LIMIT + 1),
        b"x" * 3 * LIMIT,
        b" " * LIMIT,
        b"}\n",
        b"}\n",
        b"{" + b" " * (LIMIT - 2) + b"}\n",
        b"{" + b" " * (LIMIT - 1) + b"}\n",
    ]
)
streams = st.lists(fragments | st.binary(max_size=3), max_size=25).map(b"".join)
cuts = st.lists(st.integers(min_value=0, max_value=200), max_size=25).map(sorted)
safe_names = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)


def chunks_of(stream: bytes, positions: Sequence[int]) -> list[bytes]:
    ends = [*positions, len(stream)]
    return [stream[start:end] for start, end in zip([0, *positions], ends, strict=True)]


def single_bytes(stream: bytes) -> list[bytes]:
    return [stream[index : index + 1] for index in range(len(stream))]


def lines_of(chunks: Sequence[bytes]) -> list[bytes | Oversized]:
    decoder = LineDecoder(LIMIT)
    return [line for chunk in chunks for line in decoder.receive(chunk)] + decoder.finish()


def events_of(chunks: Sequence[bytes]) -> tuple[list[Event | Oversized], str, int | None]:
    decoder = EventDecoder(LIMIT)
    events = [event for chunk in chunks for event in decoder.receive(chunk)]
    return events, decoder.last_event_id, decoder.retry


def expected_line(line: bytes) -> list[bytes | Oversized]:
    line = line.removesuffix(b"\r")
    if len(line) > LIMIT:
        return [Oversized()]
    return [line] if line.strip() else []


@quickly
@given(streams, cuts)
def test_lines_do_not_depend_on_how_the_stream_is_cut(stream: bytes, positions: list[int]) -> None:
    expected = [found for line in stream.split(b"\n") for found in expected_line(line)]
    assert lines_of([stream]) == expected
    assert lines_of(chunks_of(stream, positions)) == expected
    assert lines_of(single_bytes(stream)) == expected


@quickly
@given(streams, cuts)
def test_events_do_not_depend_on_how_the_stream_is_cut(stream: bytes, positions: list[int]) -> None:
    expected = events_of([stream])
    assert events_of(chunks_of(stream, positions)) == expected
    assert events_of(single_bytes(stream)) == expected


@quickly
@given(streams)
def test_events_do_not_depend_on_which_line_endings_are_used(stream: bytes) -> None:
    unified = re.sub(rb"\r\n?", b"\n", stream)
    assert events_of([unified.replace(b"\n", b"\r\n")]) == events_of([unified])
    assert events_of([unified.replace(b"\n", b"\r")]) == events_of([unified])
    assert events_of([stream]) == events_of([unified])


@quickly
@given(streams, streams)
def test_no_stream_spoils_the_one_after_it(first: bytes, second: bytes) -> None:
    line_decoder = LineDecoder(LIMIT)
    line_decoder.receive(first)
    line_decoder.finish()
    assert line_decoder.receive(second) + line_decoder.finish() == lines_of([second])
    event_decoder = EventDecoder(LIMIT)
    event_decoder.receive(first)
    event_decoder.finish()
    assert event_decoder.receive(second) == events_of([second])[0]


events = st.builds(
    Event,
    data=st.text(st.characters(exclude_categories=["Cs"])),
    event=safe_names.map(lambda name: name or "message"),
    id=st.none() | safe_names,
    retry=st.none() | st.integers(min_value=0, max_value=10**9 - 1),
)


@quickly
@given(st.lists(events, max_size=5), cuts)
def test_an_encoded_event_decodes_to_itself(sent: list[Event], positions: list[int]) -> None:
    stream = KEEP_ALIVE.join(
        encode(event.data.encode(), id=event.id, event=event.event, retry=event.retry) for event in sent
    )
    decoder = EventDecoder(100_000)
    received = [event for chunk in chunks_of(stream, positions) for event in decoder.receive(chunk)]
    assert received == [Event(re.sub("\r\n?", "\n", event.data), event.event, event.id, event.retry) for event in sent]


any_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
path_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%?#"), min_size=1)


@quickly
@given(
    st.sampled_from(
        [
            "x://{a}/{b}",
            "x://{a,b}",
            "x://{+c}/{a}/{b}",
            "x://{a}/{b}/{+c}",
            "x://{a}/{+c}/{b}",
            "x://{a}:{b}",
            "x://y{/a,b}/z",
            "x://y{;a,b}",
            "x://y?{a}&b={b}",
            "x://y{?a,b}",
            "x://y?z=1{&a,b}",
            "x://{+c}{?a,b}",
            "x://{a}{?b}{#c}",
            "x://{a}{.b}",
        ]
    ),
    any_text,
    any_text.filter(lambda text: "." not in text),
    path_text,
)
def test_matching_undoes_expanding(template: str, a: str, b: str, c: str) -> None:
    compiled = UriTemplate(template)
    values = {name: value for name, value in {"a": a, "b": b, "c": c}.items() if name in compiled.variables}
    assert compiled.match(compiled.expand(values)) == values


@quickly
@given(
    st.sampled_from(["{a}.{b}", "{a}-{+b}.{c}", "{a}{b}", "{+a}{b}", "{+a}/{b}-{c}", "{a}{;b}"]),
    st.lists(st.sampled_from(["a", "b", "-", ".", "/", ";b", "=", "%2F", "%C3%A9", "2"])).map("".join),
)
def test_what_expands_from_a_match_matches_too(template: str, uri: str) -> None:
    compiled = UriTemplate(template)
    values = compiled.match(uri)
    assert values is None or compiled.match(compiled.expand(values)) is not None


@quickly
@given(st.text(), st.text("{}?&#/;.+,ab*:=%"))
def test_a_template_is_refused_by_name_or_answers_for_any_uri(uri: str, template: str) -> None:
    try:
        compiled = UriTemplate(template)
    except DefinitionError as refusal:
        message = str(refusal)
    else:
        message = repr(compiled)
        assert set(compiled.match(uri) or ()) <= set(compiled.variables)
    assert repr(template) in message
