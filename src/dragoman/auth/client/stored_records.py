"""Records that a token storage keeps: authorization server, tokens, client registration, pending logins.

Each record is stored as plain JSON. Stored JSON that does not fit its record counts as absent. `repr` shows no secret.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

MAX_SECONDS_AHEAD = 60.0
R = TypeVar("R", bound="StoredRecord")


class StoredRecord(Struct, kw_only=True, omit_defaults=True):
    """A record, with its conversion from and to JSON."""

    @classmethod
    def from_json(cls: type[R], stored: Mapping[str, Any] | None) -> R | None:
        """Return the record for plain JSON, or None if the JSON does not fit."""
        if stored is None:
            return None
        try:
            return msgspec.convert({str(name): value for name, value in stored.items()}, cls)
        except (msgspec.ValidationError, AttributeError):
            return None

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class AuthorizationServer(StoredRecord):
    """The authorization server of an MCP server: its metadata, and the resource that tokens are for."""

    issuer: str
    resource: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    """The scopes in the metadata of the authorization server."""
    resource_scopes: list[str] | None = None
    """The scopes in the metadata of the protected resource."""
    auth_methods: list[str] | None = None
    dpop_algorithms: list[str] | None = None
    takes_metadata_documents: bool = False
    sends_issuer: bool = False
    is_assumed: bool = False
    """Whether the MCP server names no authorization server, and so is its own, as in 2025-03-26."""
    is_guessed: bool = False
    """Whether there is no metadata at all, so that the endpoints are the defaults of 2025-03-26."""
    in_private_network: bool = field(default=False, name="is_inside")
    """Whether the MCP server itself was reached in a private network."""
    has_pkce: bool = False


class Tokens(StoredRecord):
    """Tokens that an authorization server issued: `expires_at` in seconds since the epoch."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105
    expires_at: float | None = None
    lifetime: float | None = None
    refresh_token: str | None = None
    scope: str | None = None
    requested_scope: str | None = None
    authorization_server: AuthorizationServer | None = field(default=None, name="authority")
    dpop_key: dict[str, Any] | None = None

    @property
    def issuer(self) -> str | None:
        """The issuer of the tokens."""
        return None if self.authorization_server is None else self.authorization_server.issuer

    @property
    def is_dpop(self) -> bool:
        """Whether the access token is bound to a key."""
        return self.token_type == "DPoP"  # noqa: S105

    @property
    def is_expired(self) -> bool:
        """Whether the access token has expired."""
        return self.expires_at is not None and self.expires_at <= time.time()

    @property
    def expires_soon(self) -> bool:
        """Whether to renew now: a fifth of the lifetime before the expiry, at most a minute before it."""
        if self.expires_at is None:
            return False
        ahead = MAX_SECONDS_AHEAD if self.lifetime is None else min(MAX_SECONDS_AHEAD, self.lifetime / 5)
        return self.expires_at - ahead <= time.time()

    @property
    def scopes(self) -> list[str]:
        """The scopes that were requested or granted."""
        return list(dict.fromkeys(f"{self.requested_scope or ''} {self.scope or ''}".split()))


class PendingLogin(StoredRecord):
    """A login that waits for its authorization response."""

    state: str
    verifier: str
    redirect_uri: str
    client_id: str
    server: str
    authorization_server: AuthorizationServer = field(name="authority")
    begun_at: float
    scope: str | None = None
    dpop_key: dict[str, Any] | None = None
    registration: ClientInformation | None = None
    """A registration that replaces the stored one when the login has succeeded; the stored tokens need the old one."""


class ClientInformation(StoredRecord):
    """The registration of the client at an authorization server, and its pending logins by their state."""

    client_id: str | None = None
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None
    redirect_uris: list[str] | None = None
    issuer: str | None = None
    scope: str | None = None
    """The scopes that the client may request; None if that is not known."""
    is_dynamic: bool = False
    pending: dict[str, PendingLogin] = {}

    @property
    def is_usable(self) -> bool:
        """Whether there is an id, and the secret, if any, has not expired."""
        if not self.client_id or not self.client_id.strip():
            return False
        expires = self.client_secret_expires_at
        return not (self.client_secret and expires and expires <= time.time())
