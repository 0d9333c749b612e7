"""URLs: parsing, origins, loopback hosts, and a form without secrets for logs and errors.

This module resolves no host name: every check reads the host as the URL spells it.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit, urlunsplit

from dragoman.errors import InsecureUrl

HTTP_SCHEMES = ("http", "https")
_DEFAULT_PORTS = {"http": 80, "https": 443}
# urlsplit drops line breaks, and browsers read a backslash as a slash, so they would connect to another host.
_MISLEADING = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


def redacted(url: str) -> str:
    """Return a URL without user, password, query and fragment, for logs and errors."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return re.split("[?#]", url.rpartition("@")[2])[0]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_http_url(url: str) -> bool:
    """Tell whether a text is an absolute http or https URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in HTTP_SCHEMES and bool(parts.hostname)


def split(url: str) -> SplitResult:
    """Parse a URL, and refuse a URL in which two parsers may read different hosts.

    Raises:
        InsecureUrl: the URL has no host, or parsers may read different hosts.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InsecureUrl(f"{redacted(url)} is no address that can be used") from None
    # In http://[::1].example, urlsplit reads the host ::1.
    if not parts.hostname or _MISLEADING.search(url) or re.search("](?!:|$)", parts.netloc):
        raise InsecureUrl(f"{redacted(url)!r} is no address that can be used")
    if "%" in parts.hostname and ":" not in parts.hostname:
        raise InsecureUrl(f"{redacted(url)} has a host with escapes; spell it without them")
    return parts


def host_of(url: str) -> str:
    """Return the host of a URL, in lower case and without brackets.

    Raises:
        InsecureUrl: as in `split`.
    """
    return split(url).hostname or ""


def port_of(parts: SplitResult) -> int | None:
    """Return the port of a URL, by default that of its scheme."""
    return _DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port


def authority_of(parts: SplitResult) -> str:
    """Return host and port in their canonical form: lower case, no user, no default port."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if port_of(parts) == _DEFAULT_PORTS.get(parts.scheme) else f"{host}:{parts.port}"


def origin_of(url: str) -> str:
    """Return scheme, host and port, without the default port.

    Raises:
        InsecureUrl: as in `split`.
    """
    parts = split(url)
    return f"{parts.scheme}://{authority_of(parts)}"


def is_localhost(host: str) -> bool:
    """Tell whether a host is the name localhost or a name below it, which need not lead to this machine."""
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost")


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine: localhost, 127.0.0.0/8 or ::1."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
