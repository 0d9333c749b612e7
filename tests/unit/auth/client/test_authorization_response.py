"""Whether what a login ended with may be believed."""

import pytest
from msgspec import UNSET

from dragoman.auth.client import authorization_response
from dragoman.auth.client.authorization_response import AuthorizationResponse
from dragoman.auth.client.stored_records import AuthorizationServer, PendingLogin
from dragoman.auth.redaction import Secrets
from dragoman.errors import AuthError

ISSUER = "https://auth.example.com"


def pending(**known):
    return PendingLogin(
        state="the-state",
        verifier="the-verifier",
        redirect_uri="http://127.0.0.1/callback",
        client_id="client",
        server="https://mcp.example.com/mcp",
        authorization_server=AuthorizationServer(issuer=ISSUER, resource="r", token_endpoint="t", **known),
        begun_at=0.0,
    )


def validated_code(waiting, response):
    return authorization_response.validated_code(waiting, response, Secrets())


@pytest.mark.covers("OAU-18")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("c", "s"), ("c", "s", UNSET)),
        (["c", "s", None], ("c", "s", None)),
        (("c", "s", "i"), ("c", "s", "i")),
        ("http://127.0.0.1/callback?code=c&state=s\n", ("c", "s", None)),
        (AuthorizationResponse("c", "s", "i"), ("c", "s", "i")),
    ],
)
def test_a_callback_handler_answers_in_several_ways(given, expected):
    response = AuthorizationResponse.of(given)
    assert (response.code, response.state, response.iss) == expected


@pytest.mark.covers("OAU-18")
@pytest.mark.parametrize("given", [None, 1, ("c",), ("c", "s", "i", "x")])
def test_other_answers_are_refused(given):
    with pytest.raises(TypeError, match="callback_handler"):
        AuthorizationResponse.of(given)


def test_an_answer_that_says_something_twice_is_refused():
    with pytest.raises(AuthError, match="more than one code"):
        AuthorizationResponse.of_url("http://x/?code=1&code=2&state=s")
    with pytest.raises(AuthError, match="cannot be read"):
        AuthorizationResponse.of_url("http://x/?" + "&".join(f"a{n}=1" for n in range(100)))


@pytest.mark.covers("OAU-19")
@pytest.mark.parametrize("state", [None, "", "the-stat", "other", "\udcff"])
def test_an_answer_with_another_state_is_refused(state):
    with pytest.raises(AuthError, match="does not belong to this login"):
        validated_code(pending(), AuthorizationResponse("code", state, ISSUER))


@pytest.mark.covers("OAU-19")
@pytest.mark.parametrize("code", [None, ""])
def test_an_answer_without_a_code_is_refused(code):
    with pytest.raises(AuthError, match="sent no code"):
        validated_code(pending(), AuthorizationResponse(code, "the-state", ISSUER))


@pytest.mark.covers("OAU-20")
@pytest.mark.parametrize("iss", ["https://evil.example.com", ISSUER + "/", ISSUER.upper(), ISSUER + ":443"])
@pytest.mark.parametrize("sends_issuer", [True, False])
def test_an_answer_of_another_issuer_is_refused_without_any_leniency(iss, sends_issuer):
    with pytest.raises(AuthError, match="does not come from"):
        validated_code(pending(sends_issuer=sends_issuer), AuthorizationResponse("code", "the-state", iss))


@pytest.mark.covers("OAU-20")
def test_an_issuer_that_was_promised_must_be_there_unless_nobody_looked():
    promised = pending(sends_issuer=True)
    with pytest.raises(AuthError, match="does not say that it comes from"):
        validated_code(promised, AuthorizationResponse("code", "the-state", None))
    assert validated_code(promised, AuthorizationResponse("code", "the-state")) == "code"
    assert validated_code(pending(), AuthorizationResponse("code", "the-state", None)) == "code"


@pytest.mark.covers("OAU-20")
def test_an_error_is_told_only_when_its_sender_is_known():
    with pytest.raises(AuthError, match="access_denied"):
        validated_code(pending(), AuthorizationResponse(None, "the-state", ISSUER, "access_denied"))
    with pytest.raises(AuthError) as raised:
        validated_code(pending(), AuthorizationResponse(None, "the-state", "https://evil", "call 555-1234"))
    assert "555" not in str(raised.value)
    with pytest.raises(AuthError, match="left out") as raised:
        validated_code(pending(), AuthorizationResponse("c0d3-c0d3", "the-state", ISSUER, "no c0d3-c0d3"))
    assert "c0d3" not in str(raised.value)


@pytest.mark.covers("LOA-14")
def test_no_record_shows_a_secret_when_it_is_printed():
    assert "the-" not in f"{pending()!r} {[pending()]}"
    assert "code" not in repr(AuthorizationResponse("the-code", "the-state"))
