"""What every way of getting tokens shares: sending them, renewing them in time, and meeting challenges.

Theory of operation: an authorizer belongs to the first address that it is asked about. It loads what its storage has
once, and from then on answers from memory. Whatever changes tokens is a flight: one task at a time, which everybody
who needs it joins, and which goes on when one of them is cancelled. A flight holds the lock of the storage and reads
it again first, for another process may have done the work already.

A challenge is measured by the token that the request was sent with, which is remembered per task: if there is another
token by now, the request is simply sent again. The same record bounds what one request may cause: one renewal and one
login for 401, and for 403 two logins with more scopes, never twice for the same demand; one that failed may be met
again after a while.

Tokens, registrations and secrets belong to the issuer that they were used with first, or to the one that the author
names. A server that points to another issuer gets none of them. Credentials that the author gave are refused then. A
login of a person begins anew with the other issuer, if the server names it; if the server only stopped naming the old
one, that is refused too, because it is what a server does that wants to take the issuer's place.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from dragoman.auth.addresses import canonical, covers, require_secure
from dragoman.auth.challenges import INSUFFICIENT_SCOPE, Challenge, asked, nonce_wanted, schemes, values
from dragoman.auth.client.discovery import discover
from dragoman.auth.client.records import Authority, Tokens
from dragoman.auth.client.scopes import chosen, joined
from dragoman.auth.client.signing import DPOP_ALGORITHM, ProofKey
from dragoman.auth.client.storage import Keeper, MemoryStorage
from dragoman.auth.contract import Drawers, TokenStorage
from dragoman.auth.fetching import Fetcher
from dragoman.auth.secrecy import Secrets
from dragoman.errors import AuthError, AuthRequired, InsecureUrl, TokenRefused
from dragoman.protocol.urls import redacted
from dragoman.runtime.network import Network, SessionFactory
from dragoman.runtime.tasks import cancel_and_wait, is_being_cancelled, is_pending_here, retrieve_exception

UNAUTHORIZED, FORBIDDEN = 401, 403
MOST_STEPS = 2
MOST_NONCES = 2
MOST_CHALLENGES = 6
RENEWAL_PAUSE = 30.0
STEP_PAUSE = 60.0
CLOSE_SECONDS = 5.0
_STALE_CLIENT = frozenset({"invalid_client", "unauthorized_client"})
_logger = logging.getLogger("dragoman.auth")


class _RequestAttempt(Struct):
    """What was done for one request."""

    sent: str | None = None
    is_repeated: bool = False
    challenges: int = 0
    renewed: bool = False
    logged_in: bool = False
    steps: int = 0
    nonces: int = 0


class Authorizer(ABC):
    """Authorizes the requests to one server; how tokens are had is up to its kinds."""

    _keeper: Keeper
    """Where tokens are kept, once this belongs to a server."""
    _refreshes = True
    """Whether renewing is another thing than getting tokens anew."""

    def __init__(
        self,
        identity: str,
        *,
        scope: str | None = None,
        storage: TokenStorage | Drawers | None = None,
        issuer: str | None = None,
        dpop: bool = False,
        http_client_factory: SessionFactory | None = None,
    ) -> None:
        self._identity = identity
        self._scope = scope
        self._issuer = None if issuer is None else require_secure(issuer, "The issuer")
        self._storage = MemoryStorage() if storage is None else storage
        self._must_prove = dpop
        self._proves = dpop
        self._key: ProofKey | None = None
        self._make_session = http_client_factory
        self.network: Network | None = None
        """How authorization servers are reached; a client sets its own here if there is none."""
        self._secrets = Secrets()
        self._url = ""
        """The address of the server, once this belongs to one."""
        self._server = ""
        self._tokens: Tokens | None = None
        self._is_loaded = False
        self._challenge: Challenge | None = None
        self._flight: asyncio.Task[Any] | None = None
        self._stepped: dict[frozenset[str], float] = {}
        """Until when a demand is not met again."""
        self._attempts: WeakKeyDictionary[asyncio.Task[Any], _RequestAttempt] = WeakKeyDictionary()
        self._renew_after = 0.0
        self._was_login = False
        self._is_renewing = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redacted(self._url) if self._url else 'not used yet'})"

    # The contract.

    def bind(self, url: str) -> Keeper:
        """Belong to a server from now on.

        Raises:
            InsecureUrl: the address is not safe, or the authorizer belongs to another server already.
        """
        if url and url == self._url:
            return self._keeper
        require_secure(url, "The server's address")
        spelled = canonical(url)
        if self._url and spelled == self._server:
            return self._keeper
        if self._url:
            raise InsecureUrl(
                f"These credentials belong to {redacted(self._server)} and are not sent to {redacted(url)};"
                " give each address an authorization of its own"
            )
        self._url, self._server = url, spelled
        self._keeper = Keeper(self._storage, f"{spelled}\0{self._identity}")
        return self._keeper

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers of a request that is sent now; empty when nothing is known yet.

        Raises:
            InsecureUrl: the address is not the one that these credentials are for, or not a safe one.
        """
        self.bind(url)
        if not self._is_loaded:
            await self._load()
        tokens = self._tokens
        if tokens is not None and tokens.expires_soon:
            await self._renew_early(tokens)
            tokens = self._tokens
        attempt = self._known_attempt()
        if attempt is None or not attempt.is_repeated:
            attempt = self._begin_attempt()
        attempt.is_repeated = False
        attempt.sent = None if tokens is None else tokens.access_token
        return {} if tokens is None else self._shown_to_server(tokens, method, url)

    async def challenged(self, status: int, headers: Mapping[str, str], method: str, url: str) -> bool:  # noqa: ARG002
        """Get what a 401 or 403 asks for, and tell whether the request should be sent again.

        Raises:
            AuthError: what the server asks for cannot be had.
        """
        self.bind(url)
        attempt = self._known_attempt() or self._begin_attempt()
        attempt.challenges += 1
        again = attempt.challenges <= MOST_CHALLENGES and await self._meet(status, headers, url, attempt)
        attempt.is_repeated = again
        return again

    async def close(self) -> None:
        """End what is under way; tokens that were had are kept."""
        flight, self._flight = self._flight, None
        if not is_pending_here(flight):
            return
        if self._is_renewing:
            # A refresh token may be used up by now, and the one that replaces it is on its way.
            await asyncio.wait([flight], timeout=CLOSE_SECONDS)
        await cancel_and_wait(flight)

    # One request.

    def _known_attempt(self) -> _RequestAttempt | None:
        task = asyncio.current_task()
        return None if task is None else self._attempts.get(task)

    def _begin_attempt(self) -> _RequestAttempt:
        attempt = _RequestAttempt(sent=None if self._tokens is None else self._tokens.access_token)
        task = asyncio.current_task()
        if task is not None:
            self._attempts[task] = attempt
        return attempt

    def _shown_to_server(self, tokens: Tokens, method: str, url: str) -> dict[str, str]:
        found = {"Authorization": f"{tokens.token_type} {tokens.access_token}"}
        if tokens.token_type == "DPoP":  # noqa: S105
            found["DPoP"] = self._proof_key().proof(method, url, tokens.access_token)
        return found

    def _has_news(self, attempt: _RequestAttempt) -> bool:
        return self._tokens is not None and self._tokens.access_token != attempt.sent

    async def _meet(self, status: int, headers: Mapping[str, str], url: str, attempt: _RequestAttempt) -> bool:
        challenge = asked(headers)
        if status == UNAUTHORIZED:
            if self._takes_nonce(headers, url, attempt):
                return True
            if "dpop" in schemes(headers) and "bearer" not in schemes(headers):
                self._proves = True
            return await self._meet_unauthorized(challenge, attempt)
        if status == FORBIDDEN and challenge is not None and challenge.error == INSUFFICIENT_SCOPE and challenge.scope:
            return await self._step_up(challenge, attempt)
        return False

    def _takes_nonce(self, headers: Mapping[str, str], url: str, attempt: _RequestAttempt) -> bool:
        nonce = next(iter(values(headers, "dpop-nonce")), None)
        if self._key is None or not self._key.remember_nonce(url, nonce) or not nonce_wanted(headers):
            return False
        attempt.nonces += 1
        return attempt.nonces <= MOST_NONCES

    async def _meet_unauthorized(self, challenge: Challenge | None, attempt: _RequestAttempt) -> bool:
        if is_pending_here(self._flight) and not self._has_news(attempt):
            await self._join(None)
        if self._has_news(attempt):
            attempt.renewed, attempt.logged_in = True, attempt.logged_in or self._was_login
            return True
        if attempt.logged_in:
            said = "" if challenge is None or not challenge.description else self._secrets.quoted(challenge.description)
            raise AuthRequired(
                f"{redacted(self._server)} refuses the token that was just given out for it"
                f"{': ' + said.rstrip('.') if said else ''}; is it the right server?",
                UNAUTHORIZED,
            )
        self._challenge = challenge
        sent, may_renew = attempt.sent, not attempt.renewed
        attempt.renewed = True
        await self._join(lambda: self._reauthorize(challenge, sent, may_renew=may_renew))
        attempt.logged_in = self._was_login
        return True

    async def _step_up(self, challenge: Challenge, attempt: _RequestAttempt) -> bool:
        if is_pending_here(self._flight) and not self._has_news(attempt):
            await self._join(None)
        if self._has_news(attempt):
            return True
        demanded = frozenset((challenge.scope or "").split())
        if attempt.steps >= MOST_STEPS or self._stepped.get(demanded, 0.0) > time.monotonic():
            raise AuthRequired(
                f"{redacted(self._server)} wants a scope that it was not satisfied with before:"
                f" {self._secrets.quoted(challenge.scope or '')}",
                FORBIDDEN,
            )
        attempt.steps += 1
        self._stepped[demanded] = time.monotonic() + STEP_PAUSE
        sent = attempt.sent
        await self._join(lambda: self._widen(challenge, demanded, sent))
        self._stepped[demanded] = inf
        return True

    # Flights.

    async def _join(self, begin: Callable[[], Coroutine[Any, Any, Any]] | None) -> Any:
        """Wait for the flight that is under way, or for a new one."""
        if not is_pending_here(self._flight):
            if begin is None:
                return None
            self._flight = asyncio.get_running_loop().create_task(begin())
            self._flight.add_done_callback(retrieve_exception)
        assert self._flight is not None
        flight = self._flight
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            if flight.cancelled() and not is_being_cancelled():
                raise AuthError(f"Getting into {redacted(self._server)} was given up") from None
            raise

    async def _load(self) -> None:
        self._adopt(await self._kept())
        self._is_loaded = True

    async def _kept(self) -> Tokens | None:
        """Return the tokens that are kept, unless they are for another server, or the author names another issuer."""
        kept = await self._keeper.tokens()
        if kept is None or self._issuer not in (None, kept.issuer):
            return None
        # A storage of the author may be used for several servers by mistake.
        return kept if kept.authority is None or covers(kept.authority.resource, self._url) else None

    def _adopt(self, tokens: Tokens | None) -> None:
        self._tokens = tokens
        if tokens is not None:
            self._secrets.add(tokens.access_token, tokens.refresh_token)
        if tokens is not None and tokens.dpop_key is not None and tokens.token_type == "DPoP":  # noqa: S105
            if self._key is None or self._key.plain() != tokens.dpop_key:
                self._key = ProofKey(tokens.dpop_key)
            self._proves = True

    async def _keep(self, tokens: Tokens | None) -> None:
        self._adopt(tokens)
        self._is_loaded = True
        await self._keeper.save_tokens(tokens)

    async def _renew_early(self, tokens: Tokens) -> None:
        """Renew before it is too late; when that fails, the server says what is needed."""
        if tokens.authority is None or not self._is_renewable(tokens) or time.monotonic() < self._renew_after:
            return
        if is_pending_here(self._flight) and not tokens.is_expired:
            return
        with suppress(AuthError):
            await self._join(lambda: self._renew_under_lock(tokens.access_token))

    async def _renew_under_lock(self, sent: str) -> None:
        try:
            async with self._keeper.lock():
                kept = await self._kept()
                if kept is None or kept.access_token != sent or kept.authority is None:
                    self._adopt(kept)
                    return
                async with self._fetcher(kept.authority) as fetch:
                    await self._renewed(fetch, kept, kept.authority)
        except AuthError as error:
            self._renew_after = time.monotonic() + RENEWAL_PAUSE
            _logger.warning(
                "The token for %s could not be renewed before it expires: %s", redacted(self._server), error
            )

    async def _reauthorize(self, challenge: Challenge | None, sent: str | None, *, may_renew: bool) -> None:
        """Get a token that the server takes."""
        async with self._keeper.lock():
            kept = await self._kept()
            self._adopt(kept)
            self._was_login = False
            if kept is not None and kept.access_token != sent and not kept.is_expired:
                return
            async with self._fetcher() as fetch:
                authority = await self._discover(fetch, challenge, kept)
                if kept is not None and kept.issuer != authority.issuer:
                    _logger.info("The tokens for %s are not of its authorization server", redacted(self._server))
                    await self._keep(None)
                    kept = None
                if kept is not None and may_renew and await self._try_to_renew(fetch, kept, authority):
                    return
                self._stepped.clear()
                await self._keep(await self._obtain(fetch, authority, chosen(challenge, authority, self._scope)))
                self._was_login = True

    async def _widen(self, challenge: Challenge, demanded: frozenset[str], sent: str | None) -> None:
        """Get a token with more scopes."""
        async with self._keeper.lock():
            kept = await self._kept()
            self._adopt(kept)
            self._was_login = False
            scopes = [] if kept is None else kept.scopes
            if kept is not None and kept.access_token != sent and demanded <= set(scopes):
                return
            async with self._fetcher() as fetch:
                authority = await self._discover(fetch, challenge, kept)
                scope = joined([*scopes, *(challenge.scope or "").split()])
                await self._keep(await self._obtain(fetch, authority, scope))
                self._was_login = True

    async def _try_to_renew(self, fetch: Fetcher, kept: Tokens, authority: Authority) -> bool:
        if not self._refreshes or not self._is_renewable(kept):
            return False
        try:
            return await self._renewed(fetch, kept, authority)
        except AuthError as error:
            _logger.warning("The token for %s could not be renewed: %s", redacted(self._server), error)
            return False

    async def _renewed(self, fetch: Fetcher, kept: Tokens, authority: Authority) -> bool:
        """Renew tokens without a person, and tell whether that worked; what is refused for good is forgotten.

        Raises:
            AuthError: it may work another time.
        """
        self._is_renewing = True
        try:
            await self._keep(await self._renew(fetch, kept, authority))
        except TokenRefused as refused:
            if refused.error in _STALE_CLIENT and await self._forget_client():
                await self._keep(None)
                return False
            if refused.error != "invalid_grant":
                raise
            await self._keep(None)
            return False
        finally:
            self._is_renewing = False
        return True

    def _fetcher(self, known: Authority | None = None) -> Fetcher:
        """Return what asks an authorization server that is known, or finds out which one it is."""
        is_inside = known is not None and known.is_inside
        return Fetcher(
            self._make_session, server=self._url, is_inside=is_inside, secrets=self._secrets, network=self.network
        )

    # Whose tokens these are.

    async def _discover(self, fetch: Fetcher, challenge: Challenge | None, kept: Tokens | None) -> Authority:
        """Return who gives out tokens, if what is known here belongs to that issuer or may be had from it anew.

        Raises:
            AuthError: it belongs to another issuer, or the authorization server cannot be found.
        """
        known = None if kept is None else kept.authority
        authority = await discover(fetch, self._url, challenge, known, self._issuer)
        if self._issuer is not None:
            return authority
        client = await self._keeper.client()
        for owner in (None if kept is None else kept.issuer, None if client is None else client.issuer):
            if owner not in (None, authority.issuer) and (self._has_given_credentials or authority.is_assumed):
                raise AuthError(
                    f"The credentials belong to {redacted(owner or '')}, and {redacted(self._server)} now wants tokens"
                    f" of {redacted(authority.issuer)}, which gets none of them. If the server has moved there, give"
                    " issuer= with the new one, or forget the old login (dragoman auth logout) and log in again"
                )
        return authority

    @property
    def _has_given_credentials(self) -> bool:
        """Whether the author gave what the client is known by, for one authorization server."""
        return True

    # Proofs of possession.

    def _proof_key(self) -> ProofKey:
        if self._key is None:
            self._key = ProofKey()
        return self._key

    def _key_for(self, authority: Authority) -> ProofKey | None:
        """Return the key that tokens of an authorization server are to be bound to, if they are.

        Raises:
            AuthError: they must be, and the server knows none of our algorithms.
        """
        if not self._proves:
            return None
        known = authority.dpop_algorithms
        if known is not None and DPOP_ALGORITHM not in known:
            raise AuthError(f"{redacted(authority.issuer)} does not take DPoP proofs with {DPOP_ALGORITHM}")
        return self._proof_key()

    def _require_bound(self, tokens: Tokens) -> Tokens:
        """Return tokens, unless they are to be bound to a key and are not.

        Raises:
            AuthError: they are not.
        """
        if self._must_prove and tokens.token_type != "DPoP":  # noqa: S105
            where = "" if tokens.authority is None else redacted(tokens.authority.issuer)
            raise AuthError(f"{where} does not bind tokens to a key; leave out dpop=True")
        return tokens

    # What the kinds do.

    @abstractmethod
    def _is_renewable(self, tokens: Tokens) -> bool:
        """Tell whether tokens can be renewed without a person."""

    @abstractmethod
    async def _renew(self, fetch: Fetcher, tokens: Tokens, authority: Authority) -> Tokens:
        """Return new tokens for old ones."""

    @abstractmethod
    async def _obtain(self, fetch: Fetcher, authority: Authority, scope: str | None) -> Tokens:
        """Return tokens, by whatever it takes."""

    async def _forget_client(self) -> bool:
        """Forget a registration that the authorization server does not know any more, if it can be had anew."""
        return False


def required_text(name: str, value: str | None, error: type[AuthError]) -> str:
    """Return a text that must be there."""
    if not isinstance(value, str) or not value.strip():
        raise error(f"{name} is missing or blank")
    return value


def spelled_scope(scope: str | Iterable[str] | None) -> str | None:
    """Return a scope as one text, of a text or of several."""
    return joined(scope.split() if isinstance(scope, str) else scope or ())
