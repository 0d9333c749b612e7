"""The one open request of a stateless client, over a connection that is scripted."""

import asyncio

import pytest

from dragoman import types
from dragoman.client.hear import subscriptions as module
from dragoman.client.hear.subscriptions import Listening
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
    async def pause(attempt, longest):
        await asyncio.sleep(0)

    monkeypatch.setattr(module, "pause", pause)


@pytest.mark.covers("CLS-01")
@scenario
async def test_a_wish_is_one_request_until_it_changes():
    connection, listening = Connection(), Listening()
    listening.want(connection, tools_list_changed=True)
    listening.want(connection, tools_list_changed=True)
    await until(lambda: len(connection.requests) == 1)
    listening.want(connection, prompts_list_changed=True)
    await until(lambda: len(connection.requests) == 2)
    assert connection.requests[0][2].cancelled()
    assert connection.requests[1][1] == {"toolsListChanged": True, "promptsListChanged": True}
    listening.want(connection, tools_list_changed=None, prompts_list_changed=None)
    await until(lambda: connection.requests[1][2].cancelled())
    assert len(connection.requests) == 2
    await listening.close()


@pytest.mark.covers("CLS-05")
@scenario
async def test_a_server_of_the_handshake_era_is_not_asked():
    connection, listening = Connection(LATEST_HANDSHAKE), Listening()
    listening.want(connection, tools_list_changed=True)
    await asyncio.sleep(0)
    assert connection.requests == []
    await listening.close()


@pytest.mark.covers("CLS-03")
@pytest.mark.parametrize("error", [None, TransportError("broke"), HttpError("busy", 503), Timeout("slow")])
@scenario
async def test_what_ends_is_begun_again_and_the_gap_is_told(error):
    connection, listening, gaps = Connection(), Listening(), []
    listening.on_gap = lambda: gaps.append(listening.heard)
    listening.want(connection, tools_list_changed=True)
    await until(lambda: connection.requests)
    listening.acknowledge(1, types.SubscriptionFilter(tools_list_changed=True))
    assert listening.heard.tools_list_changed
    connection.end(error)
    await until(lambda: len(connection.requests) == 2)
    assert gaps == [types.SubscriptionFilter()]
    connection.is_alive = False
    connection.end(TransportError("gone"))
    await until(lambda: listening._task.done())
    assert len(connection.requests) == 2
    await listening.close()


@pytest.mark.covers("CLS-04")
@pytest.mark.parametrize("error", [RpcError(-32601, "no"), AuthRequired("who?"), HttpError("no", 404)])
@scenario
async def test_a_refusal_reaches_who_waits_and_is_not_challenged(error):
    connection, listening = Connection(), Listening()
    listening.want(connection, resource_subscriptions=["a"])
    await until(lambda: connection.requests)
    connection.end(error)
    with pytest.raises(type(error)):
        await listening.acknowledged(10)
    listening.want(connection, resource_subscriptions=["a"])
    assert len(connection.requests) == 1
    listening.want(connection, resource_subscriptions=["a", "b"])
    await until(lambda: len(connection.requests) == 2)
    listening.acknowledge(2, types.SubscriptionFilter())
    await listening.acknowledged(10)
    await listening.close()


@pytest.mark.covers("CLS-04")
@scenario
async def test_only_the_present_request_can_be_acknowledged():
    connection, listening = Connection(), Listening()
    listening.want(connection, tools_list_changed=True)
    await until(lambda: connection.requests)
    listening.acknowledge(99, types.SubscriptionFilter(prompts_list_changed=True))
    assert listening.heard == types.SubscriptionFilter()
    with pytest.raises(Timeout, match="acknowledge") as caught:
        await listening.acknowledged(0.01)
    assert caught.value.request_id == 1
    listening.acknowledge(None, types.SubscriptionFilter(tools_list_changed=True))
    assert listening.heard.tools_list_changed
    await listening.close()
    await listening.close()
    assert listening.heard == types.SubscriptionFilter()
