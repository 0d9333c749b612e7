import asyncio
import contextlib
import gc
import sys
import warnings
from collections.abc import AsyncIterator

import aiohttp
import pytest
from yarl import URL

from dragoman.transports.web import connections
from dragoman.transports.web.connections import MAX_FIELDS, MAX_HEAD_BYTES, ConnectionPool, encode_request
from dragoman.transports.web.http import new_session
from dragoman.transports.web.response import HIGH_BYTES, READ_BYTES, PooledResponse
from scenarios.http_peer import DEADLINE, scenario
from scenarios.http_posts import always
from scenarios.raw_http import END, answering, chunk, reply, stream_head


@contextlib.asynccontextmanager
async def pooled(url: str, keep_alive: float = 600) -> AsyncIterator[ConnectionPool]:
    session = new_session()
    pool = ConnectionPool(session.connector, URL(url), ssl=True, connect_timeout=DEADLINE, keep_alive=keep_alive)
    try:
        async with asyncio.timeout(DEADLINE):
            yield pool
    finally:
        pool.close()
        await session.close()


async def fetch(pool: ConnectionPool, method: str = "POST", **options) -> bytes:
    response = await pool.request(method, pool._url, {}, b"{}" if method == "POST" else None, **options)
    return await body_of(response)


async def body_of(response: PooledResponse) -> bytes:
    return b"".join([piece async for piece in response.iter_any()])


async def until(condition) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@scenario
async def test_requests_one_after_another_share_a_connection():
    async with answering(always(reply(200, b"fine"))) as server, pooled(server.url) as pool:
        assert [await fetch(pool) for _ in range(5)] == [b"fine"] * 5
        assert server.connections == 1


@scenario
async def test_a_connection_is_free_again_when_its_response_has_arrived_though_nobody_read_it():
    async with answering(always(reply(200, b"fine"))) as server, pooled(server.url) as pool:
        responses = [await pool.request("POST", pool._url, {}, b"{}") for _ in range(3)]
        assert server.connections == 1
        assert [await body_of(one) for one in responses] == [b"fine"] * 3


@pytest.mark.parametrize(
    "said",
    [
        reply(200, b"fine", connection="close"),
        reply(200, b"fine").replace(b"HTTP/1.1", b"HTTP/1.0"),
        reply(200, b"fine") + b"H",
        reply(200, b"fine") + reply(200, b"more"),
    ],
)
@scenario
async def test_a_connection_that_is_to_close_or_has_bytes_left_is_not_used_again(said):
    async with answering(always(said)) as server, pooled(server.url) as pool:
        assert [await fetch(pool) for _ in range(3)] == [b"fine"] * 3
        assert server.connections == 3


@scenario
async def test_the_last_request_closes_its_connection():
    async with answering(always(reply(200, b"fine"))) as server, pooled(server.url) as pool:
        await fetch(pool, is_last=True)
        await fetch(pool)
        assert server.connections == 2


@scenario
async def test_bytes_that_nobody_asked_for_close_an_idle_connection():
    async def script(request, writer):
        writer.write(reply(200, b"fine"))
        await until(lambda: pool._idle)
        writer.write(reply(200, b"forged"))

    async with answering(script) as server, pooled(server.url) as pool:
        assert await fetch(pool) == b"fine"
        await until(lambda: not pool._connections)
        assert await fetch(pool) == b"fine"
        assert server.connections == 2


@scenario
async def test_an_idle_connection_is_closed_in_time_and_not_used_any_more():
    async with answering(always(reply(200, b"fine"))) as server:
        async with pooled(server.url, keep_alive=0.01) as pool:
            await fetch(pool)
            await until(lambda: not pool._connections)
            assert pool._expiry is None
        async with pooled(server.url) as pool:
            await fetch(pool)
            pool._idle[0].idle_since -= 601
            await fetch(pool)
            assert server.connections == 3


@scenario
async def test_few_idle_connections_are_kept(monkeypatch):
    monkeypatch.setattr(connections, "MAX_IDLE", 3)
    arrived = asyncio.Barrier(10)

    async def script(request, writer):
        await arrived.wait()
        return reply(200, b"fine")

    async with answering(script) as server, pooled(server.url) as pool:
        await asyncio.gather(*(fetch(pool) for _ in range(10)))
        assert len(pool._idle) == 3
        await until(lambda: len(pool._connections) == 3)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (MAX_HEAD_BYTES + READ_BYTES), "more than"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (MAX_FIELDS + 1) + b"\r\n", "Too many headers"),
        (stream_head() + b"0\r\nX: " + b"x" * (MAX_HEAD_BYTES + 2 * READ_BYTES), "more than"),
        (stream_head() + b"0\r\n" + b"X: y\r\n" * (MAX_FIELDS + 2), "Too many headers"),
        (b"\r\n" * (MAX_HEAD_BYTES // 2 + READ_BYTES), "more than"),
        (b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "switches protocols"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n", "content-encoding: br"),
        (b"SSH-2.0-OpenSSH\r\n", "malformed"),
        (stream_head() + b"zz\r\n", "malformed"),
    ],
)
@scenario
async def test_what_is_too_large_or_malformed_is_an_error_and_the_connection_is_closed(said, problem):
    async with answering(always(said)) as server, pooled(server.url) as pool:
        with pytest.raises(aiohttp.ClientPayloadError, match=problem):
            await fetch(pool)
        assert not pool._connections


@scenario
async def test_a_stream_of_many_small_chunks_and_interim_heads_has_no_bound():
    interim = b"HTTP/1.1 103 Early Hints\r\nX: " + b"x" * 1000 + b"\r\n\r\n"
    said = interim * 1000 + stream_head() + chunk(b"x") * 200_000 + END
    async with answering(always(said)) as server, pooled(server.url) as pool:
        assert await fetch(pool) == b"x" * 200_000


@scenario
async def test_a_connection_stops_reading_while_nobody_reads_its_response():
    size = 20_000_000

    async with answering(always(reply(200, b"x" * size))) as server, pooled(server.url) as pool:
        response = await pool.request("POST", pool._url, {}, b"{}")
        await until(lambda: next(iter(pool._connections))._is_paused)
        assert response._buffered <= HIGH_BYTES + READ_BYTES
        assert len(await body_of(response)) == size
        await fetch(pool)
        assert server.connections == 1


@scenario
async def test_a_request_that_was_answered_before_it_was_sent_closes_its_connection():
    closed = asyncio.Event()

    async def serve(reader, writer):
        await reader.readline()
        writer.transport.pause_reading()
        writer.write(reply(413, b"no"))
        await closed.wait()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with pooled(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/") as pool:
        response = await pool.request("POST", pool._url, {}, bytes(50_000_000))
        assert (response.status, await body_of(response)) == (413, b"no")
        await until(lambda: not pool._connections)
    closed.set()
    server.close()
    await asyncio.sleep(0)


@scenario
async def test_a_silent_response_is_given_up_if_it_may_not_be_silent():
    async def script(request, writer):
        writer.write(stream_head() if request.verb == "GET" else b"")
        await asyncio.Event().wait()

    async with answering(script) as server, pooled(server.url) as pool:
        for method in ("GET", "POST"):
            with pytest.raises(aiohttp.SocketTimeoutError):
                await fetch(pool, method, idle=0.01)
        assert not pool._connections


@scenario
async def test_silence_is_measured_from_the_last_bytes_and_not_while_reading_is_stopped():
    async with answering(always(stream_head())) as server, pooled(server.url) as pool:
        response = await pool.request("GET", pool._url, {}, idle=600)
        (connection,) = pool._connections
        timer = connection._idle_timer
        connection._note_silence()
        assert connection._idle_timer is not timer
        connection._is_paused, connection._received_at = True, -1000.0
        connection._note_silence()
        assert connection._response is response
        connection._is_paused = False
        for one in (timer, connection._idle_timer):
            one.cancel()


def test_a_header_that_would_break_the_framing_is_replaced():
    sent = encode_request("POST", URL("http://a/"), {"content-length": "5", "Transfer-Encoding": "chunked"}, b"{}")
    assert sent.lower().count(b"content-length: 2\r\n") == 1
    assert sent.lower().count(b"content-length") == 1
    assert b"chunked" not in sent


@scenario
async def test_closing_ends_what_waits_and_leaves_nothing_open():
    async def script(request, writer):
        if request.verb == "GET":
            return stream_head()
        if request.path.endswith("idle"):
            return reply(200, b"fine")
        return await asyncio.Event().wait()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with answering(script) as server:
            async with pooled(server.url) as pool:
                response = await pool.request("POST", pool._url / "idle", {}, b"{}")
                stream = await pool.request("GET", pool._url, {})
                waiting = asyncio.create_task(fetch(pool))
                await server.until(lambda sent: len(sent) == 3)
            with pytest.raises(aiohttp.ClientConnectionError, match="Connection closed"):
                await waiting
            with pytest.raises(aiohttp.ClientConnectionError, match="Connection closed"):
                await stream.readany()
            assert await body_of(response) == b"fine"
            assert not pool._connections
            with pytest.raises(aiohttp.ClientConnectionResetError, match="closed"):
                await fetch(pool)
        gc.collect()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop")
def test_connections_work_on_the_loop_of_uvloop_too():
    uvloop = pytest.importorskip("uvloop")
    size, server = 3_000_000, None

    async def script(request, writer):
        if len(server.requests) == 3:
            await asyncio.Event().wait()
        return reply(200, b"x" * size)

    async def use() -> None:
        nonlocal server
        async with answering(script) as server, pooled(server.url) as pool:
            response = await pool.request("POST", pool._url, {}, b"{}")
            await until(lambda: next(iter(pool._connections))._is_paused)
            assert len(await body_of(response)) == size
            assert len(await fetch(pool)) == size
            assert server.connections == 1
            stuck = asyncio.create_task(fetch(pool))
            await server.until(lambda sent: len(sent) == 3)
            stuck.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stuck

    uvloop.run(use())
