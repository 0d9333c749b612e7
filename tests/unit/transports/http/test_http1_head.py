"""Heads that are refused, whatever is before them and however they are cut."""

import asyncio

import pytest

from dragoman.transports.http.http1_head import path_and_query, problem_of
from scenarios.http_peer import scenario
from unit.transports.http.http1_peer import CHUNKED, Peer, answer, echo, post

LINE = "The request line must be a method, a target and HTTP/1.1 or HTTP/1.0, with one space between them"
MISSING, REPEATED = "The header Host is missing", "The header Host is repeated; send it once"
FOREIGN = "The request line names another host than the header Host"
REFUSED = [
    (b"POST  /mcp HTTP/1.1\r\nHost: a\r\n\r\n", LINE),
    (b"POST /mcp  HTTP/1.1\r\nHost: a\r\n\r\n", LINE),
    (b"POST /mcp HTTP/1.2\r\nHost: a\r\n\r\n", LINE),
    (b"POST /mcp HTTP/2.0\r\nHost: a\r\n\r\n", LINE),
    (b"POST /mcp HTTP/0.9\r\nHost: a\r\n\r\n", LINE),
    (b"POST /mcp\r\nHost: a\r\n\r\n", LINE),
    (b"SOURCE /mcp ICE/1.0\r\nHost: a\r\n\r\n", LINE),
    (b"GET /mcp HTTP/1.1\r\n\r\n", MISSING),
    (b"GET /mcp HTTP/1.1\r\nX-Host: a\r\n\r\n", MISSING),
    (b"GET /mcp HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n", REPEATED),
    (b"GET /mcp HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", REPEATED),
    (b"GET http://evil.example/mcp HTTP/1.1\r\nHost: a\r\n\r\n", FOREIGN),
    (b"GET http://a@evil.example/mcp HTTP/1.1\r\nHost: a\r\n\r\n", FOREIGN),
    (b"GET http://a:1/mcp HTTP/1.1\r\nHost: a\r\n\r\n", FOREIGN),
    (b"GET http:///mcp HTTP/1.1\r\nHost: a\r\n\r\n", FOREIGN),
    (b"GET http://a/mcp HTTP/1.0\r\n\r\n", FOREIGN),
]
ACCEPTED = [
    b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nX: POST  /mcp  HTTP/1.1\r\nhOST:a \r\n\r\n",
    b"GET /mcp HTTP/1.0\r\n\r\n",
    b"GET HTTP://A:80/mcp HTTP/1.1\r\nHost: a:80\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /mcp?to=http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
]


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize(("head", "problem"), REFUSED)
def test_a_head_that_may_be_read_otherwise_is_refused_with_its_reason(head, problem):
    assert problem_of(head) == problem


@pytest.mark.parametrize("head", ACCEPTED)
def test_a_head_with_one_host_and_one_space_at_a_time_is_accepted(head):
    assert problem_of(head) is None


@pytest.mark.parametrize(
    ("target", "parts"),
    [(b"/a?b", (b"/a", b"b")), (b"http://a", (b"/", b"")), (b"*", (b"*", b"")), (b"http://a/b?c", (b"/b", b"c"))],
)
def test_a_target_has_a_path_and_a_query(target, parts):
    assert path_and_query(target) == parts


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize(("head", "problem"), REFUSED)
@scenario
async def test_a_head_is_refused_however_it_is_cut(head, problem):
    for cut in range(1, len(head)):
        peer = Peer(echo)
        peer.send(head[:cut])
        await asyncio.sleep(0)
        peer.send(head[cut:])
        assert peer.transport.written.startswith(b"HTTP/1.1 400 "), cut
        assert peer.transport.written.endswith(b"\r\n\r\n" + problem.encode())
        await peer.end()


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize(("head", "problem"), REFUSED)
@pytest.mark.parametrize(
    "before",
    [
        post(b"{}"),
        post(b"x\r\n\r\nx"),
        CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\nX: y\r\n\r\n",
    ],
    ids=["with a length", "with an empty line", "chunked", "chunked, with an empty line"],
)
@scenario
async def test_a_head_is_refused_behind_another_request_however_both_are_cut(before, head, problem):
    served = []

    async def serve(exchange):
        served.append(await exchange.read(100))
        await exchange.reply(200)

    asked = before + head
    for cut in range(len(before) - 8, len(asked)):
        peer = Peer(serve)
        peer.send(asked[:cut])
        await asyncio.sleep(0)
        peer.send(asked[cut:])
        await peer.until(lambda: peer.transport.ended)  # noqa: B023
        assert len(served) == 1, cut
        served.clear()
        assert peer.transport.written.startswith(answer(b"", closes=b"400" not in peer.transport.written))
        await peer.end()


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize("offer", ["", "Connection: Upgrade\r\nUpgrade: h2c\r\n"])
@pytest.mark.parametrize("rest", [b"", b"POST /mcp?{}", b"no request}"])
@scenario
async def test_a_head_is_refused_between_requests_that_come_at_once(offer, rest):
    served = []

    async def serve(exchange):
        served.append(await exchange.read(100))
        await exchange.reply(200)

    peer = Peer(serve)
    first = post(b'{"a":1}', headers=offer)
    peer.send(first + post(b"{}").replace(b"POST ", b"POST  ") + post(b"{}") + rest)
    await peer.until(lambda: peer.transport.ended)
    assert served == [b'{"a":1}']
    assert peer.transport.written == answer(b"", closes=True)
    await peer.end()
