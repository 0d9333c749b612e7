"""Token requests: how a client says who it is, what it sends, and what it makes of the answer."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dragoman.auth.client.challenges import USE_NONCE, values
from dragoman.auth.client.signing import AssertionSigner, ProofKey
from dragoman.auth.client.stored_records import Authority, ClientInformation, Tokens
from dragoman.auth.fetcher import CREATED, OK, FetchedReply, Fetcher, client_authorization, text
from dragoman.auth.redaction import Secrets
from dragoman.errors import TokenRefused
from dragoman.protocol.urls import redacted

BASIC, POST, NONE, SIGNED = "client_secret_basic", "client_secret_post", "none", "private_key_jwt"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
UNREADABLE = "unreadable"
_VISIBLE = re.compile(r"[\x21-\x7e]+")


class Credential(Struct):
    """Who asks: nobody in particular when there is no client id."""

    client_id: str | None = None
    secret: str | None = None
    method: str = NONE
    signer: AssertionSigner | None = None

    def __repr__(self) -> str:
        return f"Credential(client_id={self.client_id!r}, method={self.method!r})"


def credential(client: ClientInformation, authority: Authority) -> Credential:
    """Return how a registered client says who it is: as it was registered, else as the server takes it."""
    secret = client.client_secret if client.client_secret and client.client_secret.strip() else None
    method = client.token_endpoint_auth_method
    if method not in (BASIC, POST, NONE):
        taken = authority.auth_methods
        method = BASIC if taken is None else next((one for one in (BASIC, POST, NONE) if one in taken), BASIC)
    return Credential(client.client_id, secret, NONE if secret is None else method)


async def request_tokens(
    fetch: Fetcher,
    authority: Authority,
    form: Mapping[str, str | None],
    who: Credential,
    key: ProofKey | None = None,
    *,
    known: Tokens | None = None,
) -> Tokens:
    """Ask for tokens for a resource; `known` are those that are being renewed.

    Raises:
        TokenRefused: the server says no.
        AuthError: it cannot be asked, or its answer makes no sense.
    """
    sent = {name: value for name, value in form.items() if value is not None}
    reply = await _ask(fetch, {**sent, "resource": authority.resource}, who, key, authority)
    body = accepted(reply, authority.token_endpoint, fetch.secrets)
    tokens = _tokens(body, authority, sent.get("scope"), known, key)
    fetch.secrets.add(tokens.access_token, tokens.refresh_token)
    return tokens


async def _ask(
    fetch: Fetcher, form: dict[str, str], who: Credential, key: ProofKey | None, authority: Authority
) -> FetchedReply:
    """Return what the token endpoint answers."""
    url = authority.token_endpoint
    fetch.secrets.add(who.secret)
    for _ in range(2):
        fields, headers = identified(form, who, authority.issuer)
        if key is not None:
            headers["DPoP"] = key.proof("POST", url)
        reply = await fetch.post_form(url, fields, headers)
        if key is None or not key.remember_nonce(url, next(iter(values(reply.headers, "dpop-nonce")), None)):
            break
        if reply.status == OK or (reply.body or {}).get("error") != USE_NONCE:
            break
    return reply


def identified(form: Mapping[str, str], who: Credential, audience: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return a form and headers that say who sends them."""
    fields, headers = dict(form), {}
    if who.method == SIGNED and who.signer is not None:
        fields |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": who.signer.sign(audience)}
    elif who.client_id is not None:
        # Also beside a header: there are servers that look for the client here first.
        fields["client_id"] = who.client_id
    if who.method == BASIC and who.secret is not None:
        headers["Authorization"] = client_authorization(who.client_id or "", who.secret)
    elif who.method == POST and who.secret is not None:
        fields["client_secret"] = who.secret
    return fields, headers


def accepted(reply: FetchedReply, url: str, secrets: Secrets) -> dict[str, Any]:
    """Return the body of an answer that grants what was asked.

    Raises:
        TokenRefused: it does not.
    """
    body = reply.body
    if reply.status in (OK, CREATED) and body is not None and "error" not in body:
        return body
    error = text(body or {}, "error")
    if error is not None and secrets.are_in(error):
        error = UNREADABLE
    said = f"status {reply.status}" if error is None else secrets.quoted(error)
    description = text(body or {}, "error_description")
    if description is not None:
        said += f": {secrets.quoted(description)}"
    elif body is None:
        said += ", and no JSON object"
    raise TokenRefused(f"{redacted(url)} refuses: {said}", error)


def _tokens(
    body: Mapping[str, Any], authority: Authority, requested: str | None, known: Tokens | None, key: ProofKey | None
) -> Tokens:
    where = redacted(authority.token_endpoint)
    access_token = text(body, "access_token")
    if access_token is None or not _VISIBLE.fullmatch(access_token):
        raise TokenRefused(f"{where} answered without an access token that can be used")
    kind = (text(body, "token_type") or "Bearer").lower()
    if kind not in ("bearer", "dpop") or (kind == "dpop" and key is None):
        raise TokenRefused(f"{where} gave a token of a type that is not known here")
    lifetime = _seconds(body.get("expires_in"))
    asked = known.requested_scope if requested is None and known is not None else requested
    return Tokens(
        access_token=access_token,
        token_type="DPoP" if kind == "dpop" else "Bearer",
        expires_at=None if lifetime is None else time.time() + lifetime,
        lifetime=lifetime,
        refresh_token=text(body, "refresh_token") or (None if known is None else known.refresh_token),
        scope=text(body, "scope") or (asked if known is None else known.scope),
        requested_scope=asked,
        authority=authority,
        dpop_key=None if key is None else key.plain(),
    )


def _seconds(value: Any) -> float | None:
    try:
        found = None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return found if found is not None and 0 <= found < 1e12 else None
