"""JSON-RPC 2.0 messages: decoding, encoding and limits.

`decode` never raises. Bytes that are no message become an `Invalid`, which holds the error to answer with. `decode`
checks every limit of a message (size, nesting, UTF-8), so later decoders need not check them again. Parameters, results
and errors stay encoded as `Raw` slices until the code that knows their type decodes them.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate
from math import isfinite
from typing import Any, Literal, final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.errors import InternalError, InvalidRequest, ParseError, RpcError, ValidationError
from dragoman.types import RequestId

NO_PARAMS = Raw(b"{}")
_NULL = Raw(b"null")


class Limits(Struct, frozen=True):
    """The limits of one message."""

    message_bytes: int = 4 * 1024 * 1024
    nesting: int = 128
    batch: int = 1000


DEFAULT_LIMITS = Limits()
CLIENT_LIMITS = Limits(message_bytes=32 * 1024 * 1024)
"""The limits of a message to a client: a server sends files of up to 16 MiB, which base64 makes a third larger."""


@final
class Request(Struct, frozen=True, gc=False):
    """A request. The receiver sends one response with the same id."""

    id: RequestId
    method: str
    params: Raw = NO_PARAMS


@final
class Notification(Struct, frozen=True, gc=False):
    """A notification. It has no response."""

    method: str
    params: Raw = NO_PARAMS


@final
class ResultResponse(Struct, frozen=True):
    """The successful response to a request."""

    id: RequestId
    result: Raw


@final
class ErrorResponse(Struct, frozen=True):
    """The error response to a request. The id is None if the peer could not read the id of the request."""

    id: RequestId | None
    error: RpcError


@final
class Invalid(Struct, frozen=True):
    """Bytes or JSON that are no message, with the error to answer with.

    `answer` is False for a malformed response. An id in it names a request of this side, so no error is sent.
    """

    id: RequestId | None
    error: RpcError
    answer: bool = True


Message = Request | Notification | ResultResponse | ErrorResponse | Invalid


@final
class Batch(Struct, frozen=True):
    """Several messages in one JSON array (2025-03-26 only)."""

    messages: list[Message]


class _Envelope(Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = NO_PARAMS
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _ErrorObject(Struct):
    code: int
    message: str
    data: Any | UnsetType = UNSET


_envelope = msgspec.json.Decoder(_Envelope)
_parts = msgspec.json.Decoder(dict[str, Raw])
_any = msgspec.json.Decoder(Raw)
_elements = msgspec.json.Decoder(list[Raw])
_error_object = msgspec.json.Decoder(_ErrorObject)
_request_id = msgspec.json.Decoder(int | str)


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Message:
    """Return the message that the bytes hold.

    Example:
        decode(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')  # Request(id=1, method='ping', ...)
    """
    problem = _over_limits(data, limits)
    if problem is not None:
        return Invalid(None, ParseError(problem))
    try:
        envelope = _envelope.decode(data)
    except msgspec.ValidationError as error:
        return _diagnose(data, error)
    except (msgspec.DecodeError, RecursionError) as error:
        return _unparsable(error)
    id, method = envelope.id, envelope.method
    if method is UNSET:
        if id is UNSET or id is None or envelope.result is UNSET or envelope.error is not UNSET:
            return _decode_refusal(envelope)
        return ResultResponse(id, envelope.result)
    params = NO_PARAMS if envelope.params == _NULL else envelope.params
    if method.startswith("rpc."):
        return Invalid(None if id is UNSET else id, InvalidRequest("Method names that begin with 'rpc.' are reserved"))
    if id is UNSET:
        return Notification(method, params)
    if id is None:
        return Invalid(None, InvalidRequest("A request id must not be null"))
    return Request(id, method, params)


def _over_limits(data: bytes, limits: Limits) -> str | None:
    size = len(data)
    if size > limits.message_bytes:
        return f"The message has {size} bytes; at most {limits.message_bytes} are accepted"
    # msgspec does not check the UTF-8 of fields that it skips or keeps as Raw.
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return "The message is not valid UTF-8"
    if nests_deeper(data, limits.nesting):
        return f"The message is nested deeper than {limits.nesting} levels"
    return None


_PART_BYTES = 65_536
_AS_CHANGES = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")
_NOT_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}"')


def nests_deeper(data: bytes, levels: int) -> bool:
    """Tell whether JSON nests arrays and objects deeper than `levels`, without decoding it."""
    if data.count(b"{") + data.count(b"[") <= levels:
        return False
    changes = memoryview(_outside_strings(_marks(data))).cast("b")
    return max(accumulate(changes), default=0) > levels


def _marks(data: bytes) -> bytes:
    """Return only the quotes and the brackets of JSON; a bracket becomes its change of the depth, as a signed byte.

    Two adjacent quotes are removed: the text after the pair is inside a string exactly if the text before it is.
    """
    if b"\\" in data:
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    return data.translate(_AS_CHANGES, _NOT_MARKS).replace(b'""', b"")


def _outside_strings(marks: bytes) -> bytes:
    outside: list[bytes] = []
    is_inside = False
    # Part by part, because `split` holds every piece in memory at once.
    for at in range(0, len(marks), _PART_BYTES):
        pieces = marks[at : at + _PART_BYTES].split(b'"')
        outside.append(b"".join(pieces[is_inside::2]))
        is_inside ^= len(pieces) % 2 == 0
    return b"".join(outside)


def _unparsable(error: Exception) -> Invalid:
    return Invalid(None, ParseError(f"The message is not JSON: {error}"))


def _decode_refusal(envelope: _Envelope) -> ErrorResponse | Invalid:
    id = None if envelope.id is UNSET else envelope.id
    if envelope.error is not UNSET:
        return ErrorResponse(id, decode_error(envelope.error))
    if envelope.result is UNSET:
        return Invalid(id, InvalidRequest("A message needs a method, a result or an error"))
    return Invalid(None, InvalidRequest("A result needs the id of its request"), answer=False)


def decode_error(data: bytes | Raw) -> RpcError:
    """Return the error that a peer sent. A malformed error becomes an InternalError, so that its request still ends."""
    try:
        error = _error_object.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return InternalError("The peer answered with a malformed error")
    return RpcError.of(error.code, error.message, error.data)


def _diagnose(data: bytes, mismatch: msgspec.ValidationError) -> Invalid:
    """Return the `Invalid` for JSON that is no message, with the id if it can be read."""
    try:
        _any.decode(data)
        parts = _parts.decode(data)
    except msgspec.ValidationError:
        return Invalid(None, InvalidRequest("A message must be a JSON object; batches exist in 2025-03-26 only"))
    except (msgspec.DecodeError, RecursionError) as error:
        return _unparsable(error)
    id: RequestId | None = None
    with suppress(KeyError, msgspec.DecodeError):
        id = _request_id.decode(parts["id"])
    is_response = "method" not in parts and ("result" in parts or "error" in parts)
    return Invalid(id, InvalidRequest(f"Not a JSON-RPC 2.0 message: {mismatch}"), answer=not is_response)


def decode_batch(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Batch | Invalid | None:
    """Return the messages of a batch (2025-03-26), or None if the bytes are no JSON array.

    Example:
        decode_batch(b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]')  # Batch([Request(id=1, ...)])
    """
    if not data.lstrip().startswith(b"["):
        return None
    problem = _over_limits(data, limits)
    if problem is not None:
        return Invalid(None, ParseError(problem))
    try:
        elements = _elements.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        return _unparsable(error)
    if not elements:
        return Invalid(None, InvalidRequest("A batch must not be empty"))
    if len(elements) > limits.batch:
        return Invalid(None, InvalidRequest(f"A batch must not hold more than {limits.batch} messages"))
    return Batch([decode(bytes(element), limits) for element in elements])


class _RequestOut(Struct, tag_field="jsonrpc", tag="2.0"):
    id: RequestId
    method: str
    params: Any


class _NotificationOut(Struct, tag_field="jsonrpc", tag="2.0"):
    method: str
    params: Any


class _ResultOut(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: RequestId
    result: Any


class _ErrorOut(Struct, tag_field="jsonrpc", tag="2.0"):
    id: RequestId | UnsetType | None
    error: _ErrorObject


_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        ValidationError: JSON has no form for the value: a lone surrogate, a cycle, an unknown type, a huge integer.
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValidationError(f"The value cannot be sent as JSON: {error}") from None


def encode_request(id: RequestId, method: str, params: Any = NO_PARAMS) -> bytes:
    """Return the bytes of a request.

    Raises:
        ValidationError: JSON has no form for the parameters; NaN and infinity are refused too.
    """
    data = encode(_RequestOut(id, method, params))
    if type(params) is not Raw and b"null" in data:
        _require_finite(params)
    return data


def _require_finite(params: Any) -> None:
    """Refuse NaN and infinity. The encoder would write null, and the peer would read an absent value."""
    unseen = [params]
    while unseen:
        value = unseen.pop()
        if isinstance(value, float):
            if not isfinite(value):
                raise ValidationError(f"The value cannot be sent as JSON: there is no number {value} in JSON")
        elif isinstance(value, dict):
            unseen += value.values()
        elif isinstance(value, list | tuple):
            unseen += value
        elif isinstance(value, Struct):
            unseen += [getattr(value, name) for name in value.__struct_fields__]


def encode_notification(method: str, params: Any = NO_PARAMS) -> bytes:
    """Return the bytes of a notification."""
    return encode(_NotificationOut(method, params))


def encode_result(id: RequestId, result: Any) -> bytes:
    """Return the bytes of a response; a `Raw` result is copied as it is."""
    return encode(_ResultOut(id, result))


def encode_error(id: RequestId | None, error: RpcError, *, null_id: bool = False) -> bytes:
    """Return the bytes of an error response. If the id is None, the response has no id, or null with `null_id`."""
    shown = UNSET if id is None and not null_id else id
    return encode(_ErrorOut(shown, _ErrorObject(error.code, error.message, error.data)))


def encode_batch(messages: list[bytes]) -> bytes:
    """Return the bytes of a batch of encoded messages."""
    return encode([Raw(message) for message in messages])
