"""Chunks from descriptors of every kind."""

import asyncio
import contextlib
import os
import pty
import socket
import tempfile
import threading
import tty

import pytest

from dragoman.transports.stdio.readers import CHUNK_BYTES, open_reader
from unit.loops import DEADLINE, in_a_loop, in_each_loop
from unit.transports.stdio.conduits import pipe, sockets, started_since, turns


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
