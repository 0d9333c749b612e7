"""Why a server that answers 401 lets nobody in: the steps to a login, looked at one by one."""

from __future__ import annotations

from typing import Any

from dragoman.auth.addresses import authorization_server_urls, protected_resource_urls
from dragoman.auth.challenges import Challenge, asked
from dragoman.auth.discovery import discover
from dragoman.auth.fetching import OK, Fetcher
from dragoman.cli.findings import Findings
from dragoman.errors import AuthError, AuthRequired


async def examine_login(url: str, refused: AuthRequired, findings: Findings) -> None:
    """Note each step from the refusal of a server to a login."""
    challenge = asked({"www-authenticate": refused.challenge or ""})
    if challenge is None:
        findings.wrong(
            "challenge",
            f"it answers {refused.status} without a Bearer challenge",
            "the server should send WWW-Authenticate: Bearer resource_metadata=...; or it wants another --header",
        )
    else:
        findings.well("challenge", f"it answers {refused.status} and names how to get in")
    try:
        async with Fetcher(server=url) as fetch:
            await _metadata(fetch, url, challenge, findings)
            await _authority(fetch, url, challenge, findings)
    except AuthError as error:
        findings.wrong("authorization server", str(error), "the server's operator has to mend this")
        return
    findings.wrong("login", "nobody has logged in", f"dragoman auth login {url}")


async def _metadata(fetch: Fetcher, url: str, challenge: Challenge | None, findings: Findings) -> None:
    named = None if challenge is None else challenge.resource_metadata
    urls = [*([named] if named else []), *protected_resource_urls(url)]
    found = await _first(fetch, urls)
    if found is None:
        findings.wrong(
            "resource metadata",
            "it publishes none (RFC 9728), and is taken for a server of 2025-03-26",
            f"publish it at {protected_resource_urls(url)[0]}",
        )
        return
    place, body = found
    findings.well("resource metadata", place)
    issuers = body.get("authorization_servers")
    issuer = issuers[0] if isinstance(issuers, list) and issuers and isinstance(issuers[0], str) else None
    if issuer is not None:
        found = await _first(fetch, authorization_server_urls(issuer))
        if found is not None:
            findings.well("authorization server metadata", found[0])


async def _first(fetch: Fetcher, urls: list[str]) -> tuple[str, dict[str, Any]] | None:
    for url in dict.fromkeys(urls):
        try:
            reply = await fetch.get(url)
        except AuthError:
            continue
        if reply.status == OK and reply.body is not None:
            return url, reply.body
    return None


async def _authority(fetch: Fetcher, url: str, challenge: Challenge | None, findings: Findings) -> None:
    authority = await discover(fetch, url, challenge)
    findings.well("authorization server", authority.issuer)
    if authority.has_pkce:
        findings.well("PKCE", "S256")
    else:
        findings.wrong("PKCE", "the authorization server does not say that it knows S256", "its operator can add it")
    if authority.registration_endpoint or authority.takes_metadata_documents:
        findings.well("registration", "clients may register themselves")
    else:
        findings.wrong(
            "registration",
            "clients may not register themselves",
            "register one by hand, and set DRAGOMAN_CLIENT_ID (and DRAGOMAN_CLIENT_SECRET)",
        )
