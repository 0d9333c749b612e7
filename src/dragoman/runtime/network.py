"""How to reach servers, and a guard that keeps each request at the address that it was made for.

A session of the author's own may change a request on its way: by a middleware, by a subclass, by its connector. The
request carries credentials of one server, so it is compared with its address twice: after the last middleware, and when
its connection is there and nothing is written yet.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.errors import InsecureUrl

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

CONNECT_SECONDS = 10.0

SessionFactory = Callable[[], "aiohttp.ClientSession"]


class Network(Struct, kw_only=True):
    """How to reach servers: what a client may want to say about its connections.

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
    """Certificates to trust, and the client's own."""
    trust_env: bool = True
    """Take proxies and credentials from the environment and ~/.netrc."""
    connect_timeout: float = CONNECT_SECONDS
    session: aiohttp.ClientSession | None = None
    """A session of your own, which then is yours to close."""
    session_factory: SessionFactory | None = None
    """Makes a session for each connection, on the loop that uses it. The client closes it."""

    def __repr__(self) -> str:
        # Only which are given: the address of a proxy may hold a password.
        given = [name for name in ("proxy", "ssl", "session", "session_factory") if getattr(self, name) is not None]
        return f"<Network with {', '.join(given) or 'nothing of its own'}>"

    def __post_init__(self) -> None:
        if self.session is not None and self.session_factory is not None:
            raise ValueError("Give Network a session or a session_factory, not both")


def pinned(session: aiohttp.ClientSession, url: URL) -> tuple[Any, ...]:
    """Return the middlewares of a request that must not leave its address: those of its session, and a last one."""
    return (*session._middlewares, _Pin(url))


class _Pin:
    """The last middleware of a request, which refuses it if it is not for its address any more."""

    def __init__(self, url: URL) -> None:
        self._url = url

    async def __call__(self, request: aiohttp.ClientRequest, handler: Callable[[Any], Any]) -> Any:
        """Send a request on, if it is for its address now, and when its connection is there.

        Raises:
            InsecureUrl: it is not.
        """
        self._check(request.url)
        send = request.send

        async def send_checked(conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            self._check(request.url)
            self._check_connection(conn)
            return await send(conn)

        request.send = send_checked  # type: ignore[method-assign]
        return await handler(request)

    def _check(self, url: URL) -> None:
        if url.with_fragment(None) != self._url:
            raise self._refusal(str(url.origin()) + url.raw_path)

    def _check_connection(self, connection: aiohttp.connector.Connection) -> None:
        """Refuse a connection that was made for another host."""
        made_for = connection._key
        wanted = (self._url.raw_host, self._url.port, self._url.scheme == "https")
        if (made_for.host, made_for.port, made_for.is_ssl) != wanted:
            raise self._refusal(f"{made_for.host}:{made_for.port}")

    def _refusal(self, where: str) -> InsecureUrl:
        return InsecureUrl(
            f"A request to {self._url.origin()}{self._url.raw_path} was changed on its way and would go to {where};"
            " nothing was sent. Look at the middlewares and the connector of the session that network= or"
            " http_client_factory= gives"
        )
