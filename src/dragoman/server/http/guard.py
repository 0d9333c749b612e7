"""Who may reach a server over HTTP: the checks of `Host` and `Origin` that keep web pages away from local servers.

A page of anywhere can make a browser send requests to a server on this machine, by a name that it points here
(DNS rebinding). So a server that listens on a loopback address serves only requests that name one, or that name a host
which the author allowed; and no server serves a page of another origin that was not allowed. A page that was allowed
also gets the headers without which its browser would keep the response from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from dragoman.errors import DefinitionError, InsecureUrl, InvalidRequest
from dragoman.protocol.inbound import BAD_REQUEST, Rejection
from dragoman.protocol.urls import is_loopback, origin_of

FORBIDDEN, MISDIRECTED, HEADERS_TOO_LARGE = 403, 421, 431
MOST_HEADER_BYTES = 64 * 1024
_EXPOSED = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-z:.%]+)\]|(?P<name>[^\[\]:/?#@,\s]*))(?::[0-9]*)?")


class Guard:
    """The hosts and origins that are served.

    Example:
        Guard(allowed_hosts=["mcp.example.com"], allowed_origins=["https://app.example.com"])

    A host without a port is allowed on any port. `"*"` allows everything. One string is one value, or several that are
    separated by commas. What is None comes from the environment: `DRAGOMAN_ALLOWED_HOSTS` and
    `DRAGOMAN_ALLOWED_ORIGINS`.

    Raises:
        DefinitionError: a value is no string.
    """

    def __init__(
        self, *, allowed_hosts: str | Iterable[str] | None = None, allowed_origins: str | Iterable[str] | None = None
    ) -> None:
        self._hosts = {_bare(host) for host in _given(allowed_hosts, "DRAGOMAN_ALLOWED_HOSTS")}
        self._origins = {origin.rstrip("/") for origin in _given(allowed_origins, "DRAGOMAN_ALLOWED_ORIGINS")}

    def refuse(
        self, headers: Iterable[tuple[bytes, bytes]], bound_to: str | None, http_version: str | None = None
    ) -> Rejection | None:
        """Return why a request is refused, or None; `bound_to` is the address that the server listens on."""
        hosts: list[str] = []
        origins: list[str] = []
        size = 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == b"host":
                hosts.append(value.decode("latin-1").strip().lower())
            elif name == b"origin":
                origins.append(value.decode("latin-1").strip().lower())
        if size > MOST_HEADER_BYTES:
            error = InvalidRequest(f"The headers have {size} bytes; at most {MOST_HEADER_BYTES} are accepted")
            return Rejection(HEADERS_TOO_LARGE, error)
        host = hosts[0] if hosts else None
        return (
            _refuse_malformed(hosts, http_version)
            or self._refuse_host(host, bound_to)
            or self._refuse_page(origins, host)
        )

    def _refuse_host(self, host: str | None, bound_to: str | None) -> Rejection | None:
        if host is None or self._serves_host(host, bound_to):
            return None
        error = InvalidRequest(f"The host {host!r} is not served; add it to allowed_hosts or DRAGOMAN_ALLOWED_HOSTS")
        return Rejection(MISDIRECTED, error)

    def _refuse_page(self, origins: list[str], host: str | None) -> Rejection | None:
        if len(origins) > 1:
            return Rejection(FORBIDDEN, InvalidRequest("The header Origin is repeated; a page has one origin"))
        if not origins or self._serves_origin(origins[0], host):
            return None
        remedy = "add it to allowed_origins or DRAGOMAN_ALLOWED_ORIGINS"
        return Rejection(FORBIDDEN, InvalidRequest(f"Pages of {origins[0]!r} are not served; {remedy}"))

    def grants(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers by which a browser lets a page of an allowed origin use a response (CORS)."""
        if not self._origins:
            return ()
        origin, asked = None, b""
        for name, value in headers:
            if name == b"origin":
                origin = value
            elif name == b"access-control-request-headers":
                asked = value
        if origin is None or not self._origins.intersection(("*", origin.decode("latin-1").strip().lower())):
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", asked),
            (b"access-control-expose-headers", _EXPOSED),
            (b"access-control-max-age", b"86400"),
            (b"vary", b"Origin, Access-Control-Request-Headers"),
        )

    def _serves_host(self, host: str, bound_to: str | None) -> bool:
        name = _name(host) or host
        if "*" in self._hosts or host in self._hosts or name in self._hosts:
            return True
        is_local = is_loopback(bound_to or "")
        return is_loopback(name) and is_local if self._hosts else is_loopback(name) or not is_local

    def _serves_origin(self, origin: str, host: str | None) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        if host is None or "@" in origin:  # no browser names a user in an origin
            return False
        try:
            return origin_of(origin) == origin_of(f"{origin.partition(':')[0]}://{host}")
        except InsecureUrl:
            return False


def _given(values: str | Iterable[str] | None, variable: str) -> frozenset[str]:
    chosen = os.environ.get(variable, "") if values is None else values
    listed: list[Any] = chosen.split(",") if isinstance(chosen, str) else list(chosen)
    for value in listed:
        if not isinstance(value, str):
            option = variable.removeprefix("DRAGOMAN_").lower()
            raise DefinitionError(f"{option} must be strings, not {value!r}")
    return frozenset(value.strip().lower() for value in listed if value.strip())


def _bare(host: str) -> str:
    """Return an IPv6 address without its brackets, unless a port follows them."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _name(host: str) -> str | None:
    """Return the name that a Host header holds, without brackets and port; None for what is malformed."""
    found = _HOST.fullmatch(host)
    return None if found is None else found["address"] or found["name"] or ""


def _refuse_malformed(hosts: list[str], http_version: str | None) -> Rejection | None:
    """Refuse what HTTP/1.1 (RFC 9112, 3.2) wants to be refused."""
    if len(hosts) > 1:
        problem = "The header Host is repeated; send it once"
    elif not hosts and http_version == "1.1":
        problem = "The header Host is missing"
    elif hosts and _name(hosts[0]) is None:
        problem = f"The header Host is {hosts[0]!r}, which is no host with or without a port"
    else:
        return None
    return Rejection(BAD_REQUEST, InvalidRequest(problem))
