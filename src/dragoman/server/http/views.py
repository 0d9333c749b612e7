"""Single requests over HTTP: a framework's view asks for the answer to one request and gets it whole.

The exchange is that of `server.asgi()`, over memory instead of a connection, so every check is the same. What a view
cannot give is refused with the remedy: streams, sessions, and answers to clients that take nothing but streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.errors import InvalidRequest, MethodNotFound
from dragoman.protocol import eras
from dragoman.protocol.inbound import JSON, NOT_ACCEPTABLE, NOT_FOUND, AcceptedTypes
from dragoman.runtime.portal import run_blocking
from dragoman.server.dispatch.runner import refusal
from dragoman.server.http.guard import Guard
from dragoman.server.http.replies import HttpRefusal
from dragoman.server.http.service import HttpService
from dragoman.server.request.call import Call
from dragoman.transports.http.asgi import AsgiExchange, Message
from dragoman.transports.http.exchange import Exchange
from dragoman.transports.http.wsgi import Environ, UnreadableBody, WsgiApp, WsgiReply, WsgiRequest

if TYPE_CHECKING:
    from dragoman.server.server import Server

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

INTERNAL_ERROR = 500
_JSON_ONLY = AcceptedTypes(json=True, sse=False)
_REMEDY = "serve it with server.asgi()"


class HttpReply(Struct, frozen=True):
    """The answer to one HTTP request: what a framework's own response is made of.

    Example:
        reply = server.handle_http(request.method, request.headers, request.body)
        return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def __repr__(self) -> str:
        # Not the headers, which may hold the id of a session.
        return f"<HttpReply {self.status}: {len(self.body)} bytes>"


class ViewService(HttpService):
    """Serves exchanges that cannot stream, with a context of their own."""

    _serves_listeners = False
    _lacks = f": there are no streams and no sessions; {_REMEDY}"

    def __init__(self, server: Server, *, guard: Guard, server_context: Any = None) -> None:
        super().__init__(server, guard=guard, json_response=True)
        self._server_context = server_context

    def _call(self, *args: Any, **named: Any) -> Call:
        call = super()._call(*args, **named)
        if self._server_context is not None:
            call.server_context = self._server_context
        return call

    async def _serve_request(self, exchange: Exchange, request: eras.McpRequest, taken: AcceptedTypes) -> None:
        if request.method.name == "subscriptions/listen":
            error = MethodNotFound(f"subscriptions/listen is not served here: there are no streams; {_REMEDY}")
            raise HttpRefusal(NOT_FOUND, error, request)
        if not taken.json:
            refused = InvalidRequest(f"The Accept header must admit {JSON} here: there are no streams; {_REMEDY}")
            raise HttpRefusal(NOT_ACCEPTABLE, refused, request)
        await super()._serve_request(exchange, request, _JSON_ONLY)


class _Memory:
    """The two ends of an exchange without a connection: a body that is there, and a response that is kept."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._messages: list[Message] = []

    async def receive(self) -> Message:
        return {"type": "http.request", "body": self._body}

    async def send(self, message: Message) -> None:
        self._messages.append(message)

    def reply(self) -> HttpReply:
        start, *rest = self._messages
        lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        return HttpReply(start["status"], lines, b"".join(message.get("body", b"") for message in rest))


async def answer_request(
    view: ViewService, method: str, headers: Headers, body: bytes | str, bound_to: str | None = None
) -> HttpReply:
    """Return the answer to one request."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    # What does not fit into latin-1 was in no header line, and equals nothing that a header is compared with.
    lines = [(name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs]
    memory = _Memory(body.encode(errors="surrogatepass") if isinstance(body, str) else body)
    scope = {"type": "http", "method": method.upper(), "path": "/", "headers": lines, "server": (bound_to, None)}
    exchange = AsgiExchange(scope, memory.receive, memory.send)
    try:
        await view.serve(exchange)
    finally:
        await exchange.close()
    return memory.reply()


async def answer_view(
    server: Server, method: str, headers: Headers, body: bytes | str, server_context: Any = None
) -> HttpReply:
    """Return the answer to one request of a framework, which itself knows the hosts that it serves."""
    view = ViewService(server, guard=Guard(allowed_hosts=("*",)), server_context=server_context)
    return await answer_request(view, method, headers, body)


class _WsgiService:
    """Serves the requests of a WSGI application."""

    def __init__(self, server: Server, guard: Guard, server_context: Any) -> None:
        self._server = server
        self._guard = guard
        self._context = server_context

    def answer(self, request: WsgiRequest) -> WsgiReply:
        """Return the answer to a request, blocking."""
        try:
            # One byte more than is accepted is enough to be refused.
            body = request.read(self._server.limits.message_bytes + 1)
        except UnreadableBody as error:
            return _failure(error.status, refusal(self._server, InvalidRequest(str(error))))
        try:
            context = self._context(request.environ) if callable(self._context) else self._context
        except Exception as error:
            place = "the server_context of a WSGI application"
            return _failure(INTERNAL_ERROR, refusal(self._server, error, place=place))
        view = ViewService(self._server, guard=self._guard, server_context=context)
        reply = run_blocking(answer_request(view, request.method, request.headers, body, request.bound_to))
        return WsgiReply(reply.status, reply.headers, reply.body)


def _failure(status: int, body: bytes) -> WsgiReply:
    return WsgiReply(status, [("content-type", JSON), ("content-length", str(len(body)))], body)


def wsgi_app(
    server: Server,
    path: str,
    allowed_hosts: str | Iterable[str] | None,
    allowed_origins: str | Iterable[str] | None,
    server_context: Any | Callable[[Environ], Any],
) -> WsgiApp:
    """Return the WSGI application of a server."""
    guard = Guard(allowed_hosts=allowed_hosts, allowed_origins=allowed_origins)
    return WsgiApp(_WsgiService(server, guard, server_context), path=path)
