"""Logins of a person in a browser, which this process, the author's functions or the person opens.

Without a browser, as over SSH, the terminal shows the URL, and the person pastes the URL of the redirect from a browser
on another machine. A listener on this machine accepts the response too, in case that browser reaches it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from dragoman.auth.client.authorization_response import AuthorizationResponse
from dragoman.auth.client.loopback_listener import PATH, LoginPages, LoopbackListener
from dragoman.auth.urls import require_secure
from dragoman.errors import AuthError, AuthRequired
from dragoman.protocol.urls import host_of, is_loopback, split
from dragoman.runtime.callables import invoke
from dragoman.runtime.offload import offload
from dragoman.runtime.terminal import is_terminal, printable_url, read_line, url_warnings

LOGIN_SECONDS = 300.0
MAX_PASTES = 5

RedirectHandler = Callable[[str], Any]
CallbackHandler = Callable[[], Any | Awaitable[Any]]
IsExpected = Callable[[AuthorizationResponse], bool]


class BrowserLogin:
    """One login of a person, whose response comes from one of these:

    - the author's `callback`, if there is one;
    - the `listener` on this machine, or the terminal if no browser can be opened;
    - the terminal, if there is no listener, because the redirect URI is not on this machine.
    """

    def __init__(
        self,
        redirect_uri: str,
        redirect: RedirectHandler | None = None,
        *,
        callback: CallbackHandler | None = None,
        listener: LoopbackListener | None = None,
    ) -> None:
        self.redirect_uri = redirect_uri
        self._redirect = redirect
        self._callback = callback
        self._listener = listener

    async def log_in(self, url: str, is_expected: IsExpected) -> AuthorizationResponse:
        """Send the person to a URL, and return the expected response."""
        if self._callback is not None:
            await open_url(url, self._redirect)
            return AuthorizationResponse.of(await invoke(self._callback))
        if self._listener is None:
            return await _first_response(pasted_response(url, is_expected))
        is_pasted = self._redirect is None and not can_open_browser()
        other = pasted_response(url, is_expected) if is_pasted else _open_and_wait(url, self._redirect)
        return await _first_response(self._listener.response(is_expected), other)

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.close()


async def prepare_login(
    redirect_uri: str | None,
    preferred_uri: str | None,
    redirect: RedirectHandler | None,
    callback: CallbackHandler | None,
    *,
    path: str = PATH,
    pages: LoginPages | None = None,
) -> BrowserLogin:
    """Return the kind of login that is possible here; `preferred_uri` is used if its port is free.

    Without a redirect URI the listener uses a free port of this machine, and `path`.

    Raises:
        AuthError: no login is possible: there is no browser and no terminal, or the port is taken.
    """
    if callback is not None:
        assert redirect_uri is not None
        return BrowserLogin(redirect_uri, redirect, callback=callback)
    if redirect is None and not can_open_browser() and not is_terminal(sys.stdin):
        raise AuthRequired(
            "Somebody must log in, and there is neither a browser nor a terminal: log in once from a terminal, give"
            " redirect_handler= and callback_handler=, or use start() and finish()"
        )
    if redirect_uri is not None and not (split(redirect_uri).scheme == "http" and is_loopback(host_of(redirect_uri))):
        if redirect is None and is_terminal(sys.stdin):
            return BrowserLogin(redirect_uri)
        raise AuthRequired("The redirect URI is a web application's: log in with start() and finish()")
    if redirect_uri is None and preferred_uri is not None:
        with suppress(AuthError):  # the port is taken
            return await _listening_login(LoopbackListener(preferred_uri, pages=pages), redirect)
    return await _listening_login(LoopbackListener(redirect_uri, path=path, pages=pages), redirect)


async def _listening_login(listener: LoopbackListener, redirect: RedirectHandler | None) -> BrowserLogin:
    await listener.open()
    return BrowserLogin(listener.redirect_uri, redirect, listener=listener)


async def _first_response(*ways: Coroutine[Any, Any, AuthorizationResponse]) -> AuthorizationResponse:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        async with asyncio.timeout(LOGIN_SECONDS):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(task for task in tasks if task.done()).result()
    except TimeoutError:
        raise AuthRequired(f"Nobody logged in within {LOGIN_SECONDS:g} seconds; try again") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def open_url(url: str, redirect: RedirectHandler | None) -> None:
    """Open a URL in the browser, or give it to the redirect handler.

    Raises:
        InsecureUrl: the URL is not secure.
    """
    require_secure(url, "The address to log in at")
    if redirect is not None:
        await invoke(redirect, url, in_place=True)
        return
    import webbrowser

    _write(f"Log in with the browser that opens now, or open\n\n{_shown_url(url)}\n")
    await offload(webbrowser.open, url)


async def _open_and_wait(url: str, redirect: RedirectHandler | None) -> AuthorizationResponse:
    """Open a URL, and never return. `webbrowser.open` may block until the browser is closed."""
    await open_url(url, redirect)
    never: asyncio.Future[AuthorizationResponse] = asyncio.get_running_loop().create_future()
    return await never


def can_open_browser() -> bool:
    """Tell whether there is a browser that does not run in the terminal."""
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


async def pasted_response(url: str, is_expected: IsExpected) -> AuthorizationResponse:
    """Show a URL in the terminal, and return the response in the pasted URL.

    Raises:
        AuthRequired: the person did not paste the expected response.
    """
    require_secure(url, "The address to log in at")
    _write(
        f"Open this address in a browser and log in:\n\n{_shown_url(url)}\n\n"
        "The browser ends at an address that may show nothing; paste that address here, and press Enter:"
    )
    for _ in range(MAX_PASTES):
        line = await read_line()
        if not line:
            break
        try:
            response = AuthorizationResponse.of_url(line)
        except AuthError:
            response = AuthorizationResponse()
        if is_expected(response):
            return response
        _write("That is not the address that this login ends at; paste the whole of it:")
    raise AuthRequired("You did not give the address at which the login ended; try again")


def _shown_url(url: str) -> str:
    """Return a URL and the warnings about it, as indented lines."""
    return "\n".join(f"  {line}" for line in (printable_url(url), *url_warnings(url)))


def _write(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
