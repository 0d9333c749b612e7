"""Who may reach a server over HTTP: the checks of `Host` and `Origin` that keep web pages away from local servers.

A page of anywhere can make a browser send requests to a server on this machine, by a name that it points here
(DNS rebinding). So a server that listens on a loopback address serves only requests that name one, or that name a host
which the author allowed; and no server serves a page of another origin that was not allowed. A page that was allowed
also gets the headers without which its browser would keep the response from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import urlsplit

from dragoman.errors import InvalidRequest
from dragoman.protocol.exchange import Rejection

FORBIDDEN, MISDIRECTED, HEADERS_TOO_LARGE = 403, 421, 431
MOST_HEADER_BYTES = 64 * 1024
_EXPOSED = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Guard:
    """The hosts and origins that are served.

    Example:
        Guard(allowed_hosts=["mcp.example.com"], allowed_origins=["https://app.example.com"])

    A host without a port is allowed on any port. `"*"` allows everything. What is None comes from the environment:
    `DRAGOMAN_ALLOWED_HOSTS` and `DRAGOMAN_ALLOWED_ORIGINS`, separated by commas.
    """

    def __init__(
        self, *, allowed_hosts: Iterable[str] | None = None, allowed_origins: Iterable[str] | None = None
    ) -> None:
        self._hosts = {_bare(host) for host in _given(allowed_hosts, "DRAGOMAN_ALLOWED_HOSTS")}
        self._origins = {origin.rstrip("/") for origin in _given(allowed_origins, "DRAGOMAN_ALLOWED_ORIGINS")}

    def refuse(self, headers: Iterable[tuple[bytes, bytes]], bound_to: str | None) -> Rejection | None:
        """Return why a request is refused, or None; `bound_to` is the address that the server listens on."""
        host = origin = None
        size = 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == b"host":
                host = value.decode("latin-1").strip().lower()
            elif name == b"origin":
                origin = value.decode("latin-1").strip().lower()
        if size > MOST_HEADER_BYTES:
            error = InvalidRequest(f"The headers have {size} bytes; at most {MOST_HEADER_BYTES} are accepted")
            return Rejection(HEADERS_TOO_LARGE, error)
        if host is not None and not self._serves_host(host, bound_to):
            return Rejection(
                MISDIRECTED,
                InvalidRequest(f"The host {host!r} is not served; add it to allowed_hosts or DRAGOMAN_ALLOWED_HOSTS"),
            )
        if origin is not None and not self._serves_origin(origin, host):
            return Rejection(
                FORBIDDEN,
                InvalidRequest(
                    f"Pages of {origin!r} are not served; add it to allowed_origins or DRAGOMAN_ALLOWED_ORIGINS"
                ),
            )
        return None

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
        name, _ = _split(host)
        if "*" in self._hosts or host in self._hosts or name in self._hosts:
            return True
        if self._hosts:
            return name in _LOOPBACK and _is_loopback(bound_to)
        return name in _LOOPBACK or not _is_loopback(bound_to)

    def _serves_origin(self, origin: str, host: str | None) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        try:
            page = urlsplit(origin)
        except ValueError:
            return False
        default = _DEFAULT_PORTS.get(page.scheme, "")
        return host is not None and page.netloc != "" and _port(page.netloc, default) == _port(host, default)


def _given(values: Iterable[str] | None, variable: str) -> frozenset[str]:
    chosen = os.environ.get(variable, "").split(",") if values is None else values
    return frozenset(value.strip().lower() for value in chosen if value.strip())


def _bare(host: str) -> str:
    """Return an IPv6 address without its brackets, unless a port follows them."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _split(host: str) -> tuple[str, str | None]:
    """Split a Host header into its name, without brackets, and its port."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":") or None
    name, _, port = host.partition(":")
    return name, port or None


def _port(host: str, default: str) -> tuple[str, str]:
    name, port = _split(host)
    return name, port or default


def _is_loopback(address: str | None) -> bool:
    if address is None:
        return False
    address = address.removeprefix("::ffff:")
    return address in _LOOPBACK or address.startswith("127.")
