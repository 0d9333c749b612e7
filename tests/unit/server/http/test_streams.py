"""The event streams of sessions: who reads them, how many bytes are kept, and which go first."""

import asyncio
from collections.abc import Iterable
from itertools import count

from dragoman.server.http import streams as streams_module
from dragoman.server.http.streams import STREAM_BYTES, ResumableStream, Retention, StreamTable
from dragoman.stores.contract import MAX_LOG_EVENTS
from scenarios.http_peer import DEADLINE, scenario

EVENT = b"x" * 1000
numbers = count()


class Reader:
    """Takes what is written to it, slowly if it is told to."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.opening = None
        self.ended = self.gone = self.streaming = False
        self.on_gone = self.on_ending = None
        self.parts: list[bytes] = []
        self.may_take = asyncio.Event()
        self.may_take.set()

    async def stream(self, data: bytes, *, last: bool = False) -> None:
        await asyncio.wait_for(self.may_take.wait(), DEADLINE)
        self.streaming, self.ended = True, last
        self.parts.append(data)

    async def reply(self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.ended = True
        self.parts.append(b"%d %b" % (status, body))

    @property
    def numbers(self) -> list[int]:
        lines = b"".join(self.parts).split(b"\r\n")
        return [int(line.rpartition(b"-")[2]) for line in lines if line.startswith(b"id: ")]


def stream_alone() -> ResumableStream:
    return ResumableStream(StreamTable(lambda: "s", Retention()), sends_priming_event=False)


@scenario
async def test_what_is_added_while_a_reader_is_slow_follows_in_order():
    stream, reader = stream_alone(), Reader()
    stream.attach(reader)
    reader.may_take.clear()
    for _ in range(3):
        stream.add(b"{}")
        await asyncio.sleep(0)
    reader.may_take.set()
    await stream.flush()
    assert reader.numbers == [1, 2, 3]
    await stream.close()


@scenario
async def test_who_attaches_while_another_is_written_to_gets_everything_after_its_number():
    stream, slow, newer = stream_alone(), Reader(), Reader()
    stream.attach(slow)
    slow.may_take.clear()
    stream.add(b"{}")
    await asyncio.sleep(0)
    stream.add(b"{}")
    stream.attach(newer, 0)
    slow.may_take.set()
    await stream.flush()
    assert newer.numbers == [1, 2]
    await stream.close()


@scenario
async def test_a_number_that_was_never_given_is_taken_for_the_last():
    stream, reader = stream_alone(), Reader()
    stream.attach(reader, 99)
    stream.add(b"{}", last=True)
    await stream.flush()
    assert reader.numbers == [1]
    assert stream.reader is None


@scenario
async def test_a_stream_keeps_the_newest_events():
    stream, reader = stream_alone(), Reader()
    for _ in range(MAX_LOG_EVENTS + 5):
        stream.add(b"{}")
    stream.attach(reader, 0)
    await stream.flush()
    assert reader.numbers == list(range(6, MAX_LOG_EVENTS + 6))


@scenario
async def test_one_who_is_gone_before_it_reads_is_let_go():
    stream, reader = stream_alone(), Reader()
    reader.gone = True
    assert stream.attach(reader).is_released
    assert (stream.reader, stream.state) == (None, "idle")


@scenario
async def test_one_who_is_let_go_and_does_not_read_holds_up_no_end(monkeypatch):
    monkeypatch.setattr(streams_module, "END_SECONDS", 0.01)
    stream, first, second = stream_alone(), Reader(), Reader()
    for reader in (first, second):
        reader.streaming = True
        reader.may_take.clear()
        stream.attach(reader)
    await asyncio.wait_for(stream.close(), DEADLINE)
    await asyncio.sleep(0)
    assert first.parts == second.parts == []


def session(whole: Retention) -> StreamTable:
    return StreamTable(lambda: f"s{next(numbers)}", whole)


def waiting(streams: StreamTable) -> ResumableStream:
    """A stream that has ended, whose client has not got its event."""
    stream = ResumableStream(streams, sends_priming_event=False)
    stream.add(EVENT, last=True)
    return stream


async def delivered(streams: StreamTable, *, last: bool = True) -> ResumableStream:
    """A stream whose client has got its event."""
    stream = ResumableStream(streams, sends_priming_event=False)
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
    assert whole.size == one.size + other.size == fourth.size + fifth.size + sixth.size <= whole.max_bytes


@scenario
async def test_a_session_has_a_bound_of_its_own(monkeypatch):
    monkeypatch.setattr(streams_module, "MAX_SESSION_BYTES", room_for(2))
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
    read = ResumableStream(streams, sends_priming_event=False)
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
    whole = Retention(max_bytes=10)
    streams = session(whole)
    for _ in range(3):
        newest = waiting(streams)
        assert list(streams) == [newest]


@scenario
async def test_of_too_many_streams_one_that_was_delivered_goes_first(monkeypatch):
    monkeypatch.setattr(streams_module, "MAX_STREAMS", 2)
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
    assert (whole.size, len(whole.undelivered), len(whole.streams)) == (0, 0, 0)
    assert len(streams) == 0
    await stream.close()
