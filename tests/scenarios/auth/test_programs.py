"""Programs that are let in without a person, and tokens that are bound to a key."""

import json

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey

from auth.visiting import person, statuses, visit
from auth.world import JWT_BEARER, world, world_with_person
from dragoman.auth import (
    ClientCredentials,
    CrossAppAccess,
    FileStorage,
    MemoryStorage,
    TokenExchange,
    WorkloadIdentity,
)
from dragoman.errors import AuthError, AuthRequired

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


@pytest.mark.covers("CCR-01", "LOA-12")
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_is_let_in_by_its_own_credentials(method):
    async with world(scopes_supported=["read", "offline_access"], auth_methods=[method]) as there:
        there.clients["c:1"] = {"client_secret": "s+1/é", "token_endpoint_auth_method": method}
        auth = ClientCredentials("c:1", "s+1/é", token_endpoint_auth_method=method, scope="read offline_access")
        assert (await visit(auth, there.url)).status == 200
        (form,) = there.forms("client_credentials")
        assert (form["resource"], form["scope"]) == (there.url, "read")
        assert not {"code_verifier", "redirect_uri"} & set(form)
        assert not there.registrations


@pytest.mark.covers("CCR-01")
async def test_a_program_is_let_in_again_without_refresh_tokens():
    async with world() as there:
        there.clients["c"] = {"client_secret": "s"}
        auth = ClientCredentials("c", "s")
        assert await statuses(auth, there.url, 50) == {200}
        assert there.count("/token") == 1
        auth._tokens.expires_at -= 3590
        assert (await visit(auth, there.url)).attempts == 1
        assert there.count("/token") == 2
        there.expire_everything()
        assert (await visit(auth, there.url)).attempts == 2
        assert there.count("/token") == 3


@pytest.mark.covers("CCR-01")
async def test_a_program_that_is_refused_asks_once_per_request():
    async with world() as there:
        auth = ClientCredentials("c", "wrong secret")
        with pytest.raises(AuthError, match="invalid_client"):
            await visit(auth, there.url)
        assert there.count("/token") == 1
        there.clients["c"] = {"client_secret": "wrong secret"}
        there.settings.refuses_always = True
        with pytest.raises(AuthRequired):
            await visit(auth, there.url)
        assert there.count("/token") == 2


@pytest.mark.covers("CCR-03", "CCR-04")
async def test_a_program_is_let_in_by_what_it_signs():
    key = ec.generate_private_key(ec.SECP256R1())
    own = MemoryStorage()
    async with world(auth_methods=["private_key_jwt"]) as there:
        there.clients["signer"] = {
            "key": ECKey.import_key(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        }
        auth = ClientCredentials(
            "me",
            token_endpoint_auth_method="private_key_jwt",
            private_key=key,
            signing_algorithm="ES256",
            storage=own,
        )
        answer = await visit(auth, there.url)
        assert json.loads(answer.body)["hello"] == "me"
        (form,) = there.forms("client_credentials")
        assert "client_id" not in form
        claims = jwt.decode(form["client_assertion"], there.clients["signer"]["key"]).claims
        assert claims["aud"] == there.issuer
        assert "PRIVATE" not in str([vars(drawer) for drawer in own._drawers.values()])


class IdentityProvider:
    """Exchanges id tokens for assertions."""

    def __init__(self, **answer):
        self.answer = {"issued_token_type": ID_JAG, "access_token": "the-assertion", "token_type": "N_A"} | answer
        self.forms = []

    async def open(self, there):
        async def exchange(request):
            self.forms.append(dict(await request.post()))
            return web.json_response(self.answer, status=400 if "error" in self.answer else 200)

        self.url = await there._serve(exchange) + "/token"


@pytest.mark.covers("CCR-06", "CCR-07")
async def test_a_person_of_the_enterprise_is_let_in_without_being_asked():
    async with world() as there:
        there.clients["wiki"] = {"client_secret": "s"}
        provider = IdentityProvider()
        await provider.open(there)
        tokens = iter(["id-token-1", "id-token-2"])

        async def id_token():
            return next(tokens)

        exchange = TokenExchange(provider.url, id_token, client_id="idp-client")
        auth = CrossAppAccess("wiki", "s", assertion_provider=exchange, scope="read")
        assert (await visit(auth, there.url)).status == 200
        assert provider.forms == [
            {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "requested_token_type": ID_JAG,
                "audience": there.issuer,
                "resource": there.url,
                "subject_token": "id-token-1",
                "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
                "client_id": "idp-client",
            }
        ]
        (form,) = there.forms(JWT_BEARER)
        assert (form["assertion"], form["scope"]) == ("the-assertion", "read")
        there.expire_everything()
        assert (await visit(auth, there.url)).status == 200
        assert there.count("/authorize") == 0


@pytest.mark.covers("CCR-07")
@pytest.mark.parametrize(
    "answer",
    [
        {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"},
        {"access_token": ""},
        {"error": "invalid_grant", "error_description": "id-token-1 is old"},
    ],
)
async def test_an_identity_provider_that_gives_no_assertion_is_an_error(answer):
    async with world() as there:
        provider = IdentityProvider(**answer)
        await provider.open(there)
        exchange = TokenExchange(provider.url, "id-token-1", client_id="idp-client", client_secret="s")
        with pytest.raises(AuthError) as raised:
            await visit(CrossAppAccess("wiki", "s", assertion_provider=exchange), there.url)
        assert "id-token-1" not in str(raised.value)
        assert there.count("/token") == 0


@pytest.mark.covers("CCR-06")
async def test_an_assertion_must_be_there():
    async with world() as there:
        auth = CrossAppAccess("wiki", "s", assertion_provider=lambda audience, resource: "")
        with pytest.raises(AuthError, match="assertion is missing"):
            await visit(auth, there.url)


@pytest.mark.covers("OAU-38")
async def test_a_workload_is_let_in_by_the_token_of_its_platform():
    async with world() as there:
        auth = WorkloadIdentity(lambda: "platform-token")
        assert (await visit(auth, there.url)).status == 200
        (form,) = there.forms(JWT_BEARER)
        assert form == {"grant_type": JWT_BEARER, "assertion": "platform-token", "resource": there.url}
        headers = next(headers for _, path, _, headers in there.requests if path == "/token")
        assert "Authorization" not in headers
        assert not there.registrations


@pytest.mark.covers("OAU-38")
async def test_a_token_of_a_platform_that_was_refused_is_not_sent_again():
    async with world() as there:
        tokens = ["bad-token"]
        auth = WorkloadIdentity(lambda: tokens[-1])
        with pytest.raises(AuthError, match="invalid_grant"):
            await visit(auth, there.url)
        with pytest.raises(AuthError, match="not sent again"):
            await visit(auth, there.url)
        assert there.count("/token") == 1
        tokens.append("good-token")
        assert (await visit(auth, there.url)).status == 200


@pytest.mark.covers("OAU-38")
@pytest.mark.parametrize("nonces", [False, True])
@pytest.mark.parametrize("asked", [False, True])
async def test_tokens_are_bound_to_a_key_where_the_server_or_the_author_wants_it(nonces, asked):
    async with world(scheme="DPoP", wants_nonces=nonces) as there:
        browser, auth = person(dpop=asked)
        first = await visit(auth, there.url)
        second = await visit(auth, there.url)
        assert (first.status, second.status) == (200, 200)
        assert (first.attempts, second.attempts) == (3 if nonces else 2, 1)
        assert "dpop_jkt" in browser.asked[0]
        assert there.registrations[0]["dpop_bound_access_tokens"] is True
        there.nonces["server"] = "another"
        there.expire_everything()
        third = await visit(auth, there.url)
        assert third.status == 200
        assert len(browser.urls) == 1


@pytest.mark.covers("OAU-38")
async def test_after_a_restart_the_key_is_the_same(tmp_path):
    async with world(scheme="DPoP", wants_nonces=True) as there:
        await visit(person(storage=FileStorage(tmp_path))[1], there.url)
        browser, again = person(storage=FileStorage(tmp_path))
        assert (await visit(again, there.url)).status == 200
        there.expire_everything()
        assert (await visit(again, there.url)).status == 200
        assert not browser.urls


@pytest.mark.covers("OAU-38")
async def test_a_server_that_wants_ever_new_nonces_is_given_up():
    async with world_with_person(scheme="DPoP", wants_nonces=True) as (there, _, auth):
        await visit(auth, there.url)
        original = there._proof_refusal

        def fickle(request, token, jkt, side):
            there.nonces["server"] += "x"
            return original(request, token, jkt, side)

        there._proof_refusal = fickle
        with pytest.raises(AuthError):
            await visit(auth, there.url)
        assert there.count("/mcp") < 15


@pytest.mark.covers("OAU-38")
async def test_tokens_that_must_be_bound_and_are_not_are_refused():
    async with world() as there:
        _, auth = person(dpop=True)
        with pytest.raises(AuthError, match="does not bind tokens"):
            await visit(auth, there.url)


@pytest.mark.covers("OAU-38")
async def test_programs_bind_their_tokens_too():
    async with world(scheme="DPoP", wants_nonces=True) as there:
        there.clients["c"] = {"client_secret": "s"}
        assert (await visit(ClientCredentials("c", "s"), there.url)).status == 200
        assert (await visit(WorkloadIdentity("platform-token", dpop=True), there.url)).status == 200


async def test_sixteen_programs_with_one_authorization_step_up_together():
    async with world(needed_scopes=frozenset({"write"})) as there:
        there.clients["c"] = {"client_secret": "s"}
        auth = ClientCredentials("c", "s", scope="read")
        assert await statuses(auth, there.url, 16) == {200}
        assert [form["scope"] for form in there.forms("client_credentials")] == ["read", "read write"]
