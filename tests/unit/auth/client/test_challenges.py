"""What a `WWW-Authenticate` header asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from dragoman.auth.client.challenges import Challenge, needs_dpop_nonce, offered_schemes, parse, usable_challenge


@pytest.mark.covers("OAU-02")
def test_a_challenge_is_found_among_several():
    header = (
        'Negotiate abc123==, Basic realm="a, Bearer b", BEARER Resource_Metadata="https://x/y", scope="a b" , Digest'
    )
    assert parse(header) == [
        Challenge("negotiate"),
        Challenge("basic", {"realm": "a, Bearer b"}),
        Challenge("bearer", {"resource_metadata": "https://x/y", "scope": "a b"}),
        Challenge("digest"),
    ]


@pytest.mark.covers("OAU-02")
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (r'Bearer realm="a \"quoted\" \\ b"', {"realm": r'a "quoted" \ b'}),
        ("Bearer error=invalid_token", {"error": "invalid_token"}),
        ('Bearer error = "x" ,, scope="y"', {"error": "x", "scope": "y"}),
        ('Bearer scope="first", scope="second"', {"scope": "first"}),
        ("Bearer", {}),
        ('Bearer error="never ends', {}),
        ('Bearer a="1" b="2"', {"a": "1", "b": "2"}),
    ],
)
def test_parameters_are_read_whatever_their_spelling(header, expected):
    assert parse(header)[0].parameters == expected


@pytest.mark.covers("OAU-02")
@pytest.mark.parametrize("header", ["", " , ,", "=", '"Bearer"', "é"])
def test_what_is_no_challenge_is_none(header):
    assert parse(header) == []


@given(st.text(max_size=200) | st.text(alphabet='Bearer ,="\\ab\t', max_size=100))
def test_any_text_can_be_read(header):
    for challenge in parse(header):
        assert challenge.scheme == challenge.scheme.lower()


def test_a_long_header_is_read_in_linear_time():
    assert parse('Bearer a="' + "\\" * 200_000) == [Challenge("bearer")]
    assert len(parse("a," * 100_000)) == 8192


def test_the_challenge_that_says_more_is_met():
    headers = CIMultiDict()
    headers.add("WWW-Authenticate", 'Basic realm="x"')
    headers.add("www-authenticate", 'DPoP algs="ES256"')
    headers.add("WWW-Authenticate", 'Bearer resource_metadata="https://x", scope=" a  b "')
    found = usable_challenge(headers)
    assert found is not None
    assert (found.scheme, found.scope, found.resource_metadata, found.error) == ("bearer", "a b", "https://x", None)
    assert offered_schemes(headers) == {"basic", "dpop", "bearer"}


def test_headers_are_found_in_a_plain_mapping_too():
    assert usable_challenge({"WWW-AUTHENTICATE": 'Bearer scope="x"'}) == Challenge("bearer", {"scope": "x"})
    assert usable_challenge({"www-authenticate": "Basic"}) is None
    assert usable_challenge({}) is None


@pytest.mark.covers("OAU-38")
def test_a_nonce_is_wanted_when_the_proof_lacks_nothing_else():
    assert needs_dpop_nonce({"WWW-Authenticate": 'DPoP error="use_dpop_nonce", algs="ES256"'})
    assert not needs_dpop_nonce({"WWW-Authenticate": 'DPoP error="invalid_dpop_proof"'})
