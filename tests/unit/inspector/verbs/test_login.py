"""The verbs of logins, with a protected server and its authorization server."""

import asyncio
import json

import pytest

from auth.world import world
from dragoman import Server
from scenarios.inspector_page import COMMAND, open_page

server = Server("vault")


@server.tool
async def secret() -> str:
    """Tells where the tea is."""
    return "the tea is in the cellar"


@pytest.fixture(autouse=True)
def own_logins(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


async def logged_in(page, id):
    """Begin a login, and visit the page to which it leads as a person who consents."""
    waiting = asyncio.ensure_future(page.call("login/begin", server=id))
    url = (await page.event("login"))["url"]
    async with page.session.get(url) as response:
        assert "You are logged in" in await response.text()
    return (await waiting)["login"]


async def test_a_person_logs_in_sees_the_token_renews_it_and_logs_out():
    async with world() as there, open_page() as page:
        there.inner = server.handle_json_async
        added = await page.added(there.url)
        id = added["id"]
        refused = await page.refused("servers/connect", server=id)
        assert (refused.error["kind"], refused.error["status"]) == ("AuthRequired", 401)
        assert "log in" in refused.error["remedy"]
        [before] = (await page.call("servers/list"))["servers"]
        assert before["status"] == "login"
        assert not there.registrations

        login = await logged_in(page, id)
        assert (login["loggedIn"], login["issuer"], login["canRefresh"]) == (True, there.issuer, True)
        assert (await page.tool(id, "secret"))["result"]["content"][0]["text"] == "the tea is in the cellar"

        [token] = there.access
        assert (await page.call("login/decode", server=id, token="access"))["opaque"] is True
        renewed = await page.call("login/refresh", server=id)
        assert renewed["login"]["loggedIn"] is True
        assert len(there.access) == 2

        ended = await page.call("login/end", server=id)
        assert ended["login"]["loggedIn"] is False
        assert (await page.refused("login/refresh", server=id)).error["kind"] == "AuthRequired"
        assert (await page.refused("login/decode", server=id, token="refresh")).status == 409
        _, saved = await page.post("traffic/save")
        told = saved.decode("utf-8", "replace") + json.dumps(page.events)
        assert token not in told


async def test_the_steps_of_a_login_are_in_the_traffic():
    async with world() as there, open_page() as page:
        there.inner = server.handle_json_async
        added = await page.added(there.url)
        await logged_in(page, added["id"])
        rows = (await page.call("traffic/rows", filter="kind:request", limit=100))["rows"]
        steps = " ".join(row["summary"] for row in rows)
        for step in ("/.well-known/oauth-protected-resource", "/register", "/token"):
            assert step in steps


async def test_an_examination_shows_the_rule_and_the_requests_of_each_step():
    async with world() as there, open_page() as page:
        there.inner = server.handle_json_async
        added = await page.added(there.url)
        found = await page.call("servers/examine", server=added["id"])
        steps = {finding["step"]: finding for finding in found["findings"]}
        assert [steps[step]["ok"] for step in ("DNS", "TCP", "TLS", "HTTP", "challenge")] == [True] * 5
        assert "RFC 9728" in steps["resource metadata"]["rule"]
        assert all(steps[step]["rule"] for step in ("challenge", "authorization server", "PKCE", "registration"))
        [exchange] = steps["resource metadata"]["exchanges"]
        assert (exchange["request"]["method"], exchange["response"]["status"]) == ("GET", 200)
        assert "authorization_servers" in exchange["response"]["body"]
        assert steps["PKCE"]["detail"] == "S256"
        assert not steps["login"]["ok"]


async def test_a_process_needs_no_login():
    async with open_page(COMMAND) as page:
        refused = await page.refused("login/status", server="s1")
        assert (refused.status, "need no login" in refused.error["message"]) == (409, True)
