"""LoopbackListener: an HTTP listener on this machine that receives the redirect of a browser after a login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.auth.client.authorization_response import AuthorizationResponse
from dragoman.errors import AuthError

PATH = "/callback"
MAX_HEAD = 64 * 1024
HEAD_SECONDS = 5.0
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:18px/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto;padding:0 1em;color:#222}}
@media(prefers-color-scheme:dark){{body{{background:#181818;color:#eee}}}}</style></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""
_SUCCESS = _PAGE.format(title="You are logged in", text="You can close this window and go back to your program.")
_DENIED = _PAGE.format(
    title="You are not logged in",
    text="The login was not completed. Your program says why; you can close this window.",
)
_FOREIGN = _PAGE.format(
    title="This is not the login that is waited for", text="Close this window and use the newest one."
)
_MISSING = _PAGE.format(title="There is nothing here", text="This address only takes the answer to a login.")


class LoginPages(Struct, frozen=True):
    """The HTML documents that the browser shows after a login; None for the built-in ones."""

    success: str | None = None
    error: str | None = None


class LoopbackListener:
    """Listens for the authorization response of one login.

    Example:
        async with LoopbackListener() as listener:
            await open_browser(url_with(redirect_uri=listener.redirect_uri))
            response = await listener.response(is_expected)
    """

    def __init__(self, redirect_uri: str | None = None, *, path: str = PATH, pages: LoginPages | None = None) -> None:
        pages = pages or LoginPages()
        self._success_page = _SUCCESS if pages.success is None else pages.success
        self._error_page = _DENIED if pages.error is None else pages.error
        self._given_uri = redirect_uri
        self._path = path if redirect_uri is None else urlsplit(redirect_uri).path or "/"
        self._servers: list[asyncio.Server] = []
        self._is_expected: Callable[[AuthorizationResponse], bool] = lambda _: False  # until a login waits
        self._response: asyncio.Future[AuthorizationResponse] | None = None

    async def __aenter__(self) -> LoopbackListener:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Start to listen.

        Raises:
            AuthError: the port is taken.
        """
        self._response = asyncio.get_running_loop().create_future()
        host, port = "127.0.0.1", 0
        if self._given_uri is not None:
            parts = urlsplit(self._given_uri)
            host, port = parts.hostname or host, parts.port or 80
        # A browser may resolve localhost to either address; the second may be missing.
        hosts = ["127.0.0.1", "::1"] if host == "localhost" else [host]
        for host in hosts:
            try:
                self._servers.append(await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD))
            except OSError as error:
                if host == hosts[0]:
                    raise AuthError(
                        f"The login cannot be answered at port {port} of {host} ({error.strerror}); end what listens"
                        " there, or give another redirect_uri="
                    ) from None

    @property
    def redirect_uri(self) -> str:
        """The redirect URI of the login."""
        if self._given_uri is not None:
            return self._given_uri
        port = self._servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._path}"

    async def response(self, is_expected: Callable[[AuthorizationResponse], bool]) -> AuthorizationResponse:
        """Return the expected response; any other one is answered with status 400."""
        assert self._response is not None
        self._is_expected = is_expected
        return await self._response

    async def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()
        self._servers = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            try:
                async with asyncio.timeout(HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, page = self._reply(head.split(b"\r\n", 1)[0].decode("ascii"))
                    writer.write(_encoded(status, page))
                    await writer.drain()
            finally:
                writer.close()

    def _reply(self, request_line: str) -> tuple[HTTPStatus, str]:
        method, _, rest = request_line.partition(" ")
        target = rest.partition(" ")[0]
        if urlsplit(target).path != self._path:
            return HTTPStatus.NOT_FOUND, _MISSING
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, _MISSING
        try:
            response = AuthorizationResponse.of_url(target)
        except AuthError:
            return HTTPStatus.BAD_REQUEST, _FOREIGN
        if not self._is_expected(response):
            return HTTPStatus.BAD_REQUEST, _FOREIGN
        if self._response is not None and not self._response.done():
            self._response.set_result(response)
        return HTTPStatus.OK, self._success_page if response.error is None else self._error_page


def _encoded(status: HTTPStatus, page: str) -> bytes:
    body = page.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
