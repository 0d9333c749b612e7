"""Logins in a browser: opened here, by functions of the author, or elsewhere."""

import asyncio
import socket
import threading
import webbrowser

import aiohttp
import pytest

from dragoman.auth.client import browser_login
from dragoman.auth.client.browser_login import BrowserLogin, can_open_browser, open_url, prepare_login
from dragoman.auth.client.loopback_listener import LoopbackListener
from dragoman.errors import AuthRequired, InsecureUrl

DEADLINE = 60


def is_expected(response):
    return response.state == "ours"


def login_at(listener, redirect):
    return BrowserLogin(listener.redirect_uri, redirect, listener=listener)


async def get(url, method="GET"):
    async with aiohttp.ClientSession() as session, session.request(method, url) as response:
        return response.status, await response.text(), response.headers


async def test_a_registered_port_is_used_again_if_it_is_free():
    async def redirect(url):
        pass

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        other = await prepare_login(None, uri, redirect, None)
        assert other.redirect_uri != uri
        await other.close()
    same = await prepare_login(None, uri, redirect, None)
    assert same.redirect_uri == uri
    await same.close()


async def test_a_browser_that_stays_open_does_not_hold_up_the_login():
    async def redirect(url):
        await get(f"{listener.redirect_uri}?code=c&state=ours")
        await asyncio.Event().wait()

    async with LoopbackListener() as listener:
        response = await asyncio.wait_for(
            login_at(listener, redirect).log_in("https://a.example.com/", is_expected), DEADLINE
        )
    assert response.code == "c"


async def test_a_redirect_handler_that_fails_ends_the_login():
    def redirect(url):
        raise LookupError("no window")

    async with LoopbackListener() as listener:
        with pytest.raises(LookupError, match="no window"):
            await login_at(listener, redirect).log_in("https://a.example.com/", is_expected)


@pytest.mark.covers("OAU-18")
async def test_a_plain_callback_handler_may_wait_without_holding_up_anybody():
    asked = threading.Event()

    def callback():
        assert asked.wait(DEADLINE)
        return "c", "ours"

    login = await prepare_login("https://app.example.com/callback", None, lambda url: None, callback)
    waiting = asyncio.create_task(login.log_in("https://a.example.com/", is_expected))
    await asyncio.sleep(0)
    asked.set()
    assert (await asyncio.wait_for(waiting, DEADLINE)).code == "c"
    await login.close()


async def test_nobody_who_logs_in_is_an_error(monkeypatch):
    monkeypatch.setattr(browser_login, "LOGIN_SECONDS", 0.05)
    async with LoopbackListener() as listener:
        with pytest.raises(AuthRequired, match="Nobody logged in"):
            await login_at(listener, lambda url: None).log_in("https://a.example.com/", is_expected)


async def test_a_web_application_is_told_to_use_start_and_finish():
    with pytest.raises(AuthRequired, match="start"):
        await prepare_login("https://app.example.com/callback", None, lambda url: None, None)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "http://example.com/", "-x"])
async def test_nothing_but_safe_addresses_is_opened(url):
    opened = []
    with pytest.raises(InsecureUrl):
        await open_url(url, opened.append)
    assert not opened


async def test_an_address_of_an_issuer_is_shown_in_ascii_and_marked(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    url = "https://\u0430pple.com/\u202e\u200b\U000e0041?state=1"
    await open_url(url, None)
    shown = capsys.readouterr().err
    assert opened == [url]
    assert shown.replace("\u0430", "").isascii()
    assert "  https://xn--pple-43d.com/%E2%80%AE%E2%80%8B%F3%A0%81%81?state=1\n" in shown
    assert "mixes the scripts CYRILLIC, LATIN" in shown


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, False), ({"BROWSER": "true %s"}, True), ({"SSH_CONNECTION": "x"}, False)],
)
def test_a_browser_needs_a_screen_or_to_be_named(monkeypatch, environment, expected):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("webbrowser.get", lambda: object())
    assert can_open_browser() is expected
