"""Helpers for signing clients and verifying servers: the check for the package joserfc, and base64url."""

from __future__ import annotations

from base64 import urlsafe_b64encode

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
