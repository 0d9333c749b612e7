"""A client over HTTP whose server fails: it restarts, breaks off, or never answers."""

import asyncio
import json

import aiohttp
import pytest

from dragoman import AsyncClient
from dragoman.errors import ConnectError, Timeout, TransportError
from dragoman.transports.web import http
from scenarios.http_peer import DEADLINE
from scenarios.raw_http import (
    Sent,
    answering,
    called,
    chunk,
    classic,
    event,
    modern,
    reply,
    result,
    stream,
    stream_head,
)


async def fine(request: Sent, writer: asyncio.StreamWriter) -> bytes:
    return reply(200, result(request, called("fine")))


@pytest.mark.covers("CHT-18")
@pytest.mark.parametrize("kind", ["json", "sse"])
async def test_a_call_that_was_cut_anywhere_fails_once_and_the_next_one_succeeds(kind):
    cuts = iter(range(0, 400, 23))
    failing = [True]

    async def script(request, writer):
        answer = result(request, called("fine"))
        whole = reply(200, answer) if kind == "json" else stream(event(answer))
        if not failing:
            return whole
        writer.write(whole[: min(next(cuts), whole.index(b'"resultType"'))])
        return writer.close()

    async with answering(modern(script)) as server, AsyncClient(server.url, mode="stateless") as client:
        for number in range(1, 16):
            failing[:] = [True]
            with pytest.raises(TransportError, match="may have been served, and was not repeated"):
                await client.call_tool("any")
            failing.clear()
            assert (await client.call_tool("any")).text == "fine"
            assert len(server.sent("tools/call")) == 2 * number


@pytest.mark.covers("CHT-30")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_a_call_that_is_never_answered_times_out_and_the_client_lives_on(mode):
    async def script(request, writer):
        if request.json["params"]["name"] == "quick":
            return await fine(request, writer)
        return stream_head() + chunk(b": waiting\n\n")

    async with answering((modern if mode == "stateless" else classic)(script)) as server:
        async with AsyncClient(server.url, mode=mode) as client:
            with pytest.raises(Timeout):
                await client.call_tool("slow", timeout=0.1)
            assert (await client.call_tool("quick")).text == "fine"
            if mode == "handshake":
                await server.until(lambda sent: any(one.method == "notifications/cancelled" for one in sent))
        cancelled = server.sent("notifications/cancelled")
    assert len(cancelled) == (mode == "handshake")


@pytest.mark.covers("CHT-09")
@pytest.mark.parametrize("kind", ["json", "sse"])
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_an_answer_over_the_limit_is_an_error_and_the_client_lives_on(kind, mode):
    async def script(request, writer):
        size = int(request.json["params"]["name"])
        answer = result(request, called("x" * size))
        return reply(200, answer) if kind == "json" else stream(event(answer))

    served = (modern if mode == "stateless" else classic)(script)
    async with answering(served) as server, AsyncClient(server.url, mode=mode, max_message_bytes=100_000) as client:
        with pytest.raises(TransportError, match="more than 100000 bytes"):
            await client.call_tool("100001")
        assert len((await client.call_tool("90000")).text) == 90_000


@pytest.mark.covers("LTR-12")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_closing_fails_the_calls_that_wait_and_does_not_hang(mode):
    async def script(request, writer):
        await asyncio.Event().wait()

    async with answering((modern if mode == "stateless" else classic)(script)) as server:
        client = AsyncClient(server.url, mode=mode, timeout=600)
        await client.start()
        calls = [asyncio.create_task(client.call_tool("any")) for _ in range(3)]
        await server.until(lambda sent: len([one for one in sent if one.method == "tools/call"]) == 3)
        await asyncio.wait_for(client.stop(), DEADLINE)
        outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), DEADLINE)
    assert all(isinstance(one, TransportError) for one in outcomes)


@pytest.mark.covers("CHT-17")
async def test_a_client_that_never_connected_leaves_nothing_open(monkeypatch):
    sessions: list[aiohttp.ClientSession] = []

    def remembered(*middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
        sessions.append(make(*middlewares))
        return sessions[-1]

    make = http.new_session
    monkeypatch.setattr(http, "new_session", remembered)
    client = AsyncClient("http://127.0.0.1:1/mcp")
    with pytest.raises(ConnectError):
        await client.start()
    await client.stop()
    assert sessions
    assert all(one.closed for one in sessions)


@pytest.mark.covers("CHT-08", "LTR-16")
async def test_a_hundred_calls_at_once_each_get_their_own_answer():
    async def script(request, writer):
        answer = result(request, called(request.json["params"]["name"]))
        return stream(event(answer)) if int(answer["id"]) % 2 else reply(200, answer)

    async with answering(modern(script)) as server, AsyncClient(server.url, mode="stateless") as client:
        results = await asyncio.gather(*(client.call_tool(str(number)) for number in range(100)))
        assert [one.text for one in results] == [str(number) for number in range(100)]
        assert json.loads(server.requests[-1].body)["method"] == "tools/call"
