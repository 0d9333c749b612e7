"""Tokens that a server verifies: signed ones by their issuer's keys, opaque ones by asking who issued them.

Keys are fetched when they are first needed and kept for a while; a token of a key that is not known makes them be
fetched again, but not more often than once in a minute, whoever sends such tokens. What an issuer said of an opaque
token is kept for a moment.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from dragoman.auth.addresses import authorization_server_urls
from dragoman.auth.fetching import OK, Fetcher
from dragoman.auth.identity import Identity
from dragoman.errors import AuthError

KEPT_SECONDS = 3600.0
REFETCH_SECONDS = 60.0
LEEWAY_SECONDS = 60
ANSWER_SECONDS = 30.0
MOST_ANSWERS = 10_000
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_logger = logging.getLogger("dragoman.auth")


class Jwt:
    """Verifies signed tokens (RFC 9068) by the keys of their issuer.

    Example:
        Jwt(issuer="https://login.example.com", jwks_url="https://login.example.com/keys")

    Without `jwks_url` it is looked up in the issuer's metadata. `audience` is what tokens must be meant for; by default
    the server's resource. `algorithms` are those that are accepted: never `none`, and no shared secrets.

    Raises:
        ValueError: an algorithm is not accepted.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_url: str | None = None,
        audience: str | None = None,
        algorithms: Iterable[str] = ("RS256", "ES256", "PS256", "EdDSA"),
        principal_claim: str = "sub",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self._jwks_url = jwks_url
        self._audience = audience
        self._algorithms = list(algorithms)
        for algorithm in self._algorithms:
            if algorithm not in ALGORITHMS:
                raise ValueError(f"{algorithm!r} is not accepted; use some of {', '.join(ALGORITHMS)}")
        self._principal_claim = principal_claim
        self._clock = clock
        self._keys: Any = None
        self._fetched = -KEPT_SECONDS
        self._fetching = asyncio.Lock()

    async def verify(self, token: str, audience: str) -> Identity | None:
        """Return whom a token belongs to; None if it is no good."""
        try:
            from joserfc import jwt
            from joserfc.errors import JoseError
        except ImportError:
            raise AuthError("Verifying tokens needs the package joserfc: install dragoman[jwt]") from None
        for attempt in (1, 2):
            keys = await self._known_keys(anew=attempt == 2)
            if keys is None:
                return None
            try:
                claims = jwt.decode(token, keys, algorithms=self._algorithms).claims
            except (JoseError, ValueError, TypeError, KeyError) as error:
                # A key that is not known may be new; nothing else gets better by asking again.
                if attempt == 1 and _names_unknown_key(token, keys):
                    continue
                _logger.debug("A token was refused: %s", type(error).__name__)
                return None
            return self._identity(claims, audience)
        return None

    def _identity(self, claims: Mapping[str, Any], audience: str) -> Identity | None:
        now = self._clock()
        meant_for = claims.get("aud")
        audiences = meant_for if isinstance(meant_for, list) else [meant_for]
        expires, begins = claims.get("exp"), claims.get("nbf", 0)
        principal = claims.get(self._principal_claim)
        good = (
            claims.get("iss") == self.issuer
            and (self._audience or audience) in audiences
            and isinstance(expires, int | float)
            and now < expires + LEEWAY_SECONDS
            and isinstance(begins, int | float)
            and now >= begins - LEEWAY_SECONDS
            and isinstance(principal, str)
            and bool(principal)
        )
        return Identity(str(principal), scopes_of(claims), dict(claims)) if good else None

    async def _known_keys(self, *, anew: bool) -> Any:
        async with self._fetching:
            age = time.monotonic() - self._fetched
            if self._keys is None or age > KEPT_SECONDS or (anew and age > REFETCH_SECONDS):
                if self._keys is None and 0 < age < 1:
                    return None
                await self._fetch_keys()
            return self._keys

    async def _fetch_keys(self) -> None:
        from joserfc.jwk import KeySet

        self._fetched = time.monotonic()
        try:
            async with Fetcher() as fetch:
                reply = await fetch.get(self._jwks_url or await self._look_up(fetch))
            if reply.status == OK and reply.body is not None:
                self._keys = KeySet.import_key_set(reply.body)  # type: ignore[arg-type]
            else:
                _logger.warning("The keys of %s cannot be had: status %d", self.issuer, reply.status)
        except (AuthError, ValueError, TypeError, KeyError) as error:
            _logger.warning("The keys of %s cannot be had: %s", self.issuer, error)

    async def _look_up(self, fetch: Fetcher) -> str:
        for address in authorization_server_urls(self.issuer):
            reply = await fetch.get(address)
            if reply.status == OK and reply.body is not None and reply.body.get("issuer") == self.issuer:
                url = reply.body.get("jwks_uri")
                if isinstance(url, str):
                    return url
        raise AuthError(f"{self.issuer} does not say where its keys are; give jwks_url")


def _names_unknown_key(token: str, keys: Any) -> bool:
    from joserfc.jws import extract_compact

    try:
        key = extract_compact(token.encode()).protected.get("kid")
    except ValueError:
        return False
    return key is not None and all(known.kid != key for known in keys.keys)


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes that claims name: as text with spaces, or as a list."""
    found = claims.get("scope", claims.get("scp", ()))
    parts = found.split() if isinstance(found, str) else found
    return (
        frozenset(part for part in parts if isinstance(part, str)) if isinstance(parts, list | tuple) else frozenset()
    )


class Introspection:
    """Verifies tokens by asking who issued them (RFC 7662).

    Example:
        Introspection("https://login.example.com/introspect", client_id="api", client_secret=secret)
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str,
        issuer: str | None = None,
        audience: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self._url = url
        self._audience = audience
        self._clock = clock
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}".encode()
        self._authorization = f"Basic {b64encode(pair).decode()}"
        self._answers: OrderedDict[bytes, tuple[float, Identity | None]] = OrderedDict()

    async def verify(self, token: str, audience: str) -> Identity | None:
        """Return whom a token belongs to; None if it is no good.

        Raises:
            AuthError: the issuer cannot be asked.
        """
        key = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        until, known = self._answers.get(key, (0.0, None))
        if time.monotonic() < until:
            return known
        async with Fetcher() as fetch:
            form = {"token": token, "token_type_hint": "access_token"}
            reply = await fetch.post_form(self._url, form, {"Authorization": self._authorization})
        if reply.status != OK or reply.body is None:
            raise AuthError(f"{self._url} cannot be asked about tokens: status {reply.status}")
        identity, lasts = self._judged(reply.body, audience)
        self._answers[key] = time.monotonic() + lasts, identity
        if len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)
        return identity

    def _judged(self, claims: Mapping[str, Any], audience: str) -> tuple[Identity | None, float]:
        """Return whom a token belongs to, and for how many seconds that holds."""
        meant_for, expires, now = claims.get("aud"), claims.get("exp"), self._clock()
        audiences = meant_for if isinstance(meant_for, list) else [meant_for]
        principal = claims.get("sub") or claims.get("username") or claims.get("client_id")
        left = expires - now if isinstance(expires, int | float) else ANSWER_SECONDS
        good = claims.get("active") is True and (self._audience or audience) in audiences and left > 0
        if not good or not isinstance(principal, str):
            return None, ANSWER_SECONDS
        return Identity(principal, scopes_of(claims), dict(claims)), min(left, ANSWER_SECONDS)
