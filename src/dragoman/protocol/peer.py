"""One end of a conversation: a duplex connection, or a session of the handshake era over HTTP.

Bytes come in through `receive`, or decoded messages through `accept`, and events go out. The machine keeps what both
directions need: the requests of the other side that are being served (no two with one id; a cancelled one is never
answered), our own requests that wait for an answer, each with a `waiter` that the caller chose and gets back, and the
progress tokens of these. A batch is answered as one message, in the order of its requests, when the last of them is
answered. What is to be written comes back as bytes, or None when there is nothing to write; lines are framed by the
transport.

A request is accepted, perhaps cancelled, and finished. Each state is a way to settle the answer, which is kept with the
request's id: None writes it as it is, a part of a batch gives it to the batch, `_Unwanted` drops it. A set of cancelled
ids beside the requests was rejected: the two had to be kept in step, and every answer had to look at both.
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
from dragoman.protocol.lines import LineDecoder, Oversized
from dragoman.protocol.versions import LATEST_HANDSHAKE, Version

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
INITIALIZE = "initialize"
MAX_ID_DIGITS = 15
"""Digits of an id that came back as text."""


T = TypeVar("T")
Answer = TypeVar("Answer", bound=bytes | tuple[bytes, Raw, bytes])

_cancelled = msgspec.json.Decoder(types.CancelledNotificationParams)
_progress = msgspec.json.Decoder(types.ProgressNotificationParams)


class Answered(Struct, frozen=True):
    """A request of ours has its outcome."""

    waiter: Any
    outcome: Raw | RpcError


class Progressed(Struct, frozen=True):
    """A request of ours has come further."""

    waiter: Any
    params: types.ProgressNotificationParams


class RequestCancelled(Struct, frozen=True):
    """The other side gave up a request that is being served; whatever comes of it is not sent."""

    id: types.RequestId
    reason: str | None


class PeerReply(Struct, frozen=True):
    """A message to write at once: the answer to what could not be served."""

    data: bytes


class Unmatched(Struct, frozen=True):
    """An answer to nothing that waits here, or a cancellation of what is not served here."""

    message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse | jsonrpc.Notification


Event = jsonrpc.Request | jsonrpc.Notification | Answered | Progressed | RequestCancelled | PeerReply | Unmatched


Settle = Callable[[bytes | None], bytes | None]
"""Takes the answer to a request, or None if it gets none, and returns what is to be written."""


class _Batch:
    """The answers of a batch, in the order of its messages, until the last is there."""

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


class _Unwanted(Struct, frozen=True):
    """Settles a request that was cancelled: with no answer, whatever comes of it."""

    settle: Settle | None

    def __call__(self, _: bytes | None) -> bytes | None:
        return None if self.settle is None else self.settle(None)


def _settle_unknown(_: bytes | None) -> bytes | None:
    """Answer nothing: the request is not served."""
    return None


def _settle_handshake(answer: bytes | None) -> bytes | None:
    """Answer `initialize`, which is part of no batch."""
    return answer


class Peer:
    """The state of one connection.

    Example:
        peer = Peer()
        for event in peer.receive(chunk):
            match event:
                case jsonrpc.Request(id, method, params):
                    write(peer.send_result(id, {}))
                case PeerReply(data):
                    write(data)

    `version` is what the handshake agreed on; set it when it did. `id_prefix` makes the ids of our requests strings
    that begin with it: a session over HTTP is served by several processes, and an answer must tell which of them asked.
    """

    __slots__ = ("_id_prefix", "_last_id", "_limits", "_lines", "_served", "_waiting", "tokens", "version")

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, id_prefix: str | None = None) -> None:
        self.version: Version = LATEST_HANDSHAKE
        self._limits = limits
        self._id_prefix = id_prefix
        self._last_id = 0
        self._lines = LineDecoder(limits.message_bytes)
        self._served: dict[types.RequestId, Settle | None] = {}
        self._waiting: dict[types.RequestId, Any] = {}
        self.tokens: dict[types.ProgressToken, Any] = {}
        """Who waits for progress under a token that is no id of ours; whoever sets one removes it."""

    @property
    def waiting(self) -> list[types.RequestId]:
        """The ids of our requests that have no answer yet."""
        return list(self._waiting)

    @property
    def waiters(self) -> list[Any]:
        """Whoever waits for an answer to a request of ours."""
        return list(self._waiting.values())

    def receive(self, chunk: bytes) -> list[Event]:
        """Return what a chunk of the stream brings; chunks may end anywhere."""
        return list(self.events(chunk))

    def events(self, chunk: bytes) -> Iterator[Event]:
        """Yield what a chunk brings, message by message: what is done about one holds for the next.

        An id that was answered meanwhile is free again, and a version that was agreed on is spoken.
        """
        return self._events(self._lines.receive(chunk))

    def receive_end(self) -> list[Event]:
        """Return what an unterminated last line brings at the end of the stream."""
        return list(self._events(self._lines.finish()))

    def _events(self, lines: list[bytes | Oversized]) -> Iterator[Event]:
        limits, served = self._limits, self._served
        for line in lines:
            if not isinstance(line, bytes):
                yield self._refuse(None, ParseError(f"A message must not have more than {limits.message_bytes} bytes"))
                continue
            message = jsonrpc.decode(line, limits)
            if type(message) is jsonrpc.Request and message.id not in served:
                served[message.id] = _settle_handshake if message.method == INITIALIZE else None
                yield message
            elif type(message) is jsonrpc.Invalid:
                yield from self._accept_invalid(message, line)
            elif (event := self.accept(message)) is not None:
                yield event

    def receive_message(self, data: bytes) -> list[Event]:
        """Return what one whole message brings."""
        message = jsonrpc.decode(data, self._limits)
        if type(message) is jsonrpc.Invalid:
            return self._accept_invalid(message, data)
        event = self.accept(message)
        return [] if event is None else [event]

    def accept(self, message: jsonrpc.Message, settle: Settle | None = None) -> Event | None:
        """Return what a decoded message brings, if anything; `settle` takes its answer where it is part of a batch."""
        # A Struct takes long to tell that something is no instance of it.
        if type(message) is jsonrpc.Request:
            if message.id not in self._served:
                self._served[message.id] = _settle_handshake if message.method == INITIALIZE else settle
                return message
            return self._refuse_in(settle, message.id, _in_use(message.id))
        if type(message) is jsonrpc.ResultResponse or type(message) is jsonrpc.ErrorResponse:
            id = message.id if message.id in self._waiting else self._meant(message.id)
            outcome = message.result if type(message) is jsonrpc.ResultResponse else message.error
            return Unmatched(message) if id is None else Answered(self._waiting.pop(id), outcome)
        if type(message) is jsonrpc.Notification:
            return self._accept_notification(message)
        if message.answer:
            return self._refuse_in(settle, message.id, message.error)
        if message.id not in self._waiting:
            return None
        malformed = InternalError(f"The answer is malformed: {message.error}")
        return Answered(self._waiting.pop(message.id), malformed)

    def refuse_id(self, id: types.RequestId) -> InvalidRequest | None:
        """Return why a request is refused whose id is in use, if it is; for who looks at more before it is accepted."""
        return _in_use(id) if id in self._served else None

    def _meant(self, id: types.RequestId | None) -> types.RequestId | None:
        """Return which request of ours an answer is for whose id came back as text, as some servers write it."""
        if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) <= MAX_ID_DIGITS:
            return number if (number := int(id)) in self._waiting else None
        return None

    def _accept_invalid(self, message: jsonrpc.Invalid, data: bytes) -> list[Event]:
        """Return what no message brings: that it is none, or what a batch brings where the version has those."""
        found = jsonrpc.decode_batch(data, self._limits) if self.version.batches else None
        if isinstance(found, jsonrpc.Batch):
            return self.accept_batch(found.messages)
        event = self.accept(found or message)
        return [] if event is None else [event]

    def accept_batch(self, messages: list[jsonrpc.Message]) -> list[Event]:
        """Return what a decoded batch brings; it is answered as one message when its last request is."""
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
        # SHOULD: "Ignore unknown/completed/malformed cancellations"; MUST NOT (2025-11-25): cancel initialize.
        if params is None or id is None:
            return None
        if id not in self._served:
            return Unmatched(notification)
        settle = self._served[id]
        if settle is _settle_handshake or isinstance(settle, _Unwanted):
            return None
        self._served[id] = _Unwanted(settle)
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
        """Return the answer to a request that was served, or None when it was cancelled or its batch still waits.

        Raises:
            ValidationError: the result cannot be JSON; the request is still to be answered.
        """
        return self.finish(id, jsonrpc.encode_result(id, result))

    def send_error(self, id: types.RequestId, error: RpcError) -> bytes | None:
        """Return the refusal of a request that was served, under the same rules.

        Raises:
            ValidationError: the error's data cannot be JSON; the request is still to be answered.
        """
        return self.finish(id, jsonrpc.encode_error(id, error))

    def finish(self, id: types.RequestId, answer: Answer | None) -> Answer | bytes | None:
        """End a request that was served; return what is to be written, if anything.

        The answer is encoded: as one message, or in parts, which are joined in a batch only. An empty one is not sent.
        """
        settle = self._served.pop(id, _settle_unknown)
        if settle is None:
            return answer or None
        return settle(b"".join(answer) if isinstance(answer, tuple) else answer)

    def next_id(self) -> types.RequestId:
        """Return an id that no request of ours has had."""
        self._last_id += 1
        return self._last_id if self._id_prefix is None else f"{self._id_prefix}{self._last_id}"

    def send_request(self, id: types.RequestId, method: str, params: Any, waiter: Any) -> bytes:
        """Return a request of ours, under an id from `next_id`, which is its progress token too.

        Raises:
            ValidationError: the parameters cannot be JSON; nothing waits.
        """
        data = jsonrpc.encode_request(id, method, params)
        self._waiting[id] = waiter
        return data

    def cancel(self, id: types.RequestId, reason: str | None = None) -> bytes | None:
        """Give up a request of ours; return the notification that says so, or None when it was answered already."""
        if id not in self._waiting:
            return None
        del self._waiting[id]
        return jsonrpc.encode_notification(CANCELLED, types.CancelledNotificationParams(id, reason))

    def abandon(self) -> list[Any]:
        """Return the waiters of our requests, which no answer will reach, and forget them."""
        waiters = self.waiters
        self._waiting.clear()
        return waiters

    def close(self) -> list[Any]:
        """Forget everything; return the waiters of our requests, which no answer will reach."""
        self._served.clear()
        return self.abandon()


def _in_use(id: types.RequestId) -> InvalidRequest:
    return InvalidRequest(f"The request id {id!r} is in use by a request that is still served")


def _unless_handshake(message: jsonrpc.Message) -> jsonrpc.Message:
    """Return a message of a batch, or what says that it must not be part of one."""
    if type(message) is jsonrpc.Request and message.method == INITIALIZE:
        return jsonrpc.Invalid(message.id, InvalidRequest("initialize must not be part of a batch"))
    return message


def _lenient(params: msgspec.json.Decoder[T], raw: Raw) -> T | None:
    try:
        return params.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
