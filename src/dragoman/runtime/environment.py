"""What the environment says of a connection to a server: which proxy it takes, and with which credentials.

Reading files and asking the system is slow: a connection asks once, not for every request.
"""

from __future__ import annotations

import logging
import netrc
import os
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dragoman.protocol.urls import is_loopback, port_of
from dragoman.runtime.network import Network

_logger = logging.getLogger("dragoman.client")


def proxy_for(url: str, network: Network) -> str | None:
    """Return the proxy of `network`, or the one that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name.

    The environment has none for this machine itself.
    """
    if network.proxy is not None or not network.trust_env:
        return network.proxy
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or is_loopback(host) or host.endswith(".localhost"):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return None if not found or proxy_bypass(f"{host}:{port_of(parts)}") else found


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
