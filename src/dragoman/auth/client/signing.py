"""Signatures: assertions that prove who a client is (RFC 7523), and proofs that it holds its key (RFC 9449).

They need the package joserfc, which the extra `jwt` installs.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from dragoman.errors import AuthError, InvalidCredentials
from dragoman.protocol.urls import origin_of, redacted

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, RSAKey

ASSERTION_SECONDS = 300
DPOP_ALGORITHM = "ES256"
ALGORITHMS = {"ES256": "EC", "RS256": "RSA"}


def unpadded(data: bytes) -> str:
    """Return bytes as base64 for URLs, without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def require_joserfc(what: str) -> None:
    """Check that there is what signs and verifies.

    Raises:
        AuthError: there is not.
    """
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise AuthError(f"{what} needs the package joserfc: install dragoman[jwt]") from None


class AssertionSigner:
    """Signs assertions of a client with its private key: PEM, or a key object of `cryptography`.

    Raises:
        InvalidCredentials: the algorithm is not known, or the key cannot sign with it.
        AuthError: joserfc is not installed.
    """

    def __init__(self, client_id: str, private_key: object, algorithm: str | None) -> None:
        if algorithm not in ALGORITHMS:
            raise InvalidCredentials(f"signing_algorithm must be one of {', '.join(ALGORITHMS)}")
        require_joserfc("Signing")
        self._client_id = client_id
        self._algorithm = algorithm
        try:
            self._key = _imported(private_key, ALGORITHMS[algorithm])
            self.sign("https://example.com")
        except Exception as error:
            # What went wrong may quote the key.
            raise InvalidCredentials(
                f"The private key cannot sign with {algorithm} ({type(error).__name__}); give a PEM of the right kind"
            ) from None

    def sign(self, audience: str) -> str:
        """Return an assertion for one authorization server, to be used once."""
        from joserfc import jwt

        now = int(time.time())
        claims = {
            "iss": self._client_id,
            "sub": self._client_id,
            "aud": audience,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": secrets.token_urlsafe(16),
        }
        return jwt.encode({"alg": self._algorithm, "typ": "JWT"}, claims, self._key)


def _imported(key: Any, kind: str) -> ECKey | RSAKey:
    from joserfc.jwk import ECKey, RSAKey

    if hasattr(key, "private_bytes"):
        from cryptography.hazmat.primitives import serialization

        key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    made = ECKey.import_key(key) if kind == "EC" else RSAKey.import_key(key)
    if not made.is_private:
        raise ValueError("a public key signs nothing")
    return made


class ProofKey:
    """The key that DPoP tokens are bound to, and the nonces that servers want to see in proofs."""

    def __init__(self, kept: dict[str, Any] | None = None) -> None:
        require_joserfc("Signing")
        from joserfc.jwk import ECKey

        self._key = ECKey.generate_key("P-256") if kept is None else ECKey.import_key(kept)
        self._nonces: dict[str, str] = {}

    def plain(self) -> dict[str, Any]:
        """Return the private key as JSON, to be kept."""
        return dict(self._key.as_dict(private=True))

    @property
    def thumbprint(self) -> str:
        """What tokens name the key by."""
        return self._key.thumbprint()

    def remember_nonce(self, url: str, nonce: str | None) -> bool:
        """Keep the nonce that a server sent, and tell whether there was one."""
        if nonce:
            self._nonces[origin_of(url)] = nonce
        return bool(nonce)

    def proof(self, method: str, url: str, access_token: str | None = None) -> str:
        """Return a proof for one request, with the hash of the token that it is sent with."""
        from joserfc import jwt

        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method.upper(),
            "htu": redacted(url),  # RFC 9449: without query and fragment
            "iat": int(time.time()),
        }
        if access_token is not None:
            claims["ath"] = unpadded(hashlib.sha256(access_token.encode("ascii")).digest())
        nonce = self._nonces.get(origin_of(url))
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"alg": DPOP_ALGORITHM, "typ": "dpop+jwt", "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key)
