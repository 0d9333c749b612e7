"""Discovers the authorization server of an MCP server, by the metadata of the resource and of the authorization server.

If an MCP server has no metadata, it is treated as a server of 2025-03-26, which is its own authorization server. The
metadata of an authorization server are used only if they name the issuer whose URL they were fetched from (RFC 8414,
section 3.3). Otherwise a server could replace the endpoints of another issuer by its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.auth.client.challenges import Challenge
from dragoman.auth.client.stored_records import AuthorizationServer
from dragoman.auth.fetcher import OK, Fetcher, text_list_member, text_member
from dragoman.auth.urls import (
    authorization_server_metadata_urls,
    covers,
    protected_resource_metadata_urls,
    require_reachable,
    resource_indicator,
)
from dragoman.errors import AuthError, InsecureUrl
from dragoman.protocol.urls import origin_of, redacted

SERVER_ERROR = 500
_logger = logging.getLogger("dragoman.auth")


class _MetadataUnavailableError(AuthError):
    """Metadata cannot be fetched now, but may exist."""


async def discover(
    fetch: Fetcher,
    server: str,
    challenge: Challenge | None,
    known: AuthorizationServer | None = None,
    allowed_issuer: str | None = None,
) -> AuthorizationServer:
    """Return the authorization server of an MCP server; `challenge` is the one in the server's 401 or 403 response.

    If metadata cannot be fetched, `known`, the result of an earlier discovery, is returned. `allowed_issuer` is the
    only issuer that the author allows; no request is sent to another issuer.

    Raises:
        AuthError: the metadata is contradictory, names URLs that are not safe, or cannot be fetched.
    """
    try:
        resource_metadata = await _protected_resource_metadata(fetch, server, challenge)
    except _MetadataUnavailableError:
        if known is not None:
            return _reused(fetch, known)
        resource_metadata = None
    if resource_metadata is None:
        return await _discover_2025_03_26(fetch, server, allowed_issuer)
    resource = text_member(resource_metadata, "resource") or resource_indicator(server)
    if not covers(resource, server):
        raise AuthError(
            f"The metadata of {redacted(server)} are for another resource, {redacted(resource)}; they are not used"
        )
    issuers = resource_metadata.get("authorization_servers")
    if not isinstance(issuers, list) or not issuers or not all(isinstance(one, str) and one for one in issuers):
        raise AuthError(f"The metadata of {redacted(server)} name no authorization server")
    issuer: str = allowed_issuer if allowed_issuer is not None and allowed_issuer in issuers else issuers[0]
    require_allowed_issuer(allowed_issuer, issuer, server)
    if allowed_issuer is not None:
        # The author trusts this issuer, even in a private network.
        fetch.in_private_network = True
    require_reachable(issuer, "The authorization server", server, in_private_network=fetch.in_private_network)
    try:
        metadata = await _first_document(fetch, authorization_server_metadata_urls(issuer))
    except _MetadataUnavailableError as error:
        if known is not None and known.issuer == issuer:
            return _reused(fetch, known)
        raise AuthError(f"The metadata of {redacted(issuer)} are not available: {error}") from None
    if metadata is None:
        raise AuthError(f"The authorization server {redacted(issuer)} publishes no metadata")
    _require_issuer(metadata, issuer)
    found = _authorization_server(fetch, metadata, resource, server)
    found.resource_scopes = text_list_member(resource_metadata, "scopes_supported")
    return found


def require_allowed_issuer(allowed_issuer: str | None, issuer: str, server: str) -> None:
    """Check the issuer that a server names.

    Raises:
        AuthError: the author allows only another issuer.
    """
    if allowed_issuer not in (None, issuer):
        raise AuthError(
            f"{redacted(server)} wants tokens of {redacted(issuer)}, and issuer= allows"
            f" {redacted(allowed_issuer or '')} alone. If the server has moved there, change issuer="
        )


def _reused(fetch: Fetcher, known: AuthorizationServer) -> AuthorizationServer:
    fetch.in_private_network = fetch.in_private_network or known.in_private_network
    return known


def _require_issuer(metadata: Mapping[str, Any], *issuers: str) -> None:
    # MUST (2026-07-28): the issuer equals the one whose URL the metadata was fetched from; else it is not used.
    if metadata.get("issuer") not in issuers:
        raise AuthError(
            f"The metadata of {redacted(issuers[0])} are of another issuer; they are not used. Its operator must make"
            f" them name {redacted(issuers[0])}"
        )


async def _protected_resource_metadata(
    fetch: Fetcher, server: str, challenge: Challenge | None
) -> dict[str, Any] | None:
    urls = protected_resource_metadata_urls(server)
    named = None if challenge is None else challenge.resource_metadata
    if named is not None:
        if _has_same_origin(named, server):
            urls.insert(0, named)
        else:
            _logger.warning(
                "%s names metadata of another origin, %s, which are not read", redacted(server), redacted(named)
            )
    return await _first_document(fetch, urls, lambda body: "resource" in body or "authorization_servers" in body)


def _has_same_origin(url: str, server: str) -> bool:
    try:
        return origin_of(url) == origin_of(server)
    except InsecureUrl:
        return False


async def _first_document(
    fetch: Fetcher, urls: list[str], fits: Callable[[Mapping[str, Any]], bool] = bool
) -> dict[str, Any] | None:
    """Return the first document that exists and fits; None if there is none.

    Raises:
        _MetadataUnavailableError: no document is found, and a URL could not be fetched.
    """
    failure: str | None = None
    for url in dict.fromkeys(urls):
        try:
            reply = await fetch.get(url)
        except InsecureUrl:
            raise
        except AuthError as error:
            failure = str(error)
            continue
        if reply.status == OK and reply.body is not None and fits(reply.body):
            return reply.body
        if reply.status >= SERVER_ERROR:
            failure = f"{redacted(url)} answered with status {reply.status}"
    if failure is not None:
        raise _MetadataUnavailableError(failure)
    return None


async def _discover_2025_03_26(fetch: Fetcher, server: str, allowed_issuer: str | None) -> AuthorizationServer:
    origin, resource = origin_of(server), resource_indicator(server)
    try:
        metadata = await _first_document(
            fetch, authorization_server_metadata_urls(origin), lambda body: bool(text_member(body, "token_endpoint"))
        )
    except _MetadataUnavailableError as error:
        raise AuthError(f"The authorization server of {redacted(server)} cannot be found: {error}") from None
    if metadata is not None:
        # The metadata URL of the origin is the same with and without a slash at its end.
        _require_issuer(metadata, origin, f"{origin}/")
        found = _authorization_server(fetch, metadata, resource, server)
    else:
        found = AuthorizationServer(
            issuer=origin,
            resource=resource,
            token_endpoint=f"{origin}/token",
            authorization_endpoint=f"{origin}/authorize",
            registration_endpoint=f"{origin}/register",
            is_guessed=True,
            in_private_network=fetch.in_private_network,
            has_pkce=True,
        )
    found.is_assumed = True
    require_allowed_issuer(allowed_issuer, found.issuer, server)
    return found


def _authorization_server(
    fetch: Fetcher, metadata: Mapping[str, Any], resource: str, server: str
) -> AuthorizationServer:
    issuer: str = metadata["issuer"]
    inside = fetch.in_private_network

    def endpoint(name: str) -> str | None:
        url = text_member(metadata, name)
        what = f"The {name} of {redacted(issuer)}"
        return url and require_reachable(url, what, server, in_private_network=inside)

    token_endpoint = endpoint("token_endpoint")
    if token_endpoint is None:
        raise AuthError(f"The metadata of {redacted(issuer)} have no token_endpoint")
    return AuthorizationServer(
        issuer=issuer,
        resource=resource,
        token_endpoint=token_endpoint,
        authorization_endpoint=endpoint("authorization_endpoint"),
        registration_endpoint=endpoint("registration_endpoint"),
        scopes_supported=text_list_member(metadata, "scopes_supported"),
        auth_methods=text_list_member(metadata, "token_endpoint_auth_methods_supported"),
        dpop_algorithms=text_list_member(metadata, "dpop_signing_alg_values_supported"),
        takes_metadata_documents=metadata.get("client_id_metadata_document_supported") is True,
        sends_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
        has_pkce="S256" in (text_list_member(metadata, "code_challenge_methods_supported") or ()),
        in_private_network=inside,
    )
