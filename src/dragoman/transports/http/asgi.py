"""HTTP exchanges over ASGI, for any ASGI server.

ASGI reports a disconnect only to a task that waits for it. So an exchange that lasts longer than a tick of `Pace` has a
task that waits for the disconnect.

ASGI has no message that closes a connection. If a client does not read, the exchange gives up the `send` that blocks,
ends, and sends nothing more. When the connection is closed is up to the server.

The check of the open exchanges cancels a `receive` or a `send` that takes too long. Rejected: `asyncio.timeout` around
each of them. Two timers for every request cost a fifth of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import suppress
from logging import getLogger
from typing import Any, TypeVar

from dragoman.errors import TooLarge
from dragoman.protocol.statuses import CLIENT_CLOSED
from dragoman.runtime.tasks import cancel_and_wait, uncancelled
from dragoman.transports.http.exchange import (
    DEFAULT_PACE,
    UNTIMED_BYTES,
    Exchange,
    ExchangeService,
    Gone,
    Header,
    Pace,
    ServedPath,
    TooSlow,
)
from dragoman.transports.http.termination import is_shut_down, is_told_to_end, watch_termination

_logger = getLogger("dragoman.server")
_CLOSE = (b"connection", b"close")
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiExchange(Exchange):
    """An exchange over the callables of ASGI."""

    _waiting: asyncio.Task[Any] | None = None
    """The task that waits for the server until `_deadline`."""
    _deadline = 0.0

    def __init__(self, scope: Scope, receive: Receive, send: Send, pace: Pace = DEFAULT_PACE) -> None:
        method = scope["method"]
        bound_to = (scope.get("server") or (None,))[0]
        version = scope.get("http_version")
        headers = tuple([(name.lower(), value) for name, value in scope["headers"]])
        super().__init__(asyncio.get_running_loop(), pace, method, headers, bound_to, version)
        self.scope = scope
        self._receive = receive
        self._send = send
        self.disconnect_watcher: asyncio.Task[None] | None = None
        """The task that waits for the disconnect, if there is one; `close` ends it."""
        self._is_read = method in _WITHOUT_BODY
        """Whether the body is read. Before that, a watching task could receive a part of the body."""

    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: the body has more than `limit` bytes.
            TooSlow: the body did not arrive in time.
            Gone: the client closed the connection.
        """
        self.task = asyncio.current_task(self.loop)
        try:
            return await self._within(self._pace.read, self._receive_body(limit))
        except TimeoutError:
            raise TooSlow(self._pace.read) from None
        finally:
            self._is_read = True

    async def _receive_body(self, limit: int) -> bytes:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                raise Gone
            body += message.get("body", b"")
            if len(body) > limit:
                raise TooLarge
            if not message.get("more_body"):
                return bytes(body)

    async def _send_whole(self, status: int, body: bytes, headers: Sequence[Header]) -> None:
        head = [*headers, *self._close_header(), (b"content-length", b"%d" % len(body))]
        if self.method == "HEAD":
            body = b""
        messages: list[Message] = [{"type": "http.response.start", "status": status, "headers": head}]
        if len(body) > UNTIMED_BYTES:
            # ASGI servers wait for room before they accept a message, not after it. So only the return of the last
            # `send` shows that the client has read the body.
            messages.append({"type": "http.response.body", "body": body, "more_body": True})
            body = b""
        messages.append({"type": "http.response.body", "body": body})
        await self._within(self._pace.send, self._send_all(messages))

    async def _send_part(self, head: Sequence[Header] | None, data: bytes, *, last: bool, status: int) -> None:
        messages: list[Message] = []
        if head is not None:
            headers = [*head, *self._close_header()]
            messages.append({"type": "http.response.start", "status": status, "headers": headers})
        messages.append({"type": "http.response.body", "body": data, "more_body": not last})
        await self._within(self._pace.send, self._send_all(messages))

    async def _send_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._send(message)

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Wait for what the server does; `check` cancels it after so many seconds.

        Raises:
            TimeoutError: the time is over.
        """
        self._deadline = self.loop.time() + seconds
        self._waiting = task = asyncio.current_task(self.loop)
        try:
            return await work
        except asyncio.CancelledError:
            if self._waiting is task or not uncancelled():
                raise
            raise TimeoutError from None
        finally:
            self._waiting = None

    def check(self, now: float) -> Coroutine[Any, Any, None] | None:
        """Cancel what takes too long; return the coroutine that sends a stream head or a keep-alive, if one is due."""
        late = self._waiting
        if late is not None and now >= self._deadline:
            self._waiting = None
            late.cancel()
        return super().check(now)

    def _watch_disconnect(self) -> None:
        if self.disconnect_watcher is None and not self.ended and (self._is_read or self.streaming):
            self.disconnect_watcher = asyncio.ensure_future(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while not self.ended:
            if (await self._receive())["type"] == "http.disconnect":
                if not self.ended:
                    self.lose()
                return

    @property
    def is_ending(self) -> bool:  # type: ignore[override]
        """Whether the server shuts down and has stopped listening."""
        return is_shut_down()

    def _close_header(self) -> tuple[Header, ...]:
        """Return the header `Connection: close`, if the server shuts down."""
        is_last = is_told_to_end() and (self.http_version or "").startswith("1.")
        return (_CLOSE,) if is_last else ()

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
            watch_termination()
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
