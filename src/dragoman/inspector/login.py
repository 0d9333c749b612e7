"""The logins of the command and of the inspector: one storage, so that a login of either serves both."""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

from dragoman.errors import AuthError, AuthRequired
from dragoman.runtime.terminal import printable_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.auth.client.oauth import OAuth
    from dragoman.auth.client.storage import LoginRecords
    from dragoman.auth.client.stored_records import Tokens

SHOWN_CHARACTERS = 6
PARTS_OF_A_TOKEN = 3
UNAUTHORIZED, FORBIDDEN = 401, 403


def program_oauth(**options: Any) -> OAuth:
    """Return the `OAuth` of this program; DRAGOMAN_CLIENT_ID and DRAGOMAN_CLIENT_SECRET are its id and secret."""
    from dragoman.auth.client.oauth import OAuth

    return OAuth(**{**_program_options(), **options})


def program_login(remedy: Callable[[list[str]], str], **options: Any) -> OAuth:
    """Return the `OAuth` of this program for a login that was made before; it starts no login.

    `remedy` returns what a person can do, for the scopes that the login lacks; there are none if it has expired.
    """
    from dragoman.auth.client.oauth import StoredLogin

    def refusal(scopes: list[str]) -> AuthRequired:
        lacking = printable_line(" ".join(scopes))
        problem = f"The login lacks the scopes that the server wants, {lacking}" if scopes else "The login has expired"
        error = AuthRequired(f"{problem}; {remedy(scopes)}", FORBIDDEN if scopes else UNAUTHORIZED)
        error.has_remedy = True
        return error

    return StoredLogin(refusal, **{**_program_options(), **options})


def _program_options() -> dict[str, Any]:
    return {
        "client_id": os.environ.get("DRAGOMAN_CLIENT_ID"),
        "client_secret": os.environ.get("DRAGOMAN_CLIENT_SECRET"),
        "client_metadata": {"client_name": "dragoman"},
    }


async def stored_tokens(oauth: OAuth, url: str) -> Tokens | None:
    """Return the stored tokens for a server; None if there are none, or the storage cannot be read."""
    try:
        return await oauth.bind(url).tokens()
    except AuthError:
        return None


async def forget_login(records: LoginRecords) -> bool:
    """Forget a login, and the registration at the authorization server; tell whether there was a login."""
    async with records.lock():
        was_there = await records.tokens() is not None
        await records.save_tokens(None)
        await records.save_client(None)
    return was_there


def login_facts(tokens: Tokens | None) -> dict[str, Any]:
    """Return what a person may see of a login."""
    if tokens is None:
        return {
            "loggedIn": False,
            "issuer": None,
            "scopes": [],
            "expiresAt": None,
            "canRefresh": False,
            "accessToken": None,
        }
    return {
        "loggedIn": not tokens.is_expired or tokens.refresh_token is not None,
        "issuer": tokens.issuer,
        "scopes": tokens.scopes,
        "expiresAt": tokens.expires_at,
        "canRefresh": tokens.refresh_token is not None,
        "accessToken": f"{tokens.access_token[:SHOWN_CHARACTERS]}***",
    }


def decoded_token(token: str) -> dict[str, Any]:
    """Return the header and the claims of a JSON Web Token, without its signature; `opaque` if it is none."""
    parts = token.split(".")
    try:
        header, claims = (json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2])
    except ValueError:
        header = claims = None
    if len(parts) != PARTS_OF_A_TOKEN or not isinstance(header, dict) or not isinstance(claims, dict):
        return {"header": None, "claims": None, "opaque": True, "expired": None}
    expires = claims.get("exp")
    expired = expires <= time.time() if isinstance(expires, int | float) else None
    return {"header": header, "claims": claims, "opaque": False, "expired": expired}
