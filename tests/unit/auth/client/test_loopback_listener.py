"""The listener that a browser is sent back to."""

import asyncio
import socket
import threading
import webbrowser
from contextlib import suppress

import aiohttp
import pytest

from dragoman.auth.client import browser_login as interaction
from dragoman.auth.client.browser_login import ListenerLogin, can_open_browser, open_url, prepare_login
from dragoman.auth.client.loopback_listener import MAX_HEAD, LoopbackListener
from dragoman.errors import AuthError, AuthRequired, InsecureUrl
from scenarios.http_peer import scenario

DEADLINE = 30


def is_expected(response):
    return response.state == "ours"


async def get(url, method="GET"):
    async with aiohttp.ClientSession() as session, session.request(method, url) as response:
        return response.status, await response.text(), response.headers


@pytest.mark.covers("LOA-03")
@scenario
async def test_the_answer_to_a_login_is_taken_and_the_person_is_told():
    async with LoopbackListener() as listener:
        assert listener.redirect_uri.startswith("http://127.0.0.1:")
        waiting = asyncio.create_task(listener.response(is_expected))
        status, page, headers = await get(f"{listener.redirect_uri}?code=c&state=ours&iss=https://a")
        response = await asyncio.wait_for(waiting, DEADLINE)
    assert (response.code, response.state, response.iss, response.error) == ("c", "ours", "https://a", None)
    assert status == 200
    assert "You are logged in" in page
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")


@pytest.mark.covers("LOA-03")
@scenario
async def test_what_is_no_answer_to_the_login_is_turned_away_and_the_login_goes_on():
    async with LoopbackListener() as listener:
        uri = listener.redirect_uri
        waiting = asyncio.create_task(listener.response(is_expected))
        await asyncio.sleep(0)
        assert (await get(uri.replace("/callback", "/favicon.ico")))[0] == 404
        assert (await get(f"{uri}?code=c&state=theirs"))[0] == 400
        assert (await get(f"{uri}?code=c&code=d&state=ours"))[0] == 400
        assert (await get(f"{uri}?code=c&state=ours", "POST"))[0] == 405
        reader, writer = await asyncio.open_connection("127.0.0.1", int(uri.split(":")[2].split("/")[0]))
        writer.write(b"x" * (2 * MAX_HEAD))
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), DEADLINE) == b""
        writer.close()
        assert not waiting.done()
        assert (await get(f"{uri}?code=c&state=ours"))[0] == 200
        assert (await asyncio.wait_for(waiting, DEADLINE)).code == "c"


@pytest.mark.covers("LOA-03")
@scenario
async def test_nothing_is_taken_before_a_login_waits():
    async with LoopbackListener() as listener:
        assert (await get(f"{listener.redirect_uri}?code=forged&state=forged"))[0] == 400
        waiting = asyncio.create_task(listener.response(is_expected))
        await asyncio.sleep(0)
        assert (await get(f"{listener.redirect_uri}?code=c&state=ours"))[0] == 200
        assert (await asyncio.wait_for(waiting, DEADLINE)).code == "c"


@pytest.mark.covers("LOA-03")
@scenario
async def test_a_login_that_was_denied_shows_nothing_that_the_server_said():
    async with LoopbackListener() as listener:
        waiting = asyncio.create_task(listener.response(is_expected))
        await asyncio.sleep(0)
        _, page, _ = await get(f"{listener.redirect_uri}?error=call-555&error_description=call-555&state=ours")
        assert (await asyncio.wait_for(waiting, DEADLINE)).error == "call-555"
    assert "You are not logged in" in page
    assert "555" not in page


@pytest.mark.covers("LOA-03")
@scenario
async def test_a_redirect_uri_says_where_to_listen_and_a_taken_port_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AuthError, match=f"port {port}"):
            await LoopbackListener(f"http://127.0.0.1:{port}/back").open()
    async with LoopbackListener(f"http://localhost:{port}/back") as listener:
        waiting = asyncio.create_task(listener.response(is_expected))
        await asyncio.sleep(0)
        assert (await get(f"http://localhost:{port}/back?code=c&state=ours"))[0] == 200
        await asyncio.wait_for(waiting, DEADLINE)


@scenario
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


@scenario
async def test_a_browser_that_stays_open_does_not_hold_up_the_login():
    async def redirect(url):
        await get(f"{listener.redirect_uri}?code=c&state=ours")
        await asyncio.Event().wait()

    async with LoopbackListener() as listener:
        response = await asyncio.wait_for(
            ListenerLogin(listener, redirect).log_in("https://a.example.com/", is_expected), DEADLINE
        )
    assert response.code == "c"


@scenario
async def test_a_redirect_handler_that_fails_ends_the_login():
    def redirect(url):
        raise LookupError("no window")

    async with LoopbackListener() as listener:
        with pytest.raises(LookupError, match="no window"):
            await ListenerLogin(listener, redirect).log_in("https://a.example.com/", is_expected)


@pytest.mark.covers("OAU-18")
@scenario
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


@scenario
async def test_nobody_who_logs_in_is_an_error(monkeypatch):
    monkeypatch.setattr(interaction, "LOGIN_SECONDS", 0.05)
    async with LoopbackListener() as listener:
        with pytest.raises(AuthRequired, match="Nobody logged in"):
            await ListenerLogin(listener, lambda url: None).log_in("https://a.example.com/", is_expected)


@scenario
async def test_a_web_application_is_told_to_use_start_and_finish():
    with pytest.raises(AuthRequired, match="start"):
        await prepare_login("https://app.example.com/callback", None, lambda url: None, None)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "http://example.com/", "-x"])
@scenario
async def test_nothing_but_safe_addresses_is_opened(url):
    opened = []
    with pytest.raises(InsecureUrl):
        await open_url(url, opened.append)
    assert not opened


@scenario
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
