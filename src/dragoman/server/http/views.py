"""`ViewService` and `wsgi_app`: answer single HTTP requests in a view of a framework or in a WSGI application.

A request passes through the same `HttpService` as with `server.asgi()`, as an exchange in memory, so every check is the
same. A view has no streams and no sessions. A request that needs either is refused; the error names `server.asgi()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.errors import InvalidRequest
from dragoman.protocol import statuses
from dragoman.protocol.inbound import JSON
from dragoman.runtime.portal import require_threads, run_blocking
from dragoman.server.dispatch.runner import refusal
from dragoman.server.http.head import Guard
from dragoman.server.http.service import HttpService
from dragoman.transports.http.asgi import AsgiExchange, Message
from dragoman.transports.http.wsgi import Environ, UnreadableBody, WsgiApp, WsgiReply, WsgiRequest

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class HttpReply(Struct, frozen=True):
    """The response to one HTTP request: the status, the headers and the body for a response of the framework.

    Example:
        reply = server.handle_http(request.method, request.headers, request.body)
        return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def __repr__(self) -> str:
        # The headers are left out, because they may hold a session id.
        return f"<HttpReply {self.status}: {len(self.body)} bytes>"


class ViewService:
    """Answers single HTTP requests; without a guard every host is served, because frameworks check it."""

    def __init__(self, server: Dispatcher, guard: Guard | None = None) -> None:
        self._server = server
        self._service = HttpService(server, guard=guard or Guard(allowed_hosts=("*",)), can_stream=False)

    async def answer(
        self,
        method: str,
        headers: Headers,
        body: bytes | str,
        context: Any = None,
        bound_to: str | None = None,
        address: str | None = None,
    ) -> HttpReply:
        """Return the response to one HTTP request; `address` is that of the client, if known."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        # An HTTP header is latin-1. Other characters are replaced; no check accepts a header because of them.
        lines = [(name.lower().encode("latin-1", "replace"), text.encode("latin-1", "replace")) for name, text in pairs]
        content = body.encode(errors="surrogatepass") if isinstance(body, str) else body
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": content}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._server.lifecycle.begin_until_the_loop_ends()
        ends = {"server": (bound_to, None), "client": None if address is None else (address, None)}
        scope = {"type": "http", "method": method.upper(), "path": "/", "headers": lines, **ends}
        exchange = AsgiExchange(scope, receive, send)
        exchange.server_context = context
        try:
            await self._service.serve(exchange)
        finally:
            await exchange.close()
        start, *parts = sent
        named = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        return HttpReply(start["status"], named, b"".join(part.get("body", b"") for part in parts))


def _failure(status: int, body: bytes) -> WsgiReply:
    return WsgiReply(status, [("content-type", JSON), ("content-length", str(len(body)))], body)


def wsgi_app(
    server: Dispatcher,
    path: str,
    allowed_hosts: str | Iterable[str] | None,
    allowed_origins: str | Iterable[str] | None,
    server_context: Any | Callable[[Environ], Any],
) -> WsgiApp:
    """Return the WSGI application of a server.

    Raises:
        DragomanError: gevent or eventlet has replaced threads.
    """
    require_threads()
    guard = Guard(allowed_hosts=allowed_hosts, allowed_origins=allowed_origins)
    views = ViewService(server, guard)

    def answer(request: WsgiRequest) -> WsgiReply:
        try:
            # One byte more than the limit is enough for the service to refuse the body.
            body = request.read(server.limits.message_bytes + 1)
        except UnreadableBody as error:
            return _failure(error.status, refusal(server, InvalidRequest(str(error))))
        try:
            context = server_context(request.environ) if callable(server_context) else server_context
        except Exception as error:
            place = "the server_context of a WSGI application"
            return _failure(statuses.FAILED, refusal(server, error, place=place))
        ends = request.bound_to, request.address
        reply = run_blocking(views.answer(request.method, request.headers, body, context, *ends))
        return WsgiReply(reply.status, reply.headers, reply.body)

    return WsgiApp(answer, path=path)
