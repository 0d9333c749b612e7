"""The way back to the client of one POST that stands alone: an event stream, which may be a subscription's."""

from __future__ import annotations

import asyncio
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from dragoman import types
from dragoman.errors import DragomanError
from dragoman.protocol import jsonrpc, sse
from dragoman.protocol.inbound import OK
from dragoman.protocol.subscriptions import Subscription
from dragoman.transports.http.exchange import JSON_HEADERS, Exchange

if TYPE_CHECKING:
    from dragoman.server.server import Server

MOST_WAITING = 1000


class PostChannel:
    """The way back to the client of one POST: its own event stream."""

    takes_parts = False
    was_used = False
    """Whether anything was said on it."""

    _waiting: deque[bytes] | None = None
    _flushing: asyncio.Task[None] | None = None
    _listener: ListenStream | None = None

    def __init__(
        self,
        server: Server,
        listeners: set[ListenStream],
        exchange: Exchange,
        *,
        can_stream: bool,
        is_mute: bool = False,
    ) -> None:
        self.is_mute = is_mute
        self._server = server
        self._listeners = listeners
        self._exchange = exchange
        self._can_stream = can_stream
        self._thread = get_ident()

    def notify(self, method: str, params: Any) -> None:
        """Let a notification wait for `room`, or for the loop's next turn.

        A client that takes no stream is told nothing. The oldest gives way when too many wait.
        """
        if not self._can_stream:
            return
        if self._waiting is None:
            self._waiting = deque(maxlen=MOST_WAITING)
            self.was_used = True
        self._waiting.append(sse.encode(jsonrpc.encode_notification(method, params)))
        if get_ident() == self._thread:
            self._exchange.loop.call_soon(self._flush_soon)
        else:
            self._exchange.loop.call_soon_threadsafe(self._flush_soon)

    say = notify

    def _flush_soon(self) -> None:
        is_flushing = self._flushing is not None and not self._flushing.done()
        if self._waiting and not is_flushing and not self._exchange.ended:
            self._flushing = self._exchange.loop.create_task(self.room())

    async def room(self) -> None:
        """Send what waits."""
        while self._waiting:
            waiting = b"".join(self._waiting.popleft() for _ in range(len(self._waiting)))
            await self._exchange.stream(waiting)

    async def stop(self, data: bytes) -> None:
        """Send a response in place of a handler that does not end."""
        if self._exchange.streaming:
            await self._exchange.stream(sse.encode(data), last=True)
        else:
            await self._exchange.reply(OK, data, JSON_HEADERS)

    async def close(self) -> None:
        """Send no more."""
        if self._listener is not None:
            self._listeners.discard(self._listener)
        if self._flushing is not None and not self._flushing.done():
            self._flushing.cancel()
            await asyncio.wait([self._flushing])

    async def request(self, method: str, params: Any, timeout: float) -> Raw:  # noqa: ARG002
        """Refuse: without a session nobody would answer."""
        raise DragomanError(f"{method} cannot be asked here: the request came without a session")

    async def listen(self, subscription: Subscription) -> None:
        """Serve a subscription until the application ends."""
        self._listener = listener = ListenStream(subscription, self._exchange)
        self.was_used = True
        self._listeners.add(listener)
        self._server.audience.add(listener)
        self._exchange.on_ending = listener.end
        try:
            await listener.run()
        finally:
            self._server.audience.discard(listener)

    async def close_stream(self) -> None:
        """Keep the connection: nobody could come back for what follows."""

    def updated(self, uri: str) -> None:
        """Tell those who listen; this request's own stream carries no changes."""
        self._server.notify_resource_updated(uri)


class ListenStream:
    """One subscription on its event stream."""

    def __init__(self, subscription: Subscription, exchange: Exchange) -> None:
        self._subscription = subscription
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._ended = False

    def tell(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Tell of a change, from any thread, if the client wants to know."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, method, subject, params)

    def _take(self, method: str, subject: str | None, params: types.Json | None) -> None:
        if self._subscription.enqueue(method, subject, params):
            self._changed.set()

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send nothing: log messages never travel on a subscription."""

    def complete_elicitation(self, id: str) -> None:
        """Send nothing: nobody who listens so was sent to a page by a request of the server."""

    def end(self) -> None:
        """End in good order."""
        self._ended = True
        self._changed.set()

    async def run(self) -> None:
        """Send the acknowledgement and then changes, until the end."""
        await self._exchange.stream(sse.encode(self._subscription.acknowledgement()))
        while not self._ended:
            await self._changed.wait()
            self._changed.clear()
            changes = b"".join(sse.encode(message) for message in self._subscription.drain())
            if changes:
                await self._exchange.stream(changes)
