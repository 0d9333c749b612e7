"""Large parts that are sent again, as the pages of a pipe."""

import asyncio
import errno
import fcntl
import os
from pathlib import Path

import pytest
from msgspec import Raw

from dragoman.transports.stdio import pages
from dragoman.transports.stdio.pages import widen
from dragoman.transports.stdio.writers import WIDE_PIPE_BYTES, open_writer
from unit.loops import DEADLINE, in_each_loop
from unit.transports.stdio.conduits import OUTPUTS, Recorder, Sink, pipe, sockets, writing


def numbered(letter, size):
    """Text in which every place differs from the others, so that nothing can be lost or take another's place."""
    return Raw(b"".join(b"%b%07d" % (letter, place) for place in range(size // 8)))


SENT_AGAIN, ANOTHER = numbered(b"s", 300_000), numbered(b"a", 130_000)


@OUTPUTS
@pytest.mark.parametrize("taken", [1, 4095, 4096, 65_537, 10_000_000])
@in_each_loop
async def test_parts_that_are_sent_again_are_the_same_whatever_else_is_sent_and_however_they_are_read(conduit, taken):
    with writing(conduit) as (sending, sink, _):
        expected = bytearray()
        for number, letter in enumerate("sssassaass"):
            part = SENT_AGAIN if letter == "s" else ANOTHER
            sending.send(b"before %d" % number)
            sending.send_parts(b"{", part, b"}")
            expected += b"before %d\n{%b}\n" % (number, bytes(part))
            await sink.take(len(sink.read) + taken if number % 3 and taken < len(expected) else 0)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected


@pytest.fixture
def splices(monkeypatch):
    """The sizes of what was moved from one pipe into another."""
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
async def test_a_part_that_is_sent_again_is_put_into_a_pipe_as_the_pages_of_another(splices, writes):
    with pipe() as (reader, writer):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
        sending = open_writer(writer.fileno(), Recorder())
        before = open_files()
        for part in (SENT_AGAIN, SENT_AGAIN, ANOTHER, SENT_AGAIN, SENT_AGAIN):
            sending.send_parts(b"{", part, b"}")
            sending.write_now()
            os.read(reader.fileno(), WIDE_PIPE_BYTES)
        assert splices == [300_003] * 2
        assert writes == [300_003, 300_002, 1, 130_003, 300_003, 300_002, 1]
        assert open_files() == before + 3
        sending.close()
        assert open_files() == before


@pytest.mark.parametrize(("conduit", "missing"), [(sockets, None), (pipe, "splice")])
@in_each_loop
async def test_no_pages_are_put_into_a_socket_or_where_the_system_has_no_way(splices, conduit, missing, monkeypatch):
    if missing is not None:
        monkeypatch.delattr(os, missing)
    with writing(conduit) as (sending, sink, _):
        for _ in range(3):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            await asyncio.gather(sink.take(len(sink.read) + 300_003), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(SENT_AGAIN)) * 3
    assert splices == []


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        ("ctypes.CDLL", OSError("no such library")),
        ("ctypes.CDLL", ImportError("no module")),
        ("os.pipe", OSError(errno.EMFILE, "too many")),
        ("os.splice", PermissionError),
        ("os.splice", OSError(errno.EINVAL, "no pipe")),
    ],
)
@in_each_loop
async def test_where_there_are_no_such_pipes_parts_are_written(monkeypatch, missing, problem):
    tried = []

    def refuse(*given, **options):
        tried.append(missing)
        raise problem

    with writing() as (sending, sink, _):
        before = open_files()
        monkeypatch.setattr(missing, refuse)
        for _ in range(4):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            await asyncio.gather(sink.take(len(sink.read) + 300_003), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(SENT_AGAIN)) * 4
        assert open_files() == before
    assert tried == [missing]


@pytest.mark.parametrize("narrow", [0, 1], ids=["the pipe that keeps it", "the pipe that it is put together in"])
@in_each_loop
async def test_a_part_that_a_pipe_of_ours_cannot_hold_is_written(monkeypatch, splices, narrow):
    widened = []

    def widen_others(pipe, size):
        widened.append(pipe)
        if len(widened) != narrow + 1:
            widen(pipe, size)

    monkeypatch.setattr(pages, "widen", widen_others)
    with writing() as (sending, sink, _):
        before = open_files()
        for _ in range(4):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            await asyncio.gather(sink.take(len(sink.read) + 300_003), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(SENT_AGAIN)) * 4
        assert open_files() == before
    assert len(widened) == 2
    assert splices == []


@in_each_loop
async def test_what_was_put_together_is_written_where_a_pipe_takes_no_pages(monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EINVAL, "no pipe")

    with writing() as (sending, sink, _):
        before = open_files()
        monkeypatch.setattr(os, "splice", refuse)
        for _ in range(3):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            sending.send(b"after")
        await asyncio.gather(sink.take(3 * 600_012), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n{%b}\nafter\n" % (bytes(SENT_AGAIN), bytes(SENT_AGAIN))) * 3
        assert open_files() == before


@pytest.mark.parametrize("around", [b"", b"x" * 4000, b"x" * 70_000])
@in_each_loop
async def test_what_comes_before_and_after_a_part_that_is_sent_again_may_be_of_any_size(around):
    with writing() as (sending, sink, _):
        expected = bytearray()
        for _ in range(6):
            sending.send(around)
            sending.send_parts(b"{", SENT_AGAIN, b"}")
            sending.send(around)
            expected += b"%b\n{%b}\n%b\n" % (around, bytes(SENT_AGAIN), around)
            await asyncio.sleep(0)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected


@in_each_loop
async def test_what_is_half_moved_leaves_whole_although_the_next_cannot_be_kept(monkeypatch):
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
        monkeypatch.setattr(os, "pipe", refuse)
        for _ in range(3):
            send(ANOTHER)
        await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        for _ in range(3):
            send(ANOTHER)
            await asyncio.gather(sink.take(len(expected)), sending.flush(DEADLINE))
        assert sink.read == expected
        sending.close()


@in_each_loop
async def test_a_part_that_our_own_pipe_cannot_hold_is_written(splices):
    larger = numbered(b"l", 2 * WIDE_PIPE_BYTES)
    with writing() as (sending, sink, _):
        for _ in range(3):
            sending.send_parts(b"{", larger, b"}")
        await asyncio.gather(sink.take(3 * len(larger) + 9), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(larger)) * 3
    assert splices == []


@in_each_loop
async def test_where_our_own_pipe_cannot_be_wide_parts_are_written(monkeypatch):
    monkeypatch.setattr(pages, "widen", lambda *_: None)
    with writing() as (sending, sink, _):
        before = open_files()
        for _ in range(3):
            sending.send_parts(b"{", SENT_AGAIN, b"}")
        await asyncio.gather(sink.take(3 * 300_003), sending.flush(DEADLINE))
        assert sink.read == (b"{%b}\n" % bytes(SENT_AGAIN)) * 3
        assert open_files() == before


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
