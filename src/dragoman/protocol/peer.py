"""One side of a duplex connection, or of an HTTP session of the handshake era: ids, responses, cancellation.

`events` receives bytes, `accept` receives a decoded message, and both give events. A `Peer` keeps two tables:

- requests of the other side that this side serves. Their ids are unique. A cancelled request gets no response.
- requests of this side that wait for a response. Each has a `waiter`: an object that the caller passes in and gets back
  with the response. The id of the request is also its progress token.

A batch gets one response, in the order of its requests, when the last request is finished. Methods that send return the
bytes to write, or None if there is nothing to write. The transport adds the newline.

A served request has the states accepted, cancelled and finished. The first table maps the id of a request to the
function that settles its response. The function stands for the state:

    None                  accepted; the response is written unchanged
    `_Batch.settle`       accepted in a batch; the batch collects the response
    `_settle_handshake`   an accepted `initialize`, which cannot be cancelled
    `_SettleCancelled`    cancelled; the response is dropped

`finish` ends the request: it removes the id from the table.

Rejected: a separate set of cancelled ids. The set and the table had to agree, and every response needed two lookups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import InternalError, InvalidRequest, ParseError, RpcError
from dragoman.protocol import jsonrpc
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.lines import LineDecoder
from dragoman.protocol.versions import LATEST_HANDSHAKE, Version

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
INITIALIZE = "initialize"
MAX_ID_DIGITS = 15
"""Some servers return an integer id as a string. A string of at most this many digits is read as the integer."""

T = TypeVar("T")

_cancelled = msgspec.json.Decoder(types.CancelledNotificationParams)
_progress = msgspec.json.Decoder(types.ProgressNotificationParams)


class Answered(Struct, frozen=True):
    """A request of this side has its response, or fails."""

    waiter: Any
    outcome: Raw | Exception


class Progressed(Struct, frozen=True):
    """A request of this side made progress."""

    waiter: Any
    params: types.ProgressNotificationParams


class RequestCancelled(Struct, frozen=True):
    """The other side cancelled a request that is being served; its response will not be sent."""

    id: types.RequestId
    reason: str | None


class PeerReply(Struct, frozen=True):
    """An error response to write at once, for a message that cannot be served."""

    data: bytes


class Unmatched(Struct, frozen=True):
    """A response to no waiting request, or a cancellation of a request that is not being served."""

    message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse | jsonrpc.Notification


Event = jsonrpc.Request | jsonrpc.Notification | Answered | Progressed | RequestCancelled | PeerReply | Unmatched


Settle = Callable[[bytes | None], bytes | None]
"""Called with the response to a request, or None if the request gets no response; returns the bytes to write."""


class _Batch:
    """Collects the responses of a batch, in the order of its messages, until the last has arrived."""

    def __init__(self, messages: list[jsonrpc.Message]) -> None:
        self._answers: list[bytes | None] = [None] * len(messages)
        self._left = sum(
            type(one) is jsonrpc.Request or (type(one) is jsonrpc.Invalid and one.answer) for one in messages
        )

    def settle(self, position: int, answer: bytes | None) -> bytes | None:
        self._answers[position] = answer or None
        self._left -= 1
        given = [] if self._left else [answer for answer in self._answers if answer is not None]
        return jsonrpc.encode_batch(given) if given else None


class _SettleCancelled(Struct, frozen=True):
    """Drops the response to a cancelled request."""

    settle: Settle | None

    def __call__(self, _: bytes | None) -> bytes | None:
        return None if self.settle is None else self.settle(None)


def _settle_unknown(_: bytes | None) -> bytes | None:
    """Drop the response to a request that is not being served."""
    return None


def _settle_handshake(answer: bytes | None) -> bytes | None:
    """Return the response to `initialize`, which is never part of a batch and cannot be cancelled."""
    return answer


class Peer:
    """The state of one connection or session.

    Example:
        peer = Peer()
        for event in peer.events(chunk):
            match event:
                case jsonrpc.Request(id, method, params):
                    write(peer.send_result(id, {}))
                case PeerReply(data):
                    write(data)

    Set `version` when the handshake has agreed on one. `make_id` makes the ids of this side's requests out of their
    numbers: several processes may serve one session over HTTP, and the id in a response names the process that sent the
    request.
    """

    __slots__ = ("_last_id", "_limits", "_lines", "_make_id", "_served", "_waiting", "tokens", "version")

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, make_id: Callable[[int], str] | None = None) -> None:
        self.version: Version = LATEST_HANDSHAKE
        self._limits = limits
        self._make_id = make_id
        self._last_id = 0
        self._lines = LineDecoder(limits.message_bytes)
        self._served: dict[types.RequestId, Settle | None] = {}
        self._waiting: dict[types.RequestId, Any] = {}
        self.tokens: dict[types.ProgressToken, Any] = {}
        """Waiters by progress tokens that are not ids of this side; the code that adds a token removes it."""

    @property
    def waiting(self) -> list[types.RequestId]:
        """The ids of this side's requests that wait for a response."""
        return list(self._waiting)

    @property
    def waiters(self) -> list[Any]:
        """The waiters of this side's requests that wait for a response."""
        return list(self._waiting.values())

    def events(self, chunk: bytes | None) -> Iterator[Event]:
        """Yield the events of a chunk of the stream, which may end anywhere; None is the end of the stream.

        The generator accepts each message after the caller has handled the previous event. So the caller can finish a
        request, which frees its id, or set the version, before the next message is accepted. An unterminated last line
        counts as a message.
        """
        for line in self._lines.finish() if chunk is None else self._lines.receive(chunk):
            if type(line) is not bytes:
                yield self._refuse(
                    None, ParseError(f"A message must not have more than {self._limits.message_bytes} bytes")
                )
            else:
                yield from self.receive_message(line)

    def receive_message(self, data: bytes) -> list[Event]:
        """Return the events of one message or batch."""
        message = jsonrpc.decode(data, self._limits)
        if type(message) is jsonrpc.Invalid:
            return self.accept_invalid(message, data)
        event = self.accept(message)
        return [] if event is None else [event]

    def accept(self, message: jsonrpc.Message, settle: Settle | None = None) -> Event | None:
        """Return the event of a decoded message, if any; `settle` receives the response to a message of a batch."""
        # `isinstance` with a Struct is slow if the answer is no.
        if type(message) is jsonrpc.Request:
            if message.id not in self._served:
                self._served[message.id] = _settle_handshake if message.method == INITIALIZE else settle
                return message
            return self._refuse_in(settle, message.id, _in_use(message.id))
        if type(message) is jsonrpc.ResultResponse or type(message) is jsonrpc.ErrorResponse:
            id = message.id if message.id in self._waiting else self._waiting_under_text(message.id)
            outcome = message.result if type(message) is jsonrpc.ResultResponse else message.error
            return Unmatched(message) if id is None else Answered(self._waiting.pop(id), outcome)
        if type(message) is jsonrpc.Notification:
            return self._accept_notification(message)
        if message.answer:
            return self._refuse_in(settle, message.id, message.error)
        return self.fail(message.id, InternalError(f"The answer is malformed: {message.error}"))

    def fail(self, id: types.RequestId | None, error: Exception) -> Answered | None:
        """Return the event that ends a request of this side with an error, None if no request of that id waits."""
        return Answered(self._waiting.pop(id), error) if id in self._waiting else None

    def refuse_id(self, id: types.RequestId) -> InvalidRequest | None:
        """Return the error for a request whose id is in use, None if the id is free; does not accept the request."""
        return _in_use(id) if id in self._served else None

    def _waiting_under_text(self, id: types.RequestId | None) -> types.RequestId | None:
        """Return the integer id of the waiting request that a response names by a string, None if there is none."""
        if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) <= MAX_ID_DIGITS:
            return number if (number := int(id)) in self._waiting else None
        return None

    def accept_invalid(self, message: jsonrpc.Invalid, data: bytes) -> list[Event]:
        """Return the events of a batch, if the version has batches, else the event of an invalid message."""
        found = jsonrpc.decode_batch(data, self._limits) if self.version.batches else None
        if isinstance(found, jsonrpc.Batch):
            return self.accept_batch(found.messages)
        event = self.accept(found or message)
        return [] if event is None else [event]

    def accept_batch(self, messages: list[jsonrpc.Message]) -> list[Event]:
        """Return the events of a decoded batch."""
        batch = _Batch(messages)
        events = [
            self.accept(_unless_handshake(message), partial(batch.settle, position))
            for position, message in enumerate(messages)
        ]
        return [event for event in events if event is not None]

    def _accept_notification(self, notification: jsonrpc.Notification) -> Event | None:
        if notification.method == CANCELLED:
            return self._accept_cancelled(notification)
        if notification.method == PROGRESS:
            return self._accept_progress(notification.params)
        return notification

    def _accept_cancelled(self, notification: jsonrpc.Notification) -> RequestCancelled | Unmatched | None:
        params = _lenient(_cancelled, notification.params)
        id = None if params is None else params.request_id
        # SHOULD (all versions): "Ignore unknown/completed/malformed cancellations".
        # MUST NOT (2025-11-25): cancel initialize.
        if params is None or id is None:
            return None
        if id not in self._served:
            return Unmatched(notification)
        settle = self._served[id]
        if settle is _settle_handshake or isinstance(settle, _SettleCancelled):
            return None
        self._served[id] = _SettleCancelled(settle)
        return RequestCancelled(id, params.reason)

    def _accept_progress(self, raw: Raw) -> Progressed | None:
        params = _lenient(_progress, raw)
        token = None if params is None else params.progress_token
        waiter = self._waiting.get(token, self.tokens.get(token)) if token is not None else None
        return None if params is None or waiter is None else Progressed(waiter, params)

    def _refuse(self, id: types.RequestId | None, error: RpcError) -> PeerReply:
        return PeerReply(jsonrpc.encode_error(id, error, null_id=not self.version.omits_unknown_id))

    def _refuse_in(self, settle: Settle | None, id: types.RequestId | None, error: RpcError) -> PeerReply | None:
        reply = self._refuse(id, error)
        if settle is None:
            return reply
        answers = settle(reply.data)
        return None if answers is None else PeerReply(answers)

    def send_result(self, id: types.RequestId, result: Any) -> bytes | None:
        """Return the bytes of a result, None if the request was cancelled or its batch is not complete.

        Raises:
            ValidationError: JSON has no form for the result; the request still needs a response.
        """
        return self.finish(id, jsonrpc.encode_result(id, result))

    def send_error(self, id: types.RequestId, error: RpcError) -> bytes | None:
        """Return the bytes of an error response, under the same rules as `send_result`.

        Raises:
            ValidationError: JSON has no form for the data of the error; the request still needs a response.
        """
        return self.finish(id, jsonrpc.encode_error(id, error))

    def finish(self, id: types.RequestId, answer: bytes | None) -> bytes | None:
        """End a request that was served, and return the bytes to write, if any; an empty answer is not sent."""
        settle = self._served.pop(id, _settle_unknown)
        if settle is None:
            return answer or None
        return settle(answer)

    def next_id(self) -> types.RequestId:
        """Return an id that no request of this side has had, and that is no progress token in use: an id is one too."""
        while True:
            self._last_id += 1
            id = self._last_id if self._make_id is None else self._make_id(self._last_id)
            if id not in self.tokens:
                return id

    def send_request(self, id: types.RequestId, method: str, params: Any, waiter: Any) -> bytes:
        """Return the bytes of a request with an id from `next_id`, and keep its waiter.

        Raises:
            ValidationError: JSON has no form for the parameters; the waiter is not kept.
        """
        data = jsonrpc.encode_request(id, method, params)
        self._waiting[id] = waiter
        return data

    def cancel(self, id: types.RequestId, reason: str | None = None) -> bytes | None:
        """Cancel a request of this side; return the notification to write, None if the request has its response."""
        if id not in self._waiting:
            return None
        del self._waiting[id]
        return jsonrpc.encode_notification(CANCELLED, types.CancelledNotificationParams(id, reason))

    def abandon(self) -> list[Any]:
        """Remove and return the waiters of this side's requests, which will get no response."""
        waiters = self.waiters
        self._waiting.clear()
        return waiters

    def close(self) -> list[Any]:
        """Remove all requests; return the waiters of this side's requests, which will get no response."""
        self._served.clear()
        return self.abandon()


def _in_use(id: types.RequestId) -> InvalidRequest:
    return InvalidRequest(f"The request id {id!r} is in use by a request that is still served")


def _unless_handshake(message: jsonrpc.Message) -> jsonrpc.Message:
    """Return a message of a batch, or an `Invalid` in the place of `initialize`, which a batch must not hold."""
    if type(message) is jsonrpc.Request and message.method == INITIALIZE:
        return jsonrpc.Invalid(message.id, InvalidRequest("initialize must not be part of a batch"))
    return message


def _lenient(params: msgspec.json.Decoder[T], raw: Raw) -> T | None:
    try:
        return params.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
