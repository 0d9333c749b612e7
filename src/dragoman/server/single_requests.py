"""`SingleRequests`: the part of a `Server` that answers one request at a time, without a connection and sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import raise_at_caller

if TYPE_CHECKING:
    from dragoman.server.http.views import Headers, HttpReply, ViewService
    from dragoman.server.server import Server
    from dragoman.transports.http.wsgi import Environ, WsgiApp


@raise_at_caller("wsgi")
class SingleRequests:
    """Answers requests of views, of WSGI and of code that has a message."""

    _views: ViewService | None = None

    if TYPE_CHECKING:  # `Server` defines it

        def check(self) -> None: ...

    def wsgi(
        self,
        path: str = "/mcp",
        *,
        allowed_hosts: str | Iterable[str] | None = None,
        allowed_origins: str | Iterable[str] | None = None,
        server_context: Callable[[Environ], object] | object = None,
    ) -> WsgiApp:
        """Return a WSGI application that answers each request with one JSON body; serve it alone or mount it.

        Example:
            app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/mcp": server.wsgi()})

        Streams, sessions and questions to clients before 2026-07-28 need `asgi`. If `server_context` is callable, the
        application calls it with the WSGI environ of each request and uses the returned object as the context.

        Raises:
            DefinitionError: a tool requires scopes, which only `asgi` and `run` can verify.
            DragomanError: gevent or eventlet has replaced threads, as in gunicorn's gevent workers.
        """
        from dragoman.server.http.views import wsgi_app

        self.check()
        return wsgi_app(cast("Server", self), path, allowed_hosts, allowed_origins, server_context)

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: object,  # noqa: ARG002
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Tell an ASGI server, as of `uvicorn file:server`, that it needs the application of `asgi`.

        Raises:
            DefinitionError: always, unless the ASGI server asks to start; it is then told that the start failed.
        """
        message = f"{self!r} is not an ASGI application: write `app = server.asgi()`, and serve `app` instead"
        if scope["type"] != "lifespan":
            raise DefinitionError(message)
        await send({"type": "lifespan.startup.failed", "message": message})

    async def handle_http_async(
        self, method: str, headers: Headers, body: bytes | str, server_context: object = None
    ) -> HttpReply:
        """Answer one HTTP request in an asynchronous view, as `handle_http` does in a blocking one."""
        self.check()
        if self._views is None:
            from dragoman.server.http.views import ViewService

            self._views = ViewService(cast("Server", self))
        return await self._views.answer(method, headers, body, server_context)

    def handle_http(self, method: str, headers: Headers, body: bytes | str, server_context: object = None) -> HttpReply:
        """Answer one HTTP request in a blocking view of a web framework, without streams and sessions.

        Example:
            reply = server.handle_http(request.method, request.headers, request.get_data(), server_context=user)
            return Response(reply.body, reply.status, reply.headers)

        The framework checks the host (`ALLOWED_HOSTS` of Django, `TRUSTED_HOSTS` of Flask). The server refuses a web
        page whose origin differs from the host, unless `DRAGOMAN_ALLOWED_ORIGINS` names that origin.

        Raises:
            DragomanError: an event loop runs in this thread; await `handle_http_async` instead.
            DefinitionError: a tool requires scopes, which only `asgi` and `run` can verify.
        """
        from dragoman.runtime.portal import run_blocking

        return run_blocking(self.handle_http_async(method, headers, body, server_context))

    async def handle_json_async(self, body: bytes | str, server_context: object = None) -> bytes | None:
        """Return the response to one JSON-RPC message; None if the message has no response."""
        from dragoman.server.serving import answer_message

        self.check()
        # A lone surrogate becomes bytes that are not UTF-8. The decoder then refuses the message with a parse error.
        data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
        return await answer_message(cast("Server", self), data, server_context)

    def handle_json(self, body: bytes | str, server_context: object = None) -> bytes | None:
        """Return the response to one JSON-RPC message, blocking; None if the message has no response.

        Example:
            server.handle_json('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        """
        from dragoman.runtime.portal import run_blocking

        return run_blocking(self.handle_json_async(body, server_context))

    async def handle_async(self, message: types.Json, server_context: object = None) -> types.Json | None:
        """Return the response to one parsed JSON-RPC message; None if the message has no response."""
        return _parsed(await self.handle_json_async(encode(message), server_context))

    def handle(self, message: types.Json, server_context: object = None) -> types.Json | None:
        """Return the response to one parsed JSON-RPC message, blocking; None if the message has no response."""
        return _parsed(self.handle_json(encode(message), server_context))


def _parsed(data: bytes | None) -> types.Json | None:
    return None if data is None else msgspec.json.decode(data)
