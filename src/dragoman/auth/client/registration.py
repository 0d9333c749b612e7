"""Client registration: an id from the author, the URL of a metadata document, or dynamic registration (RFC 7591)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.auth.client.storage import LoginRecords
from dragoman.auth.client.stored_records import AuthorizationServer, ClientInformation
from dragoman.auth.client.token_endpoint import (
    BASIC,
    NONE,
    POST,
    accepted_body,
    joined_scopes,
    with_offline_access,
)
from dragoman.auth.fetcher import Fetcher, text_list_member, text_member
from dragoman.errors import AuthError, TokenRefused
from dragoman.protocol.urls import host_of, is_http_url, is_loopback, redacted

GRANT_TYPES = ("authorization_code", "refresh_token")


class ClientDeclaration(Struct):
    """The options of the author that identify and describe the client."""

    metadata: dict[str, Any]
    client_id: str | None = None
    client_secret: str | None = None
    metadata_url: str | None = None

    @property
    def may_refresh(self) -> bool:
        """Whether the client uses refresh tokens."""
        return "refresh_token" in self.metadata.get("grant_types", GRANT_TYPES)

    def uses_metadata_url(self, authorization_server: AuthorizationServer) -> bool:
        """Tell whether the client's id is the URL of its metadata document."""
        return self.metadata_url is not None and authorization_server.takes_metadata_documents

    def information(self, issuer: str) -> ClientInformation:
        """Return the author's client id and secret as a registration."""
        return ClientInformation(
            client_id=self.client_id,
            client_secret=self.client_secret,
            token_endpoint_auth_method=self.metadata.get("token_endpoint_auth_method"),
            issuer=issuer,
        )

    def __repr__(self) -> str:
        return "ClientDeclaration(...)"


async def registered_client(
    fetch: Fetcher,
    authorization_server: AuthorizationServer,
    records: LoginRecords,
    declaration: ClientDeclaration,
    redirect_uri: str,
    scope: str | None,
    *,
    dpop: bool = False,
    is_refused: bool = False,
) -> ClientInformation:
    """Return the client's registration at an authorization server, and store it.

    A client that registered itself for fewer scopes is registered anew. The stored tokens need the old registration, so
    the new one is not stored: the caller does that after the login.

    Raises:
        AuthError: the authorization server supports no kind of registration, or refuses.
    """
    stored = await records.client() or ClientInformation()
    issuer = authorization_server.issuer
    if declaration.client_id is not None:
        await bind_to_issuer(issuer, records, declaration.client_id)
        return declaration.information(issuer)
    is_known = stored.is_usable and _fits(stored, issuer, redirect_uri)
    is_too_narrow = is_known and stored.is_dynamic and (is_refused or _lacks(stored, declaration, scope))
    if is_known and not is_too_narrow:
        if stored.issuer is None:
            stored.issuer = issuer
            await records.save_client(stored)
        return stored
    if declaration.uses_metadata_url(authorization_server):
        # This id is the same at every issuer, so the registration is not stored.
        return ClientInformation(client_id=declaration.metadata_url, issuer=issuer, token_endpoint_auth_method=NONE)
    if authorization_server.registration_endpoint is None:
        raise AuthError(
            f"{redacted(issuer)} registers no clients by itself; give client_id= (and client_secret=) from it"
        )
    register = partial(_register, fetch, authorization_server, declaration, redirect_uri, dpop=dpop)
    registered = await _register_widely(register, authorization_server, scope, may_refresh=declaration.may_refresh)
    if not is_too_narrow:
        registered.pending = stored.pending
        await records.save_client(registered)
    return registered


async def bind_to_issuer(issuer: str, records: LoginRecords, client_id: str | None) -> None:
    """Store that the author's credentials belong to an issuer."""
    stored = await records.client()
    if stored is None or stored.issuer != issuer:
        pending = {} if stored is None else stored.pending
        await records.save_client(ClientInformation(client_id=client_id, issuer=issuer, pending=pending))


def _fits(stored: ClientInformation, issuer: str, redirect_uri: str) -> bool:
    if stored.issuer not in (None, issuer):
        return False
    return not stored.is_dynamic or stored.redirect_uris is None or redirect_uri in stored.redirect_uris


def _lacks(stored: ClientInformation, declaration: ClientDeclaration, scope: str | None) -> bool:
    """Tell whether a registration is known not to have scopes that a login needs, and another one may have them."""
    if stored.scope is None or scope is None or "scope" in declaration.metadata:
        return False
    return not set(scope.split()) <= set(stored.scope.split())


async def _register_widely(
    register: Callable[[str | None], Awaitable[ClientInformation]],
    authorization_server: AuthorizationServer,
    scope: str | None,
    *,
    may_refresh: bool,
) -> ClientInformation:
    """Register the client for all known scopes, because many authorization servers grant a client no others later.

    A login that names no scope registers none: the authorization server might grant all of them.
    """
    if scope is None:
        return await register(None)
    known = [*(authorization_server.scopes_supported or ()), *(authorization_server.resource_scopes or ())]
    wide = with_offline_access(joined_scopes([*scope.split(), *known]), authorization_server, may_refresh=may_refresh)
    if wide is None or set(wide.split()) == set(scope.split()):
        return await register(scope)
    try:
        return await register(wide)
    except TokenRefused:
        return await register(scope)


async def _register(
    fetch: Fetcher,
    authorization_server: AuthorizationServer,
    declaration: ClientDeclaration,
    redirect_uri: str,
    scope: str | None,
    *,
    dpop: bool,
) -> ClientInformation:
    endpoint = authorization_server.registration_endpoint
    assert endpoint is not None
    supported = authorization_server.auth_methods or ()
    request: dict[str, Any] = {
        "client_name": "Dragoman",
        "redirect_uris": [redirect_uri],
        "grant_types": list(GRANT_TYPES),
        "response_types": ["code"],
        "token_endpoint_auth_method": next((one for one in (NONE, BASIC, POST) if one in supported), NONE),
        **({} if scope is None else {"scope": scope}),
        **({"dpop_bound_access_tokens": True} if dpop else {}),
        **declaration.metadata,
    }
    request.setdefault("application_type", application_type(request["redirect_uris"]))
    fetch.secrets.add(text_member(request, "software_statement"))
    body = accepted_body(await fetch.post_json(endpoint, request), endpoint, fetch.secrets)
    secret, client_id = text_member(body, "client_secret"), text_member(body, "client_id")
    fetch.secrets.add(secret)
    if client_id is None:
        raise AuthError(f"{redacted(endpoint)} registered the client without an id")
    expires = body.get("client_secret_expires_at")
    return ClientInformation(
        client_id=client_id,
        client_secret=secret,
        client_secret_expires_at=expires if isinstance(expires, int | float) else None,
        token_endpoint_auth_method=text_member(body, "token_endpoint_auth_method"),
        redirect_uris=text_list_member(body, "redirect_uris") or list(request["redirect_uris"]),
        issuer=authorization_server.issuer,
        scope=text_member(body, "scope") or text_member(request, "scope"),
        is_dynamic=True,
    )


def application_type(redirect_uris: list[str]) -> str:
    """Return `native` if every redirect URI leads to the user's machine, else `web`."""
    return "native" if all(not is_http_url(uri) or is_loopback(host_of(uri)) for uri in redirect_uris) else "web"


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return a copy of client metadata that can be sent as JSON.

    Raises:
        ValueError: the metadata cannot be encoded as JSON.
        TypeError: the metadata is not a mapping.
    """
    try:
        copied = msgspec.json.decode(msgspec.json.encode({} if metadata is None else metadata))
    except (TypeError, ValueError) as error:
        raise ValueError(f"client_metadata must be valid JSON: {error}") from None
    if not isinstance(copied, dict):
        raise TypeError("client_metadata must be a mapping, as in RFC 7591")
    return copied
