"""Where chunked bodies end, however they are cut."""

import pytest

from dragoman.transports.http.http1 import Http1Connection
from dragoman.transports.http.http1_chunks import ChunkedBody
from scenarios.http_peer import scenario
from unit.transports.http.http1_peer import CHUNKED, Peer, answer, echo, post

BODIES = [
    b"0\r\n\r\n",
    b"4\r\nping\r\n0\r\n\r\n",
    b"000A;name=value\r\n0\r\n\r\n0\r\n\r\n\r\n000;last\r\n\r\n",
    b"2\r\nab\r\n1\r\n\n\r\n0\r\nX-Field: 0\r\nX-Other: }\r\n\r\n",
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_ends_where_it_ends_however_it_is_cut(body):
    for cut in range(len(body) + 1):
        chunked = ChunkedBody()
        assert chunked.end(body[:cut], 0) == cut
        assert chunked.has_ended == (cut == len(body))
        rest = b"before" + body[cut:] + b"POST "
        assert chunked.end(rest, len(b"before")) == len(rest) - len(b"POST ")
        assert chunked.has_ended


@pytest.mark.parametrize("body", [b"no size\r\n0\r\n\r\n", b"-5\r\nabc\r\n0\r\n\r\n", b"\r\n0\r\n\r\n"])
def test_what_is_malformed_is_left_to_the_parser(body):
    chunked = ChunkedBody()
    assert chunked.end(body, 0) == len(body)
    assert chunked.end(body, 0) == len(body)
    assert not chunked.has_ended


class Counting(Http1Connection):
    """A connection that counts how often its parser is called."""

    fed = 0

    def _feed(self, data: bytes) -> None:
        self.fed += 1
        super()._feed(data)


class CountingPeer(Peer):
    connection_class = Counting


@scenario
async def test_a_chunked_body_full_of_empty_lines_takes_no_more_steps_than_any_other():
    peer = CountingPeer(echo)
    filler = b"\r\n\r\n" * 10_000
    peer.send(CHUNKED + b"%x\r\n" % (2 * len(filler)), filler, filler, b"\r\n0\r\n\r\n" + post(b"pong"))
    assert await peer.heard(b"pong") == answer(2 * filler) + answer(b"pong")
    assert isinstance(peer.connection, Counting)
    assert peer.connection.fed < 10
    await peer.end()
