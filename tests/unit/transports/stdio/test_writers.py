"""Messages to descriptors of every kind."""

import asyncio
import fcntl
import os
import pty
import threading
import tty
from types import SimpleNamespace

import pytest

from dragoman.transports.stdio import writers
from dragoman.transports.stdio.readers import CHUNK_BYTES
from dragoman.transports.stdio.writers import HIGH_WATER_BYTES, LOW_WATER_BYTES, WIDE_PIPE_BYTES, open_writer
from unit.loops import DEADLINE, in_each_loop
from unit.transports.stdio.conduits import OUTPUTS, Recorder, Sink, pipe, sockets, started_since, turns, writing

LARGE = b"x" * 300_000


@pytest.mark.parametrize("conduit", [pipe, sockets])
@in_each_loop
async def test_a_closed_output_is_noticed_while_a_write_waits_for_room(conduit):
    with writing(conduit) as (sending, sink, flow):
        sending.send(b"x" * 2 * WIDE_PIPE_BYTES)
        assert await asyncio.to_thread(os.read, sink.reader.fileno(), 1) == b"x"
        sink.reader.close()
        await flow.until("pause", "break off")


@OUTPUTS
@in_each_loop
async def test_a_thousand_messages_of_one_turn_leave_in_one_write(conduit, writes):
    with writing(conduit) as (sending, sink, _):
        for _ in range(1000):
            sending.send(b"ab")
        assert writes == []
        await sending.flush(DEADLINE)
        assert writes == [3000]
        sink = sink
        await sink.take(3000)
        assert sink.read == b"ab\n" * 1000


@OUTPUTS
@in_each_loop
async def test_messages_of_later_turns_follow_in_order(conduit, writes):
    with writing(conduit) as (sending, sink, _):
        for number in range(10):
            sending.send(b"%d" % number)
            await sending.flush(DEADLINE)
        assert writes == [2] * 10
        sink = sink
        await sink.take(20)
        assert sink.read == b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"


@OUTPUTS
@in_each_loop
async def test_what_does_not_fit_at_once_leaves_whole_and_in_order(conduit):
    with writing(conduit) as (sending, sink, _):
        expected = bytearray()
        for number in range(200):
            message = b"%d" % number * 1000
            expected += message + b"\n"
            sending.send(message)
            if number % 20 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected


@in_each_loop
async def test_others_have_their_turn_while_very_much_is_written(monkeypatch):
    monkeypatch.setattr(writers, "MAX_TURN_BYTES", 100_000)
    with pipe() as (reader, writer):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
        sending = open_writer(writer.fileno(), Recorder())
        for _ in range(3):
            sending.send(LARGE)
        sending.write_now()
        first = len(os.read(reader.fileno(), WIDE_PIPE_BYTES))
        await sending.flush(DEADLINE)
        rest = len(os.read(reader.fileno(), WIDE_PIPE_BYTES))
        sending.close()
        assert first < 2 * 300_001
        assert first + rest == 3 * 300_001


@OUTPUTS
@in_each_loop
async def test_much_that_is_unwritten_pauses_the_source_until_most_is_gone(conduit):
    with writing(conduit) as (sending, sink, flow):
        sending.send(b"x" * (HIGH_WATER_BYTES - 1))
        await asyncio.sleep(0)
        assert flow.told == []
        await asyncio.wait_for(sending.wait_for_room(), DEADLINE)
        for _ in range(3):
            sending.send(b"x" * HIGH_WATER_BYTES)
        assert flow.told == ["pause"]
        room = asyncio.create_task(sending.wait_for_room())
        await sink.take(2 * HIGH_WATER_BYTES)
        assert flow.told == ["pause"]
        assert not room.done()
        await sink.take(4 * HIGH_WATER_BYTES + 3 - LOW_WATER_BYTES // 2)
        await flow.until("pause", "resume")
        await room
        await asyncio.gather(sink.take(4 * HIGH_WATER_BYTES + 3), sending.flush(DEADLINE))
        assert flow.told == ["pause", "resume"]


@in_each_loop
async def test_what_was_sent_can_be_written_without_waiting_for_the_next_turn():
    with writing() as (sending, sink, _):
        sending.write_now()
        sending.send(b"one")
        sending.send(b"two")
        sending.write_now()
        assert os.read(sink.reader.fileno(), 100) == b"one\ntwo\n"
        sending.send(b"three")
        sending.write_now()
        sending.send(b"four")
        await sending.flush(DEADLINE)
        assert os.read(sink.reader.fileno(), 100) == b"three\nfour\n"


@in_each_loop
async def test_nothing_is_scheduled_for_what_is_held():
    with writing() as (sending, sink, _):
        loop, scheduled = asyncio.get_running_loop(), []
        sending._loop = SimpleNamespace(time=loop.time, call_soon=scheduled.append)
        sending.hold()
        sending.send(b"one")
        sending.send(b"two")
        assert scheduled == []
        sending.write_now()
        assert os.read(sink.reader.fileno(), 100) == b"one\ntwo\n"
        sending.send(b"three")
        assert len(scheduled) == 1
        scheduled.pop()()
        assert os.read(sink.reader.fileno(), 100) == b"three\n"
        sending.hold()
        sending.write_now()
        sending.send(b"four")
        sending.hold()
        sending.send(b"five")
        sending.write_now()
        assert os.read(sink.reader.fileno(), 100) == b"four\nfive\n"


@in_each_loop
async def test_very_much_that_is_held_is_no_sign_that_the_other_side_is_gone(monkeypatch):
    monkeypatch.setattr(writers, "STALLED_BYTES", 1000)
    with writing() as (sending, sink, flow):
        sending._progress_at -= 2 * writers.STALLED_SECONDS
        sending.hold()
        for _ in range(3):
            sending.send(b"x" * 2000)
        sending.write_now()
        assert len(os.read(sink.reader.fileno(), 10_000)) == 6003
        assert flow.told == []


@in_each_loop
async def test_what_waits_for_room_is_not_overtaken_by_what_is_to_be_written_now():
    with writing() as (sending, sink, _):
        sending.send(b"x" * 2 * WIDE_PIPE_BYTES)
        sending.write_now()
        sending.send(b"y")
        sending.write_now()
        await asyncio.gather(sink.take(2 * WIDE_PIPE_BYTES + 3), sending.flush(DEADLINE))
        assert sink.read == b"x" * 2 * WIDE_PIPE_BYTES + b"\ny\n"


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="pipes have one size but on Linux")
@in_each_loop
async def test_a_pipe_that_was_full_is_made_wider():
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        narrow = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
        sending.send(b"x" * 100)
        await sending.flush(DEADLINE)
        assert fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) == narrow
        sending.send(b"x" * 2 * narrow)
        await sending.flush(DEADLINE)
        assert fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) == WIDE_PIPE_BYTES
        await Sink(reader).take(2 * narrow + 102)
        sending.close()


@OUTPUTS
@in_each_loop
async def test_an_other_side_that_is_gone_is_told_once_and_then_everything_is_dropped(conduit):
    with writing(conduit) as (sending, sink, flow):
        sink.reader.close()
        sending.send(b"x" * 2 * HIGH_WATER_BYTES)
        room = asyncio.create_task(sending.wait_for_room())
        await flow.until("pause", "break off")
        await room
        sending.send(b"more")
        await sending.flush(DEADLINE)
        sending.close()
        assert flow.told == ["pause", "break off"]


@OUTPUTS
@in_each_loop
async def test_flushing_gives_up_on_an_other_side_that_takes_nothing(conduit):
    with writing(conduit) as (sending, _, _):
        sending.send(b"x" * HIGH_WATER_BYTES)
        async with asyncio.timeout(DEADLINE):
            await sending.flush(0.05)
            sending.close()
            assert await sending.flush(DEADLINE) is None


@in_each_loop
async def test_the_patience_of_flushing_starts_anew_with_all_that_is_taken(monkeypatch):
    patience = 0.98 * DEADLINE
    started = []
    real_timeout = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: started.append(seconds) or real_timeout(seconds))
    with writing() as (sending, sink, _):
        sending.send(b"x" * 3 * WIDE_PIPE_BYTES)
        await asyncio.gather(sink.take(3 * WIDE_PIPE_BYTES + 1), sending.flush(patience))
    assert started.count(patience) > 1


@in_each_loop
async def test_an_other_side_that_takes_nothing_while_very_much_waits_counts_as_gone(monkeypatch, caplog):
    monkeypatch.setattr(writers, "STALLED_BYTES", 1000)
    with writing() as (sending, _, flow):
        sending.send(b"x" * 100_000)
        sending.send(b"x" * 100_000)
        await asyncio.sleep(0)
        sending.send(b"x")
        assert flow.told == []
        monkeypatch.setattr(writers, "STALLED_SECONDS", -1.0)
        sending.send(b"x")
        sending.send(b"x")
        assert flow.told == ["break off"]
    assert [record.name for record in caplog.records] == ["dragoman.transports.stdio.writers"]
    assert "has stopped reading" in caplog.text


@pytest.mark.parametrize("before", [True, False])
@in_each_loop
async def test_a_pipe_is_nonblocking_only_while_it_is_written_to(before):
    with pipe() as (_, writer):
        os.set_blocking(writer.fileno(), before)
        sending = open_writer(writer.fileno(), Recorder())
        assert not os.get_blocking(writer.fileno())
        sending.close()
        assert os.get_blocking(writer.fileno()) == before


@in_each_loop
async def test_a_pipe_that_is_stderr_too_is_written_by_a_thread(monkeypatch):
    with pipe() as (reader, writer):
        monkeypatch.setattr(writers, "_STDERR", writer.fileno())
        with os.fdopen(os.dup(writer.fileno()), "wb", 0) as copy:
            sending = open_writer(copy.fileno(), Recorder())
            assert os.get_blocking(writer.fileno())
            sending.send(b"hello")
            await sending.flush(DEADLINE)
            assert os.read(reader.fileno(), 100) == b"hello\n"
            sending.close()


@in_each_loop
async def test_a_closed_stderr_is_nobody_elses_pipe(monkeypatch):
    with pipe() as (_, writer):
        monkeypatch.setattr(writers, "_STDERR", 1_000_000)
        sending = open_writer(writer.fileno(), Recorder())
        assert not os.get_blocking(writer.fileno())
        sending.close()


@in_each_loop
async def test_a_regular_file_takes_everything(tmp_path):
    with (tmp_path / "answers").open("wb") as file:
        sending = open_writer(file.fileno(), Recorder())
        sending.send(b"x" * 3 * HIGH_WATER_BYTES)
        await sending.flush(DEADLINE)
        sending.close()
    assert (tmp_path / "answers").stat().st_size == 3 * HIGH_WATER_BYTES + 1


def test_a_thread_that_writes_ends_when_its_loop_is_gone():
    async def main(writer):
        sending = open_writer(writer, Recorder())
        sending.send(b"x" * HIGH_WATER_BYTES)
        await asyncio.sleep(0)

    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    before = threading.enumerate()
    asyncio.run(main(theirs))
    (thread,) = started_since(before, "dragoman-writer")
    os.read(ours, HIGH_WATER_BYTES)
    os.read(ours, HIGH_WATER_BYTES)
    os.close(ours)
    thread.join(DEADLINE)
    assert not thread.is_alive()
    os.close(theirs)


@pytest.mark.parametrize("reader_lives", [True, False], ids=["read", "closed"])
@in_each_loop
async def test_what_becomes_of_a_write_after_closing_is_not_told(reader_lives):
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with os.fdopen(ours, "rb", 0) as reader, os.fdopen(theirs, "wb", 0) as writer:
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        sending.send(b"x" * 10 * CHUNK_BYTES)
        await Sink(reader).take(1)
        sending.close()
        if reader_lives:
            await Sink(reader).take(CHUNK_BYTES - 1)
        else:
            reader.close()
        await turns()
        sending._fail()
        assert flow.told == []


@in_each_loop
async def test_a_message_of_several_lines_leaves_as_one():
    with writing() as (sending, sink, _):
        sending.send(b'{\n"a":1}')
        await sending.flush(DEADLINE)
        assert os.read(sink.reader.fileno(), 100) == b'{ "a":1}\n'
