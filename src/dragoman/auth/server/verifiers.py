"""Verifiers of bearer tokens: `Jwt` uses the keys of the issuer, and `Introspection` sends a request to the issuer.

A verdict is an `Identity` or a `BadToken`. If a token cannot be checked, because the issuer cannot be reached, an error
is raised and there is no verdict: a refusal would make the client discard a token that may be valid.

An `Introspection` caches the issuer's answer about a token for 30 seconds. Requests with the same token wait for one
answer. At most 100 tokens are checked at a time; the others wait for their turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.auth.fetcher import OK, Fetcher, basic_client_authorization
from dragoman.auth.jose import require_joserfc, unverified_part
from dragoman.auth.server.identity import MAX_DETAIL, BadToken, Identity
from dragoman.auth.server.issuer_keys import IssuerKeys
from dragoman.auth.urls import require_secure
from dragoman.errors import AuthError
from dragoman.protocol.urls import redacted
from dragoman.runtime.tasks import retrieve_exception
from dragoman.types.memo import Recent

LEEWAY_SECONDS = 60
ANSWER_SECONDS = 30.0
MAX_ANSWERS = 10_000
MAX_ASKED = 100
MAX_WAITING = 1000
TURN_SECONDS = 10.0
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
_MAX_TIME = 2**63
_logger = logging.getLogger("dragoman.auth")


class _ClaimsVerifier(ABC):
    """The base of both verifiers: checks issuer, audience and `nbf`."""

    issuer: str | None
    _clock: Callable[[], float]

    async def verify(self, token: str, audience: str) -> Identity | None:
        """Return the identity that a token belongs to; None if the token is refused.

        Raises:
            AuthError: the token cannot be checked now.
        """
        verdict = await self.judge(token, audience)
        return None if isinstance(verdict, BadToken) else verdict

    @abstractmethod
    async def judge(self, token: str, audience: str) -> Identity | BadToken:
        """Return the identity that a token belongs to, or why the token is refused.

        Raises:
            AuthError: the token cannot be checked now.
        """

    def _mismatch(self, claims: Mapping[str, Any], audience: str) -> BadToken | None:
        """Return why a token with these claims is not valid here or now; None if the token is valid."""
        if self.issuer is not None and claims.get("iss") != self.issuer:
            return BadToken("The token is of another issuer", f"{_shown('iss', claims)}, not {self.issuer!r}")
        audiences = claims.get("aud")
        if audience not in audiences if isinstance(audiences, list) else audience != audiences:
            return BadToken("The token is for another audience", f"{_shown('aud', claims)}, not {audience!r}")
        begins = claims.get("nbf", 0)
        if not _is_number(begins) or self._clock() < begins - LEEWAY_SECONDS:
            return BadToken("The token is not valid yet", "its nbf is in the future; are the clocks right?")
        return None


def _shown(name: str, holder: Mapping[str, Any]) -> str:
    """Return a claim or a header of a token, for a log."""
    return f"its {name} is {repr(holder.get(name))[:MAX_DETAIL]}"


def _is_number(value: Any) -> bool:
    # Decoders accept NaN and Infinity, with which a token would never expire. The comparison is False for both.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_TIME


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes in claims, given as a text with spaces or as a list."""
    found = claims.get("scope", claims.get("scp"))
    parts = found.split() if isinstance(found, str) else found
    return frozenset(part for part in parts if isinstance(part, str)) if isinstance(parts, list) else frozenset()


class Jwt(_ClaimsVerifier):
    """Verifies signed tokens (RFC 9068) with the public keys of their issuer.

    Example:
        Jwt(issuer="https://login.example.com", jwks_url="https://login.example.com/keys")

    Without `jwks_url` the URL of the keys is taken from the issuer's metadata. `audience` is the audience that tokens
    must have; by default the server's resource. `algorithms` are the accepted algorithms; `none` and shared secrets are
    never accepted.

    Raises:
        ValueError: an algorithm is not accepted, or a URL is neither https nor on this machine.
        AuthError: the package joserfc is not installed.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_url: str | None = None,
        audience: str | None = None,
        algorithms: Iterable[str] = ("RS256", "ES256", "PS256", "Ed25519", "EdDSA"),
        principal_claim: str = "sub",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = require_secure(issuer, "The issuer")
        if jwks_url is not None:
            require_secure(jwks_url, "The address of the keys")
        self._audience = audience
        self._algorithms = list(algorithms)
        for algorithm in self._algorithms:
            if algorithm not in ALGORITHMS:
                raise ValueError(f"{algorithm!r} is not accepted; use some of {', '.join(ALGORITHMS)}")
        self._principal_claim = principal_claim
        self._clock = clock
        self._keys = IssuerKeys(issuer, jwks_url)
        require_joserfc("Verifying tokens")

    def __repr__(self) -> str:
        return f"<Jwt of {self.issuer}>"

    async def judge(self, token: str, audience: str) -> Identity | BadToken:
        """Return the identity that a token belongs to, or why the token is refused.

        Raises:
            AuthError: the issuer's keys cannot be fetched.
        """
        header = unverified_part(token, 0)
        if header is None:
            return BadToken("The token is not a signed token (JWT)")
        if header.get("alg") not in self._algorithms:
            return BadToken("The token is signed by an algorithm that is not accepted", _shown("alg", header))
        for key in await self._keys.find(header.get("kid")):
            claims = self._claims(token, key)
            if claims is not None:
                return self._mismatch(claims, self._audience or audience) or self._verdict(claims)
        return BadToken("The token is not signed by a key of its issuer", _shown("kid", header))

    def _claims(self, token: str, key: Any) -> dict[str, Any] | None:
        """Return the claims of a token if this key signed it."""
        from joserfc import jwt

        try:
            return jwt.decode(token, key, algorithms=self._algorithms).claims
        except Exception as error:
            # An untrusted token may make the decoder raise any exception; the token is refused.
            _logger.debug("A token was refused: %s", type(error).__name__)
            return None

    def _verdict(self, claims: Mapping[str, Any]) -> Identity | BadToken:
        expires: Any = claims.get("exp")
        now, principal = self._clock(), claims.get(self._principal_claim)
        if not _is_number(expires):
            return BadToken("The token does not say when it expires")
        if now >= expires + LEEWAY_SECONDS:
            return BadToken("The token has expired", f"{now - expires:.0f} seconds ago")
        if not isinstance(principal, str) or not principal.strip():
            return BadToken("The token does not say whom it belongs to", f"there is no claim {self._principal_claim}")
        return Identity(principal, scopes_of(claims), dict(claims))


class _Inquiries:
    """The introspection requests under way in one event loop: one for each token, and a bounded number at a time."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, asyncio.Task[Identity | BadToken]] = {}
        self._turns = asyncio.Semaphore(MAX_ASKED)

    async def join(
        self, key: bytes, ask: Callable[[], Coroutine[Any, Any, Identity | BadToken]]
    ) -> Identity | BadToken:
        """Return the verdict on a token; all calls with the same key share one request.

        Raises:
            AuthError: there is no answer, or too many tokens wait.
        """
        task = self._tasks.get(key)
        if task is None:
            if len(self._tasks) >= MAX_WAITING:
                raise AuthError("Tokens cannot be verified: too many of them wait for their issuer; try again")
            task = self._tasks[key] = asyncio.create_task(self._in_turn(ask))
            task.add_done_callback(lambda done: self._end(key, done))
        # The task that began this may be cancelled while other tasks wait for it.
        return await asyncio.shield(task)

    async def _in_turn(self, ask: Callable[[], Coroutine[Any, Any, Identity | BadToken]]) -> Identity | BadToken:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise AuthError("Tokens cannot be verified: their issuer does not answer fast enough") from None
        try:
            return await ask()
        finally:
            self._turns.release()

    def _end(self, key: bytes, task: asyncio.Task[Identity | BadToken]) -> None:
        del self._tasks[key]
        retrieve_exception(task)


class Introspection(_ClaimsVerifier):
    """Verifies tokens by requests to the issuer's introspection endpoint (RFC 7662).

    Example:
        Introspection("https://login.example.com/introspect", client_id="api", client_secret=secret)

    `issuer` is the issuer that tokens must have, if it is given. `audience` is the audience that tokens must have; by
    default the server's resource. An answer is cached for 30 seconds, but not longer than its token is valid. At most
    100 tokens are checked at a time.

    Raises:
        ValueError: a URL is neither https nor on this machine.
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
        self.issuer = issuer if issuer is None else require_secure(issuer, "The issuer")
        self._url = require_secure(url, "The address that is asked about tokens")
        self._audience = audience
        self._clock = clock
        self._authorization = basic_client_authorization(client_id, client_secret)
        self._answers: Recent[bytes, tuple[float, Identity | BadToken]] = Recent(MAX_ANSWERS)
        self._inquiries: WeakKeyDictionary[asyncio.AbstractEventLoop, _Inquiries] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<Introspection at {self._url}>"

    async def judge(self, token: str, audience: str) -> Identity | BadToken:
        """Return the identity that a token belongs to, or why the token is refused.

        Raises:
            AuthError: the issuer cannot be reached, or too many tokens wait.
        """
        audience = self._audience or audience
        # The key is a hash, so that no token is kept in memory, and includes the audience of the verdict.
        key = hashlib.sha256(f"{audience} {token}".encode(errors="surrogatepass")).digest()
        known = self._answers.get(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        inquiries = self._inquiries.setdefault(asyncio.get_running_loop(), _Inquiries())
        return await inquiries.join(key, lambda: self._inquire(key, token, audience))

    async def _inquire(self, key: bytes, token: str, audience: str) -> Identity | BadToken:
        claims = await self._ask(token)
        verdict = self._verdict(claims, audience)
        kept = ANSWER_SECONDS if isinstance(verdict, BadToken) else min(self._seconds_left(claims), ANSWER_SECONDS)
        self._answers[key] = time.monotonic() + kept, verdict
        return verdict

    async def _ask(self, token: str) -> dict[str, Any]:
        async with Fetcher() as fetch:
            form = {"token": token, "token_type_hint": "access_token"}
            reply = await fetch.post_form(self._url, form, {"Authorization": self._authorization})
        if reply.status != OK or reply.body is None:
            raise AuthError(f"{redacted(self._url)} cannot be asked about tokens: status {reply.status}")
        return reply.body

    def _verdict(self, claims: Mapping[str, Any], audience: str) -> Identity | BadToken:
        if claims.get("active") is not True:
            return BadToken("The token is not active", "its issuer says that it expired, was revoked, or is unknown")
        mismatch = self._mismatch({"iss": self.issuer, **claims}, audience)
        if mismatch is not None:
            return mismatch
        if self._seconds_left(claims) <= 0:
            return BadToken("The token has expired", _shown("exp", claims))
        # An empty `sub` is not replaced by the next claim: all users of one client would be the same principal.
        named = (claims.get(name) for name in ("sub", "username", "client_id"))
        principal = next((value for value in named if value is not None), None)
        if not isinstance(principal, str) or not principal.strip():
            return BadToken("The token does not say whom it belongs to", "there is no sub, username or client_id")
        return Identity(principal, scopes_of(claims), dict(claims))

    def _seconds_left(self, claims: Mapping[str, Any]) -> float:
        """Return the seconds until a token expires; without `exp`, the seconds for which an answer is cached."""
        expires: Any = claims.get("exp")
        if expires is None:
            return ANSWER_SECONDS
        return float(expires - self._clock()) if _is_number(expires) else 0.0
