"""The door of a server: who is let in, and what everybody else is told."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from dragoman.auth import Bearer, Identity, Jwt
from dragoman.auth.client.challenges import parse
from dragoman.auth.server.bearer import Bearers, challenge
from dragoman.auth.server.identity import Denial
from dragoman.errors import DefinitionError, InsecureUrl

RESOURCE = "https://api.example.com/mcp"
METADATA = "https://api.example.com/.well-known/oauth-protected-resource/mcp"
LOGIN = "https://login.example.com"
USERS = {
    "one": Identity("ann", frozenset({"files:read"}), {"tenant": "acme"}),
    "two": "bob",
    "three": Identity("cid", ["files:read", "files:write"]),
    "four": Identity("dan", "admin files:read"),
}


def door(verifier=USERS.get, **options) -> Bearer:
    return Bearer(verifier, **({"resource": RESOURCE, "authorization_servers": [LOGIN]} | options))


def admit(bearer: Bearer, authorization: str | None) -> Identity | Denial:
    headers = {} if authorization is None else {"authorization": authorization}
    return asyncio.run(bearer.admit(headers, bearer.metadata_address()))


async def later(token: str) -> Identity | str | None:
    return USERS.get(token)


class Object:
    """A verifier that is an object with one function."""

    async def __call__(self, token: str) -> Identity | str | None:
        return USERS.get(token)


class Verifier:
    """A verifier of the author's own."""

    issuer = "https://mine.example.com"

    async def verify(self, token: str, audience: str) -> Identity | None:
        return Identity(f"{token} for {audience}")


@pytest.mark.covers("BEAR-07")
@pytest.mark.parametrize("verifier", [USERS.get, later, lambda token: later(token), Object()])
def test_a_verifier_is_a_function_plain_or_asynchronous_that_returns_an_identity_a_name_or_nobody(verifier):
    bearer = door(verifier)
    assert admit(bearer, "Bearer one") == USERS["one"]
    assert admit(bearer, "Bearer two") == Identity("bob")
    assert admit(bearer, "Bearer three").scopes == {"files:read", "files:write"}
    assert admit(bearer, "Bearer four").scopes == {"admin", "files:read"}
    refused = admit(bearer, "Bearer five")
    assert (refused.status, refused.reason) == (401, "The token is not valid here")


@pytest.mark.covers("BEAR-07")
def test_a_verifier_of_ones_own_is_given_the_resource_and_may_name_its_issuer():
    bearer = Bearer(Verifier(), resource=RESOURCE)
    assert admit(bearer, "Bearer x").principal == f"x for {RESOURCE}"
    assert json.loads(bearer.metadata)["authorization_servers"] == ["https://mine.example.com"]


@pytest.mark.covers("BEAR-07")
@pytest.mark.parametrize("returned", ["", "  ", Identity(""), Identity(7), True, False, 7, {"sub": "ann"}])
def test_empty_and_non_string_principals_are_unauthenticated(returned, caplog):
    assert admit(door(lambda token: returned), "Bearer one").status == 401
    assert "A request was refused because auth returned a" in caplog.text


@pytest.mark.covers("BEAR-07")
@pytest.mark.parametrize("returned", ["", Identity(""), Identity(" ", frozenset({"files:read"}))])
@pytest.mark.parametrize("method", ["verify", "judge"])
def test_empty_principals_of_several_issuers_are_unauthenticated(returned, method):
    async def verify(token, audience):
        return returned

    def bearer(issuer):
        verifier = SimpleNamespace(issuer=issuer, **{method: verify})
        return Bearer(verifier, resource=RESOURCE)

    several = Bearers([bearer("https://one.example.com"), bearer("https://two.example.com")])
    assert admit(several, "Bearer one").status == 401


@pytest.mark.covers("BEAR-07")
@pytest.mark.parametrize("verifier", ["s3cr3t-token", {"s3cr3t-token": "ann"}, Jwt, dict, None, 7])
def test_verifiers_that_cannot_be_called_are_refused_without_showing_them(verifier):
    with pytest.raises(
        DefinitionError, match=r"must be a Jwt\(...\), an Introspection\(...\), or a function"
    ) as refused:
        door(verifier)
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.covers("BEAR-07")
@pytest.mark.parametrize("authorization", ["Bearer one", "bearer one", "BEARER  one ", " Bearer one"])
def test_the_scheme_is_read_in_whatever_case(authorization):
    assert admit(door(), authorization).principal == "ann"


@pytest.mark.covers("BEAR-08")
@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearerone", "one"])
def test_who_has_no_token_is_told_where_to_get_one_without_an_error(authorization):
    assert admit(door(), authorization) == Denial(
        401, "Authorization is required", f'Bearer resource_metadata="{METADATA}"'
    )


@pytest.mark.covers("BEAR-08")
def test_a_challenge_names_the_scopes_that_are_required():
    bearer = door(required_scopes=["files:write", "files:read"])
    scope = f'scope="files:read files:write", resource_metadata="{METADATA}"'
    assert admit(bearer, None).challenge == f"Bearer {scope}"
    invalid = 'Bearer error="invalid_token", error_description="The token is not valid here", '
    assert admit(bearer, "Bearer five").challenge == invalid + scope
    lacking = admit(bearer, "Bearer one")
    assert (lacking.status, lacking.reason) == (403, "This takes the scopes: files:read files:write")
    said = 'Bearer error="insufficient_scope", error_description="This takes the scopes: files:read files:write", '
    assert lacking.challenge == said + scope
    assert admit(bearer, "Bearer three").principal == "cid"


@pytest.mark.covers("BEAR-08")
@pytest.mark.parametrize(
    "authorization", ["Bearer one, Bearer two", "Bearer one two", "Bearer one,two", "Bearer \xe9", "Bearer a\x00b"]
)
def test_what_is_not_one_token_is_400_and_is_not_verified(authorization):
    asked: list[str] = []
    refused = admit(door(asked.append), authorization)
    assert refused.status == 400
    assert 'error="invalid_request"' in refused.challenge
    assert asked == []


@pytest.mark.covers("BEAR-08")
@pytest.mark.parametrize(("length", "times"), [(16 * 1024, 1), (16 * 1024 + 1, 0), (1024 * 1024, 0)])
def test_a_token_that_is_too_long_is_not_verified(length, times):
    asked: list[str] = []
    refused = admit(door(asked.append), "Bearer " + "a" * length)
    assert refused.status == 401
    assert 'error="invalid_token"' in refused.challenge
    assert len(asked) == times


@pytest.mark.covers("BEAR-09")
def test_a_scope_includes_those_that_it_implies_and_theirs():
    implied = {"admin": ["files:write"], "files:write": ["files:read"], "files:read": ["admin:not"], "admin:not": []}
    bearer = door(lambda token: Identity("ann", frozenset({token})), implied_scopes=implied)
    assert admit(bearer, "Bearer admin").scopes == {"admin", "files:write", "files:read", "admin:not"}
    assert admit(bearer, "Bearer files:read").scopes == {"files:read", "admin:not"}
    assert admit(bearer, "Bearer other").scopes == {"other"}
    circle = door(lambda token: Identity("ann", [token]), implied_scopes={"a": ["b"], "b": ["a"]})
    assert admit(circle, "Bearer a").scopes == {"a", "b"}
    required = door(implied_scopes={"admin": ["files:write"]}, required_scopes=["files:write"])
    assert admit(required, "Bearer four").principal == "dan"


@pytest.mark.covers("BEAR-09")
def test_the_refusal_of_a_tool_names_all_scopes_that_the_call_takes():
    bearer = door(required_scopes=["files:read"])
    denial = bearer.insufficient(["files:write"], METADATA)
    assert denial.reason == "This takes the scopes: files:read files:write"
    assert 'scope="files:read files:write"' in denial.challenge


@pytest.mark.covers("BEAR-10")
@pytest.mark.parametrize(
    "value", ['a"b', "a\\b", 'a\\"b', 'x", error="y', "a\r\nSet-Cookie: b", "a\x00b", "caf\xe9 \u2603"]
)
def test_a_challenge_says_one_thing_whatever_is_in_it(value):
    said = challenge(scope=value, resource_metadata=None)
    assert said.isascii()
    assert said.isprintable()
    (read,) = parse(said)
    assert list(read.parameters) == ["scope"]
    if value.isascii() and value.isprintable():
        assert read.parameters["scope"] == value


@pytest.mark.covers("BEAR-11")
@pytest.mark.parametrize(
    ("resource", "root_path", "address"),
    [
        (RESOURCE, "", METADATA),
        (RESOURCE, "/", METADATA),
        ("https://api.example.com", "", "https://api.example.com/.well-known/oauth-protected-resource"),
        ("https://api.example.com/", "", "https://api.example.com/.well-known/oauth-protected-resource"),
        ("https://api.example.com/a/b/", "", "https://api.example.com/.well-known/oauth-protected-resource/a/b"),
        (
            "https://api.example.com/mcp?tenant=1",
            "",
            "https://api.example.com/.well-known/oauth-protected-resource/mcp?tenant=1",
        ),
        (
            "http://127.0.0.1:8000/tools/mcp",
            "/tools",
            "http://127.0.0.1:8000/tools/.well-known/oauth-protected-resource/mcp",
        ),
        (
            RESOURCE,
            '/a" b\r\n/\xe9/',
            "https://api.example.com/a%22%20b%0D%0A/%C3%A9/.well-known/oauth-protected-resource/mcp",
        ),
    ],
)
def test_the_address_of_the_metadata_follows_from_the_resource_and_the_mount(resource, root_path, address):
    assert door(resource=resource).metadata_address(root_path, "/mcp") == address


@pytest.mark.covers("BEAR-11")
def test_the_address_of_the_metadata_may_be_given():
    bearer = door(metadata_url="https://docs.example.com/metadata.json")
    assert bearer.metadata_address("/mounted", "/mcp") == "https://docs.example.com/metadata.json"


@pytest.mark.covers("BEAR-11")
def test_the_metadata_say_what_the_author_says():
    assert json.loads(door().metadata) == {
        "resource": RESOURCE,
        "authorization_servers": [LOGIN],
        "bearer_methods_supported": ["header"],
    }
    full = door(
        authorization_servers=[LOGIN, "https://second.example.com"],
        required_scopes=["b", "a"],
        resource_name="Files",
    )
    assert json.loads(full.metadata)["scopes_supported"] == ["a", "b"]
    assert json.loads(full.metadata)["resource_name"] == "Files"
    assert len(json.loads(full.metadata)["authorization_servers"]) == 2
    assert json.loads(door(required_scopes=["a"], scopes_supported=["c", "a"]).metadata)["scopes_supported"] == [
        "c",
        "a",
    ]
    assert "scopes_supported" not in json.loads(door(required_scopes=["a"], scopes_supported=[]).metadata)


@pytest.mark.covers("BEAR-12")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resource": "/mcp"}, "resource must be the absolute URL"),
        ({"resource": "api.example.com/mcp"}, "resource must be the absolute URL"),
        ({"resource": "ftp://api.example.com/mcp"}, "resource must be the absolute URL"),
        ({"resource": "https://"}, "resource must be the absolute URL"),
        ({"resource": "https://[::1/mcp"}, "resource must be the absolute URL"),
        ({"resource": RESOURCE + "#there"}, "without user and fragment"),
        ({"resource": "https://ann@api.example.com/mcp"}, "without user and fragment"),
        ({"resource": 'https://api.example.com/"'}, "resource must be the absolute URL"),
        ({"metadata_url": "/metadata"}, "metadata_url must be the absolute URL"),
        ({"authorization_servers": []}, "must name at least one issuer"),
        ({"authorization_servers": None}, "must name at least one issuer"),
        ({"authorization_servers": LOGIN}, "must be a list"),
        ({"required_scopes": "files:read"}, "required_scopes must be a list"),
        ({"required_scopes": [7]}, "required_scopes must be a list"),
        ({"required_scopes": ["a b"]}, "'a b', not a scope"),
        ({"required_scopes": ['"']}, "not a scope"),
        ({"required_scopes": [""]}, "not a scope"),
        ({"scopes_supported": "a"}, "scopes_supported must be a list"),
        ({"scopes_supported": ["offline_access"]}, "must not have offline_access"),
        ({"required_scopes": ["offline_access"]}, "must not have offline_access"),
        ({"implied_scopes": {"a": "b"}}, "implied_scopes must be a list"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_when_it_is_set_up(options, message):
    with pytest.raises(ValueError, match=message):
        door(**options)


@pytest.mark.covers("BEAR-12")
def test_an_authorization_server_must_be_secure():
    with pytest.raises(InsecureUrl):
        door(authorization_servers=["http://login.example.com"])
    assert door(authorization_servers=["http://localhost:9000"])
