"""OAuth: authorization by the login of a person, with the authorization code grant and PKCE (OAuth 2.1)."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dragoman.auth.client.authorization_response import AuthorizationResponse, has_state, validated_code
from dragoman.auth.client.authorizer import Authorizer, scope_text
from dragoman.auth.client.browser_login import CallbackHandler, RedirectHandler, prepare_login
from dragoman.auth.client.contract import Drawers, TokenStorage
from dragoman.auth.client.discovery import require_allowed_issuer
from dragoman.auth.client.loopback_listener import PATH, LoginPages
from dragoman.auth.client.registration import ClientDeclaration, checked_metadata, registered_client
from dragoman.auth.client.signing import ProofKey
from dragoman.auth.client.storage import FileStorage, LoginRecords
from dragoman.auth.client.stored_records import AuthorizationServer, ClientInformation, PendingLogin, Tokens
from dragoman.auth.client.token_endpoint import client_credential, request_tokens, with_offline_access
from dragoman.auth.fetcher import Fetcher
from dragoman.auth.jose import base64url
from dragoman.auth.urls import require_client_metadata_url, require_redirect_uri
from dragoman.errors import AuthError, AuthRequired, TokenRefused, UnregisteredRedirectUri
from dragoman.protocol.urls import redacted
from dragoman.runtime.callables import blocking, coroutine_of
from dragoman.runtime.network import Network, SessionFactory
from dragoman.runtime.portal import portal

VERIFIER_BYTES, STATE_BYTES = 64, 32
PENDING_SECONDS = 600.0
MAX_PENDING = 16
T = TypeVar("T")
_logger = logging.getLogger("dragoman.auth")


class OAuth(Authorizer):
    """Authorizes a client by the login of a person, and renews the tokens without the person.

    Example:
        client = Client("https://mcp.example.com/mcp", auth=OAuth())

    By default the browser opens when the server requires a login, and the tokens are stored in the user's state folder.
    `client_id` (and `client_secret`) or `client_id_metadata_document_url` identify the client; without them the client
    registers itself with `client_metadata` (RFC 7591), which the specification deprecates since 2026-07-28.
    `redirect_handler(url)` opens the URL of the login instead of the browser, and `callback_handler()` returns the
    response; a web application uses `start` and `finish`.
    `dpop=True` binds the tokens to a key of this client. `issuer` is the only authorization server that is used.
    `success_page` and `error_page` are HTML documents that the browser shows at the end instead of the built-in ones.
    `network` is used for requests to authorization servers; by default, the client's.

    Raises:
        InsecureUrl: the issuer is neither an https URL nor on this machine.
        InsecureRedirectUri: the redirect URI is neither an https URL nor on this machine.
        UnregisteredRedirectUri: `client_metadata` does not list the redirect URI.
        InvalidClientMetadataUrl: the URL of the metadata document cannot be a client id.
        ValueError: `callback_handler` is given without a redirect URI.
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
            raise ValueError("A callback_handler needs the address at which the login ends: give redirect_uri=")
        if client_id_metadata_document_url is not None:
            require_client_metadata_url(client_id_metadata_document_url)
        self._declaration = ClientDeclaration(
            metadata, _present(client_id), _present(client_secret), client_id_metadata_document_url
        )
        self._redirect_handler = redirect_handler
        self._callback_handler = callback_handler
        self._pages = LoginPages(success_page, error_page)
        super().__init__(
            f"OAuth {self._declaration.client_id or client_id_metadata_document_url or ''}",
            scope=scope_text(scope),
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
        """Begin a login, and return the URL to send the person to; call `finish` with the parameters of the redirect.

        Example:
            return RedirectResponse(await oauth.start("https://mcp.example.com/mcp"))

        `url` is the URL of the server; it may be left out if a client has used this object.

        Raises:
            AuthError: the authorization server cannot be found, or refuses the client.
            ValueError: the URL or the redirect URI is missing.
        """
        records = self._bind_known(url)
        if self._redirect_uri is None:
            raise ValueError("A web application needs the address at which the login ends: give redirect_uri=")
        async with records.lock(), self._fetcher() as fetch:
            authorization_server = await self._discover(fetch, self._challenge, await self._stored_tokens())
            scope = self._scope_for(self._challenge, authorization_server)
            login, _ = await self._begin_login(fetch, authorization_server, self._redirect_uri, scope)
            stored = await records.client() or ClientInformation()
            newest = sorted(stored.pending.values(), key=lambda one: one.begun_at)[-MAX_PENDING + 1 :]
            stored.pending = {one.state: one for one in [*newest, login] if not _has_expired(one)}
            await records.save_client(stored)
        return self._authorization_url(login)

    async def finish(self, code: str, state: str, iss: str | None = None, *, url: str | None = None) -> None:
        """End a login that `start` began, in this process or in another one.

        Example:
            await oauth.finish(query["code"], query["state"], query.get("iss"), url="https://mcp.example.com/mcp")

        Raises:
            AuthError: the answer belongs to no pending login, comes from another issuer, or yields no tokens.
            ValueError: the URL is missing.
        """
        records = self._bind_known(url)
        async with records.lock():
            stored = await records.client() or ClientInformation()
            pending = (one for one in stored.pending.values() if has_state(one, state) and not _has_expired(one))
            login = next(pending, None)
            if login is None or login.server != self._server:
                raise AuthError("No login waits for this answer; log in again")
            del stored.pending[login.state]
            await records.save_client(stored)
            client = self._client_of_login(stored, login)
            async with self._fetcher(login.authorization_server) as fetch:
                response = AuthorizationResponse(code, state, iss)
                await self._store(await self._redeem(fetch, login, client, response))

    def _bind_known(self, url: str | None) -> LoginRecords:
        known = url or self._url
        if not known:
            raise ValueError("The URL of the server is missing; give url=")
        return self.bind(known)

    def _client_of_login(self, stored: ClientInformation, login: PendingLogin) -> ClientInformation:
        """Return the client that a login began with.

        Raises:
            AuthError: the client now belongs to another authorization server.
        """
        issuer, own_id = login.authorization_server.issuer, self._declaration.client_id
        require_allowed_issuer(self._issuer, issuer, self._server)
        if login.client_id in (stored.client_id, own_id) and stored.issuer not in (None, issuer):
            raise AuthError(f"The client is now registered with {redacted(stored.issuer or '')}; log in again")
        if login.registration is not None:
            return login.registration
        if own_id == login.client_id:
            return self._declaration.information(issuer)
        if own_id is None and stored.client_id == login.client_id:
            return stored
        return ClientInformation(client_id=login.client_id, issuer=issuer)

    # Logging in.

    @property
    def _has_given_credentials(self) -> bool:
        return self._declaration.client_id is not None

    async def _obtain(self, fetch: Fetcher, authorization_server: AuthorizationServer, scope: str | None) -> Tokens:
        try:
            return await self._log_in(fetch, authorization_server, scope)
        except TokenRefused as refused:
            client = await self._records.client()
            # A registration whose scopes are not known may have too few.
            if refused.error != "invalid_scope" or client is None or not client.is_dynamic or client.scope is not None:
                raise
            _logger.info("%s; the client is registered anew", refused)
            return await self._log_in(fetch, authorization_server, scope, is_refused=True)

    async def _log_in(
        self, fetch: Fetcher, authorization_server: AuthorizationServer, scope: str | None, *, is_refused: bool = False
    ) -> Tokens:
        """Log a person in; `is_refused` if the authorization server refuses the scopes to the registered client."""
        _require_code_grant(authorization_server)
        browser = await prepare_login(
            self._redirect_uri,
            _registered_uri(await self._records.client(), authorization_server),
            self._redirect_handler,
            self._callback_handler,
            path=self._callback_path(authorization_server),
            pages=self._pages,
        )
        try:
            login, client = await self._begin_login(
                fetch, authorization_server, browser.redirect_uri, scope, is_refused=is_refused
            )
            response = await browser.log_in(
                self._authorization_url(login), lambda response: has_state(login, response.state)
            )
        finally:
            await browser.close()
        return await self._redeem(fetch, login, client, response)

    def _callback_path(self, authorization_server: AuthorizationServer) -> str:
        """Return the path of the redirect URI on this machine; a client that registers itself has one path per issuer.

        This prevents mix-up attacks: if an issuer sends a person to the login of another issuer, the other issuer knows
        no client with this redirect URI, and sends no code (RFC 9700, section 4.4.2.2).
        """
        if self._has_given_credentials or self._declaration.uses_metadata_url(authorization_server):
            return PATH
        return f"{PATH}/{hashlib.sha256(authorization_server.issuer.encode()).hexdigest()[:16]}"

    async def _begin_login(
        self,
        fetch: Fetcher,
        authorization_server: AuthorizationServer,
        redirect_uri: str,
        scope: str | None,
        *,
        is_refused: bool = False,
    ) -> tuple[PendingLogin, ClientInformation]:
        scope = with_offline_access(scope, authorization_server, may_refresh=self._declaration.may_refresh)
        client = await registered_client(
            fetch,
            authorization_server,
            self._records,
            self._declaration,
            redirect_uri,
            scope,
            dpop=self._uses_dpop,
            is_refused=is_refused,
        )
        stored = await self._records.client()
        is_stored = not client.is_dynamic or (stored is not None and stored.client_id == client.client_id)
        _require_code_grant(authorization_server)
        assert client.client_id is not None
        key = self._key_for(authorization_server)
        login = PendingLogin(
            state=secrets.token_urlsafe(STATE_BYTES),
            verifier=secrets.token_urlsafe(VERIFIER_BYTES),
            redirect_uri=redirect_uri,
            client_id=client.client_id,
            server=self._server,
            authorization_server=authorization_server,
            begun_at=time.time(),
            scope=scope,
            dpop_key=None if key is None else key.private_jwk,
            registration=None if is_stored else client,
        )
        return login, client

    def _authorization_url(self, login: PendingLogin) -> str:
        endpoint = login.authorization_server.authorization_endpoint
        assert endpoint is not None
        parts = urlsplit(endpoint)
        query = {
            "response_type": "code",
            "client_id": login.client_id,
            "redirect_uri": login.redirect_uri,
            "state": login.state,
            "code_challenge": base64url(hashlib.sha256(login.verifier.encode("ascii")).digest()),
            "code_challenge_method": "S256",
            "resource": login.authorization_server.resource,
        }
        if login.scope is not None:
            query["scope"] = login.scope
            if "offline_access" in login.scope.split():
                query["prompt"] = "consent"
        if login.dpop_key is not None:
            query["dpop_jkt"] = ProofKey(login.dpop_key).thumbprint
        own = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
        return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode([*own, *query.items()]), ""))

    async def _redeem(
        self, fetch: Fetcher, login: PendingLogin, client: ClientInformation, response: AuthorizationResponse
    ) -> Tokens:
        """Exchange the code of an authorization response for tokens."""
        form = {
            "grant_type": "authorization_code",
            "code": validated_code(login, response, self._secrets),
            "redirect_uri": login.redirect_uri,
            "code_verifier": login.verifier,
        }
        if login.dpop_key is not None:
            self._use_key(login.dpop_key)
        key = None if login.dpop_key is None else self._key
        credential = client_credential(client, login.authorization_server)
        try:
            tokens = await request_tokens(fetch, login.authorization_server, form, credential, key)
        except TokenRefused as refused:
            if refused.error == "invalid_client":
                await self._forget_client()
            raise
        if login.registration is not None:
            stored = await self._records.client() or ClientInformation()
            login.registration.pending = stored.pending
            await self._records.save_client(login.registration)
        tokens.requested_scope = login.scope
        tokens.scope = tokens.scope or login.scope
        return self._require_bound(tokens)

    # Renewing.

    def _is_renewable(self, tokens: Tokens) -> bool:
        return tokens.refresh_token is not None

    async def _renew(self, fetch: Fetcher, tokens: Tokens, authorization_server: AuthorizationServer) -> Tokens:
        client = self._client_for_renewal(await self._records.client(), authorization_server)
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        credential = client_credential(client, authorization_server)
        key = None if tokens.dpop_key is None else self._key
        return await request_tokens(fetch, authorization_server, form, credential, key, renewed=tokens)

    def _client_for_renewal(
        self, stored: ClientInformation | None, authorization_server: AuthorizationServer
    ) -> ClientInformation:
        issuer = authorization_server.issuer
        if stored is not None and stored.issuer not in (None, issuer):
            raise AuthError(f"The client is registered with {redacted(stored.issuer or '')}, not {redacted(issuer)}")
        if self._has_given_credentials:
            return self._declaration.information(issuer)
        if stored is not None and stored.is_usable:
            return stored
        if self._declaration.uses_metadata_url(authorization_server):
            return ClientInformation(client_id=self._declaration.metadata_url)
        raise AuthError("The registration of the client was not kept in the storage; log in again")

    async def _forget_client(self) -> bool:
        stored = await self._records.client()
        if stored is None or not stored.is_dynamic:
            return False
        await self._records.save_client(None)
        return True


class StoredLogin(OAuth):
    """An `OAuth` that uses and renews a login that was made before, and starts none.

    Example:
        oauth = StoredLogin(lambda scopes: AuthRequired("Log in again"), storage=storage)

    `refusal` returns the error that is raised instead of a login. Its parameter has the scopes that the server wants
    and the login lacks; it is empty if the login has expired.
    """

    def __init__(self, refusal: Callable[[list[str]], AuthRequired], **options: Any) -> None:
        super().__init__(**options)
        self._refusal = refusal

    async def _obtain(self, fetch: Fetcher, authorization_server: AuthorizationServer, scope: str | None) -> Tokens:  # noqa: ARG002
        tokens, wanted = self._tokens, (scope or "").split()
        if tokens is None or tokens.is_expired:
            raise self._refusal([])
        raise self._refusal([name for name in wanted if name not in tokens.scopes])


class BlockingLogin:
    """The blocking `start` and `finish` of an `OAuth`, for web applications that do not await."""

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


def _registered_uri(stored: ClientInformation | None, authorization_server: AuthorizationServer) -> str | None:
    """Return the redirect URI of a dynamic registration, so that the registration can be used again."""
    if stored is None or not stored.is_dynamic or stored.issuer != authorization_server.issuer:
        return None
    return stored.redirect_uris[0] if stored.redirect_uris else None


def _require_code_grant(authorization_server: AuthorizationServer) -> None:
    issuer = redacted(authorization_server.issuer)
    if authorization_server.authorization_endpoint is None:
        raise AuthError(f"{issuer} has no authorization_endpoint: nobody can log in there")
    # MUST (2025-11-25, 2026-07-28): refuse to continue unless the metadata names S256.
    if not authorization_server.has_pkce:
        raise AuthError(f"{issuer} does not say that it supports PKCE with S256; no login is safe there")


def _has_expired(login: PendingLogin) -> bool:
    return login.begun_at + PENDING_SECONDS < time.time()
