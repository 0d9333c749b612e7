"""`RouteService`: serves the exchanges beside MCP: routes, health and mounted applications.

The first that fits the path serves an exchange: the author's routes, the health, the mounted applications. The server
checks the host and the origin of a request to a route or an application as it does for MCP, because a route of a server
on this machine can be reached by DNS rebinding too. The health says nothing of interest and is asked for by address, so
it is served for every host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dragoman.auth.server.identity import Denial
from dragoman.errors import ParseError, TooLarge
from dragoman.protocol import statuses
from dragoman.runtime.callables import invoke
from dragoman.server.dispatch.reporting import described
from dragoman.server.http.head import Guard
from dragoman.server.http.refusal import challenge
from dragoman.server.request.http_request import SingleAuth, verify
from dragoman.server.routes.health import Health
from dragoman.server.routes.mounted import serve_mounted
from dragoman.server.routes.request import RouteRequest
from dragoman.server.routes.response import Response
from dragoman.server.routes.table import AsgiApplication, Route, RouteTable
from dragoman.transports.http.exchange import Exchange, Gone, Header, TooSlow

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

_WITH_BODY = ("POST", "PUT", "PATCH")
_ALLOWED_METHODS = b"access-control-allow-methods"
Matches = list[tuple[Route, dict[str, str]]]


class RouteService:
    """Serves the paths beside MCP; `start` begins to serve, if nobody did before the first request."""

    def __init__(
        self,
        server: Dispatcher,
        table: RouteTable,
        *,
        guard: Guard,
        auth: SingleAuth | None,
        path: str,
        start: Callable[[], Awaitable[None]],
        health: Health | None,
    ) -> None:
        self._server = server
        self._table = table
        self._guard = guard
        self._auth = auth
        self._path = path
        self._start = start
        self._health = health

    async def serve(self, exchange: Exchange, path: str) -> bool:
        """Serve an exchange to its end; return False if nothing is served at its path."""
        if found := self._table.find(path):
            await self._answer(exchange, f"{exchange.method} {found[0][0].path}", self._serve_route, found, path)
            return True
        if self._health is not None and await self._health.serve(exchange, path):
            return True
        mounted = self._table.find_mounted(path)
        if mounted is not None:
            await self._answer(exchange, f"the application at {mounted[0] or '/'}", self._serve_mounted, mounted)
        return mounted is not None

    async def _answer(
        self, exchange: Exchange, place: str, serve: Callable[..., Awaitable[Response | None]], *arguments: object
    ) -> None:
        """Answer with what `serve` returns, or with the status of its exception."""
        try:
            response = self._refused_by_guard(exchange) or await serve(exchange, *arguments)
        except Gone:
            raise
        except ParseError as error:
            response = Response(error.message, statuses.MALFORMED)
        except TooLarge:
            limit = self._server.limits.message_bytes
            response = Response(f"The body has more than {limit} bytes", statuses.BODY_TOO_LARGE)
        except TooSlow as error:
            exchange.extra_headers += ((b"connection", b"close"),)
            response = Response(str(error), statuses.BODY_TOO_SLOW)
        except Exception as error:
            self._server.report(error, None, {"place": place})
            text = described(error) if self._server.debug else "Internal Server Error"
            response = Response(text, statuses.FAILED)
        if response is not None:
            await exchange.reply(response.status, response.body, response.headers)

    def _refused_by_guard(self, exchange: Exchange) -> Response | None:
        refused = self._guard.refuse(exchange.headers, exchange.bound_to, exchange.http_version)
        return None if refused is None else Response(str(refused.error), refused.status)

    async def _serve_route(self, exchange: Exchange, found: Matches, path: str) -> Response:
        allowed = sorted(frozenset().union(*(route.methods for route, _ in found)))
        exchange.extra_headers = self._cors(exchange, ", ".join(allowed).encode())
        matching = [match for match in found if exchange.method in match[0].methods]
        if not matching:
            if exchange.extra_headers and exchange.method == "OPTIONS":
                return Response(status=statuses.NO_CONTENT)
            return Response("Method Not Allowed", statuses.METHOD_NOT_SERVED, {"allow": ", ".join(allowed)})
        route, params = matching[0]
        if route.needs_auth and (denied := await self._authenticate(exchange)) is not None:
            return denied
        await self._start()
        body = await exchange.read(self._server.limits.message_bytes) if _has_body(exchange) else b""
        request = RouteRequest.of(exchange.scope, path, params, body, exchange.principal)
        return Response.of(await invoke(route.function, *([request] if route.takes_request else [])))

    def _cors(self, exchange: Exchange, allowed: bytes) -> tuple[Header, ...]:
        given = self._guard.cors_headers(exchange.headers)
        return tuple((name, allowed if name == _ALLOWED_METHODS else value) for name, value in given)

    async def _authenticate(self, exchange: Exchange) -> Response | None:
        if self._auth is None:
            return Response("This route needs an auth that the server does not have", statuses.SCOPE_MISSING)
        found = await verify(self._auth, exchange.scope, self._path)
        if isinstance(found, Denial):
            exchange.extra_headers += (challenge(found),)
            return Response(found.reason, found.status)
        exchange.principal = found.principal
        return None

    async def _serve_mounted(self, exchange: Exchange, mounted: tuple[str, AsgiApplication]) -> None:
        prefix, app = mounted
        body = await exchange.read(self._server.limits.message_bytes) if _has_body(exchange) else b""
        await serve_mounted(app, exchange, prefix, body)


def _has_body(exchange: Exchange) -> bool:
    return exchange.method in _WITH_BODY or any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in exchange.headers
    )
