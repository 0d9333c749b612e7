"""A person lets a client in: authorization code with PKCE (OAuth 2.1)."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dragoman.auth.addresses import require_client_metadata_url, require_redirect_uri
from dragoman.auth.client.authorizer import Authorizer, spelled_scope
from dragoman.auth.client.discovery import require_named
from dragoman.auth.client.interaction import CallbackHandler, RedirectHandler, interact
from dragoman.auth.client.listener import PATH, LoginPages
from dragoman.auth.client.records import Authority, ClientInformation, Pending, Tokens
from dragoman.auth.client.redirects import AuthorizationResponse, checked_code, is_for
from dragoman.auth.client.registration import Applicant, checked_metadata, identify
from dragoman.auth.client.scopes import chosen, with_offline
from dragoman.auth.client.signing import ProofKey, unpadded
from dragoman.auth.client.storage import FileStorage
from dragoman.auth.client.token_endpoint import credential, request_tokens
from dragoman.auth.contract import Drawers, TokenStorage
from dragoman.auth.fetching import Fetcher
from dragoman.errors import AuthError, TokenRefused, UnregisteredRedirectUri
from dragoman.protocol.urls import redacted
from dragoman.runtime.callables import blocking, coroutine_of
from dragoman.runtime.network import Network, SessionFactory
from dragoman.runtime.portal import portal

VERIFIER_BYTES, STATE_BYTES = 64, 32
PENDING_SECONDS = 600.0
MOST_PENDING = 16
T = TypeVar("T")


class OAuth(Authorizer):
    """Lets a person log in once, and keeps the client in from then on.

    Example:
        client = Client("https://mcp.example.com/mcp", auth=OAuth())

    Without anything else the browser is opened when the server asks for a login, and the tokens are kept in the user's
    state folder. `client_id` (and `client_secret`) or `client_id_metadata_document_url` say what the client is known
    by; else it registers itself, with what `client_metadata` says (RFC 7591). `redirect_handler(url)` and
    `callback_handler()` carry out the login in their own way; a web application uses `start` and `finish`. `dpop=True`
    binds the tokens to a key of this client. `issuer` is the only authorization server that people are sent to.
    `success_page` and `error_page` are HTML documents that the browser shows at the end instead of the built-in ones.
    `network` says how authorization servers are reached; without it that of the client counts.

    Raises:
        InsecureUrl: the issuer is neither https nor on this machine.
        InsecureRedirectUri: the redirect URI is neither https nor on this machine.
        UnregisteredRedirectUri: `client_metadata` does not list it.
        InvalidClientMetadataUrl: the URL of the metadata document cannot be a client id.
        ValueError: there is a callback_handler and no redirect URI.
    """

    def __init__(
        self,
        *,
        client_metadata: Mapping[str, Any] | None = None,
        redirect_uri: str | None = None,
        redirect_handler: RedirectHandler | None = None,
        callback_handler: CallbackHandler | None = None,
        scope: str | Iterable[str] | None = None,
        storage: TokenStorage | Drawers | None = None,
        client_id_metadata_document_url: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        issuer: str | None = None,
        dpop: bool = False,
        success_page: str | None = None,
        error_page: str | None = None,
        network: Network | None = None,
        http_client_factory: SessionFactory | None = None,
    ) -> None:
        metadata = checked_metadata(client_metadata)
        self._redirect_uri = _redirect_uri(redirect_uri, metadata)
        if callback_handler is not None and self._redirect_uri is None:
            raise ValueError("A callback_handler needs to know where the login ends: give redirect_uri=")
        if client_id_metadata_document_url is not None:
            require_client_metadata_url(client_id_metadata_document_url)
        self._applicant = Applicant(
            metadata, _present(client_id), _present(client_secret), client_id_metadata_document_url
        )
        self._redirect_handler = redirect_handler
        self._callback_handler = callback_handler
        self._pages = LoginPages(success_page, error_page)
        known_by = self._applicant.client_id or client_id_metadata_document_url or ""
        super().__init__(
            f"OAuth {known_by}",
            scope=spelled_scope(scope),
            storage=FileStorage() if storage is None else storage,
            issuer=issuer,
            dpop=dpop,
            http_client_factory=http_client_factory,
        )
        self.network = network

    # Web applications.

    @property
    def blocking(self) -> BlockingLogin:
        """The blocking twins of `start` and `finish`, for web applications that do not await.

        Example:
            return redirect(oauth.blocking.start("https://mcp.example.com/mcp"))
        """
        return BlockingLogin(self)

    async def start(self, url: str | None = None) -> str:
        """Begin a login, and return the address to send the person to; `finish` is called with what comes back.

        Example:
            return RedirectResponse(await oauth.start("https://mcp.example.com/mcp"))

        The URL of the server is needed unless a client has used this object.

        Raises:
            AuthError: the authorization server cannot be found, or does not take this client.
            ValueError: there is no URL, or no redirect URI.
        """
        keeper = self.bind(self._known_url(url))
        if self._redirect_uri is None:
            raise ValueError("A web application needs to say where the login ends: give redirect_uri=")
        async with keeper.lock(), self._fetcher() as fetch:
            authority = await self._discover(fetch, self._challenge, await self._kept())
            scope = self._asked_scope(authority, chosen(self._challenge, authority, self._scope))
            client = await self._identify(fetch, authority, self._redirect_uri, scope)
            pending = self._pending(authority, client, self._redirect_uri, scope)
            kept = await keeper.client() or ClientInformation()
            fresh = sorted(kept.pending.values(), key=lambda one: one.begun_at)[-MOST_PENDING + 1 :]
            kept.pending = {one.state: one for one in [*fresh, pending] if not _is_stale(one)}
            await keeper.save_client(kept)
        return self._authorization_url(pending)

    async def finish(self, code: str, state: str, iss: str | None = None, *, url: str | None = None) -> None:
        """End a login that `start` began, in this process or in another one.

        Example:
            await oauth.finish(query["code"], query["state"], query.get("iss"), url="https://mcp.example.com/mcp")

        Raises:
            AuthError: the answer belongs to no login that waits, comes from elsewhere, or gives no tokens.
            ValueError: there is no URL.
        """
        keeper = self.bind(self._known_url(url))
        async with keeper.lock():
            kept = await keeper.client() or ClientInformation()
            pending = next((one for one in kept.pending.values() if is_for(one, state) and not _is_stale(one)), None)
            if pending is None or pending.server != self._server:
                raise AuthError("No login waits for this answer; log in again")
            del kept.pending[pending.state]
            await keeper.save_client(kept)
            response = AuthorizationResponse(code, state, iss)
            client = self._client_of(kept, pending)
            async with self._fetcher(pending.authority) as fetch:
                await self._keep(await self._redeem(fetch, pending, client, response))

    def _known_url(self, url: str | None) -> str:
        found = url or self._url
        if not found:
            raise ValueError("Which server is it? Give its URL")
        return found

    def _client_of(self, kept: ClientInformation, pending: Pending) -> ClientInformation:
        """Return what the client is known by where a login began.

        Raises:
            AuthError: the client belongs to another authorization server by now.
        """
        require_named(self._issuer, pending.authority.issuer, self._server)
        own = self._applicant
        is_kept, known = kept.client_id == pending.client_id, own.client_id == pending.client_id
        if (is_kept or known) and kept.issuer not in (None, pending.authority.issuer):
            raise AuthError(f"The client belongs to {redacted(kept.issuer or '')} by now; log in again")
        if is_kept and own.client_id is None:
            return kept
        return ClientInformation(
            client_id=pending.client_id,
            client_secret=own.client_secret if known else None,
            token_endpoint_auth_method=own.metadata.get("token_endpoint_auth_method") if known else None,
            issuer=pending.authority.issuer,
        )

    # Logging in.

    @property
    def _has_given_credentials(self) -> bool:
        return self._applicant.client_id is not None

    async def _obtain(self, fetch: Fetcher, authority: Authority, scope: str | None) -> Tokens:
        _require_code_flow(authority)
        scope = self._asked_scope(authority, scope)
        interaction = await interact(
            self._redirect_uri,
            _registered_uri(await self._keeper.client(), authority),
            self._redirect_handler,
            self._callback_handler,
            path=self._callback_path(authority),
            pages=self._pages,
        )
        try:
            client = await self._identify(fetch, authority, interaction.redirect_uri, scope)
            pending = self._pending(authority, client, interaction.redirect_uri, scope)
            response = await interaction.log_in(
                self._authorization_url(pending), lambda response: is_for(pending, response.state)
            )
        finally:
            await interaction.close()
        return await self._redeem(fetch, pending, client, response)

    def _callback_path(self, authority: Authority) -> str:
        """Return where logins end on this machine: for a client that registers itself, at a path of each issuer.

        An issuer that sends people to the login of another one gets no code from there: the other one knows no client
        with this redirect URI (RFC 9700, section 4.4.2.2).
        """
        own = self._applicant
        if own.client_id is not None or (own.metadata_url is not None and authority.takes_metadata_documents):
            return PATH
        return f"{PATH}/{hashlib.sha256(authority.issuer.encode()).hexdigest()[:16]}"

    def _asked_scope(self, authority: Authority, scope: str | None) -> str | None:
        return with_offline(scope, authority, may_refresh=self._applicant.may_refresh)

    async def _identify(
        self, fetch: Fetcher, authority: Authority, redirect_uri: str, scope: str | None
    ) -> ClientInformation:
        return await identify(fetch, authority, self._keeper, self._applicant, redirect_uri, scope, dpop=self._proves)

    def _pending(
        self, authority: Authority, client: ClientInformation, redirect_uri: str, scope: str | None
    ) -> Pending:
        _require_code_flow(authority)
        assert client.client_id is not None
        key = self._key_for(authority)
        return Pending(
            state=secrets.token_urlsafe(STATE_BYTES),
            verifier=secrets.token_urlsafe(VERIFIER_BYTES),
            redirect_uri=redirect_uri,
            client_id=client.client_id,
            server=self._server,
            authority=authority,
            begun_at=time.time(),
            scope=scope,
            dpop_key=None if key is None else key.plain(),
        )

    def _authorization_url(self, pending: Pending) -> str:
        endpoint = pending.authority.authorization_endpoint
        assert endpoint is not None
        parts = urlsplit(endpoint)
        asked = {
            "response_type": "code",
            "client_id": pending.client_id,
            "redirect_uri": pending.redirect_uri,
            "state": pending.state,
            "code_challenge": unpadded(hashlib.sha256(pending.verifier.encode("ascii")).digest()),
            "code_challenge_method": "S256",
            "resource": pending.authority.resource,
        }
        if pending.scope is not None:
            asked["scope"] = pending.scope
            if "offline_access" in pending.scope.split():
                asked["prompt"] = "consent"
        if pending.dpop_key is not None:
            asked["dpop_jkt"] = ProofKey(pending.dpop_key).thumbprint
        kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in asked]
        return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode([*kept, *asked.items()]), ""))

    async def _redeem(
        self, fetch: Fetcher, pending: Pending, client: ClientInformation, response: AuthorizationResponse
    ) -> Tokens:
        code = checked_code(pending, response, self._secrets)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
        }
        if pending.dpop_key is not None and (self._key is None or self._key.plain() != pending.dpop_key):
            self._key = ProofKey(pending.dpop_key)
        key = None if pending.dpop_key is None else self._key
        try:
            tokens = await request_tokens(fetch, pending.authority, form, credential(client, pending.authority), key)
        except TokenRefused as refused:
            if refused.error == "invalid_client":
                await self._forget_client()
            raise
        tokens.requested_scope = pending.scope
        tokens.scope = tokens.scope or pending.scope
        return self._require_bound(tokens)

    # Renewing.

    def _is_renewable(self, tokens: Tokens) -> bool:
        return tokens.refresh_token is not None

    async def _renew(self, fetch: Fetcher, tokens: Tokens, authority: Authority) -> Tokens:
        kept = await self._keeper.client()
        client = self._client_for_renewal(kept, authority)
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        return await request_tokens(
            fetch,
            authority,
            form,
            credential(client, authority),
            None if tokens.dpop_key is None else self._key,
            known=tokens,
        )

    def _client_for_renewal(self, kept: ClientInformation | None, authority: Authority) -> ClientInformation:
        own = self._applicant
        if kept is not None and kept.issuer not in (None, authority.issuer):
            raise AuthError(
                f"The client is registered with {redacted(kept.issuer or '')}, not {redacted(authority.issuer)}"
            )
        if own.client_id is not None:
            method = own.metadata.get("token_endpoint_auth_method")
            return ClientInformation(
                client_id=own.client_id, client_secret=own.client_secret, token_endpoint_auth_method=method
            )
        if kept is not None and kept.is_usable:
            return kept
        if own.metadata_url is not None and authority.takes_metadata_documents:
            return ClientInformation(client_id=own.metadata_url)
        raise AuthError("What the client is known by was not kept")

    async def _forget_client(self) -> bool:
        kept = await self._keeper.client()
        if kept is None or not kept.is_dynamic:
            return False
        await self._keeper.save_client(None)
        return True


class BlockingLogin:
    """A login of a web application whose functions block."""

    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
        return portal().run(coroutine_of(method, self._oauth, *args, **kwargs))

    start = blocking(OAuth.start)
    finish = blocking(OAuth.finish)


def _present(value: str | None) -> str | None:
    return value if value is not None and value.strip() else None


def _redirect_uri(given: str | None, metadata: dict[str, Any]) -> str | None:
    listed = metadata.get("redirect_uris")
    uri = given if given is not None or not listed else listed[0]
    if uri is None:
        return None
    require_redirect_uri(uri)
    if listed is not None and uri not in listed:
        raise UnregisteredRedirectUri(f"client_metadata does not list the redirect URI {redacted(uri)}; add it")
    return str(uri)


def _registered_uri(kept: ClientInformation | None, authority: Authority) -> str | None:
    """Return the address that the client was registered with, so that the registration can be used again."""
    if kept is None or not kept.is_dynamic or kept.issuer != authority.issuer or not kept.redirect_uris:
        return None
    return kept.redirect_uris[0]


def _require_code_flow(authority: Authority) -> None:
    if authority.authorization_endpoint is None:
        raise AuthError(f"{redacted(authority.issuer)} has no authorization_endpoint: nobody can log in there")
    # MUST (2025-11-25, 2026-07-28): refuse to go on unless the metadata promise S256.
    if not authority.has_pkce:
        raise AuthError(
            f"{redacted(authority.issuer)} does not say that it supports PKCE with S256; no login is safe there"
        )


def _is_stale(pending: Pending) -> bool:
    return pending.begun_at + PENDING_SECONDS < time.time()
