"""What a URL is to every room: taken apart, compared by origin, recognised as this machine, and shown without secrets.

Nothing is resolved here: a host is judged as it is spelled.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit, urlunsplit

from dragoman.errors import InsecureUrl

HTTP_SCHEMES = ("http", "https")
_DEFAULT_PORTS = {"http": 80, "https": 443}
# urlsplit drops line breaks, and browsers take a backslash for a slash: they go to another host than is read here.
_MISLEADING = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


def redacted(url: str) -> str:
    """Return a URL without user, password, query and fragment, as it may stand in a log or an error."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return re.split("[?#]", url.rpartition("@")[2])[0]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_http_url(url: str) -> bool:
    """Tell whether a text is an absolute URL of http or https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in HTTP_SCHEMES and bool(parts.hostname)


def split(url: str) -> SplitResult:
    """Take apart a URL that has a host which every reader understands alike.

    Raises:
        InsecureUrl: it has none.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InsecureUrl(f"{redacted(url)} is no address that can be used") from None
    # urlsplit takes http://[::1].example for the host ::1.
    if not parts.hostname or _MISLEADING.search(url) or re.search("](?!:|$)", parts.netloc):
        raise InsecureUrl(f"{redacted(url)!r} is no address that can be used")
    if "%" in parts.hostname and ":" not in parts.hostname:
        raise InsecureUrl(f"{redacted(url)} has a host with escapes; spell it without them")
    return parts


def host_of(url: str) -> str:
    """Return the host of a URL, in lower case and without brackets.

    Raises:
        InsecureUrl: it has none.
    """
    return split(url).hostname or ""


def port_of(parts: SplitResult) -> int | None:
    """Return the port of a URL: the one that is written, or that of its scheme."""
    return _DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port


def authority_of(parts: SplitResult) -> str:
    """Return host and port in their one spelling: lower case, no user, no default port."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if port_of(parts) == _DEFAULT_PORTS.get(parts.scheme) else f"{host}:{parts.port}"


def origin_of(url: str) -> str:
    """Return scheme, host and port, the default port left out.

    Raises:
        InsecureUrl: the URL has no host.
    """
    parts = split(url)
    return f"{parts.scheme}://{authority_of(parts)}"


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine: localhost, 127.0.0.0/8 or ::1, and no name that merely looks like it."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
