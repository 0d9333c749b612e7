"""The logins of the command and of the inspector: one storage, so that a login of either serves both."""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

from dragoman.errors import AuthError

if TYPE_CHECKING:
    from dragoman.auth.client.oauth import OAuth
    from dragoman.auth.client.stored_records import Tokens

SHOWN_CHARACTERS = 6
PARTS_OF_A_TOKEN = 3


def program_oauth(**options: Any) -> OAuth:
    """Return the `OAuth` of this program; DRAGOMAN_CLIENT_ID and DRAGOMAN_CLIENT_SECRET are its id and secret."""
    from dragoman.auth.client.oauth import OAuth

    own: dict[str, Any] = {
        "client_id": os.environ.get("DRAGOMAN_CLIENT_ID"),
        "client_secret": os.environ.get("DRAGOMAN_CLIENT_SECRET"),
        "client_metadata": {"client_name": "dragoman"},
    }
    return OAuth(**{**own, **options})


async def stored_tokens(oauth: OAuth, url: str) -> Tokens | None:
    """Return the stored tokens for a server; None if there are none, or the storage cannot be read."""
    try:
        return await oauth.bind(url).tokens()
    except AuthError:
        return None


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
