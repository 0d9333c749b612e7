"""A protected server and its authorization server, on two ports of this machine, for real.

Refresh tokens rotate; one that is used twice costs the whole family of tokens its life. Everything that is asked is
written down.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey

from auth.visiting import Browser, person
from dragoman.auth import OAuth

Inner = Callable[[bytes], Awaitable[bytes | str | None]]


@dataclass
class Settings:
    """How the two servers are."""

    path: str = "/mcp"
    resource: str | None = None
    """What the server's metadata call it; None for its address."""
    metadata_at: str | None = "header"
    """Where the server's metadata are: header, path, root, elsewhere, or None."""
    issuers: Any = ...
    """The authorization servers that the server's metadata name; `...` for its own."""
    issuer_path: str = ""
    server_metadata: str | None = "oauth-authorization-server"
    """Which well-known document there is; `appended` is OpenID's with the path first."""
    claimed_issuer: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the authorization server publishes otherwise; None for what it leaves out."""
    challenge_scope: str | None = None
    needed_scopes: frozenset[str] = frozenset()
    resource_scopes: list[str] | None = None
    scopes_supported: list[str] | None = None
    lets_unscoped_clients_ask: bool = True
    """Whether a client that registered without scopes may request any, as with oidc-provider; mcp's server refuses."""
    auth_methods: list[str] | None = field(default_factory=lambda: ["none"])
    pkce: list[str] | None = field(default_factory=lambda: ["S256"])
    takes_documents: Any = False
    registers: bool = True
    iss: str | None = "right"
    """What the answer says of its issuer: right, wrong, slash, or None."""
    advertises_iss: bool = True
    expires_in: float | None = 3600
    gives_refresh: bool = True
    scheme: str = "Bearer"
    wants_nonces: bool = False
    refuses_always: bool = False
    always_insufficient: bool = False
    authorization_query: str = ""
    token_error: dict[str, Any] | None = None
    token_status: int = 400
    echoes_secrets: bool = False
    is_dead: bool = False


class World:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        self.registrations: list[dict[str, Any]] = []
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, dict[str, Any]] = {}
        self.refresh: dict[str, dict[str, Any]] = {}
        self.dead_families: set[str] = set()
        self.proofs: set[str] = set()
        self.nonces = {"server": "server-nonce-1", "authorization": "authorization-nonce-1"}
        self.url = self.issuer = ""
        self.slow: asyncio.Event | None = None
        self.inner: Inner | None = None
        """What serves requests that are let in; without it they are greeted."""
        self._noted = asyncio.Condition()

    # Both servers.

    async def open(self) -> None:
        self._runners: list[web.AppRunner] = []
        authorization = await self._serve(self._authorization)
        server = await self._serve(self._server)
        self.issuer = authorization + self.settings.issuer_path
        self.url = server + self.settings.path

    async def _serve(self, handler: Any) -> str:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handler)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()

    def count(self, what: str) -> int:
        """Return how often a path that ends so was asked for."""
        return sum(path.endswith(what) for _, path, _, _ in self.requests)

    def forms(self, grant: str) -> list[dict[str, str]]:
        """Return the token requests of a grant."""
        return [
            form for _, path, form, _ in self.requests if path.endswith("/token") and form.get("grant_type") == grant
        ]

    async def asked(self, what: str, times: int) -> None:
        """Wait until a path that ends so was asked for so often."""
        async with self._noted:
            await self._noted.wait_for(lambda: self.count(what) >= times)

    async def _note(self, request: web.Request) -> dict[str, str]:
        form: dict[str, str] = {}
        if request.content_type == "application/x-www-form-urlencoded" and request.method == "POST":
            form = dict(parse_qsl((await request.read()).decode(), keep_blank_values=True))
        async with self._noted:
            self.requests.append((request.method, request.path, form, dict(request.headers)))
            self._noted.notify_all()
        return form

    # The protected server.

    async def _server(self, request: web.Request) -> web.StreamResponse:
        await self._note(request)
        path, base = request.path, f"http://{request.host}"
        places = {
            "header": "/.well-known/oauth-protected-resource" + self.settings.path,
            "path": "/.well-known/oauth-protected-resource" + self.settings.path,
            "root": "/.well-known/oauth-protected-resource",
            "elsewhere": "/custom/metadata.json",
        }
        place = places.get(self.settings.metadata_at or "")
        if place is not None and path == place:
            return web.json_response(self._resource_metadata(base))
        if path != self.settings.path:
            return await self._authorization(request) if self.settings.metadata_at is None else web.Response(status=404)
        named = f'resource_metadata="{base}{place}"' if self.settings.metadata_at in ("header", "elsewhere") else ""
        answer = self._protected(request, named)
        return answer if self.inner is None or answer.status != 200 else await self._inside(request, self.inner)

    async def _inside(self, request: web.Request, inner: Inner) -> web.Response:
        if request.method != "POST":
            return web.Response(status=405)
        said = await inner(await request.read())
        return web.Response(status=202) if said is None else web.Response(body=said, content_type="application/json")

    def _resource_metadata(self, base: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "resource": self.settings.resource or base + self.settings.path,
            "authorization_servers": [self.issuer] if self.settings.issuers is ... else self.settings.issuers,
        }
        if self.settings.resource_scopes is not None:
            found["scopes_supported"] = self.settings.resource_scopes
        return found

    def _protected(self, request: web.Request, named: str) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        known = self.access.get(token)
        is_valid = (
            known is not None
            and scheme.lower() == self.settings.scheme.lower()
            and known["expires_at"] > time.time()
            and known["family"] not in self.dead_families
            and not self.settings.refuses_always
        )
        if is_valid and self.settings.scheme == "DPoP":
            refusal = self._proof_refusal(request, token, known["jkt"], "server")
            if refusal is not None:
                return self._challenge(401, f'error="{refusal}"', named, {"DPoP-Nonce": self.nonces["server"]})
        if not is_valid:
            scope = f'scope="{self.settings.challenge_scope}"' if self.settings.challenge_scope else ""
            return self._challenge(401, scope, named)
        assert known is not None
        lacking = self.settings.needed_scopes - set(known["scope"].split())
        if lacking or self.settings.always_insufficient:
            wanted = " ".join(sorted(self.settings.needed_scopes)) or "more"
            return self._challenge(403, f'error="insufficient_scope", scope="{wanted}"', named)
        return web.json_response({"hello": known["client_id"], "scope": known["scope"]})

    def _challenge(self, status: int, *parts: str | dict[str, str]) -> web.Response:
        said = ", ".join(part for part in parts if isinstance(part, str) and part)
        headers = {"WWW-Authenticate": f"{self.settings.scheme} {said}".strip()}
        for part in parts:
            if isinstance(part, dict):
                headers |= part
        return web.json_response({"error": "no"}, status=status, headers=headers)

    # The authorization server.

    async def _authorization(self, request: web.Request) -> web.StreamResponse:
        form = await self._note(request)
        if self.settings.is_dead:
            return web.Response(status=503)
        base, path, prefix = f"http://{request.host}", request.path, self.settings.issuer_path
        kind = self.settings.server_metadata
        documents = {
            "oauth-authorization-server": f"/.well-known/oauth-authorization-server{prefix}",
            "openid-configuration": f"/.well-known/openid-configuration{prefix}",
            "appended": f"{prefix}/.well-known/openid-configuration",
        }
        if kind is not None and path == documents[kind]:
            return web.json_response(self._metadata(base))
        match path.removeprefix(prefix):
            case "/register" if self.settings.registers:
                return await self._register(request)
            case "/authorize":
                return self._authorize(request)
            case "/token":
                if self.slow is not None:
                    await self.slow.wait()
                return self._token(request, form)
        return web.Response(status=404)

    def _metadata(self, base: str) -> dict[str, Any]:
        settings = self.settings
        issuer = base + settings.issuer_path
        found: dict[str, Any] = {
            "issuer": settings.claimed_issuer or issuer,
            "authorization_endpoint": f"{issuer}/authorize{settings.authorization_query}",
            "token_endpoint": f"{issuer}/token",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": settings.pkce,
            "token_endpoint_auth_methods_supported": settings.auth_methods,
            "client_id_metadata_document_supported": settings.takes_documents,
            "authorization_response_iss_parameter_supported": settings.advertises_iss,
            "scopes_supported": settings.scopes_supported,
            "registration_endpoint": f"{issuer}/register" if settings.registers else None,
            "dpop_signing_alg_values_supported": ["ES256"] if settings.scheme == "DPoP" else None,
            **settings.metadata,
        }
        return {name: value for name, value in found.items() if value is not None}

    async def _register(self, request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        self.registrations.append(asked)
        supported, scope = self.settings.scopes_supported, asked.get("scope")
        if supported is not None and scope is not None and not set(scope.split()) <= {*supported}:
            said = {"error": "invalid_client_metadata", "error_description": f"Requested scopes are not valid: {scope}"}
            return web.json_response(said, status=400)
        client_id = f"client-{len(self.clients) + 1}-{secrets.token_hex(4)}"
        made = {"client_id": client_id, "redirect_uris": asked["redirect_uris"]}
        method = asked.get("token_endpoint_auth_method", "client_secret_basic")
        made["token_endpoint_auth_method"] = method
        if method != "none":
            made["client_secret"] = "registered-secret-" + secrets.token_urlsafe(16)
        if scope is not None or not self.settings.lets_unscoped_clients_ask:
            made["scope"] = scope or ""
        self.clients[client_id] = made
        return web.json_response(made, status=201)

    def _authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        client = self.clients.get(asked["client_id"])
        if client is None and not asked["client_id"].startswith("https://"):
            return web.Response(status=400, text="unknown client")
        if client is not None and asked["redirect_uri"] not in client.get("redirect_uris", [asked["redirect_uri"]]):
            return web.Response(status=400, text="unknown redirect URI")
        answer = self._refused_scope(client, asked)
        if not answer:
            code = answer["code"] = "the-code-" + secrets.token_urlsafe(16)
            self.codes[code] = asked
        answer["state"] = asked["state"]
        iss = {
            "right": self._issuer(request),
            "wrong": "https://evil.example.com",
            "slash": self._issuer(request) + "/",
        }
        if self.settings.iss is not None:
            answer["iss"] = iss[self.settings.iss]
        joint = "&" if urlsplit(asked["redirect_uri"]).query else "?"
        return web.Response(status=302, headers={"Location": asked["redirect_uri"] + joint + urlencode(answer)})

    def _refused_scope(self, client: dict[str, Any] | None, asked: dict[str, str]) -> dict[str, str]:
        """Return the error for a scope that the client was not registered with."""
        registered = None if client is None else client.get("scope")
        for scope in asked.get("scope", "").split():
            if registered is not None and scope not in registered.split():
                return {"error": "invalid_scope", "error_description": f"Client was not registered with scope {scope}"}
        return {}

    def _issuer(self, request: web.Request) -> str:
        return f"http://{request.host}{self.settings.issuer_path}"

    # Tokens.

    def _token(self, request: web.Request, form: dict[str, str]) -> web.Response:
        settings = self.settings
        if settings.token_error is not None:
            said = dict(settings.token_error)
            if settings.echoes_secrets:
                said["error_description"] = json.dumps(form) + request.headers.get("Authorization", "")
            return web.json_response(said, status=settings.token_status)
        jkt = None
        if settings.scheme == "DPoP":
            refusal = self._proof_refusal(request, None, None, "authorization")
            if refusal is not None:
                headers = {"DPoP-Nonce": self.nonces["authorization"]}
                return web.json_response({"error": refusal}, status=400, headers=headers)
            jkt = self._jkt(request.headers["DPoP"])
        client_id = self._client(request, form)
        if client_id is None and form.get("grant_type") != JWT_BEARER:
            return web.json_response({"error": "invalid_client"}, status=401)
        match form.get("grant_type"):
            case "authorization_code":
                return self._redeem(form, client_id or "", jkt)
            case "refresh_token":
                return self._rotate(form, client_id or "", jkt)
            case "client_credentials":
                return self._give(client_id or "", form.get("scope", ""), secrets.token_hex(4), jkt, refresh=False)
            case grant if grant == JWT_BEARER:
                if form["assertion"].startswith("bad"):
                    return web.json_response({"error": "invalid_grant"}, status=400)
                return self._give(
                    client_id or "nobody", form.get("scope", ""), secrets.token_hex(4), jkt, refresh=False
                )
        return web.json_response({"error": "unsupported_grant_type"}, status=400)

    def _client(self, request: web.Request, form: dict[str, str]) -> str | None:
        header = request.headers.get("Authorization", "")
        if form.get("client_assertion"):
            return str(jwt.decode(form["client_assertion"], self.clients["signer"]["key"]).claims["sub"])
        if header.startswith("Basic "):
            client_id, _, secret = base64.b64decode(header[6:]).decode().partition(":")
            client_id, secret, method = unquote_plus(client_id), unquote_plus(secret), "client_secret_basic"
        else:
            client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
            method = "client_secret_post" if secret else "none"
        if client_id.startswith("https://"):
            return client_id
        client = self.clients.get(client_id)
        if client is None or client.get("client_secret", "") != secret:
            return None
        return client_id if client.get("token_endpoint_auth_method", method) == method else None

    def _redeem(self, form: dict[str, str], client_id: str, jkt: str | None) -> web.Response:
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["client_id"] != client_id
            or asked["redirect_uri"] != form["redirect_uri"]
            or asked["code_challenge"] != challenge
            or (jkt is not None and asked.get("dpop_jkt") != jkt)
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        refresh = self.settings.gives_refresh
        return self._give(client_id, asked.get("scope", ""), secrets.token_hex(4), jkt, refresh=refresh)

    def _rotate(self, form: dict[str, str], client_id: str, jkt: str | None) -> web.Response:
        known = self.refresh.get(form["refresh_token"])
        if known is None or known["client_id"] != client_id or known["family"] in self.dead_families:
            return web.json_response({"error": "invalid_grant"}, status=400)
        if known["used"]:
            self.dead_families.add(known["family"])
            return web.json_response({"error": "invalid_grant"}, status=400)
        known["used"] = True
        return self._give(client_id, known["scope"], known["family"], jkt, refresh=True)

    def _give(self, client_id: str, scope: str, family: str, jkt: str | None, *, refresh: bool) -> web.Response:
        token = "access-token-" + secrets.token_urlsafe(16)
        expires_in = self.settings.expires_in
        shared = {"client_id": client_id, "scope": scope, "family": family, "jkt": jkt}
        self.access[token] = {**shared, "expires_at": time.time() + (3600 if expires_in is None else expires_in)}
        given: dict[str, Any] = {"access_token": token, "token_type": self.settings.scheme}
        if expires_in is not None:
            given["expires_in"] = expires_in
        if scope:
            given["scope"] = scope
        if refresh:
            renewal = "refresh-token-" + secrets.token_urlsafe(16)
            self.refresh[renewal] = {**shared, "used": False}
            given["refresh_token"] = renewal
        return web.json_response(given, headers={"Cache-Control": "no-store"})

    # Proofs.

    def _jkt(self, proof: str) -> str:
        header = json.loads(base64.urlsafe_b64decode(proof.split(".")[0] + "=="))
        return ECKey.import_key(header["jwk"]).thumbprint()

    def _proof_refusal(self, request: web.Request, token: str | None, jkt: str | None, side: str) -> str | None:
        proof = request.headers.get("DPoP", "")
        if not proof:
            return "invalid_dpop_proof"
        header = json.loads(base64.urlsafe_b64decode(proof.split(".")[0] + "=="))
        claims = jwt.decode(proof, ECKey.import_key(header["jwk"])).claims
        is_right = (
            header["typ"] == "dpop+jwt"
            and "d" not in header["jwk"]
            and claims["htm"] == request.method
            and claims["htu"] == f"http://{request.host}{request.path}"
            and claims["jti"] not in self.proofs
            and (jkt is None or self._jkt(proof) == jkt)
        )
        if token is not None:
            expected = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
            is_right = is_right and claims.get("ath") == expected
        self.proofs.add(claims["jti"])
        if not is_right:
            return "invalid_dpop_proof"
        if self.settings.wants_nonces and claims.get("nonce") != self.nonces[side]:
            return "use_dpop_nonce"
        return None

    def expire_everything(self) -> None:
        """Let every access token be of no use from now on."""
        for known in self.access.values():
            known["expires_at"] = 0.0


JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@asynccontextmanager
async def world(**settings: Any) -> AsyncIterator[World]:
    """Serve a world until the end of the block."""
    made = World(Settings(**settings))
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def world_with_person(**settings: Any) -> AsyncIterator[tuple[World, Browser, OAuth]]:
    """Serve a world, with a browser and an authorization whose logins take place in it."""
    async with world(**settings) as made:
        yield made, *person()
