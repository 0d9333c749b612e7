"""A server in this process as a transport."""

import asyncio

import pytest

from dragoman import Server
from dragoman.errors import ConnectError
from dragoman.transports.memory import MemoryTransport
from scenarios.client_peer import scenario

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.covers("CTR-04")
@scenario
async def test_messages_go_over_and_come_back():
    received = asyncio.Queue()
    transport = MemoryTransport(Server("x").connect)
    await transport.open(received.put_nowait, print)
    await transport.send(PING)
    assert b'"id":1' in await asyncio.wait_for(received.get(), 10)
    await transport.close()


@pytest.mark.covers("CTR-04")
@scenario
async def test_nothing_is_received_after_the_end_and_nothing_is_lost_in_silence():
    received = []
    transport = MemoryTransport(Server("x").connect)
    with pytest.raises(ConnectError):
        await transport.send(PING)
    await transport.open(received.append, print)
    with pytest.raises(ConnectError, match="open already"):
        await transport.open(received.append, print)
    await transport.close()
    await transport.close()
    with pytest.raises(ConnectError):
        await transport.send(PING)
    assert received == []


@scenario
async def test_whoever_sends_without_end_lets_others_have_their_turn():
    transport = MemoryTransport(Server("x").connect)
    await transport.open(lambda _: None, print)

    async def send_on():
        while True:
            await transport.send(PING)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(send_on(), 0.01)
    await transport.close()
