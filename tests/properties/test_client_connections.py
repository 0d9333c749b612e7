"""A connection of the client's own sends and receives what aiohttp sends and receives, however the bytes are cut."""

import asyncio
import gzip
import os
import random
import zlib
from collections.abc import Awaitable, Coroutine
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from yarl import URL

from dragoman.transports.web.connections import ConnectionPool

ROUNDS = int(os.environ.get("DRAGOMAN_HOSTILE_ROUNDS", "4000")) // 4
"""`make soak` asks for more."""
DEADLINE = 120
TURNS = 5000
"""Turns of the loop within which every answer is received."""
URL_SENT = URL("http://example.com:8000/a%20b/c?d=e%26f&g=%C3%A9")
TEXT = b'{"jsonrpc":"2.0","id":1,"result":{}}'
LONG = bytes(range(256)) * 1200


class Wire(asyncio.Transport):
    """A connection in memory: it answers what is written with pieces of bytes, and ends if it is to end."""

    def __init__(self, pieces: list[bytes], *, ends: bool) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.pieces = list(pieces)
        self.ends = ends
        self.written = b""
        self.protocol: Any = None
        self.is_paused = self.is_lost = self.is_ending = False

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def write(self, data: Any) -> None:
        if not self.written:
            self.loop.call_soon(self.deliver)
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def deliver(self) -> None:
        if self.is_paused or self.is_ending:
            return
        if self.pieces:
            feed(self.protocol, self.pieces.pop(0))
            self.loop.call_soon(self.deliver)
        elif self.ends:
            self.protocol.eof_received()
            self.close()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self.loop.call_soon(self.deliver)

    def is_closing(self) -> bool:
        return self.is_ending

    def close(self) -> None:
        if not self.is_ending:
            self.is_ending = True
            self.loop.call_soon(self.lose)

    abort = close

    def lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.protocol.connection_lost(None)


def feed(protocol: Any, data: bytes) -> None:
    if not isinstance(protocol, asyncio.BufferedProtocol):
        protocol.data_received(data)
        return
    while data:
        buffer = protocol.get_buffer(-1)
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]


class Wired(aiohttp.BaseConnector):
    """A connector whose connections are wires."""

    allowed_protocol_schema_set = frozenset({"http"})

    def __init__(self, pieces: list[bytes], *, ends: bool) -> None:
        super().__init__()
        self._wired = pieces, ends
        self.wires: list[Wire] = []

    async def _create_connection(self, req, traces, timeout):
        pieces, ends = self._wired
        wire = Wire(pieces, ends=ends)
        self.wires.append(wire)
        protocol = self._factory()
        wire.set_protocol(protocol)
        protocol.connection_made(wire)
        return protocol


Outcome = tuple[int, list[tuple[str, str]], bytes] | str


async def outcome(response: Any) -> Outcome:
    body = b""
    while not response.content.at_eof():
        body += await response.content.readany()
    # aiohttp keeps the space in "Name : value", although it reads the body as the name without the space says.
    headers = sorted((name.lower().rstrip(" "), value) for name, value in response.headers.items())
    return response.status, headers, body


async def within_turns(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    task = asyncio.create_task(work)
    for _ in range(TURNS):
        if task.done():
            return task.result()
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return "hangs"


async def outcome_of(sending: Awaitable[Any]) -> Outcome:
    """Return what a request brings, or its error."""
    try:
        response = await sending
        try:
            return await outcome(response)
        finally:
            response.close()
    except (aiohttp.ClientError, OSError) as error:
        return f"error: {error!r}"


async def by_aiohttp(pieces: list[bytes], method: str = "POST", *, ends: bool = True) -> Outcome:
    session = aiohttp.ClientSession(
        connector=Wired(pieces, ends=ends),
        max_field_size=65_536,
        max_line_size=65_536,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    async with session:
        return await outcome_of(session.request(method, URL_SENT, data=b"{}", allow_redirects=False))


async def by_connection(pieces: list[bytes], method: str = "POST", *, ends: bool = True) -> Outcome:
    connector = Wired(pieces, ends=ends)
    pool = ConnectionPool(connector, URL_SENT, ssl=True, connect_timeout=DEADLINE, keep_alive=4)
    try:
        return await outcome_of(pool.request(method, URL_SENT, {}, b"{}"))
    finally:
        pool.close()
        await connector.close()


def head(*lines: str, status: str = "200 OK", version: str = "1.1") -> bytes:
    return "".join(f"{line}\r\n" for line in (f"HTTP/{version} {status}", *lines, "")).encode(
        "utf-8", "surrogateescape"
    )


def sized(body: bytes, *lines: str, status: str = "200 OK", version: str = "1.1") -> bytes:
    return head(*lines, f"Content-Length: {len(body)}", status=status, version=version) + body


def chunked(*pieces: bytes, lines: tuple[str, ...] = (), extension: bytes = b"", trailers: bytes = b"") -> bytes:
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces)
    return head("Transfer-Encoding: chunked", *lines) + chunks + b"0\r\n" + trailers + b"\r\n"


def deflated(data: bytes, bits: int) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


JSON, GZIP, DEFLATE = "Content-Type: application/json", "Content-Encoding: gzip", "Content-Encoding: deflate"
ANSWERS = {
    "json": sized(TEXT, JSON, "Date: now", "X-Twice: a", "x-twice: b", "X-Space:  a b \t"),
    "text that is no ascii": sized(TEXT, "X-Name: é", "X-Raw: \udcff"),
    "empty": sized(b"", JSON),
    "accepted": sized(b"", status="202 Accepted"),
    "no content": head("Server: s", status="204 No Content"),
    "not modified": head("Content-Length: 5", status="304 Not Modified"),
    "no reason": sized(TEXT, status="200"),
    "refusal": sized(b"no", status="503 Busy", version="1.1"),
    "http 1.0": sized(TEXT, version="1.0"),
    "http 1.0 until the end": head(JSON, version="1.0") + TEXT,
    "until the end": head(JSON) + TEXT,
    "until the end, empty": head(JSON),
    "close": sized(TEXT, "Connection: close"),
    "upgrade that is only offered": sized(TEXT, "Connection: Upgrade", "Upgrade: h2c"),
    "interim": head(status="100 Continue") + head("Link: x", status="103 Early Hints") + sized(TEXT, JSON),
    "chunked": chunked(b"data: 1\n\n", b"data: 2\n\n", lines=("Content-Type: text/event-stream",)),
    "chunked with trailers": chunked(TEXT, extension=b";a=b", trailers=b"X-Sum: 1\r\nX-Other: 2\r\n"),
    "chunked with spaces": chunked(TEXT, extension=b"  "),
    "chunked, of no chunks": chunked(),
    "other transfer coding": head("Transfer-Encoding: gzip") + b"abc",
    "lines without carriage returns": sized(TEXT, JSON).replace(b"\r\n", b"\n"),
    "folded header": head("X-Long: a", " b", "Content-Length: 0"),
    "gzip": sized(gzip.compress(TEXT, mtime=0), GZIP),
    "gzip in chunks": chunked(gzip.compress(TEXT, mtime=0), lines=("content-encoding: GZIP",)),
    "gzip twice": sized(gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0), GZIP),
    "gzip cut": sized(gzip.compress(TEXT, mtime=0)[:-9], GZIP),
    "gzip that is none": sized(TEXT, GZIP),
    "gzip of nothing": sized(b"", GZIP),
    "deflate": sized(zlib.compress(TEXT), DEFLATE),
    "raw deflate": sized(deflated(TEXT, -15), DEFLATE),
    "deflate cut": sized(zlib.compress(TEXT)[:-5], DEFLATE),
    "other encoding": sized(TEXT, "Content-Encoding: identity"),
    "length and chunks": head("Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "two lengths": head("Content-Length: 5", "Content-Length: 6") + b"abcde",
    "no length": head("Content-Length: abc") + b"abc",
    "zero byte": sized(TEXT, "X-Zero: a\0b"),
    "no chunk size": head("Transfer-Encoding: chunked") + b"zz\r\nab\r\n",
    "no http": b"SSH-2.0-OpenSSH\r\n\r\n",
    "nothing": b"",
    "too short": head("Content-Length: 100") + TEXT,
    "chunked, cut": chunked(TEXT)[:-5],
    "head, cut": head(JSON)[:-2],
}


def same(ours: Outcome, theirs: Outcome) -> bool:
    """Tell whether both received the same, or neither; aiohttp waits for ever for some bodies that are malformed."""
    return ours != "hangs" and (ours == theirs or (isinstance(ours, str) and isinstance(theirs, str)))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_connection_receives_what_aiohttp_receives(name):
    answer = ANSWERS[name]

    async def compare() -> None:
        async with asyncio.timeout(DEADLINE):
            expected = await within_turns(by_aiohttp([answer]))
            cuts = [[answer], [answer[at : at + 1] for at in range(len(answer))]]
            cuts += [[answer[:at], answer[at:]] for at in range(1, len(answer))]
            for pieces in cuts:
                theirs, ours = await within_turns(by_aiohttp(pieces)), await within_turns(by_connection(pieces))
                assert type(theirs) is type(expected)
                assert same(ours, theirs), (pieces, ours, theirs)

    asyncio.run(compare())


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_a_long_body_is_the_one_that_aiohttp_receives(encoding):
    body = {"": LONG, "gzip": gzip.compress(LONG), "deflate": zlib.compress(LONG)}[encoding]
    bomb = {"": b"0" * 10**6, "gzip": gzip.compress(b"0" * 10**7), "deflate": zlib.compress(b"0" * 10**7)}[encoding]
    lines = (f"Content-Encoding: {encoding}",) if encoding else ()
    answers = [sized(body, *lines), sized(bomb, *lines), chunked(body[:1000], body[1000:], lines=lines)]

    async def compare() -> None:
        async with asyncio.timeout(DEADLINE):
            for answer in answers:
                for size in (1000, 65_536, len(answer)):
                    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
                    ours = await by_connection(pieces)
                    assert ours[0] == 200
                    assert ours == await by_aiohttp(pieces)

    asyncio.run(compare())


GRAINS = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b":",
    b" ",
    b"\t",
    b"\xff",
    b"0",
    b"-1",
    b"f" * 20,
    b"HTTP/1.1 100 x\r\n",
]


def mutated(answer: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(answer) + 1)
        match chance.randrange(4):
            case 0:
                answer = answer[:at] + chance.choice(GRAINS) + answer[at:]
            case 1:
                answer = answer[:at] + answer[at + chance.randrange(1, 8) :]
            case 2:
                answer = answer[:at] + chance.randbytes(1) + answer[at + 1 :]
            case _:
                answer = answer[:at]
    return answer


def split(answer: bytes, chance: random.Random) -> list[bytes]:
    ends = sorted(chance.randrange(len(answer) + 1) for _ in range(chance.randrange(4)))
    return [piece for piece in (answer[a:b] for a, b in zip([0, *ends], [*ends, len(answer)], strict=True)) if piece]


async def has_surplus(answer: bytes, ours: Outcome) -> bool:
    """Tell whether bytes follow the answer, which aiohttp does not return if they come with its last bytes."""
    return any([ours == await by_aiohttp([answer[:end]]) for end in range(len(answer))])


def test_a_malformed_answer_is_an_error_unless_it_is_the_same_to_aiohttp():
    chance = random.Random(7)
    counts = {"same": 0, "errors": 0, "stricter": 0}
    answers = [*ANSWERS.values()]

    async def compare() -> None:
        for _ in range(ROUNDS):
            pieces = split(mutated(chance.choice(answers), chance), chance)
            async with asyncio.timeout(DEADLINE):
                theirs, ours = await within_turns(by_aiohttp(pieces)), await within_turns(by_connection(pieces))
            if isinstance(ours, str) and ours != "hangs":
                # httptools has a later parser than aiohttp, which refuses a little more.
                counts["errors" if isinstance(theirs, str) else "stricter"] += 1
            else:
                assert same(ours, theirs) or await has_surplus(b"".join(pieces), ours), (pieces, ours, theirs)
                counts["same"] += 1

    asyncio.run(compare())
    assert min(counts["same"], counts["errors"]) > ROUNDS // 10
    assert counts["stricter"] < ROUNDS // 100


HEADERS = [
    {},
    {"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "mine", "Accept-Encoding": "br"},
    {"host": "elsewhere", "X-A": "b", "x-name": "é", "X-Tab": "a\tb", "X-Empty": ""},
    CIMultiDict([("X-Twice", "a"), ("X-Twice", "b"), ("Connection", "close")]),
]


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize(
    "url", ["http://example.com/", "http://example.com:8000/a%20b/é?c=d%26e", "http://[::1]:8000/mcp", "http://h.x."]
)
def test_a_request_has_the_lines_of_aiohttps_requests(headers, method, url):
    async def compare() -> None:
        body = b"{}" if method == "POST" else None
        theirs, ours = (Wired([ANSWERS["json"]], ends=True) for _ in range(2))
        async with asyncio.timeout(DEADLINE), aiohttp.ClientSession(connector=theirs) as session:
            async with session.request(method, URL(url), data=body, headers=headers):
                pass
            pool = ConnectionPool(ours, URL(url), ssl=True, connect_timeout=DEADLINE, keep_alive=4)
            await pool.request(method, URL(url), headers, body)
            pool.close()
            await ours.close()
        (sent,), (expected,) = ours.wires, theirs.wires
        assert sent.written.split(b"\r\n")[0] == expected.written.split(b"\r\n")[0]
        assert sorted(sent.written.split(b"\r\n")) == sorted(expected.written.split(b"\r\n"))

    asyncio.run(compare())


@pytest.mark.parametrize("headers", [{"X": f"a{chr(code)}b"} for code in (0, 8, 10, 13, 31, 127)] + [{"X\r\nY": "a"}])
def test_a_header_with_a_control_character_is_sent_by_neither(headers):
    async def compare() -> None:
        theirs, ours = (Wired([ANSWERS["json"]], ends=True) for _ in range(2))
        async with asyncio.timeout(DEADLINE), aiohttp.ClientSession(connector=theirs) as session:
            with pytest.raises(ValueError, match="control character"):
                await session.post(URL_SENT, data=b"{}", headers=headers)
            pool = ConnectionPool(ours, URL_SENT, ssl=True, connect_timeout=DEADLINE, keep_alive=4)
            with pytest.raises(ValueError, match="control character"):
                await pool.request("POST", URL_SENT, headers, b"{}")
            pool.close()
            await ours.close()
        assert not [wire for wire in (*ours.wires, *theirs.wires) if wire.written]

    asyncio.run(compare())
