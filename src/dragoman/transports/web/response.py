"""The response of a pooled connection: status, headers, and a body that is read while it arrives.

A response has what `HttpClient` uses of an `aiohttp.ClientResponse`, so that both are read by the same code. The
connection feeds it, and one reader takes what has arrived:

    waiting     the head has not arrived
    receiving   the head has arrived; pieces of the body arrive
    complete    the body has arrived whole; the connection serves other requests, or is closed
    failed      the connection broke or was closed; the reader gets what arrived before, and then the error

The connection stops reading while HIGH_BYTES wait for the reader. A body with a content encoding is decoded when it is
read, at most READ_BYTES in a turn of the loop. Decoding what arrives was rejected: a few bytes can become thousands of
times as many, and nobody could stop them.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

if TYPE_CHECKING:
    from dragoman.transports.web.connections import PooledConnection

READ_BYTES = 65_536
"""How many bytes are read from a socket, or decoded, at once."""
HIGH_BYTES = 2 * READ_BYTES
"""How many bytes may wait for the reader of a response before its connection stops reading."""
ENCODINGS = "gzip, deflate"
"""The content encodings that a request accepts."""
_GZIP_BITS, _ZLIB_BITS, _RAW_BITS = zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS
_ZLIB_METHOD, _METHOD_MASK = 8, 0xF
_OK = 200
_HEAD_END = b"\r\n\r\n"
_TYPE_SIZE, _LENGTH_SIZE, _ENCODING_SIZE = map(len, ("content-type", "content-length", "content-encoding"))
_UNDECODABLE = frozenset({"br", "zstd"})


class BodyDecoder:
    """Decodes a body in gzip or deflate.

    As aiohttp does, it accepts deflate without its header, several streams in a row, and gzip that is cut off: a server
    may end an event stream without the end of its encoding.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._bits = _GZIP_BITS if encoding == "gzip" else 0
        self._zlib = zlib.decompressobj(_GZIP_BITS)
        self._undecoded = b""
        self.has_more = False
        """Whether `decode` has more to return without further bytes."""

    def decode(self, data: bytes) -> bytes:
        """Return at most READ_BYTES decoded bytes; call it again with no bytes while there are more.

        Raises:
            aiohttp.ClientPayloadError: the bytes are not in the encoding.
        """
        data = self._undecoded + data
        if data and (not self._bits or self._zlib.eof):
            self._begin(data[0])
        try:
            decoded = self._zlib.decompress(data, READ_BYTES)
        except zlib.error as error:
            raise aiohttp.ClientPayloadError(f"Can not decode content-encoding: {self._encoding}") from error
        self._undecoded = self._zlib.unconsumed_tail or self._zlib.unused_data
        self.has_more = bool(self._undecoded) or len(decoded) == READ_BYTES
        return decoded

    def _begin(self, first_byte: int) -> None:
        if not self._bits:
            self._bits = _ZLIB_BITS if first_byte & _METHOD_MASK == _ZLIB_METHOD else _RAW_BITS
        self._zlib = zlib.decompressobj(self._bits)

    def is_cut(self) -> bool:
        """Tell whether a body that ends here was cut off."""
        return self._bits in (_ZLIB_BITS, _RAW_BITS) and not self._zlib.eof


class KnownResponse(Struct, frozen=True):
    """The head of a short response that was parsed, and what it stands for."""

    data: bytes
    fields: list[tuple[bytes, bytes]]
    body_size: int

    def begins(self, data: bytes) -> bool:
        """Tell whether bytes are one whole response with this head."""
        return len(data) == len(self.data) + self.body_size and data.startswith(self.data)


class PooledResponse:
    """A response that a pooled connection receives."""

    __slots__ = (
        "_buffered",
        "_connection",
        "_decoder",
        "_eof_callbacks",
        "_error",
        "_fields",
        "_headers",
        "_is_complete",
        "_pieces",
        "_reader",
        "_rest",
        "_sent",
        "method",
        "on_end",
        "status",
        "url",
    )

    def __init__(self, connection: PooledConnection, method: str, url: URL, sent: Mapping[str, str]) -> None:
        self.status = 0
        self.method = method
        self.url = url
        self._sent = sent
        self._fields: list[tuple[bytes, bytes]] = []
        self._headers: CIMultiDictProxy[str] | None = None
        self._connection: PooledConnection | None = connection
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._rest = b""
        """Decoded bytes that a reader left, because it wanted fewer."""
        self._decoder: BodyDecoder | None = None
        self._reader: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._is_complete = False
        self._eof_callbacks: list[Callable[[], None]] | None = None
        self.on_end: Callable[[], None] | None = None
        """Called when the body has ended, whole or by an error."""

    @property
    def content(self) -> PooledResponse:
        """The body."""
        return self

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """The headers; most responses are read without them."""
        if self._headers is None:
            self._headers = CIMultiDictProxy(CIMultiDict([(_text(name), _text(value)) for name, value in self._fields]))
        return self._headers

    @property
    def content_type(self) -> str:
        """The media type in lower case, without its parameters."""
        given = self._field(b"content-type")
        return "application/octet-stream" if given is None else _media_type(given)

    @property
    def content_length(self) -> int | None:
        """The length that the head names."""
        given = self._field(b"content-length")
        return None if given is None else int(given)

    def _field(self, wanted: bytes) -> bytes | None:
        size = len(wanted)
        for name, value in self._fields:
            if len(name) == size and name.lower() == wanted:
                return value
        return None

    @property
    def request_info(self) -> aiohttp.RequestInfo:
        """The request, with the headers that were given for it."""
        return aiohttp.RequestInfo(self.url, self.method, CIMultiDictProxy(CIMultiDict(self._sent)), self.url)

    # Called by the connection.

    def receive_head(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        """Take the head.

        Raises:
            aiohttp.ClientPayloadError: the body has an encoding that the request does not accept.
        """
        self.status, self._fields = status, fields
        for name, value in fields:
            if len(name) == _ENCODING_SIZE and name.lower() == b"content-encoding":
                self._receive_encoding(_text(value).lower())
                return

    def _receive_encoding(self, encoding: str) -> None:
        if encoding in _UNDECODABLE:
            raise aiohttp.ClientPayloadError(f"Can not decode content-encoding: {encoding}")
        if encoding in ("gzip", "deflate"):
            self._decoder = BodyDecoder(encoding)

    def receive_body(self, data: bytes) -> bool:
        """Take a piece of the body, and tell whether the connection is to stop reading."""
        self._pieces.append(data)
        self._buffered += len(data)
        if self._reader is not None:
            self._wake_reader()
        return self._buffered > HIGH_BYTES

    def complete(self) -> None:
        """Take the end of the body."""
        self._is_complete, self._connection = True, None
        if self._reader is not None:
            self._wake_reader()
        if self._eof_callbacks is not None:
            callbacks, self._eof_callbacks = self._eof_callbacks, None
            for callback in callbacks:
                callback()
        if self.on_end is not None:
            self.on_end()

    def fail(self, error: Exception) -> None:
        """End the body by an error, unless it is complete or has failed before."""
        self._connection = self._eof_callbacks = None
        if not self._is_complete and self._error is None:
            self._error = error
        if self._reader is not None:
            self._wake_reader()
        if self.on_end is not None:
            self.on_end()

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def is_short(self, kind: str, limit: int) -> bool:
        """Tell whether the status is 200, and the head names this media type, no encoding, and no greater length."""
        length, given = limit + 1, b""
        for name, value in self._fields:
            size = len(name)
            if size == _TYPE_SIZE and name.lower() == b"content-type":
                given = value
            elif size == _LENGTH_SIZE and name.lower() == b"content-length":
                length = int(value)
        return length <= limit and _media_type(given) == kind and self.status == _OK and self._decoder is None

    def receive_known(self, head: KnownResponse, data: bytes) -> None:
        """Take a whole response that has a known head; `complete` follows."""
        self.status, self._fields = _OK, head.fields
        self._pieces.append(data[len(head.data) :])

    def known_head(self, data: bytes) -> KnownResponse | None:
        """Return the head of this complete response, if these bytes are the response, and its body is short."""
        size = self.content_length or 0
        head = data[: len(data) - size]
        is_whole = head.endswith(_HEAD_END) and head.find(_HEAD_END) == len(head) - len(_HEAD_END)
        return KnownResponse(head, self._fields, size) if is_whole and len(self._pieces) == 1 else None

    # Called by the reader.

    @property
    def whole(self) -> bytes | None:
        """The body, which stays unread; None if it has not arrived whole, or is encoded."""
        return b"".join(self._pieces) if self._is_complete and self._decoder is None else None

    def close(self) -> None:
        """Close the connection, unless the response is complete; the reader gets an error."""
        connection = self._connection
        if connection is not None:
            self._pieces.clear()
            connection.abort(aiohttp.ClientConnectionError("Connection closed"))

    def is_eof(self) -> bool:
        """Tell whether the whole body has arrived."""
        return self._is_complete

    def at_eof(self) -> bool:
        """Tell whether the whole body was read."""
        if not self._is_complete or self._pieces or self._rest or self._error is not None:
            return False
        return self._decoder is None or not (self._decoder.has_more or self._decoder.is_cut())

    def on_eof(self, callback: Callable[[], None]) -> None:
        """Call a function when the whole body has arrived."""
        if self._eof_callbacks is None:
            self._eof_callbacks = []
        self._eof_callbacks.append(callback)

    async def readany(self) -> bytes:
        """Return what has arrived, empty at the end.

        Raises:
            aiohttp.ClientError: the connection broke, or the body is not in its encoding.
        """
        while True:
            decoder = self._decoder
            if decoder is not None and decoder.has_more:
                await asyncio.sleep(0)  # a few bytes can become very many: other tasks and time-outs get their turn
            if self._pieces or self._rest or (decoder is not None and decoder.has_more):
                if data := self._take():
                    return data
            elif self._error is not None:
                raise self._error
            elif self._is_complete:
                if decoder is not None and decoder.is_cut():
                    raise aiohttp.ClientPayloadError("The body in deflate is cut off")
                return b""
            else:
                self._reader = asyncio.get_running_loop().create_future()
                await self._reader

    async def read(self, n: int = -1) -> bytes:
        """Return at most `n` bytes of what has arrived, empty at the end."""
        data = await self.readany()
        if 0 <= n < len(data):
            data, self._rest = data[:n], data[n:]
        return data

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Return the pieces of the body as they arrive."""
        while data := await self.readany():
            yield data

    def _take(self) -> bytes:
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._buffered = 0
        if self._decoder is not None:
            data = self._decoded(self._decoder, data)
        if self._connection is not None and (self._decoder is None or not self._decoder.has_more):
            self._connection.resume_reading()
        return data

    def _decoded(self, decoder: BodyDecoder, data: bytes) -> bytes:
        try:
            return decoder.decode(data)
        except aiohttp.ClientPayloadError as error:
            decoder.has_more = False
            self._error = error
            if self._connection is not None:
                self._connection.abort(error)
            return b""


def _text(field: bytes) -> str:
    """Return a name or a value without the spaces after it, which the parser leaves."""
    return field.rstrip(b" \t").decode("utf-8", "surrogateescape")


@lru_cache(maxsize=128)
def _media_type(given: bytes) -> str:
    kind = _text(given).partition(";")[0].strip().lower()
    return kind if kind.count("/") == 1 else "text/plain"
