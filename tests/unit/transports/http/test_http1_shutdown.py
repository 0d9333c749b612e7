"""HTTP/1.1 connections whose server ends, by their bytes."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman.transports.http import http1
from dragoman.transports.http.exchange import Exchange
from dragoman.transports.http.http1 import Http1Connection
from scenarios.http_peer import scenario
from unit.transports.http.http1_peer import Peer, answer, echo, post

LINGER = 0.02


class EndingPeer(Peer):
    """A client of one connection that has no socket, and whose server can end."""

    connection_class = Http1Connection
    connection: Http1Connection


@pytest.fixture(autouse=True)
def brisk(monkeypatch):
    monkeypatch.setattr(http1, "LINGER_SECONDS", LINGER)


class Gate:
    """Serves when it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def serve(self, exchange: Exchange) -> None:
        body = await exchange.read(100)
        await self.opened.wait()
        await exchange.reply(200, body)


@scenario
async def test_an_idle_connection_stays_for_a_moment_and_is_then_closed():
    peer = EndingPeer(echo)
    peer.connection.shutdown()
    assert not peer.transport.closed
    began = asyncio.get_running_loop().time()
    await peer.until(lambda: peer.transport.closed)
    assert asyncio.get_running_loop().time() - began >= LINGER
    await peer.end()


@scenario
async def test_a_connection_that_is_read_on_after_its_last_answer_is_closed_in_a_moment():
    peer = EndingPeer(echo)
    peer.send(b"no request\r\n\r\n")
    assert (peer.transport.ended, peer.transport.closed) == (True, False)
    peer.connection.shutdown()
    await peer.until(lambda: peer.transport.closed)
    assert not peer.transport.aborted
    await peer.end()


@scenario
async def test_what_comes_in_that_moment_is_answered_as_the_last():
    peer = EndingPeer(echo)
    peer.connection.shutdown()
    peer.send(post(b"a"))
    assert await peer.heard(b"a") == answer(b"a", closes=True)
    assert peer.transport.ended
    await peer.until(lambda: peer.transport.closed)
    await peer.end()


@scenario
async def test_what_is_served_is_answered_as_the_last_and_so_is_what_waits_behind_it():
    gate = Gate()
    peer = EndingPeer(gate.serve)
    peer.send(post(b"a") + post(b"b"))
    await asyncio.sleep(0)
    peer.connection.shutdown()
    gate.opened.set()
    assert await peer.heard(b"b") == answer(b"a") + answer(b"b", closes=True)
    assert peer.transport.ended
    await peer.until(lambda: peer.transport.closed)
    await peer.end()


@pytest.mark.parametrize("cut", [7, 30, len(post(b"ab")) - 1], ids=["in its first line", "in its head", "in its body"])
@scenario
async def test_the_rest_of_a_request_is_awaited(cut):
    peer = EndingPeer(echo)
    peer.send(post(b"ab")[:cut])
    await asyncio.sleep(0)
    peer.connection.shutdown()
    await asyncio.sleep(2 * LINGER)
    peer.send(post(b"ab")[cut:])
    assert await peer.heard(b"ab") == answer(b"ab", closes=True)
    assert peer.transport.ended
    await peer.until(lambda: peer.transport.closed)
    await peer.end()


@scenario
async def test_a_stream_that_was_begun_before_leaves_its_connection_open_for_a_moment():
    gate = Gate()

    async def serve(exchange: Exchange) -> None:
        await exchange.stream(b"a")
        await gate.opened.wait()
        await exchange.stream(b"b", last=True)

    peer = EndingPeer(serve)
    peer.send(post())
    await peer.heard(b"a\r\n")
    peer.connection.shutdown()
    peer.connection.shutdown()
    gate.opened.set()
    await peer.heard(b"0\r\n\r\n")
    assert not peer.transport.closed
    peer.send(post())
    assert b"connection: close" in await peer.heard(b"0\r\n\r\n")
    assert peer.transport.ended
    await peer.until(lambda: peer.transport.closed)
    await peer.end()


@scenario
async def test_an_exchange_says_that_its_server_ends():
    told = []

    async def serve(exchange: Exchange) -> None:
        told.append(exchange.is_ending)
        await exchange.reply(200)

    peer = EndingPeer(serve)
    peer.send(post())
    await peer.heard()
    peer.connection.shutdown()
    peer.send(post())
    await peer.heard()
    assert told == [False, True]
    await peer.end()


@scenario
async def test_a_stream_without_an_end_is_told_to_end():
    async def serve(exchange: Exchange) -> None:
        ended = asyncio.Event()
        exchange.on_ending = ended.set
        await exchange.stream(b"a")
        await ended.wait()
        await exchange.stream(b"b", last=True)

    peer = EndingPeer(serve)
    peer.send(post())
    await peer.heard(b"a\r\n")
    peer.connection.shutdown()
    assert await peer.heard(b"0\r\n\r\n") == b"1\r\nb\r\n0\r\n\r\n"
    await peer.end()


@scenario
async def test_at_the_end_an_idle_connection_is_closed_at_once():
    peer = EndingPeer(echo)
    peer.connection.end()
    assert peer.transport.closed
    assert peer.transport.written == b""
    await peer.end()


@pytest.mark.parametrize("cut", [7, len(post(b"ab")) - 1], ids=["in its head", "in its body"])
@scenario
async def test_at_the_end_a_request_that_did_not_come_whole_is_refused(cut):
    peer = EndingPeer(echo)
    peer.send(post(b"ab")[:cut])
    await asyncio.sleep(0)
    peer.connection.end()
    assert peer.transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"connection: close" in peer.transport.written
    assert peer.transport.ended
    await peer.until(lambda: peer.transport.closed)
    await peer.end()


@scenario
async def test_at_the_end_what_is_served_is_answered_and_what_waits_behind_it_is_not_begun():
    gate = Gate()
    peer = EndingPeer(gate.serve)
    peer.send(post(b"a") + post(b"b") + post(b"c")[:-1])
    await asyncio.sleep(0)
    peer.connection.end()
    peer.send(post(b"d"))
    gate.opened.set()
    assert await peer.heard(b"a") == answer(b"a", closes=True)
    assert peer.transport.ended
    await peer.until(lambda: peer.transport.closed)
    await peer.end()


@contextmanager
def over_a_socket(monkeypatch) -> Iterator[tuple[EndingPeer, socket.socket]]:
    """Give a client whose connection has a real socket, and the other end of that socket."""
    peer = EndingPeer(echo)
    ours, theirs = socket.socketpair()
    extra: dict[str, Any] = {"socket": ours}
    monkeypatch.setattr(peer.transport, "get_extra_info", lambda name, default=None: extra.get(name, default))
    with ours, theirs:
        yield peer, theirs


@scenario
async def test_a_connection_on_which_something_waits_to_be_read_is_not_closed_yet(monkeypatch):
    with over_a_socket(monkeypatch) as (peer, theirs):
        theirs.send(b"something")
        peer.connection.shutdown()
        await asyncio.sleep(3 * LINGER)
        assert not peer.transport.closed
        peer.send(post(b"a"))
        assert await peer.heard(b"a") == answer(b"a", closes=True)
    await peer.end()


@scenario
async def test_a_connection_on_which_nothing_waits_to_be_read_is_closed(monkeypatch):
    with over_a_socket(monkeypatch) as (peer, _):
        peer.connection.shutdown()
        assert not peer.transport.closed
        await peer.until(lambda: peer.transport.closed)
        assert (peer.transport.written, peer.transport.aborted) == (b"", False)
    await peer.end()
