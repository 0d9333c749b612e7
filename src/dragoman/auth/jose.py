"""What clients that sign and servers that verify share: the package joserfc of the extra `jwt`, and base64url."""

from __future__ import annotations

from base64 import urlsafe_b64encode

from dragoman.errors import AuthError


def require_joserfc(what: str) -> None:
    """Check that joserfc is installed; `what` needs it.

    Raises:
        AuthError: it is not.
    """
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise AuthError(f"{what} needs the package joserfc: install dragoman[jwt]") from None


def base64url(data: bytes) -> str:
    """Return bytes as base64url without padding (RFC 7515)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
