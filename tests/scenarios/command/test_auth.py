"""`dragoman auth`, and what the other verbs make of a login."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from auth.world import world
from dragoman import Server
from scenarios.command_line import BROWSER, dragoman
from scenarios.raw_http import answering, reply

server = Server("guarded")


@server.tool
def secret() -> str:
    """Tells a secret."""
    return "the tea is in the cellar"


@asynccontextmanager
async def guarded(**settings):
    async with world(**settings) as there:
        there.inner = server.handle_json_async
        yield there


async def command(*arguments, **options):
    return await asyncio.to_thread(dragoman, *arguments, **options)


@pytest.mark.covers("CMD-12")
async def test_one_login_serves_every_later_command_until_the_logout(tmp_path):
    async with guarded() as there:
        before = await command("call", there.url, "secret", home=tmp_path)
        assert (before.code, before.out) == (3, "")
        assert f"log in with: dragoman auth login {there.url}, or give --token" in before.err
        missing = await command("auth", "status", there.url, "--json", home=tmp_path)
        assert (missing.code, missing.json) == (1, {"url": there.url, "loggedIn": False})

        entered = await command("auth", "login", there.url, home=tmp_path, BROWSER=BROWSER)
        assert (entered.code, entered.out) == (0, f"Logged in to {there.url}.\n")

        after = await command("call", there.url, "secret", home=tmp_path)
        assert (after.code, after.out) == (0, "the tea is in the cellar\n")
        told = await command("auth", "status", there.url, "--json", home=tmp_path)
        assert (told.code, told.json["loggedIn"], told.json["issuer"]) == (0, True, there.issuer)
        plain = await command("auth", "status", there.url, home=tmp_path)
        assert "(renewed by itself)" in plain.out
        assert "access-token" not in told.out + plain.out + entered.out + entered.err

        left = await command("auth", "logout", there.url, home=tmp_path)
        assert (left.code, left.out) == (0, f"Logged out of {there.url}.\n")
        assert (await command("call", there.url, "secret", home=tmp_path)).code == 3
        again = await command("auth", "logout", there.url, home=tmp_path)
        assert (again.code, again.out) == (0, f"There was no login to {there.url}.\n")


@pytest.mark.covers("CMD-12")
async def test_a_login_that_cannot_be_renewed_is_not_made_anew_by_the_way(tmp_path):
    async with guarded(gives_refresh=False) as there:
        await command("auth", "login", there.url, home=tmp_path, BROWSER=BROWSER)
        there.expire_everything()
        called = await command("call", there.url, "secret", home=tmp_path, BROWSER=BROWSER)
        assert called.code == 3
        assert f"log in again: dragoman auth login {there.url}" in called.err


@pytest.mark.covers("CMD-12", "OAU-30")
@pytest.mark.parametrize("supported", [["read", "write"], None])
async def test_a_call_that_needs_more_scopes_names_them_and_the_login_gets_them(tmp_path, supported):
    async with guarded(challenge_scope="read", scopes_supported=supported) as there:
        await command("auth", "login", there.url, home=tmp_path, BROWSER=BROWSER)
        there.settings.needed_scopes = frozenset({"read", "write"})
        for _ in range(2):
            called = await command("call", there.url, "secret", home=tmp_path, BROWSER=BROWSER)
            assert called.code == 3
            assert "The login lacks the scopes that the server wants, write" in called.err
            assert f"log in again: dragoman auth login {there.url} --scope write" in called.err
            assert "expired" not in called.err
        assert len(there.registrations) == 1
        there.settings.needed_scopes = frozenset()  # `initialize` itself needs no more
        words = ["auth", "login", there.url, "--scope", "write"]
        entered = await command(*words, home=tmp_path, BROWSER=BROWSER)
        assert (entered.code, entered.out) == (0, f"Logged in to {there.url}.\n")
        there.settings.needed_scopes = frozenset({"read", "write"})
        assert (await command("call", there.url, "secret", home=tmp_path)).out == "the tea is in the cellar\n"
        again = await command(*words, home=tmp_path)  # without a browser: there is nothing to log in for
        assert again.code == 0


@pytest.mark.covers("CMD-12")
async def test_first_login_asks_for_the_scopes_of_the_command_line_too(tmp_path):
    async with guarded(challenge_scope="read") as there:
        words = ["auth", "login", there.url, "--scope", "write", "--scope", "admin"]
        entered = await command(*words, "--json", home=tmp_path, BROWSER=BROWSER)
        assert entered.json["scopes"] == ["read", "write", "admin"]
        assert there.count("/authorize") == 1


@pytest.mark.covers("CMD-12", "CMD-14")
async def test_a_token_of_ones_own_needs_no_login(tmp_path):
    async with guarded() as there:
        await command("auth", "login", there.url, home=tmp_path / "other", BROWSER=BROWSER)
        (token,) = there.access
        for options, variables in (
            (["--token", token], {}),
            (["--header", f"Authorization: Bearer {token}"], {}),
            ([], {"DRAGOMAN_TOKEN": token}),
        ):
            called = await command("call", there.url, "secret", *options, home=tmp_path, **variables)
            assert (called.code, called.out) == (0, "the tea is in the cellar\n")


@pytest.mark.covers("CMD-12")
async def test_a_login_without_browser_and_terminal_says_what_is_missing(tmp_path):
    async with guarded() as there:
        entered = await command("auth", "login", there.url, home=tmp_path)
        assert (entered.code, entered.out, entered.err.count("\n")) == (3, "", 1)
        assert "neither a browser nor a terminal" in entered.err


def steps(found):
    return {finding["step"]: finding for finding in found.json["findings"]}


@pytest.mark.covers("CMD-12", "LCF-03")
async def test_a_server_of_a_file_that_asks_for_a_login_uses_the_one_that_was_made_and_makes_none(tmp_path):
    async with guarded() as there:
        path = tmp_path / "servers.json"
        path.write_text(json.dumps({"mcpServers": {"sums": {"url": there.url, "oauth": True}}}))
        given = ("list", "sums", "--config", path)
        refused = await command(*given, home=tmp_path, BROWSER=BROWSER)
        assert refused.code == 3
        assert f"dragoman auth login {there.url}" in refused.err
        assert not there.registrations
        await command("auth", "login", there.url, home=tmp_path, BROWSER=BROWSER)
        assert (await command(*given, home=tmp_path)).code == 0


@pytest.mark.covers("CMD-10")
async def test_the_doctor_shows_the_steps_to_a_login(tmp_path):
    async with guarded() as there:
        found = await command("doctor", there.url, "--json", home=tmp_path)
        known = steps(found)
        assert found.code == 1
        for step in ("challenge", "resource metadata", "authorization server", "PKCE", "registration"):
            assert known[step]["ok"], known[step]
        assert known["login"]["remedy"] == f"dragoman auth login {there.url}"
        await command("auth", "login", there.url, home=tmp_path, BROWSER=BROWSER)
        assert (await command("doctor", there.url, home=tmp_path)).code == 0


@pytest.mark.covers("CMD-10")
async def test_the_doctor_reports_what_it_saw_where_nothing_is_published(tmp_path):
    async def refuse(request, writer):
        is_post = request.verb == "POST"
        return reply(401, www_authenticate="Bearer") if is_post else reply(404)

    async with answering(refuse) as there:
        found = await command("doctor", there.url, "--json", home=tmp_path)
    assert found.code == 1
    known = steps(found)
    seen = known["authorization server"]
    assert not seen["ok"]
    assert "/.well-known/oauth-authorization-server answered with status 404" in seen["detail"]
    assert "--token" in seen["remedy"]
    assert "answered with status 404" in known["resource metadata"]["detail"]
    assert not {"PKCE", "registration", "authorization server metadata", "login"} & known.keys()


@pytest.mark.covers("CMD-10")
@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"resource": "https://evil.example.com/mcp"}, "authorization server"),
        ({"pkce": None}, "PKCE"),
        ({"registers": False}, "registration"),
        ({"claimed_issuer": "https://evil.example.com"}, "authorization server"),
        ({"metadata_at": None}, "resource metadata"),
    ],
)
async def test_the_doctor_finds_what_keeps_people_from_logging_in(tmp_path, settings, wrong):
    async with guarded(**settings) as there:
        found = await command("doctor", there.url, "--json", home=tmp_path)
        assert found.code == 1
        assert not steps(found)[wrong]["ok"]
        assert steps(found)[wrong]["remedy"]
