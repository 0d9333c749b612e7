"""HTTP exchanges over ASGI, for any ASGI server.

ASGI reports a disconnect only to a task that waits for it. So an exchange that lasts longer than a tick of `Pace` has a
task that waits for the disconnect. An exchange of uvicorn needs no such task, which takes two kilobytes: its `receive`
and `send` are methods of an object for the request, which says whether the client has disconnected.

With httptools, this object also gives a body that has arrived, and takes head and body of a short reply in one write.
Rejected: to await `receive` and `send` for these too. They take a sixth of the instructions of a call.
"""

from __future__ import annotations

import asyncio
import sys
from _signal import (  # type: ignore[import-not-found]  # `signal` wraps these in enumerations, which import slowly
    SIGTERM,
    getsignal,
)
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import lru_cache
from logging import INFO, getLogger
from typing import Any

from dragoman.errors import TooLarge
from dragoman.runtime.tasks import cancel_and_wait, current_task
from dragoman.transports.http.exchange import (
    CLIENT_CLOSED,
    DEFAULT_PACE,
    JSON_HEADERS,
    UNTIMED_BYTES,
    Exchange,
    ExchangeService,
    Gone,
    Header,
    Pace,
    ServedPath,
)
from dragoman.transports.http.termination import is_terminating

_logger = getLogger("dragoman.server")
_CLOSE = (b"connection", b"close")
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
_HTTPTOOLS = "uvicorn.protocols.http.httptools_impl"
_FRAMING = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_OF_THE_MODULE = frozenset({"STATUS_LINE", "HEADER_RE", "HEADER_VALUE_RE"})
_OF_A_REQUEST = frozenset(
    {
        *("scope", "transport", "flow", "message_event", "on_response", "access_log", "access_logger"),
        *("default_headers", "disconnected", "keep_alive", "waiting_for_100_continue", "body", "more_body"),
        *("response_started", "response_complete", "chunked_encoding", "expected_content_length"),
    }
)
"""The attributes of uvicorn's request object that are read or set here."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiExchange(Exchange):
    """An exchange over the callables of ASGI."""

    _is_late = False
    _reply_until: float | None = None
    _is_stuck = False
    """Whether the exchange was given up because the client does not read the response."""
    _request: Any = None
    """The request object of uvicorn, once it was looked for."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, pace: Pace = DEFAULT_PACE) -> None:
        method = scope["method"]
        bound_to = (scope.get("server") or (None,))[0]
        version = scope.get("http_version")
        Exchange.__init__(self, asyncio.get_running_loop(), pace, method, scope["headers"], bound_to, version)
        self.scope = scope
        self._receive = receive
        self._send = send
        self.disconnect_watcher: asyncio.Task[None] | None = None
        """The task that waits for the disconnect, if there is one; `close` ends it."""
        self._is_read = method in _WITHOUT_BODY
        """Whether the body is read. Before that, a watching task could receive a part of the body."""
        self._reading: asyncio.Task[Any] | None = None
        self._replying: asyncio.Task[Any] | None = None

    @property
    def headers(self) -> Iterable[Header]:  # type: ignore[override]
        """The headers, with lower-case names."""
        return self.scope["headers"]  # type: ignore[no-any-return]

    def complete_body(self, limit: int) -> bytes | None:
        """Return the body if uvicorn has all of it, as its `receive` would, else None."""
        receive: Any = self._receive
        if not _is_of_httptools(getattr(receive, "__func__", None)):
            return None
        request = receive.__self__
        if request.more_body or request.disconnected or request.response_complete or request.flow.read_paused:
            return None
        body = request.body
        if request.waiting_for_100_continue or not 0 < len(body) <= limit:
            return None
        self.task = current_task(self.loop)
        self._is_read = True
        request.message_event.clear()
        request.body = bytearray()
        return bytes(body)

    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: the body has more than `limit` bytes.
            TooSlow: the body did not arrive in time.
            Gone: the client closed the connection.
        """
        task = self.task = self._reading = current_task(self.loop)
        try:
            message = await self._receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                body: bytes = message.get("body", b"")
                if len(body) <= limit:
                    return body
            return await self._read(message, limit)
        except asyncio.CancelledError:
            if not self._is_late or task is None or task.uncancel():
                raise
            raise self._too_slow() from None
        finally:
            self._reading = None
            self._is_read = True

    async def _read(self, message: Message, limit: int) -> bytes:
        body = bytearray()
        while True:
            if message["type"] == "http.disconnect":
                self.gone = True
                raise Gone
            body += message.get("body", b"")
            if len(body) > limit:
                raise TooLarge
            if not message.get("more_body"):
                return bytes(body)
            message = await self._receive()

    async def reply(self, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
        """Answer with one body, unless a response has begun."""
        # No lock is needed: `stream` sets `streaming`, and this method sets `ended`, before the first await of a send.
        if self.ended or self.streaming or self.gone:
            return
        self.ended = True
        if self.record is not None:
            self.record.add(status, len(body))
        task = current_task(self.loop)
        try:
            if len(body) <= UNTIMED_BYTES and self._reply_at_once(status, body, headers):
                return
            self._replying = task
            head = [*headers, *self.extra_headers, *self._close_header(), (b"content-length", b"%d" % len(body))]
            if self.method == "HEAD":
                body = b""
            await self._send({"type": "http.response.start", "status": status, "headers": head})
            if len(body) > UNTIMED_BYTES:
                # ASGI servers wait for room before they accept a message, not after it. So only the return of the last
                # `send` shows that the client has read the body.
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
                body = b""
            await self._send({"type": "http.response.body", "body": body})
        except asyncio.CancelledError:
            if not self._is_stuck or task is None or task.uncancel():
                raise
            self._abort_stuck()
        except (OSError, RuntimeError):
            self.lose()
        finally:
            self._replying = None

    def _reply_at_once(self, status: int, body: bytes, headers: Iterable[Header]) -> bool:
        """Write a whole reply as the `send` of uvicorn does, but in one write; return False if `send` has to do it."""
        send: Any = self._send
        if not _is_of_httptools(getattr(send, "__func__", None)):
            return False
        request = send.__self__
        if request.response_started or request.disconnected or not request.keep_alive or request.flow.write_paused:
            return False
        if request.access_log and request.access_logger.isEnabledFor(INFO):
            return False
        if "HEAD" in (self.method, request.scope["method"]) or self.extra_headers or self._close_header():
            return False
        if headers is not JSON_HEADERS and headers != ():
            return False
        head = _head_of_httptools(status, tuple(request.default_headers), headers)
        if head is None:
            return False
        request.response_started = True
        request.waiting_for_100_continue = request.chunked_encoding = False
        request.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        request.response_complete = True
        request.message_event.set()
        request.on_response()
        return True

    async def _send_part(self, head: Sequence[Header] | None, data: bytes, *, last: bool, status: int) -> None:
        try:
            async with asyncio.timeout(self._pace.send):
                if head is not None:
                    await self._send(
                        {"type": "http.response.start", "status": status, "headers": [*head, *self._close_header()]}
                    )
                await self._send({"type": "http.response.body", "body": data, "more_body": not last})
        except TimeoutError:
            self._abort_stuck()

    def _abort_stuck(self) -> None:
        """Give up a client that does not read, and abort its connection where the server allows it.

        ASGI has no message that aborts, and uvicorn would keep the connection until the client has read the output. The
        request object of uvicorn refers to the connection. This method marks the request object as disconnected,
        because uvicorn marks only its newest request.
        """
        self._is_stuck = True
        self.lose()
        request = _uvicorn_request(self._send)
        if request is not None:
            request.disconnected = True
            request.transport.abort()

    def check(self, now: float) -> Coroutine[Any, Any, None] | None:
        """Check the time limits; return the coroutine that sends a stream head or a keep-alive, if one is due."""
        if self._replying is None:
            return super().check(now)
        if self._reply_until is None:
            self._reply_until = now + self._pace.send
        elif now >= self._reply_until and not self._is_stuck:
            self._is_stuck = True
            self._replying.cancel()
        return None

    def is_reading(self) -> bool:
        """Tell whether the service waits for the body."""
        return self._reading is not None

    def _stop_reading(self) -> None:
        if self._reading is not None and not self._is_late:
            self._is_late = True
            self._reading.cancel()

    def _watch_disconnect(self) -> None:
        if self.disconnect_watcher is not None or not (self._is_read or self.streaming):
            return
        if self._request is None:
            self._request = _uvicorn_request(self._receive)
        if self._request is None:
            self.disconnect_watcher = asyncio.ensure_future(self._wait_for_disconnect())
        elif self._request.disconnected and not self.ended:
            self.lose()

    async def _wait_for_disconnect(self) -> None:
        while not self.ended:
            if (await self._receive())["type"] == "http.disconnect":
                if not self.ended:
                    self.lose()
                return

    @property
    def is_ending(self) -> bool:  # type: ignore[override]
        """Whether the server shuts down and has stopped listening.

        Before that, the server does not yet close a connection after its response: a client would use the connection of
        an ended stream for its next request, and find it closed.
        """
        server = _uvicorn_server()
        if server is None:
            return is_terminating()
        if server.should_exit is not True:
            return False
        if getattr(server, "drains_while_listening", False):  # of `run_http`: every response closes its connection
            return True
        return not any(listening.is_serving() for listening in getattr(server, "servers", ()))

    def _close_header(self) -> tuple[Header, ...]:
        """Return the header `Connection: close`, if the server shuts down."""
        server = getattr(getsignal(SIGTERM), "__self__", None)
        if getattr(server, "should_exit", False) is not True:
            return ()
        return (_CLOSE,) if (self.http_version or "").startswith("1.") else ()

    async def close(self) -> None:
        """Stop watching, and send an empty response if the client is gone and no response has begun.

        A framework around the application treats an exchange without a response as a failure.
        """
        if self.disconnect_watcher is not None:
            await cancel_and_wait(self.disconnect_watcher)
        if self.gone and not self.streaming and not self.ended:
            self.ended = True
            with suppress(OSError, RuntimeError):
                await self._send({"type": "http.response.start", "status": CLIENT_CLOSED, "headers": []})
                await self._send({"type": "http.response.body", "body": b""})


def _uvicorn_server() -> Any:
    """Return the server object of uvicorn, which has the flag `should_exit`; its signal handler is a method of it."""
    server = getattr(getsignal(SIGTERM), "__self__", None)
    return server if hasattr(server, "should_exit") else None


def _uvicorn_request(method: Callable[..., Any]) -> Any:
    """Return the request object of uvicorn that `receive` or `send` is a method of; None for any other function."""
    request: Any = getattr(method, "__self__", None)
    return request if hasattr(request, "disconnected") and hasattr(request, "transport") else None


@lru_cache(maxsize=8)
def _is_of_httptools(function: Any) -> bool:
    """Tell whether this is the `receive` or `send` of uvicorn with httptools, and its class has what is used here."""
    module: Any = sys.modules.get(_HTTPTOOLS)
    request: Any = getattr(module, "RequestResponseCycle", None)
    if function is None or request is None or function not in (request.receive, request.send):
        return False
    if getattr(function, "__globals__", None) is not vars(module):  # something wraps it
        return False
    attributes = getattr(getattr(request.__init__, "__code__", None), "co_names", ())
    return vars(module).keys() >= _OF_THE_MODULE and _OF_A_REQUEST.issubset(attributes)


@lru_cache(maxsize=16)
def _head_of_httptools(status: int, default_headers: tuple[Header, ...], headers: tuple[Header, ...]) -> bytes | None:
    """Return a head as uvicorn writes it, without its end; None if a header is one that uvicorn refuses or acts on."""
    module: Any = sys.modules[_HTTPTOOLS]
    lines = [module.STATUS_LINE[status]]
    for name, value in (*default_headers, *headers):
        if name.lower() in _FRAMING or module.HEADER_RE.search(name) or module.HEADER_VALUE_RE.search(value):
            return None
        lines += (name.lower(), b": ", value, b"\r\n")
    return b"".join(lines)


class AsgiApp:
    """An ASGI 3 application that serves one path, alone or mounted; a lifespan is optional."""

    def __init__(
        self,
        service: ExchangeService,
        *,
        path: str = "/mcp",
        pace: Pace = DEFAULT_PACE,
        documents: Mapping[str, bytes] | None = None,
    ) -> None:
        self.served = ServedPath(service, path=path, pace=pace, documents=documents)
        self._notes_termination = False
        """Whether a signal that ends the server is noted from now on."""
        self.served.on_unserved = self._warn_of_shadowed_routes

    def _warn_of_shadowed_routes(self, exchange: Exchange) -> None:
        """Log once which routes an application of Starlette or FastAPI lists after the mount that hides them."""
        routes = list(getattr(exchange.scope.get("app"), "routes", ()))
        mounts = [place for place, route in enumerate(routes) if getattr(route, "app", None) is self]
        if not mounts:
            return
        prefix = getattr(routes[mounts[0]], "path", "")
        paths = [str(getattr(route, "path", "")) for route in routes[mounts[0] + 1 :]]
        hidden = [path for path in paths if path.startswith(f"{prefix}/")]
        if hidden:
            self.served.on_unserved = None
            _logger.warning(
                "The application mounts the server at %r before its routes %s, which are therefore never served: make"
                ' the server a route, as in Route("/mcp", server.asgi()), or mount it after them',
                prefix or "/",
                ", ".join(hidden),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if not self._notes_termination:
            self._notes_termination = True
            if _uvicorn_server() is None:
                is_terminating()
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        exchange = AsgiExchange(scope, receive, send, self.served.pace)
        try:
            await self.served.serve(exchange, scope["path"], scope.get("root_path", "").rstrip("/"))
        finally:
            if exchange.gone or exchange.disconnect_watcher is not None:
                await exchange.close()

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def start(self) -> None:
        """Get the service ready, as the start of an ASGI lifespan does; otherwise the first request does it."""
        await self.served.start()

    async def close(self, seconds: float | None = None) -> None:
        """End open exchanges gracefully; call this if the application gets no ASGI lifespan.

        Event streams end at once. Requests that are not done after `seconds`, five by default, are cancelled and
        answered with an error that says so.
        """
        await self.served.close(seconds)
