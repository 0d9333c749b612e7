"""What the headers of a request say, and whether they let it in; found once for headers that come again and again.

A client sends the same headers with most of its requests, so what was found for some is kept for the next that has
exactly the same. What is kept is bounded, and long headers are not kept.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.protocol import eras, headers
from dragoman.protocol.inbound import AcceptedTypes, Rejection, accepted_types, reject_media_types
from dragoman.protocol.tokens import digest
from dragoman.protocol.versions import ASSUMED_OVER_HTTP, find_version
from dragoman.server.http.guard import Guard
from dragoman.transports.http.exchange import Exchange, Header

MOST_KEPT = 512
LONGEST_KEPT = 4096


class RequestHead(Struct, frozen=True):
    """What the headers of a request come to."""

    sent: headers.McpHeaders
    taken: AcceptedTypes
    barred: Rejection | None
    unreadable: Rejection | None
    """Why the body would not be read, if there is one."""
    grants: tuple[Header, ...]
    origin: bytes
    """The fingerprint of the page's origin; empty if it is no page that asks."""


class HeadReader:
    """Reads the headers of requests."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._kept: dict[object, RequestHead] = {}

    def admit(self, exchange: Exchange) -> RequestHead:
        """Return what the headers of an exchange come to."""
        given = exchange.given_headers = tuple(exchange.given_headers)
        key = (exchange.bound_to, exchange.http_version, given)
        try:
            found = self._kept.get(key)
        except TypeError:
            # ASGI servers may give lists where others give tuples.
            return self._read(given, exchange)
        if found is None:
            found = self._read(given, exchange)
            if sum(len(name) + len(value) for name, value in given) <= LONGEST_KEPT:
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = found
        return found

    def _read(self, given: tuple[Header, ...], exchange: Exchange) -> RequestHead:
        lines = [(name.lower(), value) for name, value in given]
        sent = headers.read(lines)
        barred = self._guard.refuse(lines, exchange.bound_to, exchange.http_version)
        grants = self._guard.grants(lines) if barred is None else ()
        origin = next((value for name, value in lines if name == b"origin"), None)
        page = digest(None if origin is None else origin.decode("latin-1").strip().lower())
        return RequestHead(sent, accepted_types(sent.accept), barred, reject_media_types(sent), grants, page)


def caller_of(sent: headers.McpHeaders) -> eras.Caller:
    """Return who sends a message that stands alone, as far as its headers say."""
    return eras.Caller(find_version(sent.protocol_version) or ASSUMED_OVER_HTTP)
