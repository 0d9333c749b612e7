"""Network options of clients, proxies and credentials of the environment, and pinned requests.

A pinned request goes only to the URL that it was made for. An aiohttp session of the author may change a request by a
middleware, a subclass or a connector, and the request carries the credentials of one server. So `_Pin` compares the
request with its URL twice: after the last middleware, and when the request has a connection and nothing is written yet.

Reading the environment is slow, because it reads files and calls the system. So a connection reads it once.
"""

from __future__ import annotations

import logging
import netrc
import os
import ssl
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from dragoman.errors import InsecureUrl
from dragoman.protocol.urls import is_localhost, is_loopback, port_of

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

CONNECT_SECONDS = 10.0
_logger = logging.getLogger("dragoman.client")

SessionFactory = Callable[[], "aiohttp.ClientSession"]


class Network(Struct, kw_only=True):
    """The network options of a client's connections.

    Example:
        Client(url, network=Network(proxy="http://proxy:3128", ssl=ssl.create_default_context(cafile="ca.pem")))

    `OAuth` and the other authorizations of a client reach their authorization servers by the same proxy and
    certificates. They do not use `session` and `session_factory`: a session may carry headers that are for the MCP
    server alone.

    Raises:
        ValueError: there are both a session and a session_factory.
    """

    proxy: str | None = None
    ssl: ssl.SSLContext | None = None
    """The certificates to trust, and the certificate of the client."""
    trust_env: bool = True
    """Take proxies and credentials from the environment and ~/.netrc."""
    connect_timeout: float = CONNECT_SECONDS
    session: aiohttp.ClientSession | None = None
    """A session of your own, which you close yourself."""
    session_factory: SessionFactory | None = None
    """Makes a session for each connection, in the loop that uses it. The client closes the session."""

    def __repr__(self) -> str:
        # Show only the names of the options: the URL of a proxy may hold a password.
        given = [name for name in ("proxy", "ssl", "session", "session_factory") if getattr(self, name) is not None]
        return f"<Network with {', '.join(given) or 'nothing of its own'}>"

    def __post_init__(self) -> None:
        if self.session is not None and self.session_factory is not None:
            raise ValueError("Give Network a session or a session_factory, not both")


def proxy_for(url: str, network: Network) -> str | None:
    """Return the proxy of `network`, or the one that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name.

    The environment's proxy is not used for addresses of this machine.
    """
    if network.proxy is not None or not network.trust_env:
        return network.proxy
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or is_loopback(host) or is_localhost(host):
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
    """Return the Authorization header of a user and a password."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """Return the body of a response; None if it has more than `limit` bytes."""
    if (response.content_length or 0) > limit:
        return None
    content, size = response.content, 0
    pieces: list[bytes] = []
    while not content.at_eof():
        pieces.append(await content.readany())
        size += len(pieces[-1])
        if size > limit:
            return None
    return b"".join(pieces)


def pinned(session: aiohttp.ClientSession, url: URL) -> tuple[Any, ...]:
    """Return the middlewares of a request: those of its session, and a last one that refuses any other URL."""
    return (*session._middlewares, _Pin(url))


class _Pin:
    """The last middleware of a request; it refuses a changed URL."""

    def __init__(self, url: URL) -> None:
        self._url = url

    async def __call__(self, request: aiohttp.ClientRequest, handler: Callable[[Any], Any]) -> Any:
        """Pass a request on, if it has the pinned URL now and when it gets its connection.

        Raises:
            InsecureUrl: the request has another URL, or its connection leads to another host.
        """
        self._check_address(request.url)
        send = request.send

        async def send_checked(conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            self._check_address(request.url)
            self._check_connection(conn)
            return await send(conn)

        request.send = send_checked  # type: ignore[method-assign]
        return await handler(request)

    def _check_address(self, url: URL) -> None:
        if url.with_fragment(None) != self._url:
            raise self._refusal(str(url.origin()) + url.raw_path)

    def _check_connection(self, connection: aiohttp.connector.Connection) -> None:
        key = connection._key
        pinned_key = (self._url.raw_host, self._url.port, self._url.scheme == "https")
        if (key.host, key.port, key.is_ssl) != pinned_key:
            raise self._refusal(f"{key.host}:{key.port}")

    def _refusal(self, where: str) -> InsecureUrl:
        return InsecureUrl(
            f"A request to {self._url.origin()}{self._url.raw_path} was changed on its way and would go to {where};"
            " nothing was sent. Look at the middlewares and the connector of the session that network= or"
            " http_client_factory= gives"
        )
