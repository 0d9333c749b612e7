"""Who sends a request to a server, and what a server answers to those that it does not let in."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import force_setattr


class Identity(Struct, frozen=True):
    """Who sends a request, and what they may do.

    Example:
        Identity("user-17", frozenset({"files:read"}))

    Scopes may also come as a list, or as one text with spaces between them.
    """

    principal: str
    scopes: frozenset[str] = frozenset()
    claims: dict[str, Any] = field(default_factory=dict)
    """What else the token says."""

    def __repr__(self) -> str:
        # Not the claims, which say more of a person than a log should.
        return f"<Identity {self.principal!r}: {' '.join(sorted(self.scopes)) or 'no scopes'}>"

    def __post_init__(self) -> None:
        given: Any = self.scopes
        if not isinstance(given, frozenset):
            force_setattr(self, "scopes", frozenset(given.split() if isinstance(given, str) else given))


class BadToken(Struct, frozen=True):
    """Why a token is no good: what a verifier may return instead of None.

    Example:
        return BadToken("The token was revoked", detail=f"by {who}")
    """

    reason: str
    """For the client: which check failed, without anything that the token says."""
    detail: str = ""
    """For the server's log: what was found and what was expected."""


class Denial(Struct, frozen=True):
    """Why a request is not let in: a status, a reason, and how to do better."""

    status: int
    reason: str
    challenge: str
    """The `WWW-Authenticate` header."""
    detail: str = ""
    """What the server's log says beside the reason."""
