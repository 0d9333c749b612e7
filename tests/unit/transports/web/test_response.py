import asyncio
import gzip
import zlib

import aiohttp
import pytest
from yarl import URL

from dragoman.transports.web.response import HIGH_BYTES, READ_BYTES, BodyDecoder, PooledResponse

ADDRESS = URL("http://example.com/mcp")


class Connection:
    """What a response asks of its connection."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def resume_reading(self) -> None:
        self.asked.append("resume")

    def abort(self, error: Exception) -> None:
        self.asked.append(error)


def received(*pieces: bytes, **headers: str) -> PooledResponse:
    response = PooledResponse(Connection(), "POST", ADDRESS, {"Authorization": "Bearer x"})
    response.receive_head(200, [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()])
    for piece in pieces:
        response.receive_body(piece)
    return response


async def read_all(response: PooledResponse) -> list[bytes]:
    return [piece async for piece in response.iter_any()]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_body_is_decoded_in_pieces_of_bounded_size(pack):
    decoder = BodyDecoder("gzip" if pack is gzip.compress else "deflate")
    pieces = [decoder.decode(pack(b"0" * 10**7))]
    while decoder.has_more:
        pieces.append(decoder.decode(b""))
    assert max(map(len, pieces)) == READ_BYTES
    assert b"".join(pieces) == b"0" * 10**7
    assert not decoder.is_cut()


async def test_other_tasks_run_between_the_pieces_of_a_body_that_is_decoded():
    response = received(gzip.compress(b"0" * 10 * READ_BYTES), Content_Encoding="gzip")
    response.complete()
    turns, pieces = [], 0
    async for _ in response.iter_any():
        pieces += 1
        asyncio.get_running_loop().call_soon(turns.append, None)
    assert pieces == 10
    assert len(turns) >= pieces - 1


def test_a_body_of_many_streams_is_decoded_as_one():
    decoder, packed = BodyDecoder("gzip"), b"".join(gzip.compress(b"%d" % number) for number in range(20))
    decoded = [decoder.decode(packed)]
    while decoder.has_more:
        decoded.append(decoder.decode(b""))
    assert b"".join(decoded) == b"".join(b"%d" % number for number in range(20))


def test_deflate_that_is_cut_off_is_noticed_and_nothing_is_not_cut_off():
    decoder = BodyDecoder("deflate")
    assert not decoder.is_cut()
    decoder.decode(zlib.compress(b"text")[:-2])
    assert decoder.is_cut()


async def test_a_body_that_is_not_in_its_encoding_is_an_error_and_closes_the_connection():
    response = received(b"no gzip", Content_Encoding="gzip")
    with pytest.raises(aiohttp.ClientPayloadError, match="gzip"):
        await response.readany()
    assert [type(one) for one in response._connection.asked] == [aiohttp.ClientPayloadError, str]


async def test_deflate_that_is_cut_off_is_an_error_after_what_was_decoded():
    response = received(zlib.compress(b"text")[:-2], Content_Encoding="deflate")
    response.complete()
    assert await response.readany() == b"text"
    assert not response.at_eof()
    with pytest.raises(aiohttp.ClientPayloadError, match="cut off"):
        await response.readany()


@pytest.mark.parametrize("encoding", ["br", "zstd", "BR"])
def test_an_encoding_that_was_not_accepted_is_refused(encoding):
    with pytest.raises(aiohttp.ClientPayloadError, match=encoding.lower()):
        received(Content_Encoding=encoding)


async def test_a_reader_takes_what_has_arrived_and_may_leave_some():
    response = received(b"abc", b"def")
    assert await response.read(2) == b"ab"
    assert await response.read(10) == b"cdef"
    response.receive_body(b"g")
    response.complete()
    assert response.is_eof()
    assert not response.at_eof()
    assert await response.read() == b"g"
    assert response.at_eof()
    assert await response.read(5) == b""


async def test_a_reader_waits_for_a_piece_and_for_the_end():
    response = received()
    reading = asyncio.create_task(read_all(response))
    await asyncio.sleep(0)
    response.receive_body(b"a")
    await asyncio.sleep(0)
    response.receive_body(b"b")
    response.complete()
    assert await reading == [b"a", b"b"]


async def test_a_reader_gets_what_arrived_before_the_error():
    response = received(b"abc")
    response.fail(aiohttp.ClientPayloadError("broken"))
    response.fail(aiohttp.ClientPayloadError("another"))
    assert await response.readany() == b"abc"
    with pytest.raises(aiohttp.ClientPayloadError, match="broken"):
        await response.readany()


def test_the_connection_stops_while_much_waits_and_goes_on_when_it_was_read():
    async def read() -> None:
        response = received()
        assert not response.receive_body(b"x" * HIGH_BYTES)
        assert response.receive_body(b"x")
        assert len(await response.readany()) == HIGH_BYTES + 1
        assert response._connection.asked == ["resume"]

    asyncio.run(read())


def test_the_connection_of_an_encoded_body_goes_on_only_when_all_was_decoded():
    async def read() -> None:
        response = received(gzip.compress(b"0" * (3 * READ_BYTES - 1)), Content_Encoding="gzip")
        connection = response._connection
        for _ in range(2):
            await response.readany()
            assert connection.asked == []
        await response.readany()
        assert connection.asked == ["resume"]

    asyncio.run(read())


def test_the_end_is_told_once_and_an_error_is_no_end():
    told = []
    response = received()
    response.on_eof(lambda: told.append(1))
    response.on_eof(lambda: told.append(2))
    response.complete()
    response.close()
    assert told == [1, 2]
    failed = received()
    failed.on_eof(lambda: told.append(3))
    failed.fail(aiohttp.ClientPayloadError("broken"))
    assert told == [1, 2]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (None, "application/octet-stream"),
        ("Application/JSON; charset=utf-8", "application/json"),
        (" text/event-stream ", "text/event-stream"),
        ("json", "text/plain"),
        ("application/json, application/json", "text/plain"),
    ],
)
def test_the_media_type_is_read_as_aiohttp_reads_it(given, kind):
    assert received(**({} if given is None else {"Content_Type": given})).content_type == kind


def test_the_headers_are_those_of_the_head_without_the_spaces_after_them():
    response = received(X_Name="é \t", Server="x")
    assert dict(response.headers) == {"X-Name": "é", "Server": "x"}
    assert response.headers is response.headers


def test_a_response_knows_its_length_and_its_request():
    assert received(Content_Length="5").content_length == 5
    response = received()
    assert response.content_length is None
    assert response.request_info.headers["authorization"] == "Bearer x"
    assert (response.request_info.url, response.request_info.method) == (ADDRESS, "POST")
