"""Requests to authorization servers: JSON in, bounded, and never redirected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote_plus, urlencode

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from dragoman.auth.addresses import is_private
from dragoman.auth.client.reach import GuardedConnector, Trip, trip
from dragoman.auth.secrecy import Secrets
from dragoman.errors import AuthError, InsecureUrl
from dragoman.protocol.urls import host_of, origin_of, redacted
from dragoman.protocol.versions import LATEST_STATELESS
from dragoman.runtime.network import Network, SessionFactory, basic_authorization, pinned, proxy_for

MOST_BYTES = 4 * 1024 * 1024
REQUEST_SECONDS = 30.0
OK, CREATED = 200, 201
_SECRET_FIELDS = (
    "code",
    "code_verifier",
    "refresh_token",
    "client_secret",
    "client_assertion",
    "assertion",
    "subject_token",
    "token",
)
_BROKEN = (aiohttp.ClientError, OSError, asyncio.TimeoutError, ValueError)


class FetchedReply(Struct):
    """What an authorization server answered: `body` is None unless it is a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any] | None


class Fetcher:
    """The connections of one flow.

    Example:
        async with Fetcher() as fetch:
            reply = await fetch.get("https://auth.example.com/.well-known/oauth-authorization-server")

    With `server`, the MCP server that names the addresses, they lead inside a private network only if that server is
    there itself: by its spelling, because `is_inside` says so, or because it was reached there. A session of somebody
    else (`make_session`) connects as it likes, to the addresses that are asked. `network` says by which proxy and
    certificates; its session is not used. `secrets` is where the secrets of forms and headers are remembered.
    """

    def __init__(
        self,
        make_session: SessionFactory | None = None,
        *,
        server: str | None = None,
        is_inside: bool = False,
        secrets: Secrets | None = None,
        network: Network | None = None,
    ) -> None:
        self.secrets = Secrets() if secrets is None else secrets
        self._make_session = make_session
        self._network = network or Network()
        self._session: aiohttp.ClientSession | None = None
        self._server = server
        self.is_inside = is_inside or (server is not None and is_private(host_of(server)))
        """Whether the MCP server is inside a private network."""

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
            AuthError: the server cannot be reached, or says too much.
        """
        return await self._send("GET", url, {"MCP-Protocol-Version": LATEST_STATELESS.name}, None)

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> FetchedReply:
        """Post a form.

        Raises:
            AuthError: the server cannot be reached, or says too much.
        """
        self.secrets.add(*(form.get(name) for name in _SECRET_FIELDS), *headers.values())
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self._send("POST", url, {**headers, **kind}, urlencode(form).encode("ascii"))

    async def post_json(self, url: str, value: Any) -> FetchedReply:
        """Post a JSON document.

        Raises:
            AuthError: the server cannot be reached, or says too much.
        """
        return await self._send("POST", url, {"Content-Type": "application/json"}, msgspec.json.encode(value))

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> FetchedReply:
        session, proxy = self._session, proxy_for(url, self._network)
        assert session is not None
        is_home = self._server is not None and origin_of(url) == origin_of(self._server)
        current = Trip(self._server is None or self.is_inside or is_home or proxy is not None)
        before = trip.set(current)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                async with session.request(
                    method,
                    url,
                    data=body,
                    headers={"Accept": "application/json", **headers},
                    allow_redirects=False,
                    proxy=proxy,
                    raise_for_status=False,
                    ssl=True if self._network.ssl is None else self._network.ssl,
                    middlewares=None if self._make_session is None else pinned(session, URL(url)),
                ) as response:
                    reply = FetchedReply(response.status, response.headers, _object(await _read(response, url)))
        except InsecureUrl:
            raise
        except _BROKEN as error:
            if current.was_refused:
                raise InsecureUrl(
                    f"{redacted(url)} leads inside a private network, where {redacted(self._server or '')} may not send"
                    " anybody; if you trust this authorization server, give it as issuer="
                ) from None
            # What these errors say may quote a request.
            raise AuthError(f"{redacted(url)} cannot be asked ({type(error).__name__}); is it reachable?") from None
        finally:
            trip.reset(before)
        if is_home and proxy is None and current.peer is not None and is_private(current.peer):
            self.is_inside = True
        return reply

    def _own_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=GuardedConnector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._network.connect_timeout),
        )


async def _read(response: aiohttp.ClientResponse, url: str) -> bytes:
    said = bytearray()
    async for piece in response.content.iter_any():
        said += piece
        if len(said) > MOST_BYTES:
            response.close()
            raise AuthError(f"{redacted(url)} answered with more than {MOST_BYTES} bytes")
    return bytes(said)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def client_authorization(client_id: str, secret: str) -> str:
    """Return the header of a client: both parts are encoded as in a form before they are joined (RFC 6749, 2.3.1)."""
    return basic_authorization(quote_plus(client_id), quote_plus(secret))


def text(body: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is a text with something in it."""
    found = body.get(name)
    return found if isinstance(found, str) and found.strip() else None


def texts(body: Mapping[str, Any], name: str) -> list[str] | None:
    """Return a member that is a list of texts; None when there is none."""
    found = body.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else None
