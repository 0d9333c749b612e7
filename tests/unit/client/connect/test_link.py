"""The ways to a server as a connection sees them: over both contracts of transports."""

import asyncio

import pytest

from dragoman.client.connect.link import DuplexLink, OneMethodLink, Outgoing
from dragoman.errors import ConnectError, RpcError, ServerCrashed, TransportError
from scenarios.client_peer import scenario

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


class Transport:
    def __init__(self, error=None):
        self.error = error
        self.sent = []
        self.closed = 0

    async def open(self, receive, closed):
        if self.error:
            raise self.error

    async def send(self, message):
        if self.error:
            raise self.error
        self.sent.append(message)

    async def close(self):
        self.closed += 1


@pytest.mark.covers("LTR-05")
@pytest.mark.parametrize("error", [OSError("x"), RuntimeError(), TimeoutError()])
@scenario
async def test_errors_of_a_transport_become_ours(error):
    link = DuplexLink(Transport(error))
    with pytest.raises(ConnectError, match="cannot be opened") as caught:
        await link.open(print, print)
    assert caught.value.__cause__ is error
    with pytest.raises(TransportError, match="failed to send") as caught:
        await link.send(Outgoing(PING))
    assert not isinstance(caught.value, ConnectError)
    assert caught.value.__cause__ is error


@pytest.mark.covers("LTR-05")
@pytest.mark.parametrize("error", [ServerCrashed("x", 1), ConnectError("x"), RpcError(1, "x")])
@scenario
async def test_errors_that_are_ours_stay_what_they_are(error):
    link = DuplexLink(Transport(error))
    for attempt in (link.open(print, print), link.send(Outgoing(PING))):
        with pytest.raises(type(error)) as caught:
            await attempt
        assert caught.value is error

    class OneMethod:
        async def connect(self):
            raise error

    with pytest.raises(type(error)):
        await OneMethodLink(OneMethod()).open(print, print)


@pytest.mark.covers("CTR-01")
@scenario
async def test_an_answer_after_the_end_is_dropped():
    received, going, go = [], asyncio.Event(), asyncio.Event()

    class OneMethod:
        async def send_request(self, request):
            going.set()
            await go.wait()
            return {"result": {}}

    link = OneMethodLink(OneMethod())
    await link.open(received.append, print)
    sending = asyncio.create_task(link.send(Outgoing(PING, "ping", 1)))
    await asyncio.wait_for(going.wait(), 10)
    await link.close()
    go.set()
    await asyncio.wait_for(sending, 10)
    assert received == []
