"""What an authorization server sends the user's browser back with, and whether it may be believed."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import UNSET, Struct, UnsetType

from dragoman.auth.client.stored_records import Pending
from dragoman.auth.redaction import Secrets
from dragoman.errors import AuthError
from dragoman.protocol.urls import redacted

MOST_FIELDS = 50


class AuthorizationResponse(Struct, frozen=True):
    """What came back: `iss` is None if the server did not say who it is, and UNSET if nobody looked.

    Example:
        async def callback():
            return AuthorizationResponse(code=query["code"], state=query["state"], iss=query.get("iss"))
    """

    code: str | None = None
    state: str | None = None
    iss: str | UnsetType | None = UNSET
    error: str | None = None

    def __repr__(self) -> str:
        return f"AuthorizationResponse(error={self.error!r})"

    @staticmethod
    def of_url(url: str) -> AuthorizationResponse:
        """Return what a redirect to a URL says.

        Raises:
            AuthError: it cannot be read, or says something twice.
        """
        try:
            fields = parse_qs(urlsplit(url.strip()).query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise AuthError("The address that the browser was sent to cannot be read") from None
        return AuthorizationResponse.of_query(fields)

    @staticmethod
    def of_query(fields: dict[str, list[str]]) -> AuthorizationResponse:
        """Return what the fields of a redirect say.

        Raises:
            AuthError: it says something twice.
        """

        def one(name: Literal["code", "state", "iss", "error"]) -> str | None:
            found = fields.get(name, [])
            if len(found) > 1:
                raise AuthError(f"The authorization server's answer has more than one {name}")
            return found[0] if found and found[0] else None

        return AuthorizationResponse(code=one("code"), state=one("state"), iss=one("iss"), error=one("error"))

    @staticmethod
    def of(given: object) -> AuthorizationResponse:
        """Return what a callback handler gave: a response, `(code, state)`, `(code, state, iss)`, or the URL.

        Raises:
            TypeError: it is none of these.
        """
        if isinstance(given, AuthorizationResponse):
            return given
        if isinstance(given, str):
            return AuthorizationResponse.of_url(given)
        if isinstance(given, Sequence) and len(given) in (2, 3):
            code, state, *iss = given
            return AuthorizationResponse(code, state, iss[0] if iss else UNSET)
        raise TypeError("callback_handler must return (code, state), (code, state, iss), or the URL of the redirect")


def is_for(pending: Pending, state: str | None) -> bool:
    """Tell, in constant time, whether an answer belongs to a login."""
    return hmac.compare_digest(pending.state.encode(), (state or "").encode("utf-8", "surrogateescape"))


def checked_code(pending: Pending, response: AuthorizationResponse, secrets: Secrets) -> str:
    """Return the code of an answer to a login, and remember it as a secret.

    Raises:
        AuthError: it is the answer to another login, comes from another server, says no, or says nothing.
    """
    secrets.add(response.code, pending.verifier, pending.state)
    if not is_for(pending, response.state):
        raise AuthError("The answer does not belong to this login (its state is another); log in again")
    _check_issuer(pending, response)
    # MUST NOT (2026-07-28): act on or show an error before the issuer is known to be right.
    if response.error is not None:
        raise AuthError(f"{redacted(pending.authority.issuer)} did not authorize: {secrets.quoted(response.error)}")
    if not response.code:
        raise AuthError(f"{redacted(pending.authority.issuer)} sent no code; log in again")
    return response.code


def _check_issuer(pending: Pending, response: AuthorizationResponse) -> None:
    authority = pending.authority
    if response.iss is UNSET:
        return
    if response.iss is None:
        if authority.sends_issuer:
            raise AuthError(f"The answer does not say that it comes from {redacted(authority.issuer)}; it is not used")
    elif not hmac.compare_digest(str(response.iss).encode(), authority.issuer.encode()):
        raise AuthError(f"The answer does not come from {redacted(authority.issuer)}; it is not used")
