"""Identities of callers, and refusals of tokens and requests."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import force_setattr

MAX_DETAIL = 200
"""The characters of a value in a token that the log shows."""


class Identity(Struct, frozen=True):
    """The sender of a request: the principal, its scopes, and the claims of the token.

    Example:
        Identity("user-17", frozenset({"files:read"}))

    `scopes` may also be given as a list, or as one text with spaces between the scopes.
    """

    principal: str
    scopes: frozenset[str] = frozenset()
    claims: dict[str, Any] = field(default_factory=dict)
    """All claims of the token."""

    def __repr__(self) -> str:
        # Without the claims, which may hold personal data.
        return f"<Identity {self.principal!r}: {' '.join(sorted(self.scopes)) or 'no scopes'}>"

    def __post_init__(self) -> None:
        given: Any = self.scopes
        if not isinstance(given, frozenset):
            force_setattr(self, "scopes", frozenset(given.split() if isinstance(given, str) else given))


class BadToken(Struct, frozen=True):
    """Why a token is refused; a verifier may return it instead of None.

    Example:
        return BadToken("The token was revoked", detail=f"by {who}")
    """

    reason: str
    """The text for the client: which check failed, without the content of the token."""
    detail: str = ""
    """The text for the server's log: the value in the token, and the expected value."""


class Denial(Struct, frozen=True):
    """The refusal of a request: its status, reason and challenge."""

    status: int
    reason: str
    challenge: str
    """The `WWW-Authenticate` header."""
    detail: str = ""
    """A further text for the server's log."""

    @property
    def shown_detail(self) -> str:
        """The detail in parentheses, to follow the reason in the log."""
        return f" ({self.detail})" if self.detail else ""
