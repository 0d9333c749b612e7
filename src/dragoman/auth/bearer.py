"""A server's door: bearer tokens are verified, and who has none is told where to get one (RFC 6750, RFC 9728).

A verifier tells whom a token belongs to. The door adds what the protocol wants around it: the challenge of a refusal,
and the metadata document that names the authorization servers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from dragoman.auth.identity import Denial, Identity
from dragoman.config import is_async
from dragoman.runtime.offload import offload

UNAUTHORIZED, FORBIDDEN = 401, 403
WELL_KNOWN = "/.well-known/oauth-protected-resource"
_LONGEST_TOKEN = 16 * 1024


class Verifier(Protocol):
    """Whoever can tell whom a token belongs to."""

    async def verify(self, token: str, audience: str) -> Identity | None:
        """Return whom a token for an audience belongs to; None if it is no good."""


Found = Identity | str | None
Check = Callable[[str], Found | Awaitable[Found]]


class Bearer:
    """Lets in who has a good bearer token.

    Example:
        auth = Bearer(Jwt(issuer="https://login.example.com"), resource="https://api.example.com/mcp")
        app = server.asgi(auth=auth)

    `verifier` is a `Jwt`, an `Introspection`, or a function of the token, plain or async, that returns an `Identity`,
    the name of a principal, or None. `resource` is the address that clients know the server by: tokens must be meant
    for it. `authorization_servers` are the issuers of tokens; by default that of the verifier. Who lacks one of the
    `required_scopes` is refused; `scopes_supported` is what the metadata tells clients to ask for, by default the same.

    Raises:
        ValueError: the resource is no absolute URL, or there is no authorization server.
    """

    def __init__(
        self,
        verifier: Verifier | Check,
        *,
        resource: str,
        authorization_servers: Iterable[str] | None = None,
        required_scopes: Iterable[str] = (),
        scopes_supported: Iterable[str] | None = None,
        resource_name: str | None = None,
        metadata_url: str | None = None,
    ) -> None:
        address = urlsplit(resource)
        if address.scheme not in ("http", "https") or not address.netloc or address.fragment:
            raise ValueError(f"resource must be the absolute URL of the server, not {resource!r}")
        issuer = getattr(verifier, "issuer", None)
        servers = list(authorization_servers or ([issuer] if issuer else ()))
        if not servers:
            raise ValueError("authorization_servers must name at least one issuer of tokens")
        self.resource = resource
        self._verifier = verifier
        self._required = frozenset(required_scopes)
        self._origin = f"{address.scheme}://{address.netloc}"
        self._path = address.path.rstrip("/")
        self._metadata_url = metadata_url
        self.metadata = _metadata(resource, servers, scopes_supported or sorted(self._required), resource_name)

    def metadata_address(self, root_path: str = "", path: str = "") -> str:
        """Return where the metadata is: below a mount it is there, else where RFC 9728 wants it."""
        if self._metadata_url is not None:
            return self._metadata_url
        if root_path:
            return f"{self._origin}{root_path}{WELL_KNOWN}{path}"
        return f"{self._origin}{WELL_KNOWN}{self._path}"

    async def admit(self, headers: Mapping[str, str], metadata_address: str) -> Identity | Denial:
        """Return who sends a request, or why it is refused."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return self._denied(UNAUTHORIZED, "Authorization is required", metadata_address)
        identity = None if len(token) > _LONGEST_TOKEN else await self._verify(token)
        if identity is None:
            reason = "The token is not valid here"
            return self._denied(UNAUTHORIZED, reason, metadata_address, error="invalid_token")
        if not self._required <= identity.scopes:
            return self.insufficient(self._required, metadata_address)
        return identity

    def insufficient(self, scopes: Iterable[str], metadata_address: str) -> Denial:
        """Return the refusal of somebody who may not do what takes these scopes."""
        wanted = " ".join(sorted(scopes))
        reason = f"This takes the scopes: {wanted}"
        return self._denied(FORBIDDEN, reason, metadata_address, error="insufficient_scope", scope=wanted)

    def _denied(
        self, status: int, reason: str, metadata_address: str, *, error: str | None = None, scope: str | None = None
    ) -> Denial:
        wanted = scope or " ".join(sorted(self._required))
        parts = [("error", error), ("error_description", reason if error else None)]
        parts += [("scope", wanted or None), ("resource_metadata", metadata_address)]
        said = ", ".join(f'{name}="{value}"' for name, value in parts if value is not None)
        return Denial(status, reason, f"Bearer {said}")

    async def _verify(self, token: str) -> Identity | None:
        verifier = self._verifier
        if hasattr(verifier, "verify"):
            return await verifier.verify(token, self.resource)
        found: Any = verifier(token) if is_async(verifier) else await offload(verifier, token)
        found = await found if isawaitable(found) else found
        return Identity(found) if isinstance(found, str) else found


def _metadata(resource: str, servers: list[str], scopes: Iterable[str], name: str | None) -> bytes:
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": servers,
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        document["scopes_supported"] = list(scopes)
    if name is not None:
        document["resource_name"] = name
    return msgspec.json.encode(document)
