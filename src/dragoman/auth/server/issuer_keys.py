"""The keys that an issuer of tokens signs with.

They are fetched when they are first needed and kept for an hour; whoever needs them meanwhile waits for the same fetch.
A token that names an unknown key makes them be fetched again. Anybody can send such tokens, so this happens at most
every five seconds. A token that comes too early for it waits for the next fetch, which is everybody's: strangers with
names that they made up can delay the fetch that a new key needs by these seconds, and no more. A name that was looked
for in vain is refused at once for a minute. Only so many tokens wait; of others nothing is said. An issuer that cannot
be asked is left alone for a while: who comes then is told at once, and keys that were known before stay good.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Any

from dragoman.auth.addresses import authorization_server_urls, require_secure
from dragoman.auth.fetching import OK, Fetcher
from dragoman.errors import AuthError
from dragoman.protocol.urls import redacted
from dragoman.runtime.tasks import is_pending_here

KEPT_SECONDS = 3600.0
REFETCH_SECONDS = 60.0
LOOK_SECONDS = 5.0
MISSING_SECONDS = 60.0
RETRY_SECONDS = 5.0
FETCH_SECONDS = 10.0
MOST_KEYS = 100
MOST_MISSING = 1000
MOST_LOOKING = 1000
_logger = logging.getLogger("dragoman.auth")


class IssuerKeys:
    """The keys of one issuer, by the names that tokens call them."""

    def __init__(self, issuer: str, url: str | None = None) -> None:
        self._issuer = issuer
        self._url = url
        self._keys: list[Any] = []
        self._is_due_at = self._may_look_at = time.monotonic()
        self._fetching: asyncio.Task[bool] | None = None
        self._looking: asyncio.Task[bool] | None = None
        """A fetch for unknown names that has not begun."""
        self._lookers = 0
        self._missing: OrderedDict[int, float] = OrderedDict()
        """Hashes of names that were looked for in vain, and until when they are not looked for again."""

    async def find(self, name: str | None) -> list[Any]:
        """Return the keys that may have signed a token: those of its name, or all if it names none.

        Raises:
            AuthError: there are no keys, because the issuer cannot be asked, or too many wait for unknown ones.
        """
        if time.monotonic() >= self._is_due_at or (not self._keys and is_pending_here(self._fetching)):
            await self._fetch()
        if not self._keys:
            raise AuthError(f"Tokens cannot be verified: the keys of {redacted(self._issuer)} cannot be had")
        found = self._named(name)
        if not found and isinstance(name, str) and self._missing.get(hash(name), 0.0) <= time.monotonic():
            found = await self._look_for(name)
        return found

    def _named(self, name: str | None) -> list[Any]:
        return [key for key in self._keys if name is None or key.kid in (None, name)]

    async def _look_for(self, name: str) -> list[Any]:
        """Return the keys of a name that was not known when it came."""
        if self._lookers >= MOST_LOOKING:
            raise AuthError("Tokens cannot be verified: too many name keys that are not known; try again")
        self._lookers += 1
        try:
            await self._join()
            if self._named(name):
                return self._named(name)
            if not is_pending_here(self._looking):
                self._looking = asyncio.create_task(self._look())
            has_looked = await asyncio.shield(self._looking)
        finally:
            self._lookers -= 1
            if self._lookers == 0 and is_pending_here(self._looking):
                self._looking.cancel()
                self._looking = None
        if has_looked and not self._named(name):
            self._miss(name)
        return self._named(name)

    async def _look(self) -> bool:
        """Fetch the keys again as soon as that is allowed, and tell whether they were had."""
        await asyncio.sleep(max(0.0, self._may_look_at - time.monotonic()))
        await self._join()
        self._looking = None
        self._may_look_at = time.monotonic() + LOOK_SECONDS
        return await self._fetch()

    async def _join(self) -> None:
        """Wait for a fetch that is under way: it may have begun before a new key was there."""
        if is_pending_here(self._fetching):
            await self._fetch()

    def _miss(self, name: str) -> None:
        self._missing[hash(name)] = time.monotonic() + MISSING_SECONDS
        self._missing.move_to_end(hash(name))
        if len(self._missing) > MOST_MISSING:
            self._missing.popitem(last=False)

    async def _fetch(self) -> bool:
        if not is_pending_here(self._fetching):
            self._fetching = asyncio.create_task(self._fetch_once())
        # Whoever began it may go away while others wait for it.
        return await asyncio.shield(self._fetching)

    async def _fetch_once(self) -> bool:
        try:
            async with asyncio.timeout(FETCH_SECONDS), Fetcher() as fetch:
                self._keys = await self._ask(fetch)
        except (AuthError, TimeoutError) as error:
            self._is_due_at = time.monotonic() + (REFETCH_SECONDS if self._keys else RETRY_SECONDS)
            _logger.warning("The keys of %s cannot be had: %s", redacted(self._issuer), _said(error))
            return False
        self._is_due_at = time.monotonic() + KEPT_SECONDS
        return True

    async def _ask(self, fetch: Fetcher) -> list[Any]:
        url = self._url or await self._look_up(fetch)
        reply = await fetch.get(url)
        listed = None if reply.status != OK or reply.body is None else reply.body.get("keys")
        if not isinstance(listed, list):
            raise AuthError(f"{redacted(url)} is no set of keys (status {reply.status})")
        keys = [key for key in map(_key, listed[:MOST_KEYS]) if key is not None]
        if not keys:
            raise AuthError(f"{redacted(url)} has no key that signatures can be verified with")
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
