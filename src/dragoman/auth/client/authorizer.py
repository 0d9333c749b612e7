"""Authorizer: the base of the `auth=` objects. It adds tokens to requests, renews them, and answers challenges.

An authorizer belongs to the URL of its first request. It reads its storage once, and then uses the tokens in memory.

The token task obtains and renews tokens. There is one token task at a time. Every request that needs a new token waits
for it, and cancelling such a request does not cancel it. The token task takes the lock of the storage and first reads
the storage again, because another process may have changed the tokens already.

For each task, an `_Attempt` records the token of the task's last request. If there is a newer token when the challenge
to that request arrives, the request is sent again. The attempt also bounds the cost of one request: one renewal and one
login for 401, two logins with more scopes for 403. A demand for scopes that were granted already is an error. After a
failed login for more scopes, a demand for the same scopes is an error for a minute.

Tokens, registrations and secrets belong to the issuer that they were first used with, or to the issuer that the author
names. If the server names another issuer, that issuer gets none of them:

    credentials of the author                       the authorizer raises an AuthError
    login of a person, the server names the issuer  the person logs in at the other issuer
    login of a person, the server names no issuer   the authorizer raises an AuthError: a hostile server would stop
                                                    naming its issuer, and would get the tokens itself
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from dragoman.auth.client.challenges import (
    INSUFFICIENT_SCOPE,
    Challenge,
    header_values,
    needs_dpop_nonce,
    offered_schemes,
    reason_text,
    usable_challenge,
)
from dragoman.auth.client.contract import Drawers, TokenStorage
from dragoman.auth.client.discovery import discover
from dragoman.auth.client.signing import DPOP_ALGORITHM, ProofKey
from dragoman.auth.client.storage import LoginRecords, MemoryStorage
from dragoman.auth.client.stored_records import AuthorizationServer, Tokens
from dragoman.auth.client.token_endpoint import chosen_scope, joined_scopes
from dragoman.auth.fetcher import Fetcher
from dragoman.auth.redaction import Secrets
from dragoman.auth.urls import canonical_url, covers, require_secure
from dragoman.errors import AuthError, AuthRequired, InsecureUrl, TokenRefused
from dragoman.protocol.urls import redacted
from dragoman.runtime.network import Network, SessionFactory
from dragoman.runtime.tasks import cancel_and_wait, is_being_cancelled, is_pending_here, retrieve_exception

UNAUTHORIZED, FORBIDDEN = 401, 403
MAX_STEP_UPS = 2
MAX_NONCES = 2
MAX_CHALLENGES = 6
RENEWAL_PAUSE = 30.0
STEP_UP_PAUSE = 60.0
CLOSE_SECONDS = 5.0
_UNKNOWN_CLIENT = frozenset({"invalid_client", "unauthorized_client"})
_logger = logging.getLogger("dragoman.auth")


class _Attempt(Struct):
    """The token and the counters of one request and its repetitions."""

    sent_token: str | None = None
    is_repeated: bool = False
    challenges: int = 0
    renewed: bool = False
    logged_in: bool = False
    step_ups: int = 0
    nonces: int = 0


class Authorizer(ABC):
    """Authorizes the requests to one server; subclasses obtain the tokens."""

    _records: LoginRecords
    """The storage of this server; set by `bind`."""
    _refreshes = True
    """Whether tokens are renewed by a refresh token, and not by the same grant again."""

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
        self._requires_dpop = self._uses_dpop = dpop
        self._key: ProofKey | None = None
        self._make_session = http_client_factory
        self.network: Network | None = None
        """The network for requests to authorization servers; a client sets its own network here if this is None."""
        self.extra_scope: str | None = None
        """Scopes that every login asks for, in addition to those that the server names."""
        self._secrets = Secrets()
        self._url = ""
        """The URL of the server as it was given; empty before `bind`."""
        self._server = ""
        """The canonical URL of the server."""
        self._tokens: Tokens | None = None
        self._is_loaded = False
        self._challenge: Challenge | None = None
        self._token_task: asyncio.Task[Any] | None = None
        self._step_up_after: dict[frozenset[str], float] = {}
        """The time from which a demand for the same scopes is answered again, by the scopes."""
        self._attempts: WeakKeyDictionary[asyncio.Task[Any], _Attempt] = WeakKeyDictionary()
        self._renew_after = 0.0
        self._was_login = False
        """Whether the last token task obtained tokens, and did not renew or load them."""
        self._is_renewing = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redacted(self._url) if self._url else 'not used yet'})"

    # The contract.

    def bind(self, url: str) -> LoginRecords:
        """Bind the authorizer to a server, and return the storage of that server.

        Raises:
            InsecureUrl: the URL is not secure, or the authorizer belongs to another server already.
        """
        if url and url == self._url:
            return self._records
        require_secure(url, "The server's address")
        canonical = canonical_url(url)
        if self._url and canonical == self._server:
            return self._records
        if self._url:
            raise InsecureUrl(
                f"These credentials belong to {redacted(self._server)} and are not sent to {redacted(url)};"
                " give each address an authorization of its own"
            )
        self._url, self._server = url, canonical
        self._records = LoginRecords(self._storage, f"{canonical}\0{self._identity}")
        return self._records

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers that authorize a request; empty while there is no token.

        Raises:
            InsecureUrl: the credentials belong to another URL, or the URL is not secure.
        """
        self.bind(url)
        if not self._is_loaded:
            self._use(await self._stored_tokens())
            self._is_loaded = True
        tokens = self._tokens
        if tokens is not None and tokens.expires_soon:
            await self._renew_early(tokens)
            tokens = self._tokens
        attempt = self._known_attempt()
        if attempt is None or not attempt.is_repeated:
            attempt = self._new_attempt()
        attempt.is_repeated = False
        if tokens is None:
            attempt.sent_token = None
            return {}
        attempt.sent_token = tokens.access_token
        headers = {"Authorization": f"{tokens.token_type} {tokens.access_token}"}
        if tokens.is_dpop:
            headers["DPoP"] = self._proof_key().proof(method, url, tokens.access_token)
        return headers

    async def challenged(self, status: int, headers: Mapping[str, str], method: str, url: str) -> bool:  # noqa: ARG002
        """Obtain the credentials that a 401 or 403 response requires, and tell whether to send the request again.

        Raises:
            AuthError: the required credentials cannot be obtained.
        """
        self.bind(url)
        attempt = self._known_attempt() or self._new_attempt()
        attempt.challenges += 1
        again = attempt.challenges <= MAX_CHALLENGES and await self._answer_challenge(status, headers, url, attempt)
        attempt.is_repeated = again
        return again

    async def renew(self, url: str) -> None:
        """Renew the stored tokens for a server now, although they have not expired.

        Raises:
            AuthRequired: there are no tokens that can be renewed, or the authorization server refuses to renew them.
            AuthError: the renewal failed, and may succeed later.
        """
        self.bind(url)
        async with self._locked() as stored:
            known = None if stored is None else stored.authorization_server
            if stored is None or known is None or not self._is_renewable(stored):
                raise AuthRequired("There is no login that can be renewed; log in")
            async with self._fetcher(known) as fetch:
                if not await self._renew_and_store(fetch, stored, known):
                    raise AuthRequired("The authorization server does not renew this login; log in again")

    async def require_extra_scope(self, url: str) -> None:
        """Obtain tokens with the `extra_scope` now, unless the stored tokens have it.

        Raises:
            AuthError: the tokens cannot be obtained.
        """
        self.bind(url)
        scope = self.extra_scope
        if scope is not None:
            await self._run(lambda: self._obtain_scopes(None, scope, None))

    async def close(self) -> None:
        """End the token task; stored tokens stay stored."""
        task, self._token_task = self._token_task, None
        if not is_pending_here(task):
            return
        if self._is_renewing:
            # The server may have used up the refresh token already; its answer with the next one must not be lost.
            await asyncio.wait([task], timeout=CLOSE_SECONDS)
        await cancel_and_wait(task)

    # One request.

    def _known_attempt(self) -> _Attempt | None:
        task = asyncio.current_task()
        return None if task is None else self._attempts.get(task)

    def _new_attempt(self) -> _Attempt:
        attempt = _Attempt(sent_token=None if self._tokens is None else self._tokens.access_token)
        task = asyncio.current_task()
        if task is not None:
            self._attempts[task] = attempt
        return attempt

    async def _answer_challenge(self, status: int, headers: Mapping[str, str], url: str, attempt: _Attempt) -> bool:
        challenge = usable_challenge(headers)
        if status == UNAUTHORIZED:
            nonce = next(iter(header_values(headers, "dpop-nonce")), None)
            if self._key is not None and self._key.remember_nonce(url, nonce) and needs_dpop_nonce(headers):
                attempt.nonces += 1
                if attempt.nonces <= MAX_NONCES:
                    return True
            schemes = offered_schemes(headers)
            self._uses_dpop = self._uses_dpop or ("dpop" in schemes and "bearer" not in schemes)
            return await self._answer_unauthorized(challenge, attempt)
        if status == FORBIDDEN and challenge is not None and challenge.error == INSUFFICIENT_SCOPE and challenge.scope:
            return await self._step_up(challenge, challenge.scope, attempt)
        return False

    async def _has_newer_token(self, attempt: _Attempt) -> bool:
        """Tell whether there is a newer token than the request's; wait first for a running token task."""

        def is_newer() -> bool:
            return self._tokens is not None and self._tokens.access_token != attempt.sent_token

        if not is_newer() and is_pending_here(self._token_task):
            await self._wait_for(self._token_task)
        return is_newer()

    async def _answer_unauthorized(self, challenge: Challenge | None, attempt: _Attempt) -> bool:
        if await self._has_newer_token(attempt):
            attempt.renewed, attempt.logged_in = True, attempt.logged_in or self._was_login
            return True
        if attempt.logged_in:
            raise AuthRequired(
                f"{redacted(self._server)} refuses the token that was just given out for it"
                f"{reason_text(challenge, self._secrets)}; is it the right server?",
                UNAUTHORIZED,
            )
        self._challenge = challenge
        sent_token, may_renew = attempt.sent_token, not attempt.renewed
        attempt.renewed = True
        await self._run(lambda: self._reauthorize(challenge, sent_token, may_renew=may_renew))
        attempt.logged_in = self._was_login
        return True

    async def _step_up(self, challenge: Challenge, scope: str, attempt: _Attempt) -> bool:
        if await self._has_newer_token(attempt):
            return True
        demanded = frozenset(scope.split())
        if attempt.step_ups >= MAX_STEP_UPS or self._step_up_after.get(demanded, 0.0) > time.monotonic():
            raise AuthRequired(
                f"{redacted(self._server)} asks again for a scope that the login did not bring,"
                f" {self._secrets.quoted(scope)}{reason_text(challenge, self._secrets)}",
                FORBIDDEN,
            )
        attempt.step_ups += 1
        self._step_up_after[demanded] = time.monotonic() + STEP_UP_PAUSE
        sent_token = attempt.sent_token
        await self._run(lambda: self._obtain_scopes(challenge, scope, sent_token))
        self._step_up_after[demanded] = inf
        return True

    # The token task.

    async def _run(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Wait for the token task; start it if none runs."""
        if not is_pending_here(self._token_task):
            self._token_task = asyncio.get_running_loop().create_task(begin())
            self._token_task.add_done_callback(retrieve_exception)
        assert self._token_task is not None
        await self._wait_for(self._token_task)

    async def _wait_for(self, task: asyncio.Task[Any]) -> None:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not is_being_cancelled():
                raise AuthError(f"The login to {redacted(self._server)} was cancelled") from None
            raise

    async def _stored_tokens(self) -> Tokens | None:
        """Return the stored tokens, unless they are for another server, or the author names another issuer."""
        stored = await self._records.tokens()
        if stored is None or self._issuer not in (None, stored.issuer):
            return None
        # An author may have given the same storage to the authorizers of several servers.
        known = stored.authorization_server
        return stored if known is None or covers(known.resource, self._url) else None

    def _use(self, tokens: Tokens | None) -> None:
        self._tokens = tokens
        if tokens is None:
            return
        self._secrets.add(tokens.access_token, tokens.refresh_token)
        if tokens.dpop_key is not None and tokens.is_dpop:
            self._use_key(tokens.dpop_key)
            self._uses_dpop = True

    async def _store(self, tokens: Tokens | None) -> None:
        self._use(tokens)
        self._is_loaded = True
        await self._records.save_tokens(tokens)

    async def _renew_early(self, tokens: Tokens) -> None:
        """Renew tokens that expire soon; a failure is ignored, and the server's challenge is answered later."""
        known = tokens.authorization_server
        if known is None or not self._is_renewable(tokens) or time.monotonic() < self._renew_after:
            return
        if is_pending_here(self._token_task) and not tokens.is_expired:
            return
        with suppress(AuthError):
            await self._run(lambda: self._renew_under_lock(tokens.access_token))

    async def _renew_under_lock(self, sent_token: str) -> None:
        try:
            async with self._records.lock():
                stored = await self._stored_tokens()
                if stored is None or stored.access_token != sent_token or stored.authorization_server is None:
                    self._use(stored)
                    return
                async with self._fetcher(stored.authorization_server) as fetch:
                    await self._renew_and_store(fetch, stored, stored.authorization_server)
        except AuthError as error:
            self._renew_after = time.monotonic() + RENEWAL_PAUSE
            _logger.warning(
                "The token for %s could not be renewed before it expires: %s", redacted(self._server), error
            )

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[Tokens | None]:
        """Hold the lock of the storage for the block, and load the stored tokens."""
        async with self._records.lock():
            stored = await self._stored_tokens()
            self._use(stored)
            self._was_login = False
            yield stored

    async def _reauthorize(self, challenge: Challenge | None, sent_token: str | None, *, may_renew: bool) -> None:
        """Get another token, by renewal if `may_renew`, else by a login or grant."""
        async with self._locked() as stored:
            if stored is not None and stored.access_token != sent_token and not stored.is_expired:
                return
            async with self._fetcher() as fetch:
                authorization_server = await self._discover(fetch, challenge, stored)
                if stored is not None and stored.issuer != authorization_server.issuer:
                    _logger.info("The tokens for %s are not of its authorization server", redacted(self._server))
                    await self._store(None)
                    stored = None
                if stored is not None and may_renew and await self._try_to_renew(fetch, stored, authorization_server):
                    return
                self._step_up_after.clear()
                scope = self._scope_for(challenge, authorization_server)
                await self._store(await self._obtain(fetch, authorization_server, scope))
                self._was_login = True

    def _scope_for(self, challenge: Challenge | None, authorization_server: AuthorizationServer) -> str | None:
        """Return the scope that a login asks for."""
        chosen = chosen_scope(challenge, authorization_server, self._scope)
        return joined_scopes([*(chosen or "").split(), *(self.extra_scope or "").split()])

    async def _obtain_scopes(self, challenge: Challenge | None, scope: str, sent_token: str | None) -> None:
        async with self._locked() as stored:
            scopes = [] if stored is None else stored.scopes
            if stored is not None and stored.access_token != sent_token and set(scope.split()) <= set(scopes):
                return
            async with self._fetcher() as fetch:
                authorization_server = await self._discover(fetch, challenge, stored)
                wider = joined_scopes([*scopes, *scope.split()])
                await self._store(await self._obtain(fetch, authorization_server, wider))
                self._was_login = True

    async def _try_to_renew(self, fetch: Fetcher, stored: Tokens, authorization_server: AuthorizationServer) -> bool:
        if not self._refreshes or not self._is_renewable(stored):
            return False
        try:
            return await self._renew_and_store(fetch, stored, authorization_server)
        except AuthError as error:
            _logger.warning("The token for %s could not be renewed: %s", redacted(self._server), error)
            return False

    async def _renew_and_store(self, fetch: Fetcher, stored: Tokens, authorization_server: AuthorizationServer) -> bool:
        """Renew tokens, and tell whether that succeeded; tokens that are refused for good are deleted.

        Raises:
            AuthError: the renewal failed, and may succeed later.
        """
        self._is_renewing = True
        try:
            await self._store(await self._renew(fetch, stored, authorization_server))
        except TokenRefused as refused:
            is_unknown = refused.error in _UNKNOWN_CLIENT and await self._forget_client()
            if not is_unknown and refused.error != "invalid_grant":
                raise
            await self._store(None)
            return False
        finally:
            self._is_renewing = False
        return True

    def _fetcher(self, known: AuthorizationServer | None = None) -> Fetcher:
        """Return a fetcher for a known authorization server, or for the discovery of one."""
        return Fetcher(
            self._make_session,
            server=self._url,
            in_private_network=known is not None and known.in_private_network,
            secrets=self._secrets,
            network=self.network,
        )

    # The issuer.

    async def _discover(
        self, fetch: Fetcher, challenge: Challenge | None, stored: Tokens | None
    ) -> AuthorizationServer:
        """Return the authorization server, unless the stored tokens or the author's credentials belong to another one.

        Raises:
            AuthError: tokens or credentials belong to another issuer, or there is no authorization server.
        """
        known = None if stored is None else stored.authorization_server
        found = await discover(fetch, self._url, challenge, known, self._issuer)
        if self._issuer is not None:
            return found
        client = await self._records.client()
        for owner in (None if stored is None else stored.issuer, None if client is None else client.issuer):
            if owner not in (None, found.issuer) and (self._has_given_credentials or found.is_assumed):
                raise AuthError(
                    f"The credentials belong to {redacted(owner or '')}, and {redacted(self._server)} now wants tokens"
                    f" of {redacted(found.issuer)}, which gets none of them. If the server has moved there, give"
                    " issuer= with the new one, or forget the old login (dragoman auth logout) and log in again"
                )
        return found

    @property
    def _has_given_credentials(self) -> bool:
        """Whether the author gave credentials, which belong to one authorization server."""
        return True

    # DPoP.

    def _proof_key(self) -> ProofKey:
        if self._key is None:
            self._key = ProofKey()
        return self._key

    def _use_key(self, private_jwk: dict[str, Any]) -> None:
        """Use a stored key; if it is in use already, its nonces are kept."""
        if self._key is None or self._key.private_jwk != private_jwk:
            self._key = ProofKey(private_jwk)

    def _key_for(self, authorization_server: AuthorizationServer) -> ProofKey | None:
        """Return the key to bind tokens to, if DPoP is used.

        Raises:
            AuthError: the authorization server does not support the algorithm.
        """
        if not self._uses_dpop:
            return None
        supported = authorization_server.dpop_algorithms
        if supported is not None and DPOP_ALGORITHM not in supported:
            raise AuthError(f"{redacted(authorization_server.issuer)} does not take DPoP proofs with {DPOP_ALGORITHM}")
        return self._proof_key()

    def _require_bound(self, tokens: Tokens) -> Tokens:
        """Return the tokens, if they are bound to a key or `dpop` is not required.

        Raises:
            AuthError: the tokens are not bound to a key.
        """
        if self._requires_dpop and not tokens.is_dpop:
            raise AuthError(f"{redacted(tokens.issuer or '')} does not bind tokens to a key; leave out dpop=True")
        return tokens

    # The methods of subclasses.

    @abstractmethod
    def _is_renewable(self, tokens: Tokens) -> bool:
        """Tell whether tokens can be renewed without a person."""

    @abstractmethod
    async def _renew(self, fetch: Fetcher, tokens: Tokens, authorization_server: AuthorizationServer) -> Tokens:
        """Return new tokens that replace the given ones."""

    @abstractmethod
    async def _obtain(self, fetch: Fetcher, authorization_server: AuthorizationServer, scope: str | None) -> Tokens:
        """Return tokens, for the first time or with another scope."""

    async def _forget_client(self) -> bool:
        """Delete a registration that the authorization server no longer knows, if the client can register again."""
        return False


def required_text(name: str, value: str | None, error: type[AuthError]) -> str:
    """Return a text; raise `error` if it is missing or blank."""
    if not isinstance(value, str) or not value.strip():
        raise error(f"{name} is missing or blank")
    return value


def scope_text(scope: str | Iterable[str] | None) -> str | None:
    """Return a scope, given as a text or as a list, as one text."""
    return joined_scopes(scope.split() if isinstance(scope, str) else scope or ())
