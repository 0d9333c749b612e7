"""The HTTP service of the inspector: who may use it, the page, and the socket of events."""

import json

import aiohttp
import pytest
from yarl import URL

from dragoman.inspector.events import MAX_QUEUED
from scenarios.inspector_page import COMMAND, open_page


@pytest.fixture
def static(tmp_path):
    folder = tmp_path / "static"
    (folder / "parts").mkdir(parents=True)
    (folder / "index.html").write_text("<title>Inspector</title>", encoding="utf-8")
    (folder / "parts" / "page.js").write_text("export const a = 1", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("not for you", encoding="utf-8")
    return folder


async def test_the_page_is_served_without_a_token_and_with_headers_that_protect_it(static):
    async with open_page(static=static) as page:
        async with page.session.get(page.origin + "/") as response:
            assert (response.status, await response.text()) == (200, "<title>Inspector</title>")
            assert response.content_type == "text/html"
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Cache-Control"] == "no-store"
        async with page.session.get(page.origin + "/parts/page.js") as response:
            assert (response.status, response.content_type) == (200, "text/javascript")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/parts/..%2f..%2fsecret.txt",
        "/none.js",
        "/parts",
        "/a%00b",
        "/" + "a" * 300,
    ],
)
async def test_nothing_outside_of_the_page_is_served(static, path):
    async with open_page(static=static) as page:
        response = await page.session.get(URL(page.origin + path, encoded=True))
        assert response.status == 404
        assert "not for you" not in await response.text()


async def test_the_url_of_the_page_has_its_token_in_the_fragment_alone():
    async with open_page() as page:
        before, fragment = f"{page.origin}/#token={page.token}".split("#")
        assert page.token not in before
        assert fragment == f"token={page.token}"
        assert page.origin.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Dragoman-Token": "wrong"}, 401),
        ({"X-Dragoman-Token": ""}, 401),
        ({"Host": "evil.example.com"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_verb_is_refused_without_the_token_and_to_other_sites(headers, status):
    async with open_page() as page:
        response, body = await page.post("servers/add", {"target": COMMAND}, headers=headers)
        assert (response.status, "message" in json.loads(body)["error"]) == (status, True)
        assert (await page.call("servers/list"))["servers"] == []


async def test_the_page_itself_is_refused_to_a_name_that_is_bound_to_this_machine_later():
    async with open_page() as page:
        response = await page.session.get(page.origin + "/", headers={"Host": "rebound.example.com:80"})
        assert response.status == 403
        response.release()


@pytest.mark.parametrize("first", ['{"token": "wrong"}', "no json", "[]", "{}", "[" * 4000])
async def test_a_socket_with_a_wrong_token_is_closed_without_an_event(first):
    async with open_page(COMMAND) as page, page.session.ws_connect(f"{page.origin}/api/events") as socket:
        await socket.send_str(first)
        message = await socket.receive(timeout=10)
        assert (message.type, socket.close_code) == (aiohttp.WSMsgType.CLOSE, 4401)


async def test_a_socket_of_another_site_is_refused():
    async with open_page() as page:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await page.session.ws_connect(f"{page.origin}/api/events", origin="https://evil.example.com")
        assert refused.value.status == 403


async def test_unknown_verbs_and_broken_bodies_are_refused():
    async with open_page() as page:
        assert (await page.refused("servers/explode")).status == 404
        assert (await page.refused("servers/_client")).status == 404
        response, _ = await page.post("servers/add", data=b"{")
        assert response.status == 400
        response, _ = await page.post("servers/add", data=b'{"target": "\xff"}')
        assert response.status == 400
        async with page.session.put(f"{page.origin}/api/servers/list") as response:
            assert response.status == 405


async def test_a_page_that_reads_too_slowly_is_told_to_fetch_everything_again():
    async with open_page() as page:
        with page.inspector.events.subscribed() as queue:
            for number in range(MAX_QUEUED + 1):
                page.inspector.events.push("notice", detail=str(number))
            assert json.loads(await queue.get()) == {"event": "lagging"}
            assert json.loads(await queue.get())["detail"] == str(MAX_QUEUED)
