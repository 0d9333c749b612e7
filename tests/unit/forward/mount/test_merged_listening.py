"""Subscriptions of stateless clients to a server and its mounts."""

import asyncio

import pytest

from dragoman.forward.mount import merged_listening
from dragoman.testing import WirePeer
from scenarios.forwarding_server import forwarding
from scenarios.mounted_servers import shop

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"


async def test_a_server_that_forwards_listens_for_as_long_as_the_client_and_its_changes_are_passed_on():
    outer, changed, ended = shop(), asyncio.Event(), asyncio.Event()

    async def listen(_server, call):
        wanted = call.request.params.notifications
        assert wanted.resource_subscriptions == ["data://a", "data://b"]
        call.channel.notify(ACKNOWLEDGED, {"notifications": {"resourceSubscriptions": ["data://a"]}})
        call.channel.notify(ACKNOWLEDGED, {"notifications": {}})
        call.channel.notify(UPDATED, {"uri": "data://a"})
        await changed.wait()
        call.channel.notify(UPDATED, {"uri": "data://a/b"})
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    outer.mount(forwarding("far", lambda method, params: {}, **{"subscriptions/listen": listen}), prefix="far")
    async with WirePeer(outer, "stateless") as peer:
        wanted = {"resourceSubscriptions": ["data://far/a", "data://far/b"], "toolsListChanged": True}
        id = peer.start("subscriptions/listen", {"notifications": wanted})
        heard = [await peer.receive() for _ in range(2)]
        assert [message["method"] for message in heard] == [ACKNOWLEDGED, UPDATED]
        honoured = heard[0]["params"]["notifications"]
        assert honoured == {"resourceSubscriptions": ["data://far/a"], "toolsListChanged": True}
        assert heard[1]["params"]["uri"] == "data://far/a"
        changed.set()
        later = await peer.receive()
        assert (later["method"], later["params"]["uri"]) == (UPDATED, "data://far/a/b")
        peer.notify("notifications/cancelled", {"requestId": id})
        await asyncio.wait_for(ended.wait(), 20)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_server_that_does_not_answer_in_time_or_fails_honours_nothing(monkeypatch, fails):
    monkeypatch.setattr(merged_listening, "ANSWER_SECONDS", 0.01)
    outer = shop()

    async def listen(_server, call):
        if fails:
            raise RuntimeError("broken")
        await asyncio.get_running_loop().create_future()

    outer.mount(forwarding("far", lambda method, params: {}, **{"subscriptions/listen": listen}), prefix="far")
    async with WirePeer(outer, "stateless") as peer:
        wanted = {"resourceSubscriptions": ["data://far/a", "data://prices"]}
        peer.start("subscriptions/listen", {"notifications": wanted})
        acknowledged = (await peer.receive())["params"]["notifications"]
        assert acknowledged == {"resourceSubscriptions": ["data://prices"]}
