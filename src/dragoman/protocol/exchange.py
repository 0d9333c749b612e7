"""One HTTP POST: headers and body to what the server shall do with it.

The body decides the era and the headers only cross-check it. A stateless request climbs the whole ladder here, so that
each error has its status and echoes the id; what belongs to the handshake era comes out as `InSession`, to be opened
once its session is found.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    RpcError,
    UnsupportedVersion,
)
from dragoman.protocol import eras, headers, jsonrpc
from dragoman.protocol.headers import RequestHeaders
from dragoman.protocol.methods import Method
from dragoman.protocol.versions import find_version, version_names
from dragoman.types import PROTOCOL_VERSION, RequestId

JSON = "application/json"
SSE = "text/event-stream"

OK, ACCEPTED, BAD_REQUEST, NOT_FOUND, NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE = 200, 202, 400, 404, 406, 415


class Rejection(Struct, frozen=True):
    """The answer to what is not served: an HTTP status and a JSON-RPC error."""

    status: int
    error: RpcError
    id: RequestId | None = None

    def body(self) -> bytes:
        """Return the JSON-RPC error."""
        return jsonrpc.encode_error(self.id, self.error)


class InSession(Struct, frozen=True):
    """Messages of the handshake era, to be taken up by their session."""

    messages: list[jsonrpc.Message]
    batch: bool = False

    @property
    def is_initialize(self) -> bool:
        """Whether this begins a session."""
        return not self.batch and getattr(self.messages[0], "method", None) == "initialize"


Exchange = eras.Request | jsonrpc.Notification | InSession | Rejection


class Acceptable(Struct, frozen=True):
    """Which kinds of answer a client takes."""

    json: bool
    sse: bool


def acceptable(accept: str | None) -> Acceptable:
    """Read an `Accept` header; an absent one takes everything, and a quality of 0 takes nothing."""
    ranges = [_media_range(part) for part in ("*/*" if accept is None else accept).lower().split(",")]
    return Acceptable(
        *(any(taken in (kind, kind.split("/")[0] + "/*", "*/*") for taken in ranges) for kind in (JSON, SSE))
    )


def _media_range(part: str) -> str:
    kind, *parameters = (piece.strip() for piece in part.split(";"))
    refused = any(parameter.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for parameter in parameters)
    return "" if refused else kind


def receive(
    sent: RequestHeaders, body: bytes, offer: eras.Offer, limits: jsonrpc.Limits = jsonrpc.DEFAULT_LIMITS
) -> Exchange:
    """Return what a POST asks for, or why it is refused."""
    refusal = _refuse_media(sent)
    if refusal is not None:
        return refusal
    message = jsonrpc.decode(body, limits, batches=True)
    try:
        match message:
            case jsonrpc.Invalid(id, error):
                return Rejection(BAD_REQUEST, error, id)
            case jsonrpc.Batch(messages):
                return _receive_batch(sent, messages)
            case jsonrpc.Request():
                return _receive_request(sent, message, offer)
            case jsonrpc.Notification():
                return message if _speaks_stateless(sent) or eras.claims_stateless(message) else InSession([message])
            case _:
                return _receive_response(sent, message)
    except RpcError as error:
        return Rejection(rejection_status(error), error, getattr(message, "id", None))


def rejection_status(error: RpcError) -> int:
    """Return the HTTP status of an error that was found before any handler ran."""
    return NOT_FOUND if isinstance(error, MethodNotFound) else BAD_REQUEST


def handler_status(error: RpcError) -> int:
    """Return the HTTP status of an error that a handler raised: 200, but for a missing capability."""
    return BAD_REQUEST if isinstance(error, MissingCapability) else OK


def _refuse_media(sent: RequestHeaders) -> Rejection | None:
    kind = (sent.content_type or "").partition(";")[0].strip().lower()
    if kind != JSON:
        return Rejection(UNSUPPORTED_MEDIA_TYPE, InvalidRequest(f"The Content-Type must be {JSON}"))
    taken = acceptable(sent.accept)
    if not taken.json and not taken.sse:
        return Rejection(NOT_ACCEPTABLE, InvalidRequest(f"The Accept header must admit {JSON} or {SSE}"))
    return None


def _speaks_stateless(sent: RequestHeaders) -> bool:
    version = find_version(sent.protocol_version)
    return version is not None and version.stateless


def _receive_batch(sent: RequestHeaders, messages: list[jsonrpc.Message]) -> Exchange:
    version = find_version(sent.protocol_version)
    if version is not None and not version.batches:
        raise InvalidRequest(f"Protocol version {version.name} has no batches")
    for message in messages:
        if isinstance(message, jsonrpc.Request) and (message.method == "initialize" or eras.claims_stateless(message)):
            raise InvalidRequest("A batch must hold neither initialize nor stateless requests")
    return InSession(messages, batch=True)


def _receive_response(sent: RequestHeaders, message: jsonrpc.Message) -> Exchange:
    if _speaks_stateless(sent):
        raise InvalidRequest("Clients send no responses in this protocol version")
    return InSession([message])


def _receive_request(sent: RequestHeaders, message: jsonrpc.Request, offer: eras.Offer) -> Exchange:
    if eras.claims_stateless(message):
        return _climb(sent, message, offer)
    if message.method == "initialize":
        return InSession([message])
    if _speaks_stateless(sent):
        raise InvalidParams(f"_meta lacks {PROTOCOL_VERSION!r}, which every request carries in this protocol version")
    if sent.protocol_version is not None and find_version(sent.protocol_version) not in offer.versions:
        raise UnsupportedVersion(sent.protocol_version, version_names(offer.versions))
    return InSession([message])


def _climb(sent: RequestHeaders, message: jsonrpc.Request, offer: eras.Offer) -> eras.Request:
    """The ladder of a stateless request, each rung before the next: `_meta`, headers, version, method."""
    raw_meta, meta = eras.read_meta(message.params)
    claimed = eras.require_envelope(meta)
    headers.check_single(sent)
    headers.check_mirror("MCP-Protocol-Version", sent.protocol_version, claimed)
    caller = eras.stateless_caller(meta, offer)
    headers.check_mirror("Mcp-Method", sent.method, message.method)
    method = offer.find(message.method, caller.version)
    _check_name(sent, method, message.params)
    return eras.Request(message.id, method, message.params, caller, meta.progress_token, raw_meta)


_parts = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Decoder(str)


def _check_name(sent: RequestHeaders, method: Method, params: Raw) -> None:
    if method.name_from is None:
        return
    expected = _decode_text(_parts.decode(params).get(method.name_from))
    # Parameters without a name are refused by their own rung; there is nothing to mirror.
    if expected is not None:
        headers.check_mirror("Mcp-Name", sent.name, expected)
    elif sent.name is not None:
        raise HeaderMismatch("The header Mcp-Name was sent, but the body has no name")


def _decode_text(raw: Raw | None) -> str | None:
    try:
        return None if raw is None else _text.decode(raw)
    except msgspec.DecodeError:
        return None
