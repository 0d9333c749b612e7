"""Token requests: the client's authentication, the scopes, and the tokens or the refusal in the answer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.auth.client.authorization_response import UNREADABLE
from dragoman.auth.client.challenges import USE_DPOP_NONCE, Challenge, header_values
from dragoman.auth.client.signing import AssertionSigner, ProofKey
from dragoman.auth.client.stored_records import AuthorizationServer, ClientInformation, Tokens
from dragoman.auth.fetcher import CREATED, OK, FetchedReply, Fetcher, basic_client_authorization, text_member
from dragoman.auth.redaction import Secrets
from dragoman.errors import TokenRefused
from dragoman.protocol.urls import redacted

BASIC, POST, NONE = "client_secret_basic", "client_secret_post", "none"
PRIVATE_KEY_JWT = "private_key_jwt"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
OFFLINE_ACCESS = "offline_access"
_VISIBLE = re.compile(r"[\x21-\x7e]+")


def chosen_scope(challenge: Challenge | None, authorization_server: AuthorizationServer, own: str | None) -> str | None:
    """Return the scope to request: of the challenge, else of the resource's metadata, else of the author."""
    if challenge is not None and challenge.scope:
        return challenge.scope
    return joined_scopes(authorization_server.resource_scopes or ()) or joined_scopes((own or "").split())


def joined_scopes(scopes: Iterable[str]) -> str | None:
    """Return scopes as one text, each once, in order; None for none."""
    return " ".join(dict.fromkeys(scopes)) or None


def with_offline_access(
    scope: str | None, authorization_server: AuthorizationServer, *, may_refresh: bool
) -> str | None:
    """Return a scope with `offline_access` if the authorization server and the client support it, else without."""
    scopes = [one for one in (scope or "").split() if one != OFFLINE_ACCESS]
    is_supported = OFFLINE_ACCESS in (authorization_server.scopes_supported or ())
    # Without a scope the server grants its default scopes; `offline_access` alone would replace them.
    if may_refresh and is_supported and (scopes or scope):
        scopes.append(OFFLINE_ACCESS)
    return joined_scopes(scopes)


class Credential(Struct):
    """How a client authenticates; without a client id and a signer it does not."""

    client_id: str | None = None
    secret: str | None = None
    method: str = NONE
    signer: AssertionSigner | None = None

    def __repr__(self) -> str:
        return f"Credential(client_id={self.client_id!r}, method={self.method!r})"


def client_credential(client: ClientInformation, authorization_server: AuthorizationServer) -> Credential:
    """Return how a registered client authenticates: by its registered method, else by one that the server supports."""
    secret = client.client_secret if client.client_secret and client.client_secret.strip() else None
    method = client.token_endpoint_auth_method
    if method not in (BASIC, POST, NONE):
        supported = authorization_server.auth_methods or (BASIC,)
        method = next((one for one in (BASIC, POST, NONE) if one in supported), BASIC)
    return Credential(client.client_id, secret, NONE if secret is None else method)


async def request_tokens(
    fetch: Fetcher,
    authorization_server: AuthorizationServer,
    form: Mapping[str, str | None],
    credential: Credential,
    key: ProofKey | None = None,
    *,
    renewed: Tokens | None = None,
) -> Tokens:
    """Request tokens for a resource; `renewed` are the tokens that are being renewed.

    Raises:
        TokenRefused: the server refuses, or its answer has no usable token.
        AuthError: the server cannot be reached.
    """
    fields = {name: value for name, value in form.items() if value is not None}
    reply = await _post(
        fetch, {**fields, "resource": authorization_server.resource}, credential, key, authorization_server
    )
    body = accepted_body(reply, authorization_server.token_endpoint, fetch.secrets)
    tokens = _tokens(body, authorization_server, fields.get("scope"), renewed, key)
    fetch.secrets.add(tokens.access_token, tokens.refresh_token)
    return tokens


async def _post(
    fetch: Fetcher,
    form: dict[str, str],
    credential: Credential,
    key: ProofKey | None,
    authorization_server: AuthorizationServer,
) -> FetchedReply:
    """Post a form, and once more if the server demands a DPoP nonce."""
    url = authorization_server.token_endpoint
    fetch.secrets.add(credential.secret)
    for _ in range(2):
        fields, headers = authenticated(form, credential, authorization_server.issuer)
        if key is not None:
            headers["DPoP"] = key.proof("POST", url)
        reply = await fetch.post_form(url, fields, headers)
        if key is None or not key.remember_nonce(url, next(iter(header_values(reply.headers, "dpop-nonce")), None)):
            break
        if reply.status == OK or (reply.body or {}).get("error") != USE_DPOP_NONCE:
            break
    return reply


def authenticated(
    form: Mapping[str, str], credential: Credential, audience: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return a form and its headers with the client's authentication."""
    fields, headers = dict(form), {}
    if credential.method == PRIVATE_KEY_JWT and credential.signer is not None:
        fields |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": credential.signer.sign(audience)}
    elif credential.client_id is not None:
        # The form has the client id even if a header has it too: some servers look for it in the form first.
        fields["client_id"] = credential.client_id
    if credential.method == BASIC and credential.secret is not None:
        headers["Authorization"] = basic_client_authorization(credential.client_id or "", credential.secret)
    elif credential.method == POST and credential.secret is not None:
        fields["client_secret"] = credential.secret
    return fields, headers


def accepted_body(reply: FetchedReply, url: str, secrets: Secrets) -> dict[str, Any]:
    """Return the body of an answer that grants the request.

    Raises:
        TokenRefused: the answer refuses the request.
    """
    body = reply.body
    if reply.status in (OK, CREATED) and body is not None and "error" not in body:
        return body
    error = text_member(body or {}, "error")
    if error is not None and secrets.are_in(error):
        error = UNREADABLE
    reason = f"status {reply.status}" if error is None else secrets.quoted(error)
    description = text_member(body or {}, "error_description")
    if description is not None:
        reason += f": {secrets.quoted(description)}"
    elif body is None:
        reason += ", and no JSON object"
    raise TokenRefused(f"{redacted(url)} refuses: {reason}", error)


def _tokens(
    body: Mapping[str, Any],
    authorization_server: AuthorizationServer,
    requested: str | None,
    renewed: Tokens | None,
    key: ProofKey | None,
) -> Tokens:
    endpoint = redacted(authorization_server.token_endpoint)
    access_token = text_member(body, "access_token")
    if access_token is None or not _VISIBLE.fullmatch(access_token):
        raise TokenRefused(f"{endpoint} answered without an access token that can be used")
    kind = (text_member(body, "token_type") or "Bearer").lower()
    if kind not in ("bearer", "dpop") or (kind == "dpop" and key is None):
        raise TokenRefused(f"{endpoint} gave a token of a type that is not known here")
    lifetime = _seconds(body.get("expires_in"))
    if requested is None and renewed is not None:
        requested = renewed.requested_scope
    return Tokens(
        access_token=access_token,
        token_type="DPoP" if kind == "dpop" else "Bearer",
        expires_at=None if lifetime is None else time.time() + lifetime,
        lifetime=lifetime,
        refresh_token=text_member(body, "refresh_token") or (None if renewed is None else renewed.refresh_token),
        scope=text_member(body, "scope") or (requested if renewed is None else renewed.scope),
        requested_scope=requested,
        authorization_server=authorization_server,
        dpop_key=None if key is None else key.private_jwk,
    )


def _seconds(value: Any) -> float | None:
    try:
        seconds = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < 1e12 else None
