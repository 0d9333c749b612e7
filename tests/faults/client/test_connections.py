"""The client's own HTTP connections when servers cut, reset, stall or answer late, and when requests are given up."""

import asyncio
import socket
import struct

import aiohttp
import pytest
from yarl import URL

from dragoman.errors import TransportError
from dragoman.transports.web.connections import ConnectionPool
from dragoman.transports.web.http import HttpClient
from scenarios.http_peer import DEADLINE, scenario
from scenarios.raw_http import answering, chunk, reply, stream, stream_head
from unit.transports.web.test_connections import body_of, fetch, pooled

CALLS = 200


async def echo(pool: ConnectionPool, text: str) -> str:
    response = await pool.request("POST", pool._url, {}, text.encode())
    return (await body_of(response)).decode()


async def echoing(request, writer):
    """Send the body back, in one of several framings."""
    number = int(request.body)
    match number % 3:
        case 0:
            return reply(200, request.body)
        case 1:
            return stream(request.body[:1], request.body[1:])
        case _:
            for byte in reply(200, request.body):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            return None


@pytest.mark.covers("CHT-18")
@pytest.mark.parametrize("whole", [reply(200, {"id": 1}), stream(b"data: 1\n\n", b"data: 2\n\n")])
@scenario
async def test_a_response_that_is_cut_at_any_byte_is_an_error_and_the_request_is_sent_once(whole):
    cut = 0

    async def script(request, writer):
        if request.path == "/fine":
            return reply(200, b"fine")
        writer.write(whole[:cut])
        return writer.close()

    async with answering(script) as server, pooled(server.url) as pool:
        for cut in range(len(whole)):  # noqa: B007
            with pytest.raises(aiohttp.ClientError):
                await fetch(pool)
            response = await pool.request("POST", pool._url.with_path("/fine"), {}, b"{}")
            assert await body_of(response) == b"fine"
        assert len(server.requests) == 2 * len(whole)


@pytest.mark.covers("CHT-18")
@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200", stream_head(), stream_head() + chunk(b"data: 1\n\n")])
@scenario
async def test_a_connection_that_is_reset_is_an_error_and_a_post_is_sent_once(said):
    async def script(request, writer):
        writer.write(said)
        await asyncio.sleep(0)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with answering(script) as server, pooled(server.url) as pool:
        with pytest.raises(aiohttp.ClientError):
            await fetch(pool)
        assert len(server.requests) == 1
        assert not pool._connections


@pytest.mark.covers("CHT-18")
@pytest.mark.parametrize(("method", "times"), [("POST", 1), ("GET", 2), ("DELETE", 2)])
@scenario
async def test_a_request_that_meets_the_end_of_a_connection_is_repeated_once_if_it_does_no_harm(method, times):
    async def script(request, writer):
        if len(server.requests) == 1:
            return reply(200, b"first")
        return writer.close()

    async with answering(script) as server, pooled(server.url) as pool:
        assert await fetch(pool) == b"first"
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await fetch(pool, method)
        assert len(server.requests) == 1 + times


@pytest.mark.covers("CHT-18")
@scenario
async def test_a_connection_that_the_server_closed_while_idle_is_replaced_before_anything_is_sent():
    async def script(request, writer):
        writer.write(reply(200, b"fine"))
        await writer.drain()
        writer.close()

    async with answering(script) as server, pooled(server.url) as pool:
        for number in range(1, 6):
            assert await fetch(pool) == b"fine"
            async with asyncio.timeout(DEADLINE):
                while pool._connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            assert len(server.requests) == number


@pytest.mark.covers("CHT-08")
@scenario
async def test_many_requests_at_once_each_get_their_own_response():
    async with answering(echoing) as server, pooled(server.url) as pool:
        for _ in range(2):
            texts = [str(number) for number in range(CALLS)]
            assert await asyncio.gather(*(echo(pool, text) for text in texts)) == texts
        assert len(server.requests) == 2 * CALLS
        assert len(pool._idle) == len(pool._connections) <= CALLS


@pytest.mark.covers("CHT-30")
@scenario
async def test_a_request_that_is_given_up_at_any_moment_leaves_its_response_to_nobody():
    async with answering(echoing) as server, pooled(server.url) as pool:
        for turns in range(CALLS):
            given_up = asyncio.create_task(echo(pool, str(turns)))
            for _ in range(turns % 67):
                await asyncio.sleep(0)
            given_up.cancel()
            text = str(turns + CALLS)
            assert await echo(pool, text) == text
            await asyncio.wait([given_up])
            assert given_up.cancelled() or given_up.result() == str(turns)
        assert len(pool._connections) == len(pool._idle)
        assert len(server.requests) <= 2 * CALLS


@pytest.mark.covers("CHT-30")
@scenario
async def test_a_request_that_is_given_up_while_it_connects_leaves_no_connection():
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        async with pooled(f"http://127.0.0.1:{listener.getsockname()[1]}/") as pool:
            for turns in range(20):
                waiting = asyncio.create_task(fetch(pool))
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
            assert not pool._connections


@pytest.mark.covers("CHT-18")
@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 2", "closed the connection without an answer"),
        (b"SSH-2.0-x\r\n", "broke: The response is malformed"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{", "is not completed"),
    ],
)
@scenario
async def test_a_broken_response_is_an_error_without_the_secrets_of_the_address(said, problem):
    async def script(request, writer):
        writer.write(said)
        writer.close()

    async with answering(script) as server:
        client = HttpClient(str(URL(server.url).with_user("user").with_password("secret").with_query("key=secret")))
        await client.open()
        with pytest.raises(TransportError, match=problem) as caught:
            await client.post(b"{}", {}, pytest.fail, answered=lambda: False)
        await client.close()
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.__cause__)
