"""One server per request: a function builds it from what the request says, such as who is logged in.

Every request stands alone: nothing is kept for earlier clients. What is open still, such as a subscription, is known
here until it ends, so that it ends in good order with the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from dragoman.errors import DefinitionError
from dragoman.protocol.inbound import JSON
from dragoman.runtime.callables import invoke
from dragoman.server.dispatch.runner import refusal
from dragoman.server.http.guard import Guard
from dragoman.server.http.service import HttpService
from dragoman.server.request.http_request import HttpRequest
from dragoman.server.server import Server
from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.exchange import Exchange

INTERNAL_ERROR = 500
_JSON_HEADERS = ((b"content-type", JSON.encode()),)

Factory = Callable[[HttpRequest], Server | Awaitable[Server]]


def asgi(
    factory: Factory,
    path: str = "/mcp",
    *,
    allowed_hosts: str | Iterable[str] | None = None,
    allowed_origins: str | Iterable[str] | None = None,
) -> AsgiApp:
    """Return an ASGI application that serves each request by the server that `factory` returns for it.

    Example:
        app = asgi(lambda request: Server("mine", tools=tools_of(request.scope["user"])))

    A plain function is called in a thread, an asynchronous one in the loop. Sessions are not kept, as with
    `server.asgi(stateless=True)`. What the function raises is reported, and answered with status 500.
    """
    guard = Guard(allowed_hosts=allowed_hosts, allowed_origins=allowed_origins)
    return AsgiApp(_PerRequestService(factory, guard), path=path)


class _PerRequestService:
    """Serves each exchange by a server of its own."""

    def __init__(self, factory: Factory, guard: Guard) -> None:
        self._factory = factory
        self._guard = guard
        self._open: set[HttpService] = set()

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to its end."""
        barred = self._guard.refuse(exchange.headers, exchange.bound_to, exchange.http_version)
        if barred is not None:
            await exchange.reply(barred.status, barred.body(), _JSON_HEADERS)
            return
        try:
            server = await self._build(HttpRequest.of(exchange.scope))
        except Exception as error:
            failure = refusal(Server(), error, place="the function that builds the server of a request")
            await exchange.reply(INTERNAL_ERROR, failure, _JSON_HEADERS)
            return
        await self._serve_by(server, exchange)

    async def _build(self, request: HttpRequest) -> Server:
        server = await invoke(self._factory, request)
        if not isinstance(server, Server):
            raise DefinitionError(f"The function must return a Server, not {server!r}")
        return server

    async def _serve_by(self, server: Server, exchange: Exchange) -> None:
        service = HttpService(server, guard=self._guard)
        self._open.add(service)
        try:
            await service.serve(exchange)
        finally:
            self._open.discard(service)

    async def close(self, seconds: float | None = None) -> None:
        """End what is still open, in good order: streams at once, requests after so many seconds."""
        await asyncio.gather(*(service.close(seconds) for service in list(self._open)))
