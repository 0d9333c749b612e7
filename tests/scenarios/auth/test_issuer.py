"""Servers that point to another issuer than the one that credentials belong to."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.jwk import ECKey

from auth.visiting import REDIRECT, Browser, OwnStorage, person, query, visit
from auth.world import world
from dragoman.auth import ClientCredentials, CrossAppAccess, FileStorage, MemoryStorage, OAuth, WorkloadIdentity
from dragoman.errors import AuthError

TESTS = Path(__file__).parents[2]
DEADLINE = 60
SIGNING_KEY = ec.generate_private_key(ec.SECP256R1())
SECRET = re.compile(r"refresh-token-|the-own-secret|registered-secret-|the-assertion|the-code-|code_verifier")


def login(**options):
    return person(**options)[1]


KINDS = {
    "a person": login,
    "a person with a client": lambda **more: login(client_id="reports", client_secret="the-own-secret", **more),
    "a person with a document": lambda **more: login(
        client_id_metadata_document_url="https://client.example.com/client.json", **more
    ),
    "a program": lambda **more: ClientCredentials("reports", "the-own-secret", **more),
    "a program that signs": lambda **more: ClientCredentials(
        "reports",
        token_endpoint_auth_method="private_key_jwt",
        private_key=SIGNING_KEY,
        signing_algorithm="ES256",
        **more,
    ),
    "an enterprise": lambda **more: CrossAppAccess(
        "reports", "the-own-secret", assertion_provider=lambda audience, resource: "the-assertion", **more
    ),
    "a workload": lambda **more: WorkloadIdentity("the-assertion", **more),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def honest(kind):
    """Return a server and the authorization server that it names, where each kind is let in."""
    return world(takes_documents=True, auth_methods=["client_secret_post"] if kind == "a person" else None)


def introduce(there):
    public = SIGNING_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    there.clients["signer"] = {"key": ECKey.import_key(public)}
    there.clients["reports"] = {"client_secret": "the-own-secret", "redirect_uris": [REDIRECT]}


def withdraw(there, *, claims):
    """Let a server stop naming its authorization server, and take that one's place under a name."""
    there.settings.metadata_at = None
    there.settings.claimed_issuer = claims


def told(there, url):
    """Return everything but well-known documents that was asked at the host of a URL, beside the server itself."""
    host = urlsplit(url).netloc
    return [
        (path, form, headers.get("Authorization", ""))
        for _, path, form, headers in there.requests
        if headers["Host"] == host and path != "/mcp" and "well-known" not in path
    ]


@pytest.mark.covers("OAU-07", "OAU-08", "BEY-23")
@every_kind
async def test_a_server_that_claims_to_be_another_issuer_gets_nothing(kind):
    async with honest(kind) as there:
        introduce(there)
        withdraw(there, claims=there.issuer)
        with pytest.raises(AuthError, match="are of another issuer; they are not used"):
            await visit(KINDS[kind](), there.url)
        assert told(there, there.url) == []


@pytest.mark.covers("OAU-33", "CCR-05", "BEY-23")
@every_kind
@pytest.mark.parametrize("claims", ["the honest issuer", "itself", "nothing at all"])
async def test_after_a_login_a_server_that_takes_the_place_of_its_issuer_gets_nothing(kind, claims):
    async with honest(kind) as there:
        introduce(there)
        auth = KINDS[kind]()
        assert (await visit(auth, there.url)).status == 200
        there.expire_everything()
        withdraw(there, claims=there.issuer if claims == "the honest issuer" else None)
        if claims == "nothing at all":
            there.settings.server_metadata = None
        with pytest.raises(AuthError) as raised:
            await visit(auth, there.url)
        assert told(there, there.url) == []
        if claims != "the honest issuer":
            assert f"belong to {there.issuer}" in str(raised.value)
            assert "issuer=" in str(raised.value)
            assert "dragoman auth logout" in str(raised.value)


@pytest.mark.covers("OAU-33", "BEY-23")
@every_kind
async def test_a_demand_for_more_scopes_is_no_way_around_the_issuer(kind):
    async with honest(kind) as there:
        introduce(there)
        auth = KINDS[kind]()
        assert (await visit(auth, there.url)).status == 200
        there.settings.needed_scopes = frozenset({"write"})
        withdraw(there, claims=None)
        with pytest.raises(AuthError, match=f"belong to {there.issuer}"):
            await visit(auth, there.url)
        assert told(there, there.url) == []


@pytest.mark.covers("OAU-45")
@every_kind
async def test_an_issuer_that_the_author_names_is_the_only_one_that_gets_credentials(kind):
    async with honest(kind) as there, honest(kind) as other:
        introduce(there)
        introduce(other)
        auth = KINDS[kind](issuer="https://login.example.com", storage=MemoryStorage())
        with pytest.raises(AuthError, match=r"issuer= allows https://login\.example\.com alone"):
            await visit(auth, there.url)
        withdraw(there, claims=None)
        with pytest.raises(AuthError, match=r"issuer= allows https://login\.example\.com alone"):
            await visit(auth, there.url)
        assert told(there, there.url) == told(there, there.issuer) == []


@pytest.mark.covers("OAU-45")
@every_kind
async def test_a_server_that_has_moved_is_used_again_when_the_author_names_its_new_issuer(kind):
    async with honest(kind) as there, honest(kind) as other:
        introduce(there)
        introduce(other)
        own = MemoryStorage()
        assert (await visit(KINDS[kind](storage=own), there.url)).status == 200
        there.settings.issuers = [other.issuer]
        there.expire_everything()
        there.access = other.access
        assert (await visit(KINDS[kind](storage=own, issuer=other.issuer), there.url)).status == 200
        # What the old issuer gave stays unknown to the new one.
        assert not [form for _, _, form, _ in other.requests if form.get("grant_type") == "refresh_token"]


@pytest.mark.covers("OAU-45")
async def test_of_several_issuers_the_one_that_the_author_names_is_used_and_no_other_is_asked():
    async with world() as there, world() as other:
        there.settings.issuers = [other.issuer, there.issuer]
        assert (await visit(login(issuer=there.issuer), there.url)).status == 200
        with pytest.raises(AuthError, match="issuer= allows"):
            await visit(login(issuer=there.issuer + "/elsewhere"), there.url)
        assert other.requests == []


@pytest.mark.covers("CCR-05", "OAU-45")
async def test_a_program_that_starts_again_remembers_whose_its_credentials_are(tmp_path):
    async with world() as there, world() as other:
        introduce(there)
        introduce(other)
        assert await run_program(there.url, tmp_path) == {"status": 200}
        kept = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
        assert there.issuer in kept
        assert not re.search("the-own-secret|access-token", kept)
        assert await run_program(there.url, tmp_path) == {"status": 200}
        there.settings.issuers = [other.issuer]
        report = await run_program(there.url, tmp_path)
        assert f"belong to {there.issuer}" in report["error"]
        assert told(other, other.issuer) == []


async def run_program(url, state):
    environment = os.environ | {"PYTHONPATH": str(TESTS), "XDG_STATE_HOME": str(state)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(TESTS / "auth/program.py"), url, stdout=asyncio.subprocess.PIPE, env=environment
    )
    async with asyncio.timeout(DEADLINE):
        printed, _ = await process.communicate()
    return json.loads(printed)


@pytest.mark.covers("OAU-08")
@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_server_that_names_its_own_origin_as_its_issuer_is_used_as_before(slash):
    async with world(metadata_at=None, iss=None, advertises_iss=False) as there:
        there.settings.claimed_issuer = there.url.removesuffix("/mcp") + slash
        assert (await visit(login(), there.url)).status == 200


@pytest.mark.covers("OAU-08")
async def test_metadata_of_a_server_that_name_no_issuer_are_not_used():
    async with world(metadata_at=None, metadata={"issuer": None}) as there:
        with pytest.raises(AuthError, match="are of another issuer"):
            await visit(login(), there.url)
        assert told(there, there.url) == []


@pytest.mark.covers("OAU-20")
async def test_a_code_of_another_issuer_is_not_given_to_a_server_without_metadata():
    async with world(metadata_at=None, server_metadata=None, iss="wrong") as there:
        with pytest.raises(AuthError, match="does not come from"):
            await visit(login(), there.url)
        assert there.count("/token") == 0


@pytest.mark.covers("OAU-33")
async def test_a_refresh_token_of_unknown_origin_is_sent_to_nobody():
    own = MemoryStorage()
    async with world() as there:
        auth = login(storage=own)
        auth.bind(there.url)
        (drawer,) = own._drawers.values()
        drawer.save_tokens({"access_token": "old", "refresh_token": "refresh-token-of-somebody"})
        assert (await visit(auth, there.url)).status == 200
        assert "refresh-token-of-somebody" not in str(there.requests)


@pytest.mark.covers("OAU-43")
async def test_a_login_that_began_at_one_issuer_does_not_end_with_the_client_of_another():
    own = MemoryStorage()
    async with world(auth_methods=["client_secret_post"]) as there, world() as thief:
        browser, auth = Browser(), OAuth(redirect_uri=REDIRECT, storage=own)
        thief._register = copying_client("honest-client")
        there.settings.issuers = [thief.issuer]
        thief.clients["honest-client"] = {"redirect_uris": [REDIRECT]}
        await browser.redirect(await auth.start(there.url))
        late = query(browser.location)
        there.settings.issuers = ...
        there._register = copying_client("honest-client", client_secret="the-own-secret")
        await auth.start(there.url)
        with pytest.raises(AuthError, match=r"is now registered with .*; log in again"):
            await auth.finish(late["code"], late["state"], late["iss"])
        assert not SECRET.search(str(told(thief, thief.issuer)[2:]))


@pytest.mark.covers("OAU-31", "BEY-23")
async def test_a_server_gets_no_tokens_for_another_from_a_storage_that_both_share():
    own = OwnStorage()
    async with world() as there, world() as thief:
        assert (await visit(login(storage=own), there.url)).status == 200
        tokens = own.tokens()["access_token"], own.tokens()["refresh_token"]
        thief.settings.issuers = [there.issuer]
        with pytest.raises(AuthError, match="refuses the token"):
            await visit(login(storage=own), thief.url)
        assert not any(token in str(thief.requests) for token in tokens)
        assert there.forms("refresh_token") == []


@pytest.mark.covers("OAU-43", "BEY-23")
async def test_a_login_that_began_for_one_server_does_not_end_with_another():
    own, browser = OwnStorage(), Browser()
    async with world() as there, world() as thief:
        await browser.redirect(await OAuth(redirect_uri=REDIRECT, storage=own).start(there.url))
        late = query(browser.location)
        with pytest.raises(AuthError, match="No login waits"):
            await OAuth(redirect_uri=REDIRECT, storage=own).finish(
                late["code"], late["state"], late["iss"], url=thief.url
            )
        assert there.forms("authorization_code") == []


def copying_client(client_id, **more):
    async def register(request):
        asked = json.loads(await request.read())
        return web.json_response({"client_id": client_id, **more, "redirect_uris": asked["redirect_uris"]}, status=201)

    return register


@pytest.mark.covers("OAU-46")
async def test_an_issuer_that_sends_people_to_the_login_of_another_gets_no_code_from_there(tmp_path):
    """The server knows the id of the client from its tokens, and the honest issuer says nothing about who it is."""
    async with world(iss=None, advertises_iss=False) as there, world(iss=None, advertises_iss=False) as thief:
        seen = []

        async def open_browser(url):
            async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as response:
                seen.append(query(url)["redirect_uri"])
                if "Location" not in response.headers:
                    raise AuthError(f"the page says {await response.text()}")
                async with session.get(response.headers["Location"]) as page:
                    assert page.status == 200

        auth = OAuth(storage=FileStorage(tmp_path), redirect_handler=open_browser)
        assert (await visit(auth, there.url)).status == 200
        (client_id,) = there.clients
        thief.settings.metadata = {"authorization_endpoint": f"{there.issuer}/authorize"}
        thief._register = copying_client(client_id)
        there.settings.issuers = [thief.issuer]
        there.expire_everything()
        with pytest.raises(AuthError, match="unknown redirect URI"):
            await visit(auth, there.url)
        assert thief.count("/token") == 0
        assert len({urlsplit(uri).path for uri in seen}) == 2
