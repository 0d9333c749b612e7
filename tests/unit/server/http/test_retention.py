"""How many bytes are kept of streams, and which of them go first."""

import asyncio
from itertools import count

from dragoman.server.http import retention
from dragoman.server.http.retention import STREAM_BYTES, Retention, SessionStreams
from dragoman.server.http.streams import EventStream
from dragoman.stores import Memory
from scenarios.http_peer import scenario
from unit.server.http.test_sessions import Reader

EVENT = b"x" * 1000
numbers = count()


def session(whole: Retention) -> SessionStreams:
    return SessionStreams(lambda: f"s{next(numbers)}", whole)


def waiting(streams: SessionStreams) -> EventStream:
    """A stream that has ended, whose client has not got its event."""
    stream = EventStream(Memory(), streams, primes=False)
    stream.add(EVENT, last=True)
    return stream


async def delivered(streams: SessionStreams, *, last: bool = True) -> EventStream:
    """A stream whose client has got its event."""
    stream = EventStream(Memory(), streams, primes=False)
    stream.attach(Reader())
    stream.add(EVENT, last=last)
    await stream.flush()
    return stream


def room_for(streams: int) -> int:
    return streams * (STREAM_BYTES + len(EVENT) + 100)


@scenario
async def test_what_was_delivered_goes_before_what_waits_and_the_oldest_first():
    whole = Retention(room_for(3))
    one, other = session(whole), session(whole)
    first, second, third = waiting(one), await delivered(one), await delivered(other)
    fourth = waiting(other)
    assert [list(one), list(other)] == [[first], [third, fourth]]
    fifth = waiting(one)
    assert [list(one), list(other)] == [[first, fifth], [fourth]]
    sixth = waiting(one)
    assert [list(one), list(other)] == [[fifth, sixth], [fourth]]
    assert second.size == third.size == first.size == 0
    assert whole.size == one.size + other.size == fourth.size + fifth.size + sixth.size <= whole.most_bytes


@scenario
async def test_a_session_has_a_bound_of_its_own(monkeypatch):
    monkeypatch.setattr(retention, "MOST_SESSION_BYTES", room_for(2))
    whole = Retention()
    one, other = session(whole), session(whole)
    kept = waiting(other)
    first, second, third = waiting(one), await delivered(one), waiting(one)
    assert list(one) == [first, third]
    fourth = waiting(one)
    assert [list(one), list(other)] == [[third, fourth], [kept]]
    assert second.size == 0


@scenario
async def test_a_stream_that_goes_on_begins_anew_without_what_was_dropped():
    whole = Retention(room_for(1))
    streams = session(whole)
    open_one = await delivered(streams, last=False)
    waiting(streams)
    assert open_one in streams
    open_one.add(b"{}")
    open_one.detach()
    again = Reader()
    open_one.attach(again, 0)
    await open_one.flush()
    assert again.numbers == [2]
    await open_one.close()


@scenario
async def test_what_a_client_is_reading_is_not_taken_from_it():
    whole = Retention(room_for(1))
    streams, slow = session(whole), Reader()
    read = EventStream(Memory(), streams, primes=False)
    read.attach(slow)
    slow.may_take.clear()
    read.add(EVENT)
    flushing = asyncio.create_task(read.flush())
    await asyncio.sleep(0)
    waiting(streams)
    read.add(EVENT, last=True)
    waiting(streams)
    slow.may_take.set()
    await flushing
    assert slow.numbers == [1, 2]
    waiting(streams)
    assert read.size == 0


@scenario
async def test_what_a_client_came_back_for_counts_as_delivered():
    whole = Retention(room_for(2))
    streams = session(whole)
    first, second = waiting(streams), waiting(streams)
    third = waiting(streams)
    assert list(streams) == [second, third]
    third.attach(Reader(), 0)
    await third.flush()
    fourth = waiting(streams)
    assert list(streams) == [second, fourth]
    second.attach(Reader(), 0)
    await second.flush()
    assert not first.is_delivered
    fifth = waiting(streams)
    assert list(streams) == [fourth, fifth]
    assert whole.size == streams.size == fourth.size + fifth.size


@scenario
async def test_what_was_added_last_is_kept_whatever_its_size():
    whole = Retention(most_bytes=10)
    streams = session(whole)
    for _ in range(3):
        newest = waiting(streams)
        assert list(streams) == [newest]


@scenario
async def test_of_too_many_streams_one_that_was_delivered_goes_first(monkeypatch):
    monkeypatch.setattr(retention, "MOST_STREAMS", 2)
    streams = session(Retention())
    first, second, third = waiting(streams), await delivered(streams), waiting(streams)
    assert list(streams) == [first, third]
    assert second.size == 0
    fourth = waiting(streams)
    assert list(streams) == [third, fourth]


@scenario
async def test_a_session_that_has_ended_takes_no_room_whatever_is_added_to_it():
    whole = Retention()
    streams = session(whole)
    stream = await delivered(streams, last=False)
    waiting(streams)
    streams.close()
    stream.add(EVENT)
    stream.detach()
    assert (whole.size, len(whole.waiting), len(whole.streams)) == (0, 0, 0)
    assert len(streams) == 0
    await stream.close()
