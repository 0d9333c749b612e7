"""Whatever is sent, and however it is read: what leaves is what was sent, in order, and nothing is left over."""

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.transports.stdio.writers import DirectWriter, open_writer

DEADLINE = 60

actions = st.one_of(
    st.tuples(st.just("message"), st.sampled_from([1, 30, 4090, 70_000, 1_100_000])),
    st.tuples(st.just("write"), st.just(0)),
    st.tuples(st.just("turn"), st.just(0)),
    st.tuples(st.just("read"), st.sampled_from([1, 4095, 65_536, 1 << 20])),
)


class Unregulated:
    """A flow that nobody regulates."""

    def pause(self):
        pass

    def resume(self):
        pass

    def break_off(self):
        raise AssertionError("the other side is there")


async def written(script, pipe_bytes, open_writer):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, pipe_bytes)
    os.set_blocking(reading, False)
    sending = open_writer(writing, Unregulated())
    sent, read = bytearray(), bytearray()

    def take(size):
        with contextlib.suppress(BlockingIOError):
            read.extend(os.read(reading, size))

    for action, value in script:
        if action.startswith("message"):
            sent.extend(b"m" * value + b"\n")
            sending.send(b"m" * value)
        elif action == "write":
            sending.write_now()
        elif action == "read":
            take(value)
        else:
            await asyncio.sleep(0)
    while len(read) < len(sent):
        take(1 << 20)
        await asyncio.sleep(0)
    await sending.flush(DEADLINE)
    sending.close()
    os.close(reading)
    os.close(writing)
    return bytes(sent), bytes(read)


def compare(script, pipe_bytes, open_writer):
    before = len(list(Path("/proc/self/fd").iterdir()))
    sent, read = asyncio.run(asyncio.wait_for(written(script, pipe_bytes, open_writer), DEADLINE))
    assert read == sent
    assert len(list(Path("/proc/self/fd").iterdir())) == before


scripts, sizes = st.lists(actions, max_size=30), st.sampled_from([4096, 65_536, 1 << 20])


@given(scripts, sizes)
@settings(max_examples=150, deadline=None)
def test_what_leaves_is_what_was_sent(script, pipe_bytes):
    compare(script, pipe_bytes, open_writer)


@given(scripts, sizes)
@settings(max_examples=100, deadline=None)
def test_what_a_child_is_sent_is_what_was_sent(script, pipe_bytes):
    compare(script, pipe_bytes, DirectWriter)
