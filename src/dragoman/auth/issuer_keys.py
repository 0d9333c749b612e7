"""The keys that an issuer of tokens signs with.

They are fetched when they are first needed and kept for an hour; whoever needs them meanwhile waits for the same fetch.
A token that names a key which is not known makes them be fetched again, but at most once a minute, whoever sends such
tokens. An issuer that cannot be asked is left alone for a while: who comes then is told at once, and keys that were
known before stay good.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from dragoman.auth.addresses import authorization_server_urls, require_secure, shown
from dragoman.auth.fetching import OK, Fetcher
from dragoman.errors import AuthError

KEPT_SECONDS = 3600.0
REFETCH_SECONDS = 60.0
RETRY_SECONDS = 5.0
FETCH_SECONDS = 10.0
MOST_KEYS = 100
_logger = logging.getLogger("dragoman.auth")


class IssuerKeys:
    """The keys of one issuer, by the names that tokens call them."""

    def __init__(self, issuer: str, url: str | None = None) -> None:
        self._issuer = issuer
        self._url = url
        self._keys: list[Any] = []
        self._is_due_at = self._may_look_at = time.monotonic()
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, name: str | None) -> list[Any]:
        """Return the keys that may have signed a token: those of its name, or all if it names none.

        Raises:
            AuthError: there are no keys, because the issuer cannot be asked.
        """
        now = time.monotonic()
        if now >= self._is_due_at or (not self._keys and self._is_fetching()):
            await self._fetch()
        found = self._named(name)
        if not found and self._keys and (now >= self._may_look_at or self._is_fetching()):
            self._may_look_at = max(self._may_look_at, now + REFETCH_SECONDS)
            await self._fetch()
            found = self._named(name)
        if not self._keys:
            raise AuthError(f"Tokens cannot be verified: the keys of {shown(self._issuer)} cannot be had")
        return found

    def _named(self, name: str | None) -> list[Any]:
        return [key for key in self._keys if name is None or key.kid in (None, name)]

    def _is_fetching(self) -> bool:
        task = self._fetching
        return task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()

    async def _fetch(self) -> None:
        if self._fetching is None or not self._is_fetching():
            self._fetching = asyncio.create_task(self._fetch_once())
        # Whoever began it may go away while others wait for it.
        await asyncio.shield(self._fetching)

    async def _fetch_once(self) -> None:
        try:
            async with asyncio.timeout(FETCH_SECONDS), Fetcher() as fetch:
                self._keys = await self._ask(fetch)
            self._is_due_at = time.monotonic() + KEPT_SECONDS
        except (AuthError, TimeoutError) as error:
            self._is_due_at = time.monotonic() + (REFETCH_SECONDS if self._keys else RETRY_SECONDS)
            _logger.warning("The keys of %s cannot be had: %s", shown(self._issuer), _said(error))

    async def _ask(self, fetch: Fetcher) -> list[Any]:
        url = self._url or await self._look_up(fetch)
        reply = await fetch.get(url)
        listed = None if reply.status != OK or reply.body is None else reply.body.get("keys")
        if not isinstance(listed, list):
            raise AuthError(f"{shown(url)} is no set of keys (status {reply.status})")
        keys = [key for key in map(_key, listed[:MOST_KEYS]) if key is not None]
        if not keys:
            raise AuthError(f"{shown(url)} has no key that signatures can be verified with")
        return keys

    async def _look_up(self, fetch: Fetcher) -> str:
        for address in authorization_server_urls(self._issuer):
            reply = await fetch.get(address)
            if reply.status == OK and reply.body is not None and reply.body.get("issuer") == self._issuer:
                url = reply.body.get("jwks_uri")
                if isinstance(url, str):
                    return require_secure(url, "The address of the keys")
        raise AuthError("its metadata do not say where they are; give jwks_url")


def _said(error: Exception) -> str:
    return "it takes too long to answer" if isinstance(error, TimeoutError) else str(error)


def _key(listed: Any) -> Any:
    """Return a key that verifies signatures; None for a secret, one for something else, and what cannot be read."""
    from joserfc.jwk import JWKRegistry

    try:
        if listed.get("use", "sig") != "sig" or listed.get("kty") == "oct":
            return None
        return JWKRegistry.import_key(listed)
    except Exception as error:
        _logger.debug("A key cannot be read: %s", type(error).__name__)
        return None
