"""Token requests: who asks, for which scopes, and what is made of the answer."""

import pytest

from dragoman.auth.client.challenges import Challenge
from dragoman.auth.client.stored_records import AuthorizationServer, ClientInformation
from dragoman.auth.client.token_endpoint import (
    BASIC,
    NONE,
    POST,
    Credential,
    authenticated,
    chosen_scope,
    client_credential,
    with_offline_access,
)


def authorization_server(**known):
    return AuthorizationServer(issuer="https://a", resource="https://r", token_endpoint="https://a/token", **known)


@pytest.mark.covers("OAU-26")
@pytest.mark.parametrize(
    ("methods", "registered", "secret", "expected"),
    [
        (None, None, "s", BASIC),
        ([POST], None, "s", POST),
        ([POST, BASIC], None, "s", BASIC),
        (["none"], None, "s", NONE),
        ([BASIC], POST, "s", POST),
        ([BASIC], "none", "s", NONE),
        ([BASIC], None, None, NONE),
        ([BASIC], None, "  ", NONE),
        (["tls_client_auth"], None, "s", BASIC),
    ],
)
def test_a_client_says_who_it_is_as_it_was_registered_or_as_the_server_takes_it(methods, registered, secret, expected):
    client = ClientInformation(client_id="c", client_secret=secret, token_endpoint_auth_method=registered)
    assert client_credential(client, authorization_server(auth_methods=methods)).method == expected


@pytest.mark.covers("OAU-26")
def test_id_and_secret_are_encoded_as_forms_are():
    _, headers = authenticated({}, Credential("a:b c", "d+e/é", BASIC), "x")
    assert headers == {"Authorization": "Basic YSUzQWIrYzpkJTJCZSUyRiVDMyVBOQ=="}
    assert authenticated({"a": "1"}, Credential("c", "s", POST), "x")[0] == {
        "a": "1",
        "client_id": "c",
        "client_secret": "s",
    }
    assert authenticated({"a": "1"}, Credential("c", None, NONE), "x") == ({"a": "1", "client_id": "c"}, {})
    assert authenticated({"a": "1"}, Credential(), "x") == ({"a": "1"}, {})


@pytest.mark.covers("OAU-22")
def test_scopes_come_from_the_challenge_then_the_metadata_then_the_author():
    listed = authorization_server(resource_scopes=["a", "b"])
    assert chosen_scope(Challenge("bearer", {"scope": "x y"}), listed, "own") == "x y"
    assert chosen_scope(Challenge("bearer"), listed, "own") == "a b"
    assert chosen_scope(None, authorization_server(), "own  other") == "own other"
    assert chosen_scope(None, authorization_server(), None) is None


@pytest.mark.covers("OAU-23")
def test_offline_access_is_asked_for_only_where_it_is_offered_and_of_use():
    offering, other = (
        authorization_server(scopes_supported=["a", "offline_access"]),
        authorization_server(scopes_supported=["a"]),
    )
    assert with_offline_access("a", offering, may_refresh=True) == "a offline_access"
    assert with_offline_access("a offline_access", offering, may_refresh=False) == "a"
    assert with_offline_access("offline_access a", other, may_refresh=True) == "a"
    assert with_offline_access("a offline_access", authorization_server(), may_refresh=True) == "a"
    assert with_offline_access(None, offering, may_refresh=True) is None
    assert with_offline_access("offline_access", offering, may_refresh=True) == "offline_access"
