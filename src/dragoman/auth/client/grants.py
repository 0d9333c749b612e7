"""Grants without a person: client credentials, cross-app access, and workload identity (RFC 6749, 7523, 8693)."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import TypedDict, Unpack

from dragoman.auth.client.authorizer import Authorizer, required_text, scope_text
from dragoman.auth.client.contract import Drawers, TokenStorage
from dragoman.auth.client.registration import bind_to_issuer
from dragoman.auth.client.signing import AssertionSigner
from dragoman.auth.client.storage import IssuerStorage
from dragoman.auth.client.stored_records import AuthorizationServer, Tokens
from dragoman.auth.client.token_endpoint import (
    BASIC,
    JWT_BEARER,
    NONE,
    POST,
    PRIVATE_KEY_JWT,
    Credential,
    accepted_body,
    authenticated,
    request_tokens,
    with_offline_access,
)
from dragoman.auth.fetcher import Fetcher, text_member
from dragoman.auth.urls import require_secure
from dragoman.errors import AuthError, InvalidCredentials, TokenRefused
from dragoman.protocol.urls import redacted
from dragoman.runtime.callables import invoke, refuse_unknown
from dragoman.runtime.network import SessionFactory

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105

AssertionProvider = Callable[[str, str], str | Awaitable[str]]
TokenProvider = str | Callable[[], str | Awaitable[str]]


class GrantOptions(TypedDict, total=False):
    """The options of every grant without a person."""

    scope: str | Iterable[str] | None
    """The scopes to request."""
    storage: TokenStorage | Drawers | None
    """Where to store which authorization server the credentials belong to; by default a file of the user."""
    issuer: str | None
    """The only authorization server that gets the credentials."""
    dpop: bool
    """Bind the tokens to a key of this client."""
    http_client_factory: SessionFactory | None
    """Makes the HTTP sessions for authorization servers."""


class _Grant(Authorizer):
    """A grant that needs no refresh token, because it can be repeated at any time."""

    _refreshes = False

    def __init__(self, identity: str, credential: Credential, options: GrantOptions) -> None:
        refuse_unknown(type(self).__name__, options, GrantOptions.__annotations__)
        super().__init__(
            identity,
            scope=scope_text(options.get("scope")),
            storage=IssuerStorage() if options.get("storage") is None else options["storage"],
            issuer=options.get("issuer"),
            dpop=options.get("dpop", False),
            http_client_factory=options.get("http_client_factory"),
        )
        self._credential = credential

    def _is_renewable(self, tokens: Tokens) -> bool:  # noqa: ARG002
        return True

    async def _renew(self, fetch: Fetcher, tokens: Tokens, authorization_server: AuthorizationServer) -> Tokens:
        return await self._obtain(fetch, authorization_server, tokens.requested_scope)

    async def _obtain(self, fetch: Fetcher, authorization_server: AuthorizationServer, scope: str | None) -> Tokens:
        if self._issuer is None:
            await bind_to_issuer(authorization_server.issuer, self._records, self._credential.client_id)
        scope = with_offline_access(scope, authorization_server, may_refresh=False)
        form = {**await self._form(authorization_server), "scope": scope}
        key = self._key_for(authorization_server)
        return self._require_bound(await request_tokens(fetch, authorization_server, form, self._credential, key))

    @abstractmethod
    async def _form(self, authorization_server: AuthorizationServer) -> dict[str, str | None]:
        """Return the fields of the grant."""


class ClientCredentials(_Grant):
    """Authorizes a program by its own credentials (client credentials grant).

    Example:
        client = Client(url, auth=ClientCredentials("reports", os.environ["REPORTS_SECRET"]))

    With `token_endpoint_auth_method="private_key_jwt"` the client signs with `private_key` (a PEM, or a key object of
    `cryptography`) and `signing_algorithm` (ES256 or RS256), and has no secret.

    `issuer` is the only authorization server that gets the credentials. Without it, the credentials belong to the first
    authorization server that the MCP server names, also after a restart.

    Raises:
        InvalidCredentials: a required value is missing or blank, options contradict, or the key cannot sign.
        InsecureUrl: the issuer is neither an https URL nor on this machine.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        token_endpoint_auth_method: str = BASIC,
        private_key: object = None,
        signing_algorithm: str | None = None,
        **options: Unpack[GrantOptions],
    ) -> None:
        required_text("client_id", client_id, InvalidCredentials)
        credential = _credential(client_id, client_secret, token_endpoint_auth_method, private_key, signing_algorithm)
        super().__init__(f"ClientCredentials {client_id}", credential, options)

    async def _form(self, authorization_server: AuthorizationServer) -> dict[str, str | None]:  # noqa: ARG002
        return {"grant_type": "client_credentials"}


def _credential(
    client_id: str, secret: str | None, method: str, private_key: object, algorithm: str | None
) -> Credential:
    if method == PRIVATE_KEY_JWT:
        if secret is not None:
            raise InvalidCredentials("With private_key_jwt there is no client_secret; leave it out")
        if private_key is None:
            raise InvalidCredentials("private_key_jwt needs private_key= and signing_algorithm=")
        return Credential(client_id, None, method, AssertionSigner(client_id, private_key, algorithm))
    if method not in (BASIC, POST):
        raise InvalidCredentials(f"token_endpoint_auth_method must be {BASIC}, {POST} or {PRIVATE_KEY_JWT}")
    if private_key is not None or algorithm is not None:
        raise InvalidCredentials(f"A private key is used with token_endpoint_auth_method={PRIVATE_KEY_JWT!r}")
    return Credential(client_id, required_text("client_secret", secret, InvalidCredentials), method)


class CrossAppAccess(_Grant):
    """Authorizes a program on behalf of a person, by an assertion of the enterprise's identity provider.

    Example:
        exchange = TokenExchange("https://idp.example.com/token", id_token, client_id="idp-client")
        client = Client(url, auth=CrossAppAccess("wiki", secret, assertion_provider=exchange))

    `assertion_provider(audience, resource)` returns the assertion (ID-JAG) for an authorization server and a resource;
    it may be async. The person does not log in at the authorization server. `issuer` is as for `ClientCredentials`.

    Raises:
        InvalidCredentials: a required value is missing or blank.
        InsecureUrl: the issuer is neither an https URL nor on this machine.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        assertion_provider: AssertionProvider,
        **options: Unpack[GrantOptions],
    ) -> None:
        required_text("client_id", client_id, InvalidCredentials)
        if not callable(assertion_provider):
            raise InvalidCredentials("assertion_provider must be a function of the audience and the resource")
        if client_secret is not None:
            required_text("client_secret", client_secret, InvalidCredentials)
        self._provider = assertion_provider
        super().__init__(
            f"CrossAppAccess {client_id}",
            Credential(client_id, client_secret, NONE if client_secret is None else BASIC),
            options,
        )

    async def _form(self, authorization_server: AuthorizationServer) -> dict[str, str | None]:
        assertion = await invoke(self._provider, authorization_server.issuer, authorization_server.resource)
        return {"grant_type": JWT_BEARER, "assertion": required_text("The assertion", assertion, AuthError)}


class TokenExchange:
    """Gets assertions (ID-JAG) from an identity provider in exchange for a person's id token (RFC 8693).

    Example:
        exchange = TokenExchange("https://idp.example.com/token", id_token, client_id="idp-client")

    `id_token` may be a function, plain or async, that returns a valid token.

    Raises:
        InsecureUrl: the token endpoint is neither an https URL nor on this machine.
        InvalidCredentials: a required value is missing or blank.
    """

    def __init__(
        self,
        token_endpoint: str,
        id_token: TokenProvider,
        *,
        client_id: str,
        client_secret: str | None = None,
        scope: str | Iterable[str] | None = None,
        subject_token_type: str = ID_TOKEN,
        http_client_factory: SessionFactory | None = None,
    ) -> None:
        self._url = require_secure(token_endpoint, "The identity provider's token endpoint")
        self._id_token = id_token
        required_text("client_id", client_id, InvalidCredentials)
        self._credential = Credential(client_id, client_secret, NONE if client_secret is None else BASIC)
        self._scope = scope_text(scope)
        self._subject_token_type = subject_token_type
        self._make_session = http_client_factory

    def __repr__(self) -> str:
        return f"<TokenExchange at {self._url}>"

    async def __call__(self, audience: str, resource: str) -> str:
        """Return an assertion for an authorization server and a resource.

        Raises:
            AuthError: the identity provider refuses, or its answer is not an assertion.
        """
        subject = await _given(self._id_token, "The id token")
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": audience,
            "resource": resource,
            "subject_token": subject,
            "subject_token_type": self._subject_token_type,
            **({} if self._scope is None else {"scope": self._scope}),
        }
        fields, headers = authenticated(form, self._credential, self._url)
        async with Fetcher(self._make_session) as fetch:
            fetch.secrets.add(self._credential.secret)
            reply = await fetch.post_form(self._url, fields, headers)
        body = accepted_body(reply, self._url, fetch.secrets)
        assertion = text_member(body, "access_token")
        if body.get("issued_token_type") != ID_JAG or assertion is None:
            raise AuthError(f"{redacted(self._url)} gave something else than an assertion of the type id-jag")
        return assertion


class WorkloadIdentity(_Grant):
    """Authorizes a workload by a token of its platform, without credentials of its own.

    Example:
        client = Client(url, auth=WorkloadIdentity(lambda: Path("/var/run/secrets/token").read_text().strip()))

    `token` is a JWT, or a function, plain or async, that returns a valid one. A token that was refused is not sent
    again. `issuer` is as for `ClientCredentials`.

    Raises:
        InvalidCredentials: the token is blank.
        InsecureUrl: the issuer is neither an https URL nor on this machine.
    """

    def __init__(self, token: TokenProvider, **options: Unpack[GrantOptions]) -> None:
        if not callable(token):
            required_text("token", token, InvalidCredentials)
        self._token = token
        self._presented: bytes | None = None
        self._refused: bytes | None = None
        super().__init__("WorkloadIdentity", Credential(), options)

    async def _form(self, authorization_server: AuthorizationServer) -> dict[str, str | None]:
        token = await _given(self._token, "The workload's token")
        if self._refused == _digest(token):
            issuer = redacted(authorization_server.issuer)
            raise AuthError(f"{issuer} refused this workload's token before; it is not sent again")
        self._presented = _digest(token)
        return {"grant_type": JWT_BEARER, "assertion": token}

    async def _obtain(self, fetch: Fetcher, authorization_server: AuthorizationServer, scope: str | None) -> Tokens:
        try:
            return await super()._obtain(fetch, authorization_server, scope)
        except TokenRefused as refused:
            if refused.error is not None:
                self._refused = self._presented
            raise


async def _given(token: TokenProvider, what: str) -> str:
    return required_text(what, await invoke(token) if callable(token) else token, AuthError)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
