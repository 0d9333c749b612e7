"""A listener on this machine that the user's browser is sent back to after a login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from dragoman.auth.client.authorization_response import AuthorizationResponse
from dragoman.errors import AuthError

PATH = "/callback"
LARGEST_HEAD = 64 * 1024
HEAD_SECONDS = 5.0
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:18px/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto;padding:0 1em;color:#222}}
@media(prefers-color-scheme:dark){{body{{background:#181818;color:#eee}}}}</style></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""


def _page(title: str, text: str) -> str:
    return _PAGE.format(title=title, text=text)


_DONE = _page("You are logged in", "You can close this window and go back to your program.")
_DENIED = _page(
    "You are not logged in", "The login was not completed. Your program says why; you can close this window."
)
_FOREIGN = _page("This is not the login that is waited for", "Close this window and use the newest one.")
_MISSING = _page("There is nothing here", "This address only takes the answer to a login.")


class LoginPages(Struct, frozen=True):
    """What a browser shows after a login: whole HTML documents of the author's own; None for the built-in ones."""

    success: str | None = None
    error: str | None = None


class LoopbackListener:
    """Listens for the answer to one login.

    Example:
        async with LoopbackListener() as listener:
            await open_browser(url_with(redirect_uri=listener.redirect_uri))
            response = await listener.answer(is_ours)
    """

    def __init__(self, redirect_uri: str | None = None, *, path: str = PATH, pages: LoginPages | None = None) -> None:
        pages = pages or LoginPages()
        self._done = _DONE if pages.success is None else pages.success
        self._denied = _DENIED if pages.error is None else pages.error
        self._wanted = None if redirect_uri is None else urlsplit(redirect_uri)
        self._given = redirect_uri
        self._servers: list[asyncio.Server] = []
        self._is_ours: Callable[[AuthorizationResponse], bool] = _is_nobodys
        self._answer: asyncio.Future[AuthorizationResponse] | None = None
        self._path = path if self._wanted is None else self._wanted.path or "/"

    async def __aenter__(self) -> LoopbackListener:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen.

        Raises:
            AuthError: the port is taken.
        """
        self._answer = asyncio.get_running_loop().create_future()
        hosts, port = _places(self._wanted)
        for host in hosts:
            try:
                server = await asyncio.start_server(self._serve, host, port, limit=LARGEST_HEAD)
            except OSError as error:
                if host == hosts[0]:
                    raise AuthError(
                        f"The login cannot be answered at port {port} of {host} ({error.strerror}); end what listens"
                        " there, or give another redirect_uri="
                    ) from None
                continue
            self._servers.append(server)

    @property
    def redirect_uri(self) -> str:
        """Where the browser is to be sent."""
        if self._given is not None:
            return self._given
        port = self._servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._path}"

    async def answer(self, is_ours: Callable[[AuthorizationResponse], bool]) -> AuthorizationResponse:
        """Return the answer to the login; others are turned away."""
        assert self._answer is not None
        self._is_ours = is_ours
        return await self._answer

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

    def _reply(self, line: str) -> tuple[HTTPStatus, str]:
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        if urlsplit(target).path != self._path:
            return HTTPStatus.NOT_FOUND, _MISSING
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, _MISSING
        try:
            response = AuthorizationResponse.of_url(target)
        except AuthError:
            return HTTPStatus.BAD_REQUEST, _FOREIGN
        if not self._is_ours(response):
            return HTTPStatus.BAD_REQUEST, _FOREIGN
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(response)
        return HTTPStatus.OK, self._done if response.error is None else self._denied


def _is_nobodys(_response: AuthorizationResponse) -> bool:
    """Turn everything away until a login waits."""
    return False


def _places(wanted: SplitResult | None) -> tuple[list[str], int]:
    if wanted is None:
        return ["127.0.0.1"], 0
    host = wanted.hostname or "127.0.0.1"
    # A browser may take either for localhost.
    return (["127.0.0.1", "::1"] if host == "localhost" else [host]), wanted.port or 80


def _encoded(status: HTTPStatus, page: str) -> bytes:
    body = page.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
