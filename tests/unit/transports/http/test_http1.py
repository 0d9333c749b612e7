"""HTTP/1.1 connections: requests in order, limits, and ends."""

import asyncio
import contextvars

import pytest

from dragoman.transports.http.exchange import Exchange, TooSlow
from dragoman.transports.http.http1 import MAX_DROPPED_BYTES, MAX_QUEUED
from scenarios.http_peer import scenario
from unit.transports.http.http1_peer import (
    BRISK,
    CHUNKED,
    NO_REQUEST_LINE,
    PATIENT,
    Peer,
    answer,
    echo,
    post,
    refusal,
)


@pytest.mark.parametrize(
    "request_bytes",
    [post(b"ping") + post(b"pong"), CHUNKED + b"4\r\nping\r\n0\r\n\r\n" + CHUNKED + b"2\r\npo\r\n2\r\nng\r\n0\r\n\r\n"],
    ids=["with a length", "chunked"],
)
@scenario
async def test_however_requests_are_cut_they_are_answered_alike_and_in_order(request_bytes):
    for cut in range(1, len(request_bytes)):
        peer = Peer(echo)
        peer.send(request_bytes[:cut])
        for _ in range(cut % 3 * 5):
            await asyncio.sleep(0)
        peer.send(request_bytes[cut:])
        assert await peer.heard(b"pong") == answer(b"ping") + answer(b"pong"), cut
        await peer.end()


@scenario
async def test_requests_wait_in_line_while_one_is_served_and_reading_pauses():
    may_go, begun = asyncio.Event(), []

    async def serve(exchange: Exchange) -> None:
        body = await exchange.read(100)
        begun.append(body)
        await may_go.wait()
        await exchange.reply(200, body)

    peer = Peer(serve)
    peer.send(post(b"1"))
    await peer.until(lambda: begun)
    peer.send(post(b"2") + post(b"3"))
    await asyncio.sleep(0)
    assert begun == [b"1"]
    assert peer.transport.paused
    may_go.set()
    assert await peer.heard(b"3") == answer(b"1") + answer(b"2") + answer(b"3")
    assert not peer.transport.paused
    await peer.end()


@scenario
async def test_many_requests_behind_one_that_is_served_wait_as_they_came_and_are_answered_in_order():
    may_go = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await may_go.wait()
        await echo(exchange)

    bodies = [b"<%d>" % number for number in range(1000)]
    peer = Peer(serve)
    peer.send(b"".join(map(post, bodies)) + post(b"last")[:-2])
    await asyncio.sleep(0)
    assert len(peer.connection._queue) <= MAX_QUEUED
    assert peer.transport.paused
    may_go.set()
    assert await peer.heard(bodies[-1]) == b"".join(map(answer, bodies))
    await peer.until(lambda: not peer.transport.paused)
    peer.send(b"st")
    assert await peer.heard(b"last") == answer(b"last")
    await peer.end()


@scenario
async def test_what_a_request_sets_in_its_context_is_not_seen_by_the_next():
    seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")

    async def serve(exchange: Exchange) -> None:
        body = await exchange.read(100)
        await exchange.reply(200, seen.get().encode())
        seen.set(body.decode())
        await asyncio.sleep(0)

    peer = Peer(serve)
    peer.send(post(b"one") + post(b"two"))
    await peer.heard(answer(b"nothing") * 2)
    peer.send(post(b"three"))
    assert await peer.heard(b"nothing") == answer(b"nothing")
    await peer.end()


@pytest.mark.parametrize(
    ("request_bytes", "written"),
    [
        (post(b"a", version="1.0"), answer(b"a", closes=True)),
        (post(b"a", version="1.0", headers="Connection: keep-alive\r\n"), answer(b"a", closes=True)),
        (post(b"a", headers="Connection: close\r\n"), answer(b"a", closes=True)),
        (post(b"a", headers="Connection: close\r\n") + post(b"never"), answer(b"a", closes=True)),
        (post(b"a") + b"no request\r\n\r\n", answer(b"a", closes=True)),
        (
            post(b"a", headers="Connection: Upgrade\r\nUpgrade: websocket\r\n") + b"no request\r\n\r\n",
            answer(b"a", closes=True),
        ),
        (b"no request\r\n\r\n", refusal(NO_REQUEST_LINE)),
        (b"\x16\x03\x01\x02\x00\x01", refusal(NO_REQUEST_LINE)),
        (CHUNKED + b"zz\r\n", refusal()),
        (post(b"a", headers="Transfer-Encoding: chunked\r\n"), refusal()),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", refusal(NO_REQUEST_LINE)),
    ],
)
@scenario
async def test_a_connection_is_closed_after_the_last_answer_that_it_can_give(request_bytes, written):
    peer = Peer(echo)
    peer.send(request_bytes)
    await peer.until(lambda: peer.transport.ended)
    assert peer.transport.written == written
    assert not peer.transport.closed
    await peer.end()


@pytest.mark.parametrize("ending", ["bytes", "time"])
@scenario
async def test_after_its_last_answer_a_connection_is_read_on_until_the_client_is_done_or_a_bound_is_reached(ending):
    peer = Peer(echo, pace=PATIENT if ending != "time" else BRISK)
    peer.send(b"no request\r\n\r\n")
    assert (peer.transport.ended, peer.transport.closed) == (True, False)
    peer.send(post(b"nobody answers this") * 100)
    assert peer.transport.written == refusal(NO_REQUEST_LINE)
    if ending == "bytes":
        for _ in range(MAX_DROPPED_BYTES // 2**20):
            assert not peer.transport.closed
            peer.send(b"x" * 2**20)
    await peer.until(lambda: peer.transport.closed)
    assert not peer.transport.aborted
    await peer.end()


@scenario
async def test_a_transport_that_cannot_end_its_writing_alone_is_read_on_all_the_same():
    peer = Peer(echo)
    peer.transport.can_write_eof = lambda: False  # type: ignore[method-assign]
    peer.send(b"no request\r\n\r\n", b"more")
    assert (peer.transport.ended, peer.transport.closed) == (False, False)
    await peer.end()


@pytest.mark.parametrize(
    "path", [b"/mcp", b"/mcp/", b"/%6dcp", b"/mcp?a=b", b"http://a/mcp", b"/elsewhere", b"/", b"*", b"http://a", b"//"]
)
@scenario
async def test_one_path_is_served_however_it_is_written_and_others_are_not_found(path):
    peer = Peer(echo)
    peer.send(b"OPTIONS " + path + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
    status = b"200 OK" if b"cp" in path else b"404 Not Found"
    assert await peer.heard() == b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n"
    await peer.end()


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HT", post(b"a")[:-1]], ids=["nothing", "half a head", "half a body"])
@scenario
async def test_a_request_that_does_not_come_in_time_is_not_waited_for(sent):
    late = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        try:
            await exchange.read(100)
        except TooSlow:
            late.set()
            await exchange.reply(408, headers=((b"connection", b"close"),))

    peer = Peer(serve, pace=BRISK)
    peer.send(*([sent] if sent else []))
    await peer.until(lambda: peer.transport.ended)
    assert late.is_set() == (sent.count(b"\r\n\r\n") == 1)
    await peer.end()


@pytest.mark.parametrize("closes", [False, True])
@scenario
async def test_one_who_does_not_take_its_last_answer_is_given_up(closes):
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"a")

    peer = Peer(serve, pace=BRISK)
    if not closes:
        peer.connection.pause_writing()
    peer.send(post(headers="Connection: close\r\n" if closes else ""))
    await peer.heard(b"a")
    assert not peer.transport.aborted
    await peer.until(lambda: peer.transport.aborted)
    assert peer.transport.written == b""
    await peer.end()


@scenario
async def test_nothing_is_begun_for_one_who_has_left():
    begun = 0

    async def serve(exchange: Exchange) -> None:
        nonlocal begun
        begun += 1
        await exchange.read(10)
        peer.transport.closed = True  # by an error, of which the connection is told later
        await exchange.reply(200)

    peer = Peer(serve)
    peer.send(post() * 2)
    for _ in range(10):
        await asyncio.sleep(0)
    assert begun == 1
    await peer.end()


@scenario
async def test_one_who_leaves_is_noticed_at_once():
    gone = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        exchange.on_gone = gone.set
        assert await exchange.read(100) == b"a"
        await gone.wait()
        await exchange.reply(200, b"nobody")
        await exchange.stream(b"nobody", last=True)

    peer = Peer(serve)
    peer.send(post(b"a"))
    for _ in range(3):
        await asyncio.sleep(0)
    peer.leave()
    assert gone.is_set()
    await peer.until(lambda: not peer.state.tasks)
    assert peer.transport.written == b""


@scenario
async def test_a_connection_on_which_nothing_is_asked_for_is_closed_and_one_that_is_served_is_not():
    may_go = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        body = await exchange.read(100)
        if body == b"wait":
            await may_go.wait()
        await exchange.reply(200, body)

    peer = Peer(serve, keep_alive=0.02)
    peer.send(post(b"at once"))
    await peer.heard(b"at once")
    peer.send(post(b"wait"))
    await asyncio.sleep(0.05)
    assert not peer.transport.ended
    may_go.set()
    await peer.heard(b"wait")
    await peer.until(lambda: peer.transport.ended)
    assert not peer.transport.aborted
    await peer.end()
