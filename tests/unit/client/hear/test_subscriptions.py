"""The one open request of a stateless client, over a connection that is scripted."""

import asyncio

import pytest

from dragoman import types
from dragoman.client.hear import subscriptions as module
from dragoman.client.hear.subscriptions import ListenStream
from dragoman.errors import AuthRequired, HttpError, RpcError, Timeout, TransportError
from dragoman.protocol.versions import LATEST_HANDSHAKE, LATEST_STATELESS
from scenarios.client_peer import scenario, until


class Connection:
    """A connection whose requests wait until they are given an end."""

    def __init__(self, version=LATEST_STATELESS):
        self.version = version
        self.is_alive = True
        self.requests = []

    async def request(self, method, params, options):
        end = asyncio.get_running_loop().create_future()
        self.requests.append((method, params["notifications"], end))
        options.on_id(len(self.requests))
        return await end

    def end(self, error=None):
        end = self.requests[-1][2]
        end.set_result(None) if error is None else end.set_exception(error)


@pytest.fixture(autouse=True)
def brisk(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0)
    monkeypatch.setattr(module, "MAX_PAUSE", 0)


def acknowledgement(id, **fields):
    return {"_meta": {} if id is None else {types.SUBSCRIPTION_ID: id}, "notifications": fields}


@pytest.mark.covers("CLS-01")
@scenario
async def test_a_wish_is_one_request_until_it_changes():
    connection, stream = Connection(), ListenStream()
    stream.update(connection, tools_list_changed=True)
    stream.update(connection, tools_list_changed=True)
    await until(lambda: len(connection.requests) == 1)
    stream.update(connection, prompts_list_changed=True)
    await until(lambda: len(connection.requests) == 2)
    assert connection.requests[0][2].cancelled()
    assert connection.requests[1][1] == {"toolsListChanged": True, "promptsListChanged": True}
    stream.update(connection, tools_list_changed=None, prompts_list_changed=None)
    await until(lambda: connection.requests[1][2].cancelled())
    assert len(connection.requests) == 2
    await stream.close()


@pytest.mark.covers("CLS-05")
@scenario
async def test_a_server_of_the_handshake_era_is_not_asked():
    connection, stream = Connection(LATEST_HANDSHAKE), ListenStream()
    stream.update(connection, tools_list_changed=True)
    await asyncio.sleep(0)
    assert connection.requests == []
    await stream.close()


@pytest.mark.covers("CLS-03")
@pytest.mark.parametrize("error", [None, TransportError("broke"), HttpError("busy", 503), Timeout("slow")])
@scenario
async def test_what_ends_is_begun_again_and_the_gap_is_told(error):
    connection, gaps = Connection(), []
    stream = ListenStream(on_gap=lambda: gaps.append(stream.acknowledged))
    stream.update(connection, tools_list_changed=True)
    await until(lambda: connection.requests)
    stream.acknowledge(acknowledgement(1, toolsListChanged=True))
    assert stream.acknowledged.tools_list_changed
    connection.end(error)
    await until(lambda: len(connection.requests) == 2)
    assert gaps == [types.SubscriptionFilter()]
    connection.is_alive = False
    connection.end(TransportError("gone"))
    await until(lambda: stream._task.done())
    assert len(connection.requests) == 2
    await stream.close()


@pytest.mark.covers("CLS-04")
@pytest.mark.parametrize("error", [RpcError(-32601, "no"), AuthRequired("who?"), HttpError("no", 404)])
@scenario
async def test_a_refusal_reaches_who_waits_and_is_not_challenged(error):
    connection, stream = Connection(), ListenStream()
    stream.update(connection, resource_subscriptions=["a"])
    await until(lambda: connection.requests)
    connection.end(error)
    with pytest.raises(type(error)):
        await stream.wait_acknowledged(10)
    stream.update(connection, resource_subscriptions=["a"])
    assert len(connection.requests) == 1
    stream.update(connection, resource_subscriptions=["a", "b"])
    await until(lambda: len(connection.requests) == 2)
    stream.acknowledge(acknowledgement(2))
    await stream.wait_acknowledged(10)
    await stream.close()


@pytest.mark.covers("CLS-04")
@scenario
async def test_only_the_present_request_can_be_acknowledged():
    connection, stream = Connection(), ListenStream()
    stream.update(connection, tools_list_changed=True)
    await until(lambda: connection.requests)
    stream.acknowledge(acknowledgement(99, promptsListChanged=True))
    assert stream.acknowledged == types.SubscriptionFilter()
    with pytest.raises(Timeout, match="acknowledge") as caught:
        await stream.wait_acknowledged(0.01)
    assert caught.value.request_id == 1
    stream.acknowledge(acknowledgement(None, toolsListChanged=True))
    assert stream.acknowledged.tools_list_changed
    await stream.close()
    await stream.close()
    assert stream.acknowledged == types.SubscriptionFilter()
