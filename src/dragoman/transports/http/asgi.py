"""HTTP by ASGI: whatever serves ASGI applications carries the exchanges.

ASGI tells of a disconnect only to whoever waits for it, so an exchange that lives longer than a moment has a watcher.
"""

from __future__ import annotations

import asyncio
from _signal import (  # type: ignore[import-not-found]  # what `signal` wraps in slow enumerations
    SIGTERM,
    getsignal,
)
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
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
    Site,
)

_CLOSE = (b"connection", b"close")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiExchange(Exchange):
    """An exchange by the callables of ASGI."""

    _watcher: asyncio.Task[None] | None = None
    _reading: asyncio.Task[Any] | None = None
    _is_late = False
    _replying: asyncio.Task[Any] | None = None
    _reply_until: float | None = None
    _is_stuck = False
    """Whether the client does not read what it is sent."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, pace: Pace = DEFAULT_PACE) -> None:
        self.loop = asyncio.get_running_loop()
        self.started = self._last_sent = self.loop.time()
        self._pace = pace
        self.scope = scope
        self.method = scope["method"]
        self.headers = self.given_headers = scope["headers"]
        self.bound_to = (scope.get("server") or (None,))[0]
        self.http_version = scope.get("http_version")
        self._receive = receive
        self._send = send
        self._is_read = self.method != "POST"
        """Whether nothing of a body is left that a watcher could take for itself."""

    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: it has more than `limit` bytes.
            TooSlow: it did not come in time.
            Gone: the client went away.
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
            raise self._late() from None
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
        """Answer with one body, unless something was answered before."""
        # No lock: what is written in parts has set `streaming` before it waits, and finds `ended` set after this.
        if self.ended or self.streaming or self.gone:
            return
        self.ended = True
        head = [*headers, *self.extra_headers, *self._farewell(), (b"content-length", b"%d" % len(body))]
        task = self._replying = asyncio.current_task(self.loop)
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": head})
            if len(body) > UNTIMED_BYTES:
                # Servers wait before they take something, not after it: only the end shows that the body was read.
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
                body = b""
            await self._send({"type": "http.response.body", "body": body})
        except asyncio.CancelledError:
            if not self._is_stuck or task is None or task.uncancel():
                raise
            self._cut_off()
        except (OSError, RuntimeError):
            self.lose()
        finally:
            self._replying = None

    async def _put(self, head: Sequence[Header] | None, data: bytes, *, last: bool) -> None:
        try:
            async with asyncio.timeout(self._pace.send):
                if head is not None:
                    await self._send(
                        {"type": "http.response.start", "status": 200, "headers": [*head, *self._farewell()]}
                    )
                await self._send({"type": "http.response.body", "body": data, "more_body": not last})
        except TimeoutError:
            self._cut_off()

    def _cut_off(self) -> None:
        """Give up a client that does not read, and its connection where the server lets us reach it.

        ASGI has no message for it. Uvicorn would keep the connection until the client has read what is written. Its
        `send` is a method of the request, which knows the connection, and must know that the connection is gone:
        uvicorn itself tells that only to the newest request.
        """
        self._is_stuck = True
        self.lose()
        request: Any = getattr(self._send, "__self__", None)
        if hasattr(request, "transport") and hasattr(request, "disconnected"):
            request.disconnected = True
            request.transport.abort()

    def look_after(self, now: float) -> Coroutine[Any, Any, None] | None:
        """Watch for the client's leaving, and return what must be sent to keep it waiting."""
        if self._replying is None:
            return super().look_after(now)
        if self._reply_until is None:
            self._reply_until = now + self._pace.send
        elif now >= self._reply_until and not self._is_stuck:
            self._is_stuck = True
            self._replying.cancel()
        return None

    def is_reading(self) -> bool:
        """Tell whether the body is waited for."""
        return self._reading is not None

    def _hurry(self) -> None:
        if self._reading is not None and not self._is_late:
            self._is_late = True
            self._reading.cancel()

    def _watch(self) -> None:
        if self._watcher is None and (self._is_read or self.streaming):
            self._watcher = asyncio.ensure_future(self._notice())

    async def _notice(self) -> None:
        while not self.ended:
            if (await self._receive())["type"] == "http.disconnect":
                if not self.ended:
                    self.lose()
                return

    @property
    def is_ending(self) -> bool:  # type: ignore[override]
        """Whether the server ends: from when it closes each connection after its response, and not earlier.

        A client would use the connection of a stream that has ended for its next request, and find it closed.
        """
        # ASGI tells so only when all responses are complete, which event streams never are. Uvicorn handles signals by
        # a method of an object that says whether a signal told it to end.
        server = getattr(getsignal(SIGTERM), "__self__", None)
        if getattr(server, "should_exit", False) is not True:
            return False
        return not any(listening.is_serving() for listening in getattr(server, "servers", ()))

    def _farewell(self) -> tuple[Header, ...]:
        """Return what tells the client that the connection is not to be used again, if the server ends."""
        server = getattr(getsignal(SIGTERM), "__self__", None)
        if getattr(server, "should_exit", False) is not True:
            return ()
        return (_CLOSE,) if (self.http_version or "").startswith("1.") else ()

    @property
    def needs_closing(self) -> bool:
        """Whether `close` has anything to do."""
        return self._watcher is not None or self.gone

    async def close(self) -> None:
        """Stop watching, and end into the void what a client that is gone does not take any more.

        A framework around us takes an exchange without a response for a failure.
        """
        if self._watcher is not None:
            await cancel_and_wait(self._watcher)
        if self.gone and not self.streaming and not self.ended:
            self.ended = True
            with suppress(OSError, RuntimeError):
                await self._send({"type": "http.response.start", "status": CLIENT_CLOSED, "headers": []})
                await self._send({"type": "http.response.body", "body": b""})


class AsgiApp:
    """An ASGI 3 application that serves one path, alone or mounted; a lifespan is welcome but not needed."""

    def __init__(
        self,
        service: ExchangeService,
        *,
        path: str = "/mcp",
        pace: Pace = DEFAULT_PACE,
        documents: Mapping[str, bytes] | None = None,
    ) -> None:
        self.site = Site(service, path=path, pace=pace, documents=documents)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        exchange = AsgiExchange(scope, receive, send, self.site.pace)
        try:
            await self.site.serve(exchange, scope["path"], scope.get("root_path", "").rstrip("/"))
        finally:
            if exchange.needs_closing:
                await exchange.close()

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self, seconds: float | None = None) -> None:
        """End what is still open, in good order; for whoever serves the application without a lifespan.

        Event streams end at once. Requests that are not done after so many seconds, five unless something else is said,
        are cancelled, and answered with an error that says so.
        """
        await self.site.close(seconds)
