"""Signatures of clients: assertions that authenticate the client (RFC 7523), and DPoP proofs (RFC 9449).

Both need the package joserfc, which the extra `jwt` installs.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import TYPE_CHECKING, Any

from dragoman.auth.jose import base64url, require_joserfc
from dragoman.errors import InvalidCredentials
from dragoman.protocol.urls import origin_of, redacted

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, RSAKey

ASSERTION_SECONDS = 300
DPOP_ALGORITHM = "ES256"
ASSERTION_ALGORITHMS = {"ES256": "EC", "RS256": "RSA"}


class AssertionSigner:
    """Signs assertions with the private key of a client: a PEM, or a key object of `cryptography`.

    Raises:
        InvalidCredentials: the algorithm is not known, or the key cannot sign with it.
        AuthError: joserfc is not installed.
    """

    def __init__(self, client_id: str, private_key: object, algorithm: str | None) -> None:
        if algorithm not in ASSERTION_ALGORITHMS:
            raise InvalidCredentials(f"signing_algorithm must be one of {', '.join(ASSERTION_ALGORITHMS)}")
        require_joserfc("Signing")
        self._client_id = client_id
        self._algorithm = algorithm
        try:
            self._key = _imported(private_key, ASSERTION_ALGORITHMS[algorithm])
            self.sign("https://example.com")
        except Exception as error:
            # The text of the error may quote the key.
            raise InvalidCredentials(
                f"The private key cannot sign with {algorithm} ({type(error).__name__}); give a PEM of the right kind"
            ) from None

    def sign(self, audience: str) -> str:
        """Return an assertion for one request to an authorization server."""
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
    imported = ECKey.import_key(key) if kind == "EC" else RSAKey.import_key(key)
    if not imported.is_private:
        raise ValueError("a public key signs nothing")
    return imported


class ProofKey:
    """The key that DPoP tokens are bound to, and the nonces that servers demand in proofs."""

    def __init__(self, private_jwk: dict[str, Any] | None = None) -> None:
        require_joserfc("Signing")
        from joserfc.jwk import ECKey

        self._key = ECKey.generate_key("P-256") if private_jwk is None else ECKey.import_key(private_jwk)
        self._nonces: dict[str, str] = {}

    @property
    def private_jwk(self) -> dict[str, Any]:
        """The private key as JSON, for the storage."""
        return dict(self._key.as_dict(private=True))

    @property
    def thumbprint(self) -> str:
        """The thumbprint that identifies the key in tokens."""
        return self._key.thumbprint()

    def remember_nonce(self, url: str, nonce: str | None) -> bool:
        """Store the nonce that a server sent, and tell whether it sent one."""
        if nonce:
            self._nonces[origin_of(url)] = nonce
        return bool(nonce)

    def proof(self, method: str, url: str, access_token: str | None = None) -> str:
        """Return a proof for one request, with the hash of the access token that the request carries."""
        from joserfc import jwt

        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method.upper(),
            "htu": redacted(url),  # RFC 9449: without query and fragment
            "iat": int(time.time()),
        }
        if access_token is not None:
            claims["ath"] = base64url(hashlib.sha256(access_token.encode("ascii")).digest())
        nonce = self._nonces.get(origin_of(url))
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"alg": DPOP_ALGORITHM, "typ": "dpop+jwt", "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key)
