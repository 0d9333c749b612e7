"""`asgi(factory)`: an ASGI application that serves each HTTP request with a server of its own.

The application keeps no sessions. It keeps the `HttpService` of each open request, such as a subscription, so that
`close` can end the open requests gracefully.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus

from dragoman.errors import DefinitionError
from dragoman.runtime.callables import invoke
from dragoman.server.dispatch.runner import refusal
from dragoman.server.http.head import Guard
from dragoman.server.http.service import HttpService
from dragoman.server.request.http_request import HttpRequest
from dragoman.server.server import Server
from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.exchange import JSON_HEADERS, Exchange

Factory = Callable[[HttpRequest], Server | Awaitable[Server]]


def asgi(
    factory: Factory,
    path: str = "/mcp",
    *,
    allowed_hosts: str | Iterable[str] | None = None,
    allowed_origins: str | Iterable[str] | None = None,
) -> AsgiApp:
    """Return an ASGI application that serves each HTTP request with the server that `factory` returns for it.

    Example:
        app = asgi(lambda request: Server("mine", tools=tools_of(request.scope["user"])))

    `factory` runs in a thread if it is a `def`, and in the loop if it is an `async def`. The application reports an
    exception of `factory` and answers the request with status 500. It keeps no sessions, as with
    `server.asgi(stateless=True)`. `path`, `allowed_hosts` and `allowed_origins` are those of `server.asgi`.

    Raises:
        DefinitionError: an allowed host or origin is not a string.
    """
    guard = Guard(allowed_hosts=allowed_hosts, allowed_origins=allowed_origins)
    return AsgiApp(_PerRequestService(factory, guard), path=path)


class _PerRequestService:
    """Serves each exchange with a server of its own."""

    begin = None

    def __init__(self, factory: Factory, guard: Guard) -> None:
        self._factory = factory
        self._guard = guard
        self._nobody = Server().dispatcher
        """Refuses a request that has no server of its own."""
        self._open: set[HttpService] = set()

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to its end."""
        refused = self._guard.refuse(exchange.headers, exchange.bound_to, exchange.http_version)
        if refused is not None:
            await exchange.reply(refused.status, refusal(self._nobody, refused.error), JSON_HEADERS)
            return
        try:
            made = await invoke(self._factory, HttpRequest.of(exchange.scope))
            if not isinstance(made, Server):
                raise DefinitionError(f"The function must return a Server, not {made!r}")  # noqa: TRY301
            server = made.dispatcher
            service = HttpService(server, guard=self._guard)
        except Exception as error:
            failure = refusal(self._nobody, error, place="the function that builds the server of a request")
            await exchange.reply(HTTPStatus.INTERNAL_SERVER_ERROR, failure, JSON_HEADERS)
            return
        self._open.add(service)
        try:
            await service.serve(exchange)
        finally:
            self._open.discard(service)
            await server.lifecycle.end(service)

    async def start(self) -> None:
        """Do nothing: each request begins to serve its own server."""

    async def close(self, seconds: float | None = None) -> None:
        """End the open exchanges gracefully: subscriptions at once, requests when they are done or the time is up."""
        await asyncio.gather(*(service.close(seconds) for service in list(self._open)))
