"""Fetcher: HTTP requests to authorization servers, with bounded JSON answers and without redirects.

An MCP server names the authorization server, so the URLs are untrusted. A public MCP server may not send the client
into a private network. The fetcher checks each IP address when it makes the socket, and the socket connects to that
address. Resolving the host name beforehand was rejected, because a name server may answer differently a moment later.
If a proxy makes the connection, nothing is checked here, and the proxy decides.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any
from urllib.parse import quote_plus, urlencode

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from dragoman.auth.redaction import Secrets
from dragoman.auth.urls import is_private
from dragoman.errors import AuthError, InsecureUrl
from dragoman.protocol.urls import host_of, origin_of, redacted
from dragoman.protocol.versions import LATEST_STATELESS
from dragoman.runtime.network import Network, SessionFactory, basic_authorization, pinned, proxy_for, read_body

MAX_BYTES = 4 * 1024 * 1024
REQUEST_SECONDS = 30.0
OK, CREATED = 200, 201
_SECRET_FIELDS = (
    "code code_verifier refresh_token client_secret client_assertion assertion subject_token token".split()  # noqa: SIM905
)


class _ConnectionCheck(Struct):
    """Whether one request may connect to private addresses, and the address that it connected to."""

    allows_private: bool
    was_refused: bool = False
    """Whether a private address of the host was refused."""
    peer: str | None = None
    """The IP address that the request was sent to; with https, the certificate of the host was verified before."""


_current_check: ContextVar[_ConnectionCheck | None] = ContextVar("current_check", default=None)


class _CheckedConnector(aiohttp.TCPConnector):
    """Makes only the connections that the check of the current context allows."""

    def __init__(self) -> None:
        super().__init__(socket_factory=_checked_socket)

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **kwargs)
        check, transport = _current_check.get(), connection.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        if check is not None and peer:
            check.peer = peer[0]
        return connection


def _checked_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, (host, *_) = address
    check = _current_check.get()
    if check is not None and not check.allows_private and is_private(host):
        check.was_refused = True
        raise PermissionError("The address is inside a private network")
    return socket.socket(family, kind, protocol)


class FetchedExchange(Struct):
    """One request to an authorization server and its answer, for a person who wants to see the steps of a login.

    The bodies hold secrets; mask them before they are shown.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    sent: bytes
    seconds: float = 0.0
    status: int | None = None
    """None if there was no answer."""
    received_headers: Mapping[str, str] | None = None
    received: bytes = b""


exchange_observer: ContextVar[Callable[[FetchedExchange], None] | None] = ContextVar("exchange_observer", default=None)
"""Called with each exchange of the fetchers in this context."""


class FetchedReply(Struct):
    """The answer of an authorization server; `body` is None if it is not a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any] | None


class Fetcher:
    """A session for the requests of one authorization flow.

    Example:
        async with Fetcher() as fetch:
            reply = await fetch.get("https://auth.example.com/.well-known/oauth-authorization-server")

    `server` is the MCP server that names the URLs. Requests connect to private addresses only if that server is private
    itself: because its host is, because of `in_private_network`, or because a request reached it at a private address.
    Without `server` every address is allowed. The connections of a session of `make_session` are not checked. `network`
    has the proxy and the certificates; its session is not used. `secrets` collects the secrets of the requests.
    """

    def __init__(
        self,
        make_session: SessionFactory | None = None,
        *,
        server: str | None = None,
        in_private_network: bool = False,
        secrets: Secrets | None = None,
        network: Network | None = None,
    ) -> None:
        self.secrets = Secrets() if secrets is None else secrets
        self._make_session = make_session
        self._network = network or Network()
        self._session: aiohttp.ClientSession | None = None
        self._server = server
        self.in_private_network = in_private_network or (server is not None and is_private(host_of(server)))
        """Whether the MCP server is in a private network."""

    async def __aenter__(self) -> Fetcher:
        self._session = (self._make_session or self._own_session)()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, url: str) -> FetchedReply:
        """Get a document.

        Raises:
            AuthError: the server cannot be reached, or its answer is too large.
        """
        return await self._send("GET", url, {"MCP-Protocol-Version": LATEST_STATELESS.name}, None)

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> FetchedReply:
        """Post a form; raises as `get` does."""
        self.secrets.add(*(form.get(name) for name in _SECRET_FIELDS), *headers.values())
        content_type = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self._send("POST", url, {**headers, **content_type}, urlencode(form).encode("ascii"))

    async def post_json(self, url: str, value: Any) -> FetchedReply:
        """Post a JSON document; raises as `get` does."""
        return await self._send("POST", url, {"Content-Type": "application/json"}, msgspec.json.encode(value))

    async def _send(self, method: str, url: str, headers: Mapping[str, str], sent: bytes | None) -> FetchedReply:
        session, proxy = self._session, proxy_for(url, self._network)
        assert session is not None
        is_server = self._server is not None and origin_of(url) == origin_of(self._server)
        check = _ConnectionCheck(self._server is None or self.in_private_network or is_server or proxy is not None)
        before, exchange = _current_check.set(check), FetchedExchange(method, url, headers, sent or b"")
        began = time.monotonic()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                async with session.request(
                    method,
                    url,
                    data=sent,
                    headers={"Accept": "application/json", **headers},
                    allow_redirects=False,
                    proxy=proxy,
                    raise_for_status=False,
                    ssl=True if self._network.ssl is None else self._network.ssl,
                    middlewares=None if self._make_session is None else pinned(session, URL(url)),
                ) as response:
                    body = await read_body(response, MAX_BYTES)
                    exchange.status, exchange.received_headers = response.status, response.headers
                    exchange.received = body or b""
        except InsecureUrl:
            raise
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            if check.was_refused:
                raise InsecureUrl(
                    f"{redacted(url)} leads inside a private network, where {redacted(self._server or '')} may not send"
                    " anybody; if you trust this authorization server, give it as issuer="
                ) from None
            # The text of these errors may quote the request, which may hold a secret.
            raise AuthError(f"{redacted(url)} cannot be asked ({type(error).__name__}); is it reachable?") from None
        finally:
            _current_check.reset(before)
            observer = exchange_observer.get()
            if observer is not None:
                exchange.seconds = time.monotonic() - began
                observer(exchange)
        if body is None:
            raise AuthError(f"{redacted(url)} answered with more than {MAX_BYTES} bytes")
        if is_server and proxy is None and check.peer is not None and is_private(check.peer):
            self.in_private_network = True
        return FetchedReply(response.status, response.headers, _object(body))

    def _own_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_CheckedConnector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._network.connect_timeout),
        )


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError):
        return None


def basic_client_authorization(client_id: str, secret: str) -> str:
    """Return the Authorization header of a client: id and secret are form-encoded first (RFC 6749, section 2.3.1)."""
    return basic_authorization(quote_plus(client_id), quote_plus(secret))


def text_member(body: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is a text and not blank, else None."""
    found = body.get(name)
    return found if isinstance(found, str) and found.strip() else None


def text_list_member(body: Mapping[str, Any], name: str) -> list[str] | None:
    """Return the texts of a member that is a list, else None."""
    found = body.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else None
