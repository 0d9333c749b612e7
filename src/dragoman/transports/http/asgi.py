"""HTTP exchanges over ASGI, for any ASGI server.

ASGI reports a disconnect only to a task that waits for it. So an exchange that lasts longer than a tick of `Pace` has a
task that waits for the disconnect. An exchange of uvicorn needs no such task, which takes two kilobytes: its `receive`
and `send` are methods of an object for the request, which says whether the client has disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from logging import getLogger
from typing import Any

from dragoman.errors import TooLarge
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.transports.http.exchange import (
    CLIENT_CLOSED,
    DEFAULT_PACE,
    UNTIMED_BYTES,
    Exchange,
    ExchangeService,
    Gone,
    Header,
    Pace,
    ServedPath,
)
from dragoman.transports.http.termination import is_terminating, uvicorn_server

_logger = getLogger("dragoman.server")
_CLOSE = (b"connection", b"close")
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})

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

    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: the body has more than `limit` bytes.
            TooSlow: the body did not arrive in time.
            Gone: the client closed the connection.
        """
        task = self.task = self._reading = asyncio.current_task(self.loop)
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
        task = asyncio.current_task(self.loop)
        try:
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
        server = uvicorn_server()
        if server is None:
            return is_terminating()
        if server.should_exit is not True:
            return False
        if getattr(server, "drains_while_listening", False):  # of `run_http`: every response closes its connection
            return True
        return not any(listening.is_serving() for listening in getattr(server, "servers", ()))

    def _close_header(self) -> tuple[Header, ...]:
        """Return the header `Connection: close`, if the server shuts down."""
        server = uvicorn_server()
        if server is None or server.should_exit is not True:
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


def _uvicorn_request(method: Callable[..., Any]) -> Any:
    """Return the request object of uvicorn that `receive` or `send` is a method of; None for any other function."""
    request: Any = getattr(method, "__self__", None)
    return request if hasattr(request, "disconnected") and hasattr(request, "transport") else None


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
            if uvicorn_server() is None:
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
