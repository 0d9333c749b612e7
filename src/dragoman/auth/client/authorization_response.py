"""Authorization responses: the parameters of the redirect after a login, and their validation."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import UNSET, Struct, UnsetType

from dragoman.auth.client.stored_records import PendingLogin
from dragoman.auth.redaction import Secrets
from dragoman.errors import AuthError, TokenRefused
from dragoman.protocol.urls import redacted

MAX_FIELDS = 50
UNREADABLE = "unreadable"
"""Stands for an error code that contains a secret."""


class AuthorizationResponse(Struct, frozen=True):
    """The parameters of a redirect; `iss` is None if the redirect has none, and UNSET if that is not known.

    Example:
        async def callback():
            return AuthorizationResponse(code=query["code"], state=query["state"], iss=query.get("iss"))
    """

    code: str | None = None
    state: str | None = None
    iss: str | UnsetType | None = UNSET
    error: str | None = None
    error_description: str | None = None

    def __repr__(self) -> str:
        return f"AuthorizationResponse(error={self.error!r})"

    @staticmethod
    def of_url(url: str) -> AuthorizationResponse:
        """Return the response in the URL of a redirect.

        Raises:
            AuthError: the URL cannot be read, or has a field twice.
        """
        try:
            fields = parse_qs(urlsplit(url.strip()).query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except ValueError:
            raise AuthError("The address that the browser was sent to cannot be read") from None
        return AuthorizationResponse.of_query(fields)

    @staticmethod
    def of_query(fields: dict[str, list[str]]) -> AuthorizationResponse:
        """Return the response in the query of a redirect.

        Raises:
            AuthError: the query has a field twice.
        """

        def one(name: Literal["code", "state", "iss", "error", "error_description"]) -> str | None:
            values = fields.get(name, [])
            if len(values) > 1:
                raise AuthError(f"The authorization server's answer has more than one {name}")
            return values[0] if values and values[0] else None

        return AuthorizationResponse(one("code"), one("state"), one("iss"), one("error"), one("error_description"))

    @staticmethod
    def of(given: object) -> AuthorizationResponse:
        """Return the response in a callback handler's value: itself, `(code, state)`, `(code, state, iss)`, or a URL.

        Raises:
            TypeError: the value has another type.
        """
        if isinstance(given, AuthorizationResponse):
            return given
        if isinstance(given, str):
            return AuthorizationResponse.of_url(given)
        if isinstance(given, Sequence) and len(given) in (2, 3):
            code, state, *iss = given
            return AuthorizationResponse(code, state, iss[0] if iss else UNSET)
        raise TypeError("callback_handler must return (code, state), (code, state, iss), or the URL of the redirect")


def has_state(login: PendingLogin, state: str | None) -> bool:
    """Tell whether a state belongs to a login, in constant time."""
    return hmac.compare_digest(login.state.encode(), (state or "").encode("utf-8", "surrogateescape"))


def validated_code(login: PendingLogin, response: AuthorizationResponse, secrets: Secrets) -> str:
    """Return the code of the response to a login, and add it to the secrets.

    Raises:
        TokenRefused: the response has an error.
        AuthError: the response belongs to another login, comes from another issuer, or has no code.
    """
    secrets.add(response.code, login.verifier, login.state)
    if not has_state(login, response.state):
        raise AuthError("The answer does not belong to this login (its state is another); log in again")
    issuer = login.authorization_server.issuer
    if response.iss is None:
        if login.authorization_server.sends_issuer:
            raise AuthError(f"The answer does not say that it comes from {redacted(issuer)}; it is not used")
    elif response.iss is not UNSET and not hmac.compare_digest(str(response.iss).encode(), issuer.encode()):
        raise AuthError(f"The answer does not come from {redacted(issuer)}; it is not used")
    # MUST NOT (2026-07-28): act on or show an error before the issuer is validated.
    if response.error is not None:
        described = f": {secrets.quoted(response.error_description)}" if response.error_description else ""
        reason = f"{secrets.quoted(response.error)}{described}"
        error = UNREADABLE if secrets.are_in(response.error) else response.error
        raise TokenRefused(f"{redacted(issuer)} did not authorize: {reason}", error)
    if not response.code:
        raise AuthError(f"{redacted(issuer)} sent no code; log in again")
    return response.code
