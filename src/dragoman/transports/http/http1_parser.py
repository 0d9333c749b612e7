"""`Http1Parser`: turns the bytes of an HTTP/1.1 connection into parts of requests, without I/O.

The parser is in one of these states:

    head       waits for the head of a request
    body       in a body with a length
    size       in a chunked body, waits for the line with the size of a chunk
    data       in the data of a chunk
    data_end   waits for the line end behind the data of a chunk
    trailers   waits for the fields behind the last chunk, which are dropped
    stopped    after the last request, or after an error; further bytes are dropped

`receive` takes bytes, and `next_part` returns what arrived of one request: a whole request, if it arrived at once. The
caller decides when it asks for the next part: while it does not, pipelined requests wait as bytes.

An offer to upgrade the connection to another protocol is ignored, as a server may do. Bytes behind such a head are the
body of the request.

Rejected: httptools. It accepts more than HTTP allows and does not tell where a message ends, so each head and the
framing of each chunk had to be parsed a second time before it got the bytes. It also takes the body of a request that
offers an upgrade for bytes of the other protocol.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from dragoman.protocol.states import Transitions
from dragoman.protocol.statuses import HEADERS_TOO_LARGE
from dragoman.transports.http.http1_head import (
    HEAD_END,
    NO_REQUEST_LINE,
    Http1Request,
    MalformedRequest,
    parse_head,
)

MAX_HEAD_BYTES = 131_072
"""More than the service accepts, so that the service refuses a head that is slightly too large, with its reason."""
MAX_FRAMING = 16
"""How many bytes of chunk framing a client may send for each byte of a body, beyond MAX_HEAD_BYTES."""
_LINE_END = b"\r\n"
_BLANK_LINES = re.compile(rb"(?:\r\n)*")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_TRAILER = re.compile(rb"[^\x00-\x20\x7f:]+:[^\x00-\x08\x0a-\x1f\x7f]*")

ParserState = Literal["head", "body", "size", "data", "data_end", "trailers", "stopped"]
ParserStep = Literal["length", "chunked", "chunk", "last_chunk", "data_end", "end", "stop"]
PARSER_LIFE: Transitions[ParserState, ParserStep] = Transitions(
    {
        "head": {"length": "body", "chunked": "size", "stop": "stopped"},
        "body": {"end": "head", "stop": "stopped"},
        "size": {"chunk": "data", "last_chunk": "trailers", "stop": "stopped"},
        "data": {"data_end": "data_end", "stop": "stopped"},
        "data_end": {"end": "size", "stop": "stopped"},
        "trailers": {"end": "head", "stop": "stopped"},
        "stopped": {"stop": "stopped"},
    }
)
_BETWEEN_REQUESTS: frozenset[ParserState] = frozenset({"head", "stopped"})


class RequestPart(Struct, frozen=True):
    """A part of a request: as much of one request as arrived."""

    head: Http1Request | None
    """The head, in the first part of the request."""
    data: bytes
    """A part of the body."""
    is_last: bool
    """Whether the request is complete."""


class Http1Parser:
    """Parses the requests of one connection."""

    def __init__(self) -> None:
        self.state: ParserState = "head"
        self._bytes = bytearray()
        """The received bytes; those that are not parsed yet begin at `_at`."""
        self._at = 0
        self._searched = 0
        """How many of the bytes were searched for the end of the current head or line, without success."""
        self._body_left = 0
        """How many bytes of the body, or of the data of the chunk, are missing."""
        self._body_bytes = self._framing_bytes = 0
        """How many bytes of data and of framing the chunked body had so far."""
        self._keeps_alive = True

    @property
    def has_unparsed(self) -> bool:
        """Whether bytes wait to be parsed."""
        return self._at < len(self._bytes)

    @property
    def is_stopped(self) -> bool:
        """Whether no further part follows."""
        return self.state == "stopped"

    def receive(self, data: bytes) -> None:
        """Receive bytes."""
        del self._bytes[: self._at]
        self._searched = max(0, self._searched - self._at)
        self._at = 0
        self._bytes += data

    def stop(self) -> None:
        """Parse nothing any more."""
        self._move("stop")
        self._bytes.clear()
        self._at = self._searched = 0

    def next_part(self) -> RequestPart | None:
        """Return the next part of a request, or None if it needs more bytes.

        Raises:
            MalformedRequest: the bytes are not HTTP; the parser stops.
        """
        try:
            head = self._parse_head() if self.state == "head" else None
            if self.state in _BETWEEN_REQUESTS:
                return None
            data = self._take_body() if self.state == "body" else self._take_chunks()
        except MalformedRequest:
            self.stop()
            raise
        is_last = self.state in _BETWEEN_REQUESTS
        return RequestPart(head, data, is_last) if head is not None or data or is_last else None

    def _move(self, step: ParserStep) -> None:
        self.state = PARSER_LIFE[self.state, step]

    def _parse_head(self) -> Http1Request | None:
        blank = _BLANK_LINES.match(self._bytes, self._at)
        at = self._at = self._at if blank is None else blank.end()
        start = self._bytes[at : at + len(_LINE_END)]
        if start and start != b"\r" and not start[:1].isupper():
            raise MalformedRequest(NO_REQUEST_LINE)
        end = self._find(HEAD_END)
        after = len(self._bytes) if end < 0 else end + len(HEAD_END)
        if after - at > MAX_HEAD_BYTES:
            raise MalformedRequest(status=HEADERS_TOO_LARGE)
        if end < 0:
            return None
        self._at = after
        request = parse_head(bytes(self._bytes[at:end]))
        self._keeps_alive = request.keeps_alive
        self._body_left = request.body_size or 0
        self._body_bytes = self._framing_bytes = 0
        self._move("chunked" if request.body_size is None else "length")
        return request

    def _take_body(self) -> bytes:
        data = self._take_data()
        if not self._body_left:
            self._end_request()
        return data

    def _take_data(self) -> bytes:
        data = bytes(self._bytes[self._at : self._at + self._body_left])
        self._at += len(data)
        self._body_left -= len(data)
        return data

    def _take_chunks(self) -> bytes:
        """Return the data of all chunks that arrived."""
        data = bytearray()
        before: ParserState | None = None
        while self.state != before:
            before = self.state
            match self.state:
                case "size":
                    self._parse_size()
                case "data":
                    data += self._take_chunk()
                case "data_end":
                    self._parse_data_end()
                case "trailers":
                    self._parse_trailers()
        return bytes(data)

    def _take_chunk(self) -> bytes:
        data = self._take_data()
        self._body_bytes += len(data)
        if not self._body_left:
            self._move("data_end")
        return data

    def _parse_size(self) -> None:
        line = self._take_line()
        if line is None:
            return
        size = _SIZE.fullmatch(line)
        if size is None:
            raise MalformedRequest
        self._body_left = int(size[1], 16)
        self._move("chunk" if self._body_left else "last_chunk")

    def _parse_data_end(self) -> None:
        line_end = bytes(self._bytes[self._at : self._at + len(_LINE_END)])
        if not _LINE_END.startswith(line_end):
            raise MalformedRequest
        if line_end == _LINE_END:
            self._at += len(_LINE_END)
            self._framing_bytes += len(_LINE_END)
            self._move("end")

    def _parse_trailers(self) -> None:
        while line := self._take_line():
            if _TRAILER.fullmatch(line) is None:
                raise MalformedRequest
        if line is not None:
            self._end_request()

    def _take_line(self) -> bytes | None:
        """Return the next line of the framing of a chunked body, or None if it is incomplete."""
        at, end = self._at, self._find(_LINE_END)
        after = len(self._bytes) if end < 0 else end + len(_LINE_END)
        size = after - at
        if size > MAX_HEAD_BYTES or self._framing_bytes + size > MAX_HEAD_BYTES + MAX_FRAMING * self._body_bytes:
            raise MalformedRequest
        if end < 0:
            return None
        self._at = after
        self._framing_bytes += size
        return bytes(self._bytes[at:end])

    def _find(self, line_end: bytes) -> int:
        """Find the end of a head or a line, without a second search of the same bytes."""
        place = self._bytes.find(line_end, max(self._at, self._searched + 1 - len(line_end)))
        self._searched = len(self._bytes) if place < 0 else 0
        return place

    def _end_request(self) -> None:
        self._move("end")
        if not self._keeps_alive:
            self.stop()
