"""How a person logs in: in a browser that is opened for them, or in one that they open themselves.

Where there is no browser, as over SSH, the address is shown in the terminal, and the address that their own browser
ends at is pasted back; a listener takes the answer if it comes by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from dragoman.auth.addresses import require_secure
from dragoman.auth.client.listener import PATH, LoginPages, LoopbackListener
from dragoman.auth.client.redirects import AuthorizationResponse
from dragoman.errors import AuthError, AuthRequired
from dragoman.protocol.urls import host_of, is_loopback, split
from dragoman.runtime.callables import invoke
from dragoman.runtime.offload import offload
from dragoman.runtime.terminal import is_terminal, printable_url, read_line, url_warnings

LOGIN_SECONDS = 300.0
MOST_PASTES = 5

RedirectHandler = Callable[[str], Any]
CallbackHandler = Callable[[], Any | Awaitable[Any]]
IsOurs = Callable[[AuthorizationResponse], bool]


class Interaction(Protocol):
    """One login of a person."""

    redirect_uri: str

    async def log_in(self, url: str, is_ours: IsOurs) -> AuthorizationResponse:
        """Bring the person to a URL, and return what comes back."""

    async def close(self) -> None:
        """Let go of what was opened."""


class ByHandlers:
    """A login that the author's functions carry out."""

    def __init__(self, redirect_uri: str, redirect: RedirectHandler | None, callback: CallbackHandler) -> None:
        self.redirect_uri = redirect_uri
        self._redirect = redirect
        self._callback = callback

    async def log_in(self, url: str, is_ours: IsOurs) -> AuthorizationResponse:  # noqa: ARG002
        """Bring the person to a URL, and return what comes back."""
        await send_to(url, self._redirect)
        return AuthorizationResponse.of(await invoke(self._callback))

    async def close(self) -> None:
        """There is nothing to let go of."""


class ByListener:
    """A login whose answer comes to a listener on this machine, or is pasted."""

    def __init__(self, listener: LoopbackListener, redirect: RedirectHandler | None) -> None:
        self._listener = listener
        self._redirect = redirect
        self.redirect_uri = listener.redirect_uri

    async def log_in(self, url: str, is_ours: IsOurs) -> AuthorizationResponse:
        """Bring the person to a URL, and return what comes back."""
        is_pasted = self._redirect is None and not can_open_browser()
        other = pasted(url, is_ours) if is_pasted else _sent_to(url, self._redirect)
        return await _first_of([self._listener.answer(is_ours), other])

    async def close(self) -> None:
        """Stop listening."""
        await self._listener.close()


class ByPaste:
    """A login whose answer goes to an address that is not this machine, and is pasted from there."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri

    async def log_in(self, url: str, is_ours: IsOurs) -> AuthorizationResponse:
        """Show a URL, and return what is pasted."""
        return await _first_of([pasted(url, is_ours)])

    async def close(self) -> None:
        """There is nothing to let go of."""


async def interact(
    redirect_uri: str | None,
    preferred: str | None,
    redirect: RedirectHandler | None,
    callback: CallbackHandler | None,
    *,
    path: str = PATH,
    pages: LoginPages | None = None,
) -> Interaction:
    """Return the way in which a person can log in; `preferred` is an address that may be used if it is free.

    Where neither is given, the login ends at a free port of this machine and at `path`.

    Raises:
        AuthError: there is none: nobody can be asked, or the address is taken.
    """
    if callback is not None:
        assert redirect_uri is not None
        return ByHandlers(redirect_uri, redirect, callback)
    if redirect is None and not can_open_browser() and not is_terminal(sys.stdin):
        raise AuthRequired(
            "Somebody must log in, and there is neither a browser nor a terminal: log in once from a terminal, give"
            " redirect_handler= and callback_handler=, or use start() and finish()"
        )
    if redirect_uri is not None and not is_own_address(redirect_uri):
        if redirect is None and is_terminal(sys.stdin):
            return ByPaste(redirect_uri)
        raise AuthRequired("The redirect URI is a web application's: log in with start() and finish()")
    return ByListener(await _listening(redirect_uri, preferred, path, pages), redirect)


async def _listening(
    redirect_uri: str | None, preferred: str | None, path: str, pages: LoginPages | None
) -> LoopbackListener:
    if redirect_uri is None and preferred is not None:
        listener = LoopbackListener(preferred, pages=pages)
        try:
            await listener.open()
        except AuthError:
            pass
        else:
            return listener
    listener = LoopbackListener(redirect_uri, path=path, pages=pages)
    await listener.open()
    return listener


def is_own_address(uri: str) -> bool:
    """Tell whether a redirect URI leads to a listener on this machine."""
    return split(uri).scheme == "http" and is_loopback(host_of(uri))


async def _first_of(ways: list[Any]) -> AuthorizationResponse:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        async with asyncio.timeout(LOGIN_SECONDS):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            found: AuthorizationResponse = next(task for task in tasks if task.done()).result()
            return found
    except TimeoutError:
        raise AuthRequired(f"Nobody logged in within {LOGIN_SECONDS:g} seconds; try again") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send_to(url: str, redirect: RedirectHandler | None) -> None:
    """Bring the person to a URL."""
    require_secure(url, "The address to log in at")
    if redirect is not None:
        await invoke(redirect, url, in_place=True)
        return
    import webbrowser

    _tell(f"Log in with the browser that opens now, or open\n\n{_address(url)}\n")
    await offload(webbrowser.open, url)


async def _sent_to(url: str, redirect: RedirectHandler | None) -> AuthorizationResponse:
    """Bring the person to a URL, and leave the answer to others; some browsers return only when they are closed."""
    await send_to(url, redirect)
    never: asyncio.Future[AuthorizationResponse] = asyncio.get_running_loop().create_future()
    return await never


def can_open_browser() -> bool:
    """Tell whether there is a browser that does not take the terminal."""
    import webbrowser

    if not os.environ.get("BROWSER") and sys.platform not in ("darwin", "win32"):
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return False
    elif os.environ.get("SSH_CONNECTION") and not os.environ.get("BROWSER"):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


async def pasted(url: str, is_ours: IsOurs) -> AuthorizationResponse:
    """Show a URL in the terminal, and return what the pasted address says.

    Raises:
        AuthRequired: nothing that fits is pasted.
    """
    require_secure(url, "The address to log in at")
    _tell(
        f"Open this address in a browser and log in:\n\n{_address(url)}\n\n"
        "The browser ends at an address that may show nothing; paste that address here, and press Enter:"
    )
    for _ in range(MOST_PASTES):
        line = await read_line()
        if not line:
            break
        try:
            response = AuthorizationResponse.of_url(line)
        except AuthError:
            response = AuthorizationResponse()
        if is_ours(response):
            return response
        _tell("That is not the address that this login ends at; paste the whole of it:")
    raise AuthRequired("The address that the login ended at was not given; try again")


def _address(url: str) -> str:
    """Return the lines that show an address of the issuer, with what a person should know before they open it."""
    return "\n".join(f"  {line}" for line in (printable_url(url), *url_warnings(url)))


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
