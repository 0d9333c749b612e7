"""Logins for more scopes, at authorization servers that grant a client only the scopes of its registration."""

import pytest

from auth.visiting import OwnStorage, person, visit
from auth.world import world
from dragoman.errors import AuthError

pytestmark = pytest.mark.covers("OAU-30")


async def step_up(there, auth):
    """Visit the server with few scopes, and then where more are needed; return the status."""
    await visit(auth, there.url)
    there.settings.needed_scopes = frozenset({"read", "write"})
    return (await visit(auth, there.url)).status


@pytest.mark.parametrize("lets_unscoped_clients_ask", [True, False])
@pytest.mark.parametrize("field", ["scopes_supported", "resource_scopes"])
async def test_registration_has_all_known_scopes_so_that_one_is_enough(field, lets_unscoped_clients_ask):
    settings = {field: ["read", "write", "admin"], "lets_unscoped_clients_ask": lets_unscoped_clients_ask}
    async with world(challenge_scope="read", **settings) as there:
        browser, auth = person()
        assert await step_up(there, auth) == 200
        assert [asked["scope"] for asked in browser.asked] == ["read", "read write"]
        assert [registered["scope"] for registered in there.registrations] == ["read write admin"]


async def test_client_is_registered_anew_if_nobody_named_the_scopes_before():
    async with world(challenge_scope="read") as there:
        browser, auth = person()
        assert await step_up(there, auth) == 200
        assert [asked["scope"] for asked in browser.asked] == ["read", "read write"]
        assert [registered["scope"] for registered in there.registrations] == ["read", "read write"]
        there.expire_everything()
        assert (await visit(auth, there.url)).status == 200  # the new client renews its token
        assert len(browser.urls) == 2


async def test_registration_that_is_refused_with_all_scopes_is_repeated_with_the_needed_ones():
    async with world(challenge_scope="read", scopes_supported=["read"], resource_scopes=["read", "secret"]) as there:
        _, auth = person()
        assert (await visit(auth, there.url)).status == 200
        assert [registered["scope"] for registered in there.registrations] == ["read secret", "read"]


async def test_login_without_scopes_registers_none():
    async with world(scopes_supported=["read", "write"]) as there:
        _, auth = person()
        assert (await visit(auth, there.url)).status == 200
        assert "scope" not in there.registrations[0]


async def test_author_decides_the_scopes_of_the_registration():
    async with world(challenge_scope="read", scopes_supported=["read", "write"]) as there:
        _, auth = person(client_metadata={"scope": "read"})
        with pytest.raises(AuthError, match="invalid_scope: Client was not registered with scope write"):
            await step_up(there, auth)
        assert [registered["scope"] for registered in there.registrations] == ["read"]


async def test_registration_of_unknown_scopes_is_replaced_when_it_is_refused():
    storage = OwnStorage()
    async with world(challenge_scope="read") as there:
        browser, auth = person(storage=storage)
        await visit(auth, there.url)
        del storage.kept["client"]["scope"]  # as earlier releases stored it
        there.settings.needed_scopes = frozenset({"read", "write"})
        browser, auth = person(storage=storage)
        assert (await visit(auth, there.url)).status == 200
        assert len(there.registrations) == 2
        assert [asked["scope"] for asked in browser.asked] == ["read write", "read write"]


async def test_login_that_fails_after_a_new_registration_keeps_the_old_login():
    storage = OwnStorage()
    async with world(challenge_scope="read") as there:
        _, auth = person(storage=storage)
        await visit(auth, there.url)
        there.settings.needed_scopes = frozenset({"read", "write"})
        there.settings.token_error = {"error": "server_error"}
        with pytest.raises(AuthError, match="server_error"):
            await visit(auth, there.url)
        there.settings.token_error = None
        there.settings.needed_scopes = frozenset({"read"})
        there.expire_everything()
        browser, auth = person(storage=storage)
        assert (await visit(auth, there.url)).status == 200
        assert browser.urls == []  # renewed with the old registration
        assert there.forms("refresh_token")


async def test_web_application_steps_up_with_start_and_finish():
    storage = OwnStorage()
    async with world(challenge_scope="read") as there:
        browser, auth = person(storage=storage)
        await visit(auth, there.url)
        _, auth = person(storage=storage, scope="read write")
        there.settings.challenge_scope = None
        await browser.redirect(await auth.start(there.url))
        _, auth = person(storage=storage)  # another process
        code, state, iss = await browser.callback()
        await auth.finish(code, state, iss, url=there.url)
        there.settings.needed_scopes = frozenset({"read", "write"})
        assert (await visit(auth, there.url)).status == 200
        assert len(browser.urls) == 2


async def test_refused_login_says_why():
    async with world(challenge_scope="read", lets_unscoped_clients_ask=False) as there:
        _, auth = person(client_metadata={"scope": "other"})
        with pytest.raises(AuthError, match="did not authorize: invalid_scope: Client was not registered"):
            await visit(auth, there.url)
