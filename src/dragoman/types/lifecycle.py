"""The types of `initialize`, `server/discover`, cancellation, progress and logging, and the keys of `_meta`."""

from __future__ import annotations

from typing import Any

from msgspec import field

from dragoman.types.capabilities import ClientCapabilities, ServerCapabilities
from dragoman.types.wire import (
    CacheableResult,
    Implementation,
    LoggingLevel,
    Number,
    Params,
    ProgressToken,
    RequestId,
    Result,
    Wire,
)

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
TRACEPARENT, TRACESTATE, BAGGAGE = TRACE_KEYS = ("traceparent", "tracestate", "baggage")
"""The keys of the W3C trace context in `_meta`."""


class RequestMeta(Wire):
    """The keys of a request's `_meta` that the protocol defines; the first four exist since 2026-07-28."""

    protocol_version: str | None = field(default=None, name=PROTOCOL_VERSION)
    client_capabilities: ClientCapabilities | None = field(default=None, name=CLIENT_CAPABILITIES)
    client_info: Implementation | None = field(default=None, name=CLIENT_INFO)
    log_level: LoggingLevel | None = field(default=None, name=LOG_LEVEL)
    progress_token: ProgressToken | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None


class InitializeRequestParams(Params):
    """The version, capabilities and name of a client (until 2025-11-25)."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Result):
    """The version, capabilities and name of a server (until 2025-11-25)."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult):
    """The versions and capabilities of a server (2026-07-28); `_meta` has its name."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class CancelledNotificationParams(Params):
    """The request to cancel; `request_id` is optional in 2025-11-25 only."""

    request_id: RequestId | None = None
    reason: str | None = None


class ProgressNotificationParams(Params):
    """The progress of a request; `progress` increases with each notification."""

    progress_token: ProgressToken
    progress: Number
    total: Number | None = None
    message: str | None = None


class SetLevelRequestParams(Params):
    """The lowest level of log messages to send (until 2025-11-25)."""

    level: LoggingLevel


class LoggingMessageNotificationParams(Params):
    """A log message; `data` is any JSON value."""

    level: LoggingLevel
    data: Any
    logger: str | None = None
