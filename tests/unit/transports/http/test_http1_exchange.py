"""Requests on an HTTP/1.1 connection: their bodies and their responses."""

import asyncio
import logging
from http import HTTPStatus

import pytest

from dragoman.errors import TooLarge
from dragoman.transports.http.exchange import Exchange, Gone
from dragoman.transports.http.http1 import MAX_DROPPED_BYTES
from dragoman.transports.http.http1_exchange import HIGH_WATER_BYTES
from scenarios.http_peer import DEADLINE, scenario
from unit.transports.http.http1_peer import (
    BRISK,
    CHUNKED,
    Peer,
    answer,
    echo,
    post,
)


@scenario
async def test_a_body_that_was_refused_is_read_on_up_to_a_bound():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(401)

    peer = Peer(serve)
    peer.send(f"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: {2**40}\r\n\r\n".encode())
    await peer.heard()
    for _ in range(MAX_DROPPED_BYTES // 2**20):
        peer.send(b"x" * 2**20)
        assert not peer.transport.closed
    peer.send(b"x")
    assert peer.transport.closed
    await peer.end()


@scenario
async def test_a_body_that_breaks_off_in_the_middle_of_its_exchange_is_refused():
    gone = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        try:
            await exchange.read(100)
        except Gone:
            gone.set()
            raise

    peer = Peer(serve)
    peer.send(CHUNKED)
    await peer.until(lambda: peer.state.tasks)
    for _ in range(5):
        await asyncio.sleep(0)
    peer.send(b"zz\r\n")
    await asyncio.wait_for(gone.wait(), DEADLINE)
    assert peer.transport.written.startswith(b"HTTP/1.1 400 ")
    assert peer.transport.ended
    await peer.end()


@scenario
async def test_a_head_request_gets_no_body_and_204_no_length():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(
            204 if exchange.method == "OPTIONS" else 200, b"" if exchange.method == "OPTIONS" else b"x"
        )

    peer = Peer(serve)
    peer.send(b"HEAD /mcp HTTP/1.1\r\nHost: a\r\n\r\n")
    assert await peer.heard() == b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n"
    peer.send(b"OPTIONS /mcp HTTP/1.1\r\nHost: a\r\n\r\n")
    assert await peer.heard() == b"HTTP/1.1 204 No Content\r\n\r\n"
    await peer.end()


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(("method", "status"), [("POST", 103), ("POST", 204), ("POST", 304), ("HEAD", 200)])
@scenario
async def test_response_that_cannot_have_a_body_has_none_whatever_the_service_sends(
    method, status, version, is_streamed
):
    async def serve(exchange: Exchange) -> None:
        if is_streamed:
            await exchange.send_part(b"bo", status=status, head=())
            await exchange.send_part(b"dy", status=status, last=True)
        else:
            await exchange.reply(status, b"body")

    peer = Peer(serve)
    peer.send(post(version=version).replace(b"POST", method.encode()))
    await peer.until(lambda: peer.transport.written and not peer.state.tasks)
    assert peer.transport.written.endswith(b"\r\n\r\n")
    assert peer.transport.written.count(b"\r\n\r\n") == 1
    assert (b"content-length: 4" in peer.transport.written) == (method == "HEAD" and not is_streamed)
    assert b"chunked" not in peer.transport.written
    assert peer.transport.ended == (version == "1.0")
    await peer.end()


@pytest.mark.parametrize("expectation", ["100-continue", "100-Continue"])
@scenario
async def test_a_client_that_waits_to_be_told_is_told_when_its_body_is_read(expectation):
    may_read = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await may_read.wait()
        await echo(exchange)

    peer = Peer(serve)
    head, _, body = post(b"ping", headers=f"Expect: {expectation}\r\n").partition(b"ping")
    peer.send(head)
    for _ in range(5):
        await asyncio.sleep(0)
    assert peer.transport.written == b""
    may_read.set()
    assert await peer.heard() == b"HTTP/1.1 100 Continue\r\n\r\n"
    peer.send(b"ping" + body)
    assert await peer.heard(b"ping") == answer(b"ping")
    await peer.end()


@scenario
async def test_a_client_of_http_1_0_is_not_told_to_go_on_for_it_would_take_that_for_the_answer():
    peer = Peer(echo)
    head, _, _ = post(b"ping", headers="Expect: 100-continue\r\n", version="1.0").partition(b"ping")
    peer.send(head)
    for _ in range(5):
        await asyncio.sleep(0)
    peer.send(b"ping")
    assert await peer.heard(b"ping") == answer(b"ping", closes=True)
    await peer.end()


@scenario
async def test_a_body_that_nobody_reads_is_held_up_and_what_is_left_of_it_is_dropped():
    async def serve(exchange: Exchange) -> None:
        await answered.wait()
        try:
            await exchange.reply(200, await exchange.read(10))
        except TooLarge:
            await exchange.reply(413)

    answered = asyncio.Event()
    peer = Peer(serve)
    size = 3 * HIGH_WATER_BYTES
    peer.send(post(b"x" * size)[: -2 * HIGH_WATER_BYTES + 1])
    assert peer.transport.paused
    answered.set()
    head = f"HTTP/1.1 413 {HTTPStatus(413).phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    assert await peer.heard() == head.encode()
    peer.send(b"x" * HIGH_WATER_BYTES, b"x" * (HIGH_WATER_BYTES - 1) + post(b"next"))
    assert not peer.transport.paused
    assert (peer.transport.written, peer.transport.closed) == (b"", False)
    await peer.end()


@pytest.mark.parametrize(
    ("start", "rest"),
    [
        (CHUNKED, b"1\r\na\r\n" * (2**20 // 6)),
        (post(b"x" * 40)[:-1], post() * 10_000),
        (post(b"x" * 40, headers="Expect: 100-continue\r\n")[:-40], post() * 10_000),
    ],
    ids=["chunked", "with a length", "before 100"],
)
@scenario
async def test_response_before_the_end_of_its_request_is_the_last_and_the_rest_is_dropped_unparsed(start, rest):
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(401)

    peer = Peer(serve)
    peer.send(start)
    assert await peer.heard() == b"HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    assert (peer.transport.ended, peer.transport.closed) == (True, False)
    assert peer.connection._parser.is_stopped
    for _ in range(MAX_DROPPED_BYTES // len(rest)):
        peer.send(rest)
        assert not peer.transport.closed
    peer.send(rest)
    assert peer.transport.closed
    assert peer.transport.written == b""
    await peer.end()


@scenario
async def test_stream_that_begins_before_the_end_of_its_request_is_the_last_response():
    async def serve(exchange: Exchange) -> None:
        await exchange.stream(b"a")
        await exchange.stream(await exchange.read(10), last=True)

    peer = Peer(serve)
    peer.send(post(b"ping")[:-4])
    assert b"connection: close\r\n" in await peer.heard(b"1\r\na\r\n")
    peer.send(b"ping" + post())
    assert await peer.heard() == b"4\r\nping\r\n0\r\n\r\n"
    assert peer.transport.ended
    await peer.end()


@scenario
async def test_nobody_is_answered_who_does_not_take_the_answers_before():
    served = 0

    async def serve(exchange: Exchange) -> None:
        nonlocal served
        served += 1
        await exchange.reply(200, b"a")

    peer = Peer(serve)
    peer.connection.pause_writing()
    peer.send(post() * 3)
    for _ in range(10):
        await asyncio.sleep(0)
    assert served == 1
    assert peer.transport.paused
    peer.connection.resume_writing()
    await peer.heard(answer(b"a") * 3)
    assert served == 3
    assert not peer.transport.paused
    await peer.end()


@pytest.mark.parametrize("way", ["answered", "streaming"])
@scenario
async def test_a_body_that_breaks_off_after_its_answer_gets_no_other(way):
    async def serve(exchange: Exchange) -> None:
        if way == "answered":
            await exchange.reply(404)
        else:
            await exchange.stream(b"a")
            await asyncio.Event().wait()

    peer = Peer(serve)
    peer.send(CHUNKED)
    await peer.until(lambda: peer.transport.written)
    peer.send(b"zz\r\n")
    assert peer.transport.written.count(b"HTTP/1.1") == 1
    assert (peer.transport.ended, peer.transport.aborted) == (True, way == "streaming")
    for task in peer.state.tasks:
        task.cancel()
    await peer.end()


@scenario
async def test_one_who_leaves_after_a_large_body_is_noticed():
    gone, read = asyncio.Event(), asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        exchange.on_gone = gone.set
        await exchange.read(2**20)
        read.set()
        await gone.wait()

    peer = Peer(serve)
    peer.send(post(b"x" * 2 * HIGH_WATER_BYTES))
    assert peer.transport.paused
    await asyncio.wait_for(read.wait(), DEADLINE)
    assert not peer.transport.paused
    await peer.end()


@pytest.mark.parametrize("is_whole", [True, False])
@scenario
async def test_one_who_left_before_its_body_was_read_is_not_served(is_whole):
    found = []

    async def serve(exchange: Exchange) -> None:
        try:
            found.append(await exchange.read(100))
        except Gone:
            found.append("gone")
            raise

    peer = Peer(serve)
    peer.send(post(b"a") if is_whole else post(b"a")[:-1])
    if not is_whole:
        for _ in range(3):
            await asyncio.sleep(0)
    peer.leave()
    await peer.until(lambda: not peer.state.tasks)
    assert found == ["gone"]


@scenario
async def test_a_stream_is_sent_in_chunks_as_it_comes():
    may_end = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        exchange.extra_headers = ((b"x-more", b"1"),)
        await exchange.stream(b"")
        await exchange.stream(b"first")
        await may_end.wait()
        await exchange.stream(b"0123456789abcdef", last=True)
        await exchange.stream(b"nothing follows")

    peer = Peer(serve)
    peer.send(post())
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\n"
        b"x-accel-buffering: no\r\nx-more: 1\r\n"
    )
    assert await peer.heard(b"first\r\n") == head + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n"
    may_end.set()
    assert await peer.heard() == b"10\r\n0123456789abcdef\r\n0\r\n\r\n"
    peer.send(post(version="1.0"))
    await peer.until(lambda: peer.transport.ended)
    assert peer.transport.written == head + b"connection: close\r\n\r\nfirst0123456789abcdef"
    await peer.end()


@pytest.mark.parametrize("way", ["a stream", "a body"])
@scenario
async def test_one_who_does_not_read_is_given_up(way):
    lost = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        exchange.on_gone = lost.set
        if way == "a body":
            await exchange.reply(200, b"x" * 100_000)
        else:
            while not exchange.gone:
                await exchange.stream(b"x")

    peer = Peer(serve, pace=BRISK)
    peer.send(post())
    peer.connection.pause_writing()
    await asyncio.wait_for(lost.wait(), DEADLINE)
    assert peer.transport.aborted
    await peer.end()


@scenario
async def test_one_who_reads_slowly_is_waited_for():
    async def serve(exchange: Exchange) -> None:
        await exchange.stream(b"a")
        await exchange.stream(b"b", last=True)

    peer = Peer(serve)
    peer.connection.pause_writing()
    peer.send(post())
    for _ in range(5):
        await asyncio.sleep(0)
    assert peer.transport.written == b""
    peer.connection.resume_writing()
    assert (await peer.heard()).endswith(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
    await peer.end()


@scenario
async def test_what_is_left_unanswered_fails_and_what_is_left_half_answered_is_cut_off(caplog):
    async def serve(exchange: Exchange) -> None:
        body = await exchange.read(100)
        if body == b"raises":
            raise ValueError("a secret")
        if body == b"begins":
            await exchange.stream(b"half")

    failed = b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    for body in (b"", b"raises"):
        peer = Peer(serve)
        with caplog.at_level(logging.CRITICAL if body == b"" else logging.ERROR, "dragoman.transports"):
            peer.send(post(body))
            assert await peer.heard() == failed
        assert peer.transport.ended
        await peer.end()
    assert [record.name for record in caplog.records] == ["dragoman.transports"]
    peer = Peer(serve)
    peer.send(post(b"begins"))
    await peer.until(lambda: peer.transport.aborted)
    await peer.end()


@scenario
async def test_a_task_that_is_cancelled_ends_its_exchange():
    async def serve(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    peer = Peer(serve)
    peer.send(post())
    await asyncio.sleep(0)
    (task,) = peer.state.tasks
    task.cancel()
    assert (await peer.heard()).startswith(b"HTTP/1.1 500 ")
    await asyncio.wait([task])
    assert peer.transport.ended
    await peer.end()


@scenario
async def test_no_header_value_ends_its_line():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"", ((b"www-authenticate", b"Bearer\r\nset-cookie: a=b\0"),))

    peer = Peer(serve)
    peer.send(post())
    assert (
        await peer.heard() == b"HTTP/1.1 200 OK\r\nwww-authenticate: Bearerset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"
    )
    await peer.end()


@scenario
async def test_the_date_that_is_sent_is_of_now():
    peer = Peer(echo)
    for date in (b"then", b"now"):
        peer.state.default_headers = [(b"date", date)]
        peer.send(post(b"a"))
        assert await peer.heard(b"a") == b"HTTP/1.1 200 OK\r\ndate: " + date + b"\r\ncontent-length: 1\r\n\r\na"
    await peer.end()


@scenario
async def test_a_status_without_a_name_is_sent_without_one():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(499)

    peer = Peer(serve)
    peer.send(post())
    assert await peer.heard() == b"HTTP/1.1 499 \r\ncontent-length: 0\r\n\r\n"
    await peer.end()
