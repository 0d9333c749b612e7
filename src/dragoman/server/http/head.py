"""`Guard` and `HeadReader`: check the host and the origin of an HTTP request, and parse its headers.

`Guard` checks `Host` and `Origin`. A web page can make a browser send requests to a server on the same machine, under a
host name that resolves to that machine (DNS rebinding). A server on a loopback address therefore serves only requests
whose host is a loopback name or an allowed host. Every server refuses a page whose origin differs from the host, unless
the author allowed the origin. Responses to an allowed page carry the CORS headers that the browser requires.

`HeadReader` parses the headers of an exchange into a `RequestHead`. Most requests of a client have the same headers, so
`HeadReader` caches recent heads by their headers. The cache is bounded, and long headers are not cached.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from dragoman.errors import DefinitionError, InsecureUrl, InvalidRequest
from dragoman.protocol import headers as mcp_headers
from dragoman.protocol import statuses
from dragoman.protocol.eras import Caller
from dragoman.protocol.inbound import AcceptedTypes, Rejection, accepted_types, reject_media_types
from dragoman.protocol.tokens import digest
from dragoman.protocol.urls import is_loopback, origin_of
from dragoman.protocol.versions import ASSUMED_OVER_HTTP, find_version
from dragoman.server.request.call import Session
from dragoman.transports.http.exchange import Exchange, Header

MAX_HEADER_BYTES = 64 * 1024
MAX_CACHED_HEADS = 512
MAX_CACHED_BYTES = 4096
_EXPOSED = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-z:.%]+)\]|(?P<name>[^\[\]:/?#@,\s]*))(?::[0-9]*)?")
_ALLOWED_HOST = re.compile(r"\[?[0-9a-f:.%]*:[0-9a-f:.%]+\]?(:[0-9]+)?|[^\[\]:/?#@,\s*]+(:[0-9]+)?")
_ALLOWED_ORIGIN = re.compile(r"null|[a-z][a-z0-9+.-]*://[^/?#@,\s*]+/?")


class RequestHead(Struct, frozen=True):
    """The parsed headers of a request, and the results of their checks."""

    headers: mcp_headers.McpHeaders
    acceptable: AcceptedTypes
    refused: Rejection | None
    """The rejection of the request by the `Guard`, if any."""
    body_refused: Rejection | None
    """The rejection of a POST because of its media types, if any; the body is then not read."""
    cors: tuple[Header, ...]
    """The CORS headers of the response for a page of an allowed origin."""
    origin: bytes
    """The digest of the page's origin; empty if the client is not a web page."""

    def session(self, principal: str | None) -> Session:
        """Return the data of a client whose message belongs to no session: its version and principal."""
        return Session(Caller(find_version(self.headers.protocol_version) or ASSUMED_OVER_HTTP), principal=principal)


class HeadReader:
    """Parses the headers of exchanges, with a cache."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._cache: dict[object, tuple[tuple[Header, ...], RequestHead]] = {}

    def read(self, exchange: Exchange) -> RequestHead:
        """Return the head of an exchange."""
        lines = exchange.headers
        key = (exchange.bound_to, exchange.http_version, lines)
        cached = self._cache.get(key)
        if cached is None:
            cached = lines, self._read(exchange)
            if _size(lines) <= MAX_CACHED_BYTES:
                if len(self._cache) >= MAX_CACHED_HEADS:
                    self._cache.clear()
                self._cache[key] = cached
        exchange.headers, head = cached  # exchanges with the same headers share one copy
        return head

    def _read(self, exchange: Exchange) -> RequestHead:
        lines = exchange.headers
        headers = mcp_headers.read(lines)
        refused = self._guard.refuse(lines, exchange.bound_to, exchange.http_version)
        cors = self._guard.cors_headers(lines) if refused is None else ()
        origin = digest(next(iter(_values(lines, b"origin")), None))
        return RequestHead(headers, accepted_types(headers.accept), refused, reject_media_types(headers), cors, origin)


class Guard:
    """The hosts and origins that a server accepts.

    Example:
        Guard(allowed_hosts=["mcp.example.com"], allowed_origins=["https://app.example.com"])

    A host without a port is allowed on every port. `"*"` allows every value. A string holds one value, or several that
    are separated by commas. The default of an option is the environment variable `DRAGOMAN_ALLOWED_HOSTS` or
    `DRAGOMAN_ALLOWED_ORIGINS`.

    Raises:
        DefinitionError: a value is not a host, or not an origin with its scheme.
    """

    def __init__(
        self, *, allowed_hosts: str | Iterable[str] | None = None, allowed_origins: str | Iterable[str] | None = None
    ) -> None:
        hosts = _allowed(allowed_hosts, "DRAGOMAN_ALLOWED_HOSTS")
        _require_each(hosts, _ALLOWED_HOST, 'a host, such as "mcp.example.com" or "mcp.example.com:8000"')
        # An IPv6 address is compared without its brackets, unless a port follows them.
        self._hosts = {host[1:-1] if host.startswith("[") and host.endswith("]") else host for host in hosts}
        origins = _allowed(allowed_origins, "DRAGOMAN_ALLOWED_ORIGINS")
        _require_each(origins, _ALLOWED_ORIGIN, 'an origin with its scheme, such as "https://app.example.com"')
        self._origins = {origin.rstrip("/") for origin in origins}

    def refuse(
        self, headers: Iterable[Header], bound_to: str | None, http_version: str | None = None
    ) -> Rejection | None:
        """Return the rejection of a request, or None; `bound_to` is the address that the server listens on."""
        lines = list(headers)
        size, hosts, origins = _size(lines), _values(lines, b"host"), _values(lines, b"origin")
        host = hosts[0] if hosts else None
        status = statuses.HOST_MALFORMED
        if size > MAX_HEADER_BYTES:
            status = statuses.HEADERS_TOO_LARGE
            problem = f"The headers have {size} bytes; at most {MAX_HEADER_BYTES} are accepted"
        elif len(hosts) > 1:
            problem = "The header Host is repeated; send it once"
        elif host is None and http_version == "1.1":
            problem = "The header Host is missing"
        elif host is not None and _HOST.fullmatch(host) is None:
            problem = f"The header Host is {host!r}, which is not a host with or without a port"
        elif host is not None and not self._serves_host(host, bound_to):
            status = statuses.HOST_NOT_SERVED
            problem = f"The host {host!r} is not served; add it to allowed_hosts or DRAGOMAN_ALLOWED_HOSTS"
        else:
            return self._refuse_page(origins, host)
        return Rejection(status, InvalidRequest(problem))

    def _refuse_page(self, origins: list[str], host: str | None) -> Rejection | None:
        if len(origins) > 1:
            problem = "The header Origin is repeated; a page has one origin"
        elif origins and not self._serves_origin(origins[0], host):
            remedy = "add it to allowed_origins or DRAGOMAN_ALLOWED_ORIGINS"
            problem = f"Pages of {origins[0]!r} are not served; {remedy}"
        else:
            return None
        return Rejection(statuses.ORIGIN_REFUSED, InvalidRequest(problem))

    def cors_headers(self, headers: Iterable[Header]) -> tuple[Header, ...]:
        """Return the CORS headers of a response to a page of an allowed origin; none for other requests."""
        given = dict(headers)
        origin = given.get(b"origin")
        if origin is None or not self._origins.intersection(("*", origin.decode("latin-1").strip().lower())):
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", given.get(b"access-control-request-headers", b"")),
            (b"access-control-expose-headers", _EXPOSED),
            (b"access-control-max-age", b"86400"),
            (b"vary", b"Origin, Access-Control-Request-Headers"),
        )

    def _serves_host(self, host: str, bound_to: str | None) -> bool:
        parsed = _HOST.fullmatch(host)
        name = (parsed and (parsed["address"] or parsed["name"])) or host
        if not self._hosts.isdisjoint(("*", host, name)):
            return True
        is_local = is_loopback(bound_to or "")
        return is_loopback(name) and is_local if self._hosts else is_loopback(name) or not is_local

    def _serves_origin(self, origin: str, host: str | None) -> bool:
        if not self._origins.isdisjoint(("*", origin)):
            return True
        if host is None or "@" in origin:  # an origin of a browser has no user name
            return False
        try:
            return origin_of(origin) == origin_of(f"{origin.partition(':')[0]}://{host}")
        except InsecureUrl:
            return False


def _allowed(values: str | Iterable[str] | None, variable: str) -> frozenset[str]:
    chosen = os.environ.get(variable, "") if values is None else values
    listed: list[Any] = chosen.split(",") if isinstance(chosen, str) else list(chosen)
    for value in listed:
        if not isinstance(value, str):
            option = variable.removeprefix("DRAGOMAN_").lower()
            raise DefinitionError(f"{option} must be strings, not {value!r}")
    return frozenset(value.strip().lower() for value in listed if value.strip())


def _require_each(values: Iterable[str], pattern: re.Pattern[str], expected: str) -> None:
    """Refuse a value that no request can have, such as an origin without its scheme."""
    for value in values:
        if value != "*" and pattern.fullmatch(value) is None:
            option = "allowed_hosts" if pattern is _ALLOWED_HOST else "allowed_origins"
            raise DefinitionError(
                f'{value!r} in {option}, or in DRAGOMAN_{option.upper()}, must be {expected}, or "*" for all'
            )


def _size(lines: Iterable[Header]) -> int:
    return sum(len(name) + len(value) for name, value in lines)


def _values(lines: Iterable[Header], name: bytes) -> list[str]:
    return [value.decode("latin-1").strip().lower() for given, value in lines if given == name]
