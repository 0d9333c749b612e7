"""A long list is encoded once, and later answers copy none of it before the system does."""

import asyncio
import ctypes
import os
import tracemalloc
from contextlib import suppress

from dragoman import Server
from dragoman.transports.stdio.writers import open_writer

DEADLINE = 60
TOOLS = 1000
MOST_ALLOCATED = 16 * 1024
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


class Flow:
    """The source of what a writer writes, which has no more."""

    def pause(self):
        pass

    def resume(self):
        pass


def allocated_by(work):
    """Return how much more memory is in use at the highest point than before."""
    assert ctypes  # a server loads it once, which is not what is measured here
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        _, highest = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return highest - before


def read_all(descriptor):
    """Return how much there is to read, having read it."""
    size = 0
    with suppress(BlockingIOError):
        while True:
            size += len(os.read(descriptor, 1 << 20))
    return size


async def answers(server):
    """Return the size of a list as it is written, and what was allocated when it was asked for again."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    sending = open_writer(writing, Flow())
    connection = server.connect(sending)
    connection.receive(LIST)
    flushing, size = asyncio.ensure_future(sending.flush(DEADLINE)), 0
    while not flushing.done():
        await asyncio.sleep(0)
        size += read_all(reading)
    highest = allocated_by(lambda: (connection.receive(LIST), sending.write_now()))
    assert read_all(reading) == size
    connection.close()
    sending.close()
    os.close(reading)
    os.close(writing)
    return size, highest


def test_answering_with_a_long_list_copies_none_of_it():
    server = Server()
    for number in range(TOOLS):
        server.tool(lambda: None, name=f"tool_{number}", description="One of many tools.")
    size, highest = asyncio.run(asyncio.wait_for(answers(server), DEADLINE))
    assert size > 100 * TOOLS
    assert highest < MOST_ALLOCATED
