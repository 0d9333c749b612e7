"""Records that a token storage keeps."""

import time

import pytest

from dragoman.auth.client.stored_records import AuthorizationServer, ClientInformation, Tokens

AUTHORITY = AuthorizationServer(issuer="https://a", resource="https://r", token_endpoint="https://a/token")


def tokens(access_token="the-access-token"):
    return Tokens(
        access_token=access_token,
        refresh_token="the-refresh-token",
        expires_at=time.time() + 60,
        scope="a b",
        authorization_server=AUTHORITY,
    )


@pytest.mark.covers("LOA-04")
def test_tokens_know_when_they_are_due():
    now = time.time()
    assert not Tokens(access_token="x").expires_soon
    assert not Tokens(access_token="x", expires_at=now + 100, lifetime=3600).expires_soon
    assert Tokens(access_token="x", expires_at=now + 50, lifetime=3600).expires_soon
    assert not Tokens(access_token="x", expires_at=now + 5, lifetime=10).expires_soon
    assert Tokens(access_token="x", expires_at=now + 1, lifetime=10).expires_soon
    assert Tokens(access_token="x", expires_at=now - 1).is_expired


@pytest.mark.covers("OAU-27", "LOA-10")
@pytest.mark.parametrize(
    ("client", "usable"),
    [
        (ClientInformation(client_id="c"), True),
        (ClientInformation(client_id="  "), False),
        (ClientInformation(), False),
        (ClientInformation(client_id="c", client_secret="s", client_secret_expires_at=0), True),
        (ClientInformation(client_id="c", client_secret="s", client_secret_expires_at=1), False),
    ],
)
def test_a_registration_is_usable_while_its_secret_is(client, usable):
    assert client.is_usable is usable


@pytest.mark.covers("LOA-14")
def test_tokens_and_registrations_show_no_secret():
    printed = f"{tokens()!r} {ClientInformation(client_id='c', client_secret='the-secret')!r}"
    assert "the-" not in printed
