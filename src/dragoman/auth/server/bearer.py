"""Bearer: the authorization of a server by bearer tokens, with challenges and metadata (RFC 6750, RFC 9728).

A verifier returns the identity that a token belongs to. `Bearer` adds the challenge of a refusal, and the metadata
document that names the authorization servers. Both are made from the options of `Bearer` and the path of the mount, not
from the host in the request, so they are the same behind any proxy.

`Bearers` takes tokens of several issuers. A token goes to the `Bearer` of the issuer that the token names. Nobody has
verified this name yet: it only chooses who verifies the token. A token that names no issuer, such as an opaque token,
is tried by each `Bearer` in order. Two issuers may give the same name to different people, so the principal of each
issuer begins with the issuer.

Rejected: every token is tried by every verifier. A token of one issuer would be sent to the introspection endpoint of
another, and the log could not say why a token was refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote, unquote, urlsplit

import msgspec

from dragoman.auth.jose import unverified_part
from dragoman.auth.server.identity import MAX_DETAIL, BadToken, Denial, Identity
from dragoman.auth.urls import protected_resource_metadata_urls, require_secure
from dragoman.errors import DefinitionError, InsecureUrl
from dragoman.protocol.urls import is_http_url, origin_of, split
from dragoman.runtime.callables import invoke

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN = 400, 401, 403
WELL_KNOWN = "/.well-known/oauth-protected-resource"
_MAX_TOKEN = 16 * 1024
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_TOKEN = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_INVALID = BadToken("The token is not valid here")
_logger = logging.getLogger("dragoman.auth")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


@runtime_checkable
class JudgingVerifier(Protocol):
    """An object that also says why a token is refused; `Bearer` gives the reason to the client and to the log."""

    async def judge(self, token: str, audience: str) -> Identity | BadToken:
        """Return the identity that a token for an audience belongs to, or why the token is refused."""


@runtime_checkable
class Verifier(Protocol):
    """An object that returns the identity that a token belongs to; it may also be a `JudgingVerifier`."""

    async def verify(self, token: str, audience: str) -> Identity | None:
        """Return the identity that a token for an audience belongs to; None if the token is refused."""


Found = Identity | BadToken | str | None
Check = Callable[[str], Found | Awaitable[Found]]


class Bearer:
    """Authorizes requests to a server by their bearer tokens (RFC 6750).

    Example:
        auth = Bearer(Jwt(issuer="https://login.example.com"), resource="https://api.example.com/mcp")
        app = server.asgi(auth=auth)

    `verifier` is a `Jwt`, an `Introspection`, or a function of the token, plain or async, that returns an `Identity`,
    the name of a principal, a `BadToken`, or None. `resource` is the public URL of the server, and the audience that
    tokens must have. `authorization_servers` are the issuers of tokens; by default that of the verifier. A token
    without one of the `required_scopes` is refused; `scopes_supported` are the scopes in the metadata, by default the
    same. `implied_scopes` maps a scope to the scopes that it includes: `{"files:write": ["files:read"]}`.
    `metadata_url` is the public URL of the metadata, if it differs from the URL of RFC 9728.

    An empty principal names nobody: the request is refused with status 401.

    Raises:
        ValueError: a URL is not absolute or not secure, a scope is invalid, or there is no authorization server.
        DefinitionError: the verifier is neither an object that verifies tokens nor a function.
    """

    def __init__(
        self,
        verifier: Verifier | Check,
        *,
        resource: str,
        authorization_servers: Iterable[str] | None = None,
        required_scopes: Iterable[str] = (),
        scopes_supported: Iterable[str] | None = None,
        implied_scopes: Mapping[str, Iterable[str]] | None = None,
        resource_name: str | None = None,
        metadata_url: str | None = None,
    ) -> None:
        _require_verifier(verifier)
        self.resource = _resource(resource)
        self._verifier = verifier
        self._required = frozenset(_public_scopes(required_scopes, "required_scopes"))
        self._implied = {scope: _scopes(implied, "implied_scopes") for scope, implied in (implied_scopes or {}).items()}
        self._metadata_url = None if metadata_url is None else _resource(metadata_url, "metadata_url")
        servers = _issuers(authorization_servers, verifier)
        issuer: str | None = getattr(verifier, "issuer", None)
        self._issuers = [issuer] if issuer else servers
        """The issuers that tokens for this `Bearer` name."""
        self.metadata = _metadata(
            resource,
            servers,
            sorted(self._required)
            if scopes_supported is None
            else _public_scopes(scopes_supported, "scopes_supported"),
            resource_name,
        )

    def __repr__(self) -> str:
        return f"<Bearer of {self.resource}>"

    @property
    def metadata_path(self) -> str:
        """The path of the metadata on the host of the resource (RFC 9728)."""
        return unquote(urlsplit(protected_resource_metadata_urls(self.resource)[0]).path)

    def metadata_address(self, root_path: str = "", path: str = "") -> str:
        """Return the URL of the metadata: below the mount if the server is mounted, else as RFC 9728 says."""
        if self._metadata_url is not None:
            return self._metadata_url
        if root_path.strip("/"):
            # A framework may take the root path from the path in the request.
            below = quote(f"/{root_path.strip('/')}")
            return f"{origin_of(self.resource)}{below}{WELL_KNOWN}{quote(path)}"
        return protected_resource_metadata_urls(self.resource)[0]

    async def admit(self, headers: Mapping[str, str], metadata_address: str) -> Identity | Denial:
        """Return the identity that sends a request, or the refusal of the request.

        Raises:
            Exception: the verifier failed, for example because it cannot reach the issuer.
        """
        token = _bearer_token(headers)
        if not token:
            return self._denied(UNAUTHORIZED, "Authorization is required", metadata_address)
        if not _TOKEN.fullmatch(token):
            reason = "The header Authorization must hold one token"
            return self._denied(BAD_REQUEST, reason, metadata_address, error="invalid_request")
        too_long = BadToken(_INVALID.reason, f"it has more than {_MAX_TOKEN} characters")
        found = too_long if len(token) > _MAX_TOKEN else await self._verify(token)
        if isinstance(found, BadToken):
            denial = self._denied(UNAUTHORIZED, found.reason, metadata_address, error="invalid_token")
            return msgspec.structs.replace(denial, detail=found.detail)
        missing = self._required - found.scopes
        if missing:
            denial = self.insufficient((), metadata_address)
            return msgspec.structs.replace(denial, detail=f"the token lacks {' '.join(sorted(missing))}")
        return found

    def judge_of(self, identity: Identity) -> Bearer:  # noqa: ARG002
        """Return the `Bearer` that admitted an identity."""
        return self

    def insufficient(self, scopes: Iterable[str], metadata_address: str) -> Denial:
        """Return the refusal of a request that needs these scopes in addition to the required ones."""
        # SHOULD (2026-07-28): one challenge has all scopes that the operation needs.
        scope = " ".join(sorted(self._required.union(scopes)))
        reason = f"This takes the scopes: {scope}"
        return self._denied(FORBIDDEN, reason, metadata_address, error="insufficient_scope", scope=scope)

    def _denied(
        self, status: int, reason: str, metadata_address: str, *, error: str | None = None, scope: str | None = None
    ) -> Denial:
        header = challenge(
            error=error,
            error_description=reason if error else None,
            scope=scope or " ".join(sorted(self._required)) or None,
            resource_metadata=metadata_address,
        )
        return Denial(status, reason, header)

    async def _verify(self, token: str) -> Identity | BadToken:
        verifier: Any = self._verifier
        found: Any
        if isinstance(verifier, JudgingVerifier):
            found = await verifier.judge(token, self.resource)
        elif isinstance(verifier, Verifier):
            found = await verifier.verify(token, self.resource)
        else:
            found = await invoke(verifier, token)
        if isinstance(found, BadToken):
            return found
        identity = identity_of(found)
        if identity is None:
            return _INVALID
        return self._widened(identity) if self._implied else identity

    def _widened(self, identity: Identity) -> Identity:
        """Return an identity with the scopes that its own scopes imply."""
        known, new = set(identity.scopes), set(identity.scopes)
        while new:
            new = {implied for scope in new for implied in self._implied.get(scope, ())} - known
            known |= new
        return msgspec.structs.replace(identity, scopes=frozenset(known))


class Bearers(Bearer):
    """Authorizes requests by the tokens of several issuers; `server.asgi(auth=[...])` makes it.

    Example:
        app = server.asgi(auth=[Bearer(Jwt(ours), resource=url), Bearer(Jwt(theirs), resource=url)])

    The challenge for a request without a token is that of the first `Bearer`.

    Raises:
        DefinitionError: there is no `Bearer`, or two have different resources.
    """

    def __init__(self, bearers: Sequence[Bearer]) -> None:
        if not bearers or len({(bearer.resource, bearer._metadata_url) for bearer in bearers}) > 1:
            raise DefinitionError(
                "auth must be a list of Bearer(...) with the same resource and metadata_url: clients know a server by"
                f" one URL; not {bearers!r}"
            )
        first = bearers[0]
        self._bearers = tuple(bearers)
        self.resource, self._metadata_url, self._required = first.resource, first._metadata_url, first._required
        self._issuers = list(dict.fromkeys(issuer for bearer in bearers for issuer in bearer._issuers))
        self.metadata = _merged([bearer.metadata for bearer in bearers])

    async def admit(self, headers: Mapping[str, str], metadata_address: str) -> Identity | Denial:
        """Return the identity that sends a request, or the refusal of the request.

        Raises:
            Exception: a verifier failed, and no other admits the token.
        """
        refusals: list[tuple[Bearer, Denial]] = []
        failure: Exception | None = None
        token = _bearer_token(headers)
        for bearer in self._candidates(token):
            try:
                found = await bearer.admit(headers, metadata_address)
            except Exception as error:
                failure = failure or error
                continue
            if isinstance(found, Identity):
                return self._named(found, bearer)
            if found.status != UNAUTHORIZED:
                return found
            refusals.append((bearer, found))
        if failure is not None:
            raise failure
        if len(refusals) == 1:
            return refusals[0][1]
        refused = _INVALID if refusals else _of_another_issuer(token, self._issuers)
        details = [f"{bearer._issuers[0]}: {denial.reason}{denial.shown_detail}" for bearer, denial in refusals]
        denial = self._denied(UNAUTHORIZED, refused.reason, metadata_address, error="invalid_token")
        return msgspec.structs.replace(denial, detail="; ".join(details) or refused.detail)

    def _candidates(self, token: str) -> Sequence[Bearer]:
        """Return who may verify a token: only the first if there is no token that anybody could verify."""
        if not _TOKEN.fullmatch(token) or len(token) > _MAX_TOKEN:
            return self._bearers[:1]
        issuer = _issuer_of(token)
        return [bearer for bearer in self._bearers if issuer is None or issuer in bearer._issuers]

    def _named(self, identity: Identity, bearer: Bearer) -> Identity:
        """Return an identity whose principal begins with the issuer, if there are several issuers."""
        if len(self._issuers) == 1:
            return identity
        return msgspec.structs.replace(identity, principal=f"{bearer._issuers[0]} {identity.principal}")

    def judge_of(self, identity: Identity) -> Bearer:
        """Return the `Bearer` that admitted an identity."""
        issuer = identity.principal.partition(" ")[0]
        return next((bearer for bearer in self._bearers if bearer._issuers[0] == issuer), self._bearers[0])


def _bearer_token(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _issuer_of(token: str) -> str | None:
    """Return the issuer that a token names, which nobody has verified."""
    claims = unverified_part(token, 1)
    issuer = None if claims is None else claims.get("iss")
    return issuer if isinstance(issuer, str) else None


def _of_another_issuer(token: str, issuers: list[str]) -> BadToken:
    shown = repr(_issuer_of(token))[:MAX_DETAIL]
    return BadToken("The token is of another issuer", f"its iss is {shown}, not one of {', '.join(issuers)}")


def _merged(documents: list[bytes]) -> bytes:
    """Return the metadata of one resource with the authorization servers and the scopes of all documents."""
    merged: dict[str, Any] = {}
    for document in documents:
        for name, value in msgspec.json.decode(document, type=dict[str, Any]).items():
            known = merged.setdefault(name, value)
            if isinstance(value, list):
                merged[name] = list(dict.fromkeys([*known, *value]))
    return msgspec.json.encode(merged)


def identity_of(returned: object) -> Identity | None:
    """Return the identity for the return value of an author's function; None, and a warning, if it names nobody."""
    if returned is None:
        return None
    principal = returned.principal if isinstance(returned, Identity) else returned
    if isinstance(principal, str) and principal.strip():
        return returned if isinstance(returned, Identity) else Identity(principal)
    kind = "an empty principal" if isinstance(principal, str) else f"a principal of type {type(principal).__name__}"
    _logger.warning("A request was refused because auth returned %s: return a name, an Identity or None", kind)
    return None


def _require_verifier(verifier: object) -> None:
    """Refuse an object that cannot verify tokens.

    Raises:
        DefinitionError: the object is a text, a mapping, a class, or something else that cannot be called.
    """
    is_object = isinstance(verifier, JudgingVerifier | Verifier) or callable(verifier)
    if isinstance(verifier, type) or not is_object:
        # The value may be a token or a table of tokens, which an error must not show.
        shown = f"the class {verifier.__name__}" if isinstance(verifier, type) else f"a {type(verifier).__name__}"
        raise DefinitionError(
            "The verifier of Bearer(...) must be a Jwt(...), an Introspection(...), or a function that takes a token"
            f" and returns its Identity, its principal or None, not {shown}"
        )


def challenge(**parts: str | None) -> str:
    """Return a `WWW-Authenticate` header with the parts that are not None, quoted."""

    def quoted(value: str) -> str:
        return _UNPRINTABLE.sub("?", value).replace("\\", "\\\\").replace('"', '\\"')

    return "Bearer " + ", ".join(f'{name}="{quoted(value)}"' for name, value in parts.items() if value is not None)


def check_scopes(scopes: Iterable[str]) -> None:
    """Check that texts can be scopes (RFC 6749).

    Raises:
        ValueError: a text is not a valid scope.
    """
    _scopes(scopes, "scopes")


def _listed(texts: Iterable[str], what: str) -> list[str]:
    given = [] if isinstance(texts, str) else list(texts)
    if isinstance(texts, str) or not all(isinstance(text, str) for text in given):
        raise ValueError(f"{what} must be a list of texts, not {texts!r}")
    return given


def _scopes(scopes: Iterable[str], what: str) -> list[str]:
    given = _listed(scopes, what)
    for scope in given:
        if not _SCOPE.fullmatch(scope):
            raise ValueError(f"{what} has {scope!r}, not a scope: use printable ASCII without spaces and quotes")
    return given


def _public_scopes(scopes: Iterable[str], what: str) -> list[str]:
    given = _scopes(scopes, what)
    if "offline_access" in given:
        # SHOULD NOT (2026-07-28): `offline_access` concerns only a client and its authorization server.
        raise ValueError(f"{what} must not have offline_access: only clients ask for that scope")
    return given


def _resource(url: str, what: str = "resource") -> str:
    try:
        is_plain = is_http_url(url) and "@" not in split(url).netloc
    except InsecureUrl:
        is_plain = False
    if not is_plain or "#" in url or not url.isascii() or '"' in url:
        raise ValueError(f"{what} must be the absolute URL of the server, without user and fragment, not {url!r}")
    return url


def _issuers(given: Iterable[str] | None, verifier: Any) -> list[str]:
    issuer = getattr(verifier, "issuer", None)
    issuers = _listed(given or ([issuer] if issuer else ()), "authorization_servers")
    if not issuers:
        raise ValueError("authorization_servers must name at least one issuer of tokens")
    return [require_secure(one, "An authorization server") for one in issuers]


def _metadata(resource: str, servers: list[str], scopes: list[str], name: str | None) -> bytes:
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": servers,
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        document["scopes_supported"] = scopes
    if name is not None:
        document["resource_name"] = name
    return msgspec.json.encode(document)
