"""What is kept of an authorization: who gives out tokens, the tokens, the client's registration, a login under way.

Each record becomes plain JSON and comes back from it; what a storage holds that does not fit counts as nothing. None
shows a secret when it is printed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

MOST_AHEAD = 60.0
R = TypeVar("R", bound="StoredRecord")


class StoredRecord(Struct, kw_only=True, omit_defaults=True):
    """Something that is kept."""

    @classmethod
    def of(cls: type[R], kept: Mapping[str, Any] | None) -> R | None:
        """Return the record that plain JSON stands for, or None."""
        if kept is None:
            return None
        try:
            return msgspec.convert({str(name): value for name, value in kept.items()}, cls)
        except (msgspec.ValidationError, AttributeError):
            return None

    def plain(self) -> dict[str, Any]:
        """Return the record as plain JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Authority(StoredRecord):
    """Who gives out tokens for a server: what its authorization server's metadata says, and for which resource."""

    issuer: str
    resource: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    """Those of the authorization server."""
    resource_scopes: list[str] | None = None
    """Those of the protected resource."""
    auth_methods: list[str] | None = None
    dpop_algorithms: list[str] | None = None
    takes_metadata_documents: bool = False
    sends_issuer: bool = False
    is_assumed: bool = False
    """Whether the server names no authorization server and is taken for its own, as in 2025-03-26."""
    is_guessed: bool = False
    """Whether no metadata were found at all, so that the endpoints are the default ones of 2025-03-26."""
    is_inside: bool = False
    """Whether the server itself was reached inside a private network."""
    has_pkce: bool = False


class Tokens(StoredRecord):
    """What an authorization server gave: `expires_at` in seconds since the epoch."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105
    expires_at: float | None = None
    lifetime: float | None = None
    refresh_token: str | None = None
    scope: str | None = None
    requested_scope: str | None = None
    authority: Authority | None = None
    dpop_key: dict[str, Any] | None = None

    @property
    def issuer(self) -> str | None:
        """Who gave them."""
        return None if self.authority is None else self.authority.issuer

    @property
    def is_expired(self) -> bool:
        """Whether the access token is of no use any more."""
        return self.expires_at is not None and self.expires_at <= time.time()

    @property
    def expires_soon(self) -> bool:
        """Whether it is time to renew: a fifth of the lifetime ahead, a minute at most."""
        if self.expires_at is None:
            return False
        ahead = MOST_AHEAD if self.lifetime is None else min(MOST_AHEAD, self.lifetime / 5)
        return self.expires_at - ahead <= time.time()

    @property
    def scopes(self) -> list[str]:
        """What was asked for and what was granted."""
        return list(dict.fromkeys(f"{self.requested_scope or ''} {self.scope or ''}".split()))


class Pending(StoredRecord):
    """A login that waits for its answer."""

    state: str
    verifier: str
    redirect_uri: str
    client_id: str
    server: str
    authority: Authority
    begun_at: float
    scope: str | None = None
    dpop_key: dict[str, Any] | None = None


class ClientInformation(StoredRecord):
    """What an authorization server knows the client by."""

    client_id: str | None = None
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None
    redirect_uris: list[str] | None = None
    issuer: str | None = None
    is_dynamic: bool = False
    pending: dict[str, Pending] = {}

    @property
    def is_usable(self) -> bool:
        """Whether there is an id, and a secret that has not expired if there was one."""
        if not self.client_id or not self.client_id.strip():
            return False
        expires = self.client_secret_expires_at
        return not (self.client_secret and expires and expires <= time.time())
