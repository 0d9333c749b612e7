"""Strict parsing of an HTTP/1.1 request head (RFC 9112).

A proxy may read a malformed or ambiguous head in another way than a server, and so pass requests that it should stop.
So every head that could be read in two ways is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from dragoman.protocol.statuses import MALFORMED
from dragoman.transports.http.exchange import Header

HEAD_END = b"\r\n\r\n"
_REQUEST_LINE = re.compile(rb"([A-Z-]+) ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_AUTHORITY = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_TARGET = re.compile(rb"(?:[a-z][a-z0-9+.-]*://[^/?#]*|(?=/))(/[^?#]*)?(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")


class MalformedRequest(Exception):
    """Bytes that are not an HTTP request; `status` and the text are those of the response."""

    def __init__(self, reason: str = "", status: int = MALFORMED) -> None:
        super().__init__(reason)
        self.status = status


class Http1Request(NamedTuple):
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
    first, *lines = head.split(b"\r\n")
    start = _REQUEST_LINE.fullmatch(first)
    if start is None:
        raise MalformedRequest(
            "The request line must be a method, a target and HTTP/1.1 or HTTP/1.0, with one space between them"
        )
    fields = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise MalformedRequest
        fields.append((field[1].lower(), field[2].strip(b" \t")))
    method, target, minor = start.groups()
    _check_host(target, minor, _values(fields, b"host"))
    keeps_alive = minor == b"1" and b"close" not in _listed(fields, b"connection")
    version = f"1.{minor.decode()}"
    return Http1Request(method.decode(), target, tuple(fields), version, keeps_alive, _body_size(fields))


def _check_host(target: bytes, minor: bytes, hosts: list[bytes]) -> None:
    if len(hosts) > 1:
        raise MalformedRequest("The header Host is repeated; send it once")
    if not hosts and minor == b"1":
        raise MalformedRequest("The header Host is missing")
    authority = _AUTHORITY.match(target)
    if authority is not None and [authority[1].lower()] != [host.lower() for host in hosts]:
        raise MalformedRequest("The request line names another host than the header Host")


def _body_size(fields: list[Header]) -> int | None:
    lengths, codings = _values(fields, b"content-length"), _listed(fields, b"transfer-encoding")
    if codings and (lengths or codings[-1] != b"chunked" or codings.count(b"chunked") > 1):
        raise MalformedRequest
    if len(lengths) > 1 or any(_LENGTH.fullmatch(length) is None for length in lengths):
        raise MalformedRequest
    return None if codings else int(lengths[0]) if lengths else 0


def _values(fields: list[Header], name: bytes) -> list[bytes]:
    return [value for other, value in fields if other == name]


def _listed(fields: list[Header], name: bytes) -> list[bytes]:
    """Return the elements of a header whose value is a list separated by commas, in lower case."""
    return [part.strip(b" \t").lower() for value in _values(fields, name) for part in value.split(b",")]


def path_and_query(target: bytes) -> tuple[bytes, bytes]:
    """Return the path and the query of a request target; an invalid target has a path that is not served."""
    parsed = _TARGET.fullmatch(target)
    return (b"*", b"") if parsed is None else (parsed[1] or b"/", parsed[2] or b"")


def decoded_path(target: bytes) -> str:
    """Return the path of a request target, without percent-encoding."""
    return unquote(path_and_query(target)[0].decode("latin-1"))
