"""A writer writes every message whole and in order, however the other side reads."""

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.transports.stdio.writers import open_writer

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


async def written(script, pipe_bytes):
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


@given(st.lists(actions, max_size=30), st.sampled_from([4096, 65_536, 1 << 20]))
@settings(max_examples=150, deadline=None)
def test_every_message_is_written_whole_and_in_order(script, pipe_bytes):
    before = len(list(Path("/proc/self/fd").iterdir()))
    sent, read = asyncio.run(asyncio.wait_for(written(script, pipe_bytes), DEADLINE))
    assert read == sent
    assert len(list(Path("/proc/self/fd").iterdir())) == before
