"""Strict parsing of an HTTP/1.1 request head (RFC 9112).

A proxy may read a malformed or ambiguous head in another way than a server, and so pass requests that it should stop.
So every head that could be read in two ways is refused.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from msgspec import Struct

from dragoman.protocol.statuses import MALFORMED
from dragoman.transports.http.exchange import Header

HEAD_END = b"\r\n\r\n"
NO_REQUEST_LINE = "The request line must be a method, a target and HTTP/1.1 or HTTP/1.0, with one space between them"
_LINE_END = b"\r\n"
_READ_HERE = frozenset({b"host", b"connection", b"content-length", b"transfer-encoding"})
_REQUEST_LINE = re.compile(rb"([A-Z][A-Z-]*) ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)(?:\r\n|\Z)", re.MULTILINE)
"""A line with a header; a part of a line does not match."""
_AUTHORITY = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_TARGET = re.compile(rb"(?:[a-z][a-z0-9+.-]*://[^/?#]*|(?=/))(/[^?#]*)?(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")


class MalformedRequest(Exception):
    """Bytes that are not an HTTP request; `status` and the text are those of the response."""

    def __init__(self, reason: str = "", status: int = MALFORMED) -> None:
        super().__init__(reason)
        self.status = status


class Http1Request(Struct, frozen=True):
    """The head of a request."""

    method: str
    target: bytes
    headers: tuple[Header, ...]
    """The headers, with lower-case names."""
    http_version: str
    keeps_alive: bool
    """Whether the client may send another request on the connection; never with HTTP/1.0."""
    body_size: int | None
    """The size of the body; None if the body is chunked."""


def parse_head(head: bytes) -> Http1Request:
    """Parse a head without the empty line at its end.

    Raises:
        MalformedRequest: the head is malformed or ambiguous.
    """
    line, _, lines = head.partition(_LINE_END)
    start = _REQUEST_LINE.fullmatch(line)
    if start is None:
        raise MalformedRequest(NO_REQUEST_LINE)
    fields = _FIELD.findall(lines)
    if len(fields) != lines.count(b"\n") + bool(lines):
        raise MalformedRequest
    headers = tuple([(name.lower(), value.strip(b" \t")) for name, value in fields])
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in _READ_HERE:
            values.setdefault(name, []).append(value)
    method, target, minor = start.groups()
    _check_host(target, minor, values.get(b"host", []))
    options = [part.strip(b" \t").lower() for value in values.get(b"connection", ()) for part in value.split(b",")]
    keeps_alive = minor == b"1" and b"close" not in options
    version = f"1.{minor.decode()}"
    return Http1Request(method.decode(), target, headers, version, keeps_alive, _body_size(values, minor))


def _check_host(target: bytes, minor: bytes, hosts: list[bytes]) -> None:
    if len(hosts) > 1:
        raise MalformedRequest("The header Host is repeated; send it once")
    if not hosts and minor == b"1":
        raise MalformedRequest("The header Host is missing")
    authority = _AUTHORITY.match(target)
    if authority is not None and [authority[1].lower()] != [host.lower() for host in hosts]:
        raise MalformedRequest("The request line names another host than the header Host")


def _body_size(values: dict[bytes, list[bytes]], minor: bytes) -> int | None:
    lengths = values.get(b"content-length", [])
    if b"transfer-encoding" in values:
        # No other coding can be decoded here, and a proxy may read a list in another way.
        codings = [value.lower() for value in values[b"transfer-encoding"]]
        if lengths or codings != [b"chunked"] or minor == b"0":
            raise MalformedRequest
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise MalformedRequest
    return int(lengths[0])


def path_and_query(target: bytes) -> tuple[bytes, bytes]:
    """Return the path and the query of a request target; an invalid target has a path that is not served."""
    parsed = _TARGET.fullmatch(target)
    return (b"*", b"") if parsed is None else (parsed[1] or b"/", parsed[2] or b"")


def decoded_path(target: bytes) -> str:
    """Return the path of a request target, without percent-encoding."""
    return unquote(path_and_query(target)[0].decode("latin-1"))
