"""IssuerKeys: fetches and caches the public keys (JWKS) of an issuer of tokens.

The keys are fetched when they are first needed, and kept for an hour. All tokens that need the keys during a fetch wait
for that fetch. After a failed fetch no request is sent for a minute, or for five seconds if there are no keys: known
keys stay valid, and without keys every check of a token is an error at once.

A token may name an unknown key (`kid`), because the issuer has a new one. Any client can send such tokens, so their
cost is bounded:

- all tokens with unknown keys share one refetch, and a refetch begins at most every five seconds;
- a token with an unknown key waits for the next refetch, not for one under way, which may have begun before the issuer
  published the new key;
- a key that a refetch did not find is refused at once for a minute;
- if a thousand tokens wait, the check of a further one is an error, not a refusal.

So a client that sends invented key ids can delay a new key by five seconds at most. One refetch for each unknown key id
was rejected, because any client could then make this server flood the issuer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from dragoman.auth.fetcher import OK, Fetcher, text_member
from dragoman.auth.urls import authorization_server_metadata_urls, require_secure
from dragoman.errors import AuthError
from dragoman.protocol.urls import redacted
from dragoman.runtime.tasks import is_pending_here
from dragoman.types.memo import Recent

KEPT_SECONDS = 3600.0
RETRY_SECONDS = 5.0
RETRY_SECONDS_WITH_KEYS = 60.0
REFETCH_SECONDS = 5.0
MISSING_SECONDS = 60.0
FETCH_SECONDS = 10.0
MAX_KEYS = 100
MAX_MISSING = 1000
MAX_WAITING = 1000
_logger = logging.getLogger("dragoman.auth")


class IssuerKeys:
    """The keys of one issuer, found by their ids (`kid`)."""

    def __init__(self, issuer: str, url: str | None = None) -> None:
        self._issuer = issuer
        self._url = url
        self._keys: list[Any] = []
        self._fetch_at = self._refetch_at = time.monotonic()
        self._fetching: asyncio.Task[bool] | None = None
        self._refetching: asyncio.Task[bool] | None = None
        """The refetch for unknown keys, until its fetch begins."""
        self._waiting = 0
        self._missing: Recent[int, float] = Recent(MAX_MISSING)
        """Hashes of the key ids that were not found, and the time until which they are refused at once."""

    async def find(self, kid: str | None) -> list[Any]:
        """Return the keys that may have signed a token: those with its key id, or all keys if the token has no key id.

        Raises:
            AuthError: the keys cannot be fetched, or too many tokens wait for unknown keys.
        """
        if time.monotonic() >= self._fetch_at or (not self._keys and is_pending_here(self._fetching)):
            await self._fetch()
        if not self._keys:
            raise AuthError(f"Tokens cannot be verified: the keys of {redacted(self._issuer)} are not available")
        found = self._known(kid)
        if not found and isinstance(kid, str) and self._missing.get(hash(kid), 0.0) <= time.monotonic():
            found = await self._find_unknown(kid)
        return found

    def _known(self, kid: str | None) -> list[Any]:
        return [key for key in self._keys if kid is None or key.kid in (None, kid)]

    async def _find_unknown(self, kid: str) -> list[Any]:
        if self._waiting >= MAX_WAITING:
            raise AuthError("Tokens cannot be verified: too many of them name unknown keys; try again")
        self._waiting += 1
        try:
            await self._wait_for_fetch()
            if self._known(kid):
                return self._known(kid)
            if not is_pending_here(self._refetching):
                self._refetching = asyncio.create_task(self._refetch())
            was_fetched = await asyncio.shield(self._refetching)
        finally:
            self._waiting -= 1
            if self._waiting == 0 and is_pending_here(self._refetching):
                self._refetching.cancel()
                self._refetching = None
        found = self._known(kid)
        if was_fetched and not found:
            self._missing[hash(kid)] = time.monotonic() + MISSING_SECONDS
        return found

    async def _refetch(self) -> bool:
        """Fetch the keys again, at most every five seconds; tell whether the fetch succeeded."""
        await asyncio.sleep(max(0.0, self._refetch_at - time.monotonic()))
        await self._wait_for_fetch()
        self._refetching = None
        self._refetch_at = time.monotonic() + REFETCH_SECONDS
        return await self._fetch()

    async def _wait_for_fetch(self) -> None:
        if is_pending_here(self._fetching):
            await self._fetch()

    async def _fetch(self) -> bool:
        """Wait for the fetch under way, or start one; tell whether it succeeded."""
        if not is_pending_here(self._fetching):
            self._fetching = asyncio.create_task(self._fetch_once())
        # The task that began this may be cancelled while other tasks wait for it.
        return await asyncio.shield(self._fetching)

    async def _fetch_once(self) -> bool:
        try:
            async with asyncio.timeout(FETCH_SECONDS), Fetcher() as fetch:
                self._keys = await self._published(fetch)
        except (AuthError, TimeoutError) as error:
            self._fetch_at = time.monotonic() + (RETRY_SECONDS_WITH_KEYS if self._keys else RETRY_SECONDS)
            reason = "it takes too long to answer" if isinstance(error, TimeoutError) else str(error)
            _logger.warning("The keys of %s are not available: %s", redacted(self._issuer), reason)
            return False
        self._fetch_at = time.monotonic() + KEPT_SECONDS
        return True

    async def _published(self, fetch: Fetcher) -> list[Any]:
        url = self._url or await self._discover_url(fetch)
        reply = await fetch.get(url)
        listed = None if reply.status != OK or reply.body is None else reply.body.get("keys")
        if not isinstance(listed, list):
            raise AuthError(f"{redacted(url)} is not a set of keys (status {reply.status})")
        keys = [key for key in map(_verifying_key, listed[:MAX_KEYS]) if key is not None]
        if not keys:
            raise AuthError(f"{redacted(url)} has no key that signatures can be verified with")
        return keys

    async def _discover_url(self, fetch: Fetcher) -> str:
        for metadata_url in authorization_server_metadata_urls(self._issuer):
            reply = await fetch.get(metadata_url)
            if reply.status == OK and reply.body is not None and reply.body.get("issuer") == self._issuer:
                url = text_member(reply.body, "jwks_uri")
                if url is not None:
                    return require_secure(url, "The address of the keys")
        raise AuthError("its metadata do not say where they are; give jwks_url")


def _verifying_key(jwk: Any) -> Any:
    """Return a key that verifies signatures; None for a shared secret, an encryption key, or a malformed key."""
    from joserfc.jwk import JWKRegistry

    try:
        if jwk.get("use", "sig") != "sig" or jwk.get("kty") == "oct":
            return None
        return JWKRegistry.import_key(jwk)
    except Exception as error:
        _logger.debug("A key cannot be read: %s", type(error).__name__)
        return None
