"""The listener that a browser is sent back to."""

import asyncio
import socket
from contextlib import suppress

import aiohttp
import pytest

from dragoman.auth.client.loopback_listener import MAX_HEAD, LoopbackListener
from dragoman.errors import AuthError

DEADLINE = 60


def is_expected(response):
    return response.state == "ours"


async def get(url, method="GET"):
    async with aiohttp.ClientSession() as session, session.request(method, url) as response:
        return response.status, await response.text(), response.headers


@pytest.mark.covers("LOA-03")
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
async def test_nothing_is_taken_before_a_login_waits():
    async with LoopbackListener() as listener:
        assert (await get(f"{listener.redirect_uri}?code=forged&state=forged"))[0] == 400
        waiting = asyncio.create_task(listener.response(is_expected))
        await asyncio.sleep(0)
        assert (await get(f"{listener.redirect_uri}?code=c&state=ours"))[0] == 200
        assert (await asyncio.wait_for(waiting, DEADLINE)).code == "c"


@pytest.mark.covers("LOA-03")
async def test_a_login_that_was_denied_shows_nothing_that_the_server_said():
    async with LoopbackListener() as listener:
        waiting = asyncio.create_task(listener.response(is_expected))
        await asyncio.sleep(0)
        _, page, _ = await get(f"{listener.redirect_uri}?error=call-555&error_description=call-555&state=ours")
        assert (await asyncio.wait_for(waiting, DEADLINE)).error == "call-555"
    assert "You are not logged in" in page
    assert "555" not in page


@pytest.mark.covers("LOA-03")
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
