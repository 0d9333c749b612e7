import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import socket
import tempfile
import threading
import tty
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import Raw

from dragoman.transports.stdio import descriptors, pages
from dragoman.transports.stdio.descriptors import (
    CHUNK_BYTES,
    CONGESTED_BYTES,
    RELIEVED_BYTES,
    WIDE_PIPE_BYTES,
    open_reader,
    open_writer,
)
from unit.loops import DEADLINE, in_a_loop, in_each_loop


@contextlib.contextmanager
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", 0) as reader, os.fdopen(writing, "wb", 0) as writer:
        yield reader, writer


@contextlib.contextmanager
def sockets():
    one, other = socket.socketpair()
    with one.makefile("rb", 0) as reader, other.makefile("wb", 0) as writer:
        one.close()
        other.close()
        yield reader, writer


@contextlib.contextmanager
def terminal():
    """A terminal whose flags another process has made non-blocking, to be read by a thread all the same."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    os.set_blocking(theirs, False)
    with os.fdopen(theirs, "rb", 0) as reader, os.fdopen(ours, "wb", 0) as writer:
        yield reader, writer


CONDUITS = pytest.mark.parametrize("conduit", [pipe, sockets, terminal])


class Source:
    """What a reader brings, as events."""

    def __init__(self):
        self.chunks = []
        self.ends = 0
        self.changed = asyncio.Event()

    def receive(self, chunk):
        self.chunks.append(chunk)
        self.changed.set()

    def end(self):
        self.ends += 1
        self.changed.set()

    async def until(self, condition):
        while not condition(self):
            self.changed.clear()
            await self.changed.wait()

    async def whole(self):
        await self.until(lambda source: source.ends)
        return b"".join(self.chunks)


@CONDUITS
@in_each_loop
async def test_chunks_arrive_and_then_the_end(conduit):
    source = Source()
    with conduit() as (reader, writer):
        reading = open_reader(reader.fileno(), source.receive, source.end)
        writer.write(b"hello")
        await source.until(lambda source: source.chunks == [b"hello"])
        await asyncio.sleep(0)
        writer.write(b"again")
        await source.until(lambda source: source.chunks == [b"hello", b"again"])
        writer.close()
        assert await source.whole() == b"helloagain"
        reading.close()
        assert source.ends == 1


@CONDUITS
@in_each_loop
async def test_a_paused_reader_brings_nothing_until_it_is_resumed(conduit):
    source = Source()
    with conduit() as (reader, writer):
        reading = open_reader(reader.fileno(), source.receive, source.end)
        reading.pause()
        writer.write(b"hello")
        await turns()
        assert source.chunks == []
        reading.resume()
        reading.pause()
        await turns()
        assert source.chunks == []
        reading.resume()
        reading.resume()
        await source.until(lambda source: source.chunks == [b"hello"])
        reading.close()


@CONDUITS
@in_each_loop
async def test_a_closed_reader_brings_nothing_any_more(conduit):
    source = Source()
    with conduit() as (reader, writer):
        reading = open_reader(reader.fileno(), source.receive, source.end)
        reading.close()
        reading.resume()
        writer.write(b"hello")
        await turns()
        assert (source.chunks, source.ends) == ([], 0)


async def turns():
    """Let the loop turn until a thread that could do something has had ample time to."""
    for _ in range(10):
        await asyncio.sleep(0.002)


@in_each_loop
async def test_a_regular_file_arrives_whole_in_bounded_chunks():
    source = Source()
    with tempfile.TemporaryFile() as file:
        content = os.urandom(1_000_000)
        file.write(content)
        file.seek(0)
        open_reader(file.fileno(), source.receive, source.end)
        assert await source.whole() == content
        assert max(map(len, source.chunks)) <= CHUNK_BYTES


@in_each_loop
async def test_a_thread_reads_one_chunk_ahead_at_most(monkeypatch):
    reads = []
    real_read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: reads.append(size) or real_read(descriptor, size))
    source = Source()
    with tempfile.TemporaryFile() as file:
        file.write(bytes(10 * CHUNK_BYTES))
        file.seek(0)
        reading = open_reader(file.fileno(), source.receive, source.end)
        await source.until(lambda source: source.chunks)
        reading.pause()
        seen = len(source.chunks)
        await turns()
        assert len(source.chunks) == seen
        assert len(reads) == seen + 1
        reading.resume()
        assert len(await source.whole()) == 10 * CHUNK_BYTES


@in_a_loop  # a loop of uvloop makes the descriptor non-blocking
async def test_the_flags_of_what_is_read_are_left_alone():
    source = Source()
    with pipe() as (reader, _writer):
        reading = open_reader(reader.fileno(), source.receive, source.end)
        assert os.get_blocking(reader.fileno())
        reading.close()


@in_each_loop
async def test_bytes_that_somebody_else_took_are_not_waited_for():
    source = Source()
    with pipe() as (reader, _writer):
        os.set_blocking(reader.fileno(), False)
        reading = open_reader(reader.fileno(), source.receive, source.end)
        reading._read()
        assert (source.chunks, source.ends) == ([], 0)
        reading.close()
        await asyncio.sleep(0)  # uvloop aborts when a descriptor is closed in the turn in which it was watched


@in_each_loop
async def test_a_connection_that_is_reset_has_ended_after_its_last_bytes():
    source = Source()
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.send(b"never read")  # this makes closing a reset
        ours.send(b"last bytes")
        ours.close()
        open_reader(theirs.fileno(), source.receive, source.end)
        assert await source.whole() == b"last bytes"
        assert source.ends == 1


@pytest.mark.parametrize("conduit", [pipe, sockets])
@in_each_loop
async def test_a_closed_output_is_noticed_while_a_write_waits_for_room(conduit):
    with conduit() as (reader, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        sending.send(b"x" * 2 * WIDE_PIPE_BYTES)
        assert await asyncio.to_thread(os.read, reader.fileno(), 1) == b"x"
        reader.close()
        await flow.until("pause", "break off")


@in_each_loop
async def test_a_terminal_that_nobody_has_any_more_has_ended():
    source = Source()
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0):
        open_reader(ours, source.receive, source.end)
        os.close(theirs)
        assert await source.whole() == b""


@in_a_loop
async def test_a_loop_that_cannot_watch_has_a_thread_read():
    loop = asyncio.get_running_loop()

    def refuse(*_):
        raise NotImplementedError

    loop.add_reader = refuse
    source = Source()
    with pipe() as (reader, writer):
        open_reader(reader.fileno(), source.receive, source.end)
        writer.write(b"hello")
        writer.close()
        assert await asyncio.wait_for(source.whole(), DEADLINE) == b"hello"


def started_since(before, name):
    return [thread for thread in threading.enumerate() if thread.name == name and thread not in before]


def test_a_thread_that_reads_ends_when_its_loop_is_gone():
    async def main(reader):
        open_reader(reader, lambda chunk: None, lambda: None)

    ours, theirs = pty.openpty()
    before = threading.enumerate()
    asyncio.run(main(theirs))
    (thread,) = started_since(before, "dragoman-reader")
    os.write(ours, b"too late\n")
    thread.join(DEADLINE)
    assert not thread.is_alive()
    os.close(ours)
    os.close(theirs)


class Recorder:
    """A flow that remembers what the writer told it."""

    def __init__(self):
        self.told = []
        self.changed = asyncio.Event()

    def pause(self):
        self.tell("pause")

    def resume(self):
        self.tell("resume")

    def break_off(self):
        self.tell("break off")

    def tell(self, what):
        self.told.append(what)
        self.changed.set()

    async def until(self, *told):
        while self.told != list(told):
            self.changed.clear()
            await self.changed.wait()


class Sink:
    """The other end of a conduit, read by a thread only when it is told to."""

    def __init__(self, reader):
        self.reader = reader
        self.read = bytearray()

    async def take(self, size):
        """Read until so many bytes have been read in all."""
        while len(self.read) < size:
            self.read += await asyncio.to_thread(os.read, self.reader.fileno(), size - len(self.read))


@contextlib.contextmanager
def terminal_output():
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    os.set_blocking(theirs, False)
    with os.fdopen(ours, "rb", 0) as reader, os.fdopen(theirs, "wb", 0) as writer:
        yield reader, writer


OUTPUTS = pytest.mark.parametrize("conduit", [pipe, sockets, terminal_output])


@pytest.fixture
def writes(monkeypatch):
    """The sizes of all writes."""
    sizes = []

    def recorded(write):
        def record(descriptor, data):
            count = write(descriptor, data)
            sizes.append(count)
            return count

        return record

    monkeypatch.setattr(os, "write", recorded(os.write))
    monkeypatch.setattr(os, "writev", recorded(os.writev))
    return sizes


@OUTPUTS
@in_each_loop
async def test_a_thousand_messages_of_one_turn_leave_in_one_write(conduit, writes):
    with conduit() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        for _ in range(1000):
            sending.send(b"ab")
        assert writes == []
        await sending.flush(DEADLINE)
        assert writes == [3000]
        sink = Sink(reader)
        await sink.take(3000)
        assert sink.read == b"ab\n" * 1000
        sending.close()


@OUTPUTS
@in_each_loop
async def test_messages_of_later_turns_follow_in_order(conduit, writes):
    with conduit() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        for number in range(10):
            sending.send(b"%d" % number)
            await sending.flush(DEADLINE)
        assert writes == [2] * 10
        sink = Sink(reader)
        await sink.take(20)
        assert sink.read == b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"
        sending.close()


@OUTPUTS
@in_each_loop
async def test_what_does_not_fit_at_once_leaves_whole_and_in_order(conduit):
    with conduit() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        expected = bytearray()
        for number in range(200):
            message = b"%d" % number * 1000
            expected += message + b"\n"
            sending.send(message)
            if number % 20 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected
        sending.close()


LARGE = Raw(b"x" * 300_000)


@OUTPUTS
@in_each_loop
async def test_a_message_in_parts_is_one_line_in_its_place(conduit):
    with conduit() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        expected = bytearray()
        for number in range(30):
            sending.send(b"before %d" % number)
            sending.send_parts(b"{%d:" % number, LARGE, b"}")
            sending.send(b"after")
            expected += b"before %d\n{%d:%b}\nafter\n" % (number, number, bytes(LARGE))
            if number % 7 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected
        sending.close()


@in_each_loop
async def test_a_message_in_parts_leaves_in_one_write_where_there_is_room(writes):
    with pipe() as (_, writer):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
        sending = open_writer(writer.fileno(), Recorder())
        sending.send(b"one")
        sending.send_parts(b"{", LARGE, b"}")
        sending.write_now()
        assert writes == [4 + 300_003]
        sending.close()


def numbered(letter, size):
    """Text in which every place differs from the others, so that nothing can be lost or take another's place."""
    return Raw(b"".join(b"%b%07d" % (letter, place) for place in range(size // 8)))


SENT_AGAIN, ANOTHER = numbered(b"s", 300_000), numbered(b"a", 130_000)


@OUTPUTS
@pytest.mark.parametrize("taken", [1, 4095, 4096, 65_537, 10_000_000])
@in_each_loop
async def test_parts_that_are_sent_again_are_the_same_whatever_else_is_sent_and_however_they_are_read(conduit, taken):
    with conduit() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        expected = bytearray()
        for number, letter in enumerate("sssassaass"):
            part = SENT_AGAIN if letter == "s" else ANOTHER
            sending.send(b"before %d" % number)
            sending.send_parts(b"{", part, b"}")
            expected += b"before %d\n{%b}\n" % (number, bytes(part))
            await sink.take(len(sink.read) + taken if number % 3 and taken < len(expected) else 0)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected
        sending.close()


@pytest.fixture
def splices(monkeypatch):
    """The sizes of what was put into a pipe from a file."""
    sizes = []
    splice = os.splice

    def record(*given, **options):
        count = splice(*given, **options)
        sizes.append(count)
        return count

    monkeypatch.setattr(os, "splice", record)
    return sizes


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@in_each_loop
async def test_a_part_that_is_sent_again_is_put_into_a_pipe_as_the_pages_of_a_file(splices, writes):
    with pipe() as (reader, writer):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
        sending = open_writer(writer.fileno(), Recorder())
        before = open_files()
        for part in (SENT_AGAIN, SENT_AGAIN, ANOTHER, SENT_AGAIN, SENT_AGAIN):
            sending.send_parts(b"{", part, b"}")
            sending.write_now()
            os.read(reader.fileno(), WIDE_PIPE_BYTES)
        assert splices == [300_002, 300_003] * 2
        assert writes == [300_003, 1, 130_003, 300_003, 1]
        assert open_files() == before + 3
        sending.close()
        assert open_files() == before


@pytest.mark.parametrize(("conduit", "missing"), [(sockets, None), (pipe, "memfd_create"), (pipe, "splice")])
@in_each_loop
async def test_no_file_is_put_into_a_socket_or_where_the_system_has_no_way(splices, conduit, missing, monkeypatch):
    if missing is not None:
        monkeypatch.delattr(os, missing)
    with conduit() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        for _ in range(3):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            await asyncio.gather(sink.take(len(sink.read) + 300_003), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(SENT_AGAIN)) * 3
        sending.close()
    assert splices == []


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        ("memfd_create", PermissionError),
        ("pipe", OSError(errno.EMFILE, "too many")),
        ("splice", PermissionError),
        ("splice", OSError(errno.EINVAL, "no pipe")),
    ],
)
@in_each_loop
async def test_where_there_are_no_such_files_or_pipes_parts_are_written(monkeypatch, missing, problem):
    tried = []

    def refuse(*given, **options):
        tried.append(missing)
        raise problem

    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        before = open_files()
        monkeypatch.setattr(os, missing, refuse)
        for _ in range(4):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            await asyncio.gather(sink.take(len(sink.read) + 300_003), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(SENT_AGAIN)) * 4
        assert open_files() == before
        sending.close()
    assert tried == [missing]


@in_each_loop
async def test_what_was_put_together_is_written_where_a_pipe_takes_no_pages(monkeypatch):
    splice = os.splice

    def from_files_alone(*given, **options):
        if "offset_src" in options:
            return splice(*given, **options)
        raise OSError(errno.EINVAL, "no pipe")

    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        before = open_files()
        monkeypatch.setattr(os, "splice", from_files_alone)
        for _ in range(3):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            sending.send(b"after")
        await asyncio.gather(sink.take(3 * 600_012), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n{%b}\nafter\n" % (bytes(SENT_AGAIN), bytes(SENT_AGAIN))) * 3
        assert open_files() == before
        sending.close()


@pytest.mark.parametrize("around", [b"", b"x" * 4000, b"x" * 70_000])
@in_each_loop
async def test_what_comes_before_and_after_a_part_that_is_sent_again_may_be_of_any_size(around):
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        expected = bytearray()
        for _ in range(6):
            sending.send(around)
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            sending.send(around)
            expected += b"%b\n{%b}\n%b\n" % (around, bytes(SENT_AGAIN), around)
            await asyncio.sleep(0)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected
        sending.close()


@in_each_loop
async def test_what_is_half_moved_leaves_whole_although_the_next_cannot_be_a_file(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, "too many")

    with pipe() as (reader, writer):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        sending = open_writer(writer.fileno(), Recorder())
        monkeypatch.setattr(sending, "_widen", lambda: None)
        sink = Sink(reader)
        expected = bytearray()

        def send(part):
            expected.extend(b"{%b}\n" % bytes(part))
            sending.send_parts(b"{", part, b"}")
            sending.write_now()

        send(SENT_AGAIN)
        send(SENT_AGAIN)
        await sink.take(300_003 + 10_000)
        monkeypatch.setattr(os, "memfd_create", refuse)
        for _ in range(3):
            send(ANOTHER)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        for _ in range(3):
            send(ANOTHER)
            await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected
        sending.close()


@in_each_loop
async def test_others_have_their_turn_while_very_much_is_written(monkeypatch):
    monkeypatch.setattr(descriptors, "TURN_BYTES", 100_000)
    with pipe() as (reader, writer):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
        sending = open_writer(writer.fileno(), Recorder())
        for _ in range(3):
            sending.send_parts(b"{", ANOTHER, b"}")
        sending.write_now()
        first = len(os.read(reader.fileno(), WIDE_PIPE_BYTES))
        await sending.flush(DEADLINE)
        rest = len(os.read(reader.fileno(), WIDE_PIPE_BYTES))
        sending.close()
        assert first < 2 * 130_003
        assert first + rest == 3 * 130_003


@in_each_loop
async def test_a_part_that_our_own_pipe_cannot_hold_is_written(splices):
    larger = numbered(b"l", 2 * WIDE_PIPE_BYTES)
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        for _ in range(3):
            sending.send_parts(b"{", larger, b"}")
        await asyncio.gather(sink.take(3 * len(larger) + 9), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(larger)) * 3
        sending.close()
    assert splices == []


@in_each_loop
async def test_where_our_own_pipe_cannot_be_wide_parts_are_written(monkeypatch):
    monkeypatch.setattr(pages, "widen", lambda *_: None)
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        before = open_files()
        for _ in range(3):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
        await asyncio.gather(sink.take(3 * 300_003), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(SENT_AGAIN)) * 3
        assert open_files() == before
        sending.close()


@in_each_loop
async def test_whoever_closes_a_pipe_within_a_part_that_is_sent_again_is_gone():
    with pipe() as (reader, writer):
        flow, before = Recorder(), open_files()
        sending = open_writer(writer.fileno(), flow)
        sink = Sink(reader)
        for _ in range(WIDE_PIPE_BYTES // len(SENT_AGAIN) + 3):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
        await sink.take(400_000)
        reader.close()
        await flow.until("pause", "break off")
        assert open_files() == before - 1  # that of the reader
        sending.close()


@in_each_loop
async def test_parts_that_are_very_much_are_no_sign_that_the_other_side_is_gone(monkeypatch):
    monkeypatch.setattr(descriptors, "UNREAD_BYTES", 1000)
    with pipe() as (reader, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        sink = Sink(reader)
        sending.send_parts(b"{", LARGE, b"}")
        await asyncio.gather(sink.take(300_003), sending.flush(DEADLINE))
        assert flow.told == []
        sending.close()


@OUTPUTS
@in_each_loop
async def test_the_parts_of_a_message_count_as_unwritten(conduit):
    with conduit() as (reader, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        sink = Sink(reader)
        for _ in range(3):
            sending.send_parts(b"{", LARGE, b"}")
        assert flow.told == []
        sending.send_parts(b"{", LARGE, b"}")
        assert flow.told == ["pause"]
        await asyncio.gather(sink.take(4 * 300_003), sending.flush(DEADLINE))
        await flow.until("pause", "resume")
        sending.close()
        sending.send_parts(b"{", LARGE, b"}")
        await sending.flush(0)


@OUTPUTS
@in_each_loop
async def test_much_that_is_unwritten_pauses_the_source_until_most_is_gone(conduit):
    with conduit() as (reader, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        sink = Sink(reader)
        sending.send(b"x" * (CONGESTED_BYTES - 1))
        await asyncio.sleep(0)
        assert flow.told == []
        await asyncio.wait_for(sending.room(), DEADLINE)
        for _ in range(3):
            sending.send(b"x" * CONGESTED_BYTES)
        assert flow.told == ["pause"]
        room = asyncio.create_task(sending.room())
        await sink.take(2 * CONGESTED_BYTES)
        assert flow.told == ["pause"]
        assert not room.done()
        await sink.take(4 * CONGESTED_BYTES + 3 - RELIEVED_BYTES // 2)
        await flow.until("pause", "resume")
        await room
        await asyncio.gather(sink.take(4 * CONGESTED_BYTES + 3), sending.flush(DEADLINE))
        assert flow.told == ["pause", "resume"]
        sending.close()


@in_each_loop
async def test_what_was_sent_can_be_written_without_waiting_for_the_next_turn():
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sending.write_now()
        sending.send(b"one")
        sending.send(b"two")
        sending.write_now()
        assert os.read(reader.fileno(), 100) == b"one\ntwo\n"
        sending.send(b"three")
        sending.write_now()
        sending.send(b"four")
        await sending.flush(DEADLINE)
        assert os.read(reader.fileno(), 100) == b"three\nfour\n"
        sending.close()


@in_each_loop
async def test_nothing_is_scheduled_for_what_is_held():
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        loop, scheduled = asyncio.get_running_loop(), []
        sending._loop = SimpleNamespace(time=loop.time, call_soon=scheduled.append)
        sending.hold()
        sending.send(b"one")
        sending.send(b"two")
        assert scheduled == []
        sending.write_now()
        assert os.read(reader.fileno(), 100) == b"one\ntwo\n"
        sending.send(b"three")
        assert len(scheduled) == 1
        scheduled.pop()()
        assert os.read(reader.fileno(), 100) == b"three\n"
        sending.hold()
        sending.write_now()
        sending.send(b"four")
        sending.hold()
        sending.send(b"five")
        sending.write_now()
        assert os.read(reader.fileno(), 100) == b"four\nfive\n"
        sending.close()


@in_each_loop
async def test_very_much_that_is_held_is_no_sign_that_the_other_side_is_gone(monkeypatch):
    monkeypatch.setattr(descriptors, "UNREAD_BYTES", 1000)
    with pipe() as (reader, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        sending._since -= 2 * descriptors.UNREAD_SECONDS
        sending.hold()
        for _ in range(3):
            sending.send(b"x" * 2000)
        sending.write_now()
        assert len(os.read(reader.fileno(), 10_000)) == 6003
        assert flow.told == []
        sending.close()


@in_each_loop
async def test_what_waits_for_room_is_not_overtaken_by_what_is_to_be_written_now():
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sink = Sink(reader)
        sending.send(b"x" * 2 * WIDE_PIPE_BYTES)
        sending.write_now()
        sending.send(b"y")
        sending.write_now()
        await asyncio.gather(sink.take(2 * WIDE_PIPE_BYTES + 3), sending.flush(DEADLINE))
        assert sink.read == b"x" * 2 * WIDE_PIPE_BYTES + b"\ny\n"
        sending.close()


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
    with conduit() as (reader, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        reader.close()
        sending.send(b"x" * 2 * CONGESTED_BYTES)
        room = asyncio.create_task(sending.room())
        await flow.until("pause", "break off")
        await room
        sending.send(b"more")
        await sending.flush(DEADLINE)
        sending.close()
        assert flow.told == ["pause", "break off"]


@OUTPUTS
@in_each_loop
async def test_flushing_gives_up_on_an_other_side_that_takes_nothing(conduit):
    with conduit() as (_reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sending.send(b"x" * CONGESTED_BYTES)
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
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sending.send(b"x" * 3 * WIDE_PIPE_BYTES)
        await asyncio.gather(Sink(reader).take(3 * WIDE_PIPE_BYTES + 1), sending.flush(patience))
        sending.close()
    assert started.count(patience) > 1


@in_each_loop
async def test_an_other_side_that_takes_nothing_while_very_much_waits_counts_as_gone(monkeypatch, caplog):
    monkeypatch.setattr(descriptors, "UNREAD_BYTES", 1000)
    with pipe() as (_, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        sending.send(b"x" * 100_000)
        sending.send(b"x" * 100_000)
        await asyncio.sleep(0)
        sending.send(b"x")
        assert flow.told == []
        monkeypatch.setattr(descriptors, "UNREAD_SECONDS", -1.0)
        sending.send(b"x")
        sending.send(b"x")
        assert flow.told == ["break off"]
    assert [record.name for record in caplog.records] == ["dragoman.transports.stdio.descriptors"]
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
        monkeypatch.setattr(descriptors, "_STDERR", writer.fileno())
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
        monkeypatch.setattr(descriptors, "_STDERR", 1_000_000)
        sending = open_writer(writer.fileno(), Recorder())
        assert not os.get_blocking(writer.fileno())
        sending.close()


@in_each_loop
async def test_a_regular_file_takes_everything(tmp_path):
    with (tmp_path / "answers").open("wb") as file:
        sending = open_writer(file.fileno(), Recorder())
        sending.send(b"x" * 3 * CONGESTED_BYTES)
        await sending.flush(DEADLINE)
        sending.close()
    assert (tmp_path / "answers").stat().st_size == 3 * CONGESTED_BYTES + 1


def test_a_thread_that_writes_ends_when_its_loop_is_gone():
    async def main(writer):
        sending = open_writer(writer, Recorder())
        sending.send(b"x" * CONGESTED_BYTES)
        await asyncio.sleep(0)

    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    before = threading.enumerate()
    asyncio.run(main(theirs))
    (thread,) = started_since(before, "dragoman-writer")
    os.read(ours, CONGESTED_BYTES)
    os.read(ours, CONGESTED_BYTES)
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
        sending._break()
        assert flow.told == []


@in_each_loop
async def test_a_message_of_several_lines_leaves_as_one():
    with pipe() as (reader, writer):
        sending = open_writer(writer.fileno(), Recorder())
        sending.send(b'{\n"a":1}')
        await sending.flush(DEADLINE)
        assert os.read(reader.fileno(), 100) == b'{ "a":1}\n'
        sending.close()
