"""JSON-RPC 2.0: bytes to messages and back.

`decode` never raises: whatever a peer sent, the answer is a message, and `Invalid` is the message for what could not be
read, ready to be answered. Every limit of the wire is checked here, once, so that the decoders behind it see only valid
UTF-8 of bounded size and depth. Parameters, results and errors stay `Raw`: who knows their type decodes them.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from math import isfinite
from operator import add
from typing import Any, Literal, final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.errors import InternalError, InvalidRequest, ParseError, RpcError, ValidationError
from dragoman.types import RequestId

NO_PARAMS = Raw(b"{}")
_NULL = Raw(b"null")
_NULL_BYTES = len(_NULL)


class Limits(Struct, frozen=True):
    """How large, how deep and how many: the bounds of one message. The last two follow from the others."""

    message_bytes: int = 4 * 1024 * 1024
    nesting: int = 128
    batch: int = 1000
    flat_bytes: int = 0
    """So many can be neither too many nor nested too deeply: a level takes two."""
    flat_objects_bytes: int = 0
    """So many, if there are only objects, whose members have names: a level of these takes five."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "flat_bytes", min(2 * self.nesting, self.message_bytes))
        msgspec.structs.force_setattr(self, "flat_objects_bytes", min(5 * self.nesting, self.message_bytes))


DEFAULT_LIMITS = Limits()


@final
class Request(Struct, frozen=True, gc=False):
    """A request: it wants one response with its id."""

    id: RequestId
    method: str
    params: Raw = NO_PARAMS


@final
class Notification(Struct, frozen=True, gc=False):
    """A notification: it is never answered."""

    method: str
    params: Raw = NO_PARAMS


@final
class ResultResponse(Struct, frozen=True):
    """The answer to a request of ours."""

    id: RequestId
    result: Raw


@final
class ErrorResponse(Struct, frozen=True):
    """The refusal of a request of ours; without an id the peer could not tell which."""

    id: RequestId | None
    error: RpcError


@final
class Invalid(Struct, frozen=True):
    """What is not a message; `answer` is false where an answer could be taken for another one."""

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


(_OPENING,) = b"["


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Message:
    """Return the message that the bytes hold.

    Example:
        decode(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')  # Request(id=1, method='ping', ...)
    """
    size = len(data)
    is_flat = size <= limits.flat_bytes or (size <= limits.flat_objects_bytes and _OPENING not in data)
    if not is_flat or not data.isascii():
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
    params = envelope.params
    if len(params) == _NULL_BYTES and params == _NULL:
        params = NO_PARAMS
    if method[:4] == "rpc.":  # which is quicker than `startswith`
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
    # msgspec does not check the UTF-8 of what it skips or keeps as Raw.
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return "The message is not valid UTF-8"
    if nests_deeper(data, limits.nesting):
        return f"The message is nested deeper than {limits.nesting} levels"
    return None


_SHORT = 4096
_PART_BYTES = 65_536
_AS_BITS = bytes.maketrans(b"{[]}", b"1100")
_NOT_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}"')


def _walk(brackets: int) -> tuple[int, int]:
    """Return by how much eight brackets change the depth, and how far they go above it on the way."""
    depth = peak = 0
    for bit in range(7, -1, -1):
        depth += 1 if brackets >> bit & 1 else -1
        peak = max(peak, depth)
    return depth, peak


@cache
def _changes_and_peaks() -> tuple[bytes, bytes]:
    """Return what `_walk` gives for every byte; few messages have so many brackets that it is needed."""
    changes, peaks = zip(*map(_walk, range(256)), strict=True)
    return bytes(change % 256 for change in changes), bytes(peaks)


def nests_deeper(data: bytes, levels: int) -> bool:
    """Tell whether JSON has more nested arrays and objects than that, without building any of them.

    The time is linear in the size, whatever the JSON is. Eight brackets become the bits of one byte, so that the steps
    in Python are few.
    """
    if not _opens_more(data, levels):
        return False
    brackets = _outside_strings(_marks(data))
    size = len(brackets) // 8 + 1
    packed = int(brackets.ljust(8 * size, b"0"), 2).to_bytes(size, "big")
    changes, peaks = _changes_and_peaks()
    before = accumulate(memoryview(packed.translate(changes)).cast("b"), initial=0)
    deepest: int = max(map(add, before, packed.translate(peaks)))
    return deepest > levels


def _marks(data: bytes) -> bytes:
    """Return only the quotes around strings, and the brackets: 1 for one that opens, 0 for one that closes.

    Two quotes side by side are left out: whatever is around them, it stays inside or outside of a string.
    """
    if b"\\" in data:
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    return data.translate(_AS_BITS, _NOT_MARKS).replace(b'""', b"")


def _outside_strings(marks: bytes) -> bytes:
    if b'"' not in marks:
        return marks
    outside: list[bytes] = []
    is_inside = False
    # In parts, because each piece between two quotes is an object of its own for a moment.
    for at in range(0, len(marks), _PART_BYTES):
        pieces = marks[at : at + _PART_BYTES].split(b'"')
        outside.append(b"".join(pieces[is_inside::2]))
        is_inside ^= len(pieces) % 2 == 0
    return b"".join(outside)


def _opens_more(data: bytes, levels: int) -> bool:
    """Tell whether more brackets open than that, wherever they stand."""
    if len(data) <= _SHORT:
        return data.count(b"{") + data.count(b"[") > levels
    # In a long message, of which most is text, `find` is many times faster than `count`.
    for bracket in (b"{", b"["):
        at = data.find(bracket)
        while at >= 0:
            levels -= 1
            if levels < 0:
                return True
            at = data.find(bracket, at + 1)
    return False


def _unparsable(error: Exception) -> Invalid:
    return Invalid(None, ParseError(f"The message is not JSON: {error}"))


def _decode_refusal(envelope: _Envelope) -> ErrorResponse | Invalid:
    """Return what is neither a request, nor a notification, nor a result."""
    id = None if envelope.id is UNSET else envelope.id
    if envelope.error is not UNSET:
        return ErrorResponse(id, decode_error(envelope.error))
    if envelope.result is UNSET:
        return Invalid(id, InvalidRequest("A message needs a method, a result or an error"))
    return Invalid(None, InvalidRequest("A result needs the id of its request"), answer=False)


def decode_error(data: bytes | Raw) -> RpcError:
    """Return the error that a peer sent; a malformed one is an error all the same, so that nobody waits on."""
    try:
        error = _error_object.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return InternalError("The peer answered with a malformed error")
    return RpcError.of(error.code, error.message, error.data)


def _diagnose(data: bytes, misfit: msgspec.ValidationError) -> Invalid:
    """Say what is wrong with JSON that is no message, keeping its id where it has a readable one."""
    try:
        _any.decode(data)
        parts = _parts.decode(data)
    except msgspec.ValidationError:
        return Invalid(None, InvalidRequest("A message must be a JSON object; batches exist in 2025-03-26 only"))
    except (msgspec.DecodeError, RecursionError) as error:
        return _unparsable(error)
    is_response = "method" not in parts and ("result" in parts or "error" in parts)
    return Invalid(_readable_id(parts), InvalidRequest(f"Not a JSON-RPC 2.0 message: {misfit}"), answer=not is_response)


def _readable_id(parts: dict[str, Raw]) -> RequestId | None:
    try:
        return _request_id.decode(parts["id"]) if "id" in parts else None
    except msgspec.DecodeError:
        return None


def decode_batch(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Batch | Invalid | None:
    """Return the messages that an array holds (2025-03-26), or None if the bytes hold no array.

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
_UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)


def encode(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        ValidationError: it cannot be JSON: a lone surrogate, a cycle, an unknown type, an integer without end.
    """
    try:
        return _encoder.encode(value)
    except _UNENCODABLE as error:
        raise _unencodable(error) from None


def _unencodable(error: Exception) -> ValidationError:
    return ValidationError(f"The value cannot be sent as JSON: {error}")


def encode_request(id: RequestId, method: str, params: Any = NO_PARAMS) -> bytes:
    """Return the bytes of a request.

    Raises:
        ValidationError: the parameters cannot be JSON: what `encode` refuses, and numbers that are not finite.
    """
    try:
        data = _encoder.encode(_RequestOut(id, method, params))
    except _UNENCODABLE as error:
        raise _unencodable(error) from None
    if b"null" in data:
        _require_finite(params)
    return data


def _require_finite(params: Any) -> None:
    """Refuse NaN and infinity, which the encoder writes as null: the other side would take them for no value."""
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
    try:
        return _encoder.encode(_ResultOut(id, result))
    except _UNENCODABLE as error:
        raise _unencodable(error) from None


def encode_result_around(id: RequestId) -> tuple[bytes, bytes]:
    """Return the bytes of a response before its result, which is encoded already and need not be copied, and after."""
    whole = encode(_ResultOut(id, _NULL))
    return whole[: -len(b"null}")], b"}"


def encode_error(id: RequestId | None, error: RpcError, *, null_id: bool = False) -> bytes:
    """Return the bytes of an error response; an unknown id is left out, or null where the version wants it."""
    shown = UNSET if id is None and not null_id else id
    return encode(_ErrorOut(shown, _ErrorObject(error.code, error.message, error.data)))


def encode_batch(messages: list[bytes]) -> bytes:
    """Return the bytes of a batch of encoded messages."""
    return encode([Raw(message) for message in messages])
