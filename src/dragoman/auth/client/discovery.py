"""Who gives out tokens for a server: its own metadata, then that of its authorization server.

A server that publishes no metadata is taken for one of 2025-03-26, which was its own authorization server. Metadata are
used only if they name the issuer that their address was made from (RFC 8414, section 3.3): a server cannot speak for
another issuer and put its own endpoints in place of that issuer's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.auth.client.challenges import Challenge
from dragoman.auth.client.stored_records import Authority
from dragoman.auth.fetcher import OK, Fetcher, text, texts
from dragoman.auth.urls import (
    authorization_server_urls,
    covers,
    protected_resource_urls,
    require_reachable,
    resource_of,
)
from dragoman.errors import AuthError, InsecureUrl
from dragoman.protocol.urls import origin_of, redacted

SERVER_FAILED = 500
_logger = logging.getLogger("dragoman.auth")


class _OutOfOrderError(AuthError):
    """Metadata may be there, and cannot be had now."""


async def discover(
    fetch: Fetcher,
    server: str,
    challenge: Challenge | None,
    known: Authority | None = None,
    named: str | None = None,
) -> Authority:
    """Return who gives out tokens for a server that answered with a challenge, or that is asked for the first time.

    While the metadata are out of order, what is `known` from before holds. `named` is the only issuer that the author
    allows; nothing is asked of any other.

    Raises:
        AuthError: the metadata contradict each other, lead to unsafe places, or cannot be had.
    """
    try:
        found = await _protected_resource(fetch, server, challenge)
    except _OutOfOrderError:
        if known is not None:
            return _held(fetch, known)
        found = None
    if found is None:
        return await _of_2025_03_26(fetch, server, named)
    resource = text(found, "resource") or resource_of(server)
    if not covers(resource, server):
        raise AuthError(
            f"The metadata of {redacted(server)} are for another resource, {redacted(resource)}; they are not used"
        )
    issuers = found.get("authorization_servers")
    if not isinstance(issuers, list) or not issuers or not all(isinstance(one, str) and one for one in issuers):
        raise AuthError(f"The metadata of {redacted(server)} name no authorization server")
    issuer: str = named if named is not None and named in issuers else issuers[0]
    require_named(named, issuer, server)
    if named is not None:
        # The author vouches for this issuer, wherever it is.
        fetch.is_inside = True
    require_reachable(issuer, "The authorization server", server, is_inside=fetch.is_inside)
    try:
        metadata = await _first(fetch, authorization_server_urls(issuer))
    except _OutOfOrderError as error:
        if known is not None and known.issuer == issuer:
            return _held(fetch, known)
        raise AuthError(f"The metadata of {redacted(issuer)} cannot be had: {error}") from None
    if metadata is None:
        raise AuthError(f"The authorization server {redacted(issuer)} publishes no metadata")
    _require_issuer(metadata, issuer)
    authority = _authority(fetch, metadata, resource, server)
    authority.resource_scopes = texts(found, "scopes_supported")
    return authority


def require_named(named: str | None, issuer: str, server: str) -> None:
    """Check an issuer that a server names.

    Raises:
        AuthError: the author names another one.
    """
    if named not in (None, issuer):
        raise AuthError(
            f"{redacted(server)} wants tokens of {redacted(issuer)}, and issuer= allows {redacted(named or '')} alone."
            " If the server has moved there, change issuer="
        )


def _held(fetch: Fetcher, known: Authority) -> Authority:
    fetch.is_inside = fetch.is_inside or known.is_inside
    return known


def _require_issuer(metadata: Mapping[str, Any], *issuers: str) -> None:
    # MUST (2026-07-28): identical to the issuer that the address was made from, and not used otherwise.
    if metadata.get("issuer") not in issuers:
        raise AuthError(
            f"The metadata of {redacted(issuers[0])} are of another issuer; they are not used. Its operator must make"
            f" them name {redacted(issuers[0])}"
        )


async def _protected_resource(fetch: Fetcher, server: str, challenge: Challenge | None) -> dict[str, Any] | None:
    urls = protected_resource_urls(server)
    named = None if challenge is None else challenge.resource_metadata
    if named is not None:
        if _is_at_home(named, server):
            urls.insert(0, named)
        else:
            _logger.warning(
                "%s names metadata of another origin, %s, which are not read", redacted(server), redacted(named)
            )
    return await _first(fetch, urls, lambda body: "resource" in body or "authorization_servers" in body)


def _is_at_home(url: str, server: str) -> bool:
    try:
        return origin_of(url) == origin_of(server)
    except InsecureUrl:
        return False


async def _first(
    fetch: Fetcher, urls: list[str], fits: Callable[[Mapping[str, Any]], bool] = bool
) -> dict[str, Any] | None:
    """Return the first document that is there."""
    trouble: str | None = None
    for url in dict.fromkeys(urls):
        try:
            reply = await fetch.get(url)
        except InsecureUrl:
            raise
        except AuthError as error:
            trouble = str(error)
            continue
        if reply.status == OK and reply.body is not None and fits(reply.body):
            return reply.body
        if reply.status >= SERVER_FAILED:
            trouble = f"{redacted(url)} answered with status {reply.status}"
    if trouble is not None:
        raise _OutOfOrderError(trouble)
    return None


async def _of_2025_03_26(fetch: Fetcher, server: str, named: str | None) -> Authority:
    home = origin_of(server)
    try:
        metadata = await _first(fetch, authorization_server_urls(home), lambda body: bool(text(body, "token_endpoint")))
    except _OutOfOrderError as error:
        raise AuthError(f"Who gives out tokens for {redacted(server)} cannot be found out: {error}") from None
    if metadata is not None:
        # Either spelling of the origin leads to the address that was asked.
        _require_issuer(metadata, home, f"{home}/")
        authority = _authority(fetch, metadata, resource_of(server), server)
        authority.is_assumed = True
        require_named(named, authority.issuer, server)
        return authority
    require_named(named, home, server)
    return Authority(
        issuer=home,
        resource=resource_of(server),
        token_endpoint=f"{home}/token",
        authorization_endpoint=f"{home}/authorize",
        registration_endpoint=f"{home}/register",
        is_assumed=True,
        is_guessed=True,
        is_inside=fetch.is_inside,
        has_pkce=True,
    )


def _authority(fetch: Fetcher, metadata: Mapping[str, Any], resource: str, server: str) -> Authority:
    issuer: str = metadata["issuer"]

    def endpoint(name: str) -> str | None:
        found = text(metadata, name)
        if found is None:
            return None
        return require_reachable(found, f"The {name} of {redacted(issuer)}", server, is_inside=fetch.is_inside)

    token_endpoint = endpoint("token_endpoint")
    if token_endpoint is None:
        raise AuthError(f"The metadata of {redacted(issuer)} have no token_endpoint")
    return Authority(
        issuer=issuer,
        resource=resource,
        token_endpoint=token_endpoint,
        authorization_endpoint=endpoint("authorization_endpoint"),
        registration_endpoint=endpoint("registration_endpoint"),
        scopes_supported=texts(metadata, "scopes_supported"),
        auth_methods=texts(metadata, "token_endpoint_auth_methods_supported"),
        dpop_algorithms=texts(metadata, "dpop_signing_alg_values_supported"),
        takes_metadata_documents=metadata.get("client_id_metadata_document_supported") is True,
        sends_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
        has_pkce="S256" in (texts(metadata, "code_challenge_methods_supported") or ()),
        is_inside=fetch.is_inside,
    )
