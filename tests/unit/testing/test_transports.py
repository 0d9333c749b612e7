"""The check of transports passes for ours, and finds what is wrong with others."""

import asyncio
import os
import signal
import sys

import pytest

from dragoman import Server
from dragoman.errors import ConnectError, TransportError
from dragoman.testing import check_transport
from dragoman.transports.memory import MemoryTransport
from dragoman.transports.process.process import ProcessTransport
from scenarios.client_peer import scenario

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"
SERVER = "from dragoman import Server; Server('x').run()"


class Echo:
    """A transport that keeps the contract, and sends everything back."""

    def __init__(self):
        self.receive = None

    async def open(self, receive, closed):
        self.receive, self.closed = receive, closed

    async def send(self, message):
        if self.receive is None:
            raise ConnectError("closed")
        asyncio.get_running_loop().call_soon(self.deliver, message)

    def deliver(self, message):
        if self.receive is not None:
            self.receive(message)

    async def close(self):
        self.receive = None

    async def break_off(self):
        self.receive = None
        self.closed(TransportError("gone"))


async def kill(process):
    os.kill(process.pid, signal.SIGKILL)


@pytest.mark.covers("CTR-05")
@scenario
async def test_our_transports_pass():
    server = Server("x")
    await check_transport(lambda: MemoryTransport(server.connect))
    await check_transport(Echo, break_off=Echo.break_off)


@pytest.mark.covers("CTR-05")
@pytest.mark.parametrize("code", [ECHO, SERVER], ids=["echo", "server"])
@scenario
async def test_a_process_passes(code):
    await check_transport(lambda: ProcessTransport([sys.executable, "-c", code]), break_off=kill)


class Forgetful(Echo):
    complaint = "not lose the message"

    async def send(self, message):
        if self.receive is not None:
            await super().send(message)


class Doubling(Echo):
    complaint = "once"

    def deliver(self, message):
        super().deliver(message)
        super().deliver(message)


class Chatty(Echo):
    complaint = "without a newline"

    def deliver(self, message):
        super().deliver(message + b"\n")


class Cutting(Echo):
    complaint = "whole"

    def deliver(self, message):
        super().deliver(message[:50_000])


class Shuffling(Echo):
    complaint = "in the order of sending"

    async def send(self, message):
        await super().send(message)
        if b'"id":7,' in message:
            asyncio.get_running_loop().call_later(0.05, self.deliver, message)

    def deliver(self, message):
        if b'"id":7,' in message and not hasattr(self, "late"):
            self.late = True
        else:
            super().deliver(message)


class Announcing(Echo):
    complaint = "must not be called"

    async def close(self):
        self.closed(None)
        await super().close()


class OnceOnly(Echo):
    complaint = "closed already"

    async def close(self):
        if self.receive is None:
            raise RuntimeError("it is closed already")
        await super().close()


class Hanging(Echo):
    complaint = "did not come to an end"

    async def close(self):
        await asyncio.Event().wait()


class Leaking(Echo):
    complaint = "tasks behind"

    async def open(self, receive, closed):
        await super().open(receive, closed)
        self.task = asyncio.create_task(asyncio.sleep(0.5))


class Raw(Echo):
    complaint = "must raise a TransportError"

    async def send(self, message):
        if self.receive is None:
            raise BrokenPipeError
        await super().send(message)


class Insisting(Echo):
    complaint = "called once, not 2"

    async def break_off(self):
        await super().break_off()
        self.closed(None)


class Silent(Echo):
    complaint = "must be called when the other side ends"

    async def break_off(self):
        self.receive = None


@pytest.mark.covers("CTR-05")
@pytest.mark.parametrize("kind", Echo.__subclasses__())
def test_a_transport_that_breaks_the_contract_is_found_out(kind):
    async def check():
        await check_transport(kind, break_off=kind.break_off, timeout=0.5)

    with pytest.raises((AssertionError, RuntimeError), match=kind.complaint):
        asyncio.run(check())
