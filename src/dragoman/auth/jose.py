"""Helpers for signing clients and verifying servers: the check for the package joserfc, base64url, parts of a token."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec

from dragoman.errors import AuthError


def require_joserfc(what: str) -> None:
    """Check that joserfc is installed, for the error text of the feature `what`.

    Raises:
        AuthError: joserfc is not installed.
    """
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise AuthError(f"{what} needs the package joserfc: install dragoman[jwt]") from None


def base64url(data: bytes) -> str:
    """Return bytes as base64url without padding (RFC 7515)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unverified_part(token: str, place: int) -> dict[str, Any] | None:
    """Return the header (0) or the claims (1) of a signed token, which nobody has verified; None if it has none."""
    encoded = token.split(".", 2)[place] if token.count(".") >= place else ""
    try:
        return msgspec.json.decode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), type=dict[str, Any])
    except (ValueError, RecursionError):
        return None
