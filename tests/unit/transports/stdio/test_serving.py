import asyncio
import logging
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext

import pytest
import uvloop

from dragoman.transports.stdio import serving as stdio
from dragoman.transports.stdio.serving import Streams, run_stdio, serve_stdio
from dragoman.transports.stdio.writers import HIGH_WATER_BYTES
from unit.loops import in_each_loop

DEADLINE = 60


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request):
    async def within_deadline(coroutine):
        async with asyncio.timeout(DEADLINE):
            return await coroutine

    return lambda coroutine: request.param(within_deadline(coroutine))


class Client:
    """The client's ends of a pair of pipes, and the server's as streams."""

    def __init__(self):
        reading, self.writing = os.pipe()
        self.reading, writing = os.pipe()
        self.streams = Streams(reading, writing)
        self.open = {reading, writing, self.reading, self.writing}

    def close(self, *descriptors):
        for descriptor in descriptors or list(self.open):
            if descriptor in self.open:
                self.open.discard(descriptor)
                os.close(descriptor)

    def write(self, data):
        os.write(self.writing, data)

    async def read(self, size):
        read = b""
        while len(read) < size:
            read += await asyncio.to_thread(os.read, self.reading, size - len(read))
        return read


@contextmanager
def client():
    ends = Client()
    try:
        yield ends
    finally:
        ends.close()


class Echo:
    """A service with one connection, which sends back what it receives and remembers what happened."""

    def __init__(self):
        self.happened = []
        self.drained = asyncio.Event()
        self.drained.set()

    serving = staticmethod(nullcontext)

    def connect(self, sink):
        self.send = sink.send
        return self

    def receive(self, chunk):
        self.happened.append(chunk)
        self.send(chunk.strip())

    def receive_end(self):
        self.happened.append("end")

    async def drain(self):
        await self.drained.wait()
        self.happened.append("drained")

    def close(self):
        self.happened.append("closed")


@in_each_loop
async def test_a_connection_is_served_from_its_first_chunk_to_its_close():
    service = Echo()
    with client() as ends:
        serving = asyncio.create_task(serve_stdio(service, streams=ends.streams))
        ends.write(b"hello\n")
        assert await ends.read(6) == b"hello\n"
        ends.close(ends.writing)
        await serving
    assert service.happened == [b"hello\n", "end", "drained", "closed"]


@in_each_loop
async def test_the_streams_are_claimed_when_none_are_given(monkeypatch):
    with client() as ends:
        monkeypatch.setattr(stdio, "claim", lambda: ends.streams)
        ends.write(b"hello\n")
        ends.close(ends.writing)
        await serve_stdio(Echo())
        assert await ends.read(6) == b"hello\n"


@in_each_loop
async def test_what_is_not_drained_within_the_grace_is_left():
    service = Echo()
    service.drained.clear()
    with client() as ends:
        ends.close(ends.writing)
        await serve_stdio(service, streams=ends.streams, grace=0.01)
    assert service.happened == ["end", "closed"]


@in_each_loop
async def test_a_broken_output_ends_it_without_draining():
    service = Echo()
    with client() as ends:
        ends.close(ends.reading)
        ends.write(b"hello\n")
        await serve_stdio(service, streams=ends.streams, grace=DEADLINE)
    assert service.happened == [b"hello\n", "closed"]


@in_each_loop
async def test_an_output_that_breaks_while_draining_ends_it():
    service = Echo()
    service.drained.clear()
    with client() as ends:
        ends.write(b"hello\n")
        ends.close(ends.writing)
        serving = asyncio.create_task(serve_stdio(service, streams=ends.streams, grace=DEADLINE))
        assert await ends.read(6) == b"hello\n"
        ends.close(ends.reading)
        service.send(b"too late")
        await serving
    assert service.happened == [b"hello\n", "end", "closed"]


@in_each_loop
async def test_a_cancelled_service_closes_the_connection_and_writes_what_was_sent():
    service = Echo()
    with client() as ends:
        serving = asyncio.create_task(serve_stdio(service, streams=ends.streams))
        ends.write(b"hello\n")
        assert await ends.read(6) == b"hello\n"
        service.send(b"x" * 500_000)
        serving.cancel()
        assert await ends.read(500_001) == b"x" * 500_000 + b"\n"
        with pytest.raises(asyncio.CancelledError):
            await serving
    assert service.happened == [b"hello\n", "closed"]


@in_each_loop
async def test_nothing_is_read_while_much_is_unwritten():
    service = Echo()
    with client() as ends:
        serving = asyncio.create_task(serve_stdio(service, streams=ends.streams))
        await asyncio.sleep(0)
        service.send(b"x" * 2 * HIGH_WATER_BYTES)
        ends.write(b"hello\n")
        for _ in range(100):
            await asyncio.sleep(0)
        assert service.happened == []
        await ends.read(2 * HIGH_WATER_BYTES + 1)
        assert await ends.read(6) == b"hello\n"
        ends.close(ends.writing)
        await serving


class Defective(Echo):
    """A connection that fails wherever it can."""

    def receive(self, chunk):
        super().receive(chunk)
        raise ValueError("defect in receive")

    def receive_end(self):
        raise ValueError("defect in receive_end")

    async def drain(self):
        raise ValueError("defect in drain")

    def close(self):
        raise ValueError("defect in close")


def test_a_defect_of_the_connection_is_logged_and_loses_nothing_else(run, caplog):
    async def main():
        with client() as ends:
            serving = asyncio.create_task(serve_stdio(Defective(), streams=ends.streams))
            ends.write(b"one\n")
            assert await ends.read(4) == b"one\n"
            ends.write(b"two\n")
            assert await ends.read(4) == b"two\n"
            ends.close(ends.writing)
            await serving

    with caplog.at_level(logging.ERROR):
        run(main())
    defects = [str(record.exc_info[1]) for record in caplog.records]
    assert defects == [f"defect in {where}" for where in ("receive", "receive", "receive_end", "drain", "close")]
    assert {record.name for record in caplog.records} == {"dragoman.transports.stdio.serving"}


@in_each_loop
async def test_a_service_that_cannot_connect_raises_and_leaves_the_descriptors_as_they_were():
    class Refusing:
        serving = staticmethod(nullcontext)

        def connect(self, sink):
            raise ValueError("no connection")

    with client() as ends:
        with pytest.raises(ValueError, match="no connection"):
            await serve_stdio(Refusing(), streams=ends.streams)
        assert os.get_blocking(ends.streams.output)
        await asyncio.sleep(0)


def test_it_runs_without_a_loop():
    service = Echo()
    with client() as ends:
        ends.write(b"hello\n")
        ends.close(ends.writing)
        run_stdio(service, streams=ends.streams)
        assert os.read(ends.reading, 100) == b"hello\n"
    assert service.happened == [b"hello\n", "end", "drained", "closed"]


def test_a_signal_makes_it_return():
    class Signalled(Echo):
        def receive(self, chunk):
            super().receive(chunk)
            signal.raise_signal(signal.SIGTERM)

    service = Signalled()
    with client() as ends:
        ends.write(b"hello\n")
        run_stdio(service, streams=ends.streams)
        assert os.read(ends.reading, 100) == b"hello\n"
    assert service.happened == [b"hello\n", "closed"]


def test_it_claims_when_no_streams_are_given(monkeypatch):
    with client() as ends:
        monkeypatch.setattr(stdio, "claim", lambda: ends.streams)
        ends.close(ends.writing)
        service = Echo()
        run_stdio(service)
    assert service.happened == ["end", "drained", "closed"]


def test_nothing_is_claimed_where_a_loop_runs_already(monkeypatch):
    monkeypatch.setattr(stdio, "claim", lambda: pytest.fail("claimed"))

    async def main():
        run_stdio(Echo())

    with pytest.raises(RuntimeError, match="await"):
        asyncio.run(main())


def test_serving_loads_asyncio_and_nothing_heavier():
    def loaded(statement):
        code = f"{statement}\nimport sys\nprint(' '.join(sys.modules))"
        command = [sys.executable, "-c", code]
        return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())

    ours = loaded("import dragoman.transports.stdio.serving") - loaded("import asyncio, msgspec")
    assert not ours & {"aiohttp", "uvicorn", "uvloop", "concurrent.futures.thread", "concurrent.futures.process"}
    beyond_dragoman = {name for name in ours if not name.startswith("dragoman")}
    assert beyond_dragoman <= {"queue", "_queue"}
