"""The end of a visit to a page: whom it is told, on which stream, and by whom."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from dragoman import Context, Server, UrlElicitationRequired
from dragoman.server.request import call as calls
from dragoman.testing import WirePeer
from scenarios.http_crew import Client, Stream, crew
from scenarios.http_peer import NEWEST, OLDER, SECRET, HttpPeer, serve

COMPLETE = "notifications/elicitation/complete"
VISITING = {"elicitation": {"url": {}}}


def pages() -> SimpleNamespace:
    server = Server("pages", secret=SECRET)
    kept = SimpleNamespace(server=server, contexts=[])

    @server.tool
    async def connect(id: str, ctx: Context) -> str:
        kept.contexts.append(ctx)
        raise UrlElicitationRequired([{"message": "Sign in", "url": "https://example.com/in", "elicitationId": id}])

    @server.tool
    async def ask(id: str, ctx: Context) -> str:
        await ctx.elicit_url("Sign in", "https://example.com/in", id)
        await ctx.notify_elicitation_complete(id)
        return "asked"

    return kept


async def visitor(app, version=NEWEST):
    peer = HttpPeer(app, version, capabilities=VISITING)
    await peer.initialize()
    stream = peer.send("GET", headers={"content-type": None})
    await stream.until(lambda exchange: exchange.messages)
    return peer, stream


def told(stream):
    return [message["params"]["elicitationId"] for message in stream.said if message.get("method") == COMPLETE]


@pytest.mark.covers("ELI-04")
@pytest.mark.parametrize("json_response", [False, True])
@pytest.mark.parametrize("way", ["context", "server", "thread"])
async def test_after_the_response_it_is_told_on_the_stream_of_the_one_session_that_was_sent_there(json_response, way):
    site = pages()
    app = serve(site.server, json_response=json_response)
    (peer, stream), (other, others) = await visitor(app), await visitor(app)
    assert (await peer.call("connect", {"id": "v1"}).end()).json["error"]["code"] == -32042
    await other.call("connect", {"id": "v2"}).end()
    tell = site.server.notify_elicitation_complete
    if way == "context":
        await site.contexts[0].notify_elicitation_complete("v1")
    elif way == "server":
        tell("v1")
    else:
        await asyncio.to_thread(tell, "v1")
    assert await stream.until(told) == ["v1"]
    tell("v1")
    tell("unknown")
    tell("v2")
    assert await others.until(told) == ["v2"]
    assert told(stream) == ["v1"]
    for reading in (stream, others):
        reading.leave()
        await reading.end()


async def test_during_the_request_it_is_told_on_its_own_stream():
    site = pages()
    app = serve(site.server)
    peer, stream = await visitor(app)
    calling = peer.call("ask", {"id": "v1"})
    question = (await calling.until(lambda exchange: [one for one in exchange.said if "id" in one]))[0]
    await peer.respond(question["id"], {"action": "accept"})
    assert told(await calling.end()) == ["v1"]
    assert not told(stream)
    stream.leave()
    await stream.end()


async def test_a_version_that_does_not_know_it_is_told_nothing():
    site = pages()
    peer, stream = await visitor(serve(site.server), OLDER)
    await peer.call("connect", {"id": "v1"}).end()
    site.server.notify_elicitation_complete("v1")
    site.server.notify_tools_list_changed()
    assert await stream.until(lambda exchange: [one["method"] for one in exchange.said]) == [
        "notifications/tools/list_changed"
    ]
    stream.leave()
    await stream.end()


async def test_over_a_connection_the_server_tells_the_client_that_was_sent_there():
    site = pages()
    async with (
        WirePeer(site.server, NEWEST, capabilities=VISITING) as peer,
        WirePeer(site.server, NEWEST, capabilities=VISITING) as other,
    ):
        await peer.request("tools/call", {"name": "connect", "arguments": {"id": "v1"}})
        thread = threading.Thread(target=site.server.notify_elicitation_complete, args=["v1"])
        thread.start()
        await asyncio.to_thread(thread.join)
        await peer.request("ping")
        await other.request("ping")
        assert [one["params"] for one in peer.received if one.get("method") == COMPLETE] == [{"elicitationId": "v1"}]
        assert not [one for one in other.received if one.get("method") == COMPLETE]


async def test_the_oldest_visit_is_forgotten_when_a_client_was_sent_to_too_many_pages(monkeypatch):
    monkeypatch.setattr(calls, "MAX_ELICITATIONS", 2)
    site = pages()
    async with WirePeer(site.server, NEWEST, capabilities=VISITING) as peer:
        for id in ("v1", "v2", "v3"):
            await peer.request("tools/call", {"name": "connect", "arguments": {"id": id}})
        for id in ("v1", "v2", "v3"):
            site.server.notify_elicitation_complete(id)
        ends = [one["params"]["elicitationId"] for one in peer.received if one.get("method") == COMPLETE]
        assert ends == ["v2", "v3"]


WORKERS = """
    import os, sys
    from dragoman import Server, UrlElicitationRequired

    server = Server("pages", secret="a secret that is long enough for a key")

    @server.tool
    async def connect() -> str:
        raise UrlElicitationRequired([{"message": "In", "url": "https://example.com/in", "elicitationId": "v1"}])

    @server.tool
    async def signed_in() -> int:
        server.notify_elicitation_complete("v1")
        return os.getpid()

    server.run("http", port=int(sys.argv[1]), workers=int(sys.argv[2]))
"""


async def test_it_is_told_whichever_process_hears_of_it():
    async with crew(2, WORKERS) as processes:
        await processes.ready()
        async with Client.of(processes) as client, client.listen() as response:
            stream = Stream(response)
            for count in range(1, 4):
                assert await client.request("tools/call", {"name": "connect"}) == 200
                # Whoever hears of it first tells it; the other then knows of nothing.
                await client.text("signed_in")
                ends = await stream.until(
                    lambda messages, count=count: len(found := [one["method"] for one in messages]) >= count and found
                )
                assert ends == [COMPLETE] * count
