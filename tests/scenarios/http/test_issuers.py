"""Two issuers at one door: who verifies a token, who is somebody, and what everybody else is told."""

import json
import logging
from contextlib import asynccontextmanager

import pytest

from auth.issuer import RESOURCE, encoded, issuing
from dragoman import AsyncClient, Context, Server
from dragoman.auth import Bearer, Identity, Introspection, Jwt
from dragoman.errors import AuthRequired, DefinitionError
from dragoman.stores import Memory
from scenarios.http.test_uvicorn import running
from scenarios.http_peer import NEWEST, SECRET, STATELESS, HttpPeer, live

pytestmark = pytest.mark.covers("BEAR-17")
METADATA = "https://api.example.com/.well-known/oauth-protected-resource/mcp"
OTHER = "https://other.example.com"


def office():
    server = Server("office", secret=SECRET, store=Memory())

    @server.tool
    async def whoami(ctx: Context) -> str:
        return f"{ctx.principal} {ctx.claims.get('sub')}"

    @server.tool(scopes=["files:write"])
    async def write() -> str:
        return "written"

    return server


def door(verifier, **options):
    return Bearer(verifier, **({"resource": RESOURCE} | options))


def jwt_of(issuer, **options):
    return door(Jwt(issuer.url, jwks_url=f"{issuer.url}/keys"), **options)


def asking(issuer, **options):
    verifier = Introspection(f"{issuer.url}/introspect", client_id="office", client_secret="s", issuer=issuer.url)
    return door(verifier, **options)


@asynccontextmanager
async def two():
    async with issuing() as ours, issuing() as theirs:
        yield ours, theirs


async def called(app, token, tool="whoami"):
    head = {"mcp-name": tool} | ({} if token is None else {"authorization": f"Bearer {token}"})
    return await HttpPeer(app, STATELESS).request("tools/call", {"name": tool, "arguments": {}}, head)


def text_of(exchange):
    return exchange.json["result"]["content"][0]["text"]


def reason_of(exchange):
    assert exchange.status == 401
    reason = exchange.json["error"]["message"]
    assert exchange.headers["www-authenticate"] == (
        f'Bearer error="invalid_token", error_description="{reason}", resource_metadata="{METADATA}"'
    )
    return reason


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, "dragoman.server")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "dragoman.server"]


async def test_each_token_goes_to_the_verifier_of_its_issuer_and_nobody_is_taken_for_another():
    async with two() as (ours, theirs):
        app = office().asgi(auth=[jwt_of(ours), jwt_of(theirs)])
        assert text_of(await called(app, ours.token())) == f"{ours.url} ann ann"
        assert (ours.asked, theirs.asked) == (["/keys"], [])
        assert text_of(await called(app, theirs.token())) == f"{theirs.url} ann ann"
        assert (ours.asked, theirs.asked) == (["/keys"], ["/keys"])
        await live(app)


async def test_a_session_belongs_to_somebody_of_one_issuer():
    async with two() as (ours, theirs):
        app = office().asgi(auth=[jwt_of(ours), jwt_of(theirs)])
        peer = HttpPeer(app, NEWEST)
        introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        own = {"authorization": f"Bearer {ours.token()}"}
        begun = await peer.request("initialize", introduction, own)
        peer.session = begun.headers["mcp-session-id"]
        assert (await peer.request("tools/list", {}, {**own, "mcp-protocol-version": NEWEST})).status == 200
        stolen = {"authorization": f"Bearer {theirs.token()}", "mcp-protocol-version": NEWEST}
        assert (await peer.request("tools/list", {}, stolen)).status == 404
        await live(app)


async def test_a_token_that_names_one_issuer_and_is_signed_by_the_other_is_refused(logged):
    async with two() as (ours, theirs):
        app = office().asgi(auth=[jwt_of(ours), jwt_of(theirs)])
        token = ours.token(iss=theirs.url)
        assert reason_of(await called(app, token)) == "The token is not signed by a key of its issuer"
        assert ours.asked == []
        [line] = logged()
        assert "not signed by a key of its issuer (its kid is 'first')" in line
        assert not any(part in line for part in token.split("."))


@pytest.mark.parametrize(
    ("claims", "reason", "detail"),
    [
        ({"exp": 1_000_000_000}, "The token has expired", "seconds ago"),
        ({"aud": OTHER}, "The token is for another audience", f"its aud is '{OTHER}', not '{RESOURCE}'"),
        (
            {"alg": "ES256", "header": {"alg": "none"}},
            "signed by an algorithm that is not accepted",
            "its alg is 'none'",
        ),
    ],
)
async def test_the_log_says_what_is_wrong_and_the_client_hears_only_the_challenge(claims, reason, detail, logged):
    async with two() as (ours, theirs):
        app = office().asgi(auth=[jwt_of(ours), jwt_of(theirs)])
        if "header" in claims:
            _, payload, signature = theirs.token().split(".")
            token = f"{encoded(claims['header'])}.{payload}.{signature}"
        else:
            token = theirs.token(**claims)
        exchange = await called(app, token)
        assert reason in reason_of(exchange)
        [line] = logged()
        assert reason in line
        assert detail in line
        assert detail not in str(exchange.headers) + str(exchange.json)
        assert not any(part in line for part in token.split(".") if part)


async def test_a_token_of_an_issuer_that_nobody_knows_is_verified_by_nobody(logged):
    async with two() as (ours, theirs):
        app = office().asgi(auth=[jwt_of(ours), jwt_of(theirs)])
        token = ours.token(iss=OTHER + "/" + "x" * 1000 + "\n")
        assert reason_of(await called(app, token)) == "The token is of another issuer"
        assert ours.asked == theirs.asked == []
        [line] = logged()
        assert f"its iss is '{OTHER}/xxx" in line
        assert line.endswith(f"not one of {ours.url}, {theirs.url})")
        assert len(line) < 500
        assert line.isprintable()


async def test_a_token_that_names_no_issuer_is_tried_in_order(logged):
    async with two() as (ours, theirs):
        theirs.tokens["opaque"] = {"active": True, "aud": RESOURCE, "sub": "bob"}
        app = office().asgi(auth=[jwt_of(ours), asking(theirs)])
        assert text_of(await called(app, "opaque")) == f"{theirs.url} bob bob"
        assert logged() == []
        assert reason_of(await called(app, "unknown")) == "The token is not valid here"
        [line] = logged()
        assert line == (
            "A request was refused with status 401: The token is not valid here"
            f" ({ours.url}: The token is not a signed token (JWT);"
            f" {theirs.url}: The token is not active (its issuer says that it expired, was revoked, or is unknown))"
        )
        assert text_of(await called(app, ours.token())) == f"{ours.url} ann ann"
        assert theirs.times_asked("/introspect") == 2  # never about a token of the other issuer


@pytest.mark.parametrize(
    "token",
    ["a.b.c", f"{encoded({})}.{encoded({'iss': 5})}.x", f"{encoded({})}.{encoded(b'[' * 5000)}.x", ".", "..", "é"],
)
async def test_a_token_that_cannot_be_read_does_no_harm(token):
    async with two() as (ours, theirs):
        app = office().asgi(auth=[jwt_of(ours), jwt_of(theirs)])
        exchange = await called(app, token.encode().decode("latin-1"))
        assert exchange.status in (400, 401)
        assert 'error="invalid_' in exchange.headers["www-authenticate"]


async def test_the_metadata_name_both_issuers_and_the_scopes_of_both_and_who_has_no_token_is_led_there():
    async with two() as (ours, theirs):
        doors = [
            jwt_of(ours, required_scopes=["files:read"], resource_name="Office"),
            jwt_of(theirs, scopes_supported=["files:read", "files:write"]),
        ]
        app = office().asgi(auth=doors)
        exchange = await HttpPeer(app, STATELESS).send("GET", path="/.well-known/oauth-protected-resource/mcp").end()
        assert exchange.json == {
            "resource": RESOURCE,
            "authorization_servers": [ours.url, theirs.url],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["files:read", "files:write"],
            "resource_name": "Office",
        }
        nobody = await called(app, None)
        assert nobody.status == 401
        assert nobody.headers["www-authenticate"] == f'Bearer scope="files:read", resource_metadata="{METADATA}"'


async def test_scopes_are_those_that_the_issuer_of_the_token_requires():
    async with two() as (ours, theirs):
        app = office().asgi(auth=[jwt_of(ours, required_scopes=["a:use"]), jwt_of(theirs, required_scopes=["b:use"])])
        lacking = await called(app, theirs.token(scope="a:use"))
        assert lacking.status == 403
        assert 'scope="b:use"' in lacking.headers["www-authenticate"]
        refused = await called(app, theirs.token(scope="b:use"), "write")
        assert refused.status == 403
        assert 'scope="b:use files:write"' in refused.headers["www-authenticate"]
        assert text_of(await called(app, theirs.token(scope="b:use files:write"), "write")) == "written"
        assert text_of(await called(app, ours.token(scope="a:use"))) == f"{ours.url} ann ann"


async def test_an_issuer_that_cannot_be_asked_keeps_out_nobody_of_the_other(caplog):
    async with two() as (ours, theirs):
        ours.listed = "nonsense"
        theirs.tokens["opaque"] = {"active": True, "aud": RESOURCE, "sub": "bob"}
        away = Introspection("http://127.0.0.1:9/introspect", client_id="office", client_secret="s", issuer=OTHER)
        app = office().asgi(auth=[jwt_of(ours), door(away), asking(theirs)])
        assert text_of(await called(app, "opaque")) == f"{theirs.url} bob bob"
        assert (await called(app, ours.token())).status == 500
        assert (await called(app, "unknown")).status == 500  # the one that is away may have issued it
        assert text_of(await called(app, "opaque")) == f"{theirs.url} bob bob"


async def test_two_verifiers_of_one_issuer_know_the_same_people():
    async with issuing() as issuer:
        issuer.tokens["opaque"] = {"active": True, "aud": RESOURCE, "sub": "ann"}
        app = office().asgi(auth=[jwt_of(issuer), asking(issuer)])
        assert text_of(await called(app, issuer.token())) == "ann ann"
        assert text_of(await called(app, "opaque")) == "ann ann"


async def test_a_function_verifies_the_tokens_of_its_authorization_servers():
    async with issuing() as issuer:
        keys = {"key": Identity("robot")}
        app = office().asgi(auth=[jwt_of(issuer), door(keys.get, authorization_servers=[OTHER])])
        assert text_of(await called(app, "key")) == f"{OTHER} robot None"
        assert text_of(await called(app, issuer.token())) == f"{issuer.url} ann ann"
        assert (await called(app, "another")).status == 401


@pytest.mark.by_asgi
@pytest.mark.parametrize(
    ("auth", "remedy"),
    [
        ([], "a list of Bearer"),
        (["token"], "a list of Bearer"),
        ([lambda request: "ann"], "a list of Bearer"),
        (
            [Bearer({}.get, resource=url, authorization_servers=[OTHER]) for url in (RESOURCE, OTHER)],
            "the same resource",
        ),
    ],
)
async def test_doors_that_do_not_fit_together_are_refused_when_they_are_set_up(auth, remedy):
    with pytest.raises(DefinitionError, match=remedy):
        office().asgi(auth=auth)


@pytest.mark.by_asgi
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_a_client_is_told_the_error_and_the_description_over_sockets(version):
    async with two() as (ours, theirs), running(office().asgi(auth=[jwt_of(ours), jwt_of(theirs)])) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with AsyncClient(url, auth=theirs.token(), protocol_version=version) as client:
            assert (await client.call_tool("whoami")).text == f"{theirs.url} ann ann"
            with pytest.raises(AuthRequired, match=r"status 403 \(insufficient_scope\): This takes the scopes"):
                await client.call_tool("write")
        old = theirs.token(exp=1_000_000_000)
        with pytest.raises(AuthRequired, match=r"status 401 \(invalid_token\): The token has expired; get") as refused:
            async with AsyncClient(url, auth=old, protocol_version=version):
                pass
        assert not any(part in str(refused.value) for part in old.split("."))
        assert json.dumps(str(refused.value)).isprintable()
