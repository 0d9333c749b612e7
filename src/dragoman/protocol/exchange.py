"""One HTTP POST: headers and body to what the server shall do with it.

The body decides the era and the headers only cross-check it. A stateless request is opened here, with its headers, so
that each error has its status and echoes the id; what belongs to the handshake era comes out as `InSession`, to be
opened once its session is found.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from dragoman import types
from dragoman.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    RpcError,
    UnsupportedVersion,
)
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.headers import McpHeaders
from dragoman.protocol.versions import ASSUMED_OVER_HTTP, VERSIONS, Version, version_names
from dragoman.types import RequestId

JSON = "application/json"
SSE = "text/event-stream"

OK, ACCEPTED, BAD_REQUEST, NOT_FOUND, NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE = 200, 202, 400, 404, 406, 415


class Rejection(Struct, frozen=True):
    """The answer to what is not served: an HTTP status and a JSON-RPC error."""

    status: int
    error: RpcError
    id: RequestId | None = None
    null_id: bool = False
    """An unknown id is null, as the client's version wants it."""
    request: jsonrpc.Request | None = None
    """What is refused, where it is a request."""

    def body(self) -> bytes:
        """Return the JSON-RPC error."""
        return jsonrpc.encode_error(self.id, self.error, null_id=self.null_id)


class InSession(Struct, frozen=True):
    """Messages of the handshake era, to be taken up by their session."""

    messages: list[jsonrpc.Message]
    batch: bool = False
    is_initialize: bool = False
    """Whether this begins a session."""


_BY_HEADER: dict[str | None, Version] = {None: ASSUMED_OVER_HTTP, **{version.name: version for version in VERSIONS}}

Exchange = eras.McpRequest | jsonrpc.Notification | InSession | Rejection


class Acceptable(Struct, frozen=True):
    """Which kinds of answer a client takes."""

    json: bool
    sse: bool


_REFUSED = re.compile(r"q\s*=\s*0(\.0*)?")


@lru_cache(maxsize=64)
def acceptable(accept: str | None) -> Acceptable:
    """Read an `Accept` header: none takes everything, the most specific range decides, a quality of 0 refuses."""
    ranges = dict(_media_range(part) for part in (accept or "*/*").lower().split(","))
    return Acceptable(_takes(ranges, JSON), _takes(ranges, SSE))


def _media_range(part: str) -> tuple[str, bool]:
    kind, *parameters = (piece.strip() for piece in part.split(";"))
    return kind, not any(_REFUSED.fullmatch(parameter) for parameter in parameters)


def _takes(ranges: dict[str, bool], kind: str) -> bool:
    candidates = (kind, kind.partition("/")[0] + "/*", "*/*")
    return next((ranges[candidate] for candidate in candidates if candidate in ranges), False)


def receive(
    sent: McpHeaders, body: bytes, offer: eras.Offer, limits: jsonrpc.Limits = jsonrpc.DEFAULT_LIMITS
) -> Exchange:
    """Return what a POST asks for, or why it is refused; `refuse_media` is asked before."""
    message: jsonrpc.Message | jsonrpc.Batch = jsonrpc.decode(body, limits)
    if type(message) is jsonrpc.Invalid:
        message = jsonrpc.decode_batch(body, limits) or message
    version = _BY_HEADER.get(sent.protocol_version)
    is_stateless = version is not None and version.stateless
    try:
        match message:
            case jsonrpc.Request():
                return _receive_request(sent, version, message, offer, body)
            case jsonrpc.Invalid(_, error):
                raise error
            case jsonrpc.Batch(messages):
                return _receive_batch(version, messages, offer)
            case jsonrpc.Notification():
                if is_stateless or eras.claims_stateless(message):
                    return message
            case _ if is_stateless:
                raise InvalidRequest("Clients send no responses in this protocol version")
        return _in_session(sent, version, message, offer)
    except RpcError as error:
        request = message if isinstance(message, jsonrpc.Request) else None
        return _reject(rejection_status(error), error, sent, _id_to_echo(message), request)


def _id_to_echo(message: jsonrpc.Message | jsonrpc.Batch) -> RequestId | None:
    """The id of a response is one of ours; in an error it could be taken for a request of the client."""
    match message:
        case jsonrpc.Request(id) | jsonrpc.Invalid(id, _, True):
            return id
        case _:
            return None


def _reject(
    status: int,
    error: RpcError,
    sent: McpHeaders,
    id: RequestId | None = None,
    request: jsonrpc.Request | None = None,
) -> Rejection:
    version = _BY_HEADER.get(sent.protocol_version)
    return Rejection(status, error, id, version is not None and not version.omits_unknown_id, request)


def rejection_status(error: RpcError) -> int:
    """Return the HTTP status of an error that was found before any handler ran."""
    return NOT_FOUND if isinstance(error, MethodNotFound) else BAD_REQUEST


def handler_status(error: RpcError) -> int:
    """Return the HTTP status of an error that a handler raised: 200, but for a missing capability."""
    return BAD_REQUEST if isinstance(error, MissingCapability) else OK


def refuse_media(sent: McpHeaders) -> Rejection | None:
    """Return why a POST is refused whatever its body says: it is no JSON, or no answer would be acceptable."""
    kind = (sent.content_type or "").partition(";")[0].strip().lower()
    if kind != JSON:
        return _reject(UNSUPPORTED_MEDIA_TYPE, InvalidRequest(f"The Content-Type must be {JSON}"), sent)
    taken = acceptable(sent.accept)
    if not taken.json and not taken.sse:
        return _reject(NOT_ACCEPTABLE, InvalidRequest(f"The Accept header must admit {JSON} or {SSE}"), sent)
    return None


def _receive_batch(version: Version | None, messages: list[jsonrpc.Message], offer: eras.Offer) -> InSession:
    if version is None or not version.batches or version not in offer.versions:
        raise InvalidRequest("A message must be a JSON object; this protocol version has no batches")
    for message in messages:
        if isinstance(message, jsonrpc.Request) and (message.method == "initialize" or eras.claims_stateless(message)):
            raise InvalidRequest("A batch must hold neither initialize nor stateless requests")
    return InSession(messages, batch=True)


_CLAIM = types.PROTOCOL_VERSION.encode()


def _receive_request(
    sent: McpHeaders, version: Version | None, message: jsonrpc.Request, offer: eras.Offer, body: bytes
) -> Exchange:
    # Quick path: most messages show by a glance that they claim nothing, and are then read once, in their session.
    # In a message with escapes, the claim may be written otherwise.
    if _CLAIM in body or b"\\" in body:
        try:
            read = eras.read(message, offer)
        except InvalidParams:
            if eras.claims_stateless(message):
                raise
        else:
            if read[0].protocol_version is not None:
                return eras.open(message, offer, read_already=read, sent=sent)
    if message.method == "initialize":
        return InSession([message], is_initialize=True)
    if version is not None and version.stateless:
        return eras.open(message, offer, sent=sent)
    return _in_session(sent, version, message, offer)


def _in_session(sent: McpHeaders, version: Version | None, message: jsonrpc.Message, offer: eras.Offer) -> InSession:
    # MUST (2025-11-25): "respond with 400 Bad Request" to an invalid or unsupported version header.
    if sent.protocol_version is not None and version not in offer.versions:
        raise UnsupportedVersion(sent.protocol_version, version_names(offer.versions))
    # A session knows its version; without one, only a server of 2025-03-26 may assume it.
    if sent.protocol_version is None and sent.session_id is None and ASSUMED_OVER_HTTP not in offer.versions:
        raise HeaderMismatch("The header MCP-Protocol-Version is missing")
    return InSession([message])
