"""Conduits of bytes, and both their ends, for the tests of readers and writers."""

import asyncio
import contextlib
import os
import pty
import socket
import threading
import tty

import pytest

from dragoman.transports.stdio.writers import open_writer


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


async def turns():
    """Let the loop turn until a thread that could do something has had ample time to."""
    for _ in range(10):
        await asyncio.sleep(0.002)


def started_since(before, name):
    return [thread for thread in threading.enumerate() if thread.name == name and thread not in before]


OUTPUTS = pytest.mark.parametrize("conduit", [pipe, sockets, terminal_output])


@contextlib.contextmanager
def writing(conduit=pipe):
    """A writer to a conduit, the other end of the conduit, and the flow that the writer regulates."""
    with conduit() as (reader, writer):
        flow = Recorder()
        sending = open_writer(writer.fileno(), flow)
        try:
            yield sending, Sink(reader), flow
        finally:
            sending.close()
