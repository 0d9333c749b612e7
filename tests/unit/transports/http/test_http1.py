"""HTTP/1.1 connections, by their bytes: over a transport that records, and over sockets."""

import asyncio
import contextlib
import contextvars
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from dragoman.errors import TooLarge
from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.exchange import Exchange, Gone, Pace, TooSlow
from dragoman.transports.http.graceful_http1 import GracefulHttp1Connection
from dragoman.transports.http.http1 import MAX_DROPPED_BYTES, MAX_HEAD_BYTES, MAX_QUEUED, Http1Connection
from dragoman.transports.http.http1_exchange import HIGH_WATER_BYTES
from scenarios.http_peer import DEADLINE, scenario

BRISK = Pace(tick=0.001, send=0.05, read=0.05, keep_alive=3600, stream_after=3600)
PATIENT = Pace(tick=0.001, stream_after=3600)
KEEP_ALIVE = 5.0
Serve = Callable[[Exchange], Coroutine[Any, Any, None]]


class Service:
    """Serves exchanges by a function."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    async def serve(self, exchange: Exchange) -> None:
        await self._serve(exchange)

    async def close(self, seconds: float | None = None) -> None:
        pass


async def echo(exchange: Exchange) -> None:
    await exchange.reply(200, await exchange.read(2**20))


class Recorder(asyncio.Transport):
    """The other end of a connection: what was written to it, and what became of it."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 50000)})
        self.written = b""
        self.paused = False
        self.closed = self.aborted = False
        self.ended = False
        """Whether nothing follows what was written; closed or not."""

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = self.ended = True

    def abort(self) -> None:
        self.closed = self.aborted = self.ended = True


class Peer:
    """A client of one connection that has no socket."""

    connection_class: type[Http1Connection] = Http1Connection

    def __init__(self, serve: Serve, *, pace: Pace = PATIENT, keep_alive: float = KEEP_ALIVE) -> None:
        self.state = ServerState()
        config: Any = SimpleNamespace(app=AsgiApp(Service(serve), pace=pace), timeout_keep_alive=keep_alive)
        self.transport = Recorder()
        self.connection = self.connection_class(config, self.state, {})
        self.connection.connection_made(self.transport)

    def send(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self.connection.data_received(chunk)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def heard(self, ending: bytes = b"\r\n\r\n") -> bytes:
        """Wait for what ends so, and take it."""
        await self.until(lambda: self.transport.written.endswith(ending))
        said, self.transport.written = self.transport.written, b""
        return said

    def leave(self) -> None:
        self.connection.connection_lost(None)

    async def end(self) -> None:
        self.leave()
        await self.until(lambda: not self.state.tasks)


def post(body: bytes = b"", *, headers: str = "", path: str = "/mcp", version: str = "1.1") -> bytes:
    return f"POST {path} HTTP/{version}\r\nHost: a\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answer(body: bytes, *, closes: bool = False) -> bytes:
    ending = b"connection: close\r\n" if closes else b""
    return b"HTTP/1.1 200 OK\r\n" + ending + b"content-length: %d\r\n\r\n" % len(body) + body


NO_REQUEST_LINE = b"The request line must be a method, a target and HTTP/1.1 or HTTP/1.0, with one space between them"


def refusal(reason: bytes = b"") -> bytes:
    kind = b"content-type: text/plain\r\n" if reason else b""
    length = b"content-length: %d\r\n" % len(reason)
    return b"HTTP/1.1 400 Bad Request\r\n" + kind + length + b"connection: close\r\n\r\n" + reason


CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


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
async def test_a_request_that_comes_byte_by_byte_is_answered():
    peer = Peer(echo)
    for byte in post(b"ping"):
        peer.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await peer.heard(b"ping") == answer(b"ping")
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
        (b"\x16\x03\x01\x02\x00\x01", refusal()),
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
async def test_a_transport_that_cannot_end_its_writing_alone_is_read_on_all_the_same():
    peer = Peer(echo)
    peer.transport.can_write_eof = lambda: False  # type: ignore[method-assign]
    peer.send(b"no request\r\n\r\n", b"more")
    assert (peer.transport.ended, peer.transport.closed) == (False, False)
    await peer.end()


@scenario
async def test_a_whole_post_whose_body_only_seems_whole_is_waited_for():
    for body in (b"{}", b"{}{}", b"{}" * 50_000):
        asked = post(body) + post(b"then")
        for cut in (len(post(b"{}")), len(post(body)) - 1, len(post(body)) - 2, len(post(body))):
            peer = Peer(echo)
            peer.send(asked[:cut])
            await asyncio.sleep(0)
            peer.send(asked[cut:])
            assert await peer.heard(b"then") == answer(body) + answer(b"then")
            await peer.end()
    peer = Peer(echo)
    peer.send(post(b"{}") + b"POST /mcp?{}", post(b"then").removeprefix(b"POST /mcp"))
    assert await peer.heard(b"then") == answer(b"{}") + answer(b"then")
    await peer.end()
    chunked = CHUNKED + b"2\r\n{}"
    peer = Peer(echo)
    peer.send(chunked, b"\r\n0\r", b"\n\r\n" + post(b"then"))
    assert await peer.heard(b"then") == answer(b"{}") + answer(b"then")
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


@pytest.mark.parametrize("offer", ["h2c", "websocket"])
@scenario
async def test_an_offer_to_speak_another_protocol_is_declined_and_the_body_is_read(offer):
    offering = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {offer}\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
    chunked = CHUNKED.replace(b"Host: a\r\n", b"Host: a\r\n" + offering.encode())
    asked = post(b"ping", headers=offering) + post(b"then") + chunked + b"4\r\nping\r\n0\r\n\r\n" + post(b"end")
    for cut in range(1, len(asked)):
        peer = Peer(echo)
        peer.send(asked[:cut])
        await asyncio.sleep(0)
        peer.send(asked[cut:])
        assert await peer.heard(b"end") == b"".join(answer(body) for body in (b"ping", b"then", b"ping", b"end")), cut
        await peer.end()


@scenario
async def test_many_offers_at_once_are_declined():
    peer = Peer(echo)
    peer.send(post(b"a", headers="Connection: Upgrade\r\nUpgrade: h2c\r\n") * 2000)
    await peer.until(lambda: len(peer.transport.written) >= 2000 * len(answer(b"a")))
    assert peer.transport.written == answer(b"a") * 2000
    assert not peer.transport.ended
    await peer.end()


@scenario
async def test_fields_after_a_chunked_body_are_no_headers_of_any_request():
    async def serve(exchange: Exchange) -> None:
        await exchange.read(100)
        await exchange.reply(200, b" ".join(name for name, _ in exchange.headers))

    peer = Peer(serve)
    trailing = CHUNKED + b"1\r\na\r\n0\r\nMcp-Session-Id: stolen\r\n\r\n"
    peer.send(trailing + post() + trailing + post(b"", headers="X-Last: 1\r\n"))
    assert await peer.heard(b"x-last content-length") == b"".join(
        [
            answer(b"host transfer-encoding"),
            answer(b"host content-length"),
            answer(b"host transfer-encoding"),
            answer(b"host x-last content-length"),
        ]
    )
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


@pytest.mark.parametrize("is_busy", [False, True], ids=["alone", "behind another request"])
@pytest.mark.parametrize("begun", [b"POST /mcp HTTP/1.1\r\nHost: a\r\nX-Long: ", b"POST /"], ids=["header", "address"])
@scenario
async def test_a_head_has_a_bound_in_bytes(begun, is_busy):
    may_go = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await may_go.wait()
        await exchange.reply(200)

    peer = Peer(serve)
    if is_busy:
        peer.send(post())
        await asyncio.sleep(0)
    peer.send(begun)
    for _ in range(MAX_HEAD_BYTES // 1000 + 1):
        peer.send(b"x" * 1000)
    assert peer.transport.ended == (not is_busy)
    peer.send(b"x" * 1000 + b"\r\n\r\n" + post())
    may_go.set()
    await peer.until(lambda: peer.transport.ended)
    assert peer.transport.written.startswith(b"HTTP/1.1 200 " if is_busy else b"HTTP/1.1 431 ")
    assert peer.transport.written.count(b"HTTP/1.1") == 1
    await peer.end()


@pytest.mark.parametrize(
    "filler", [b"x" * 1000, b"X: y\r\n" * 100, b"1;" + b"e" * 1000], ids=["field", "fields", "size"]
)
@scenario
async def test_what_stands_around_a_body_has_a_bound_in_bytes(filler):
    peer = Peer(echo)
    peer.send(CHUNKED + b"1\r\na\r\n", b"" if filler.startswith(b"1;") else b"0\r\nX-Long: ")
    for _ in range(MAX_HEAD_BYTES // len(filler) + 2):
        peer.send(filler)
    assert peer.transport.written.startswith(b"HTTP/1.1 400 ")
    assert peer.transport.ended
    await peer.end()


@scenario
async def test_a_body_of_many_small_chunks_is_read():
    peer = Peer(echo)
    peer.send(CHUNKED)
    for _ in range(1000):
        peer.send(b"1\r\na\r\n" * 100)
    peer.send(b"0\r\n\r\n")
    assert await peer.heard(b"a" * 100_000) == answer(b"a" * 100_000)
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
    assert await peer.heard() == f"HTTP/1.1 413 {HTTPStatus(413).phrase}\r\ncontent-length: 0\r\n\r\n".encode()
    assert not peer.transport.paused
    peer.send(b"x" * HIGH_WATER_BYTES, b"x" * (HIGH_WATER_BYTES - 1) + post(b"next")[:10])
    assert not peer.transport.paused
    peer.send(post(b"next")[10:])
    assert await peer.heard(b"next") == answer(b"next")
    await peer.end()


@scenario
async def test_the_next_request_may_follow_a_large_body_that_was_dropped():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(401)

    refused = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"
    peer = Peer(serve)
    large = post(b"x" * (3 * MAX_HEAD_BYTES))
    peer.send(large[:1000])
    assert await peer.heard() == refused
    peer.send(large[1000:])
    assert not peer.transport.ended
    assert peer.transport.written == b""
    peer.send(post())
    assert await peer.heard() == refused
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


@pytest.mark.parametrize("framing", ["Transfer-Encoding: gzip", "Transfer-Encoding: identity"])
@pytest.mark.parametrize("method", [b"POST", b"CONNECT"])
@scenario
async def test_an_offer_with_a_body_that_cannot_be_read_is_refused(method, framing):
    peer = Peer(echo)
    offering = f" a:80 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n{framing}\r\n\r\n"
    peer.send(method + offering.encode() + b"whatever")
    assert await peer.heard() == refusal()
    assert peer.transport.ended
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
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"
        b"x-more: 1\r\n"
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


# Over sockets, beside the ASGI protocols of uvicorn.


@contextlib.asynccontextmanager
async def listening(serve: Serve, http: Any) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        app = AsgiApp(Service(serve), pace=PATIENT)
        config = uvicorn.Config(app, http=http, ws="none", log_level="critical", lifespan="off", proxy_headers=False)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([bound]))
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, DEADLINE)


async def said_to(port: int, data: bytes) -> bytes:
    """Send some bytes, and return all that comes back until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    async with asyncio.timeout(DEADLINE):
        said = await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return b"\r\n".join(line for line in said.split(b"\r\n") if not line.lower().startswith(b"date: "))


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(b"a", headers="Connection: close\r\n"),
        post(b"a") + post(b"b", headers="Connection: close\r\n"),
        post(b"x" * 1_000_000, headers="Connection: close\r\n"),
        CHUNKED + b"1\r\na\r\n0\r\n\r\n" + post(b"b", headers="Connection: close\r\n"),
        post(b"a", path="/mcp/", headers="Connection: close\r\n"),
        post(b"a", path="/nowhere", headers="Connection: close\r\n"),
        b"GET /mcp?q=%20 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"\r\n\r\n" + post(b"a", headers="Connection: close\r\n"),
    ],
)
@scenario
async def test_what_comes_back_is_what_comes_back_by_asgi(request_bytes):
    async with listening(echo, GracefulHttp1Connection) as ours, listening(echo, "httptools") as theirs:
        assert sorted((await said_to(ours, request_bytes)).split(b"\r\n")) == sorted(
            (await said_to(theirs, request_bytes)).split(b"\r\n")
        )


@scenario
async def test_what_is_known_of_a_request_is_what_asgi_says():
    scopes: list[dict[str, Any]] = []

    async def serve(exchange: Exchange) -> None:
        scopes.append(dict(exchange.scope))
        await exchange.reply(200)

    request = post(b"", path="/%6dcp?a=%20b", headers="X-Name: value\r\nConnection: close\r\n")
    for http in (GracefulHttp1Connection, "httptools"):
        async with listening(serve, http) as port:
            await said_to(port, request.replace(b"Host: a", b"Host: 127.0.0.1"))
        scopes[-1].update(
            client=scopes[-1]["client"][0], server=(scopes[-1]["server"][0], scopes[-1]["server"][1] == port)
        )
        scopes[-1]["headers"] = list(scopes[-1]["headers"])
    assert scopes[0] == scopes[1]


@scenario
async def test_a_large_body_goes_out_whole_to_a_slow_reader():
    size = 5_000_000

    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"x" * size)

    async with listening(serve, GracefulHttp1Connection) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(post(headers="Connection: close\r\n"))
        total = 0
        async with asyncio.timeout(DEADLINE):
            while part := await reader.read(10_000):
                total += len(part)
                await asyncio.sleep(0)
        writer.close()
    assert total > size
