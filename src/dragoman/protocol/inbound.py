"""One inbound HTTP POST: its headers and body become a request, a notification, messages of a session, or a rejection.

The body decides the era; the headers must agree with the body. `receive_post` opens a stateless request, because an
error of such a request decides the HTTP status. It returns messages of the handshake era as `SessionMessages`. The
session opens these, because it knows the version and the capabilities of the client.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from dragoman.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    RpcError,
    UnsupportedVersion,
)
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.headers import McpHeaders
from dragoman.protocol.statuses import NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE, rejection_status
from dragoman.protocol.versions import ASSUMED_OVER_HTTP, Version, find_version, version_names
from dragoman.types import RequestId

JSON = "application/json"
SSE = "text/event-stream"


class Rejection(Struct, frozen=True):
    """The response to a POST that is not served: an HTTP status and a JSON-RPC error."""

    status: int
    """A status of `protocol.statuses`."""
    error: RpcError
    id: RequestId | None = None
    null_id: bool = False
    """An unknown id is sent as null, as versions before 2025-11-25 require."""
    request: jsonrpc.Request | None = None
    """The rejected request, if the body was one."""


class SessionMessages(Struct, frozen=True):
    """Messages of the handshake era, to be received by their session."""

    messages: list[jsonrpc.Message]
    batch: bool = False
    is_initialize: bool = False
    """The message is `initialize`, which begins a session."""


InboundPost = eras.McpRequest | jsonrpc.Notification | SessionMessages | Rejection

_QUALITY_ZERO = re.compile(r"q\s*=\s*0(\.0*)?")


class AcceptedTypes(Struct, frozen=True):
    """The media types of a response that a client accepts."""

    json: bool
    sse: bool


@lru_cache(maxsize=64)
def accepted_types(accept: str | None) -> AcceptedTypes:
    """Read an `Accept` header. An absent header accepts all types; the most specific range decides; q=0 refuses."""
    ranges = dict(_media_range(part) for part in (accept or "*/*").lower().split(","))

    def accepts(kind: str) -> bool:
        candidates = (kind, kind.partition("/")[0] + "/*", "*/*")
        return next((ranges[candidate] for candidate in candidates if candidate in ranges), False)

    return AcceptedTypes(accepts(JSON), accepts(SSE))


def _media_range(part: str) -> tuple[str, bool]:
    kind, *parameters = (piece.strip() for piece in part.split(";"))
    return kind, not any(_QUALITY_ZERO.fullmatch(parameter) for parameter in parameters)


def reject_media_types(headers: McpHeaders) -> Rejection | None:
    """Return a rejection if the body is not JSON, or if the client accepts neither JSON nor SSE; needs no body."""
    kind = (headers.content_type or "").partition(";")[0].strip().lower()
    if kind != JSON:
        return _reject(UNSUPPORTED_MEDIA_TYPE, InvalidRequest(f"The Content-Type must be {JSON}"), headers)
    accepted = accepted_types(headers.accept)
    if not accepted.json and not accepted.sse:
        return _reject(NOT_ACCEPTABLE, InvalidRequest(f"The Accept header must admit {JSON} or {SSE}"), headers)
    return None


def receive_post(
    headers: McpHeaders, body: bytes, offer: eras.Offer, limits: jsonrpc.Limits = jsonrpc.DEFAULT_LIMITS
) -> InboundPost:
    """Return the content of a POST, or its rejection. The caller calls `reject_media_types` first."""
    message: jsonrpc.Message | jsonrpc.Batch = jsonrpc.decode(body, limits)
    version = _version(headers)
    if type(message) is jsonrpc.Request:
        try:
            return _receive_request(headers, version, message, offer)
        except RpcError as refused:
            return _reject(rejection_status(refused), refused, headers, message.id, message)
    if type(message) is jsonrpc.Invalid:
        message = jsonrpc.decode_batch(body, limits) or message
    is_stateless = version is not None and version.stateless
    id: RequestId | None = None
    try:
        match message:
            case jsonrpc.Invalid(invalid_id, error, answer):
                id = invalid_id if answer else None
                raise error
            case jsonrpc.Batch(messages):
                return _receive_batch(version, messages, offer)
            case jsonrpc.Notification():
                if is_stateless or eras.claims_stateless(message):
                    return message
            case _ if is_stateless:
                raise InvalidRequest("Clients send no responses in this protocol version")
        return _in_session(headers, version, message, offer)
    except RpcError as error:
        return _reject(rejection_status(error), error, headers, id)


def _version(headers: McpHeaders) -> Version | None:
    return ASSUMED_OVER_HTTP if headers.protocol_version is None else find_version(headers.protocol_version)


def _receive_request(
    headers: McpHeaders, version: Version | None, message: jsonrpc.Request, offer: eras.Offer
) -> InboundPost:
    already_read: eras.ReadParams | None = None
    try:
        already_read = eras.read_params(message, offer)
    except InvalidParams:
        if eras.claims_stateless(message):
            raise
    names_version = already_read is not None and already_read[0].protocol_version is not None
    if message.method == "initialize" and not names_version:
        return SessionMessages([message], is_initialize=True)
    if names_version or (version is not None and version.stateless):
        return eras.open(message, offer, None, already_read, headers)
    return _in_session(headers, version, message, offer)


def _receive_batch(version: Version | None, messages: list[jsonrpc.Message], offer: eras.Offer) -> SessionMessages:
    if version is None or not version.batches or version not in offer.versions:
        raise InvalidRequest("A message must be a JSON object; this protocol version has no batches")
    for message in messages:
        if isinstance(message, jsonrpc.Request) and (message.method == "initialize" or eras.claims_stateless(message)):
            raise InvalidRequest("A batch must hold neither initialize nor stateless requests")
    return SessionMessages(messages, batch=True)


def _in_session(
    headers: McpHeaders, version: Version | None, message: jsonrpc.Message, offer: eras.Offer
) -> SessionMessages:
    # MUST (2025-11-25): "respond with 400 Bad Request" to an invalid or unsupported version header.
    if headers.protocol_version is not None and version not in offer.versions:
        raise UnsupportedVersion(headers.protocol_version, version_names(offer.versions))
    # SHOULD (2025-06-18): without the header, and without a session that knows its version, assume 2025-03-26.
    if headers.protocol_version is None and headers.session_id is None and ASSUMED_OVER_HTTP not in offer.versions:
        raise HeaderMismatch("The header MCP-Protocol-Version is missing")
    return SessionMessages([message])


def _reject(
    status: int,
    error: RpcError,
    headers: McpHeaders,
    id: RequestId | None = None,
    request: jsonrpc.Request | None = None,
) -> Rejection:
    version = _version(headers)
    return Rejection(status, error, id, version is not None and not version.omits_unknown_id, request)
