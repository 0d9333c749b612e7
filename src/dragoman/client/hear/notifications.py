"""NotificationReceiver: updates the catalog and subscriptions by the server's notifications, and calls callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.catalog import Catalog, Kind
from dragoman.client.hear.deliveries import Deliveries
from dragoman.client.hear.subscriptions import Subscriptions
from dragoman.client.options import OnProgress
from dragoman.errors import ValidationError
from dragoman.protocol import jsonrpc
from dragoman.protocol.peer import PROGRESS
from dragoman.protocol.subscriptions import (
    ACKNOWLEDGED,
    PROMPTS_CHANGED,
    RESOURCE_UPDATED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
)
from dragoman.types import decode

if TYPE_CHECKING:
    from dragoman.client.extensions.installed import Extensions

LOG = "notifications/message"
_CHANGED: dict[str, tuple[Kind, ...]] = {
    TOOLS_CHANGED: ("tools",),
    PROMPTS_CHANGED: ("prompts",),
    RESOURCES_CHANGED: ("resources", "resource_templates"),
}
LEVELS: dict[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}
_params = msgspec.json.Decoder(types.Json)
_logger = logging.getLogger("dragoman.client")
_server_logger = logging.getLogger("dragoman.client.server")


class LogMessage(Struct, frozen=True):
    """A log message of a server."""

    level: types.LoggingLevel
    data: Any
    logger: str | None = None


class ServerNotification(Struct, frozen=True):
    """A notification of a server: its method, and its parameters as plain JSON."""

    method: str
    params: types.Json


class ClientCallbacks(Struct, kw_only=True):
    """The author's functions that are called with notifications."""

    on_log: Callable[[LogMessage], object] | None = None
    log_level: types.LoggingLevel = "warning"
    on_progress: OnProgress | None = None
    on_notification: Callable[[ServerNotification], object] | None = None
    on_list_changed: Callable[[str], object] | None = None
    on_resource_updated: Callable[[str], object] | None = None
    on_reconnect: Callable[[], object] | None = None


class NotificationReceiver:
    """Receives the notifications of one client's server."""

    def __init__(
        self, callbacks: ClientCallbacks, catalog: Catalog, subscriptions: Subscriptions, extensions: Extensions
    ) -> None:
        self.callbacks = callbacks
        self.deliveries = Deliveries()
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._extensions = extensions

    def receive_progress(self, on_progress: OnProgress | None, params: types.ProgressNotificationParams) -> None:
        """Deliver progress of a request to the request's `on_progress`, else to the client's."""
        callbacks, size = self.callbacks, len(params.message or "")
        callback = on_progress or callbacks.on_progress
        if callback is not None:
            self.deliveries.put(callback, params.progress, params.total, params.message, size=size)
        if callbacks.on_notification is not None:
            notification = ServerNotification(PROGRESS, msgspec.to_builtins(params))
            self.deliveries.put(callbacks.on_notification, notification, size=size)

    def receive(self, notification: jsonrpc.Notification) -> None:
        """Handle a notification other than progress."""
        try:
            params = _params.decode(notification.params)
            self._handle(notification.method, notification.params, params)
        except (msgspec.DecodeError, ValidationError, RecursionError) as error:
            _logger.warning("A notification %s of the server cannot be read: %s", notification.method[:100], error)

    def _handle(self, method: str, raw: Raw, params: types.Json) -> None:
        callbacks = self.callbacks
        if method in _CHANGED:
            self._catalog.forget(*_CHANGED[method])
            for kind in _CHANGED[method]:
                self._deliver_change(callbacks.on_list_changed, kind)
        elif method == RESOURCE_UPDATED:
            uri = decode(raw, types.ResourceUpdatedNotificationParams).uri
            self._catalog.forget_contents(uri)
            for callback in (*self._subscriptions.callbacks_for(uri), callbacks.on_resource_updated):
                self._deliver_change(callback, uri)
        elif method == LOG:
            log = decode(raw, types.LoggingMessageNotificationParams)
            message = LogMessage(log.level, log.data, log.logger)
            self.deliver(callbacks.on_log or log_locally, message, size=len(raw))
        elif method == ACKNOWLEDGED:
            self._subscriptions.stream.acknowledge(params)
        else:
            self._extensions.notified(method, raw, self.deliver)
        self.deliver(callbacks.on_notification, ServerNotification(method, params), size=len(method) + len(raw))

    def deliver(self, function: Callable[..., Any] | None, *args: Any, size: int = 0) -> None:
        """Call a function, if there is one, after its waiting calls."""
        if function is not None:
            self.deliveries.put(function, *args, size=size)

    def _deliver_change(self, function: Callable[[str], Any] | None, what: str) -> None:
        if function is not None:
            self.deliveries.put_change(function, what)


async def log_locally(message: LogMessage) -> None:
    """Write a server's log message to the logger `dragoman.client.server`."""
    _server_logger.log(LEVELS[message.level], "%s%s", f"{message.logger}: " if message.logger else "", message.data)
