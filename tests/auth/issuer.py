"""Somebody who issues tokens, on a port of this machine: keys, metadata, and answers about opaque tokens."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

RESOURCE = "https://api.example.com/mcp"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Issuer:
    """What it publishes, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, Any] = {"first": ECKey.generate_key("P-256", {"kid": "first"})}
        self.listed: Any = None
        """What is published in place of the keys."""
        self.tokens: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.authorizations: list[str] = []
        self.answers: dict[str, Answer] = {}
        """What is answered at a path otherwise."""

    def times_asked(self, path: str) -> int:
        return self.asked.count(path)

    def add_key(self, name: str, kind: str = "EC") -> None:
        made = {
            "EC": lambda: ECKey.generate_key("P-256", {"kid": name}),
            "RSA": lambda: RSAKey.generate_key(2048, {"kid": name}),
            "OKP": lambda: OKPKey.generate_key("Ed25519", {"kid": name}),
        }
        self.keys[name] = made[kind]()

    def token(self, *, header: dict[str, Any] | None = None, key: Any = None, alg: str = "ES256", **claims: Any) -> str:
        """Return a signed token; a claim that is None is left out."""
        now = int(time.time())
        said = {"iss": self.url, "aud": RESOURCE, "sub": "ann", "exp": now + 600, "iat": now, **claims}
        head = {"alg": alg, "kid": "first"} | (header or {})
        head = {name: value for name, value in head.items() if value is not None}
        chosen = self.keys[head.get("kid", "first")] if key is None else key
        return jwt.encode(
            head, {name: value for name, value in said.items() if value is not None}, chosen, algorithms=[alg]
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.answers:
            return await self.answers[request.path](request)
        match request.path:
            case "/keys":
                published = [key.as_dict(private=False) for key in self.keys.values()]
                return web.json_response({"keys": published} if self.listed is None else self.listed)
            case "/.well-known/oauth-authorization-server":
                token_endpoint, keys = f"{self.url}/token", f"{self.url}/keys"
                return web.json_response({"issuer": self.url, "jwks_uri": keys, "token_endpoint": token_endpoint})
            case "/token":
                form = dict(parse_qsl(await request.text()))
                self.forms.append(form)
                token = self.token(aud=form["resource"], scope=form.get("scope"), sub="robot")
                return web.json_response({"access_token": token, "token_type": "Bearer", "expires_in": 600})
            case "/introspect":
                form = dict(parse_qsl(await request.text()))
                self.forms.append(form)
                self.authorizations.append(request.headers.get("Authorization", ""))
                return web.json_response(self.tokens.get(form["token"], {"active": False}))
        return web.Response(status=404)


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    """Serve an issuer."""
    issuer = Issuer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", issuer.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield issuer
    finally:
        await runner.cleanup()


def encoded(value: Any) -> str:
    """Return JSON as a part of a token."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def never() -> tuple[Answer, asyncio.Event, asyncio.Event]:
    """Return an answer, an event that is set when it is asked for, and one before which it does not come."""
    asked, release = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.StreamResponse:
        asked.set()
        await release.wait()
        return web.json_response({"keys": []})

    return wait, asked, release
