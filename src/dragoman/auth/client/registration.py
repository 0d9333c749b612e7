"""What an authorization server knows a client by: an id given beforehand, a metadata document, or a registration."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from dragoman.auth.client.storage import Keeper
from dragoman.auth.client.stored_records import Authority, ClientInformation
from dragoman.auth.client.token_endpoint import BASIC, NONE, POST, accepted
from dragoman.auth.fetcher import Fetcher, text, texts
from dragoman.errors import AuthError
from dragoman.protocol.urls import host_of, is_http_url, is_loopback, redacted

GRANT_TYPES = ("authorization_code", "refresh_token")


class Applicant(Struct):
    """What the author says of the client."""

    metadata: dict[str, Any]
    client_id: str | None = None
    client_secret: str | None = None
    metadata_url: str | None = None

    @property
    def may_refresh(self) -> bool:
        """Whether the client uses refresh tokens."""
        return "refresh_token" in self.metadata.get("grant_types", GRANT_TYPES)

    def __repr__(self) -> str:
        return "Applicant(...)"


async def identify(
    fetch: Fetcher,
    authority: Authority,
    keeper: Keeper,
    applicant: Applicant,
    redirect_uri: str,
    scope: str | None,
    *,
    dpop: bool = False,
) -> ClientInformation:
    """Return what the client is known by at an authorization server, and keep it.

    Raises:
        AuthError: the server knows no way, or refuses.
    """
    kept = await keeper.client() or ClientInformation()
    if applicant.client_id is not None:
        return await _given(authority, keeper, applicant, kept)
    if kept.is_usable and _fits(kept, authority, redirect_uri):
        if kept.issuer is None:
            kept.issuer = authority.issuer
            await keeper.save_client(kept)
        return kept
    if applicant.metadata_url is not None and authority.takes_metadata_documents:
        # An id that is a URL is the same everywhere, and is decided on anew each time: it is not kept.
        return ClientInformation(
            client_id=applicant.metadata_url,
            issuer=authority.issuer,
            token_endpoint_auth_method=NONE,
            pending=kept.pending,
        )
    if authority.registration_endpoint is None:
        raise AuthError(
            f"{redacted(authority.issuer)} registers no clients by itself; give client_id= (and client_secret=) from it"
        )
    found = await _register(fetch, authority, applicant, redirect_uri, scope, dpop=dpop)
    found.pending = kept.pending
    await keeper.save_client(found)
    return found


async def _given(
    authority: Authority, keeper: Keeper, applicant: Applicant, kept: ClientInformation
) -> ClientInformation:
    await bind_to_issuer(authority, keeper, applicant.client_id)
    return ClientInformation(
        client_id=applicant.client_id,
        client_secret=applicant.client_secret,
        token_endpoint_auth_method=applicant.metadata.get("token_endpoint_auth_method"),
        issuer=authority.issuer,
        pending=kept.pending,
    )


async def bind_to_issuer(authority: Authority, keeper: Keeper, client_id: str | None) -> None:
    """Remember that credentials which the author gave belong to an authorization server."""
    kept = await keeper.client()
    if kept is None or kept.issuer != authority.issuer:
        pending = {} if kept is None else kept.pending
        await keeper.save_client(ClientInformation(client_id=client_id, issuer=authority.issuer, pending=pending))


def _fits(kept: ClientInformation, authority: Authority, redirect_uri: str) -> bool:
    if kept.issuer not in (None, authority.issuer):
        return False
    return not kept.is_dynamic or kept.redirect_uris is None or redirect_uri in kept.redirect_uris


async def _register(
    fetch: Fetcher, authority: Authority, applicant: Applicant, redirect_uri: str, scope: str | None, *, dpop: bool
) -> ClientInformation:
    endpoint = authority.registration_endpoint
    assert endpoint is not None
    asked: dict[str, Any] = {
        "client_name": "Dragoman",
        "redirect_uris": [redirect_uri],
        "grant_types": list(GRANT_TYPES),
        "response_types": ["code"],
        "token_endpoint_auth_method": _preferred_method(authority),
        **({} if scope is None else {"scope": scope}),
        **({"dpop_bound_access_tokens": True} if dpop else {}),
        **applicant.metadata,
    }
    asked.setdefault("application_type", application_type(asked["redirect_uris"]))
    fetch.secrets.add(text(asked, "software_statement"))
    body = accepted(await fetch.post_json(endpoint, asked), endpoint, fetch.secrets)
    fetch.secrets.add(text(body, "client_secret"))
    client_id = text(body, "client_id")
    if client_id is None:
        raise AuthError(f"{redacted(endpoint)} registered the client without an id")
    expires = body.get("client_secret_expires_at")
    return ClientInformation(
        client_id=client_id,
        client_secret=text(body, "client_secret"),
        client_secret_expires_at=expires if isinstance(expires, int | float) else None,
        token_endpoint_auth_method=text(body, "token_endpoint_auth_method"),
        redirect_uris=texts(body, "redirect_uris") or list(asked["redirect_uris"]),
        issuer=authority.issuer,
        is_dynamic=True,
    )


def _preferred_method(authority: Authority) -> str:
    taken = authority.auth_methods
    return NONE if taken is None else next((one for one in (NONE, BASIC, POST) if one in taken), NONE)


def application_type(redirect_uris: list[str]) -> str:
    """Return `native` for a program on the user's machine, and `web` for one that is reached over the network."""
    return "native" if all(_is_native(uri) for uri in redirect_uris) else "web"


def _is_native(uri: str) -> bool:
    return not is_http_url(uri) or is_loopback(host_of(uri))


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return a copy of client metadata that can be sent as JSON.

    Raises:
        ValueError: it is no JSON object.
    """
    try:
        copied = msgspec.json.decode(msgspec.json.encode({} if metadata is None else metadata))
    except (TypeError, ValueError) as error:
        raise ValueError(f"client_metadata must be what JSON can say: {error}") from None
    if not isinstance(copied, dict):
        raise TypeError("client_metadata must be a mapping, as in RFC 7591")
    return copied
