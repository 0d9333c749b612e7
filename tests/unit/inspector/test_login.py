"""Logins as a person may see them."""

import json
import time
from base64 import urlsafe_b64encode

import pytest

from dragoman.auth.client.stored_records import Tokens
from dragoman.inspector.login import decoded_token, login_facts


def part(value):
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_token_is_decoded_without_its_signature():
    token = f"{part({'alg': 'ES256'})}.{part({'sub': 'ada', 'exp': time.time() - 1})}.signature"
    found = decoded_token(token)
    assert (found["header"], found["claims"]["sub"], found["opaque"]) == ({"alg": "ES256"}, "ada", False)
    assert found["expired"] is True
    assert "signature" not in json.dumps(found)
    assert decoded_token(f"{part({})}.{part({'sub': 'ada'})}.")["expired"] is None


@pytest.mark.parametrize("token", ["opaque", "a.b.c", f"{part([])}.{part({})}.x", f"{part({})}.{part({})}", "é.é.é"])
def test_any_other_token_is_opaque(token):
    assert decoded_token(token) == {"header": None, "claims": None, "opaque": True, "expired": None}


def test_a_login_shows_only_the_beginning_of_its_token():
    facts = login_facts(Tokens(access_token="abcdefghijkl", refresh_token="mnopqrstuvwx", scope="read"))
    assert (facts["loggedIn"], facts["accessToken"], facts["scopes"]) == (True, "abcdef***", ["read"])
    assert "ghijkl" not in json.dumps(facts)
    assert login_facts(Tokens(access_token="abcdefghijkl", expires_at=1.0))["loggedIn"] is False
    assert login_facts(None).keys() == facts.keys()
