"""Signatures of clients: assertions and DPoP proofs."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from dragoman.auth.client.signing import AssertionSigner, ProofKey


def pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.covers("CCR-03", "CCR-04")
@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
@pytest.mark.parametrize("as_object", [False, True])
def test_an_assertion_says_who_for_whom_and_for_how_long(algorithm, as_object):
    kind = ECKey if algorithm == "ES256" else RSAKey
    key = ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else rsa.generate_private_key(65537, 2048)
    signer = AssertionSigner("me", key if as_object else pem(key), algorithm)
    first, second = (
        jwt.decode(signer.sign("https://auth.example.com"), kind.import_key(pem(key)), algorithms=[algorithm])
        for _ in range(2)
    )
    claims = first.claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", "https://auth.example.com")
    assert claims["exp"] - claims["iat"] == 300
    assert claims["jti"] != second.claims["jti"]


@pytest.mark.covers("OAU-38")
def test_a_proof_is_for_one_request_and_one_token():
    key = ProofKey()
    kept = ProofKey(key.private_jwk)
    assert kept.thumbprint == key.thumbprint
    assert not kept.remember_nonce("https://a.example.com/x", None)
    assert kept.remember_nonce("https://a.example.com/x", "n")
    proof = jwt.decode(
        kept.proof("post", "https://a.example.com/token?x=1#y", "the-token"), ECKey.import_key(key.private_jwk)
    )
    assert proof.header["typ"] == "dpop+jwt"
    assert set(proof.header["jwk"]) == {"kty", "crv", "x", "y"}
    assert (proof.claims["htm"], proof.claims["htu"], proof.claims["nonce"]) == (
        "POST",
        "https://a.example.com/token",
        "n",
    )
    assert "the-token" not in proof.claims.values()
    other = jwt.decode(kept.proof("GET", "https://b.example.com/"), ECKey.import_key(key.private_jwk))
    assert not {"nonce", "ath"} & set(other.claims)
    assert other.claims["jti"] != proof.claims["jti"]
