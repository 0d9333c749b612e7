"""What the environment says of a connection: which proxy to take, and who one is.

It is asked once per connection: reading files and asking the system is too slow for every request.
"""

from __future__ import annotations

import logging
import netrc
import os
from base64 import b64encode
from ipaddress import ip_address
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

from yarl import URL

_logger = logging.getLogger("dragoman.client")


def proxy_for(url: URL) -> str | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name; none for this machine itself."""
    if url.host is None or _is_loopback(url.host):
        return None
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    return None if not found or proxy_bypass(f"{url.host}:{url.port}") else found


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def netrc_authorization(host: str) -> str | None:
    """Return the Authorization header that ~/.netrc, or the file that NETRC names, has for a host."""
    try:
        path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
        found = netrc.netrc(path).authenticators(host) if path.is_file() else None
    except (netrc.NetrcParseError, OSError, RuntimeError) as error:
        _logger.warning("The credentials in .netrc cannot be read: %s", error)
        return None
    return None if found is None else basic_authorization(found[0] or "", found[2] or "")


def basic_authorization(user: str, password: str) -> str:
    """Return the header of a user and a password."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")
