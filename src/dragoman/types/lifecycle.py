"""initialize and server/discover, cancellation, progress and logging."""

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
"""The W3C trace context, which travels in `_meta` under these keys."""


class RequestMeta(Wire):
    """The keys of a request's `_meta` that the protocol reads; the first four come from 2026-07-28 on."""

    protocol_version: str | None = field(default=None, name=PROTOCOL_VERSION)
    client_capabilities: ClientCapabilities | None = field(default=None, name=CLIENT_CAPABILITIES)
    client_info: Implementation | None = field(default=None, name=CLIENT_INFO)
    log_level: LoggingLevel | None = field(default=None, name=LOG_LEVEL)
    progress_token: ProgressToken | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None


class InitializeRequestParams(Params):
    """How a client introduces itself (until 2025-11-25)."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Result):
    """How a server introduces itself (until 2025-11-25)."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult):
    """What a server speaks and offers (2026-07-28); its name is in `_meta`."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class CancelledNotificationParams(Params):
    """The request to stop; 2025-11-25 alone leaves `request_id` optional."""

    request_id: RequestId | None = None
    reason: str | None = None


class ProgressNotificationParams(Params):
    """How far a request has come; `progress` only ever increases."""

    progress_token: ProgressToken
    progress: Number
    total: Number | None = None
    message: str | None = None


class SetLevelRequestParams(Params):
    """From which level on to log (until 2025-11-25)."""

    level: LoggingLevel


class LoggingMessageNotificationParams(Params):
    """A log message; `data` is any JSON value."""

    level: LoggingLevel
    data: Any
    logger: str | None = None
