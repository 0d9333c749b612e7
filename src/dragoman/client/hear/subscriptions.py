"""Subscriptions of a client: to resources, and to notifications of extensions.

In the handshake era each resource is subscribed to by a request of its own. In the stateless era one open request
(`subscriptions/listen`) carries a filter with everything that the client subscribes to. When the filter changes, a new
request replaces the old one. When the request ends while the connection is alive, the client sends it again after a
pause, which grows if the request lasted less than five seconds; the client may have missed notifications in the pause.
A request that the server refuses is not sent again with the same filter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.options import TIMEOUT_SECONDS, RequestOptions
from dragoman.errors import (
    AuthError,
    CapabilityNotAvailable,
    DragomanError,
    HttpError,
    RpcError,
    Timeout,
    TransportError,
)
from dragoman.runtime.backoff import backoff
from dragoman.runtime.tasks import keep_until_done

if TYPE_CHECKING:
    from dragoman.client.connect.connection import ServerConnection
    from dragoman.client.session import ClientSession

LISTEN = "subscriptions/listen"
LASTING_SECONDS = 5.0
FIRST_PAUSE, MAX_PAUSE = 0.05, 30.0
_logger = logging.getLogger("dragoman.client")


class ListenStream:
    """The open `subscriptions/listen` request of one client.

    `kind` is the type of the filter, to which extensions add fields. `on_gap` is called when the client may have missed
    notifications.
    """

    def __init__(
        self, kind: type[types.SubscriptionFilter] = types.SubscriptionFilter, on_gap: Callable[[], Any] = lambda: None
    ) -> None:
        self.kind = kind
        self.filter = kind()
        self.acknowledged = kind()
        """The part of the filter that the server acknowledged."""
        self._on_gap = on_gap
        self._task: asyncio.Task[None] | None = None
        self._replaced: set[asyncio.Task[Any]] = set()
        self._id: types.RequestId | None = None
        self._decided = asyncio.Event()
        """Set when the server acknowledged or refused the request."""
        self._refusal: DragomanError | None = None

    @property
    def has_filter(self) -> bool:
        """Whether the client subscribes to anything."""
        return self.filter != self.kind()

    def update(self, connection: ServerConnection, **changes: Any) -> None:
        """Change fields of the filter, and replace the request if the filter differs."""
        changed = msgspec.structs.replace(self.filter, **changes)
        if changed != self.filter or self._task is None:
            self.filter = changed
            self.open(connection)

    def open(self, connection: ServerConnection) -> None:
        """Send the request on a stateless connection, if the client subscribes to anything."""
        self._stop()
        if connection.version.listens and self.has_filter:
            params = {"notifications": msgspec.to_builtins(self.filter)}
            self._task = asyncio.get_running_loop().create_task(self._listen(connection, params))

    async def _listen(self, connection: ServerConnection, params: types.Json) -> None:
        attempt = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await connection.request(LISTEN, params, RequestOptions(on_id=self._note_id))
            except (RpcError, TransportError) as error:
                is_refused = isinstance(error, RpcError | AuthError)
                if is_refused or (isinstance(error, HttpError) and error.status < 500):
                    self._reset()
                    self._refusal = error
                    self._decided.set()
                    return
            self._reset()
            if not connection.is_alive:
                return
            self._on_gap()
            attempt = 1 if loop.time() - began > LASTING_SECONDS else attempt + 1
            await asyncio.sleep(backoff(attempt, FIRST_PAUSE, MAX_PAUSE))

    def _note_id(self, id: types.RequestId) -> None:
        self._id = id

    def _reset(self) -> None:
        self._id = None
        self.acknowledged = self.kind()
        self._decided.clear()

    def acknowledge(self, params: types.Json) -> None:
        """Record the filter that the server acknowledged, unless the acknowledgement is for a replaced request."""
        meta = params.get("_meta")
        id = meta.get(types.SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        acknowledged = msgspec.convert(params.get("notifications"), self.kind)
        if id is None or id == self._id:
            self.acknowledged = acknowledged
            self._decided.set()

    async def wait_acknowledged(self, timeout: float) -> None:
        """Wait until the server acknowledged the request.

        Raises:
            RpcError: the server refused the request.
            Timeout: the server did not answer in time.
            TransportError: the server cannot be reached.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._decided.wait()
        except TimeoutError:
            raise Timeout(f"The server did not acknowledge {LISTEN} within {timeout:g} seconds", self._id) from None
        if self._refusal is not None:
            raise self._refusal

    def _stop(self) -> None:
        task, self._task = self._task, None
        self._reset()
        self._refusal = None
        if task is not None and not task.done():
            task.cancel()
            keep_until_done(task, self._replaced)

    async def wait_replaced(self) -> None:
        """Wait until the replaced requests have ended."""
        if self._replaced:
            await asyncio.wait(list(self._replaced))

    async def close(self) -> None:
        """End the request."""
        self._stop()
        await self.wait_replaced()


class Subscriptions:
    """The subscriptions of one client."""

    def __init__(self, session: ClientSession, on_gap: Callable[[], Any]) -> None:
        self._session = session
        self._on_gap = on_gap
        self.stream = ListenStream(session.extensions.filter_type, on_gap)
        self.resources: set[str] = set()
        self._callbacks: dict[str, list[Callable[[str], Any]]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether the client subscribes to anything."""
        return bool(self.resources) or self.stream.has_filter

    def renew_stream(self) -> None:
        """Replace a stream whose event loop has ended, and keep its filter."""
        renewed = ListenStream(self.stream.kind, self._on_gap)
        renewed.filter, self.stream = self.stream.filter, renewed

    def callbacks_for(self, uri: str) -> list[Callable[[str], Any]]:
        """Return the callbacks of the subscriptions to a resource, and to resources above it."""
        return [
            callback
            for subscribed, callbacks in self._callbacks.items()
            if uri == subscribed or uri.startswith(subscribed.rstrip("/") + "/")
            for callback in callbacks
        ]

    async def subscribe(self, uri: str, on_update: Callable[[str], object] | None = None) -> None:
        """Subscribe to a resource."""
        connection = await self._session.start()
        if not connection.offers("resources", "subscribe"):
            raise CapabilityNotAvailable("The server does not notify of changes to resources (resources.subscribe)")
        self.resources.add(uri)
        try:
            if connection.version.listens:
                self.stream.update(connection, resource_subscriptions=sorted(self.resources))
                await self.stream.wait_acknowledged(self._session.timeout or TIMEOUT_SECONDS)
                if uri not in (self.stream.acknowledged.resource_subscriptions or ()):
                    _logger.warning("The server did not acknowledge the subscription to %s", uri)
            else:
                await self._session.request("resources/subscribe", {"uri": uri}, Raw, RequestOptions())
        except DragomanError:
            if uri not in self._callbacks:
                self.resources.discard(uri)
            raise
        self._callbacks.setdefault(uri, []).extend([] if on_update is None else [on_update])

    async def unsubscribe(self, uri: str) -> None:
        """End the subscription to a resource."""
        self.resources.discard(uri)
        self._callbacks.pop(uri, None)
        connection = await self._session.start()
        if connection.version.listens:
            self.stream.update(connection, resource_subscriptions=sorted(self.resources) or None)
            await self.stream.wait_replaced()
            await connection.cancellations_sent()
        else:
            await self._session.request("resources/unsubscribe", {"uri": uri}, Raw, RequestOptions())

    async def listen(self, **fields: bool | Sequence[str] | None) -> types.SubscriptionFilter:
        """Set fields of extensions in the filter, and return what the server acknowledged."""
        connection = await self._session.start()
        for name in fields:
            field = self._session.extensions.subscription(name)
            if not connection.offers(*field.capability):
                raise CapabilityNotAvailable(f"The server does not offer {name} ({'.'.join(field.capability)})")
        changes = {name: value if isinstance(value, bool) else value and list(value) for name, value in fields.items()}
        self.stream.update(connection, **{name: value or None for name, value in changes.items()})
        if connection.version.listens and self.stream.has_filter:
            await self.stream.wait_acknowledged(self._session.timeout or TIMEOUT_SECONDS)
        return self.stream.acknowledged
