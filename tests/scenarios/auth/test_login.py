"""A login, from the challenge to the token: discovery, registration, scopes, and what is refused on the way."""

import gzip

import pytest
from aiohttp import web

from auth.visiting import REDIRECT, OwnStorage, person, visit
from auth.world import world, world_with_person
from dragoman.auth import MemoryStorage
from dragoman.errors import AuthError, AuthRequired, InsecureUrl

DOCUMENT = "https://client.example.com/client.json"


@pytest.mark.covers("OAU-01", "OAU-37", "OAU-11", "OAU-21")
async def test_a_challenge_leads_to_one_login_and_every_later_request_has_the_token():
    async with world_with_person() as (there, browser, auth):
        first = await visit(auth, there.url)
        second = await visit(auth, there.url, "GET")
        assert (first.status, first.attempts, second.status, second.attempts) == (200, 2, 200, 1)
        (asked,) = browser.asked
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["state"]) >= 43
        (form,) = there.forms("authorization_code")
        assert len(form["code_verifier"]) == 86
        assert there.count("/register") == 1


@pytest.mark.covers("OAU-24")
async def test_the_resource_is_named_byte_for_byte_in_every_request():
    async with world_with_person() as (there, browser, auth):
        await visit(auth, there.url)
        there.expire_everything()
        await visit(auth, there.url)
        named = {browser.asked[0]["resource"], *(form["resource"] for form in there.forms("refresh_token"))}
        assert named == {there.url} == {form["resource"] for form in there.forms("authorization_code")}


@pytest.mark.covers("OAU-24")
async def test_metadata_of_another_resource_end_the_login_before_it_begins():
    async with world_with_person(resource="https://evil.example.com/mcp") as (there, browser, auth):
        with pytest.raises(AuthError, match="another resource"):
            await visit(auth, there.url)
        assert not browser.urls
        assert not there.registrations


@pytest.mark.covers("OAU-04", "SEC-06")
@pytest.mark.parametrize("place", ["header", "path", "root", "elsewhere"])
async def test_the_servers_metadata_are_found(place):
    async with world_with_person(metadata_at=place) as (there, _, auth):
        assert (await visit(auth, there.url)).status == 200
        asked = [path for _, path, _, _ in there.requests if "protected-resource" in path or "custom" in path]
        by_path, root = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"
        expected = {
            "header": [by_path],
            "path": [by_path],
            "root": [by_path, root],
            "elsewhere": ["/custom/metadata.json"],
        }
        assert asked == expected[place]


@pytest.mark.covers("SEC-06")
async def test_metadata_of_another_origin_are_not_read():
    async with world(metadata_at="path") as there, world() as elsewhere:
        _, auth = person()
        challenge = (
            f'Bearer resource_metadata="{elsewhere.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")}"'
        )
        assert await auth.headers("POST", there.url) == {}
        assert await auth.challenged(401, {"www-authenticate": challenge}, "POST", there.url)
        assert not elsewhere.requests
        assert (await visit(auth, there.url)).attempts == 1


@pytest.mark.covers("OAU-06")
@pytest.mark.parametrize(
    ("prefix", "kind", "tried"),
    [
        ("", "oauth-authorization-server", 1),
        ("", "openid-configuration", 2),
        ("/tenant1", "oauth-authorization-server", 1),
        ("/tenant1", "openid-configuration", 2),
        ("/tenant1", "appended", 3),
    ],
)
async def test_the_authorization_servers_metadata_are_found(prefix, kind, tried):
    async with world_with_person(issuer_path=prefix, server_metadata=kind) as (there, _, auth):
        assert (await visit(auth, there.url)).status == 200
        asked = [path for _, path, _, _ in there.requests if "oauth-auth" in path or "openid" in path]
        assert len(asked) == tried
        assert prefix == "" or not [path for path in asked if "tenant1" not in path]


@pytest.mark.covers("OAU-07")
@pytest.mark.parametrize("claimed", ["https://evil.example.com", "slash"])
async def test_metadata_of_another_issuer_are_not_used(claimed):
    async with world() as there:
        there.settings.claimed_issuer = there.issuer + "/" if claimed == "slash" else claimed
        browser, auth = person()
        with pytest.raises(AuthError, match="another issuer"):
            await visit(auth, there.url)
        assert not browser.urls
        assert not there.registrations


@pytest.mark.covers("OAU-05")
@pytest.mark.parametrize("servers", [[], "https://auth.example.com", [1], None])
async def test_metadata_that_name_no_authorization_server_are_an_error(servers):
    async with world_with_person() as (there, _, auth):
        there.settings.issuers = servers
        with pytest.raises(AuthError, match="name no authorization server"):
            await visit(auth, there.url)


@pytest.mark.covers("OAU-08", "LOA-09")
@pytest.mark.parametrize("kind", ["oauth-authorization-server", None])
async def test_a_server_without_metadata_is_its_own_authorization_server(kind):
    async with world_with_person(metadata_at=None, server_metadata=kind) as (there, browser, auth):
        assert (await visit(auth, there.url)).status == 200
        assert browser.urls[0].startswith(there.url.replace("/mcp", "/authorize?"))
        assert browser.asked[0]["resource"] == there.url


def broken(base):
    raise RuntimeError("the metadata are out of order")


@pytest.mark.covers("OAU-08")
@pytest.mark.parametrize(
    ("settings", "breaks", "said"),
    [
        ({"server_metadata": None}, None, "publishes no metadata"),
        ({}, "_metadata", r"are not available: .* status 500"),
        ({"metadata_at": None}, "_metadata", r"cannot be found: .* status 500"),
        ({}, "_resource_metadata", None),
    ],
)
async def test_metadata_that_cannot_be_had_are_an_error_that_says_so(settings, breaks, said):
    async with world(**settings) as there:
        if breaks is not None:
            setattr(there, breaks, broken)
        with pytest.raises(AuthError, match=said):
            await visit(person()[1], there.url)
        assert there.count("/token") == 0


@pytest.mark.covers("OAU-34")
@pytest.mark.parametrize("missing", ["token_endpoint", "authorization_endpoint"])
async def test_an_authorization_server_without_its_endpoints_is_an_error(missing):
    async with world(metadata={missing: None}) as there:
        with pytest.raises(AuthError, match=missing):
            await visit(person()[1], there.url)


@pytest.mark.covers("OAU-09", "LOA-08")
@pytest.mark.parametrize("methods", [None, [], ["plain"]])
async def test_a_login_without_pkce_is_refused(methods):
    async with world_with_person(pkce=methods) as (there, browser, auth):
        with pytest.raises(AuthError, match="S256"):
            await visit(auth, there.url)
        assert not browser.urls


@pytest.mark.covers("SEC-07", "SEC-01")
async def test_metadata_lead_to_no_unsafe_place():
    async with world_with_person() as (there, browser, auth):
        for name in ("token_endpoint", "authorization_endpoint", "registration_endpoint"):
            there.settings.metadata = {name: "http://auth.example.com/x?secret=1"}
            with pytest.raises(InsecureUrl) as raised:
                await visit(auth, there.url)
            assert "secret" not in str(raised.value)
        assert not browser.urls


@pytest.mark.covers("OAU-10", "OAU-13", "OAU-15")
async def test_a_metadata_document_is_preferred_where_it_is_taken_and_never_kept():
    own = MemoryStorage()
    async with world(takes_documents=True) as there:
        browser, auth = person(client_id_metadata_document_url=DOCUMENT, storage=own)
        assert (await visit(auth, there.url)).status == 200
        assert browser.asked[0]["client_id"] == DOCUMENT
        assert not there.registrations
        there.expire_everything()
        assert (await visit(auth, there.url)).status == 200
        assert len(browser.urls) == 1
        assert [drawer.client_information() for drawer in own._drawers.values()] == [None]


@pytest.mark.covers("OAU-10")
@pytest.mark.parametrize("said", [False, "true", 1])
async def test_without_a_plain_yes_the_client_registers_itself(said):
    async with world(takes_documents=said) as there:
        browser, auth = person(client_id_metadata_document_url=DOCUMENT)
        assert (await visit(auth, there.url)).status == 200
        assert browser.asked[0]["client_id"].startswith("client-")


@pytest.mark.covers("OAU-11", "OAU-12", "LOA-10", "LOA-01")
async def test_a_registration_says_what_the_author_says():
    async with world() as there:
        metadata = {"client_name": "Ada's reader", "contacts": ["ada@example.com"], "application_type": "web"}
        _, auth = person(client_metadata=metadata, scope=["read"])
        await visit(auth, there.url)
        (registered,) = there.registrations
        assert registered == metadata | {
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": "read",
        }
        _, other = person()
        await visit(other, there.url)
        assert there.registrations[1]["application_type"] == "native"


@pytest.mark.covers("OAU-10", "OAU-27", "OAU-28")
async def test_a_client_that_was_registered_beforehand_uses_its_own_id_and_renews():
    async with world(registers=False, auth_methods=None) as there:
        there.clients["known"] = {"client_id": "known", "client_secret": "a secret", "redirect_uris": [REDIRECT]}
        browser, auth = person(client_id="known", client_secret="a secret")
        assert (await visit(auth, there.url)).status == 200
        there.expire_everything()
        assert (await visit(auth, there.url)).status == 200
        assert len(browser.urls) == 1
        _, blank = person(client_id=" ", client_secret="")
        with pytest.raises(AuthError, match="give client_id="):
            await visit(blank, there.url)


@pytest.mark.covers("OAU-26")
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
async def test_the_token_endpoint_is_asked_in_the_way_that_it_takes(method):
    async with world_with_person(auth_methods=[method]) as (there, _, auth):
        assert (await visit(auth, there.url)).status == 200
        (form,) = there.forms("authorization_code")
        headers = next(headers for _, path, _, headers in there.requests if path == "/token")
        assert ("client_id" in form, "client_secret" in form, "Authorization" in headers) == {
            "client_secret_basic": (True, False, True),
            "client_secret_post": (True, True, False),
            "none": (True, False, False),
        }[method]


@pytest.mark.covers("OAU-22", "OAU-23")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"challenge_scope": "a b", "resource_scopes": ["c"]}, "a b"),
        ({"resource_scopes": ["c", "d"]}, "c d"),
        ({}, "own"),
        ({"scopes_supported": ["own", "offline_access"]}, "own offline_access"),
        ({"challenge_scope": "a offline_access"}, "a"),
        ({"scopes_supported": ["x", "offline_access"]}, None),
    ],
)
async def test_the_right_scopes_are_asked_for(settings, expected):
    async with world(**settings) as there:
        browser, auth = person(scope=expected and "own")
        await visit(auth, there.url)
        assert browser.asked[0].get("scope") == expected


@pytest.mark.covers("OAU-25")
async def test_what_the_authorization_endpoint_already_asks_is_kept():
    async with world_with_person(authorization_query="?audience=x&state=forged") as (there, browser, auth):
        assert (await visit(auth, there.url)).status == 200
        assert browser.asked[0]["audience"] == "x"
        assert "forged" not in browser.urls[0]


@pytest.mark.covers("OAU-20")
@pytest.mark.parametrize(
    ("iss", "advertised", "goes_on"),
    [
        ("right", True, True),
        ("right", False, True),
        (None, False, True),
        (None, True, False),
        ("wrong", True, False),
        ("wrong", False, False),
        ("slash", True, False),
    ],
)
async def test_a_code_is_used_only_if_it_comes_from_the_right_issuer(iss, advertised, goes_on):
    async with world_with_person(iss=iss, advertises_iss=advertised) as (there, browser, auth):
        if goes_on:
            assert (await visit(auth, there.url)).status == 200
        else:
            with pytest.raises(AuthError, match="it is not used"):
                await visit(auth, there.url)
            assert len(browser.urls) == 1
        assert there.count("/token") == goes_on


@pytest.mark.covers("OAU-19")
async def test_a_code_of_another_login_is_not_used():
    async with world() as there:
        _, auth = person(callback_handler=lambda: ("stolen-code", "another-state"))
        with pytest.raises(AuthError, match="does not belong"):
            await visit(auth, there.url)
        assert there.count("/token") == 0


@pytest.mark.covers("OAU-30")
async def test_more_scopes_are_asked_for_together_with_those_that_were_had():
    async with world_with_person(challenge_scope="read") as (there, browser, auth):
        await visit(auth, there.url)
        there.settings.needed_scopes = frozenset({"write"})
        answer = await visit(auth, there.url)
        assert (answer.status, answer.attempts) == (200, 2)
        assert [asked["scope"] for asked in browser.asked] == ["read", "read write"]
        assert not there.forms("refresh_token")


@pytest.mark.covers("OAU-30")
async def test_a_demand_that_is_never_satisfied_is_met_once():
    async with world_with_person(always_insufficient=True) as (there, browser, auth):
        for _ in range(3):
            with pytest.raises(AuthRequired, match="more") as raised:
                await visit(auth, there.url)
            assert raised.value.status == 403
        assert len(browser.urls) == 2


@pytest.mark.covers("OAU-30")
async def test_a_demand_that_could_not_be_met_is_met_again_after_a_while():
    async with world_with_person(challenge_scope="read") as (there, browser, auth):
        await visit(auth, there.url)
        there.settings.needed_scopes = frozenset({"write"})
        there.settings.token_error = {"error": "server_error"}
        with pytest.raises(AuthError, match="server_error"):
            await visit(auth, there.url)
        there.settings.token_error = None
        with pytest.raises(AuthRequired, match="write"):
            await visit(auth, there.url)
        assert len(browser.urls) == 2
        auth._step_up_after = dict.fromkeys(auth._step_up_after, 0.0)
        assert (await visit(auth, there.url)).status == 200


@pytest.mark.covers("OAU-30")
async def test_a_plain_403_stands():
    async with world_with_person() as (there, _, auth):
        await visit(auth, there.url)
        for header in ({}, {"WWW-Authenticate": 'Bearer error="invalid_token"'}, {"WWW-Authenticate": "Basic"}):
            assert not await auth.challenged(403, header, "POST", there.url)


@pytest.mark.covers("OAU-03", "LOA-07")
async def test_a_server_that_refuses_its_own_token_causes_one_login_per_request():
    async with world_with_person(refuses_always=True) as (there, browser, auth):
        with pytest.raises(AuthRequired, match="refuses the token"):
            await visit(auth, there.url)
        assert len(browser.urls) == 1


@pytest.mark.covers("OAU-32", "OAU-33", "BEY-23")
async def test_another_authorization_server_means_another_registration_and_no_old_credentials():
    async with world() as there, world() as other:
        browser, auth = person()
        await visit(auth, there.url)
        old = browser.asked[0]["client_id"]
        there.settings.issuers = [other.issuer]
        there.access = other.access
        assert (await visit(auth, there.url)).status == 200
        assert len(other.registrations) == 1
        assert old not in str(other.requests)
        assert "refresh-token" not in str(other.requests)


@pytest.mark.covers("OAU-32", "BEY-23")
async def test_an_id_that_was_given_for_one_server_is_not_used_with_another():
    async with world(auth_methods=None) as there, world() as other:
        there.clients["known"] = {"client_id": "known", "client_secret": "a secret", "redirect_uris": [REDIRECT]}
        _, auth = person(client_id="known", client_secret="a secret")
        await visit(auth, there.url)
        there.expire_everything()
        there.settings.issuers = [other.issuer]
        with pytest.raises(AuthError, match="credentials belong to"):
            await visit(auth, there.url)
        assert other.count("/authorize") == other.count("/token") == 0


@pytest.mark.covers("OAU-32")
async def test_a_registration_of_unknown_origin_belongs_to_the_first_server_that_it_is_used_with():
    own = OwnStorage(client={"client_id": "known", "redirect_uris": [REDIRECT]})
    async with world(registers=False) as there:
        there.clients["known"] = {"client_id": "known", "redirect_uris": [REDIRECT]}
        _, auth = person(storage=own)
        assert (await visit(auth, there.url)).status == 200
        assert own.kept["client"]["issuer"] == there.issuer


@pytest.mark.covers("OAU-34", "OAU-36")
@pytest.mark.parametrize("path", ["/.well-known/oauth-authorization-server", "/register", "/token"])
@pytest.mark.parametrize("said", ["list", "text", "redirect", "empty"])
async def test_an_answer_that_is_no_json_object_is_an_error_of_ours(path, said):
    async with world() as there:
        redirect = web.Response(status=307, headers={"Location": f"{there.issuer}/elsewhere"})
        texts = {"list": "[1]", "text": "<html>", "empty": ""}
        await answer_instead(there, path, redirect if said == "redirect" else web.Response(text=texts[said]))
        with pytest.raises(AuthError):
            await visit(person()[1], there.url)
        assert there.count("/elsewhere") == 0


async def answer_instead(there, path, answer):
    """Let the authorization server answer otherwise at a path."""
    original = there._authorization

    async def serve(request):
        return answer if request.path == path else await original(request)

    there.issuer = await there._serve(serve)


@pytest.mark.covers("OAU-35")
async def test_an_answer_without_end_is_cut():
    async with world() as there:
        body = gzip.compress(b'{"client_id": "' + b"x" * (8 * 1024 * 1024) + b'"}')
        huge = web.Response(body=body, headers={"Content-Encoding": "gzip"}, status=201)
        await answer_instead(there, "/register", huge)
        with pytest.raises(AuthError, match="more than 4194304 bytes"):
            await visit(person()[1], there.url)


@pytest.mark.covers("OAU-11")
async def test_a_registration_that_is_refused_says_why():
    async with world() as there:
        said = {"error": "invalid_redirect_uri", "error_description": "no loopback here"}
        await answer_instead(there, "/register", web.json_response(said, status=400))
        with pytest.raises(AuthError, match="invalid_redirect_uri: no loopback here"):
            await visit(person()[1], there.url)
