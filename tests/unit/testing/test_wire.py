import asyncio

import pytest

from dragoman import Server
from dragoman.testing import WirePeer


@pytest.mark.parametrize("era", ["handshake", "2024-11-05", "2025-03-26"])
async def test_a_peer_of_the_handshake_era_introduces_itself(era):
    async with WirePeer(Server(), era, capabilities={"roots": {}}) as peer:
        assert peer.initialized["result"]["protocolVersion"] == peer.version.name


async def test_a_stateless_peer_stamps_every_request():
    async with WirePeer(Server(), "stateless", capabilities={"roots": {}}) as peer:
        response = await peer.request("tools/list", {"_meta": {"progressToken": 1}})
        assert response["result"]["resultType"] == "complete"


async def test_an_unknown_era_is_refused():
    with pytest.raises(ValueError, match="yesterday"):
        WirePeer(Server(), "yesterday")


async def test_message_without_a_pending_request_is_received():
    async with WirePeer(Server(), "none") as peer:
        peer.send(b"{")
        assert (await peer.receive())["error"]["code"] == -32700
        peer.answer(1, {})
        peer.answer(2, error={"code": 1, "message": "x"})
        assert peer.received == []


async def test_the_answers_of_a_batch_are_taken_one_by_one():
    async with WirePeer(Server(), "2025-03-26") as peer:
        peer.send([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("a", "b")])
        assert [(await peer.receive())["id"] for _ in range(2)] == ["a", "b"]


async def test_a_wait_has_a_deadline():
    async with WirePeer(Server(), "none", timeout=0.01) as peer:
        with pytest.raises(TimeoutError):
            await peer.receive("notifications/message")


async def test_leaving_ends_what_is_in_flight():
    server = Server()

    @server.tool
    async def forever() -> str:
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    async with WirePeer(server) as peer:
        peer.start("tools/call", {"name": "forever"})
    assert asyncio.all_tasks() == before
