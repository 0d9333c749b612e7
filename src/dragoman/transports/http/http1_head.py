"""Checks of an HTTP/1.1 request head that the parser does not make (RFC 9112)."""

from __future__ import annotations

import re

import httptools

HEAD_END = b"\r\n\r\n"
_REQUEST_LINE = re.compile(rb"[A-Z-]+ (\S+) HTTP/1\.([01])\r\n")
_HOST = re.compile(rb"\r\nhost:[ \t]*([^\r\n]*)", re.IGNORECASE)
_AUTHORITY = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)


def problem_of(head: bytes) -> str | None:
    """Return the reason to refuse a head, or None.

    A proxy may read such a head in another way, and so pass requests that it should stop.
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        return "The request line must be a method, a target and HTTP/1.1 or HTTP/1.0, with one space between them"
    target, minor = line.groups()
    hosts = _HOST.findall(head)
    if len(hosts) > 1:
        return "The header Host is repeated; send it once"
    if not hosts and minor == b"1":
        return "The header Host is missing"
    authority = _AUTHORITY.match(target)
    if authority is not None and [authority[1].lower()] != [host.strip().lower() for host in hosts]:
        return "The request line names another host than the header Host"
    return None


def path_and_query(target: bytes) -> tuple[bytes, bytes]:
    """Return the path and the query of a request target; an invalid target has a path that is not served."""
    try:
        parsed = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return b"*", b""
    return parsed.path or b"/", parsed.query or b""
