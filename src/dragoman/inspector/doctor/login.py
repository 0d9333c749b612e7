"""The examination of a server that requires credentials: the steps from its challenge to a login.

Each finding has the rule that the step follows, and the requests that were sent for it.
"""

from __future__ import annotations

from dragoman.auth.client.challenges import Challenge, usable_challenge
from dragoman.auth.client.discovery import discover
from dragoman.auth.fetcher import OK, FetchedExchange, Fetcher, exchange_observer
from dragoman.auth.urls import authorization_server_metadata_urls, protected_resource_metadata_urls
from dragoman.errors import AuthError, AuthRequired
from dragoman.inspector.doctor.findings import Findings, ShownExchange
from dragoman.protocol.urls import origin_of, redacted

CHALLENGE = "RFC 9728, section 5.1: WWW-Authenticate names the metadata of the resource"
RESOURCE = "RFC 9728, section 3: metadata of the protected resource"
ISSUER = "RFC 8414, section 3, or OpenID Connect Discovery 1.0: metadata of the authorization server"
PKCE = "OAuth 2.1, section 7.5.2: clients refuse an authorization server without S256"
REGISTRATION = "RFC 7591, or a client id metadata document"


async def examine_login(url: str, refused: AuthRequired, findings: Findings) -> None:
    """Add a finding for each step from a server's challenge to a login."""
    exchanges: list[FetchedExchange] = []
    before = exchange_observer.set(exchanges.append)
    try:
        await _examine(url, refused, findings, exchanges)
    finally:
        exchange_observer.reset(before)


def _taken(exchanges: list[FetchedExchange]) -> list[ShownExchange]:
    """Return the exchanges since the last finding."""
    taken = [ShownExchange.of(exchange) for exchange in exchanges]
    exchanges.clear()
    return taken


async def _examine(url: str, refused: AuthRequired, findings: Findings, exchanges: list[FetchedExchange]) -> None:
    challenge = usable_challenge({"www-authenticate": refused.challenge or ""})
    if challenge is None:
        findings.failed(
            "challenge",
            f"it answers {refused.status} without a Bearer challenge",
            "the server should send WWW-Authenticate: Bearer resource_metadata=...; or it wants another --header",
            rule=CHALLENGE,
        )
    else:
        named = " that names its metadata" if challenge.resource_metadata else ""
        findings.passed("challenge", f"it answers {refused.status} with a Bearer challenge{named}", rule=CHALLENGE)
    try:
        async with Fetcher(server=url) as fetch:
            await _examine_resource_metadata(fetch, url, challenge, findings, exchanges)
            can_log_in = await _examine_authorization_server(fetch, url, challenge, findings, exchanges)
    except AuthError as error:
        steps = _taken(exchanges)
        findings.failed(
            "authorization server", str(error), "the server's operator has to mend this", rule=ISSUER, exchanges=steps
        )
        return
    if can_log_in:
        findings.failed("login", "there is no login that it accepts", f"dragoman auth login {url}")


async def _examine_resource_metadata(
    fetch: Fetcher, url: str, challenge: Challenge | None, findings: Findings, exchanges: list[FetchedExchange]
) -> None:
    named = None if challenge is None else challenge.resource_metadata
    urls = [*([named] if named else []), *protected_resource_metadata_urls(url)]
    place, failures = await _first_document(fetch, urls)
    if place is None:
        findings.failed(
            "resource metadata",
            f"it publishes none (RFC 9728): {failures}",
            f"the server's operator can publish it at {protected_resource_metadata_urls(url)[0]}",
            rule=RESOURCE,
            exchanges=_taken(exchanges),
        )
    else:
        findings.passed("resource metadata", place, rule=RESOURCE, exchanges=_taken(exchanges))


async def _first_document(fetch: Fetcher, urls: list[str]) -> tuple[str | None, str]:
    """Return the first URL with a document, and the failures of the URLs before it."""
    answers: list[str] = []
    for url in dict.fromkeys(urls):
        try:
            reply = await fetch.get(url)
        except AuthError as error:
            answers.append(str(error))
            continue
        if reply.status == OK and reply.body is not None:
            return url, ", ".join(answers)
        what = "no JSON object" if reply.status == OK else f"status {reply.status}"
        answers.append(f"{redacted(url)} answered with {what}")
    return None, ", ".join(answers)


async def _examine_authorization_server(
    fetch: Fetcher, url: str, challenge: Challenge | None, findings: Findings, exchanges: list[FetchedExchange]
) -> bool:
    """Add the findings about the authorization server, and tell whether metadata names one."""
    authority = await discover(fetch, url, challenge)
    if authority.is_guessed:
        _, failures = await _first_document(fetch, authorization_server_metadata_urls(origin_of(url)))
        findings.failed(
            "authorization server",
            f"nobody says who gives out tokens for it: {failures}",
            "give a token with --token or a key with --header. If it is a server of 2025-03-26 that logs people in at"
            f" {redacted(authority.authorization_endpoint or '')}: dragoman auth login {url}",
            rule=ISSUER,
            exchanges=_taken(exchanges),
        )
        return False
    place, _ = await _first_document(fetch, authorization_server_metadata_urls(authority.issuer))
    findings.passed("authorization server", authority.issuer, rule=ISSUER, exchanges=_taken(exchanges))
    if place is not None:
        findings.passed("authorization server metadata", place)
    if authority.has_pkce:
        findings.passed("PKCE", "S256", rule=PKCE)
    else:
        what = "the authorization server does not say that it knows S256"
        findings.failed("PKCE", what, "its operator can add it", rule=PKCE)
    if authority.registration_endpoint or authority.takes_metadata_documents:
        findings.passed("registration", "clients may register themselves", rule=REGISTRATION)
    else:
        findings.failed(
            "registration",
            "clients may not register themselves",
            "register one by hand, and set DRAGOMAN_CLIENT_ID (and DRAGOMAN_CLIENT_SECRET)",
            rule=REGISTRATION,
        )
    return True
