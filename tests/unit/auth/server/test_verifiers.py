"""Verifiers of bearer tokens: by keys, and by asking the issuer."""

import asyncio
import base64
import hashlib
import hmac
import sys

import pytest
from aiohttp import web
from joserfc.jwk import ECKey

from auth.issuer import RESOURCE, encoded, issuing
from dragoman.auth import Introspection, Jwt
from dragoman.auth.server import verifiers
from dragoman.errors import AuthError, InsecureUrl
from scenarios.http_peer import DEADLINE

OTHER = "https://other.example.com"


def jwt_of(issuer, **options):
    return Jwt(issuer.url, jwks_url=f"{issuer.url}/keys", **options)


@pytest.mark.covers("BEAR-01")
async def test_a_good_token_says_who_it_is_and_what_they_may_do():
    async with issuing() as issuer:
        token = issuer.token(scope="files:read files:write", tenant="acme")
        identity = await jwt_of(issuer).verify(token, RESOURCE)
        assert (identity.principal, identity.scopes) == ("ann", {"files:read", "files:write"})
        assert identity.claims["tenant"] == "acme"
        assert issuer.asked == ["/keys"]


@pytest.mark.covers("BEAR-01")
@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scp": ["a", "b", 3]}, {"a", "b"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scope": "a", "scp": "b"}, {"a"}),
        ({"scope": 7}, set()),
        ({"scope": {"a": 1}}, set()),
        ({}, set()),
    ],
)
def test_scopes_come_as_text_or_as_a_list(claims, scopes):
    assert verifiers.scopes_of(claims) == scopes


@pytest.mark.covers("BEAR-01")
@pytest.mark.parametrize(
    ("kind", "alg"), [("EC", "ES256"), ("RSA", "RS256"), ("RSA", "PS256"), ("OKP", "Ed25519"), ("OKP", "EdDSA")]
)
@pytest.mark.filterwarnings("ignore:.*RFC 9864")
async def test_every_usual_algorithm_is_accepted(kind, alg):
    async with issuing() as issuer:
        issuer.add_key("another", kind)
        token = issuer.token(header={"kid": "another"}, alg=alg)
        assert (await jwt_of(issuer).verify(token, RESOURCE)).principal == "ann"


@pytest.mark.covers("BEAR-01")
@pytest.mark.parametrize("aud", [RESOURCE, [OTHER, RESOURCE]])
async def test_a_token_is_for_one_or_for_several(aud):
    async with issuing() as issuer:
        assert await jwt_of(issuer).verify(issuer.token(aud=aud), RESOURCE)


PAST, FUTURE = 1_000_000_000, 4_000_000_000


@pytest.mark.covers("BEAR-02")
@pytest.mark.parametrize(
    "claims",
    [
        {"exp": PAST},
        {"nbf": FUTURE},
        {"nbf": "soon"},
        {"aud": OTHER},
        {"aud": [OTHER]},
        {"aud": RESOURCE + "/deeper"},
        {"aud": []},
        {"aud": {RESOURCE: 1}},
        {"aud": None},
        {"iss": OTHER},
        {"iss": None},
        {"exp": None},
        {"exp": "never"},
        {"exp": True},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": 10**400},
        {"nbf": float("nan")},
        {"nbf": float("-inf")},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
    ],
    ids=str,
)
async def test_a_token_that_is_not_good_here_and_now_is_refused(claims):
    async with issuing() as issuer:
        assert await jwt_of(issuer).verify(issuer.token(**claims), RESOURCE) is None


@pytest.mark.covers("BEAR-02")
@pytest.mark.parametrize(("late", "is_good"), [(59, True), (60, False)])
async def test_clocks_may_differ_by_a_minute(late, is_good):
    async with issuing() as issuer:
        token = issuer.token(exp=1_000_000, nbf=1_000_000)
        after = jwt_of(issuer, clock=lambda: 1_000_000 + late)
        before = jwt_of(issuer, clock=lambda: 1_000_000 - 1 - late)
        assert (await after.verify(token, RESOURCE) is not None) is is_good
        assert (await before.verify(token, RESOURCE) is not None) is is_good


@pytest.mark.covers("BEAR-02")
async def test_the_audience_and_the_claim_of_the_principal_may_be_others():
    async with issuing() as issuer:
        verifier = jwt_of(issuer, audience="api://mine", principal_claim="email")
        token = issuer.token(aud="api://mine", email="ann@example.com")
        assert (await verifier.verify(token, RESOURCE)).principal == "ann@example.com"
        assert await verifier.verify(issuer.token(email="ann@example.com"), RESOURCE) is None


def unsigned(issuer, algorithm):
    _, claims, _ = issuer.token().split(".")
    return f"{encoded({'alg': algorithm, 'kid': 'first'})}.{claims}."


def by_public_key(issuer):
    _, claims, _ = issuer.token().split(".")
    said = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{claims}"
    secret = issuer.keys["first"].as_pem(private=False)
    return f"{said}.{encoded(hmac.new(secret, said.encode(), hashlib.sha256).digest())}"


def tampered(issuer):
    header, _, signature = issuer.token().split(".")
    return f"{header}.{encoded({'iss': issuer.url, 'aud': RESOURCE, 'sub': 'bob', 'exp': 9e9})}.{signature}"


FORGERIES = {
    "alg none": lambda issuer: unsigned(issuer, "none"),
    "alg None": lambda issuer: unsigned(issuer, "None"),
    "alg null": lambda issuer: unsigned(issuer, None),
    "alg list": lambda issuer: unsigned(issuer, ["ES256"]),
    "no signature": lambda issuer: unsigned(issuer, "ES256"),
    "public key as secret": by_public_key,
    "wrong key": lambda issuer: issuer.token(key=ECKey.generate_key("P-256")),
    "tampered": tampered,
    "algorithm of another kind of key": lambda issuer: unsigned(issuer, "RS256") + "AAAA",
    "critical header": lambda issuer: (
        f"{encoded({'alg': 'ES256', 'kid': 'first', 'crit': ['b64'], 'b64': False})}."
        + ".".join(issuer.token().split(".")[1:])
    ),
    "embedded key": lambda issuer: issuer.token(
        header={"jwk": ECKey.generate_key("P-256").as_dict(private=False)}, key=ECKey.generate_key("P-256")
    ),
    "name that is no text": lambda issuer: (
        f"{encoded({'alg': 'ES256', 'kid': ['first']})}." + ".".join(issuer.token().split(".")[1:])
    ),
    "encrypted": lambda issuer: "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..AAAA.AAAA.AAAA",
    "empty": lambda issuer: "",
    "dots": lambda issuer: "..",
    "words": lambda issuer: "garbage",
    "not ASCII": lambda issuer: "\xe9.\xe9.\xe9",
    "deep": lambda issuer: f"{encoded(b'[' * 20_000)}.e30.AAAA",
    "deep inside": lambda issuer: (
        f'{encoded(b"""{"alg":"ES256","kid":"first","x":""" + b"[" * 20_000 + b"]" * 20_000 + b"}")}.e30.AAAA'
    ),
    "no object": lambda issuer: f"{encoded([1])}.e30.AAAA",
    "many dots": lambda issuer: "." * 1000,
}


@pytest.mark.covers("BEAR-02")
@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forgery_is_refused(forgery):
    async with issuing() as issuer:
        verifier = jwt_of(issuer)
        assert await verifier.verify(FORGERIES[forgery](issuer), RESOURCE) is None
        assert await verifier.verify(issuer.token(), RESOURCE)


async def redirect(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("/other-keys")


async def broken(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text="later")


async def prose(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>")


@pytest.mark.covers("BEAR-05")
@pytest.mark.parametrize("algorithm", ["none", "HS256", "RSA-OAEP", "ES256K"])
def test_algorithms_without_a_key_of_the_issuer_are_not_accepted(algorithm):
    with pytest.raises(ValueError, match=f"'{algorithm}' is not accepted"):
        Jwt("https://login.example.com", algorithms=[algorithm])


@pytest.mark.covers("BEAR-05")
@pytest.mark.parametrize(
    "make",
    [
        lambda: Jwt("http://login.example.com"),
        lambda: Jwt("https://login.example.com", jwks_url="http://login.example.com/keys"),
        lambda: Introspection("http://login.example.com/introspect", client_id="a", client_secret="b"),
    ],
)
def test_addresses_that_are_not_secure_are_refused(make):
    with pytest.raises(InsecureUrl):
        make()


@pytest.mark.covers("BEAR-05")
def test_the_package_that_verifies_signatures_is_asked_for_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(AuthError, match=r"install dragoman\[jwt\]"):
        Jwt("https://login.example.com")


def introspection_of(asked, **options):
    return Introspection(f"{asked.url}/introspect", client_id="an api", client_secret="p:ss wörd+", **options)


def active(**claims):
    return {"active": True, "aud": RESOURCE, "sub": "ann", **claims}


@pytest.mark.covers("BEAR-06")
async def test_the_issuer_is_asked_about_a_token_with_credentials_encoded_as_in_a_form():
    async with issuing() as issuer:
        issuer.tokens["t"] = active(scope="a b", tenant="acme")
        identity = await introspection_of(issuer).verify("t", RESOURCE)
        assert (identity.principal, identity.scopes, identity.claims["tenant"]) == ("ann", {"a", "b"}, "acme")
        assert issuer.forms == [{"token": "t", "token_type_hint": "access_token"}]
        scheme, _, pair = issuer.authorizations[0].partition(" ")
        assert (scheme, base64.b64decode(pair).decode()) == ("Basic", "an+api:p%3Ass+w%C3%B6rd%2B")


@pytest.mark.covers("BEAR-06")
@pytest.mark.parametrize(
    "answer",
    [
        {"active": False},
        {},
        active(active="true"),
        active(active=1),
        active(aud=OTHER),
        active(aud=[OTHER]),
        {"active": True, "sub": "ann"},
        active(exp=PAST),
        active(exp="never"),
        active(nbf=FUTURE),
        active(sub=None),
        active(sub=7),
        active(sub=""),
        active(sub=" "),
        active(sub="", username="bob", client_id="robot"),
        active(sub=None, username="", client_id="robot"),
        active(sub=None, client_id=""),
        active(iss=OTHER),
    ],
    ids=str,
)
async def test_a_token_that_its_issuer_does_not_vouch_for_here_is_refused(answer):
    async with issuing() as issuer:
        issuer.tokens["t"] = answer
        assert await introspection_of(issuer, issuer=issuer.url).verify("t", RESOURCE) is None


@pytest.mark.covers("BEAR-06")
@pytest.mark.parametrize(
    ("answer", "principal"),
    [
        (active(), "ann"),
        (active(sub=None, username="bob"), "bob"),
        (active(sub=None, client_id="robot"), "robot"),
        (active(aud=[OTHER, RESOURCE], exp=FUTURE), "ann"),
    ],
)
async def test_a_token_belongs_to_its_subject_or_user_or_client(answer, principal):
    async with issuing() as issuer:
        issuer.tokens["t"] = answer
        assert (await introspection_of(issuer).verify("t", RESOURCE)).principal == principal


@pytest.mark.covers("BEAR-06")
async def test_an_answer_is_kept_for_a_moment_and_for_one_audience():
    async with issuing() as issuer:
        issuer.tokens["t"] = active()
        verifier = introspection_of(issuer)
        for _ in range(3):
            assert await verifier.verify("t", RESOURCE)
            assert await verifier.verify("unknown", RESOURCE) is None
        assert len(issuer.forms) == 2
        assert await verifier.verify("t", OTHER) is None
        assert len(issuer.forms) == 3


@pytest.mark.covers("BEAR-06")
async def test_an_answer_is_kept_no_longer_than_its_token_or_the_moment(monkeypatch):
    async with issuing() as issuer:
        issuer.tokens["t"] = active(exp=1000.0)
        verifier = introspection_of(issuer, clock=lambda: 1000 - 1e-9)
        assert await verifier.verify("t", RESOURCE)
        await verifier.verify("t", RESOURCE)
        assert len(issuer.forms) == 2
        monkeypatch.setattr(verifiers, "ANSWER_SECONDS", 0.0)
        issuer.tokens["u"] = active()
        for _ in range(2):
            await verifier.verify("v", RESOURCE)
        assert len(issuer.forms) == 4


@pytest.mark.covers("BEAR-06")
async def test_only_so_many_answers_are_kept(monkeypatch):
    monkeypatch.setattr(verifiers, "MAX_ANSWERS", 2)
    async with issuing() as issuer:
        verifier = introspection_of(issuer)
        for token in ("one", "two", "three", "three", "two", "one"):
            await verifier.verify(token, RESOURCE)
        assert [form["token"] for form in issuer.forms] == ["one", "two", "three", "one"]
        assert len(verifier._answers) == 2


@pytest.mark.covers("BEAR-04", "BEAR-06")
@pytest.mark.parametrize("answer", [redirect, broken, prose])
async def test_an_issuer_that_cannot_be_asked_is_an_error_and_says_nothing_of_the_token(answer):
    async with issuing() as issuer:
        issuer.answers["/introspect"] = answer
        with pytest.raises(AuthError, match="cannot be asked about tokens"):
            await introspection_of(issuer).verify("t", RESOURCE)
        del issuer.answers["/introspect"]
        issuer.tokens["t"] = active()
        assert await introspection_of(issuer).verify("t", RESOURCE)
    with pytest.raises(AuthError, match="is it reachable"):
        await introspection_of(issuer).verify("t", RESOURCE)


def slow(issuer):
    """Let an issuer answer about tokens when it is told to, and count how many it is asked about at once."""
    counts, arrived, release = {"now": 0, "most": 0}, asyncio.Semaphore(0), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        counts["now"] += 1
        counts["most"] = max(counts.values())
        arrived.release()
        await release.wait()
        counts["now"] -= 1
        form = dict(await request.post())
        issuer.forms.append(form)
        return web.json_response(issuer.tokens.get(form["token"], {"active": False}))

    issuer.answers["/introspect"] = answer
    return counts, arrived, release


async def acquired(arrived, times):
    async with asyncio.timeout(DEADLINE):
        for _ in range(times):
            await arrived.acquire()


@pytest.mark.covers("BEAR-06")
async def test_a_hundred_requests_with_one_token_ask_about_it_once():
    async with issuing() as issuer:
        issuer.tokens["t"] = active()
        verifier = introspection_of(issuer)
        _, arrived, release = slow(issuer)
        requests = [asyncio.create_task(verifier.verify("t", RESOURCE)) for _ in range(100)]
        await acquired(arrived, 1)
        requests[0].cancel()
        release.set()
        found = await asyncio.gather(*requests[1:])
        assert {one.principal for one in found} == {"ann"}
        assert len(issuer.forms) == 1


@pytest.mark.covers("BEAR-06")
async def test_only_so_many_tokens_are_asked_about_at_once(monkeypatch):
    monkeypatch.setattr(verifiers, "MAX_ASKED", 5)
    monkeypatch.setattr(verifiers, "MAX_WAITING", 50)
    async with issuing() as issuer:
        verifier = introspection_of(issuer)
        counts, arrived, release = slow(issuer)
        requests = [asyncio.create_task(verifier.verify(f"t{number}", RESOURCE)) for number in range(60)]
        await acquired(arrived, 5)
        release.set()
        found = await asyncio.gather(*requests, return_exceptions=True)
        assert found[:50] == [None] * 50
        assert {type(one) for one in found[50:]} == {AuthError}
        assert counts["most"] == 5
        assert await verifier.verify("another", RESOURCE) is None


@pytest.mark.covers("BEAR-04", "BEAR-06")
async def test_a_token_whose_turn_does_not_come_is_an_error_that_says_nothing_of_it(monkeypatch):
    monkeypatch.setattr(verifiers, "MAX_ASKED", 1)
    monkeypatch.setattr(verifiers, "TURN_SECONDS", 0.05)
    async with issuing() as issuer:
        verifier = introspection_of(issuer)
        _, arrived, release = slow(issuer)
        first = asyncio.create_task(verifier.verify("first", RESOURCE))
        await acquired(arrived, 1)
        with pytest.raises(AuthError, match="does not answer fast enough"):
            await verifier.verify("second", RESOURCE)
        release.set()
        assert await first is None
        assert await verifier.verify("second", RESOURCE) is None
